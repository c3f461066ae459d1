"""The bin of each of many scores, by a table in place of a search: equal to ``runtime.bin_index`` on every score.

The leading bits of a float that is not negative number cells that rise with it, twice as fine each time the float
halves, as probabilities near zero need. A cell that no edge divides, or one alone, is decided by one look-up and one
comparison; scores in cells of several edges are searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.core.binning import edges_at
from mlflow_calib.core.error_statistics import Floats

#: Fewer scores than this are searched: the table would cost more than it saves.
FEW_SCORES = 20_000
#: Rows at a time, so that what passes between two steps stays in the cache.
BLOCK = 16_384
#: Bins that two bytes number.
MOST_BINS = 2**16
_TABLES = 16
_SHIFT = 44  # 8 of the 52 bits behind the exponent remain
_CELLS = (1023 << 8) + 1  # from 0 to 1


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Bins of scores in [0, 1] by cells; ``edges`` (B - 1,) as ``runtime.bin_index`` takes them.

    Attributes
    ----------
    edges : array of float
    lowest : array of uint16
        Bin in which each cell begins.
    dividing : array of float
        The edge inside each cell, infinite where there is none.
    crowded : array of bool
        Cells of more than one edge.
    """

    edges: Floats
    lowest: npt.NDArray[np.uint16]
    dividing: Floats
    crowded: npt.NDArray[np.bool_] | None

    @classmethod
    def of(cls, edges: Floats) -> EdgeTable:
        """Build the table; edges outside [0, 1] divide no score of a probability."""
        inside = (edges >= 0) & (edges < 1)
        below = int(np.count_nonzero(edges < 0))
        cells = np.ascontiguousarray(edges[inside]).view(np.int64) >> _SHIFT
        held = np.bincount(cells, minlength=_CELLS)
        before = np.cumsum(held) - held
        dividing = np.full(_CELLS, np.inf)
        dividing[cells[::-1]] = edges[inside][::-1]  # of several the lowest, though crowded cells are searched
        crowded = held > 1
        return cls(edges, (before + below).astype(np.uint16), dividing, crowded if crowded.any() else None)

    def index(self, scores: Floats) -> npt.NDArray[np.uint16]:
        """Bin of each score in [0, 1], shape (m,); a block at a time is fastest."""
        # A zero below zero has a sign bit; adding zero takes it away.
        cells = (scores + 0.0).view(np.int64)
        cells >>= _SHIFT
        found: npt.NDArray[np.uint16] = self.lowest[cells]
        found += scores > self.dividing[cells]
        if self.crowded is not None:
            searched = np.flatnonzero(self.crowded[cells])
            if searched.size:
                found[searched] = runtime.bin_index(scores[searched], self.edges)
        return found


def bin_columns(scores: Floats, edges: list[Floats], score_kind: str = "probability") -> npt.NDArray[Any]:
    """Bins of every column, shapes (n, K), K times (B - 1,) -> (n, K), laid out column by column.

    Examples
    --------
    >>> bin_columns(np.array([[0.1, 0.9], [0.6, 0.4]]), [np.array([0.5]), np.array([0.2, 0.5])]).tolist()
    [[0, 2], [1, 1]]
    """
    n, n_columns = scores.shape
    most = max((len(column_edges) for column_edges in edges), default=0)
    index = np.empty((n_columns, n), dtype=np.uint16 if most < MOST_BINS else np.intp)
    if score_kind != "probability" or n < FEW_SCORES or most >= MOST_BINS:
        for k, column_edges in enumerate(edges):
            index[k] = runtime.bin_index(np.ascontiguousarray(scores[:, k]), column_edges)
        return np.asarray(index.T)
    # A table takes 3 MB: those of some columns at a time, which share the blocks of rows.
    for first in range(0, n_columns, _TABLES):
        columns = range(first, min(first + _TABLES, n_columns))
        tables = [EdgeTable.of(edges[k]) for k in columns]
        for start in range(0, n, BLOCK):
            block = scores[start : start + BLOCK]
            for k, table in zip(columns, tables, strict=True):
                index[k, start : start + BLOCK] = table.index(np.ascontiguousarray(block[:, k]))
    return np.asarray(index.T)


def bin_scores(scores: Floats, edges: Floats, score_kind: str = "probability") -> npt.NDArray[Any]:
    """Bins of one column, shapes (n,), (B - 1,) -> (n,)."""
    return np.ascontiguousarray(bin_columns(scores[:, np.newaxis], [edges], score_kind)[:, 0])


def distinct_values(scores: Floats) -> tuple[Floats, npt.NDArray[Any]]:
    """Sorted distinct scores in [0, 1], (n,) -> (V,), and the place of each score among them, (n,).

    Nothing is sorted where the first rows show every value, as those of a binned model do.

    Examples
    --------
    >>> values, index = distinct_values(np.array([0.7, 0.2, 0.7]))
    >>> values.tolist(), index.tolist()
    ([0.2, 0.7], [1, 0, 1])
    """
    values = np.unique(scores[:BLOCK])
    if len(scores) > BLOCK >= 16 * len(values):
        index = bin_scores(scores, edges_at(values, np.arange(1, len(values))))
        unseen = values[index] != scores
        if not unseen.any():
            return values, index
        values = np.union1d(values, scores[unseen])
    else:
        values = np.unique(scores)
    return values, bin_scores(scores, edges_at(values, np.arange(1, len(values))))
