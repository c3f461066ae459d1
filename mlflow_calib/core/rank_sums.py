"""AUC over rows that come in parts: of bins from their counts, of continuous scores from the scores, kept in order.

AUC needs the order of all rows: no sums of a fixed size give it. A binned model says one value a bin, so that its
counts are enough; of continuous scores 8 bytes a row are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.ranking import area_under_curve, tied_pairs

#: Scores that are looked up in the others at a time.
_BLOCK = 1 << 18


class Ranked(NamedTuple):
    """AUC, and the share of the pairs of a positive and a negative row with one score: each counts one half."""

    auc: float
    tied_pairs: float


def ranked_bins(values: Any, counts: Any, positives: Any) -> Ranked | None:
    """How the values of bins rank their rows; bins of one value are tied. None where one outcome is absent.

    Parameters
    ----------
    values : array, shape (B,)
        What the model says in each bin.
    counts, positives : array of int, shape (B,)
        Rows, and positive rows.

    Examples
    --------
    >>> auc, tied = ranked_bins([0.3, 0.7], [3, 3], [1, 2])  # of 9 pairs 4 in order, 4 tied, 1 out of order
    >>> round(auc, 12), round(tied, 12)
    (0.666666666667, 0.444444444444)
    """
    n, k = np.asarray(counts, dtype=np.int64), np.asarray(positives, dtype=np.int64)
    if not 0 < k.sum() < n.sum():
        return None
    scores, outcomes = np.tile(values, 2), np.repeat([1, 0], len(n))
    rows = np.concatenate([k, n - k])
    return Ranked(area_under_curve(scores, outcomes, rows), tied_pairs(scores, outcomes, rows))


@dataclass(frozen=True, eq=False)
class HeldScores:
    """Scores of the positive and of the negative rows, in parts: 8 bytes a row, as much again while they are sorted.

    Examples
    --------
    >>> first = HeldScores.from_rows(np.array([0.1, 0.4]), np.array([False, False]))
    >>> first.merge(HeldScores.from_rows(np.array([0.4, 0.8]), np.array([True, True]))).finish()
    Ranked(auc=0.875, tied_pairs=0.25)
    """

    positives: tuple[Floats, ...]
    negatives: tuple[Floats, ...]

    @classmethod
    def from_rows(cls, scores: Floats, truths: Any) -> HeldScores:
        """Take in finite scores (n,), and whether each row is positive, bool (n,)."""
        return cls((scores[truths],), (scores[~truths],))

    def merge(self, other: HeldScores) -> HeldScores:
        """Scores of the rows of both."""
        return HeldScores(self.positives + other.positives, self.negatives + other.negatives)

    def finish(self) -> Ranked | None:
        """How they rank the rows; None where one outcome is absent."""
        positives, negatives = np.concatenate(self.positives), np.concatenate(self.negatives)
        pairs = len(positives) * len(negatives)
        if not pairs:
            return None
        positives.sort()
        negatives.sort()
        below = up_to = 0
        for start in range(0, len(positives), _BLOCK):
            block = positives[start : start + _BLOCK]
            below += int(np.searchsorted(negatives, block, "left").sum())
            up_to += int(np.searchsorted(negatives, block, "right").sum())
        return Ranked((below + up_to) / (2 * pairs), (up_to - below) / pairs)
