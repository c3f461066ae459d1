"""Accuracy and AUC of every model of an evaluation, on the same rows.

Calibration ties rows that were apart, and ties cost AUC: both are recorded of base model and candidate, so that nobody
takes the fall for a worse model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.class_sums import ClassSums
from mlflow_calib.core.rank_sums import HeldScores, Ranked, ranked_bins
from mlflow_calib.steps.judged_rows import JudgedRows


@dataclass(frozen=True, eq=False)
class RankingSums:
    """Sums of one model over rows.

    Attributes
    ----------
    right
        Rows with the right label: positive where the output is above one half; of top-label the predicted class; of
        marginal the class of the largest output, of equal ones the first.
    held
        Continuous outputs of binary and top-label, 8 bytes a row. None where the ranking follows from the counts of
        the bins, and of continuous marginal outputs, whose K columns would not fit: they have no AUC here.
    """

    right: int
    held: HeldScores | None = None

    @classmethod
    def from_rows(cls, rows: JudgedRows, *, binned: bool) -> RankingSums:
        """Take in rows; ``binned`` says that outputs are values of bins."""
        held = not binned and rows.outputs.ndim == 1
        return cls(_right(rows), HeldScores.from_rows(rows.outputs, rows.truths) if held else None)

    def merge(self, other: RankingSums) -> RankingSums:
        """Sums of the rows of both."""
        held = None if self.held is None or other.held is None else self.held.merge(other.held)
        return RankingSums(self.right + other.right, held)

    def figures(self, statistics: BinStatistics | ClassSums, *, binned: bool) -> dict[str, float | None]:
        """Accuracy, AUC and share of tied pairs, as in the evidence.

        Top-label: of the confidence against being right. Marginal: AUC and ties of each class against the rest, and
        their mean over the classes that have rows, and not all of them. None where one outcome is absent.
        """
        found = [] if self.held is None else [self.held.finish()]
        if binned:
            found = list(_ranked(statistics))
        each = [one for one in found if one is not None]
        return {
            "accuracy": self.right / statistics.n,
            "auc": sum(one.auc for one in each) / len(each) if each else None,
            "tied_pairs": sum(one.tied_pairs for one in each) / len(each) if each else None,
        }


def _right(rows: JudgedRows) -> int:
    if rows.outputs.ndim == 2:
        return int(rows.truths[np.arange(len(rows.truths)), rows.outputs.argmax(axis=1)].sum())
    labels = rows.truths if rows.predicted is not None else (rows.outputs > 0.5) == rows.truths
    return int(labels.sum())


def _ranked(statistics: BinStatistics | ClassSums) -> Iterator[Ranked | None]:
    """Of the bins together; marginal: of each class's."""
    sums = statistics.stacked if isinstance(statistics, ClassSums) else statistics
    columns = (sums.mean_outputs, sums.counts, sums.positives)
    if not isinstance(statistics, ClassSums) or not statistics.marginal:
        yield ranked_bins(*columns)
        return
    ends = np.cumsum(statistics.n_bins)[:-1]
    for values, counts, positives in zip(*(np.split(column, ends) for column in columns), strict=True):
        yield ranked_bins(values, counts, positives)
