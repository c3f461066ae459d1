"""Other implementations' figures: equal where those are right, and ours right where they are not.

uncertainty-calibration 0.1.4 (the code of Kumar et al. 2019), scikit-learn, and the ECE of torchmetrics as arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import calibration as reference
import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn import metrics
from sklearn.calibration import calibration_curve

from mlflow_calib.core.binning import BinningScheme, uniform_mass
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.classic_errors import expected_calibration_error
from mlflow_calib.core.estimators import estimate_calibration_error, mean_squared_error
from mlflow_calib.core.proper_losses import brier_score, log_loss
from mlflow_calib.core.scaling import fit_platt
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

SEEDS = range(4)


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


def binary(seed: int, n: int = 2_000) -> tuple[Any, Any]:
    """Scores without ties, whose odds are too extreme."""
    rng = np.random.default_rng(seed)
    z = 0.02 + 0.96 * rng.beta(0.8, 1.2, size=n)
    return z, (rng.random(n) < expit(0.7 * logit(z) - 0.3)).astype(int)


def multiclass(seed: int, n: int = 2_000, n_classes: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_classes, 0.6), size=n)
    true = 0.7 * p + 0.3 / n_classes
    return p, (rng.random((n, 1)) > true.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)


def few_valued(seed: int, n: int = 2_000) -> tuple[Any, Any]:
    """Outputs of 20 values, some of them rare."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.random(20))
    p = rng.choice(values, size=n, p=rng.dirichlet(np.ones(20)))
    return p, (rng.random(n) < np.clip(p + 0.08, 0, 1)).astype(int)


def both(p: Any, y: Any, **options: Any) -> tuple[float, float]:
    """Ours: plug-in and debiased squares, the latter floored at zero as a root is."""
    plugin = estimate_calibration_error(p, y, estimator="plugin", **options).squared
    return plugin, estimate_calibration_error(p, y, **options).root ** 2


def theirs(function: Any, p: Any, y: Any, **options: Any) -> tuple[float, float]:
    return function(p, y, p=2, debias=False, **options) ** 2, function(p, y, p=2, debias=True, **options) ** 2


# uncertainty-calibration: estimates


@pytest.mark.parametrize("seed", SEEDS)
def test_binary_error_of_few_outputs(seed: int) -> None:
    p, y = few_valued(seed)
    assert both(p, y, bins="distinct") == exactly(theirs(reference.get_binning_ce, p, y))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_bins", [1, 7, 15, 60])
