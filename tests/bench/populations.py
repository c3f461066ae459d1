"""Named populations with a known calibration error, and evaluation data drawn from them, many draws at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special


def middles(n_bins: int) -> Any:
    return (np.arange(n_bins) + 0.5) / n_bins


@dataclass(frozen=True, eq=False)
class Rows:
    """Independent rows in bins of share w, where the model says u and p is true."""

    n: int
    u: Any
    p: Any
    w: Any

    @property
    def theta(self) -> float:
        return float(self.w @ (self.u - self.p) ** 2)

    @property
    def n_bins(self) -> int:
        return len(self.u)

    @property
    def fewest(self) -> float:
        """Rows that the smallest bin expects."""
        return float(self.n * self.w.min())

    def draw(self, rng: np.random.Generator, n_draws: int) -> tuple[Any, Any]:
        """Counts and positives, shape (n_draws, B)."""
        counts = rng.multinomial(self.n, self.w, size=n_draws)
        return counts, rng.binomial(counts, self.p)


def even(n: int, u: Any, p: Any) -> Rows:
    return Rows(n, np.asarray(u), np.clip(p, 0, 1), np.full(len(u), 1 / len(u)))


def rare(n_bins: int, n: int, rows: float, u: float, p: float) -> Rows:
    """All bins right but the last, which expects ``rows`` rows and says u where p is true."""
    values, chances, shares = middles(n_bins), middles(n_bins), np.full(n_bins, (n - rows) / (n_bins - 1) / n)
    values[-1], chances[-1], shares[-1] = u, p, rows / n
    return Rows(n, values, chances, shares)


def _alternating(n_bins: int) -> Any:
    return (-1.0) ** np.arange(n_bins)


def _single(n_bins: int, error: float) -> Any:
    p = middles(n_bins)
    p[n_bins // 2] = np.clip(p[n_bins // 2] + error, 0, 1)
    return p


def _skewed(n_bins: int, prior: float) -> Any:
    """Rates of a rare class: geometric from prior / 10 to ten times the prior at most."""
    return np.geomspace(prior / 10, min(0.9, prior * 10), n_bins)


def rows_settings() -> dict[str, Rows]:
    """Settings of independent rows; every bin expects at least 10 of them."""
    settings: dict[str, Rows] = {}
    for n_bins, n in ((5, 50), (5, 200), (10, 100), (10, 1_000), (10, 20_000), (20, 400), (50, 1_000), (100, 2_000)):
        settings[f"calibrated, B {n_bins}, n {n}"] = even(n, middles(n_bins), middles(n_bins))
    settings["calibrated, B 100, n 20000"] = even(20_000, middles(100), middles(100))
    for n_bins, n in ((5, 100), (10, 500), (10, 5_000), (100, 2_000)):
        settings[f"constant .05, B {n_bins}, n {n}"] = even(n, middles(n_bins), middles(n_bins) + 0.05)
        settings[f"alternating .1, B {n_bins}, n {n}"] = even(
            n, middles(n_bins), middles(n_bins) + 0.1 * _alternating(n_bins)
        )
    for n_bins, n, error in ((5, 100, 0.3), (10, 1_000, 0.2), (10, 200, -0.4), (50, 2_000, 0.3), (100, 20_000, 0.2)):
        settings[f"one bin off by {error}, B {n_bins}, n {n}"] = even(n, middles(n_bins), _single(n_bins, error))
    for n_bins, n, slope in ((10, 500, 0.5), (10, 5_000, 0.8), (20, 1_000, 0.7), (100, 20_000, 0.9)):
        settings[f"proportional, slope {slope}, B {n_bins}, n {n}"] = even(
            n, middles(n_bins), 0.5 + slope * (middles(n_bins) - 0.5)
        )
    for n_bins, n, prior in ((10, 1_000, 0.01), (10, 1_000, 0.05), (20, 10_000, 0.01), (100, 20_000, 0.02)):
        rates = _skewed(n_bins, prior)
        settings[f"rare class {prior}, calibrated, B {n_bins}, n {n}"] = even(n, rates, rates)
        settings[f"rare class {prior}, half the truth, B {n_bins}, n {n}"] = even(n, rates / 2, rates)
    for n_bins, n, rows, u, p in (
        (2, 20_000, 12, 0.99, 0.4),
        (10, 500, 10, 1.0, 0.5),
        (10, 1_000, 10, 0.9, 0.1),
        (10, 1_000, 20, 0.95, 0.6),
        (10, 20_000, 10, 0.9, 0.2),
        (50, 2_000, 10, 0.05, 0.9),
        (100, 2_000, 10, 0.9, 0.1),
        (100, 20_000, 15, 0.99, 0.5),
    ):
        settings[f"rare bin of {rows} rows says {u} for {p}, B {n_bins}, n {n}"] = rare(n_bins, n, rows, u, p)
    settings["certain labels, B 2, n 500"] = even(500, np.array([0.02, 0.98]), np.array([0.0, 1.0]))
    settings["one bin, n 100"] = even(100, np.array([0.5]), np.array([0.6]))
    return settings


def thin_settings() -> dict[str, Rows]:
    """Settings in which some bin expects fewer than 10 rows; the gate has a word for most of them."""
    return {
        "calibrated, B 10, n 60": even(60, middles(10), middles(10)),
        "constant .05, B 100, n 700": even(700, middles(100), middles(100) + 0.05),
        "calibrated, B 100, n 400": even(400, middles(100), middles(100)),
        "rare bin of 1 row says .95 for .3, B 10, n 1000": rare(10, 1_000, 1, 0.95, 0.3),
        "rare bin of 3 rows says .95 for .05, B 10, n 1000": rare(10, 1_000, 3, 0.95, 0.05),
        "rare bin of 5 rows says .9 for .1, B 50, n 5000": rare(50, 5_000, 5, 0.9, 0.1),
        "rare bin of 8 rows says 1 for .2, B 2, n 300": rare(2, 300, 8, 1.0, 0.2),
    }


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows in groups; the rate of a group's bin is beta with mean p and precision kappa, all bins of a group as one."""

    n_groups: int
    sigma: float  # of the logarithm of the groups' sizes; 0: equal
    p: Any
    kappa: float
    rows_a_group: int

    @property
    def u(self) -> Any:
        return middles(len(self.p))

    @property
    def n_bins(self) -> int:
        return len(self.p)

    @property
    def n(self) -> int:
        return self.n_groups * self.rows_a_group

    @property
    def fewest(self) -> float:
        return self.n / self.n_bins

    @property
    def theta(self) -> float:
        return float(np.mean((self.u - self.p) ** 2))

    def draw(self, rng: np.random.Generator, n_draws: int) -> tuple[Any, Any]:
        """Counts and positives of each group and bin, shape (n_draws, G, B)."""
        shape = (n_draws, self.n_groups)
        sizes = np.maximum(1, np.rint(self.rows_a_group * np.exp(self.sigma * rng.normal(size=shape)))).astype(int)
        counts = rng.multinomial(sizes, np.full(self.n_bins, 1 / self.n_bins))
        rates = self._rates()[rng.integers(2_000, size=shape)]
        return counts, rng.binomial(counts, rates)

    def _rates(self) -> Any:
        quantiles = (np.arange(2_000)[:, np.newaxis] + 0.5) / 2_000
        return special.betaincinv(self.p * self.kappa, (1 - self.p) * self.kappa, quantiles)


