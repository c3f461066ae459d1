"""Rows made clean: scores as float64, labels as outcomes 0 and 1, classes in the model's own words.

After this file no check stands between two lines of mathematics. Every problem of one input is reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.core.clean_rows import CleanRows
from mlflow_calib.core.columns import column, is_missing
from mlflow_calib.core.labels import Index, Label, Labels, binary_classes, column_classes, factorize, plain
from mlflow_calib.core.labels import indicators as indicator_columns
from mlflow_calib.core.reductions import FREE_SUMS, REDUCTIONS, reduce_scores
from mlflow_calib.core.weights import clean_weights
from mlflow_calib.errors import InvalidInputError, raise_problems

__all__ = ["REDUCTIONS", "CleanRows", "check_choice", "clean_rows", "clean_unlabeled", "key_order"]

Floats = runtime.Floats
SCORE_KINDS = ("probability", "logit")
#: Squares of larger log odds, and sums of them, are no floats. Probabilities end at 745.
LARGEST_LOGIT = 1e100


def clean_rows(
    scores: Any,
    labels: Any,
    *,
    reduction: str = "binary",
    classes: Sequence[Any] | None = None,
    positive_class: Any = None,
    score_kind: str = "probability",
    sample_weight: Any = None,
    free_sums: bool = False,
) -> CleanRows:
    """Check scores and labels once, and give them the one form the mathematics takes.

    Parameters
    ----------
    scores : array_like
        Binary: shape (n,), of the positive class, or (n, 2), probabilities of both classes. Other reductions: shape
        (n, K). Probabilities lie in [0, 1], rows of several sum to one within .001 (not for multi-label); logits (log
        odds of a class against the rest, shape (n,) for binary) are any finite numbers. Nothing is renormalised.
    labels : array_like, shape (n,); multi-label (n, K)
        Strings, integers, floats or booleans. A class without a row is legal. Multi-label: 0 and 1, or booleans, one
        a label.
    reduction : {"binary", "marginal", "top-label", "top-label-per-class", "multi-label"}
    classes : sequence, optional
        Classes in the order of the columns, taken from the model. By default 0 .. K-1.
    positive_class : optional
        Binary only. It may be left out where the classes are 0 and 1, or False and True.
    score_kind : {"probability", "logit"}
    sample_weight : array_like, shape (n,), optional
        Finite numbers of at least 0, not all 0; only their proportions matter.
    free_sums : bool
        Whether rows of several probabilities need not sum to one, as calibrated ones do not.

    Returns
    -------
    CleanRows

    Raises
    ------
    InvalidInputError
        With every problem found: shapes, scores outside their domain (first rows and count), labels missing or
        unknown to the classes (values and rows), a positive class that must be stated, weights.

    Examples
    --------
    >>> clean_rows([0.2, 0.9], ["no", "yes"], positive_class="yes").outcomes.tolist()
    [0.0, 1.0]
    >>> clean_rows([[0.2, 0.3, 0.5]], [2], reduction="marginal").outcomes.tolist()
    [[0.0, 0.0, 1.0]]
    >>> top = clean_rows([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]], [2, 1], reduction="top-label")
    >>> top.scores.tolist(), top.outcomes.tolist()
    ([0.5, 0.7], [1.0, 0.0])
    """
    check_choice("reduction", reduction, REDUCTIONS)
    check_choice("score_kind", score_kind, SCORE_KINDS)
    problems: list[str] = []
    free_sums = free_sums or reduction in FREE_SUMS
    array, n_clipped = _scores(scores, reduction, score_kind, problems, free_sums)
    shape = _shape(scores)
    n_columns = shape[-1] if shape else 0
    if reduction == "multi-label":
        given = _Given(*indicator_columns(labels, classes, n_columns, problems))
    else:
        given = _label_codes(labels, reduction, classes, positive_class, len(shape), n_columns, problems)
    if reduction != "binary" and positive_class is not None:
        problems.append(f"positive_class belongs to binary problems; leave it out, got {positive_class!r}")
    problems += column_problems(scores, given.classes)
    if not problems:
        _check_lengths(len(array), len(given.codes), problems)
    weights = clean_weights(sample_weight, None if problems else len(array), problems)
    if problems:
        raise_problems(problems)
    return _reduced(array, given, n_clipped, reduction, weights)


def clean_unlabeled(
    scores: Any, *, reduction: str, classes: Sequence[Label], positive_class: Any, score_kind: str
) -> CleanRows:
    """Scores without labels, in the form of :func:`clean_rows`; no row has a true outcome.

    ``classes`` and ``positive_class`` are those of clean rows.

    Raises
    ------
    InvalidInputError
        For scores outside their domain, or of another number of columns.
    """
    problems: list[str] = []
    shape = _shape(scores)
    if len(shape) == 2 and shape[1] != len(classes):
        problems.append(f"scores must have the {len(classes)} columns of the labelled ones, got {shape[1]}")
    array, n_clipped = (
        (np.empty(0), 0) if problems else _scores(scores, reduction, score_kind, problems, reduction in FREE_SUMS)
    )
    if not problems and not len(array):
        problems.append("scores must hold at least one row, got none")
    problems += column_problems(scores, classes)
    if problems:
        raise_problems([f"unlabeled {problem}" for problem in problems])
    codes = np.full(len(array), -1, dtype=np.intp)
    if reduction == "multi-label":
        return _reduced(array, _Given(tuple(classes), np.zeros(array.shape, bool)), n_clipped, reduction, None)
    return _reduced(array, _Given(tuple(classes), codes, positive_class), n_clipped, reduction, None)


@dataclass(frozen=True, eq=False)
class _Given:
    """Classes, the row's position among them (n,) or the indicators (n, K), and the positive class."""

    classes: tuple[Label, ...]
    codes: npt.NDArray[Any]
    positive: Any = None


