"""The planner against simulation: what it promises is what happens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_calib.core.bound_terms import row_terms
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.intervals import noise_floor
from mlflow_calib.core.planning import FITTED_CONSTANTS, noise_floor_of, rows_to_fit, rows_to_verify
from mlflow_calib.errors import InvalidInputError

UNIFORM = {b: (np.arange(b) + 0.5) / b for b in (5, 10, 20, 100)}
SKEWED = 0.3 * UNIFORM[10] ** 2


def share_that_passes(n, limit, outputs, gaps, level=0.95, draws=4_000):
    """Share of evaluation sets of n rows whose upper bound is within the limit, bins of equal mass, rates u + gap."""
    rng = np.random.default_rng([n, len(outputs)])
    counts = rng.multinomial(n, np.full(len(outputs), 1 / len(outputs)), size=draws)
    positives = rng.binomial(counts, np.clip(outputs + gaps, 0, 1))
    return float(np.mean(np.sqrt(row_terms(counts, positives, outputs).upper(level)) <= limit))


def test_noise_floor_is_that_of_the_data_when_they_have_that_shape():
    """Bins of 100 rows with exactly the rates of the shape, so that nothing but the debiasing term is left of T."""
    s = ErrorStatistics([100] * 10, [5 + 10 * j for j in range(10)], UNIFORM[10])
    assert noise_floor_of(1_000, 10) == pytest.approx(noise_floor(s), rel=1e-12)


@pytest.mark.parametrize(("rates", "n_bins"), [(None, 5), (None, 10), (None, 100), (SKEWED, 10)])
def test_noise_floor_is_what_calibrated_models_show_on_average(rates, n_bins):
    """Mean floor over simulated evaluation sets of the shape."""
    shape = UNIFORM[n_bins] if rates is None else rates
    n = 200 * n_bins
    rng = np.random.default_rng(n_bins)
    counts = rng.multinomial(n, np.full(n_bins, 1 / n_bins), size=2_000)
    terms = row_terms(counts, rng.binomial(counts, shape), shape)
    assert noise_floor_of(n, n_bins, rates=rates) == pytest.approx(np.sqrt(terms.floor(0.95)).mean(), rel=0.03)


def test_noise_floor_falls_with_rows_and_rises_with_bins_and_level():
    floors = [noise_floor_of(n, 10) for n in (200, 1_000, 5_000, 100_000)]
    assert floors == sorted(floors, reverse=True)
    assert noise_floor_of(5_000, 10) < noise_floor_of(5_000, 100)
    assert noise_floor_of(5_000, 10, 0.9) < noise_floor_of(5_000, 10, 0.99)
    assert noise_floor_of(5_000, 10, rates=SKEWED) < noise_floor_of(5_000, 10)


@pytest.mark.parametrize(("limit", "n_bins"), [(0.05, 10), (0.03, 10), (0.05, 20), (0.03, 100)])
def test_rows_to_verify_is_where_the_noise_floor_meets_the_limit(limit, n_bins):
    n = rows_to_verify(limit, n_bins)
    assert noise_floor_of(n, n_bins) <= limit < noise_floor_of(n - 1, n_bins)


@pytest.mark.parametrize(("limit", "n_bins"), [(0.05, 10), (0.03, 20), (0.02, 100)])
def test_a_calibrated_model_passes_about_every_second_time(limit, n_bins):
    """T is below its mean of zero somewhat more often than above, as it is skewed."""
    n = rows_to_verify(limit, n_bins)
    assert 0.45 <= share_that_passes(n, limit, UNIFORM[n_bins], 0.0) <= 0.65


@pytest.mark.parametrize("pass_probability", [0.8, 0.95])
@pytest.mark.parametrize(
    ("limit", "n_bins", "true_error"), [(0.05, 10, 0.0), (0.05, 10, 0.02), (0.05, 20, 0.03), (0.03, 100, 0.01)]
)
def test_a_stated_pass_probability_is_reached(limit, n_bins, true_error, pass_probability):
    """Whether the error is even over the bins, alternating, or in one bin alone; and not with many rows too many."""
    n = rows_to_verify(limit, n_bins, true_error=true_error, pass_probability=pass_probability)
    inward = np.where(UNIFORM[n_bins] < 0.5, 1.0, -1.0)
    one_bin = np.eye(n_bins)[n_bins // 4] * math.sqrt(n_bins)
    for direction in (
        inward,
        np.where(np.arange(n_bins) % 2, inward, -inward * (np.abs(UNIFORM[n_bins] - 0.5) < 0.4)),
        one_bin,
    ):
        gaps = direction * true_error / math.sqrt(np.mean(direction**2))
        share = share_that_passes(n, limit, UNIFORM[n_bins], gaps)
        assert share >= pass_probability - 0.02, direction
    assert share_that_passes(n // 2, limit, UNIFORM[n_bins], inward * true_error) < pass_probability


def test_rows_to_verify_fills_every_bin():
    """A limit anybody meets still asks for 20 rows a bin, below which bins are thin."""
    assert rows_to_verify(0.9, 10) == 200


def test_no_number_of_rows_shows_next_to_nothing():
    assert rows_to_verify(1e-9, 10) is None


@pytest.mark.filterwarnings("ignore::mlflow_calib.errors.CalibrationWarning")  # scores held at the boundary tie
@pytest.mark.parametrize("method", FITTED_CONSTANTS)
@pytest.mark.parametrize(("error", "n_bins"), [(0.02, 10), (0.03, 50)])
def test_rows_to_fit_reach_the_error_on_average(method, error, n_bins):
    """The synthetic experiment once more, z uniform and y calibrated: E[y | bin] is the bin's middle."""
    n = rows_to_fit(error, n_bins, method)
    squared = []
    for draw in range(150):
        rng = np.random.default_rng([n, draw])
        z = rng.uniform(size=n)
        y = (rng.uniform(size=n) < z).astype(int)
        scaling = "platt" if method == "scaling-binning" else None
        (one_map,) = fit_calibrator(z, y, method=method, n_bins=n_bins, parts="shared", scaling=scaling).maps
        ends = np.concatenate([[0], one_map.edges, [1]])
        squared.append(np.diff(ends) @ (one_map.values - (ends[1:] + ends[:-1]) / 2) ** 2)
    standard_error = np.std(squared, ddof=1) / math.sqrt(len(squared))
    assert np.mean(squared) <= error**2 + 3 * standard_error
    assert np.mean(squared) >= 0.7 * error**2 - 3 * standard_error


