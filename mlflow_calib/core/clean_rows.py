"""Clean rows: scores and outcomes as a reduction sees them, and the binary problems they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.labels import Index, Label
from mlflow_calib.core.reductions import BinaryProblem, score_columns
from mlflow_calib.runtime import Floats


@dataclass(frozen=True, eq=False)
class CleanRows:
    """Scores and outcomes of the same rows, as the reduction sees them.

    Attributes
    ----------
    scores : ndarray of float64, shape (n,) or (n, K)
        Binary: scores of the positive class; top-label and top-label-per-class: of the predicted class, (n,).
        Marginal and multi-label: of every class, (n, K).
    truths : ndarray of bool, the shape of ``scores``
        Whether the row is of the class that the score speaks of.
    classes : tuple
        Classes in the order of the columns.
    positive_class : str, int, float, bool or None
        The class that binary scores speak of; None for the other reductions.
    n_clipped : int
        Scores that were outside [0, 1] by rounding, now 0 or 1.
    reduction : str
    weights : ndarray of float64, shape (n,), or None
        None where every row counts the same.
    predicted : ndarray of intp, shape (n,), or None
        Position of the base model's class of each row; top-label and top-label-per-class.
    """

    scores: Floats
    truths: npt.NDArray[np.bool_]
    classes: tuple[Label, ...]
    positive_class: Label | None
    n_clipped: int
    reduction: str = "binary"
    weights: Floats | None = None
    predicted: Index | None = None

    @property
    def outcomes(self) -> Floats:
        """``truths`` as 0.0 and 1.0; made anew at each call."""
        return self.truths.astype(np.float64)

    def problems(self) -> Iterator[BinaryProblem]:
        """Each binary problem: one for binary and top-label, else one a class in the order of ``classes``."""
        one = self.positive_class if self.reduction == "binary" else None
        names = self.classes if self.reduction not in ("binary", "top-label") else (one,)
        columns = score_columns(self.scores, self.predicted, self.reduction, len(self.classes))
        for k, (name, (rows, scores)) in enumerate(zip(names, columns, strict=True)):
            truths = self.truths[rows] if self.truths.ndim == 1 else self.truths[:, k]
            weights = None if self.weights is None else self.weights[rows]
            yield BinaryProblem(name, scores, truths.astype(np.float64), weights, rows)

    @property
    def positives(self) -> list[int]:
        """Rows with outcome 1 of each binary problem."""
        if self.truths.ndim == 2:
            return [int(total) for total in np.count_nonzero(self.truths, axis=0)]
        if self.reduction != "top-label-per-class":
            return [int(np.count_nonzero(self.truths))]
        right = np.asarray(self.predicted)[self.truths]
        return [int(total) for total in np.bincount(right, minlength=len(self.classes))]

    def columns(self) -> Iterator[tuple[Floats, Floats]]:
        """Scores (m,) and outcomes (m,) of each binary problem."""
        for problem in self.problems():
            yield problem.scores, problem.outcomes

    def select(self, rows: Any) -> CleanRows:
        """The same with fewer rows: indices, or a mask (n,)."""
        weights, predicted = (None if x is None else x[rows] for x in (self.weights, self.predicted))
        return replace(self, scores=self.scores[rows], truths=self.truths[rows], weights=weights, predicted=predicted)
