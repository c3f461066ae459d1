"""Log losses without a clip: infinite ones are counted, and bounds allow for skewness."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_calib.core.log_losses import LossSums, PairedLossSums, row_log_losses
from mlflow_calib.core.paired import PairedDifference, PairedSums, unskewed
from mlflow_calib.core.proper_losses import log_loss
from mlflow_calib.errors import InvalidInputError


def test_the_mean_is_the_log_loss_where_no_clip_matters():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, size=300)
    y = (rng.random(300) < p).astype(int)
    assert LossSums.from_rows(row_log_losses(p, y)).mean == pytest.approx(log_loss(p, y))
    both = np.column_stack([1 - p, p])
    assert LossSums.from_rows(row_log_losses(both, np.eye(2)[y])).mean == pytest.approx(log_loss(both, np.eye(2)[y]))


def test_a_certain_mistake_is_infinite_and_stays_so():
    parts = [LossSums.from_rows(row_log_losses([0.0, 0.4], [1, 0])), LossSums.from_rows([0.3])]
    assert parts[0].merge(parts[1]).mean == parts[1].merge(parts[0]).mean == math.inf
    assert parts[1].merge(parts[0]).n_infinite == 1
    paired = [PairedLossSums.from_rows([0.1, math.inf], [0.1, 0.2]), PairedLossSums.from_rows([0.1, 0.1], [0.3, 0.4])]
    assert paired[0].finish() is None
    assert paired[1].merge(paired[0]).finish() is None
    assert paired[1].finish() is not None


def test_certain_and_right_costs_nothing():
    assert row_log_losses([0.0, 1.0], [0, 1]).tolist() == [0.0, 0.0]
    assert row_log_losses([[0.0, 1.0]], [[0, 1]]).tolist() == [0.0]


def test_shapes_must_agree():
    with pytest.raises(InvalidInputError, match="one shape"):
        row_log_losses([0.1, 0.2], [1])
    with pytest.raises(InvalidInputError, match="one shape"):
        PairedLossSums.from_rows([0.1, 0.2], [1.0])
    with pytest.raises(InvalidInputError, match="at least one row"):
        LossSums.from_rows([]).mean  # noqa: B018 - the property raises


def test_skewness_merges_and_moves_both_bounds_to_its_side():
    rng = np.random.default_rng(1)
    first, second = rng.exponential(size=600), np.zeros(600)
    whole = PairedLossSums.from_rows(first, second)
    parts = [PairedLossSums.from_rows(first[start::3], second[start::3]) for start in range(3)]
    found, merged = whole.finish(), parts[1].merge(parts[2], parts[0]).finish()
    centred = first - first.mean()
    assert found.skewness == pytest.approx((centred**3).sum() / (centred**2).sum() ** 1.5)
    assert merged.skewness == pytest.approx(found.skewness, rel=1e-9)
    plain = PairedSums.from_rows(first, second).finish()
    assert plain.skewness == 0
    assert found.upper_bound() > plain.upper_bound()
    assert found.lower_bound() > plain.lower_bound()


def test_the_transformation_is_monotone_and_near_the_identity():
    q = np.linspace(-4, 4, 81)
    for skewness in (-0.5, -0.01, 0.0, 0.01, 0.5):
        moved = unskewed(q, skewness)
        assert (np.diff(moved) > 0).all()
        np.testing.assert_allclose(moved, q - skewness * (q**2 / 3 + 1 / 6), atol=2 * skewness**2 * 16)


def test_bounds_of_skewed_losses_hold_their_level_by_row():
    """Exponential losses, n = 100, 4,000 draws: the level is kept but for three standard errors of .0034."""
    rng = np.random.default_rng(2)
    losses = rng.exponential(size=(4_000, 100)) - 1
    zeros = np.zeros(100)
    found = [PairedLossSums.from_rows(one, zeros).finish() for one in losses]
    missed = np.mean([one.upper_bound() < 0 for one in found])
    untouched = np.mean([PairedDifference(one.mean, one.standard_error, 99.0, 100).upper_bound() < 0 for one in found])
    assert missed <= 0.065 < untouched
    assert np.mean([one.lower_bound() > 0 for one in found]) <= 0.062
