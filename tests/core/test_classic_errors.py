"""ECE in both edge conventions, ECE-sweep and smECE: by hand, by brute force, and by others' figures."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from mlflow_calib.core.classic_errors import expected_calibration_error, sweep_calibration_error
from mlflow_calib.core.smooth_error import smooth_calibration_error, smooth_calibration_error_at
from mlflow_calib.errors import InvalidInputError


def close(value, digits=6):
    return pytest.approx(value, abs=0.5 * 10**-digits + 1e-12)


def draw(seed: int, n: int = 2_000, curve: float = 1.5):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**curve).astype(int)


# ECE


def test_both_edge_conventions_on_the_flares_of_noaa(real_data):
    """../shared/data/README.md: .053324 right-closed, .046211 left-closed; its forecasts are multiples of .01."""
    days = pd.read_csv(real_data("solar_flare_c1.csv"))
    days = days[days["NOAA"].between(0, 1)]
    assert expected_calibration_error(days["NOAA"], days["label"]) == close(0.053324)
    assert expected_calibration_error(days["NOAA"], days["label"], edges="left-closed") == close(0.046211)


def test_ece_of_the_other_sets(real_data):
    games = pd.read_csv(real_data("nba_games.csv"))
    assert expected_calibration_error(games["p"], games["label"]) == close(0.049189)
    llm = pd.read_parquet(real_data("llm_stated_confidence.parquet"))
    assert expected_calibration_error(llm["p"], llm["label"]) == close(0.112932)
    cells = pd.read_csv(real_data("cell_segmentation.csv"))
    assert expected_calibration_error(cells["p_good"], cells["label"] == "good") == close(0.210153)
    for name, expected in (("cifar10_vgg", 0.039780), ("cifar100_wideresnet", 0.058060)):
        frame = pd.read_parquet(real_data(f"{name}.parquet"))
        p = frame[[column for column in frame if column.startswith("p_")]].to_numpy(np.float64)
        correct = p.argmax(axis=1) == frame["label"].to_numpy()
        assert expected_calibration_error(p.max(axis=1), correct) == close(expected)


def test_zero_one_and_what_lies_on_an_edge_by_hand():
    outputs, outcomes = [0.0, 0.5, 0.5, 1.0], [1, 0, 1, 1]
    right = (abs(1 + 0 + 1 - 1.0) + 0) / 4  # {0, .5, .5} and {1}
    left = (abs(1 - 0) + abs(0 + 1 + 1 - 2.0)) / 4  # {0} and {.5, .5, 1}
    assert expected_calibration_error(outputs, outcomes, n_bins=2) == pytest.approx(right)
    assert expected_calibration_error(outputs, outcomes, n_bins=2, edges="left-closed") == pytest.approx(left)


def test_weights_of_two_are_rows_twice():
    """N15."""
    scores, outcomes = draw(0, 200)
    weights = np.where(np.arange(200) % 3 == 0, 2, 1)
    twice = np.repeat(np.arange(200), weights)
    for error in (
        expected_calibration_error,
        smooth_calibration_error,
        lambda *a, **k: sweep_calibration_error(*a, **k)[0],
    ):
        assert error(scores, outcomes, sample_weight=weights) == pytest.approx(error(scores[twice], outcomes[twice]))


def test_what_is_refused():
    with pytest.raises(InvalidInputError, match="edges must be one of 'right-closed', 'left-closed'"):
        expected_calibration_error([0.5], [1], edges="closed")
    with pytest.raises(InvalidInputError) as caught:
        expected_calibration_error([0.5, 1.5], [1, 2], sample_weight=[1, -1])
    for part in ("outputs must be numbers in", "outcomes must be 0 or 1", "sample_weight must hold finite"):
        assert part in str(caught.value)


# ECE-sweep


def test_sweep_by_hand():
    """Label means 0, 0, 1, 1 rise up to 4 bins; five rows of .2 share a bin."""
    outputs, outcomes = [0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1]
    error, n_bins = sweep_calibration_error(outputs, outcomes)
    assert (error, n_bins) == (pytest.approx((0.1 + 0.2 + 0.3 + 0.1) / 4), 4)
    squared, _ = sweep_calibration_error(outputs, outcomes, norm="l2")
    assert squared == pytest.approx(math.sqrt((0.01 + 0.04 + 0.09 + 0.01) / 4))


def test_sweep_stops_where_label_means_fall_and_never_parts_equal_scores():
    error, n_bins = sweep_calibration_error([0.2] * 50 + [0.7] * 50, [0, 1] * 25 + [1] * 50)
    assert (error, n_bins) == (pytest.approx(0.3), 2)
    assert sweep_calibration_error([0.2, 0.8], [1, 0])[1] == 1
    assert 2 < sweep_calibration_error(*draw(1))[1] < 60


def test_sweep_of_a_calibrated_model_is_less_biased_than_many_fixed_bins():
    found = [draw(seed, 1_000, curve=1.0) for seed in range(30)]
    sweep = np.mean([sweep_calibration_error(*rows)[0] for rows in found])
    fixed = np.mean([expected_calibration_error(*rows, n_bins=50) for rows in found])
    assert sweep < fixed / 2


# smECE


@pytest.mark.parametrize("width", [0.02, 0.1, 0.5])
def test_smooth_error_is_the_integral_of_its_definition(width):
    """Images of the Gaussian at f + 2 k and -f + 2 k, summed by the trapezium rule on 4,001 points."""
    scores, outcomes = draw(2, 120, curve=1.0)
    t, total = np.linspace(0, 1, 4_001), np.zeros(4_001)
    for image in range(-4, 5):
        for centre in (scores + 2 * image, -scores + 2 * image):
            kernel = np.exp(-((t[:, np.newaxis] - centre) ** 2) / (2 * width**2)) / (width * math.sqrt(2 * math.pi))
            total += kernel @ (outcomes - scores) / len(scores)
    expected = integrate.trapezoid(np.abs(total), t)
    assert smooth_calibration_error_at(scores, outcomes, width) == pytest.approx(expected, rel=1e-4)


def test_smooth_error_is_the_width_that_it_equals():
    for seed, curve in ((3, 1.0), (4, 1.2), (5, 2.0)):
        found = smooth_calibration_error(*draw(seed, curve=curve))
        assert smooth_calibration_error_at(*draw(seed, curve=curve), found) == pytest.approx(found, abs=1e-9)


def test_smooth_error_of_one_sided_residuals_is_their_mean():
    """However wide the kernel, residuals of one sign add up to the same: all of .7 where only positives come."""
    assert smooth_calibration_error([0.3, 0.3], [1, 1]) == pytest.approx(0.7, rel=1e-6)
    assert smooth_calibration_error([0.0, 1.0], [0, 1]) == pytest.approx(0.0, abs=1e-6)
    assert smooth_calibration_error([0.0, 1.0], [1, 0]) > 0.3


def test_smooth_error_moves_little_where_outputs_do():
    scores, outcomes = draw(6)
    moved = np.clip(scores + 1e-4, 0, 1)
    assert smooth_calibration_error(moved, outcomes) == pytest.approx(
        smooth_calibration_error(scores, outcomes), abs=2e-4
    )
    with pytest.raises(InvalidInputError, match="width must be a positive number"):
        smooth_calibration_error_at(scores, outcomes, 0.0)
