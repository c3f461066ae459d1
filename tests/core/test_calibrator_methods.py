"""Methods, numbers of bins, unlabeled scores and weights of the calibrator, and how each reduction is put together."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from mlflow_calib import runtime
from mlflow_calib.core.bin_numbers import sweep_bins
from mlflow_calib.core.binning import uniform_mass
from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.core.scaling import fit_scaling
from mlflow_calib.core.shrinkage import shrunk_values
from mlflow_calib.errors import CalibrationWarning, InvalidInputError


def population(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.uniform(size=n)
    return z, (rng.uniform(size=n) < expit(0.6 * logit(z) - 0.5)).astype(int)


def multiclass(n: int, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(n_classes), size=n)
    return scores, (rng.uniform(size=(n, 1)) > scores.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)


def quiet(*arguments: Any, **options: Any) -> Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_calibrator(*arguments, **options)


# Methods


def test_shrunk_values_lie_between_g_and_the_labels() -> None:
    z, y = population(3000)
    parts = np.random.default_rng(1).integers(1, 4, size=3000)
    shrunk, plain = (
        fit_calibrator(z, y, method=method, n_bins=5, parts=parts)
        for method in ("scaling-binning-shrunk", "scaling-binning")
    )
    index = plain.bin_index(z)[parts == 3]
    counts, sums = np.bincount(index).astype(float), np.bincount(index, y[parts == 3])
    assert shrunk.maps[0].edges.tolist() == plain.maps[0].edges.tolist()
    assert shrunk.maps[0].values.tolist() == shrunk_values(plain.maps[0].values, counts, sums).tolist()
    assert shrunk.method == "scaling-binning-shrunk"


def test_shrunk_takes_the_better_side_where_g_is_wrong() -> None:
    """P(y = 1 | z) = .9 for z in (.4, .6), else .1: no sigmoid. Root-mean-square errors of the 10 bins."""
    rng = np.random.default_rng(0)
    z = rng.uniform(size=20_000)
    rate = np.where(np.abs(z - 0.55) < 0.25, 0.9, 0.1)
    y = (rng.uniform(size=20_000) < rate).astype(int)
    errors = {}
    for method in ("scaling-binning", "scaling-binning-shrunk", "histogram-binning"):
        calibrator = quiet(z, y, method=method, n_bins=10, parts="shared")
        index = calibrator.bin_index(z)
        truth = np.bincount(index, rate) / np.bincount(index)
        errors[method] = np.sqrt(np.mean((calibrator.predict(z) - truth[index]) ** 2))
    assert errors["scaling-binning-shrunk"] < 0.8 * errors["scaling-binning"]


def test_scaling_alone_outputs_g() -> None:
    z, y = population(500)
    calibrator = fit_calibrator(z, y, method="scaling")
    assert calibrator.predict(z).tolist() == fit_scaling("platt", z, y.astype(float))(z).tolist()
    assert (calibrator.parts, calibrator.n_bins_effective, calibrator.is_binned) == ("shared", 0, False)
    with pytest.raises(InvalidInputError, match="no bins"):
        calibrator.bin_index(z)


@pytest.mark.parametrize("reduction", ["marginal", "top-label", "top-label-per-class", "multi-label"])
def test_identity_leaves_scores_alone(reduction: str) -> None:
    scores, labels = multiclass(60)
    given = np.eye(3)[labels] if reduction == "multi-label" else labels
    calibrator = fit_calibrator(scores, given, method="identity", reduction=reduction)
    assert calibrator.predict(scores).tolist() == scores.tolist()
    assert calibrator.predict(scores) is not scores
    assert fit_calibrator([0.2, 0.4], [0, 0], method="identity").predict([0.3]).tolist() == [0.3]
    logits = fit_calibrator([0.0], [1], method="identity", score_kind="logit")
    assert logits.predict([-2.0]).tolist() == [expit(-2.0)]


@pytest.mark.parametrize("method", ["scaling", "identity"])
def test_continuous_calibrators_are_not_packaged(method: str) -> None:
    calibrator = fit_calibrator(*population(100), method=method)
    assert Calibrator.from_json(calibrator.to_json()) == calibrator
    with pytest.raises(ValueError, match=f"method '{method}' has continuous outputs, whose calibration error"):
        runtime.read_calibrator(calibrator.to_json())
    damaged = {**calibrator.to_dict(), "maps": []}
    with pytest.raises(ValueError, match="damaged"):
        Calibrator.from_json(json.dumps(damaged))


@pytest.mark.parametrize("loss", ["log", "squared"])
@pytest.mark.parametrize("scaling", ["platt", "quadratic", "beta", "temperature", "identity", "auto"])
def test_families_and_losses(scaling: str, loss: str) -> None:
    z, y = population(400)
    calibrator = quiet(z, y, scaling=scaling, loss=loss, n_bins=5, parts="shared", seed=3)
    g = fit_scaling(scaling, z, y.astype(float), loss=loss, seed=3)
    assert calibrator.maps[0].scaling == g
    assert (calibrator.scaling, calibrator.loss) == (scaling, loss)
    values = calibrator.maps[0].values
    assert values.tolist() == sorted(values)
    assert values == pytest.approx(np.bincount(calibrator.bin_index(z), g(z)) / np.bincount(calibrator.bin_index(z)))


@pytest.mark.parametrize(
    ("reduction", "family"),
    [("binary", "platt"), ("marginal", "platt"), ("top-label", "auto"), ("top-label-per-class", "auto")],
)
def test_default_families(reduction: str, family: str) -> None:
    scores, labels = multiclass(200)
    if reduction == "binary":
        scores, labels = scores[:, 0], labels == 0
    assert quiet(scores, labels, reduction=reduction).scaling == family


def test_an_unsettled_scaling_function_is_reported_once() -> None:
    """Both on the object and as one warning."""
    with pytest.warns(CalibrationWarning, match="not-converged") as caught:
        calibrator = fit_calibrator([0.1, 0.4, 0.6, 0.9] * 5, [0, 0, 1, 1] * 5, method="scaling")
    assert len(caught) == 1
    assert calibrator.maps[0].flags == ("not-converged",)


# Numbers of bins


@pytest.mark.parametrize(("n", "bins"), [(27, 3), (1000, 10), (8000, 20)])
def test_auto_takes_the_cube_root_for_histogram_binning(n: int, bins: int) -> None:
    calibrator = fit_calibrator(*population(n), method="histogram-binning", n_bins="auto", parts="shared")
    assert (calibrator.n_bins_requested, calibrator.n_bins_effective) == (bins, bins)
    assert calibrator.facts["n_bins"] == "auto"


def test_auto_sweeps_for_scaling_binning() -> None:
    """Against the definition: label means of b uniform-mass bins rise for every b up to the one taken."""

    def rises(b: int) -> bool:
        index = uniform_mass(z, b).index(z)
        return bool((np.diff(np.bincount(index, y) / np.bincount(index)) >= 0).all())

    for seed in range(5):
        z, y = population(500, seed)
        found = sweep_bins(z, y.astype(float))
        assert found == next(b for b in range(1, 500) if not rises(b + 1))
        assert fit_calibrator(z, y, n_bins="auto", parts="shared").n_bins_effective == found


def test_auto_sweeps_t1_alone_and_each_class_for_itself() -> None:
    z, y = population(6000)
    parts = np.resize([1, 2, 3], 6000)
    flipped = np.where(parts == 1, y, 1 - y)
    first, second = (fit_calibrator(z, labels, n_bins="auto", parts=parts) for labels in (y, flipped))
    assert first.maps[0].to_dict() == second.maps[0].to_dict()
    scores, labels = multiclass(1000)
    calibrator = fit_calibrator(scores, labels, reduction="marginal", n_bins="auto", parts="shared")
    expected = tuple(sweep_bins(scores[:, k], (labels == k).astype(float)) for k in range(3))
    assert calibrator.n_bins_effective == expected
    assert calibrator.n_bins_requested == max(expected)


def test_auto_survives_scores_that_are_all_equal() -> None:
    assert quiet([0.5] * 10, [0, 1] * 5, n_bins="auto").n_bins_effective == 1


# Unlabeled scores


@pytest.mark.parametrize(
    ("n_unlabeled", "name", "sizes"), [(900, "shared", (900, 900)), (2000, "disjoint", (1000, 1000))]
)
def test_unlabeled_scores_are_t2_and_t3(n_unlabeled: int, name: str, sizes: tuple[int, int]) -> None:
    z, y = population(300)
    others = np.random.default_rng(9).beta(2, 5, size=n_unlabeled)
    calibrator = fit_calibrator(z, y, unlabeled=others, n_bins=10)
    g = fit_scaling("platt", z, y.astype(float))
    assert calibrator.maps[0].scaling == g
    assert (calibrator.parts, calibrator.facts["n_parts"]) == (name, [300, *sizes])
    assert calibrator.facts["n_unlabeled"] == n_unlabeled
    if name == "shared":
        index = calibrator.bin_index(others)
        assert calibrator.maps[0].values == pytest.approx(np.bincount(index, g(others)) / np.bincount(index))
        assert calibrator.maps[0].counts.tolist() == [90] * 10


@pytest.mark.parametrize("reduction", ["marginal", "top-label", "top-label-per-class", "multi-label"])
@pytest.mark.parametrize("method", ["scaling-binning", "scaling-binning-shrunk"])
def test_unlabeled_scores_of_every_reduction(reduction: str, method: str) -> None:
    scores, labels = multiclass(300)
    others, _ = multiclass(700, seed=5)
    given = np.eye(3)[labels] if reduction == "multi-label" else labels
    options: dict[str, Any] = {"reduction": reduction, "scaling": "platt", "n_bins": 5, "method": method}
    calibrator = quiet(scores, given, unlabeled=others, **options)
    times = 3 if reduction in ("marginal", "multi-label") else 1
    assert sum(one_map.counts.sum() for one_map in calibrator.maps) == 700 * times
    assert calibrator.predict(others).shape == (700, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "histogram-binning"}, "has no use for them"),
        ({"method": "scaling"}, "has no use for them"),
        ({"unlabeled": [0.5, np.nan]}, "unlabeled scores: scores must be finite"),
        ({"unlabeled": []}, "unlabeled scores must hold at least one row"),
        ({"parts": [1, 2, 3]}, "parts as an array speaks of labelled rows"),
        ({"parts": "disjoint", "unlabeled": [0.5]}, "at least 2 unlabeled rows"),
    ],
)
def test_unlabeled_scores_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        fit_calibrator([0.2, 0.7, 0.4], [0, 1, 1], **{"unlabeled": [0.1, 0.8], **options})


def test_unlabeled_columns_are_those_of_the_classes() -> None:
    scores, labels = multiclass(60)
    with pytest.raises(InvalidInputError, match="unlabeled scores must have the 3 columns"):
        fit_calibrator(scores, labels, reduction="marginal", unlabeled=[[0.5, 0.5]])


# Weights


@pytest.mark.parametrize("method", ["scaling-binning", "scaling-binning-shrunk", "histogram-binning", "scaling"])
def test_only_proportions_of_weights_matter(method: str) -> None:
    z, y = population(500)
    weights = np.random.default_rng(1).exponential(size=500) + 0.1
    options: dict[str, Any] = {"method": method, "n_bins": 5, "parts": "shared"}
    first = fit_calibrator(z, y, sample_weight=weights, **options)
    scaled = fit_calibrator(z, y, sample_weight=3.7 * weights, **options)
    assert scaled.predict(z) == pytest.approx(first.predict(z), rel=1e-9)
    assert first.predict(z) != pytest.approx(fit_calibrator(z, y, **options).predict(z), rel=1e-6)
    assert first.facts["effective_n"] == pytest.approx(weights.sum() ** 2 / (weights @ weights))


def test_weights_make_bins_of_equal_weight() -> None:
    z, y = population(3000)
    weights = np.where(z > 0.5, 5.0, 1.0)
    calibrator = fit_calibrator(z, y, sample_weight=weights, n_bins=6, parts="shared", method="histogram-binning")
    index = calibrator.bin_index(z)
    masses = np.bincount(index, weights)
    assert masses / weights.sum() == pytest.approx(np.full(6, 1 / 6), abs=5 / weights.sum())
    assert calibrator.maps[0].values == pytest.approx(np.bincount(index, weights * y) / masses)


def test_weights_of_two_shrink_like_none() -> None:
    """Rows twice are more rows, weights of 2 are not: the effective number decides how far means move."""
    z, y = population(800)
    options: dict[str, Any] = {"method": "scaling-binning-shrunk", "n_bins": 5, "parts": "shared"}
    plain, doubled = fit_calibrator(z, y, **options), fit_calibrator(z, y, sample_weight=[2] * 800, **options)
    assert doubled == plain


# Reductions


def parts_of(calibrator: Calibrator, k: int) -> tuple[list[float], list[float], list[int]]:
    one_map = calibrator.maps[k]
    return one_map.edges.tolist(), one_map.values.tolist(), one_map.counts.tolist()


@pytest.mark.parametrize("parts", ["shared", "disjoint"])
@pytest.mark.parametrize("method", ["scaling-binning", "scaling-binning-shrunk", "histogram-binning"])
def test_every_reduction_is_made_of_binary_problems(method: str, parts: str) -> None:
    scores, labels = multiclass(1200)
    given: Any = parts if parts == "shared" else np.resize([1, 2, 3], 1200)
    options: dict[str, Any] = {"method": method, "n_bins": 4}
    if method != "histogram-binning":
        options["scaling"] = "platt"

    def binary(z: np.ndarray, y: np.ndarray, rows: Any = slice(None)) -> Any:
        own = given if parts == "shared" else given[rows]
        return parts_of(quiet(z[rows], y[rows], parts=own, **options), 0)

    def whole(reduction: str, outcomes: Any = labels) -> Calibrator:
        return quiet(scores, outcomes, reduction=reduction, parts=given, **options)

    top, right = scores.max(axis=1), scores.argmax(axis=1) == labels
    marked = np.eye(3, dtype=bool)[labels] | (scores > 0.6)
    for k in range(3):
        rows = np.flatnonzero(scores.argmax(axis=1) == k)
        assert parts_of(whole("marginal"), k) == binary(scores[:, k], labels == k)
        assert parts_of(whole("multi-label", marked), k) == binary(scores[:, k], marked[:, k])
        assert parts_of(whole("top-label-per-class"), k) == binary(top, right, rows)
    assert parts_of(whole("top-label"), 0) == binary(top, right)


def test_top_label_rows() -> None:
    """The predicted class has the map's value, the row sums to one, and bins are those of the confidence."""
    scores, labels = multiclass(400, 4)
    predicted = scores.argmax(axis=1)
    for reduction in ("top-label", "top-label-per-class"):
        calibrator = quiet(scores, labels, reduction=reduction, n_bins=5)
        outputs = calibrator.predict(scores)
        index = calibrator.bin_index(scores)
        maps = [calibrator.maps[0 if reduction == "top-label" else k] for k in predicted]
        values = [one_map.values[j] for one_map, j in zip(maps, index, strict=True)]
        assert outputs[np.arange(400), predicted].tolist() == values
        assert outputs.sum(axis=1) == pytest.approx(1)
        rest = np.delete(scores[0], predicted[0]), np.delete(outputs[0], predicted[0])
        assert rest[1] / rest[1].sum() == pytest.approx(rest[0] / rest[0].sum())
        assert calibrator.predict(scores[:1]).tolist() == outputs[:1].tolist()


