"""Well-balancedness of a scheme by hand, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_calib.core.binning import BinningScheme, equal_width, uniform_mass
from mlflow_calib.core.theory import balance_of, rows_for_balance, well_balancedness
from mlflow_calib.errors import InvalidInputError


def test_by_hand():
    """Masses .1, .3, .6 of 3 bins: alpha is the larger of 3 x .6 and 1 / (3 x .1)."""
    scheme = BinningScheme(np.array([0.2, 0.5]), requested=3)
    found = well_balancedness(scheme, [0.1] + [0.3] * 3 + [0.8] * 6)
    assert found.alpha == pytest.approx(1 / 0.3)
    assert (found.n, found.n_bins, found.lightest, found.heaviest) == (10, 3, 0.1, 0.6)
    assert found.mse_increase_of_binning == pytest.approx(0.3)
    assert found.mse_increase_of_fitted_bins == pytest.approx(1.2)


def test_the_bounds_are_those_of_the_heaviest_bin():
    """Within alpha / (2 B) and 2 alpha / B, and equal to them where the heaviest bin decides alpha."""
    found = well_balancedness(BinningScheme(np.array([0.5]), requested=2), [0.1, 0.2, 0.3, 0.9])
    assert found.alpha == 2
    assert found.mse_increase_of_binning <= found.alpha / (2 * found.n_bins)
    assert found.mse_increase_of_fitted_bins <= 2 * found.alpha / found.n_bins


def test_an_empty_bin_is_unbounded():
    scheme = BinningScheme(np.array([0.2, 0.5]), requested=3)
    assert well_balancedness(scheme, [0.1, 0.9]).alpha == math.inf


def test_one_bin_is_balanced():
    assert well_balancedness(BinningScheme(np.array([]), requested=1), [0.3, 0.4]).alpha == 1


def test_uniform_mass_beats_equal_width_on_skewed_scores():
    rng = np.random.default_rng(0)
    made_from, met = rng.beta(0.3, 3, size=(2, 5_000))
    assert well_balancedness(uniform_mass(made_from, 20), met).alpha < 2
    assert well_balancedness(equal_width(made_from, 20), met).alpha > 10


def test_many_schemes_at_once():
    masses = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    assert balance_of(masses).tolist() == [1.0, 2.0, math.inf]


@pytest.mark.parametrize("scores", [[], [0.1, np.nan], [[0.1, 0.2]], [np.inf]])
def test_scores_must_be_finite_numbers(scores):
    with pytest.raises(InvalidInputError, match=r"scores must be at least one finite number, shape \(n,\)"):
        well_balancedness(uniform_mass([0.1, 0.2], 2), scores)


def test_rows_for_balance_by_hand():
    assert rows_for_balance(20, 0.9) == math.ceil(80 * math.log(200))
    with pytest.raises(InvalidInputError, match=r"confidence_level must lie in \[0.5, 1\), got 1"):
        rows_for_balance(10, 1)
    with pytest.raises(InvalidInputError, match="n_bins must be an integer from 1 to 1000, got 0"):
        rows_for_balance(0)