def test_binary_error_on_uniform_mass_bins(seed: int, n_bins: int) -> None:
    z, y = binary(seed)
    expected = theirs(reference.lower_bound_scaling_ce, z, y, num_bins=n_bins)
    assert both(z, y, bins=n_bins) == exactly(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_binary_error_on_given_bins(seed: int) -> None:
    """An edge on a score belongs to the lower bin in both."""
    z, y = binary(seed)
    edges = np.sort(z)[[100, 101, 700, 1500]]
    expected = theirs(reference.lower_bound_scaling_ce, z, y, binning_scheme=lambda *_, **__: [*edges, 1.0])
    assert both(z, y, bins=BinningScheme(edges, 5)) == exactly(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_top_label_error(seed: int) -> None:
    p, y = multiclass(seed)
    options = {"reduction": "top-label", "bins": 15}
    assert both(p, y, **options) == exactly(theirs(reference.lower_bound_scaling_ce, p, y, mode="top-label"))
    rounded = np.round(p, 1)
    rounded[:, -1] = 1 - rounded[:, :-1].sum(axis=1)
    kept = (rounded >= 0).all(axis=1)
    rounded, labels = rounded[kept].round(12), y[kept]
    expected = theirs(reference.get_binning_ce, rounded, labels, mode="top-label")
    assert both(rounded, labels, reduction="top-label", bins="distinct") == exactly(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_marginal_plug_in_error(seed: int) -> None:
    """Without a clamp a class the two agree; the debiased ones do not, see below."""
    p, y = multiclass(seed)
    ours = estimate_calibration_error(p, y, reduction="marginal", estimator="plugin", bins=15).squared
    assert ours == exactly(reference.lower_bound_scaling_ce(p, y, p=2, debias=False) ** 2)


def test_marginal_mse_is_half_the_brier_score() -> None:
    """Theirs is the half-Brier of the paper's figures: K / 2 times the mean over rows and classes."""
    p, y = multiclass(0)
    theirs_mse = reference.eval_marginal_mse(p, p, y)
    truths = np.equal.outer(y, np.arange(4))
    assert brier_score(p, truths) / 2 == exactly(theirs_mse)
    assert mean_squared_error(p, truths) * 4 / 2 == exactly(theirs_mse)


# uncertainty-calibration: fits


@pytest.mark.parametrize("n_bins", [3, 10, 64])
def test_uniform_mass_edges(n_bins: int) -> None:
    """The sizes of numpy.array_split, edges midway; theirs ends with 1."""
    z, _ = binary(0)
    assert uniform_mass(z, n_bins).edges.tolist() == exactly(reference.get_equal_bins(z, num_bins=n_bins)[:-1])


@pytest.mark.parametrize("n_bins", [3, 10, 64])
def test_histogram_binning(n_bins: int) -> None:
    z, y = binary(1)
    peer = reference.HistogramCalibrator(len(z), n_bins)
    peer.train_calibration(z, y)
    ours = fit_calibrator(z, y, method="histogram-binning", n_bins=n_bins, parts="shared")
    fresh = binary(2)[0]
    assert np.abs(ours.predict(fresh) - peer.calibrate(fresh)).max() < 1e-9


def test_histogram_binning_of_several_classes() -> None:
    p, y = multiclass(1)
    fresh, _ = multiclass(2)
    options: dict[str, Any] = {"method": "histogram-binning", "n_bins": 12, "parts": "shared"}
    peer = reference.HistogramMarginalCalibrator(len(p), 12)
    peer.train_calibration(p, y)
    ours = fit_calibrator(p, y, reduction="marginal", **options)
    assert np.abs(ours.predict(fresh) - peer.calibrate(fresh)).max() < 1e-9
    top = reference.HistogramTopCalibrator(len(p), 12)
    top.train_calibration(p, y)
    predicted = fit_calibrator(p, y, reduction="top-label", **options).predict(fresh)
    confidence = predicted[np.arange(len(fresh)), fresh.argmax(axis=1)]
    assert np.abs(confidence - top.calibrate(fresh)).max() < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_platt_scaling(seed: int) -> None:
    """Their optimiser stops at 1e-4: outputs agree to that, and the log loss of ours is never above theirs."""
    z, y = binary(seed)
    peer, g = reference.get_platt_scaler(z, y), fit_platt(z, y.astype(float))
    assert g.boundary <= z.min()
    assert np.abs(g(z) - peer(z)).max() < 2e-4
    assert log_loss(g(z), y) <= log_loss(peer(z), y) + 1e-15


@pytest.mark.parametrize("n_bins", [3, 10, 64])
def test_scaling_binning_given_the_same_g(n_bins: int) -> None:
    """Steps 2 and 3, and the folding of g into the edges, on the g that ours fitted."""
    z, y = binary(3)
    ours = fit_calibrator(z, y, n_bins=n_bins, parts="shared")
    g = ours.maps[0].scaling
    peer = reference.get_discrete_calibrator(g(z), reference.get_equal_bins(g(z), num_bins=n_bins))
    assert np.abs(ours.predict(z) - peer(g(z))).max() < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_scaling_binning_as_a_whole(seed: int) -> None:
    z, y = binary(seed)
    peer = reference.PlattBinnerCalibrator(len(z), 10)
    peer.train_calibration(z, y)
    ours = fit_calibrator(z, y, n_bins=10, parts="shared")
    assert np.abs(ours.predict(z) - peer.calibrate(z)).max() < 2e-4


# uncertainty-calibration: where it errs


def test_a_clamp_for_each_class_adds_error_where_there_is_none() -> None:
    """Perfect outputs: theirs floors each class at zero before the mean, so that noise of one sign stays."""
    ours, peer = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        p = rng.choice([0.1, 0.2, 0.3, 0.4], size=(400, 1)) * [1, 1, 0] + [0, 0, 1]
        p[:, 2] -= p[:, 0] + p[:, 1]
        y = (rng.random((400, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=2)
        ours.append(estimate_calibration_error(p, y, reduction="marginal", bins="distinct").squared)
        peer.append(reference.get_binning_ce(p, y) ** 2)
        classes = [reference.get_binning_ce(p[:, k], (y == k).astype(int)) ** 2 for k in range(3)]
        assert peer[-1] == exactly(np.mean(classes))  # each of them is floored already
    standard_error = np.std(ours) / math.sqrt(len(ours))
    assert abs(np.mean(ours)) < 3 * standard_error
    assert np.mean(peer) > 5 * standard_error


def test_their_ninety_percent_interval_goes_from_smallest_to_largest() -> None:
    """alpha = .1 is read as .1 %: of 100 draws nothing is cut off but a twentieth of the last step."""
    p, y = few_valued(0, n=400)
    data = list(zip(p, y, strict=True))

    def squared(rows: Any) -> float:
        first, second = zip(*rows, strict=True)
        return float(reference.get_binning_ce(first, second, debias=False) ** 2)

    def interval(alpha: float) -> float:
        np.random.seed(0)  # noqa: NPY002 - the generator that they draw from
        low, _, high = reference.bootstrap_uncertainty(data, squared, num_samples=100, alpha=alpha)
        return float(high - low)

    np.random.seed(0)  # noqa: NPY002
    draws = [squared(reference.resample(data)) for _ in range(100)]
    assert interval(0.1) == pytest.approx(max(draws) - min(draws), rel=0.05)
    assert interval(10.0) < 0.8 * interval(0.1)


def test_our_ninety_percent_interval_is_of_ninety_percent() -> None:
    """Levels are shares: the ends are the one-sided 95 % bounds, and a percentage is refused."""
    estimate = estimate_calibration_error(*few_valued(0), bins="distinct")
    assert estimate.confidence_interval(0.90) == (estimate.lower_bound(0.95), estimate.upper_bound(0.95))
    with pytest.raises(InvalidInputError, match="confidence_level must lie between 0 and 1, got 90"):
        estimate.confidence_interval(90)


def test_a_class_that_no_label_names() -> None:
    """Class 3 of 4 is missing in T: theirs stops at an assertion without words, ours fits the other three."""
    p, y = multiclass(0)
    y = np.where(y == 3, 0, y)
    with pytest.raises(AssertionError):
        reference.PlattBinnerMarginalCalibrator(len(p), 10).train_calibration(p, y)
    with pytest.warns(CalibrationWarning) as caught:
        ours = fit_calibrator(p, y, reduction="marginal", n_bins=10, parts="shared")
    assert "no row of the class" in str(caught[0].message)
    assert ours.maps[3].flags == ("class-absent",)
    others = fit_calibrator(p[:, 1], (y == 1).astype(int), n_bins=10, parts="shared")
    assert ours.maps[1].values.tolist() == others.maps[0].values.tolist()


def test_distinct_outputs_are_bins_whatever_their_number() -> None:
    """60 outputs: theirs bins them anew below 241 rows and not from there on, and does not say so."""
    rng = np.random.default_rng(0)
    for n, rebinned in ((236, True), (244, False)):
        p = np.resize(np.linspace(0.01, 0.99, 60), n)
        y = (rng.random(n) < p).astype(int)
        plugin = estimate_calibration_error(p, y, bins="distinct", estimator="plugin")
        assert plugin.n_bins == 60
        agrees = plugin.root == exactly(reference.get_calibration_error(p, y, debias=False))
        assert agrees is not rebinned


def test_separable_scores_stay_finite() -> None:
    """Theirs runs its slope away; ours fits Platt's targets (n1 + 1) / (n1 + 2) and says so."""
    z = np.r_[np.linspace(0.05, 0.45, 50), np.linspace(0.55, 0.95, 50)]
    y = (z > 0.5).astype(float)
    _, model = reference.get_platt_scaler(z, y, get_clf=True)
    g = fit_platt(z, y)
    assert not g.converged
    assert g.a < model.coef_[0, 0] / 2
    assert g(z).sum() == pytest.approx(50 * 51 / 52 + 50 / 52, abs=1e-6)


# scikit-learn


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_brier_score_and_log_loss(seed: int, weighted: bool) -> None:
    z, y = binary(seed)
    w = np.random.default_rng(seed).exponential(size=len(z)) if weighted else None
    assert brier_score(z, y, w) == exactly(metrics.brier_score_loss(y, z, sample_weight=w))
    assert log_loss(z, y, sample_weight=w) == exactly(metrics.log_loss(y, z, sample_weight=w))
    p, labels = multiclass(seed)
    truths = np.equal.outer(labels, np.arange(4)).astype(float)
    assert brier_score(p, truths, w) == exactly(
        metrics.brier_score_loss(labels, p, sample_weight=w, scale_by_half=False, labels=range(4))
    )
    assert log_loss(p, truths, sample_weight=w) == exactly(metrics.log_loss(labels, p, sample_weight=w))


def test_log_loss_of_certain_mistakes_is_clipped_alike() -> None:
    p, y = np.array([0.0, 1.0, 0.3]), np.array([1, 0, 1])
    assert log_loss(p, y) == pytest.approx(metrics.log_loss(y, p), rel=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_calibration_curve_closes_its_bins_on_the_right(seed: int) -> None:
    """Every second score lies on an edge. Theirs leaves empty bins out, and says no masses."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 33, size=1_000) / 32
    y = (rng.random(1_000) < p).astype(int)
    observed, stated = calibration_curve(y, p, n_bins=16)
    shares = np.bincount(np.ceil(16 * p).clip(1).astype(int))[1:] / len(p)
    ours = (expected_calibration_error(p, y, n_bins=16, edges=edges) for edges in ("right-closed", "left-closed"))
    right, left = ours
    assert right == exactly(float(shares @ np.abs(observed - stated)))
    assert abs(left - right) > 1e-6


# Expected calibration error as torchmetrics and uncertainty-calibration have it


def torch_style_ece(p: Any, y: Any, n_bins: int) -> float:
    """torchmetrics' BinaryCalibrationError(norm="l1"): bucketize(right=True) over n_bins equal widths."""
    edges = np.linspace(0, 1, n_bins + 1)
    total = 0.0
    for j in range(n_bins):
        inside = (p >= edges[j]) & ((p < edges[j + 1]) | (j == n_bins - 1))
        if inside.any():
            total += inside.mean() * abs(y[inside].mean() - p[inside].mean())
    return float(total)


@pytest.mark.parametrize("seed", SEEDS)
def test_expected_calibration_error(seed: int) -> None:
    """Without scores on edges both conventions are one; confidences of 4 classes too."""
    z, y = binary(seed)
    p, labels = multiclass(seed)
    for scores, outcomes in ((z, y), (p.max(axis=1), (p.argmax(axis=1) == labels).astype(int))):
        expected = torch_style_ece(scores, outcomes, 15)
        for edges in ("left-closed", "right-closed"):
            assert expected_calibration_error(scores, outcomes, n_bins=15, edges=edges) == exactly(expected)
        assert reference.get_ece(scores, outcomes, num_bins=15) == exactly(expected)


def test_expected_calibration_error_with_scores_on_edges() -> None:
    """torchmetrics closes bins on the left, uncertainty-calibration on the right."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 17, size=800) / 16
    y = (rng.random(800) < p).astype(int)
    left = expected_calibration_error(p, y, n_bins=8, edges="left-closed")
    right = expected_calibration_error(p, y, n_bins=8, edges="right-closed")
    assert left == exactly(torch_style_ece(p, y, 8))
    assert right == exactly(reference.get_ece(p, y, num_bins=8))
    assert abs(left - right) > 1e-6


def test_a_binned_model_by_hand() -> None:
    """Both rules of arithmetic on one table: .6 (.2 - .25)^2 + .4 (.7 - .6)^2, less the noise of each bin."""
    p = [0.2] * 60 + [0.7] * 40
    y = [1] * 15 + [0] * 45 + [1] * 24 + [0] * 16
    plugin, debiased = both(p, y, bins="distinct")
    assert plugin == exactly(0.6 * 0.05**2 + 0.4 * 0.1**2)
    assert debiased == exactly(plugin - 0.6 * 0.25 * 0.75 / 59 - 0.4 * 0.6 * 0.4 / 39)
    assert (plugin, debiased) == exactly(theirs(reference.get_binning_ce, np.array(p), np.array(y)))
