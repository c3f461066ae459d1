"""The paper's propositions on populations with known truth, g_B(x) = E[g | bin] computed exactly.

Kumar, Liang and Ma 2019, section 4. A population is finite: rows x with masses, rates P(y = 1 | x), and g(x); bins are
runs of g, as a binning scheme makes them. Means over it are sums, so nothing is simulated but the last lemma.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from mlflow_calib.core.binning import equal_width, uniform_mass
from mlflow_calib.core.theory import balance_of, rows_for_balance, well_balancedness


@dataclass(frozen=True)
class Population:
    """Masses, rates P(y = 1 | x) and g(x) of its points, sorted by g; the bin of each point."""

    masses: np.ndarray
    rates: np.ndarray
    g: np.ndarray
    index: np.ndarray

    @property
    def n_bins(self) -> int:
        return int(self.index.max()) + 1

    @property
    def bin_masses(self) -> np.ndarray:
        return np.bincount(self.index, self.masses)

    @property
    def alpha(self) -> float:
        return float(balance_of(self.bin_masses))

    def mean_by(self, index: np.ndarray, values: np.ndarray) -> np.ndarray:
        """E[values | index], at every point."""
        return (np.bincount(index, self.masses * values) / np.bincount(index, self.masses))[index]

    @property
    def g_binned(self) -> np.ndarray:
        return self.mean_by(self.index, self.g)

    def squared_error(self, outputs: np.ndarray) -> float:
        """CE^2 = E[(f - E[y | f])^2], f = ``outputs``."""
        level = np.unique(outputs, return_inverse=True)[1]
        return float(self.masses @ (outputs - self.mean_by(level, self.rates)) ** 2)

    def mse(self, outputs: np.ndarray) -> float:
        """E[(f - y)^2] over x and y."""
        return float(self.masses @ (self.rates * (1 - outputs) ** 2 + (1 - self.rates) * outputs**2))

    def within_bins(self, first: np.ndarray, second: np.ndarray) -> float:
        """sum_j w_j cov_j(first, second)."""
        deviations = [values - self.mean_by(self.index, values) for values in (first, second)]
        return float(self.masses @ (deviations[0] * deviations[1]))


def population(masses: np.ndarray, rates: np.ndarray, g: np.ndarray, n_bins: int, kind: str) -> Population:
    order = np.argsort(g, kind="stable")
    masses, rates, g = masses[order] / masses.sum(), rates[order], g[order]
    if kind == "uniform-mass":  # equal counts of equally heavy points; other masses leave it unbalanced
        index = uniform_mass(g, n_bins).index(g)
    elif kind == "equal-width":
        index = equal_width(g, n_bins).index(g)
    else:
        index = np.searchsorted(np.sort(np.random.default_rng(n_bins).uniform(size=n_bins - 1)), g)
        index = np.unique(index, return_inverse=True)[1]  # empty bins left out
    return Population(masses, rates, g, index)


def populations() -> Iterator[tuple[str, Population]]:
    """Calibrated, over- and under-confident, unrelated, reversed and steep; even and uneven masses; tied g."""
    rng = np.random.default_rng(20190923)
    z = (np.arange(600) + 0.5) / 600
    named = {
        "calibrated": (z, z),
        "over-confident": (0.5 + 0.4 * (z - 0.5), z),
        "under-confident": (z**2 / (z**2 + (1 - z) ** 2), z),
        "unrelated": (rng.uniform(size=600), z),
        "reversed": (1 - z, z),
        "a step inside each bin": ((z * 40 % 2 < 1).astype(float), z),
        "outcomes certain": ((z > 0.37).astype(float), z),
        "tied g": (z, np.round(z, 1)),
        "constant g": (z, np.full(600, 0.3)),
        "skewed g": (z**4, z**4),
        "noisy": (np.clip(z + 0.1 * rng.choice([-1, 1], size=600), 0, 1), z),
    }
    for name, (rates, g) in named.items():
        for n_bins in (1, 2, 7, 10, 100):
            for kind in ("uniform-mass", "equal-width", "any"):
                yield f"{name}, {n_bins} bins, {kind}", population(np.ones(600), rates, g, n_bins, kind)
    for draw in range(200):
        size, n_bins = int(rng.integers(2, 80)), int(rng.integers(1, 20))
        parts = rng.exponential(size=size) ** 3, rng.beta(0.3, 0.3, size=size), rng.beta(0.5, 1, size=size)
        kind = ("uniform-mass", "equal-width", "any")[draw % 3]
        yield f"random {draw}", population(*parts, n_bins, kind)


POPULATIONS = dict(populations())


def test_every_population_is_one() -> None:
    for p in POPULATIONS.values():
        assert p.masses.sum() == pytest.approx(1)
        assert (p.bin_masses > 0).all()
        assert 0 <= p.g.min() <= p.g.max() <= 1
        assert (np.diff(p.index) >= 0).all()


def test_binning_never_raises_the_calibration_error() -> None:
    """Proposition: CE(g_B) <= CE(g)."""
    for name, p in POPULATIONS.items():
        assert p.squared_error(p.g_binned) <= p.squared_error(p.g) + 1e-12, name


def test_binning_can_hide_all_of_the_calibration_error() -> None:
    """Section 3: why a binned estimate is a lower bound for continuous g. Noise of .1 averages out in every bin."""
    z = np.linspace(0.1, 0.9, 600)
    noisy = population(np.ones(600), z + 0.1 * (-1.0) ** np.arange(600), z, 5, "uniform-mass")
    assert noisy.squared_error(noisy.g) == pytest.approx(0.01)
    assert noisy.squared_error(noisy.g_binned) < 1e-12


def test_mse_of_the_binned_function_term_by_term() -> None:
    """MSE(g_B) - MSE(g) = 2 sum_j w_j cov_j(g, y) - sum_j w_j var_j(g)."""
    for name, p in POPULATIONS.items():
        increase = p.mse(p.g_binned) - p.mse(p.g)
        expected = 2 * p.within_bins(p.g, p.rates) - p.within_bins(p.g, p.g)
        assert increase == pytest.approx(expected, abs=1e-12), name


def test_mse_of_the_binned_function_is_bounded_by_the_balance() -> None:
    """At most alpha / (2 B): the covariance of g with y in a bin is at most a quarter of the bin's width."""
    for name, p in POPULATIONS.items():
        increase = p.mse(p.g_binned) - p.mse(p.g)
        assert increase <= p.bin_masses.max() / 2 + 1e-15, name
        assert increase <= p.alpha / (2 * p.n_bins) + 1e-15, name


