"""The bins of many scores in many columns, a block of rows at a time: ``runtime.EdgeTable`` where it pays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.core.cuts import edges_at
from mlflow_calib.runtime import Floats

#: Bins that two bytes number.
MOST_BINS = 2**16
#: A table takes half a megabyte: those of so many columns at a time, which share the blocks of rows.
TABLES = 64


def bin_columns(scores: Floats, edges: list[Floats], score_kind: str = "probability") -> npt.NDArray[Any]:
    """Bins of every column, shapes (n, K), K times (B - 1,) -> (n, K), laid out column by column.

    Examples
    --------
    >>> bin_columns(np.array([[0.1, 0.9], [0.6, 0.4]]), [np.array([0.5]), np.array([0.2, 0.5])]).tolist()
    [[0, 2], [1, 1]]
    """
    index = _empty_index(scores, edges)
    for k, rows, _, found in _found(scores, edges, score_kind):
        index[k, rows] = found
    return np.asarray(index.T)


def bin_scores(scores: Floats, edges: Floats, score_kind: str = "probability") -> npt.NDArray[Any]:
    """Bins of one column, shapes (n,), (B - 1,) -> (n,)."""
    return np.ascontiguousarray(bin_columns(scores[:, np.newaxis], [edges], score_kind)[:, 0])


def distinct_columns(scores: Floats) -> tuple[list[Floats], npt.NDArray[Any]]:
    """Sorted distinct scores in [0, 1] of every column, K times (V,), and the place of each score among them, (n, K).

    Nothing is sorted where the first rows show every value, as those of a binned model do.

    Examples
    --------
    >>> values, index = distinct_columns(np.array([[0.7, 0.5], [0.2, 0.5], [0.7, 0.5]]))
    >>> [column.tolist() for column in values], index.T.tolist()
    ([[0.2, 0.7], [0.5]], [[1, 0, 1], [0, 0, 0]])
    """
    values = [_first_values(column) for column in scores.T]
    edges = [edges_between(column) for column in values]
    index = _empty_index(scores, edges)
    unseen: list[list[Floats]] = [[] for _ in values]
    for k, rows, column, found in _found(scores, edges, "probability"):
        index[k, rows] = found
        other = column[values[k][found] != column]
        if len(other):
            unseen[k].append(other)
    if not any(unseen):
        return values, np.asarray(index.T)
    values = [np.unique(np.concatenate([column, *others])) for column, others in zip(values, unseen, strict=True)]
    return values, bin_columns(scores, [edges_between(column) for column in values])


def edges_between(values: Floats) -> Floats:
    """Inner edges that part sorted distinct values (V,): (V - 1,)."""
    return edges_at(values, np.arange(1, len(values)))


def _first_values(column: Floats) -> Floats:
    """Distinct scores of the first rows where these repeat a few, else of all rows."""
    first = np.unique(column[: runtime.BLOCK])
    enough = len(column) < runtime.MANY_SCORES or 16 * len(first) > runtime.BLOCK
    return np.unique(column) if enough else first


def _empty_index(scores: Floats, edges: list[Floats]) -> npt.NDArray[Any]:
    small = all(len(one) < MOST_BINS for one in edges)
    return np.empty(scores.shape[::-1], dtype=np.uint16 if small else np.intp)


def _found(scores: Floats, edges: list[Floats], score_kind: str) -> Iterator[tuple[int, slice, Floats, Any]]:
    """Column, rows, their scores in it, and the bins of these, piece by piece."""
    n, n_columns = scores.shape
    if score_kind != "probability" or n < runtime.MANY_SCORES:
        for k in range(n_columns):
            column = np.ascontiguousarray(scores[:, k])
            yield k, slice(None), column, runtime.bin_index(column, edges[k])
        return
    for first in range(0, n_columns, TABLES):
        tables = [runtime.EdgeTable(one) for one in edges[first : first + TABLES]]
        for start in range(0, n, runtime.BLOCK):
            rows = slice(start, start + runtime.BLOCK)
            columns = np.add(scores[rows, first : first + TABLES].T, 0.0, order="C")
            for k, (column, table) in enumerate(zip(columns, tables, strict=True), first):
                yield k, rows, column, table.index(column)
