"""Two models on the same rows with known differences of their errors, and the bounds of the paired comparisons.

Vectorised over draws from the core's own functions; ``rows_of`` expands one draw into rows for the public forms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from mlflow_calib.core.bound_terms import BoundTerms, one_sided_quantile, row_terms
from mlflow_calib.core.error_statistics import debiased_squared_of
from mlflow_calib.core.jackknife import N_BLOCKS, jackknife_error
from mlflow_calib.core.paired import ALIKE_SHARE, unskewed
from mlflow_calib.core.paired_error import RootBounds, own_level, root_difference_upper, squares_quantile
from mlflow_calib.core.status import ENOUGH_GROUPS
from tests.bench.coverage import group_terms_of_draws
from tests.bench.populations import chunks, middles

LEVEL = 0.95
WHAT = ("mse", "log_loss", "calibration_error")
#: Rows differ in which of so many patterns they show; each has its own rate.
N_PATTERNS = 24
RATES = middles(N_PATTERNS)


@dataclass(frozen=True, eq=False)
class Model:
    """Bin of each pattern, and what the model says in each bin."""

    bins: Any
    u: Any

    @property
    def n_bins(self) -> int:
        return len(self.u)

    @property
    def outputs(self) -> Any:
        """What it says of each pattern."""
        return self.u[self.bins]

    @property
    def root(self) -> float:
        truth = np.bincount(self.bins, RATES) / np.bincount(self.bins)
        return float(np.sqrt(np.bincount(self.bins) / N_PATTERNS @ (self.u - truth) ** 2))


def model(n_bins: int, error: Any = 0.0) -> Model:
    """Right but for ``error``, which is added to the rate of each bin."""
    bins = np.arange(N_PATTERNS) * n_bins // N_PATTERNS
    truth = np.bincount(bins, RATES) / np.bincount(bins)
    return Model(bins, np.clip(truth + error, 0.005, 0.995))


def alternating(n_bins: int, error: float) -> Model:
    return model(n_bins, error * (-1.0) ** np.arange(n_bins))


@dataclass(frozen=True, eq=False)
class Pair:
    """A candidate and a champion; rows are independent, or in groups whose rates move together."""

    candidate: Model
    champion: Model
    n: int = 0
    n_groups: int | None = None
    sigma: float = 0.0
    rows_a_group: int = 0
    kappa: float = 30.0

    @property
    def truth(self) -> dict[str, float]:
        """Candidate minus champion, of each figure."""
        losses = {what: _expected(self.loss_table(what)) for what in WHAT[:2]}
        return {**losses, "calibration_error": self.candidate.root - self.champion.root}

    def loss_table(self, what: str) -> Any:
        """Difference of the losses of a row, by pattern and label: shape (P, 2)."""
        p, q = self.candidate.outputs, self.champion.outputs
        if what == "mse":
            return np.stack([p**2 - q**2, (1 - p) ** 2 - (1 - q) ** 2], axis=1)
        return np.stack([np.log1p(-q) - np.log1p(-p), np.log(q) - np.log(p)], axis=1)

    def draw(self, rng: np.random.Generator, n_draws: int) -> tuple[Any, Any]:
        """Rows and positives of each block (of rows, or group) and pattern, shape (draws, G, P)."""
        share = np.full(N_PATTERNS, 1 / N_PATTERNS)
        if self.n_groups is None:
            # Row by row: as many random numbers as there are rows, not as there are cells.
            cells = rng.integers(N_BLOCKS * N_PATTERNS, size=(n_draws, self.n), dtype=np.int32)
            happened = rng.random(cells.shape, dtype=np.float32) < RATES[cells % N_PATTERNS].astype(np.float32)
            cells += N_BLOCKS * N_PATTERNS * np.arange(n_draws, dtype=np.int32)[:, np.newaxis]
            table = (n_draws, N_BLOCKS, N_PATTERNS)
            counts = np.bincount(cells.ravel(), minlength=math.prod(table)).reshape(table)
            return counts, np.bincount(cells[happened], minlength=math.prod(table)).reshape(table)
        shape = (n_draws, self.n_groups)
        sizes = np.maximum(1, np.rint(self.rows_a_group * np.exp(self.sigma * rng.normal(size=shape)))).astype(int)
        counts = rng.multinomial(sizes, share)
        return counts, rng.binomial(counts, self._rates[rng.integers(1_000, size=shape)])

    @cached_property
    def _rates(self) -> Any:
        quantiles = (np.arange(1_000)[:, np.newaxis] + 0.5) / 1_000
        return special.betaincinv(RATES * self.kappa, (1 - RATES) * self.kappa, quantiles)


def _expected(table: Any) -> float:
    return float(np.mean((1 - RATES) * table[:, 0] + RATES * table[:, 1]))


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Lower and upper bounds of one comparison over draws, and where the gate lets them decide."""

    lower: Any
    upper: Any
    usable: Any

    def shares(self, limit: float) -> tuple[float, float]:
        """Share of draws that pass, and that fail."""
        passed = self.usable & (self.upper <= limit)
        return float(passed.mean()), float((self.usable & ~passed & (self.lower > limit)).mean())


