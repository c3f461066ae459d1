"""The models of one evaluation, each told by what it says of a batch of rows and by the bins it is judged in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.jackknife import row_blocks
from mlflow_calib.core.reductions import TOP_LABEL
from mlflow_calib.errors import DataError
from mlflow_calib.runtime import Floats, bin_index
from mlflow_calib.steps.judged_rows import Index, JudgedRows, said_by, truths_of


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of the evaluation data.

    Attributes
    ----------
    base_scores : array, shape (n,) or (n, K)
        Of the positive class, or of every class.
    codes : array, shape (n,)
        Binary: 0 and 1; else the place of the row's class among the model's.
    champion_scores, champion_outputs : array of the shape of ``base_scores``, or None
        The champion's own base scores, and what it says.
    groups, key_hashes : array, shape (n,), or None
    slices : dict
        By column the distinct values of these rows, and the place of each row's own among them.
    """

    base_scores: Floats
    codes: npt.NDArray[Any]
    champion_scores: Floats | None = None
    champion_outputs: Floats | None = None
    groups: Any = None
    key_hashes: Any = None
    slices: Mapping[str, tuple[list[Any], Index]] = field(default_factory=dict)
    _bins: dict[int, Index] = field(default_factory=dict, repr=False)

    @property
    def blocks(self) -> Any:
        """What the jackknife leaves out one at a time: groups, or hashed parts of the rows."""
        return row_blocks(self.key_hashes) if self.groups is None else self.groups

    def bins_of(self, calibrator: Calibrator) -> Index:
        """Bins of the base scores by a calibrator, found once: candidate and base model share them."""
        if id(calibrator) not in self._bins:
            self._bins[id(calibrator)] = calibrator.bin_index(self.base_scores)
        return self._bins[id(calibrator)]


@dataclass(frozen=True, eq=False)
class Contender:
    """One model: what it says of rows, and the bins it is judged in.

    Attributes
    ----------
    judged
        Rows of a batch as the reduction sees them.
    reduction
    labels
        The class that each set of bins belongs to; (None,) for binary and top-label, which have one.
    n_bins
        Bins of each set.
    values
        Outputs of a binned model, one a bin, for each set. None: the outputs are continuous, a bin speaks by their
        mean, and what is estimated is at most the model's calibration error.
    """

    judged: Callable[[Batch], JudgedRows]
    reduction: str
    labels: tuple[Any, ...]
    n_bins: tuple[int, ...]
    values: tuple[Floats, ...] | None = None

    @property
    def binned(self) -> bool:
        """Whether the model says one value a bin."""
        return self.values is not None

    @property
    def is_lower_bound(self) -> bool:
        """Whether the error of the binned outputs is only a lower bound of the model's own."""
        return not self.binned


def calibrated(calibrator: Calibrator) -> Contender:
    """A calibrator of this package on the base scores: binned by its own bins."""

    def judged(batch: Batch) -> JudgedRows:
        index, predicted = batch.bins_of(calibrator), _predicted(batch.base_scores, calibrator.reduction)
        truths = truths_of(batch.codes, calibrator.reduction, predicted, len(calibrator.classes))
        return JudgedRows(said_by(calibrator, index, predicted), truths, index, predicted)

    values = tuple(one.values for one in calibrator.maps)
    return Contender(judged, calibrator.reduction, _labels(calibrator), tuple(map(len, values)), values)


def base_model(candidate: Calibrator) -> Contender:
    """The base model itself, binned by the candidate's edges."""
    reduction = candidate.reduction

    def judged(batch: Batch) -> JudgedRows:
        predicted = _predicted(batch.base_scores, reduction)
        truths = truths_of(batch.codes, reduction, predicted, len(candidate.classes))
        return JudgedRows(_spoken(batch.base_scores, predicted), truths, batch.bins_of(candidate), predicted)

    return Contender(judged, reduction, _labels(candidate), tuple(len(one.values) for one in candidate.maps))


def champion(
    reduction: str,
    classes: Sequence[Any],
    edges: Mapping[int, Floats],
    values: Mapping[int, Floats] | None,
) -> Contender:
    """A champion by its own columns, in bins over what it says.

    ``edges`` are the inner edges of each set of bins, by the place of the set's class (0 for the one set of binary and
    top-label); a class that it never predicts has none. ``values`` are the outputs of the bins, None where they are
    continuous.
    """
    places = sorted(edges)
    own = np.zeros(max(places) + 1, dtype=np.intp)
    own[places] = np.arange(len(places))

    def judged(batch: Batch) -> JudgedRows:
        scores, outputs = _champion_columns(batch)
        predicted = _predicted(scores, reduction)
        truths = truths_of(batch.codes, reduction, predicted, len(classes))
        spoken = _spoken(outputs, predicted)
        if reduction == "top-label-per-class":
            index = np.empty(len(spoken), dtype=np.intp)
            for place in places:
                rows = predicted == place
                index[rows] = bin_index(spoken[rows], edges[place])
            return JudgedRows(spoken, truths, index, own[predicted])
        if spoken.ndim == 2:
            index = np.column_stack([bin_index(np.ascontiguousarray(spoken[:, k]), edges[k]) for k in places])
        else:
            index = bin_index(spoken, edges[0])
        return JudgedRows(spoken, truths, index, predicted)

    labels = (None,) if reduction in ("binary", "top-label") else tuple(classes[place] for place in places)
    fixed = None if values is None else tuple(values[place] for place in places)
    return Contender(judged, reduction, labels, tuple(len(edges[place]) + 1 for place in places), fixed)


def champion_says(batch: Batch, reduction: str) -> tuple[Floats, Index | None]:
    """What the champion says in a reduction, (n,) or (n, K), and the class it predicts."""
    scores, outputs = _champion_columns(batch)
    predicted = _predicted(scores, reduction)
    return _spoken(outputs, predicted), predicted


def _predicted(scores: Floats, reduction: str) -> Index | None:
    """The base model's class of each row: the largest score, of equal ones the first."""
    return scores.argmax(axis=1) if reduction in TOP_LABEL else None


def _spoken(outputs: Floats, predicted: Index | None) -> Floats:
    """Outputs that the reduction speaks of: those of the predicted class, or all."""
    return outputs if predicted is None else np.take_along_axis(outputs, predicted[:, None], axis=1)[:, 0]


def _labels(calibrator: Calibrator) -> tuple[Any, ...]:
    return (None,) if calibrator.reduction in ("binary", "top-label") else tuple(calibrator.classes)


def _champion_columns(batch: Batch) -> tuple[Floats, Floats]:
    if batch.champion_scores is None or batch.champion_outputs is None:
        raise DataError("the evaluation data must hold the champion's scores and outputs; score again with champion=")
    return batch.champion_scores, batch.champion_outputs
