"""Clean rows counted into bins: statistics of every class, and of all rows where classes do not share them.

Bins come from a calibrator, a scheme, a number of uniform-mass bins, or one a distinct value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.binning import BinningScheme, uniform_mass
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.class_rows import ClassRows
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats
from mlflow_calib.core.fast_index import bin_columns, bin_scores, distinct_columns, edges_between
from mlflow_calib.core.scores import CleanRows


@dataclass(frozen=True, eq=False)
class BinnedRows:
    """Statistics of each class in ``labels``; ``pooled`` and ``class_rows`` as in ``CalibrationEstimate``."""

    labels: tuple[Any, ...]
    statistics: tuple[ErrorStatistics, ...]
    pooled: ErrorStatistics | None = None
    class_rows: ClassRows | None = None


@dataclass(frozen=True, eq=False)
class ClassBins:
    """Inner edges of the bins of one class, and the value the model says in each where it is fixed.

    ``index`` is the bin of each row, where it was found with them.
    """

    edges: Floats
    values: Floats | None
    index: npt.NDArray[Any] | None = None

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.edges) + 1

    def of(self, scores: Floats, kind: str) -> npt.NDArray[Any]:
        """Bin of each score, (n,) -> (n,)."""
        return bin_scores(scores, self.edges, kind) if self.index is None else self.index


def binned_rows(rows: CleanRows, bins: Any, groups: npt.NDArray[np.intp] | None) -> BinnedRows:
    """Count the rows of a reduction; ``groups`` (n,) are codes of the rows' groups."""
    kind = bins.score_kind if isinstance(bins, Calibrator) else "probability"
    if rows.scores.ndim == 2:
        return _sharing(rows, bins, kind, groups)
    if rows.reduction == "top-label-per-class":
        return _by_predicted(rows, bins, kind, groups)
    one = _bins_of(bins, 0, rows.scores, rows.weights)
    index = one.of(rows.scores, kind)
    statistics = _count(index, rows.truths, one.values, one.n_bins, rows.scores, rows.weights, groups)
    return BinnedRows((None,), (statistics.finish(),))


def _by_predicted(rows: CleanRows, bins: Any, kind: str, groups: Any) -> BinnedRows:
    """Every row in a bin of its predicted class: one binary problem whose bins are those of all classes."""
    predicted = np.asarray(rows.predicted)
    present = np.bincount(predicted, minlength=len(rows.classes)) > 0
    # A class that is never predicted has no bins of its own; a calibrator's bins are there all the same, and empty.
    kept = [k for k in range(len(rows.classes)) if present[k] or isinstance(bins, Calibrator)]
    index, outputs, start = np.zeros(len(predicted), dtype=np.intp), [], 0
    slices, by_class = [], []
    for k in kept:
        mine = np.flatnonzero(predicted == k)
        weights = None if rows.weights is None else rows.weights[mine]
        one = _bins_of(bins, k, rows.scores[mine], weights)
        index[mine] = start + one.of(rows.scores[mine], kind).astype(np.intp)
        slices.append(slice(start, start + one.n_bins))
        outputs.append(one.values)
        start += one.n_bins
        by_class.append(rows.classes[k])
    fixed = [each for each in outputs if each is not None]
    values = np.concatenate(fixed) if len(fixed) == len(outputs) else None
    pooled = _count(index, rows.truths, values, start, rows.scores, rows.weights, groups).finish()
    return BinnedRows(tuple(by_class), tuple(_part(pooled, part) for part in slices), pooled)


def _sharing(rows: CleanRows, bins: Any, kind: str, groups: Any) -> BinnedRows:
    """Every row in a bin of every class."""
    if isinstance(bins, str):
        values, index = distinct_columns(rows.scores)
        all_bins = [ClassBins(edges_between(column), column) for column in values]
    else:
        all_bins = [_bins_of(bins, k, column, rows.weights) for k, column in enumerate(rows.scores.T)]
        index = bin_columns(rows.scores, [one.edges for one in all_bins], kind)
    n_bins = tuple(one.n_bins for one in all_bins)
    fixed = all(one.values is not None for one in all_bins)
    if fixed and groups is None and rows.weights is None:
        statistics = _counted(index, rows.truths, all_bins)
    else:
        columns = [
            _count(index[:, k], rows.truths[:, k], one.values, one.n_bins, rows.scores[:, k], rows.weights, groups)
            for k, one in enumerate(all_bins)
        ]
        statistics = tuple(column.finish() for column in columns)
    one_class = rows.reduction == "marginal"
    class_rows = ClassRows(index, rows.truths, n_bins, one_class, rows.weights, groups)
    return BinnedRows(tuple(rows.classes), statistics, class_rows=class_rows)


def _counted(
    index: npt.NDArray[Any], truths: npt.NDArray[np.bool_], all_bins: list[ClassBins]
) -> tuple[ErrorStatistics, ...]:
    """Statistics of a binned model from counts alone, class by class."""
    ends = np.cumsum([one.n_bins for one in all_bins])
    starts = np.concatenate([[0], ends[:-1]])[:, np.newaxis]
    tallies = np.zeros(2 * ends[-1], dtype=np.int64)
    size = max(runtime.BLOCK, int(ends[-1]))
    for start in range(0, len(index), size):
        block = slice(start, start + size)
        places = index[block].T.astype(np.intp, order="C")  # of a bin the negatives, then the positives
        places += starts
        places *= 2
        places += truths[block].T
        tallies += np.bincount(places.ravel(), minlength=len(tallies))
    negatives, positives = (np.split(tallies[sign::2], ends[:-1]) for sign in (0, 1))
    parts = zip(negatives, positives, all_bins, strict=True)
    return tuple(ErrorStatistics(n + k, k, np.asarray(one.values)) for n, k, one in parts)


def _count(
    index: npt.NDArray[Any],
    truths: npt.NDArray[np.bool_],
    values: Floats | None,
    n_bins: int,
    scores: Floats,
    weights: Floats | None,
    groups: npt.NDArray[np.intp] | None,
) -> BinStatistics:
    if values is not None and weights is None and groups is None:
        counts = np.bincount(index, minlength=n_bins)
        return BinStatistics.from_counts(counts, np.bincount(index[truths], minlength=n_bins), values)
    outputs = scores if values is None else values[index]
    return BinStatistics.from_rows(outputs, truths, index, n_bins, values, groups, weights)


def _bins_of(bins: Any, k: int, scores: Floats, weights: Floats | None) -> ClassBins:
    if isinstance(bins, Calibrator):
        return ClassBins(bins.maps[k].edges, bins.maps[k].values)
    if isinstance(bins, BinningScheme):
        return ClassBins(bins.edges, None)
    if isinstance(bins, str):
        (values,), index = distinct_columns(scores[:, np.newaxis])
        return ClassBins(edges_between(values), values, np.ascontiguousarray(index[:, 0]))
    return ClassBins(uniform_mass(scores, bins, weights).edges, None)


def _part(s: ErrorStatistics, part: slice) -> ErrorStatistics:
    weights = None if s.weights is None else s.weights.chosen(part)
    return ErrorStatistics(s.counts[part], s.positives[part], s.outputs[part], None, weights)