def _reduced(array: Floats, given: _Given, n_clipped: int, reduction: str, weights: Floats | None) -> CleanRows:
    codes, classes = given.codes, given.classes
    if reduction == "binary":
        position = classes.index(given.positive)
        scores = array if array.ndim == 1 else np.ascontiguousarray(array[:, position])
        return CleanRows(scores, codes == position, classes, given.positive, n_clipped, reduction, weights)
    scores, predicted = reduce_scores(array, reduction)
    if predicted is not None:
        truths = codes == predicted
    else:
        truths = codes if codes.ndim == 2 else np.equal.outer(codes, np.arange(len(classes)))
    return CleanRows(scores, truths, classes, None, n_clipped, reduction, weights, predicted)


def key_order(keys: Any, n: int) -> Index:
    """Rows in the order of their sorted keys; refuses keys that are missing, doubled or not one a row.

    Examples
    --------
    >>> key_order(["c", "a", "b"], 3).tolist()
    [1, 2, 0]
    """
    array = column(keys, "keys")
    if array.shape != (n,):
        raise InvalidInputError(f"keys must be one a row, shape ({n},), got shape {array.shape}")
    missing = _missing_rows(array)
    if len(missing):
        raise InvalidInputError(
            f"keys must not be missing; {len(missing)} of {n} rows have none, first {missing[:3].tolist()}"
        )
    try:
        order = np.argsort(array, kind="stable")
    except TypeError as error:
        raise InvalidInputError(f"keys must be of one type that can be sorted: {error}") from error
    ordered = array[order]
    doubled = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(doubled):
        shown = ", ".join(repr(plain(key)) for key in doubled[:3])
        raise InvalidInputError(f"keys must be distinct; {len(doubled)} rows repeat the key of another, first {shown}")
    return order


def _missing_rows(array: npt.NDArray[Any]) -> Index:
    if array.dtype.kind in "fmMc":
        return np.flatnonzero(np.isnan(array))
    return np.flatnonzero([is_missing(value) for value in array.tolist()] if array.dtype == object else [])


