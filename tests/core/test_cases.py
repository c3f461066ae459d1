"""Inputs that real users ran into: every number of the cases file that speaks of scores, labels and calibrators.

The case is the smallest member of its kind; the tests beside it hold the rest of the kind.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.core.scores import clean_rows
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

GOLDEN = Path(__file__).with_name("calibrator_schema_1.json")
REDUCTIONS = ("marginal", "top-label", "top-label-per-class", "multi-label")


def quiet(*arguments: Any, **options: Any) -> Calibrator:
    """A fit whose warnings are not what is looked at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_calibrator(*arguments, **options)


def multiclass(n: int, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(n_classes), size=n)
    return scores, (rng.uniform(size=(n, 1)) > scores.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)


def labels_for(reduction: str, labels: np.ndarray, n_classes: int = 3) -> np.ndarray:
    return np.eye(n_classes, dtype=int)[labels] if reduction == "multi-label" else labels


@pytest.mark.parametrize("method", ["scaling-binning", "scaling-binning-shrunk", "histogram-binning", "scaling"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_calibrator_survives_saving(method: str, reduction: str) -> None:
    """N1: to the bit, through JSON, pickle and cloudpickle."""
    scores, labels = multiclass(300)
    calibrator = quiet(scores, labels_for(reduction, labels), method=method, reduction=reduction, n_bins=4)
    for loaded in (
        Calibrator.from_json(calibrator.to_json()),
        pickle.loads(pickle.dumps(calibrator)),  # noqa: S301
        cloudpickle.loads(cloudpickle.dumps(calibrator)),
    ):
        assert loaded == calibrator
        assert loaded.predict(scores).tobytes() == calibrator.predict(scores).tobytes()


@pytest.mark.parametrize("scores", [[0.2] * 30 + [0.7] * 10, [0.5] * 40, np.repeat([0.0, 1.0], [30, 10])])
def test_ties_leave_one_bin_a_score_at_most(scores: Any) -> None:
    """N2: requested and effective numbers are both kept, and one warning is given."""
    labels = np.concatenate([np.resize([0, 0, 1], 30), np.resize([0, 1, 1], 10)])
    with pytest.warns(CalibrationWarning, match="bins requested 4") as caught:
        calibrator = fit_calibrator(scores, labels, n_bins=4)
    assert len(caught) == 1
    assert calibrator.n_bins_requested == 4
    assert calibrator.n_bins_effective == len(np.unique(scores))
    assert "fewer-bins" in calibrator.maps[0].flags


@pytest.mark.parametrize(
    ("value", "row", "overtaken"),
    [(0.6, [0.20, 0.60, 0.10, 0.10], False), (0.3, [0.35, 0.30, 0.175, 0.175], True)],
)
def test_other_classes_keep_their_proportions(value: float, row: list[float], overtaken: bool) -> None:
    """N4: 1 - v over the rest in proportion; where one of them comes out above the predicted class that is flagged."""
    base = [0.10, 0.80, 0.05, 0.05]
    labels = np.repeat([1, 0], [round(100 * value), round(100 - 100 * value)])
    options: dict[str, Any] = {"method": "histogram-binning", "reduction": "top-label", "n_bins": 1}
    calibrator = fit_calibrator(np.tile(base, (100, 1)), labels, **options)
    outputs, flagged = calibrator.predict_with_flags([base, [0.8, 0.1, 0.1, 0.0]])
    assert outputs[0].tolist() == pytest.approx(row, abs=1e-15)
    assert calibrator.predict([base]).tolist() == outputs[:1].tolist()
    assert outputs.sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert flagged.tolist() == [overtaken, overtaken]  # 0.35 for both others of the second row


def test_nothing_but_the_predicted_class() -> None:
    """N4: where all others are 0 there are no proportions; they share what is left."""
    scores = np.tile([0.0, 1.0, 0.0], (10, 1))
    options: dict[str, Any] = {"method": "histogram-binning", "reduction": "top-label", "n_bins": 1}
    calibrator = quiet(scores, [1] * 6 + [0] * 4, **options)
    assert calibrator.predict(scores[:1])[0].tolist() == pytest.approx([0.2, 0.6, 0.2])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_class_without_rows(reduction: str) -> None:
    """N5, N6: the classes are the model's; a class that T lacks has a fallback, flagged and named in the warning."""
    scores, labels = multiclass(300)
    labels = np.where(labels == 2, 1, labels)
    if reduction == "top-label-per-class":
        scores = scores[:, [0, 1, 1]] * [1, 0.6, 0.4]
        scores /= scores.sum(axis=1, keepdims=True)  # class 2 is never predicted
    given = labels_for(reduction, labels)
    if reduction == "top-label":
        assert fit_calibrator(scores, given, reduction=reduction, scaling="platt").predict(scores).shape == (300, 3)
        return
    flag = "few-predicted" if reduction == "top-label-per-class" else "class-absent"
    with pytest.warns(CalibrationWarning, match=rf"{flag}, class 2") as caught:
        calibrator = fit_calibrator(scores, given, reduction=reduction, n_bins=4, scaling="platt")
    assert len(caught) == 1
    assert [flag in one_map.flags for one_map in calibrator.maps] == [False, False, True]
    assert calibrator.predict(scores).shape == (300, 3)


def test_a_predicted_class_with_too_few_rows_takes_the_map_of_all() -> None:
    """N6."""
    scores, labels = multiclass(400)
    rare = np.flatnonzero(scores.argmax(axis=1) == 2)[4:]
    keep = np.setdiff1d(np.arange(400), rare)
    scores, labels = scores[keep], labels[keep]
    calibrator = quiet(scores, labels, reduction="top-label-per-class", scaling="platt", n_bins=3)
    everyone = quiet(scores, labels, reduction="top-label", scaling="platt", n_bins=3)
    assert calibrator.maps[2].values.tolist() == everyone.maps[0].values.tolist()
    assert calibrator.maps[2].label == 2
    assert calibrator.maps[0].values.tolist() != everyone.maps[0].values.tolist()


def test_few_rows_of_a_class_are_named() -> None:
    """N6: two rows of class 2 are too few to learn from, and that is said before anything is fitted."""
    scores, labels = multiclass(200)
    labels = np.where(labels == 2, 1, labels)
    labels[:2] = 2
    with pytest.warns(CalibrationWarning) as caught:
        fit_calibrator(scores, labels, reduction="marginal", n_bins=4)
    assert str(caught[0].message).startswith("few-rows, class 2: fewer than 5 rows")
    assert not any("few-rows" in str(one.message) for one in caught[1:])


@pytest.mark.parametrize("reduction", ["marginal", "top-label", "top-label-per-class"])
@pytest.mark.parametrize(("labels", "named"), [([1, 2, 3] * 20, r"3 \(20 rows"), (["0", "1", "2"] * 20, "'0'")])
def test_labels_unknown_to_the_model(reduction: str, labels: list[Any], named: str) -> None:
    """N7: they are listed, with their rows."""
    scores, _ = multiclass(60)
    with pytest.raises(InvalidInputError, match=rf"labels unknown to the classes \[0, 1, 2\].*{named}"):
        fit_calibrator(scores, labels, reduction=reduction)


def test_calibrated_scores_stay_as_they_are() -> None:
    """N8: slope 1, intercept 0, so that every bin keeps its score; on probabilities the sigmoid could not."""
    p = np.array([0.001, 0.01, 0.99, 0.999])
    scores = np.repeat(p, 1000)
    labels = np.concatenate([np.repeat([1, 0], [k, 1000 - k]) for k in (1, 10, 990, 999)])
    calibrator = quiet(scores, labels, n_bins=4, parts="shared")
    assert calibrator.predict(p) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_float32_is_its_float64(reduction: str) -> None:
    """N9: of every reduction; rows that sum to one in float32 only within rounding are accepted."""
    scores, labels = multiclass(300)
    single = scores.astype(np.float32)
    given = labels_for(reduction, labels)
    first, second = (quiet(s, given, reduction=reduction, n_bins=4) for s in (single, single.astype(float)))
    assert first == second
    assert first.predict(single).dtype == np.float64


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_rows_that_do_not_sum_to_one(reduction: str) -> None:
    """N10: refused with the rows where they state a distribution, legal for labels that do not exclude one another."""
    scores, labels = multiclass(60)
    bad = scores.copy()
    bad[[7, 9]] *= 0.5
    given = labels_for(reduction, labels)
    fitted = quiet(scores, given, reduction=reduction, n_bins=2)
    if reduction == "multi-label":
        assert quiet(bad, given, reduction=reduction, n_bins=2).predict(bad).shape == (60, 3)
        return
    for call in (lambda: fit_calibrator(bad, given, reduction=reduction), lambda: fitted.predict(bad)):
        with pytest.raises(ValueError, match=r"sum to 1 within 0.001. 2 of 60 rows .* row 7"):
            call()


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "binary"])
def test_logits_where_probabilities_are_due(reduction: str) -> None:
    """N11: the error says what they look like and how to say so."""
    logits = np.array([[2.1, -0.3, 0.4]] * 8)
    given = labels_for(reduction, np.array([0, 1, 2, 0] * 2))
    scores, labels = (logits[:, 0], given > 0) if reduction == "binary" else (logits, given)
    with pytest.raises(InvalidInputError, match='score_kind="logit"'):
        fit_calibrator(scores, labels, reduction=reduction)
    assert quiet(scores, labels, reduction=reduction, score_kind="logit", n_bins=2).predict(scores).max() <= 1


