"""The bound without asymptotics: worst rates and masses, found exactly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from mlflow_calib.core.finite_sample import (
    RATES_SHARE,
    best_case_squared,
    clopper_pearson,
    worst_case_squared,
)
from mlflow_calib.errors import InvalidInputError


@pytest.mark.parametrize(("n", "k"), [(10, 0), (10, 10), (10, 3), (1, 0), (5_000, 4_999)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_clopper_pearson_inverts_the_two_binomial_tests(n, k, level):
    """N14: at each end the count seen has exactly the tail probability left."""
    low, high = (float(end) for end in clopper_pearson(n, k, level))
    tail = (1 - level) / 2
    assert low == 0 if k == 0 else stats.binom.sf(k - 1, n, low) == pytest.approx(tail)
    assert high == 1 if k == n else stats.binom.cdf(k, n, high) == pytest.approx(tail)
    exact = stats.binomtest(k, n).proportion_ci(level, method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high))


def test_no_rows_know_nothing():
    assert [float(end) for end in clopper_pearson(0, 0)] == [0.0, 1.0]
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        clopper_pearson(10, 1, 1.0)


def test_the_worst_masses_are_those_of_a_linear_program():
    rng = np.random.default_rng(0)
    for _ in range(20):
        counts = rng.multinomial(rng.integers(20, 500), rng.dirichlet(np.ones(6)))
        positives, u = rng.binomial(counts, rng.random(6)), rng.random(6)
        low, high = clopper_pearson(counts, positives, (1 - RATES_SHARE * 0.05) ** (1 / 6))
        least, most = clopper_pearson(np.full(6, counts.sum()), counts, 1 - (1 - RATES_SHARE) * 0.05 / 6)
        worst = np.maximum(u - low, high - u) ** 2
        best = np.where((low <= u) & (u <= high), 0.0, np.minimum(np.abs(u - low), np.abs(u - high)) ** 2)
        program = {"A_eq": np.ones((1, 6)), "b_eq": [1.0], "bounds": list(zip(least, most, strict=True))}
        assert worst_case_squared(counts, positives, u) == pytest.approx(-optimize.linprog(-worst, **program).fun)
        assert best_case_squared(counts, positives, u) == pytest.approx(
            optimize.linprog(best, **program).fun, abs=1e-12
        )


def test_an_empty_bin_counts_the_worst_it_can_be():
    """max(u, 1 - u)^2 times the largest mass that no row in so many allows."""
    counts, positives = np.array([1_000, 0]), np.array([500, 0])
    without = worst_case_squared(counts, positives, np.array([0.5, 0.5]))
    at_edge = worst_case_squared(counts, positives, np.array([0.5, 1.0]))
    mass = 1 - (0.1 * 0.05 / 2 / 2) ** (1 / 1_000)
    assert float(at_edge - without) == pytest.approx(mass * (1 - 0.25))


def test_no_rows_at_all_bound_nothing_and_one_row_hardly_anything():
    assert worst_case_squared(np.array([0]), np.array([0]), np.array([0.3])) == pytest.approx(0.49)
    assert worst_case_squared(np.array([1, 1]), np.array([1, 0]), np.array([0.9, 0.1])) > 0.7


def test_observed_masses_alone_are_no_guarantee():
    """A bin of 3 expected rows that is badly wrong: with observed masses the bound would fail a fifth of the time."""
    rng, n = np.random.default_rng(3), 2_000
    w, u, p = np.array([1 - 3 / n, 3 / n]), np.array([0.01, 1.0]), np.array([0.01, 0.0])
    counts = rng.multinomial(n, w, size=4_000)
    positives = rng.binomial(counts, p)
    theta = float(w @ (u - p) ** 2)
    low, high = clopper_pearson(counts, positives, 0.95**0.5)
    observed = (counts / n * np.maximum(u - low, high - u) ** 2).sum(axis=1)
    assert np.mean(observed >= theta) < 0.9
    assert np.mean(worst_case_squared(counts, positives, u) >= theta) >= 0.95


def test_higher_levels_are_wider_and_more_rows_narrower():
    u = np.array([0.2, 0.8])
    bounds = [
        float(worst_case_squared(np.array([100, 100]), np.array([20, 80]), u, level)) for level in (0.5, 0.9, 0.99)
    ]
    assert bounds == sorted(bounds)
    assert worst_case_squared(np.array([10_000, 10_000]), np.array([2_000, 8_000]), u) < bounds[0]