def test_the_mse_bound_is_met_where_nothing_is_left_of_g() -> None:
    """One bin, g = y in {0, 1} with rate 1/2: binning costs 1/4; 1/2 bounds it, and no bound below 1/4 would do."""
    p = population(np.ones(2), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 1, "uniform-mass")
    assert p.mse(p.g_binned) - p.mse(p.g) == pytest.approx(0.25, abs=1e-15)


def test_mse_with_fitted_values() -> None:
    """At most 2 alpha / B where the value of a bin is a mean of g over any rows of it, as step 3 makes it."""
    rng = np.random.default_rng(4)
    for name, p in POPULATIONS.items():
        for rows in (1, 3, 30):
            values = np.empty(p.n_bins)
            for j in range(p.n_bins):
                at = np.flatnonzero(p.index == j)
                chance = p.masses[at] / p.masses[at].sum()
                values[j] = p.g[rng.choice(at, size=rows, p=chance)].mean()
            increase = p.mse(values[p.index]) - p.mse(p.g)
            assert increase <= 2 * p.alpha / p.n_bins + 1e-15, (name, rows)


def test_mse_with_the_worst_values_inside_the_bins() -> None:
    """The same bound at its worst: the end of each bin that lies farther from the outcomes."""
    for name, p in POPULATIONS.items():
        lower = np.array([p.g[p.index == j].min() for j in range(p.n_bins)])
        upper = np.array([p.g[p.index == j].max() for j in range(p.n_bins)])
        worst = max(p.mse(ends[p.index]) - p.mse(p.g) for ends in (lower, upper))
        assert worst <= 2 * p.bin_masses.max() + 1e-15, name


