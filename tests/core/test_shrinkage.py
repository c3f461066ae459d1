"""Shrunk bin values: hand values, limits, monotonicity, weights, pooling."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mlflow_calib.core.shrinkage import RULES, joined, pool_adjacent, prior_variance, shrunk_values
from mlflow_calib.errors import InvalidInputError

MEANS = np.array([0.2, 0.5, 0.8])


def test_prior_variance_is_the_debiased_error_of_the_bins() -> None:
    counts, sums = np.array([100.0, 200, 100]), np.array([40.0, 100, 90])
    terms = [0.2**2 - 0.2 * 0.8 / 100, 0 - 0.5 * 0.5 / 200, 0.1**2 - 0.8 * 0.2 / 100]
    expected = 0.25 * terms[0] + 0.5 * terms[1] + 0.25 * terms[2]
    assert prior_variance(MEANS, counts, sums) == pytest.approx(expected)


def test_constant_values_by_hand() -> None:
    counts, sums = np.array([100.0, 200, 100]), np.array([40.0, 100, 90])
    tau = prior_variance(MEANS, counts, sums)
    expected = MEANS + tau / (tau + MEANS * (1 - MEANS) / counts) * (sums / counts - MEANS)
    assert shrunk_values(MEANS, counts, sums, rule="constant") == pytest.approx(expected)


def test_few_rows_leave_the_means_and_many_rows_take_the_labels() -> None:
    rates = np.array([0.4, 0.6, 0.9])
    near = shrunk_values(MEANS, np.full(3, 1e7), rates * 1e7)
    assert near == pytest.approx(rates, abs=1e-4)
    exact = shrunk_values(MEANS, np.full(3, 10.0), MEANS * 10)
    assert exact.tolist() == MEANS.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_never_falling_and_within_0_and_1(rule: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        size = int(rng.integers(1, 30))
        means = np.sort(rng.uniform(size=size))
        counts = rng.integers(0, 40, size=size).astype(float)
        sums = rng.binomial(counts.astype(int), rng.uniform(size=size)).astype(float)
        values = shrunk_values(means, counts, sums, rule=rule)
        assert (np.diff(values) >= 0).all()
        assert values.min() >= 0
        assert values.max() <= 1


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_bin_keeps_its_mean(rule: str) -> None:
    counts, sums = np.array([1000.0, 0, 1000]), np.array([400.0, 0, 900])
    values = shrunk_values(MEANS, counts, sums, rule=rule)
    assert values[1] == 0.5
    assert values[0] > 0.3
    assert shrunk_values(MEANS, np.zeros(3), np.zeros(3), rule=rule).tolist() == MEANS.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_means_of_0_and_1_have_no_noise_to_divide_by(rule: str) -> None:
    values = shrunk_values(np.array([0.0, 0.5, 1.0]), np.full(3, 20.0), np.array([0.0, 15, 20]), rule=rule)
    assert values[[0, 2]] == pytest.approx([0.0, 1.0], abs=1e-8)
    assert 0.5 < values[1] < 0.75


@pytest.mark.parametrize("rule", RULES)
def test_equal_weights_are_no_weights_and_effective_rows_shrink_more(rule: str) -> None:
    counts, sums = np.array([100.0, 200, 100]), np.array([40.0, 100, 90])
    plain = shrunk_values(MEANS, counts, sums, rule=rule)
    assert shrunk_values(MEANS, 2 * counts, 2 * sums, counts, rule=rule).tolist() == plain.tolist()
    assert shrunk_values(MEANS, 3 * counts, 3 * sums, counts, rule=rule) == pytest.approx(plain)
    fewer = shrunk_values(MEANS, counts, sums, counts / 10, rule=rule)
    assert counts @ (fewer - MEANS) ** 2 < counts @ (plain - MEANS) ** 2


def test_pooling_is_the_nearest_rising_sequence() -> None:
    """Against a quadratic program solved by enumeration of all partitions into blocks."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        values, weights = rng.uniform(size=6), rng.uniform(0.1, 3, size=6)
        best = np.inf
        for cuts in range(2**5):
            stops = [0, *[i + 1 for i in range(5) if cuts >> i & 1], 6]
            blocks = [slice(a, b) for a, b in pairwise(stops)]
            means = [np.average(values[block], weights=weights[block]) for block in blocks]
            if (np.diff(means) >= 0).all():
                fitted = np.concatenate([np.full(b.stop - b.start, m) for b, m in zip(blocks, means, strict=True)])
                best = min(best, float(weights @ (fitted - values) ** 2))
        pooled = pool_adjacent(values, weights)
        assert (np.diff(pooled) >= 0).all()
        assert weights @ (pooled - values) ** 2 == pytest.approx(best)


def test_pooled_bins_are_one_bin() -> None:
    values = pool_adjacent(np.array([0.1, 0.5, 0.3, 0.9]), np.array([10.0, 10, 30, 10]))
    edges, distinct, counts = joined(np.array([0.2, 0.4, 0.6]), values, np.array([10, 10, 30, 10]))
    assert edges.tolist() == [0.2, 0.6]
    assert distinct == pytest.approx([0.1, 0.35, 0.9])
    assert counts.tolist() == [10, 40, 10]


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(InvalidInputError, match="rule"):
        shrunk_values(MEANS, np.ones(3), np.ones(3), rule="beta")