@pytest.mark.parametrize("method", ["scaling-binning", "histogram-binning", "scaling"])
@pytest.mark.parametrize("reduction", ["binary", *REDUCTIONS])
def test_weights_of_two_against_every_row_twice(method: str, reduction: str) -> None:
    """N15: one calibrator, and that without weights; 101 rows into 10 bins do not divide."""
    scores, labels = multiclass(101)
    if reduction == "binary":
        scores, labels = scores[:, 0], labels == 0
    given = labels_for(reduction, labels)
    options: dict[str, Any] = {"method": method, "reduction": reduction, "parts": "shared", "scaling": None}
    if method != "histogram-binning":
        options["scaling"] = "platt"  # folds of "auto" are drawn by row
    twice = quiet(np.repeat(scores, 2, axis=0), np.repeat(given, 2, axis=0), **options)
    plain, weighted = quiet(scores, given, **options), quiet(scores, given, sample_weight=[2] * 101, **options)
    assert weighted == plain
    assert twice.predict(scores) == pytest.approx(weighted.predict(scores), rel=1e-9)


@pytest.mark.parametrize("method", ["scaling-binning", "histogram-binning"])
def test_whole_weights_are_rows(method: str) -> None:
    """N15: of any number, in the bins, the means and g."""
    rng = np.random.default_rng(3)
    scores, weights = rng.uniform(size=333), rng.integers(1, 5, size=333)
    labels = (rng.uniform(size=333) < scores).astype(int)
    options: dict[str, Any] = {"method": method, "parts": "shared", "n_bins": 7}
    weighted = fit_calibrator(scores, labels, sample_weight=weights, **options)
    repeated = fit_calibrator(np.repeat(scores, weights), np.repeat(labels, weights), **options)
    assert weighted.maps[0].edges == pytest.approx(repeated.maps[0].edges, rel=1e-9)
    assert weighted.maps[0].values == pytest.approx(repeated.maps[0].values, rel=1e-9)
    for factor in (0.5, 2, 8):
        scaled = fit_calibrator(scores, labels, sample_weight=factor * weights, **options)
        assert scaled.maps[0].edges == pytest.approx(weighted.maps[0].edges, rel=1e-9)


