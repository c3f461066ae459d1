"""Columns of every kind that callers hand over: none is guessed at, and every refusal is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mlflow_calib as mc
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.intervals import rows_that_would_settle
from mlflow_calib.core.paired import PairedSums
from mlflow_calib.errors import InvalidInputError

N = 60
Z = np.linspace(0.05, 0.95, N)
Y = np.resize([0, 0, 1, 1, 0, 1], N)
MASK = np.arange(N) == 0
PAIRED: dict[str, Callable[..., Any]] = {
    "ECE": mc.expected_calibration_error,
    "sweep": mc.sweep_calibration_error,
    "smECE": mc.smooth_calibration_error,
    "MSE": mc.mean_squared_error,
    "Brier": mc.brier_score,
    "log loss": mc.log_loss,
    "AUC": mc.area_under_curve,
    "ties": mc.tied_pairs,
    "accuracy": mc.accuracy,
}


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def fit(*arguments: Any, **options: Any) -> mc.Calibrator:
    return mc.fit_calibrator(*arguments, **{"n_bins": 3, **options})


@pytest.mark.parametrize(
    "scores",
    [
        pd.Series(Z, index=np.arange(N)[::-1], dtype="Float64"),
        pd.Series(Z, dtype="double[pyarrow]"),
        pa.chunked_array([pa.array(Z[:7]), pa.array(Z[7:])]),
        np.ma.array(Z, mask=np.zeros(N, dtype=bool)),
        Z.astype(object),
        np.column_stack([Y, Z])[:, 1],
        Z.astype(np.longdouble),
    ],
    ids=["nullable", "arrow series", "arrow chunks", "masked", "objects", "strided", "longdouble"],
)
def test_numbers_of_any_home_are_the_same_numbers(scores: Any) -> None:
    """N9 and its kind; an index is no order."""
    assert fit(scores, Y) == fit(Z, Y)
    assert fit(Z, Y).predict(scores).tolist() == fit(Z, Y).predict(Z).tolist()


NO_NUMBERS = {
    "text": Z.astype(str),
    "dates": np.arange(N).astype("M8[s]"),
    "spans": np.arange(N).astype("m8[s]"),
    "complex": Z + 0j,
    "objects": np.array([object()] * N),
}
GAPS = {
    "None": np.where(MASK, None, Z),
    "NA": pd.array(np.where(MASK, None, Z), dtype="Float64"),
    "object NA": np.array([pd.NA, *Z[1:]], dtype=object),
    "masked": np.ma.array(Z, mask=MASK),
    "arrow null": pa.array([None, *Z[1:]]),
}


@pytest.mark.parametrize("kind", [*NO_NUMBERS, *GAPS])
def test_what_is_no_number_is_refused_everywhere(kind: str) -> None:
    """N24: scores, weights, outputs and outcomes alike; the mask of a masked array is not forgotten."""
    column = {**NO_NUMBERS, **GAPS}[kind]
    said = "must be" if kind in NO_NUMBERS else "1 of 60 rows"
    assert said in refused(fit, column, Y)
    assert said in refused(fit(Z, Y).predict, column)
    assert said in refused(fit, Z, Y, sample_weight=column)
    assert said in refused(mc.estimate_calibration_error, Z, Y, bins=3, sample_weight=column)
    for name, figure in PAIRED.items():
        assert refused(figure, column, Y), name
        assert refused(figure, Z, column), name
        assert refused(figure, Z, Y, sample_weight=column), name


def test_rows_of_unlike_lengths_are_ours_to_refuse() -> None:
    assert "one shape" in refused(fit, [[0.1, 0.9], [0.3]], [0, 1])
    assert "one shape" in refused(fit(Z, Y).predict, [[0.1, 0.9], [0.3]])
    assert "one shape" in refused(mc.expected_calibration_error, [[0.1], [0.2, 0.3]], [0, 1])


def test_all_that_is_wrong_with_scores_is_said_at_once() -> None:
    """N24: one row is not finite and another is far outside."""
    said = refused(fit, [np.nan, 0.5, 2.0], [0, 1, 0])
    assert "row 0: nan" in said
    assert "row 2: 2.0" in said


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        ([np.nan, *["yes", "no"] * 30][:N], "missing; 1 rows are, first [0]"),
        ([np.nan if y == 0 else "yes" for y in Y], "missing; 30 rows"),
        ([None if m else y for m, y in zip(MASK, Y, strict=True)], "missing; 1 rows"),
        (np.ma.array(Y, mask=MASK), "missing; 1 rows"),
        (Y * 0.5, "whole numbers or booleans, got 0.5 (30 rows, first 2, 3, 5)"),
        (np.where(Y, 1, 0.5), "got 0.5 (30 rows, first 0, 1, 4)"),
        (np.where(Y, np.inf, 0), "got inf (30 rows"),
        (Y.astype("M8[D]"), "datetime64"),
        (pd.Series(pd.to_datetime(Y)), "datetime64"),
        (Y + 0j, "complex"),
        (np.where(Y, b"yes", b"no"), "convert them"),
        ([b"yes" if y else b"no" for y in Y], "convert them"),
        (np.array([[int(y)] for y in Y] + [None], dtype=object)[:N], "unhashable"),
    ],
)
def test_labels_that_are_none(labels: Any, part: str) -> None:
    """N25, N26: a gap in a list of texts is a gap and not the class "nan"; a tie is no class."""
    assert part in refused(fit, Z, labels, positive_class="yes" if "missing" in part else None)


def test_rows_of_a_label_are_those_of_the_data_beside_gaps() -> None:
    said = refused(fit, Z, [None if m else str(y) for m, y in zip(MASK, Y, strict=True)])
    assert "'1' (30 rows, first 2, 3, 5)" in said


def test_texts_and_numbers_stay_apart() -> None:
    """N25: "0" and 1 are two classes, and 1 is not "1"."""
    calibrator = fit(Z, ["0" if y == 0 else 1 for y in Y], positive_class=1)
    assert calibrator.classes == ("0", 1)
    assert mc.Calibrator.from_json(calibrator.to_json()) == calibrator
    assert "two classes" in refused(fit, Z, ["1" if m else int(y) for m, y in zip(MASK, Y, strict=True)])


@pytest.mark.parametrize("positive_class", [b"1", 0.5, np.inf, [1], np.datetime64(1, "D"), 1 + 0j])
def test_positive_classes_that_are_none(positive_class: Any) -> None:
    """N25: nothing is accepted that JSON cannot hold."""
    assert "positive_class must be" in refused(fit, Z, Y, positive_class=positive_class)


@pytest.mark.parametrize("classes", [2, "01", [[0], [1]], [0, None], [0, 0.5], [0, np.nan], [b"0", b"1"]])
def test_classes_that_are_none(classes: Any) -> None:
    assert "classes must be" in refused(fit, Z, Y, classes=classes)


def test_masked_indicators_of_labels_are_no_labels() -> None:
    labels = np.ma.array(np.column_stack([Y, 1 - Y]), mask=np.column_stack([MASK, MASK]))
    said = refused(fit, np.column_stack([Z, 1 - Z]), labels, reduction="multi-label")
    assert "1 of 60 rows do not hold it: row 0: [None, None]" in said


GROUPS = [f"day {row % 30}" for row in range(N)]


@pytest.mark.parametrize(
    ("groups", "count"),
    [
        ([np.nan, *GROUPS[1:]], 1),
        ([None, *GROUPS[1:]], 1),
        (pd.array([pd.NA, *GROUPS[1:]], dtype="string"), 1),
        (np.ma.array(np.arange(N) % 30, mask=np.arange(N) % 30 == 0), 2),
    ],
)
def test_gaps_are_no_group(groups: Any, count: int) -> None:
    said = refused(mc.estimate_calibration_error, Z, Y, bins=2, groups=groups)
    assert f"{count} of 60 have none" in said


def test_groups_that_cannot_be_told_apart() -> None:
    groups = np.empty(N, dtype=object)
    groups[:] = [[1]] * N
    assert "groups must be texts" in refused(mc.estimate_calibration_error, Z, Y, bins=2, groups=groups)


@pytest.mark.parametrize(
    "keys",
    [
        [np.nan, *[f"k{row}" for row in range(1, N)]],
        np.array([np.nan, *range(1, N)], dtype=object),
        np.array([None, *range(1, N)], dtype=object),
        pd.array([pd.NA, *[f"k{row}" for row in range(1, N)]], dtype="string"),
        np.ma.array(np.arange(N), mask=MASK),
    ],
)
def test_gaps_are_no_key(keys: Any) -> None:
    said = refused(fit, Z, Y, keys=keys)
    assert "keys must not be missing; 1 of 60 rows have none, first [0]" in said


@pytest.mark.parametrize(
    "parts", [np.ma.array(np.arange(N) % 3 + 1, mask=MASK), np.array([1, "a", *[2] * (N - 2)], dtype=object), None, 3]
)
def test_parts_that_are_none(parts: Any) -> None:
    assert "parts must be" in refused(fit, Z, Y, parts=parts)


def test_every_wrong_option_is_named() -> None:
    said = refused(fit, Z, Y, method="x", loss="y", targets="z", n_bins=0, seed=-1)
    for name in ("method", "loss", "targets", "n_bins", "seed"):
        assert f"- {name} must be" in said


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None, True, [1]])
def test_seeds_that_are_none(seed: Any) -> None:
    assert "seed must be a whole number" in refused(fit, Z, Y, seed=seed)


@pytest.mark.parametrize("level", ["x", None, [0.9, 0.95], np.nan, True, 0, 1])
def test_levels_that_are_none(level: Any) -> None:
    estimate = mc.estimate_calibration_error(Z, Y, bins=2)
    calls = (estimate.upper_bound, estimate.lower_bound, estimate.confidence_interval, estimate.noise_floor)
    for call in (*calls, estimate.bin_table):
        assert "confidence_level must lie" in refused(call, level)
    assert "confidence_level must lie" in refused(mc.rows_to_verify, 0.05, 10, level)
    assert "confidence_level must lie" in refused(mc.rows_for_balance, 10, level)


def test_words_that_are_arrays() -> None:
    said = refused(mc.estimate_calibration_error, Z, Y, bins=2, estimator=np.array(["debiased", "plugin"]))
    assert "estimator must be one of" in said


def test_unlabeled_scores_of_another_width_are_told_so() -> None:
    """Not that their rows do not sum to one."""
    scores = np.column_stack([Z / 2, Z / 2, 1 - Z])
    labels = np.resize([0, 1, 2], N)
    assert "3 columns of the labelled ones, got 2" in refused(
        fit, scores, labels, reduction="marginal", unlabeled=scores[:, :2]
    )


@pytest.mark.parametrize("edges", [[0.5, 0.2], [0.2, 0.2], [np.nan], [0.1, np.inf], [[0.5]], ["a"], 0.5])
def test_edges_that_are_none(edges: Any) -> None:
    assert "edges must be" in refused(mc.BinningScheme, edges, requested=2)


def test_edges_may_be_a_list() -> None:
    scheme = mc.BinningScheme([-0.0, 0.5], requested=3)
    assert scheme.index([0.0, 0.5, 0.6]).tolist() == [0, 1, 2]
    assert not np.signbit(scheme.edges).any()


@pytest.mark.parametrize("figure", PAIRED.values(), ids=PAIRED.keys())
def test_figures_speak_of_probabilities_and_outcomes(figure: Callable[..., Any]) -> None:
    """Never clipped, never NaN: the log loss of 1.5 is no number."""
    for outcomes in ([0, 2], [0, 0.5], [0, np.nan], ["a", "b"], [], [0]):
        assert refused(figure, [0.1, 0.6], outcomes)
    if figure not in (mc.area_under_curve, mc.tied_pairs):  # these rank any numbers
        assert "row 0: 1.5" in refused(figure, [1.5, 0.6], [0, 1])
    assert refused(figure, None, None)


@pytest.mark.parametrize("figure", [mc.mean_squared_error, mc.brier_score, mc.log_loss, mc.accuracy])
def test_figures_of_several_classes_do_too(figure: Callable[..., Any]) -> None:
    for outputs in ([[np.nan, 0.9], [0.2, 0.8]], [[3.0, 0.9], [0.2, 0.8]]):
        assert "row 0" in refused(figure, outputs, [[0, 1], [1, 0]])
    assert "row 1" in refused(figure, [[0.1, 0.9], [0.2, 0.8]], [[0, 1], [1, 5]])


@pytest.mark.parametrize(
    "keys", [[np.nan, *[f"k{row}" for row in range(1, N)]], np.ma.array(np.arange(N), mask=MASK), np.arange(N - 1)]
)
def test_rows_of_weight_zero_hide_no_gap(keys: Any) -> None:
    weights = np.where(np.arange(N) == N - 1, 0.0, 1.0)
    assert "keys must" in refused(fit, Z, Y, keys=keys, sample_weight=weights)


@pytest.mark.parametrize(
    ("counts", "positives", "outputs"),
    [
        (["1"], ["0"], [0.5]),
        ([5], [1], ["x"]),
        ([10**30], [0], [0.5]),
        ([[1], [1, 2]], [0], [0.5]),
        (np.ma.array([5, 5], mask=[1, 0]), [1, 1], [0.5, 0.6]),
    ],
)
def test_sufficient_statistics_of_anything_else(counts: Any, positives: Any, outputs: Any) -> None:
    assert "must be" in refused(ErrorStatistics, counts, positives, outputs)


def test_paired_losses_of_anything_else() -> None:
    for losses in (["1", "2"], np.ma.array([0.1, 0.2], mask=[1, 0]), [[1], [1, 2]]):
        assert "losses" in refused(PairedSums.from_rows, losses, [0.1, 0.2])


@pytest.mark.parametrize(("limit", "level"), [("x", 0.95), (None, 0.95), (0.05, "x"), (0.05, 2)])
def test_rows_that_would_settle_of_anything_else(limit: Any, level: Any) -> None:
    assert "must" in refused(rows_that_would_settle, ErrorStatistics([9, 9], [3, 7], [0.3, 0.7]), limit, level)
