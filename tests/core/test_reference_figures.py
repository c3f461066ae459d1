"""Real predictions against the figures of an independent script (../shared/data/README.md), to the printed digits.

There: 15 uniform-mass bins, edges at midpoints, duplicate edges dropped, bins right-closed; squared l2; signed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mlflow_calib.core.estimators import estimate_calibration_error, mean_squared_error

BINS = 15


def softmax(path, n_classes):
    frame = pd.read_parquet(path)
    return frame[[f"p_{k}" for k in range(n_classes)]].to_numpy(np.float64), frame["label"].to_numpy()


def top_label(probabilities, labels):
    return probabilities.max(axis=1), (probabilities.argmax(axis=1) == labels).astype(int)


def figures(scores, labels, **options):
    both = [
        estimate_calibration_error(scores, labels, bins=BINS, estimator=name, **options)
        for name in ("plugin", "debiased")
    ]
    return both[0].squared, both[1].squared, both[1]


def close(value, digits=8):
    """Equal to a figure printed with so many decimals."""
    return pytest.approx(value, abs=0.5 * 10**-digits + 1e-12)


def test_cifar10_top_label(real_data):
    probabilities, labels = softmax(real_data("cifar10_vgg.parquet"), 10)
    confidence, correct = top_label(probabilities, labels)
    plugin, debiased, estimate = figures(confidence, correct)
    assert (plugin, debiased) == (close(0.00609973), close(0.00603450))
    assert (estimate.n, estimate.n_bins, estimate.status) == (10_000, 15, "ok")
    brier = 10 * mean_squared_error(probabilities, np.equal.outer(labels, np.arange(10)))
    assert brier == close(0.105446, 6)


def test_cifar10_marginal(real_data):
    probabilities, labels = softmax(real_data("cifar10_vgg.parquet"), 10)
    plugin, debiased, estimate = figures(probabilities, labels, reduction="marginal")
    assert (plugin, debiased) == (close(0.00013873), close(0.00011098))
    assert (len(estimate.statistics), estimate.bound_kind) == (10, "cross-class counts")
    assert estimate.lower_bound() < estimate.root < estimate.upper_bound()


def test_cifar100(real_data):
    probabilities, labels = softmax(real_data("cifar100_wideresnet.parquet"), 100)
    plugin, debiased, _ = figures(*top_label(probabilities, labels))
    assert (plugin, debiased) == (close(0.00503388), close(0.00484457))
    plugin, debiased, _ = figures(probabilities, labels, reduction="marginal")
    assert (plugin, debiased) == (close(1.66e-5, 7), close(3.64e-6, 8))
    brier = 100 * mean_squared_error(probabilities, np.equal.outer(labels, np.arange(100)))
    assert brier == close(0.350087, 6)


def test_nba_games(real_data):
    games = pd.read_csv(real_data("nba_games.csv"))
    plugin, debiased, by_row = figures(games["p"], games["label"])
    assert (plugin, debiased) == (close(0.00318625), close(0.00282816))
    assert mean_squared_error(games["p"], games["label"]) == close(0.214654, 6)
    by_day = estimate_calibration_error(games["p"], games["label"], bins=BINS, groups=games["date"])
    assert (by_day.squared, by_day.bound_kind, by_row.bound_kind) == (by_row.squared, "groups", "rows")
    assert by_day.statistics[0].to_dict()["groups"]["G"] == games["date"].nunique()
    assert 0 < by_day.lower_bound() < by_day.root < by_day.upper_bound()


def test_llm_stated_confidence(real_data):
    """137 distinct values, a fifth of them 1: ties leave 8 of 15 bins."""
    rows = pd.read_parquet(real_data("llm_stated_confidence.parquet"))
    plugin, debiased, estimate = figures(rows["p"], rows["label"])
    assert (plugin, debiased) == (close(0.01401537), close(0.01399882))
    assert estimate.n_bins == 8
    assert mean_squared_error(rows["p"], rows["label"]) == close(0.162306, 6)


def test_cell_segmentation(real_data):
    """N25: labels are text."""
    cells = pd.read_csv(real_data("cell_segmentation.csv"))
    plugin, debiased, estimate = figures(cells["p_good"], cells["label"], positive_class="good")
    assert (plugin, debiased) == (close(0.06777897), close(0.06559765))
    assert mean_squared_error(cells["p_good"], cells["label"] == "good") == close(0.216089, 6)
    assert estimate.lower_bound() > 0.2  # badly over-confident, beyond doubt


def test_solar_flares_of_noaa(real_data):
    days = pd.read_csv(real_data("solar_flare_c1.csv"))
    days = days[days["NOAA"].between(0, 1)]
    plugin, debiased, estimate = figures(days["NOAA"], days["label"])
    assert (plugin, debiased) == (close(0.00353052), close(0.00085463))
    assert estimate.n_bins == 13
    assert mean_squared_error(days["NOAA"], days["label"]) == close(0.124920, 6)