def test_top_label_of_logits() -> None:
    """Log odds of each class against the rest: the same bins, and the others in proportion of their probabilities."""
    scores, labels = multiclass(300)
    options: dict[str, Any] = {"reduction": "top-label", "scaling": "platt", "n_bins": 4}
    of_scores, of_logits = quiet(scores, labels, **options), quiet(logit(scores), labels, score_kind="logit", **options)
    assert of_logits.predict(logit(scores)) == pytest.approx(of_scores.predict(scores), rel=1e-7)


@pytest.mark.parametrize("labels", [0, 1])
def test_top_label_needs_right_and_wrong_rows(labels: int) -> None:
    scores = np.tile([0.7, 0.3], (20, 1))
    absent = "wrong" if labels == 0 else "right"
    with pytest.raises(InvalidInputError, match=f"20 rows none is {absent}; add such rows"):
        fit_calibrator(scores, [labels] * 20, reduction="top-label")


@pytest.mark.parametrize("reduction", ["binary", "marginal", "top-label", "top-label-per-class", "multi-label"])
def test_the_runtime_serves_what_the_calibrator_predicts(reduction: str) -> None:
    scores, labels = multiclass(500)
    given: Any = np.eye(3)[labels] if reduction == "multi-label" else labels
    if reduction == "binary":
        scores, given = scores[:, 0], labels == 0
    calibrator = quiet(scores, given, reduction=reduction, n_bins=5)
    document = runtime.read_calibrator(calibrator.to_json())
    steps = runtime.StepMaps([runtime.map_arrays(one_map) for one_map in document["maps"]])
    for rows in (scores, scores[:1], scores[:0]):
        assert runtime.predict_reduced(rows, steps, document["reduction"]).tolist() == calibrator.predict(rows).tolist()