def test_rows_to_fit_by_hand():
    assert rows_to_fit(0.1, 10, "histogram-binning") == round(FITTED_CONSTANTS["histogram-binning"] * 10 / 0.01)
    assert rows_to_fit(0.1, 10) == 10 + math.ceil(FITTED_CONSTANTS["scaling-binning"] / 0.01 - 1e-6)
    more_bins = [rows_to_fit(0.02, b, m) - rows_to_fit(0.02, 10, m) for m in FITTED_CONSTANTS for b in (100,)]
    assert min(more_bins) == 90, "with scaling-binning 90 bins cost 90 rows"


def test_wrong_input_is_named_with_what_must_hold():
    with pytest.raises(
        InvalidInputError, match=r"(?s)confidence_level must lie in \[0.5, 1\), got 95.*pass_probability"
    ):
        rows_to_verify(0.05, 10, 95, pass_probability=0.2)
    with pytest.raises(InvalidInputError, match="limit_root must be a positive number above true_error"):
        rows_to_verify(0.05, 10, true_error=0.05)
    with pytest.raises(InvalidInputError, match="limit_root must be a positive number"):
        rows_to_verify(math.nan, 10)
    with pytest.raises(InvalidInputError, match=r"rates must be 3 numbers in \[0, 1\], one a bin, got \[0.1, 1.2\]"):
        noise_floor_of(1_000, 3, rates=[0.1, 1.2])
    with pytest.raises(InvalidInputError, match="n must be at least one row a bin, 10, got 9"):
        noise_floor_of(9, 10)
    with pytest.raises(
        InvalidInputError, match="method must be one of histogram-binning, scaling-binning, got 'platt'"
    ):
        rows_to_fit(0.05, 10, "platt")
    with pytest.raises(InvalidInputError, match=r"error must lie in \(0, 1\), got 0"):
        rows_to_fit(0, 10)
    with pytest.raises(InvalidInputError, match=r"n_bins must be an integer from 1 to 1000, got 2\.5"):
        noise_floor_of(1_000, 2.5)
