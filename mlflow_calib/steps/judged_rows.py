"""One model's rows as a reduction sees them: what it says, whether that happened, and in which bin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.log_losses import row_log_losses
from mlflow_calib.core.reductions import TOP_LABEL
from mlflow_calib.runtime import Floats

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """What a model says of rows; binary and top-label shapes are (n,), marginal ones (n, K).

    Attributes
    ----------
    outputs : array of float
        Probabilities: of the positive class, of the predicted class (its confidence), or of every class.
    truths : array of bool
        Whether the row is of the class that the output speaks of.
    index : array of int
        Bin; per predicted class and marginal within the class.
    predicted : array of int, shape (n,), or None
        Place of the predicted class among the contender's; top-label reductions alone.
    """

    outputs: Floats
    truths: npt.NDArray[np.bool_]
    index: Index
    predicted: Index | None = None

    def select(self, rows: Any) -> JudgedRows:
        """The same with fewer rows: indices, or a mask (n,)."""
        predicted = None if self.predicted is None else self.predicted[rows]
        return JudgedRows(self.outputs[rows], self.truths[rows], self.index[rows], predicted)

    def squared_losses(self) -> Floats:
        """(output - truth)^2 a row, shape (n,); marginal: the mean over classes."""
        squares = (self.outputs - self.truths) ** 2
        return np.asarray(squares if squares.ndim == 1 else squares.mean(axis=1))

    def log_losses(self) -> Floats:
        """Log loss a row, shape (n,), infinite where what happened had probability 0; marginal: the mean over classes.

        Marginal outputs of a row do not sum to one. The logarithm of the true class's output alone would then be no
        proper loss: outputs made larger all at once would lower it.
        """
        if self.outputs.ndim == 1:
            return row_log_losses(self.outputs, self.truths)
        losses = row_log_losses(self.outputs.ravel(), self.truths.ravel()).reshape(self.outputs.shape)
        return np.asarray(losses.mean(axis=1))


def said_by(calibrator: Calibrator, index: Index, predicted: Index | None) -> Floats:
    """Value of each row's bin, of the shape of ``index``; ``predicted`` is the place of the predicted class."""
    values = [one.values for one in calibrator.maps]
    if index.ndim == 2:
        return np.column_stack([own[index[:, k]] for k, own in enumerate(values)])
    if len(values) == 1:
        return np.asarray(values[0][index])
    starts = np.cumsum([0, *(len(own) for own in values)])
    return np.asarray(np.concatenate(values)[starts[predicted] + index])


def outputs_of(calibrator: Calibrator, base_scores: Floats) -> Floats:
    """What a calibrator says in its reduction: a probability or confidence, (n,), or one of every class, (n, K).

    Examples
    --------
    >>> from mlflow_calib import fit_calibrator
    >>> scores, labels = np.tile([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], (50, 1)), np.tile([0, 0, 1, 2], 25)
    >>> options = {"reduction": "top-label", "method": "histogram-binning", "n_bins": 1, "parts": "shared"}
    >>> outputs_of(fit_calibrator(scores, labels, **options), scores[:2]).tolist()
    [0.5, 0.5]
    """
    predicted = base_scores.argmax(axis=1) if calibrator.reduction in TOP_LABEL else None
    return said_by(calibrator, calibrator.bin_index(base_scores), predicted)


def truths_of(
    codes: npt.NDArray[Any], reduction: str, predicted: Index | None, n_classes: int
) -> npt.NDArray[np.bool_]:
    """Whether each row is of the class its output speaks of.

    ``codes`` (n,): binary 0 and 1, else the place of the row's class among all; ``predicted`` likewise.
    """
    if reduction == "binary":
        return np.asarray(codes, dtype=np.bool_)
    if predicted is not None:
        return np.asarray(codes == predicted, dtype=np.bool_)
    return np.asarray(np.equal.outer(codes, np.arange(n_classes)), dtype=np.bool_)