def group_settings() -> dict[str, Groups]:
    right, off, over = middles(10), 0.9 * middles(10) + 0.1, 0.2 + 0.6 * middles(10)
    return {
        "30 equal groups, calibrated": Groups(30, 0.0, right, 30.0, 50),
        "100 equal groups, calibrated": Groups(100, 0.0, right, 30.0, 50),
        "30 equal groups, off by up to .1": Groups(30, 0.0, off, 10.0, 200),
        "30 equal groups, over-confident": Groups(30, 0.0, over, 30.0, 50),
        "100 equal groups, over-confident": Groups(100, 0.0, over, 10.0, 50),
        "30 equal groups hardly related, calibrated": Groups(30, 0.0, right, 1_000.0, 50),
        "30 groups, sigma .5, calibrated": Groups(30, 0.5, right, 30.0, 50),
        "30 groups, sigma .5, over-confident": Groups(30, 0.5, over, 30.0, 50),
        "30 groups, sigma 1, calibrated": Groups(30, 1.0, right, 30.0, 50),
        "100 groups, sigma 1, off by up to .1": Groups(100, 1.0, off, 10.0, 50),
        "30 groups, sigma 1, over-confident": Groups(30, 1.0, over, 30.0, 50),
        "30 groups, sigma 1.5, off by up to .1": Groups(30, 1.5, off, 10.0, 200),
        "100 groups, sigma 1.5, calibrated": Groups(100, 1.5, right, 30.0, 50),
    }


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows of K classes, each of one pattern: a bin in every class and a probability of every class.

    The classes depend: their bins through the patterns, their labels because a row has exactly one.
    """

    n: int
    u: Any  # (K, B)
    bins: Any  # (P, K)
    chances: Any  # (P, K), rows sum to one
    w: Any  # (P,)

    @property
    def n_classes(self) -> int:
        return int(self.bins.shape[1])

    @property
    def n_bins(self) -> int:
        return int(self.u.shape[1])

    @property
    def masses(self) -> Any:
        """Share of each class's bins, shape (K, B)."""
        return np.stack([np.bincount(self.bins[:, k], self.w, self.n_bins) for k in range(self.n_classes)])

    @property
    def fewest(self) -> float:
        return float(self.n * self.masses.min())

    @property
    def theta(self) -> float:
        positives = np.stack(
            [np.bincount(self.bins[:, k], self.w * self.chances[:, k], self.n_bins) for k in range(self.n_classes)]
        )
        masses = self.masses
        return float((masses * (self.u - positives / masses) ** 2).sum() / self.n_classes)

    def cells(self, rng: np.random.Generator, n_draws: int) -> Any:
        """Rows of each pattern and label, shape (n_draws, P, K)."""
        probabilities = (self.w[:, np.newaxis] * self.chances).ravel()
        drawn = rng.multinomial(self.n, probabilities / probabilities.sum(), size=n_draws)
        return drawn.reshape(n_draws, *self.chances.shape)


