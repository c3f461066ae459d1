"""Paired differences: hand values, merging, and coverage by row and by group."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from mlflow_calib.core.paired import PairedDifference, PairedSums
from mlflow_calib.errors import EvidenceError, InvalidInputError


def test_rows_by_hand_and_by_scipy():
    first, second = np.array([0.25, 0.16, 0.09, 0.5]), np.array([0.16, 0.16, 0.04, 0.1])
    found = PairedSums.from_rows(first, second).finish()
    assert found.mean == pytest.approx((0.09 + 0 + 0.05 + 0.4) / 4)
    assert (found.n, found.degrees_of_freedom, found.n_groups) == (4, 3, None)
    theirs = stats.ttest_rel(first, second).confidence_interval(0.90)
    assert found.upper_bound(0.95) == pytest.approx(theirs.high)
    assert found.lower_bound(0.95) == pytest.approx(theirs.low)


def test_groups_by_hand():
    """Differences 1, 2 | 3 | 6 of three groups: mean 3, group sums about it (3 - 6), 0, 3; H = 16 / (4 + 1 + 1)."""
    found = PairedSums.from_rows([1, 2, 3, 6], [0, 0, 0, 0], groups=["a", "a", "b", "c"]).finish()
    assert found.mean == 3.0
    effective = 16 / 6
    factor = effective / (effective - 1)
    assert found.standard_error == pytest.approx(math.sqrt(factor * ((-3) ** 2 + 0**2 + 3**2)) / 4)
    assert (found.degrees_of_freedom, found.n_groups) == (pytest.approx(effective - 1), 3)
    assert found.upper_bound(0.95) == pytest.approx(3 + stats.t.ppf(0.95, effective - 1) * found.standard_error)


def test_groups_of_one_row_are_rows():
    rng = np.random.default_rng(0)
    first, second = rng.random(50), rng.random(50)
    by_row = PairedSums.from_rows(first, second).finish()
    by_group = PairedSums.from_rows(first, second, groups=np.arange(50)).finish()
    assert by_group.standard_error == pytest.approx(by_row.standard_error)
    assert by_group.degrees_of_freedom == by_row.degrees_of_freedom


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_any_partition_in_any_order_gives_the_figures_of_the_whole(seed, grouped):
    rng = np.random.default_rng(seed)
    first, second = 1e6 + rng.random(300), 1e6 + rng.random(300)  # sums of squares would cancel here
    groups = rng.integers(30, size=300) if grouped else None
    whole = PairedSums.from_rows(first, second, groups).finish()
    part_of_row = rng.integers(4, size=300)
    parts = [
        PairedSums.from_rows(first[rows], second[rows], groups[rows] if grouped else None)
        for rows in (part_of_row == part for part in rng.permutation(5))
    ]
    merged = parts[0].merge(*parts[1:3]).merge(parts[4], parts[3]).finish()
    assert (merged.n, merged.n_groups, merged.degrees_of_freedom) == (whole.n, whole.n_groups, whole.degrees_of_freedom)
    assert merged.mean == pytest.approx(whole.mean, rel=1e-9)
    assert merged.standard_error == pytest.approx(whole.standard_error, rel=1e-9)


def test_the_same_model_twice_differs_by_nothing():
    losses = np.random.default_rng(0).random(40)
    found = PairedSums.from_rows(losses, losses, groups=np.arange(40) // 4).finish()
    assert (found.mean, found.standard_error, found.upper_bound(), found.lower_bound()) == (0, 0, 0, 0)


@pytest.mark.parametrize(("rows", "groups"), [([0.5], None), ([0.5, 0.4], ["a", "a"])])
def test_one_row_or_one_group_has_no_bound(rows, groups):
    found = PairedSums.from_rows(rows, [0.1] * len(rows), groups).finish()
    assert found.standard_error is None
    assert (found.upper_bound(), found.lower_bound()) == (None, None)
    assert PairedDifference.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_json_keeps_every_bit():
    found = PairedSums.from_rows([0.1, 0.2, 0.7], [0.3, 0.1, 0.2], groups=[1, 2, 2]).finish()
    assert PairedDifference.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InvalidInputError, match="one shape"):
        PairedSums.from_rows([0.1, 0.2], [0.1])
    with pytest.raises(InvalidInputError, match="first losses must be finite, 1 of 2"):
        PairedSums.from_rows([0.1, math.nan], [0.1, 0.2])
    with pytest.raises(InvalidInputError, match="all parts have groups"):
        PairedSums.from_rows([0.1], [0.2]).merge(PairedSums.from_rows([0.1], [0.2], groups=["a"]))
    with pytest.raises(InvalidInputError, match="at least one row"):
        PairedSums.from_rows([], []).finish()
    good = PairedSums.from_rows([0.1, 0.2], [0.3, 0.1]).finish().to_dict()
    for damage in ({"mean": None}, {"mean": math.nan}, {"standard_error": -1.0}, {"degrees_of_freedom": 0}):
        with pytest.raises(EvidenceError, match="damaged"):
            PairedDifference.from_dict({**good, **damage})


def test_bounds_by_group_cover_where_groups_move_together():
    """30 groups of 5 to 60 rows; 2,000 draws, Monte Carlo error .005 at .95; by row it falls below .85."""
    rng = np.random.default_rng(7)
    by_group = by_row = 0
    for _ in range(2_000):
        sizes = rng.integers(5, 60, size=30)
        groups = np.repeat(np.arange(30), sizes)
        difference = rng.normal(size=30)[groups] * 0.1 + rng.normal(size=len(groups)) * 0.3
        zeros = np.zeros(len(groups))
        by_group += PairedSums.from_rows(difference, zeros, groups).finish().upper_bound(0.95) >= 0
        by_row += PairedSums.from_rows(difference, zeros).finish().upper_bound(0.95) >= 0
    assert by_group / 2_000 >= 0.93
    assert by_row / 2_000 < 0.85
