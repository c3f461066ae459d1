"""The axis ``reduction``: which binary problems a multi-class problem is turned into, and the rows of each.

binary              one problem: P(positive class) and whether the row is of it
marginal            one a class, on every row: P(class) and whether the row is of it
multi-label         one a label, on every row; rows of scores need not sum to one
top-label           one problem: the largest score, the confidence, and whether its class is the row's
top-label-per-class one a predicted class, on the rows where it is predicted: the confidence and whether it is right

The predicted class is the base model's: the largest score of the row, of equal ones the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.core.labels import Label

Floats = runtime.Floats
REDUCTIONS = runtime.REDUCTIONS
#: Reductions to the confidence in the predicted class.
TOP_LABEL = runtime.TOP_LABEL
#: Reductions that leave one map for every class or label.
ONE_A_CLASS = runtime.ONE_A_CLASS
#: Where rows of several scores are no distribution over classes, so that their sum means nothing.
FREE_SUMS = ("multi-label",)


@dataclass(frozen=True, eq=False)
class BinaryProblem:
    """Scores and outcomes of one binary problem.

    Attributes
    ----------
    label : str, int, float, bool or None
        The class it is about; None for the confidence in whatever class is predicted.
    scores : ndarray of float64, shape (m,)
    outcomes : ndarray of float64, shape (m,)
        0 and 1.
    weights : ndarray of float64, shape (m,), or None
        None where every row counts the same.
    rows : slice or ndarray of intp, shape (m,)
        What selects these rows from all n: for groups, keys and parts.
    """

    label: Label | None
    scores: Floats
    outcomes: Floats
    weights: Floats | None
    rows: Any


def reduce_scores(scores: Floats, reduction: str) -> tuple[Floats, npt.NDArray[np.intp] | None]:
    """Scores the reduction speaks of, and the predicted column: (n,) or (n, K); top-label (n, K) -> (n,), (n,).

    Examples
    --------
    >>> import numpy as np
    >>> confidence, predicted = reduce_scores(np.array([[0.1, 0.8, 0.1], [0.5, 0.2, 0.3]]), "top-label")
    >>> confidence.tolist(), predicted.tolist()
    ([0.8, 0.5], [1, 0])
    """
    if reduction not in TOP_LABEL:
        return scores, None
    predicted = scores.argmax(axis=1)
    return np.take_along_axis(scores, predicted[:, None], axis=1)[:, 0], predicted


def score_columns(
    scores: Floats, predicted: npt.NDArray[np.intp] | None, reduction: str, n_classes: int
) -> Iterator[tuple[Any, Floats]]:
    """Rows and scores (m,) of each binary problem, from what :func:`reduce_scores` gave."""
    if reduction == "top-label-per-class":
        codes = np.asarray(predicted)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=n_classes))
        for rows in np.split(order, ends[:-1]):
            yield rows, scores[rows]
    elif scores.ndim == 1:
        yield slice(None), scores
    else:
        for k in range(scores.shape[1]):
            yield slice(None), np.ascontiguousarray(scores[:, k])