def classes(n: int, n_bins: int, chances: Any, error: Any = 0.0) -> Classes:
    """Uniform-mass bins of each class's probability; what the model says is the truth plus ``error``, (K, B)."""
    n_patterns, n_classes = chances.shape
    order = chances.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    bins = order * n_bins // n_patterns
    truth = np.stack([np.bincount(bins[:, k], chances[:, k]) / np.bincount(bins[:, k]) for k in range(n_classes)])
    return Classes(n, np.clip(truth + error, 0, 1), bins, chances, np.full(n_patterns, 1 / n_patterns))


def simplex(n_classes: int, concentration: float, n_patterns: int = 100, seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.full(n_classes, concentration), size=n_patterns)


def twins(n_classes: int, n_patterns: int = 100) -> Any:
    """Labels that only ever fall on the first two classes or, rarely, elsewhere: strongly dependent classes."""
    first = np.random.default_rng(1).beta(1, 1, size=n_patterns)
    rest = np.full((n_patterns, n_classes - 2), 0.02 / (n_classes - 2)) * np.linspace(0.5, 1.5, n_patterns)[:, None]
    left = 1 - rest.sum(axis=1)
    return np.column_stack([first * left, (1 - first) * left, rest])


def rare_pattern(n: int, n_bins: int, rows: float, n_classes: int) -> Classes:
    """Right everywhere but for rare rows, on which the first class is said to be sure and the second one is it."""
    others = np.full(n_classes - 2, 0.05 / max(n_classes - 2, 1))
    chances = np.vstack([simplex(n_classes, 0.5), np.r_[0.1, 0.85, others]])
    chances[-1] /= chances[-1].sum()
    usual = classes(n, n_bins - 1, chances[:-1])
    bins = np.vstack([usual.bins, np.full(n_classes, n_bins - 1)])
    said = np.r_[0.9, 0.05, chances[-1, 2:]]
    w = np.r_[np.full(len(usual.bins), (1 - rows / n) / len(usual.bins)), rows / n]
    return Classes(n, np.column_stack([usual.u, said]), bins, chances, w)