def simulate(pair: Pair, n_draws: int, seed: int = 0) -> dict[str, PairBounds]:
    """Bounds of all three comparisons over many draws."""
    rng = np.random.default_rng([seed, 4])
    parts: dict[str, list[PairBounds]] = {what: [] for what in WHAT}
    for size in chunks(n_draws, 250):
        counts, positives = (table.astype(np.float64) for table in pair.draw(rng, size))
        for what, bounds in bounds_of(pair, counts, positives).items():
            parts[what].append(bounds)
    return {what: _joined(found) for what, found in parts.items()}


def _joined(found: list[PairBounds]) -> PairBounds:
    return PairBounds(*(np.concatenate([getattr(one, name) for one in found]) for name in ("lower", "upper", "usable")))


def bounds_of(pair: Pair, counts: Any, positives: Any) -> dict[str, PairBounds]:
    """Bounds of all three comparisons; tables of shape (draws, G, P)."""
    found = {}
    for what in WHAT[:2]:
        mean, error, free, skewness = _loss_moments(pair, pair.loss_table(what), counts, positives)
        quantile, skewness = one_sided_quantiles(free), skewness if what == "log_loss" else 0.0
        lower, upper = (mean - unskewed(side * quantile, skewness) * error for side in (1, -1))
        found[what] = PairBounds(lower, upper, _enough_groups(pair, free + 1))
    found["calibration_error"] = _error_bounds(pair, counts, positives)
    return found


def _enough_groups(pair: Pair, effective: Any) -> Any:
    """Where the gate lets a mean difference decide: by row always, by group with 20 effective ones, or equal ones."""
    if pair.n_groups is None:
        return np.full(len(effective), True)
    return effective >= min(ENOUGH_GROUPS, ALIKE_SHARE * pair.n_groups)


def one_sided_quantiles(degrees_of_freedom: Any) -> Any:
    """Of each draw, of which groups may have different effective numbers."""
    known, place = np.unique(degrees_of_freedom, return_inverse=True)
    return np.array([one_sided_quantile(LEVEL, float(free)) for free in known])[place]


def _loss_moments(pair: Pair, table: Any, counts: Any, positives: Any) -> tuple[Any, Any, Any, Any]:
    """Mean difference, standard error, degrees of freedom and skewness, as ``PairedSums.finish`` has them."""
    sums = (counts - positives) @ table[:, 0] + positives @ table[:, 1]
    sizes = counts.sum(axis=2)
    n = sizes.sum(axis=1)
    mean = sums.sum(axis=1) / n
    if pair.n_groups is not None:
        excess = sums - sizes * mean[:, np.newaxis]
        effective, squares = n**2 / (sizes.astype(float) ** 2).sum(axis=1), (excess**2).sum(axis=1)
        error = np.sqrt(effective / (effective - 1) * squares) / n
        skewness = (excess**3).sum(axis=1) / squares**1.5
        return mean, error, effective - 1, np.where(effective >= ALIKE_SHARE * pair.n_groups, skewness, 0.0)
    cells = np.stack([(counts - positives).sum(axis=1), positives.sum(axis=1)], axis=2).reshape(len(counts), -1)
    centred = table.ravel() - mean[:, np.newaxis]
    squares, cubes = (cells * centred**2).sum(axis=1), (cells * centred**3).sum(axis=1)
    return mean, np.sqrt(squares / (n - 1) / n), n - 1, cubes / squares**1.5


def _error_bounds(pair: Pair, counts: Any, positives: Any) -> PairBounds:
    sizes = counts.sum(axis=2)
    first, second = (_figures(one, pair, counts, positives) for one in (pair.candidate, pair.champion))
    own = [_root_bounds(one, own_level(LEVEL)) for one in (first, second)]
    square = first.whole - second.whole
    error = jackknife_error(square, first.without - second.without, sizes)
    half = squares_quantile(LEVEL, sizes.shape[1] - 1) * error
    lower, upper = -root_difference_upper(half - square, own[0]), root_difference_upper(square + half, own[1])
    return PairBounds(lower, upper, _effective(pair, sizes) >= ENOUGH_GROUPS)


def _effective(pair: Pair, sizes: Any) -> Any:
    """Effective groups; without groups any number of them."""
    if pair.n_groups is None:
        return np.full(len(sizes), np.inf)
    return sizes.sum(axis=1) ** 2 / (sizes.astype(float) ** 2).sum(axis=1)


class _Figures(NamedTuple):
    """Debiased square of one model, the same without each block, and the terms of its own bounds."""

    whole: Any
    without: Any
    terms: BoundTerms


