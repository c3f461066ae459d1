"""Sums a bin and class over evaluation rows of several classes: mergeable, with what the bounds need between classes.

The bins of all classes stand side by side in one record of bin statistics. Of marginal rows, which lie in a bin of
every class, rows are also counted by pairs of classes' bins while these are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.bound_terms import BoundTerms, comonotone, row_terms_of
from mlflow_calib.core.class_dependence import MOST_CROSS_BINS, marginal_row_terms
from mlflow_calib.core.class_terms import group_terms_of_classes
from mlflow_calib.core.cross_counts import CrossCounts
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.intervals import bound_terms
from mlflow_calib.errors import InvalidInputError

#: Group moments of the classes are kept while all of them together hold at most this many numbers.
MOST_MOMENTS = 100_000


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """What remains of the rows: statistics of each class, and level-free terms of the bounds on their mean.

    ``pooled``: per predicted class, the bins of all classes side by side; None for marginal. ``bound_kind`` says where
    the variance comes from: "rows", "groups", "cross-class counts" or "comonotone".
    """

    labels: tuple[Any, ...]
    statistics: tuple[ErrorStatistics, ...]
    terms: BoundTerms
    bound_kind: str
    pooled: ErrorStatistics | None = None


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums of the bins of every class; ``from_marginal`` and ``from_predicted`` say of which reduction.

    Examples
    --------
    >>> truths = np.array([[True, False], [False, True], [False, True]])
    >>> index = np.array([[1, 0], [0, 1], [0, 1]])
    >>> values = [np.array([0.2, 0.8]), np.array([0.2, 0.8])]
    >>> outputs = np.array([[0.8, 0.2], [0.2, 0.8], [0.2, 0.8]])
    >>> sums = ClassSums.from_marginal(("a", "b"), outputs, truths, index, [2, 2], values)
    >>> round(sums.mse, 3), sums.finish().statistics[0].counts.tolist(), sums.finish().bound_kind
    (0.04, [2, 1], 'cross-class counts')
    """

    labels: tuple[Any, ...]
    n_bins: tuple[int, ...]
    stacked: BinStatistics
    marginal: bool
    cross: CrossCounts | None = None

    @classmethod
    def from_marginal(
        cls,
        labels: Sequence[Any],
        outputs: Floats,
        truths: npt.NDArray[np.bool_],
        index: npt.NDArray[Any],
        n_bins: Sequence[int],
        values: Sequence[Floats] | None = None,
        groups: Any = None,
    ) -> ClassSums:
        """Sum up rows that lie in a bin of every class.

        Parameters
        ----------
        labels
            The K classes, in the model's order.
        outputs, truths, index : arrays, shape (n, K)
            Outputs in [0, 1], whether the row is of the class, and its bin within the class.
        n_bins
            Bins of each class.
        values
            Fixed value of each bin, a class; without them a bin says its mean output.
        groups : array, shape (n,), optional
        """
        n_classes, starts = len(n_bins), _starts(n_bins)
        columns = np.asarray(index, dtype=np.intp) + starts[np.newaxis, :-1]
        stacked = BinStatistics.from_rows(
            np.asarray(outputs).ravel(),
            np.asarray(truths).ravel(),
            columns.ravel(),
            int(starts[-1]),
            values=None if values is None else np.concatenate(list(values)),
            groups=None if groups is None else np.repeat(np.asarray(groups), n_classes),
        )
        cross = None
        if starts[-1] <= MOST_CROSS_BINS:
            cross = CrossCounts.from_rows(np.asarray(index), np.asarray(truths, dtype=bool), n_bins, one_class=True)
        return cls(tuple(labels), tuple(map(int, n_bins)), stacked, True, cross)

    @classmethod
    def from_predicted(
        cls,
        labels: Sequence[Any],
        outputs: Floats,
        correct: npt.NDArray[np.bool_],
        predicted: npt.NDArray[Any],
        index: npt.NDArray[Any],
        n_bins: Sequence[int],
        values: Sequence[Floats] | None = None,
        groups: Any = None,
    ) -> ClassSums:
        """Sum up rows that lie in a bin of their predicted class; arrays have shape (n,), ``predicted`` is its place.

        ``outputs`` is the confidence, ``correct`` whether the predicted class is the row's, ``index`` the bin within
        the predicted class.
        """
        starts = _starts(n_bins)
        columns = starts[:-1][np.asarray(predicted, dtype=np.intp)] + np.asarray(index, dtype=np.intp)
        fixed = None if values is None else np.concatenate(list(values))
        stacked = BinStatistics.from_rows(outputs, correct, columns, int(starts[-1]), values=fixed, groups=groups)
        return cls(tuple(labels), tuple(map(int, n_bins)), stacked, False)

    def merge(self, *others: ClassSums) -> ClassSums:
        """Sums of all rows together, in any order.

        Raises
        ------
        InvalidInputError
            Where classes, bins, fixed values, or the presence of groups differ.
        """
        if any((one.labels, one.n_bins, one.marginal) != (self.labels, self.n_bins, self.marginal) for one in others):
            raise InvalidInputError("parts must have the same classes, bins and reduction")
        stacked = self.stacked.merge(*(other.stacked for other in others))
        counted = [other.cross for other in others if other.cross is not None]
        return replace(self, stacked=stacked, cross=None if self.cross is None else self.cross.merge(*counted))

    @property
    def n(self) -> int:
        """Rows."""
        return self.stacked.n // len(self.n_bins) if self.marginal else self.stacked.n

    @property
    def mse(self) -> float:
        """Mean squared error: marginal over rows and classes, per predicted class of (confidence, correct)."""
        return self.stacked.mse

    def finish(self) -> ClassStatistics:
        """Statistics of each class, and the terms of the bounds on their mean."""
        statistics = tuple(self._of_class(k) for k in range(len(self.n_bins)))
        if not self.marginal:
            pooled = self.stacked.finish()
            kind = "rows" if pooled.group_moments is None else "groups"
            usable = pooled.group_moments is None or pooled.group_moments.H > 1
            return ClassStatistics(
                self.labels, statistics, bound_terms(pooled, None if usable else False), kind, pooled
            )
        if self.cross is None:
            by_row, kind = comonotone([row_terms_of(s) for s in statistics]), "comonotone"
        else:
            by_row, kind = marginal_row_terms(statistics, self.cross.dependence(statistics)), "cross-class counts"
        table = self.stacked.group_table
        if table is None:
            return ClassStatistics(self.labels, statistics, by_row, kind)
        return ClassStatistics(self.labels, statistics, group_terms_of_classes(table, statistics, by_row), "groups")

    def _of_class(self, k: int) -> ErrorStatistics:
        starts, sums = _starts(self.n_bins), self.stacked
        part = slice(int(starts[k]), int(starts[k + 1]))
        counts, positives, outputs = sums.counts[part], sums.positives[part], sums.mean_outputs[part]
        few = sum(bins**2 for bins in self.n_bins) <= MOST_MOMENTS
        if sums.group_table is None or not few or not counts.sum():
            return ErrorStatistics(counts, positives, outputs)
        own = _columns(sums.group_table, part)
        return ErrorStatistics(counts, positives, outputs, own.moments(counts, positives, outputs))


def _starts(n_bins: Sequence[int]) -> npt.NDArray[np.intp]:
    return np.concatenate([[0], np.cumsum(n_bins)]).astype(np.intp)


def _columns(table: GroupTable, part: slice) -> GroupTable:
    """The bins of one class, and the groups that have rows there."""
    counts, positives = table.counts.tocsc()[:, part].tocsr(), table.positives.tocsc()[:, part].tocsr()
    held = np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel())
    return GroupTable(tuple(table.ids[row] for row in held), counts[held], positives[held])
