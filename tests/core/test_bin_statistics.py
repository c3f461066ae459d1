"""Sums over bins are the same figures however the rows are divided."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.group_ids import group_codes
from mlflow_calib.core.intervals import (
    ErrorStatistics,
    debiased_squared,
    noise_floor,
    squared_lower_bound,
    squared_upper_bound,
)
from mlflow_calib.errors import EvidenceError, InvalidInputError


def draw_rows(seed: int, n: int = 500, n_bins: int = 7) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    index = rng.integers(n_bins, size=n)
    outputs = (index + rng.random(n)) / n_bins
    outcomes = (rng.random(n) < outputs).astype(float)
    return {"outputs": outputs, "outcomes": outcomes, "index": index, "groups": rng.integers(40, size=n)}


def take(rows: dict[str, np.ndarray], chosen: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[chosen] for name, values in rows.items()}


def test_sums_of_four_rows_by_hand():
    s = BinStatistics.from_rows([0.25, 0.5, 0.5, 1.0], [0, 1, 0, 1], index=[0, 1, 1, 2], n_bins=4)
    assert s.counts.tolist() == [1, 2, 1, 0]
    assert s.positives.tolist() == [0, 1, 1, 0]
    assert s.output_sums.tolist() == [0.25, 1.0, 1.0, 0.0]
    assert s.output_squares.tolist() == [0.0625, 0.5, 1.0, 0.0]
    assert s.output_positives.tolist() == [0.0, 0.5, 1.0, 0.0]
    assert s.mean_outputs.tolist() == [0.25, 0.5, 1.0, 0.0]
    assert s.label_means.tolist() == [0.0, 0.5, 1.0, 0.0]
    assert s.mse == (0.25**2 + 0.5**2 + 0.5**2 + 0) / 4


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("with_values", [False, True])
def test_any_partition_in_any_order_gives_the_figures_of_the_whole(seed, with_values):
    rows = draw_rows(seed)
    rng = np.random.default_rng([seed, 1])
    values = np.sort(rng.random(7)) if with_values else None
    whole = BinStatistics.from_rows(**rows, n_bins=7, values=values)
    part_of_row = rng.integers(rng.integers(2, 9), size=500)  # a part may be empty
    parts = [
        BinStatistics.from_rows(**take(rows, part_of_row == part), n_bins=7, values=values)
        for part in rng.permutation(part_of_row.max() + 2)
    ]
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = one_by_one.merge(part)
    for merged in (one_by_one, parts[-1].merge(*parts[:-1])):
        assert np.array_equal(merged.counts, whole.counts)
        assert np.array_equal(merged.positives, whole.positives)
        assert merged.mse == pytest.approx(whole.mse, rel=1e-12)
        found, expected = merged.finish(), whole.finish()
        np.testing.assert_allclose(found.outputs, expected.outputs, rtol=1e-14)
        np.testing.assert_allclose(found.group_moments.M, expected.group_moments.M, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.group_moments.L, expected.group_moments.L, rtol=1e-10)
        assert (found.group_moments.G, found.group_moments.H) == (expected.group_moments.G, expected.group_moments.H)


def test_with_fixed_values_the_sufficient_statistics_of_a_merge_are_equal_to_the_bit():
    rows, values = draw_rows(3), np.linspace(0.05, 0.95, 7)
    whole = BinStatistics.from_rows(**rows, n_bins=7, values=values)
    first, second = (
        BinStatistics.from_rows(**take(rows, np.arange(500) % 3 == part), n_bins=7, values=values) for part in (1, 2)
    )
    third = BinStatistics.from_rows(**take(rows, np.arange(500) % 3 == 0), n_bins=7, values=values)
    assert third.merge(first, second).finish().to_dict() == whole.finish().to_dict()


def test_group_moments_by_a_loop_over_the_groups():
    rows = draw_rows(5, n=300)
    s = BinStatistics.from_rows(**rows, n_bins=7).finish()
    n, d = s.counts.sum(), s.outputs - s.positives / s.counts
    plugin = (s.counts / n * d**2).sum()
    spread, variance, squares = np.zeros((7, 7)), 0.0, 0
    for group in np.unique(rows["groups"]):
        mine = rows["groups"] == group
        squares += mine.sum() ** 2
        r, influence = np.zeros(7), 0.0
        for j in range(7):
            chosen = mine & (rows["index"] == j)
            r[j] = (s.positives[j] / s.counts[j] - rows["outcomes"][chosen]).sum()
            influence += 2 * d[j] * r[j] + chosen.sum() * (d[j] ** 2 - plugin)
        spread += np.outer(r, r)
        variance += influence**2
    effective = n**2 / squares
    np.testing.assert_allclose(s.group_moments.M, effective / (effective - 1) * spread, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(s.group_moments.L, effective / ((effective - 1) * n**2) * variance)
    np.testing.assert_allclose(s.group_moments.H, effective)


def test_bins_of_no_row_and_of_one_row_divide_nothing_by_zero():
    s = BinStatistics.from_rows([0.2, 0.2, 0.9], [0, 1, 1], index=[0, 0, 2], n_bins=4, groups=["a", "b", "b"]).finish()
    assert s.counts.tolist() == [2, 0, 1, 0]
    assert np.isfinite(s.group_moments.M).all()
    assert s.group_moments.M[2, 2] == 0.0  # the label mean of one row is its label
    assert s.group_moments.H == 3**2 / (1**2 + 2**2)


def test_a_single_group_has_moments_of_zero():
    s = BinStatistics.from_rows([0.2, 0.2], [0, 1], index=[0, 0], n_bins=1, groups=["a", "a"]).finish()
    assert (s.group_moments.M[0, 0], s.group_moments.L, s.group_moments.G, s.group_moments.H) == (0.0, 0.0, 1, 1.0)


def test_no_rows_are_statistics_too():
    nothing = BinStatistics.from_rows([], [], [], n_bins=3, groups=[])
    some = BinStatistics.from_rows([0.5], [1], [2], n_bins=3, groups=["a"])
    assert nothing.n == 0
    assert nothing.merge(some).finish().to_dict() == some.finish().to_dict()
    with pytest.raises(InvalidInputError, match="at least one row"):
        _ = nothing.mse


def test_mean_output_of_ones_is_at_most_one():
    ones = BinStatistics.from_rows([0.1 * 3 + 0.7] * 1_000, [1] * 1_000, [0] * 1_000, n_bins=1)
    assert ones.finish().outputs[0] <= 1.0


SAME_GROUPS = {
    "integers and their text": ([3, 3, 10], ["3", "3", "10"]),
    "integers and floats": ([3, 3, 10], [3.0, 3.0, 10.0]),
    "objects and integers": (np.array([3, 3, 10], dtype=object), np.array([3, 3, 10], dtype=np.int32)),
    "dates and their text": (
        [dt.date(2013, 10, 1), dt.date(2013, 10, 1), dt.date(2013, 9, 1)],
        ["2013-10-01", "2013-10-01", "2013-09-01"],
    ),
    "days and nanoseconds": (
        np.array(["2013-10-01", "2013-10-01", "2013-09-01"], dtype="datetime64[D]"),
        np.array(["2013-10-01", "2013-10-01", "2013-09-01"], dtype="datetime64[ns]"),
    ),
    "dates and datetimes": (
        [dt.date(2013, 10, 1)] * 2 + [dt.date(2013, 9, 1)],
        [dt.datetime(2013, 10, 1)] * 2 + [dt.datetime(2013, 9, 1)],  # noqa: DTZ001 - a column without zone
    ),
}


@pytest.mark.parametrize("kind", SAME_GROUPS)
def test_group_ids_of_either_type_are_the_same_group(kind):
    first, second = SAME_GROUPS[kind]
    assert group_codes(first, 3)[0] == group_codes(second, 3)[0]
    assert group_codes(first, 3)[1].tolist() == group_codes(second, 3)[1].tolist()
    parts = [BinStatistics.from_rows([0.5] * 3, [0, 1, 1], [0] * 3, 1, groups=groups) for groups in (first, second)]
    assert parts[0].merge(parts[1]).finish().group_moments.G == 2


def test_times_within_a_day_are_groups_of_their_own():
    hours = np.array(["2013-10-01T00:00", "2013-10-01T10:00", "2013-10-01T10:00"], dtype="datetime64[m]")
    assert len(group_codes(hours, 3)[0]) == 2


@pytest.mark.parametrize(
    "groups", [[1.0, np.nan, 2.0], ["a", None, "b"], np.array(["2013-10-01", "NaT", "NaT"], dtype="datetime64[D]")]
)
def test_a_row_without_group_is_an_error_that_counts(groups):
    with pytest.raises(InvalidInputError, match=r"every row must have a group, [12] of 3 have none"):
        group_codes(groups, 3)


def test_all_problems_of_the_rows_at_once():
    with pytest.raises(InvalidInputError) as caught:
        BinStatistics.from_rows([0.5, 1.5], [0, 2], [0, 3], n_bins=2, values=[0.5])
    for part in ("index must hold", "outcomes must be 0 or 1", "outputs must be numbers", "values must be 2 numbers"):
        assert part in str(caught.value)
    with pytest.raises(InvalidInputError, match="one shape"):
        BinStatistics.from_rows([0.5, 0.5], [0], [0, 1], n_bins=2)


def test_parts_of_different_models_do_not_merge():
    two = BinStatistics.from_rows([0.5], [1], [0], n_bins=2, values=[0.5, 0.6])
    with pytest.raises(InvalidInputError, match="same bins"):
        two.merge(BinStatistics.from_rows([0.5], [1], [0], n_bins=3))
    with pytest.raises(InvalidInputError, match="different models"):
        two.merge(BinStatistics.from_rows([0.5], [1], [0], n_bins=2, values=[0.5, 0.7]))
    with pytest.raises(InvalidInputError, match="all parts have groups"):
        two.merge(BinStatistics.from_rows([0.5], [1], [0], n_bins=2, values=[0.5, 0.6], groups=["a"]))


# Weights, and sums as JSON


def test_weighted_sums_of_three_rows_by_hand():
    """N15."""
    s = BinStatistics.from_rows([0.2, 0.2, 0.9], [0, 1, 1], [0, 0, 1], 2, sample_weight=[1.0, 3.0, 2.0])
    assert s.mse == pytest.approx((1 * 0.2**2 + 3 * 0.8**2 + 2 * 0.1**2) / 6)
    assert s.label_means.tolist() == [0.75, 1.0]
    assert s.mean_outputs.tolist() == pytest.approx([0.2, 0.9])
    finished = s.finish()
    assert finished.effective_counts.tolist() == [16 / 10, 1.0]
    assert finished.shares.tolist() == [4 / 6, 2 / 6]
    assert finished.effective_n == 36 / 14


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.1])
def test_equal_weights_of_any_size_give_the_bounds_of_none(scale):
    """N15: all weights doubled against none, to what addition order allows."""
    rows = draw_rows(6)
    plain = BinStatistics.from_rows(**rows, n_bins=7)
    weighted = BinStatistics.from_rows(**rows, n_bins=7, sample_weight=np.full(500, scale))
    assert weighted.mse == pytest.approx(plain.mse, rel=1e-12)
    for by_group in (False, True):
        for figure in (squared_upper_bound, squared_lower_bound, noise_floor):
            expected = figure(plain.finish(), 0.95, by_group)
            assert figure(weighted.finish(), 0.95, by_group) == pytest.approx(expected, rel=1e-8, abs=1e-15)
    assert debiased_squared(weighted.finish()) == pytest.approx(debiased_squared(plain.finish()), rel=1e-9)


def test_weighted_parts_merge_and_the_record_keeps_the_weights():
    rows, weights = draw_rows(7), np.random.default_rng(7).random(500)
    whole = BinStatistics.from_rows(**rows, n_bins=7, sample_weight=weights)
    parts = [
        BinStatistics.from_rows(**take(rows, np.arange(500) % 3 == part), n_bins=7, sample_weight=weights[part::3])
        for part in range(3)
    ]
    merged = parts[2].merge(parts[0], parts[1]).finish()
    np.testing.assert_allclose(merged.effective_counts, whole.finish().effective_counts, rtol=1e-12)
    np.testing.assert_allclose(merged.group_moments.M, whole.finish().group_moments.M, rtol=1e-9, atol=1e-12)
    again = ErrorStatistics.from_dict(json.loads(json.dumps(merged.to_dict())))
    assert squared_upper_bound(again) == squared_upper_bound(merged)
    with pytest.raises(InvalidInputError, match="all parts have weights"):
        whole.merge(BinStatistics.from_rows(**rows, n_bins=7))


@pytest.mark.parametrize(
    "options", [{}, {"values": np.linspace(0.05, 0.95, 7)}, {"sample_weight": np.arange(1.0, 501)}]
)
@pytest.mark.parametrize("with_groups", [False, True])
def test_json_round_trip_to_the_bit_and_merging_after_it(options, with_groups):
    rows = draw_rows(8)
    if not with_groups:
        del rows["groups"]
    s = BinStatistics.from_rows(**rows, n_bins=7, **options)
    text = s.to_json()
    again = BinStatistics.from_json(text)
    assert again.to_json() == text
    assert again.finish().to_dict() == s.finish().to_dict()
    assert again.merge(again).n == 1_000
    if not with_groups:
        assert len(text) < 2_000


def test_json_of_a_binary_model_of_ten_bins_is_about_one_kilobyte():
    counts, values = np.arange(100_000, 100_010), np.linspace(0.0123456789, 0.987654321, 10)
    assert len(BinStatistics.from_counts(counts, counts // 3, values).to_json()) < 1_500


@pytest.mark.parametrize("damage", ["", "{}", '{"schema": "other"}', "[1, 2]"])
def test_damaged_json_is_refused(damage):
    with pytest.raises(EvidenceError, match="damaged"):
        BinStatistics.from_json(damage)
