"""Squared and logarithmic loss in their conventions, the decomposition, accuracy and AUC."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest
from sklearn import metrics

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.error_statistics import debiased_squared, plugin_squared
from mlflow_calib.core.proper_losses import (
    LOG_CLIP,
    brier_score,
    log_loss,
    mean_squared_error,
    mse_decomposition,
    refinement,
)
from mlflow_calib.core.ranking import accuracy, area_under_curve, ranking_before_and_after, tied_pairs
from mlflow_calib.errors import InvalidInputError


def close(value, digits=6):
    return pytest.approx(value, abs=0.5 * 10**-digits + 1e-12)


def softmax(path):
    frame = pd.read_parquet(path)
    p = frame[[column for column in frame if column.startswith("p_")]].to_numpy(np.float64)
    return p, np.equal.outer(frame["label"].to_numpy(), np.arange(p.shape[1]))


def draw(seed: int, n: int = 500):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random(n), 2)
    return scores, (rng.random(n) < scores).astype(int), rng.integers(1, 4, size=n)


# Losses


def test_brier_and_log_loss_of_real_predictions(real_data):
    """../shared/data/README.md."""
    for name, brier, loss in (("cifar10_vgg", 0.105446, 0.257065), ("cifar100_wideresnet", 0.350087, 0.956449)):
        p, y = softmax(real_data(f"{name}.parquet"))
        assert brier_score(p, y) == close(brier)
        assert log_loss(p, y) == close(loss)
    games = pd.read_csv(real_data("nba_games.csv"))
    assert log_loss(games["p"], games["label"]) == close(0.619093)
    llm = pd.read_parquet(real_data("llm_stated_confidence.parquet"))
    assert log_loss(llm["p"], llm["label"], clip=LOG_CLIP) == close(1.620010)
    assert log_loss(llm["p"], llm["label"], clip=1e-6) < 0.9  # the clip decides, so it is named
    cells = pyarrow.csv.read_csv(real_data("cell_segmentation.csv")).to_pandas()  # pandas 2 rounds numbers
    assert log_loss(cells["p_good"], cells["label"] == "good") == close(2.480517)
    days = pd.read_csv(real_data("solar_flare_c1.csv"))
    days = days[days["NOAA"].between(0, 1)]
    assert log_loss(days["NOAA"], days["label"]) == close(0.396932)


def test_three_conventions_of_the_squared_loss():
    p, y = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]]), np.array([[1, 0, 0], [0, 0, 1]])
    total = (0.09 + 0.04 + 0.01) + (0.01 + 0.36 + 0.49)
    assert mean_squared_error(p, y) == pytest.approx(total / 6)
    assert brier_score(p, y) == pytest.approx(total / 2)
    assert mean_squared_error(p[:, 0], y[:, 0]) == brier_score(p[:, 0], y[:, 0]) == pytest.approx((0.09 + 0.01) / 2)


def test_losses_agree_with_scikit_learn_weights_included():
    """N15: a weight is a row so many times."""
    scores, outcomes, weights = draw(0)
    kept = np.clip(scores, 1e-6, 1 - 1e-6)
    assert log_loss(kept, outcomes, sample_weight=weights) == pytest.approx(
        metrics.log_loss(outcomes, kept, sample_weight=weights)
    )
    assert mean_squared_error(scores, outcomes, weights) == pytest.approx(
        metrics.brier_score_loss(outcomes, scores, sample_weight=weights)
    )
    twice = np.repeat(np.arange(500), weights)
    assert mean_squared_error(scores, outcomes, weights) == pytest.approx(
        mean_squared_error(scores[twice], outcomes[twice])
    )


def test_a_certain_mistake_without_a_clip_is_infinite():
    assert math.isinf(log_loss([0.0, 0.5], [1, 0], clip=0.0))
    assert log_loss([0.0, 1.0], [0, 1], clip=0.0) == 0.0
    with pytest.raises(InvalidInputError, match=r"clip must lie in \[0, 0.5\)"):
        log_loss([0.5], [1], clip=0.5)


# The decomposition of the squared loss


@pytest.mark.parametrize("binned", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_parts_add_up_to_the_mean_squared_error(binned, weighted):
    scores, outcomes, weights = draw(1)
    index = np.minimum((scores * 8).astype(int), 7)
    outputs = (index + 0.5) / 8 if binned else scores
    s = BinStatistics.from_rows(outputs, outcomes, index, 8, sample_weight=weights if weighted else None)
    parts = mse_decomposition(s)
    assert parts.mse == pytest.approx(mean_squared_error(outputs, outcomes, weights if weighted else None))
    assert parts.calibration + parts.refinement + parts.within_bins == pytest.approx(parts.mse)
    assert parts.calibration_debiased + parts.refinement_debiased == pytest.approx(parts.calibration + parts.refinement)
    assert parts.uncertainty - parts.resolution == pytest.approx(parts.refinement) == pytest.approx(refinement(s))
    assert (parts.calibration, parts.calibration_debiased) == (plugin_squared(s.finish()), debiased_squared(s.finish()))
    assert (abs(parts.within_bins) < 1e-12) == binned


# Accuracy and AUC


@pytest.mark.parametrize("decimals", [0, 1, 2, 9])
@pytest.mark.parametrize("weighted", [True, False])
def test_auc_agrees_with_scikit_learn_ties_included(decimals, weighted):
    rng = np.random.default_rng(decimals)
    scores = np.round(rng.random(300), decimals)
    outcomes, weights = rng.random(300) < 0.3 + 0.4 * scores, rng.integers(1, 4, size=300) if weighted else None
    expected = metrics.roc_auc_score(outcomes, scores, sample_weight=weights)
    assert area_under_curve(scores, outcomes, weights) == pytest.approx(expected, rel=1e-12)


def test_auc_before_and_after_six_scores_in_two_bins():
    """N16: the fall comes from ties, which are named."""
    base, outcomes = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8], [0, 0, 1, 0, 1, 1]
    calibrator = fit_calibrator(base * 20, outcomes * 20, n_bins=2, parts="shared")
    found = ranking_before_and_after(base, calibrator.predict(base), outcomes)
    assert found.base_auc == pytest.approx(8 / 9)  # one of nine pairs out of order
    assert found.calibrated_auc == pytest.approx((4 + 4 / 2) / 9)  # (.3, .6) out of order becomes 1 of 1, 4 pairs tied
    assert (found.base_tied_pairs, found.calibrated_tied_pairs) == (0.0, pytest.approx(4 / 9))
    assert "44.4% after" in found.sentence


def test_ties_count_one_half_and_one_class_alone_has_no_auc():
    assert area_under_curve([0.5, 0.5], [0, 1]) == 0.5
    assert tied_pairs([0.5, 0.5], [0, 1]) == 1.0
    assert area_under_curve([-3.0, 7.5], [0, 1]) == 1.0
    with pytest.raises(InvalidInputError, match="both 0 and 1"):
        area_under_curve([0.5, 0.6], [1, 1])
    with pytest.raises(InvalidInputError, match="finite numbers"):
        area_under_curve([np.nan, 0.6], [1, 0])


def test_accuracy_binary_and_by_the_largest_of_several():
    assert accuracy([0.5, 0.51], [0, 1]) == 1.0  # at one half the label is the negative one
    assert accuracy([0.5, 0.51], [0, 1], threshold=0.9, sample_weight=[1, 3]) == 0.25
    assert accuracy([[0.4, 0.4, 0.2]], [[1, 0, 0]]) == 1.0  # of equal ones the first