def test_weight_zero_leaves_a_row_out() -> None:
    """N15: whatever it holds; it is counted."""
    scores, labels = multiclass(300)
    weights = np.ones(300)
    weights[250:] = 0
    options: dict[str, Any] = {"reduction": "marginal", "n_bins": 4, "keys": np.arange(300)}
    calibrator = fit_calibrator(scores, labels, sample_weight=weights, **options)
    options["keys"] = np.arange(250)
    assert [m.to_dict() for m in calibrator.maps] == [
        m.to_dict() for m in fit_calibrator(scores[:250], labels[:250], **options).maps
    ]
    assert calibrator.facts["n_of_weight_zero"] == 50


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1] * 59, r"one number a row, shape \(60,\), got shape \(59,\)"),
        ([1] * 58 + [-1, np.nan], "2 of 60 rows do not: row 58: -1.0, row 59: nan"),
        ([0] * 60, "over 0 in some row"),
        (["heavy"] * 60, "must be numbers"),
    ],
)
def test_weights_that_are_refused(weights: Any, message: str) -> None:
    """N15."""
    with pytest.raises(InvalidInputError, match=message):
        fit_calibrator(*multiclass(60), reduction="marginal", sample_weight=weights)


@pytest.mark.parametrize("wrap", [list, np.asarray, pd.Series])
def test_arrays_alone_are_enough(wrap: Any) -> None:
    """N17: scores and labels, of any array type; no estimator is taken, fitted or cloned."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=200)
    labels = (rng.uniform(size=200) < scores).astype(int)
    calibrator = fit_calibrator(wrap(scores.tolist()), wrap(labels.tolist()))
    assert calibrator == fit_calibrator(scores, labels)
    assert calibrator.predict(wrap(scores.tolist())).tolist() == calibrator.predict(scores).tolist()


def test_golden_file_reads_on() -> None:
    """N18: outputs of an artifact of an earlier release, to 1e-15; nothing is added to its text."""
    calibrator = Calibrator.from_json(GOLDEN.read_text())
    expected = [0.07953597810830143, 0.4397176581049653, 0.7706629396301549, 0.9504566060499449]
    assert calibrator.predict([0.1, 0.3, 0.6, 0.9]) == pytest.approx(expected, abs=1e-15)
    assert calibrator.to_json() == GOLDEN.read_text().strip()
    assert calibrator.is_binned


@pytest.mark.parametrize("bad", [-0.01, np.nan, 1.5, np.inf])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scores_that_are_no_probabilities(bad: float, reduction: str) -> None:
    """N24: the first rows and the count, at fit, at predict, and in unlabeled scores; rounding is clipped."""
    scores, labels = multiclass(60)
    given = labels_for(reduction, labels)
    fitted = quiet(scores, given, reduction=reduction, n_bins=2)
    broken = scores.copy()
    broken[[3, 50], 1] = bad
    for call in (
        lambda: fit_calibrator(broken, given, reduction=reduction),
        lambda: fit_calibrator(scores, given, reduction=reduction, unlabeled=broken),
        lambda: fitted.predict(broken),
        lambda: fitted.predict(broken[3:4]),
    ):
        with pytest.raises(ValueError, match=r"[12] of (60|1) rows do not hold it: row [03]: "):
            call()
    rounded = np.array([[1.0 + 9e-7, -9e-7, 0.0]])
    assert fitted.predict(rounded).tolist() == fitted.predict([[1.0, 0.0, 0.0]]).tolist()


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (["0.5", "0.2", "0.7"], "must be numbers, got <U3: "),
        (np.array(["0.5", 0.2, 0.7], dtype=object), "must be numbers, got text"),
        (np.array(["2020", "2021", "2022"], dtype="datetime64[Y]"), "must be numbers"),
        (np.array([0.5, 0.2j, 0.1]), "must be numbers, got complex128"),
        (np.ma.masked_equal([0.5, -1.0, 0.7], -1.0), "1 of 3 rows do not hold it: row 1: nan"),
        ([0.5, None, 0.7], "1 of 3 rows do not hold it: row 1: nan"),
    ],
)
def test_what_is_no_score_is_not_converted_to_one(scores: Any, message: str) -> None:
    """N24: a mask is "no forecast" as much as -0.01 is; text that reads as a number is a column mixed up."""
    with pytest.raises(InvalidInputError, match=message):
        fit_calibrator(scores, [0, 1, 1])


def test_masked_labels_are_missing() -> None:
    """N26: what the mask covers is no outcome."""
    with pytest.raises(InvalidInputError, match=r"labels must not be missing; 1 rows are, first \[1\]"):
        fit_calibrator([0.1, 0.2, 0.3], np.ma.masked_equal([0, 9, 1], 9))


def test_named_columns_stand_in_the_order_of_the_classes() -> None:
    """N25: a frame whose columns are the classes in another order is refused, at fit and at predict."""
    scores, labels = multiclass(60)
    words = np.array(["a", "b", "c"])
    frame = pd.DataFrame(scores, columns=words)
    calibrator = quiet(frame, words[labels], classes=words, reduction="marginal", n_bins=2)
    assert calibrator.predict(frame).tolist() == calibrator.predict(scores).tolist()
    turned = frame[["b", "a", "c"]]
    for call in (
        lambda: fit_calibrator(turned, words[labels], classes=words, reduction="marginal"),
        lambda: calibrator.predict(turned),
    ):
        with pytest.raises(InvalidInputError, match=r"order of the classes \['a', 'b', 'c'\], got \['b', 'a', 'c'\]"):
            call()


@pytest.mark.parametrize(
    "words", [("no", "yes", "maybe"), (1, 2, 3), (-1.0, 0.0, 1.0), ("-1", "0", "1"), (True, "x", 7)]
)
@pytest.mark.parametrize("reduction", ["marginal", "top-label", "top-label-per-class"])
def test_labels_in_the_models_own_words(words: tuple[Any, ...], reduction: str) -> None:
    """N25: strings, any integers, whole floats, mixed; renaming the classes changes nothing else."""
    scores, labels = multiclass(300)
    named = np.empty(300, dtype=object)
    named[:] = [words[label] for label in labels]
    renamed = quiet(scores, named, classes=words, reduction=reduction, n_bins=4)
    plain = quiet(scores, labels, reduction=reduction, n_bins=4)
    assert renamed.classes == words
    assert renamed.predict(scores).tolist() == plain.predict(scores).tolist()


@pytest.mark.parametrize("tie", [0.5, 2, -1])
def test_ties_among_labels(tie: float) -> None:
    """N26: a value that is no outcome is named with its rows, of one column or of several."""
    with pytest.raises(InvalidInputError, match=rf"{tie} \(1 rows, first 1\)"):
        fit_calibrator([0.1, 0.8, 0.6, 0.7], [0, tie, 1, 0], classes=[0, 1])
    with pytest.raises(InvalidInputError, match=r"must be 0 or 1. 1 of 3 rows do not hold it: row 1"):
        fit_calibrator([[0.1, 0.8]] * 3, [[0, 1], [tie, 0], [1, 1]], reduction="multi-label")


def test_all_problems_of_the_options_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        fit_calibrator(
            [0.5], [1], method="isotonic", reduction="top", n_bins=0, binning="mass", scaling="x", loss="y", parts="z",
            score_kind="margin",
        )  # fmt: skip
    message = str(caught.value)
    for part in ("8 problems", "method", "reduction", "n_bins", "binning", "scaling", "loss", "parts", "score_kind"):
        assert part in message


def test_all_problems_of_the_rows_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        clean_rows(
            [[0.5, 0.7, 0.1]] * 2, [3, None], reduction="top-label", classes=["a", "b"], positive_class="a",
            sample_weight=[-1, 1],
        )  # fmt: skip
    for part in ("sum to 1", "missing", "unknown", "name the 3 columns", "positive_class", "sample_weight"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        ([[0, 1]], r"for each of 3 columns, shape \(n, 3\), got shape \(1, 2\)"),
        ([0, 1], r"got shape \(2,\)"),
        ([[0, 1, None]], "1 of 1 rows"),
        ([["no", "yes", "no"]], "1 of 1 rows"),
        ([[0, 1, 0], [1, 1, 1]], "1 scores and 2 labels"),
    ],
)
def test_multi_label_labels_that_are_refused(labels: Any, part: str) -> None:
    with pytest.raises(InvalidInputError, match=part):
        clean_rows([[0.2, 0.9, 0.4]], labels, reduction="multi-label")