def _error_in(n_classes: int, n_bins: int, where: dict[tuple[int, int], float]) -> Any:
    error = np.zeros((n_classes, n_bins))
    for place, size in where.items():
        error[place] = size
    return error


def class_settings() -> dict[str, Classes]:
    flip = _alternating(10)
    return {
        "K 2, calibrated, B 10, n 1000": classes(1_000, 10, simplex(2, 1.0)),
        "K 2, calibrated, B 10, n 100": classes(100, 10, simplex(2, 1.0)),
        "K 2, mirrored errors of .1, B 10, n 500": classes(500, 10, simplex(2, 1.0), np.outer([1, -1], flip) * 0.1),
        "K 2, one bin off by .4 in both, B 10, n 200": classes(
            200, 10, simplex(2, 1.0), _error_in(2, 10, {(0, 2): 0.4, (1, 7): -0.4})
        ),
        "K 2, rare rows badly wrong, B 5, n 2000": rare_pattern(2_000, 5, 10, 2),
        "K 3, rare rows badly wrong, B 10, n 1000": rare_pattern(1_000, 10, 10, 3),
        "K 10, rare rows badly wrong, B 10, n 1000": rare_pattern(1_000, 10, 10, 10),
        "K 10, rare rows badly wrong, B 5, n 10000": rare_pattern(10_000, 5, 20, 10),
        "K 3, calibrated, B 10, n 1000": classes(1_000, 10, simplex(3, 1.0)),
        "K 3, calibrated, B 20, n 400": classes(400, 20, simplex(3, 0.5)),
        "K 3, alternating .1, B 10, n 500": classes(500, 10, simplex(3, 1.0), 0.1 * flip),
        "K 3, one class off by .15, B 10, n 500": classes(
            500, 10, simplex(3, 1.0), np.outer([0.15, 0, 0], np.ones(10))
        ),
        "K 3, twin classes off, rare third, B 5, n 1000": classes(
            1_000, 5, twins(3), np.outer([0.1, -0.1, 0], np.ones(5))
        ),
        "K 3, one bin of one class off by .5, B 10, n 150": classes(
            150, 10, simplex(3, 1.0), _error_in(3, 10, {(0, 1): 0.5})
        ),
        "K 10, calibrated, B 10, n 1000": classes(1_000, 10, simplex(10, 0.5)),
        "K 10, calibrated, B 10, n 100": classes(100, 10, simplex(10, 0.5)),
        "K 10, constant .03, B 10, n 1000": classes(1_000, 10, simplex(10, 0.3), 0.03),
        "K 10, alternating .05, B 10, n 5000": classes(5_000, 10, simplex(10, 0.3), 0.05 * flip),
        "K 10, twin classes off by .2, B 10, n 500": classes(
            500, 10, twins(10), np.outer([0.2, -0.2, *[0] * 8], np.ones(10))
        ),
        "K 10, one bin of one class off by .6, B 10, n 200": classes(
            200, 10, simplex(10, 0.3), _error_in(10, 10, {(0, 3): 0.6})
        ),
        "K 10, over-confident peaks, B 10, n 2000": classes(
            2_000, 10, simplex(10, 0.1), np.outer(np.ones(10), np.linspace(-0.02, 0.1, 10))
        ),
    }


def chunks(total: int, size: int) -> Iterator[int]:
    """Sizes that add up to ``total``."""
    for start in range(0, total, size):
        yield min(size, total - start)