def check_choice(name: str, given: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if not (given is None or isinstance(given, str)) or given not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {given!r}")


def _shape(scores: Any) -> tuple[int, ...]:
    """Shape of scores; () of rows of unlike lengths, which are refused further on."""
    try:
        return np.shape(scores)
    except ValueError:
        return ()


def _scores(scores: Any, reduction: str, score_kind: str, problems: list[str], free_sums: bool) -> tuple[Floats, int]:
    shape = _shape(scores)
    if reduction != "binary" and (len(shape) != 2 or shape[1] < (1 if reduction == "multi-label" else 2)):
        least = "" if reduction == "multi-label" else " with K at least 2"
        problems.append(f"{reduction} scores must have shape (n, K){least}, got {shape}")
    elif reduction == "binary" and len(shape) == 2 and score_kind == "logit":
        problems.append(f"binary logits must be the log odds of the positive class, shape (n,), got shape {shape}")
    else:
        n_columns = None if len(shape) < 2 else 2 if reduction == "binary" else shape[1]
        try:
            array, n_clipped = runtime.clean_scores(scores, n_columns, score_kind, sums=not free_sums)
        except ValueError as error:
            problems.append(f"scores: {error}")
        else:
            if score_kind == "logit":
                _check_log_odds(array, problems)
            return array, n_clipped
    return np.empty(0), 0


def _check_log_odds(array: Floats, problems: list[str]) -> None:
    huge = np.abs(array) > LARGEST_LOGIT
    if huge.any():
        rows = np.flatnonzero(huge if huge.ndim == 1 else huge.any(axis=1))
        shown = "; ".join(f"row {row}: {array[row].tolist()}" for row in rows[:3])
        problems.append(
            f"scores: log odds must lie within {LARGEST_LOGIT} of 0, beyond which their squares overflow; hold them "
            f"within some hundreds. {len(rows)} of {len(array)} rows do not hold it: {shown}"
        )


def column_problems(scores: Any, classes: Sequence[Any]) -> list[str]:
    """What is wrong with the named columns of a frame: they must not stand in another order than the classes."""
    names = [str(column) for column in getattr(scores, "columns", ())]
    words = [str(name) for name in classes]
    if names == words or sorted(names) != sorted(words):
        return []
    return [f"scores must have their columns in the order of the classes {words[:10]}, got {names[:10]}; reorder them"]


def _label_codes(
    labels: Any,
    reduction: str,
    classes: Sequence[Any] | None,
    positive_class: Any,
    n_dimensions: int,
    n_columns: int,
    problems: list[str],
) -> _Given:
    seen = _labels(labels, problems)
    if reduction == "binary":
        stated, positive = binary_classes(seen, classes, positive_class, problems)
        if n_dimensions == 2 and classes is None and not {*stated} <= {0, 1}:
            problems.append("classes must be stated in the order of the columns for scores of shape (n, 2)")
    else:
        stated, positive = column_classes(seen, classes, n_columns, problems), None
    positions = {name: position for position, name in enumerate(stated)}
    codes = np.array([*(positions.get(value, -1) for value in seen.values), -1], dtype=np.intp)[seen.codes]
    return _Given(stated, codes, positive)


def _labels(labels: Any, problems: list[str]) -> Labels:
    try:
        seen = factorize(labels)
    except (TypeError, ValueError) as error:
        problems.append(f"labels: {error}")
        return Labels([], np.empty(0, dtype=np.intp))
    missing, wrong = seen.missing(), seen.wrong()
    if len(missing):
        problems.append(f"labels must not be missing; {len(missing)} rows are, first {missing[:3].tolist()}")
    if wrong:
        problems.append(f"labels must be texts, whole numbers or booleans, got {seen.shown(wrong)}")
    return seen.only_labels() if len(missing) or wrong else seen


def _check_lengths(n_scores: int, n_labels: int, problems: list[str]) -> None:
    if n_scores != n_labels:
        problems.append(f"scores and labels must have one row each, got {n_scores} scores and {n_labels} labels")
    elif not n_scores:
        problems.append("scores and labels must hold at least one row, got none")
