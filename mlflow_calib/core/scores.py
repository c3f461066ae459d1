"""Rows made clean: scores as float64, labels as outcomes 0 and 1, classes in the model's own words.

After this file no check stands between two lines of mathematics. Every problem of one input is reported at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib import runtime
from mlflow_calib.core.labels import Index, Label, Labels, binary_classes, factorize, marginal_classes, plain
from mlflow_calib.errors import InvalidInputError, raise_problems

Floats = runtime.Floats
REDUCTIONS = ("binary", "marginal")
SCORE_KINDS = ("probability", "logit")


@dataclass(frozen=True, eq=False)
class CleanRows:
    """Scores and outcomes of the same rows.

    Attributes
    ----------
    scores : ndarray of float64, shape (n,) binary or (n, K) marginal
        Scores of the positive class, or of every class.
    outcomes : ndarray of float64, the shape of ``scores``
        1 where the row is of the class, else 0.
    classes : tuple
        Classes in the order of the columns.
    positive_class : str, int, float, bool or None
        The class that binary scores speak of; None for marginal.
    n_clipped : int
        Scores that were outside [0, 1] by rounding, now 0 or 1.
    """

    scores: Floats
    outcomes: Floats
    classes: tuple[Label, ...]
    positive_class: Label | None
    n_clipped: int

    def columns(self) -> Iterator[tuple[Floats, Floats]]:
        """Scores (n,) and outcomes (n,) of each binary problem: one, or one a class."""
        if self.scores.ndim == 1:
            yield self.scores, self.outcomes
            return
        for k in range(self.scores.shape[1]):
            yield np.ascontiguousarray(self.scores[:, k]), np.ascontiguousarray(self.outcomes[:, k])


def clean_rows(
    scores: Any,
    labels: Any,
    *,
    reduction: str = "binary",
    classes: Sequence[Any] | None = None,
    positive_class: Any = None,
    score_kind: str = "probability",
) -> CleanRows:
    """Check scores and labels once, and give them the one form the mathematics takes.

    Parameters
    ----------
    scores : array_like
        Binary: shape (n,), of the positive class, or (n, 2), probabilities of both classes. Marginal: shape (n, K).
        Probabilities lie in [0, 1], rows of several sum to one within .001; logits (log odds of a class against the
        rest, shape (n,) for binary) are any finite numbers. Nothing is renormalised.
    labels : array_like, shape (n,)
        Strings, integers, floats or booleans. A class without a row is legal.
    reduction : {"binary", "marginal"}
    classes : sequence, optional
        Classes in the order of the columns, taken from the model. By default 0 .. K-1.
    positive_class : optional
        Binary only. It may be left out where the classes are 0 and 1, or False and True.
    score_kind : {"probability", "logit"}

    Returns
    -------
    CleanRows

    Raises
    ------
    InvalidInputError
        With every problem found: shapes, scores outside their domain (first rows and count), labels missing or
        unknown to the classes (values and rows), a positive class that must be stated.

    Examples
    --------
    >>> clean_rows([0.2, 0.9], ["no", "yes"], positive_class="yes").outcomes.tolist()
    [0.0, 1.0]
    >>> clean_rows([[0.2, 0.3, 0.5]], [2], reduction="marginal").outcomes.tolist()
    [[0.0, 0.0, 1.0]]
    """
    check_choice("reduction", reduction, REDUCTIONS)
    check_choice("score_kind", score_kind, SCORE_KINDS)
    problems: list[str] = []
    array, n_clipped = _scores(scores, reduction, score_kind, problems)
    seen = _labels(labels, problems)
    if not problems:
        _check_lengths(len(array), len(seen.codes), problems)
    positive = None
    if reduction == "binary":
        stated, positive = binary_classes(seen, classes, positive_class, problems)
        if np.ndim(scores) == 2 and classes is None and not {*stated} <= {0, 1}:
            problems.append("classes must be stated in the order of the columns for scores of shape (n, 2)")
    else:
        stated = marginal_classes(seen, classes, np.shape(scores)[-1] if np.ndim(scores) else 0, problems)
        if positive_class is not None:
            problems.append(f"positive_class belongs to binary problems; leave it out, got {positive_class!r}")
    if problems:
        raise_problems(problems)
    positions = {name: position for position, name in enumerate(stated)}
    codes = np.array([positions[value] for value in seen.values], dtype=np.intp)[seen.codes]
    if positive is None:
        return CleanRows(array, np.equal.outer(codes, np.arange(len(stated))).astype(float), stated, None, n_clipped)
    chosen = array if array.ndim == 1 else np.ascontiguousarray(array[:, positions[positive]])
    return CleanRows(chosen, (codes == positions[positive]).astype(float), stated, positive, n_clipped)


def key_order(keys: Any, n: int) -> Index:
    """Rows in the order of their sorted keys; refuses keys that are missing, doubled or not one a row.

    Examples
    --------
    >>> key_order(["c", "a", "b"], 3).tolist()
    [1, 2, 0]
    """
    array = np.asarray(keys)
    if array.shape != (n,):
        raise InvalidInputError(f"keys must be one a row, shape ({n},), got shape {array.shape}")
    if array.dtype.kind in "fmM" and np.isnan(array).any():
        raise InvalidInputError(f"keys must not be missing; {np.count_nonzero(np.isnan(array))} of {n} rows have none")
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


def check_choice(name: str, given: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if given not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {given!r}")


def _scores(scores: Any, reduction: str, score_kind: str, problems: list[str]) -> tuple[Floats, int]:
    shape = np.shape(scores)
    if reduction == "marginal" and (len(shape) != 2 or shape[1] < 2):
        problems.append(f"marginal scores must have shape (n, K) with K at least 2, got {shape}")
    elif reduction == "binary" and len(shape) == 2 and score_kind == "logit":
        problems.append(f"binary logits must be the log odds of the positive class, shape (n,), got shape {shape}")
    else:
        n_columns = None if len(shape) < 2 else shape[1] if reduction == "marginal" else 2
        try:
            return runtime.clean_scores(scores, n_columns, score_kind)
        except (TypeError, ValueError) as error:
            problems.append(f"scores: {error}")
    return np.empty(0), 0


def _labels(labels: Any, problems: list[str]) -> Labels:
    try:
        seen = factorize(labels)
    except (TypeError, ValueError) as error:
        problems.append(f"labels: {error}")
        return Labels([], np.empty(0, dtype=np.intp))
    missing = seen.missing()
    if len(missing):
        problems.append(f"labels must not be missing; {len(missing)} rows are, first {missing[:3].tolist()}")
        present = np.asarray(labels)[np.setdiff1d(np.arange(len(seen.codes)), missing)]
        return factorize(present)
    return seen


def _check_lengths(n_scores: int, n_labels: int, problems: list[str]) -> None:
    if n_scores != n_labels:
        problems.append(f"scores and labels must have one row each, got {n_scores} scores and {n_labels} labels")
    elif not n_scores:
        problems.append("scores and labels must hold at least one row, got none")