# The lemma: uniform-mass bins are well balanced. Probabilities of a continuous score are uniform, whatever the score.

N_DRAWS = 20_000


def masses_of_bins(rng: np.random.Generator, n: int, n_bins: int, draws: int) -> np.ndarray:
    """Masses (draws, B) of uniform-mass bins made from n uniform scores: sums of exponential spacings, normalised.

    An edge lies midway between the scores on both sides of its cut, and bins have the sizes of numpy.array_split.
    """
    sizes = np.full(n_bins, n // n_bins) + (np.arange(n_bins) < n % n_bins)
    inside = np.full(n_bins, -1) + sizes
    inside[[0, -1]] += 1  # the outer bins run to the ends
    runs = rng.gamma(inside, size=(draws, n_bins))
    across = rng.exponential(size=(draws, n_bins - 1)) / 2
    runs[:, 1:] += across
    runs[:, :-1] += across
    return runs / runs.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("failure_probability", [0.05, 0.1])
@pytest.mark.parametrize("n_bins", [5, 6, 8, 10, 15, 20, 30, 50, 75, 100])
def test_uniform_mass_bins_are_2_well_balanced(n_bins: int, failure_probability: float) -> None:
    """Lemma: n = 4 B ln(B / delta) rows; every mass lies within 1/(2 B) and 2/B with probability at least 1 - delta."""
    n = rows_for_balance(n_bins, 1 - failure_probability)
    assert n == int(np.ceil(4 * n_bins * np.log(n_bins / failure_probability)))
    rng = np.random.default_rng([n_bins, int(100 * failure_probability)])
    balanced = balance_of(masses_of_bins(rng, n, n_bins, N_DRAWS)) <= 2
    tell = 4 * np.sqrt(failure_probability * (1 - failure_probability) / N_DRAWS)  # four standard errors, .6 or .8 %
    assert balanced.mean() - tell >= 1 - failure_probability


def test_half_as_many_rows_are_not_enough() -> None:
    """The constant is not idle: with a quarter of the rows most schemes of 100 bins are unbalanced."""
    n = rows_for_balance(100, 0.95) // 4
    balanced = balance_of(masses_of_bins(np.random.default_rng(0), n, 100, 2_000)) <= 2
    assert balanced.mean() < 0.1


def test_the_simulated_masses_are_those_of_the_schemes() -> None:
    """Spacings against `uniform_mass` itself: the lightest and the first of 7 bins made from 100 scores."""
    rng = np.random.default_rng(1)
    from_spacings = masses_of_bins(rng, 100, 7, 4_000)
    from_schemes = np.array(
        [np.diff(np.concatenate([[0], uniform_mass(rng.uniform(size=100), 7).edges, [1]])) for _ in range(4_000)]
    )
    for of_masses in (from_spacings.min(axis=1), from_schemes.min(axis=1)), (from_spacings[:, 0], from_schemes[:, 0]):
        first, second = of_masses
        standard_error = np.sqrt((first.var() + second.var()) / 4_000)
        assert abs(first.mean() - second.mean()) < 4 * standard_error
        assert first.std() == pytest.approx(second.std(), rel=0.1)


def test_ties_and_drift_unbalance_a_scheme() -> None:
    """The lemma is about continuous scores from the same population; on other rows the alpha that holds is another."""
    rng = np.random.default_rng(2)
    scheme = uniform_mass(rng.uniform(size=2_000), 10)
    assert well_balancedness(scheme, rng.uniform(size=20_000)).alpha < 1.5
    assert well_balancedness(scheme, rng.uniform(size=20_000) ** 3).alpha > 4
    tied = uniform_mass(np.repeat([0.1, 0.5, 0.9], [900, 50, 50]), 10)
    assert well_balancedness(tied, np.repeat([0.1, 0.5, 0.9], [900, 50, 50])).alpha == pytest.approx(1 / (2 * 0.1))