def _figures(one: Model, pair: Pair, counts: Any, positives: Any) -> _Figures:
    inside = np.equal.outer(one.bins, np.arange(one.n_bins)).astype(np.float64)
    n_gj, k_gj = counts @ inside, positives @ inside
    n_j, k_j = n_gj.sum(axis=1), k_gj.sum(axis=1)
    whole = debiased_squared_of(n_j, k_j, one.u)
    without = debiased_squared_of(n_j[:, np.newaxis] - n_gj, k_j[:, np.newaxis] - k_gj, one.u)
    terms = row_terms(n_j, k_j, one.u) if pair.n_groups is None else group_terms_of_draws(n_gj, k_gj, one.u)
    return _Figures(whole, without, terms)


def _root_bounds(one: _Figures, level: float) -> RootBounds:
    return RootBounds(np.sqrt(one.terms.lower(level)), np.sqrt(one.terms.upper(level)))


#: Rules for the difference of two calibration errors that the gate does not use.
OTHER_RULES = ("roots jackknifed", "roots jackknifed, each model's own bounds where both are under the noise floor")


def simulate_other_rules(pair: Pair, n_draws: int, seed: int = 0) -> dict[str, PairBounds]:
    """Bounds on the difference of roots by the rules that the gate does not use; by row."""
    parts: dict[str, list[PairBounds]] = {rule: [] for rule in OTHER_RULES}
    rng = np.random.default_rng([seed, 4])
    for size in chunks(n_draws, 250):
        counts, positives = (table.astype(np.float64) for table in pair.draw(rng, size))
        for rule, bounds in zip(OTHER_RULES, _other_rules(pair, counts, positives), strict=True):
            parts[rule].append(bounds)
    return {rule: _joined(found) for rule, found in parts.items()}


def _other_rules(pair: Pair, counts: Any, positives: Any) -> tuple[PairBounds, PairBounds]:
    first, second = (_figures(one, pair, counts, positives) for one in (pair.candidate, pair.champion))
    sizes, half_level = counts.sum(axis=2), 1 - (1 - LEVEL) / 2
    roots = [np.sqrt(np.maximum(one.whole, 0.0)) for one in (first, second)]
    without = [np.sqrt(np.maximum(one.without, 0.0)) for one in (first, second)]
    mean = roots[0] - roots[1]
    half = one_sided_quantile(LEVEL, sizes.shape[1] - 1) * jackknife_error(mean, without[0] - without[1], sizes)
    own = [_root_bounds(one, half_level) for one in (first, second)]
    floors = [np.sqrt(one.terms.floor(LEVEL)) for one in (first, second)]
    under = (roots[0] < floors[0]) & (roots[1] < floors[1])
    lower = np.where(under, own[0].lower - own[1].upper, mean - half)
    upper = np.where(under, own[0].upper - own[1].lower, mean + half)
    usable = np.full(len(mean), True)
    return PairBounds(mean - half, mean + half, usable), PairBounds(lower, upper, usable)


def rows_of(counts: Any, positives: Any) -> tuple[Any, Any, Any]:
    """Pattern, label and block of every row of one draw, from tables (G, P)."""
    blocks, patterns = np.indices(counts.shape).reshape(2, -1)
    ones, zeros = positives.ravel(), (counts - positives).ravel()
    pattern = np.concatenate([np.repeat(patterns, ones), np.repeat(patterns, zeros)])
    block = np.concatenate([np.repeat(blocks, ones), np.repeat(blocks, zeros)])
    return pattern, np.repeat([1.0, 0.0], [ones.sum(), zeros.sum()]), block


def pairs() -> dict[str, tuple[Model, Model]]:
    """Candidate and champion, truly worse, equal and better, near and far from the noise."""
    return {
        "equal, both right, other bins": (model(10), model(8)),
        "equal errors of .03, other bins": (alternating(10, 0.03), alternating(8, 0.03)),
        "equal errors of .03, opposite signs": (alternating(10, 0.03), alternating(10, -0.03)),
        "worse by .01, champion right": (alternating(10, 0.01), model(10)),
        "worse by .01, near the noise": (alternating(10, 0.03), alternating(10, -0.02)),
        "worse by .01, other bins": (model(10, 0.03), alternating(8, 0.02)),
        "worse by .05": (model(10, 0.05), model(10)),
        "better by .01, it is right": (model(10), alternating(10, 0.01)),
        "better by .03": (alternating(10, 0.02), model(10, 0.05)),
        "as well calibrated, less refined": (model(3), model(10)),
    }


def settings() -> Iterator[tuple[str, Pair]]:
    """Every pair by row and by group."""
    for name, (candidate, champion) in pairs().items():
        for n in (1_000, 4_000):
            yield f"{name}; {n:,} rows", Pair(candidate, champion, n)
        for n_groups, sigma, rows in ((30, 0.0, 100), (100, 0.5, 50), (30, 1.0, 100), (100, 1.5, 100)):
            sizes = "equal" if sigma == 0 else f"sigma {sigma:g}"
            label = f"{name}; {n_groups} groups, {sizes}"
            yield label, Pair(candidate, champion, n_groups=n_groups, sigma=sigma, rows_a_group=rows)