def test_a_reduction_of_a_later_release_is_refused() -> None:
    document = {**fit_calibrator(*population(100)).to_dict(), "reduction": "canonical"}
    with pytest.raises(ValueError, match="reduction 'canonical', and this release knows binary, marginal"):
        Calibrator.from_json(json.dumps(document))


def test_platts_targets_hold_back_a_fit_to_few_rows() -> None:
    """Platt 1999: (n1 + 1) / (n1 + 2) and 1 / (n0 + 2) in place of 1 and 0 pull the slope towards 0."""
    scores, labels = [0.2, 0.3, 0.6, 0.4, 0.7, 0.8] * 3, [0, 0, 0, 1, 1, 1] * 3
    plain, smoothed = (
        fit_calibrator(scores, labels, n_bins=2, targets=targets).maps[0].scaling for targets in ("labels", "platt")
    )
    assert plain is not None
    assert smoothed is not None
    assert 0 < smoothed.a < plain.a


@pytest.mark.filterwarnings("ignore:fewer-bins:mlflow_calib.errors.CalibrationWarning")
def test_pooled_bins_of_the_shrunk_method_are_one() -> None:
    """An output is one bin by the definition of the calibration error."""
    rng = np.random.default_rng(0)
    z = rng.uniform(size=3000)
    y = rng.uniform(size=3000) < np.where(z < 0.5, 0.3, 0.7)
    values = fit_calibrator(z, y, method="scaling-binning-shrunk", n_bins=100, parts="shared").maps[0].values
    assert (np.diff(values) > 0).all()
