"""The difference of two models' calibration errors on the same rows, by the jackknife over groups or blocks of rows.

Each model is binned by its own bins. A block is a group, or, where rows are independent, one of 200 hashed parts of
the rows; what is left without one block at a time says how much the difference moves.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.error_statistics import Floats, debiased_squared_of
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.jackknife_record import JackknifeDifference
from mlflow_calib.errors import InvalidInputError

__all__ = ["JackknifeDifference", "JackknifeSums", "jackknife_difference", "jackknife_error", "row_blocks"]

#: Blocks of independent rows, and of groups where there are more than ``MOST_BLOCKS``.
N_BLOCKS = 200
MOST_BLOCKS = 1_000


def row_blocks(key_hashes: Any) -> npt.NDArray[Any]:
    """Block of each row from its 64-bit key hash: the same whatever the order and the batches, shapes (n,) -> (n,)."""
    return np.asarray(np.asarray(key_hashes, dtype=np.uint64) % np.uint64(N_BLOCKS))


class _Squares(NamedTuple):
    """Debiased square of all rows, and without each block, with the rows of the blocks."""

    whole: float
    without: Floats
    sizes: Floats


@dataclass(frozen=True, eq=False)
class JackknifeSums:
    """Rows, positives and outputs of one model a block and bin, of all classes side by side; mergeable.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.choice([0.2, 0.7], size=4000)
    >>> y, blocks = rng.random(4000) < p, np.arange(4000) % 200
    >>> index = (p > 0.5).astype(int)
    >>> right = JackknifeSums.from_rows(p, y, index, 2, blocks, values=[0.2, 0.7])
    >>> wrong = JackknifeSums.from_rows(p + 0.1, y, index, 2, blocks, values=[0.3, 0.8])
    >>> difference = jackknife_difference(right, wrong, n_groups=None)
    >>> -0.12 < difference.mean < -0.08
    True
    """

    counts: GroupTable
    outputs: GroupTable
    n_bins: tuple[int, ...]
    marginal: bool
    values: Floats | None = None

    @classmethod
    def from_rows(
        cls,
        outputs: Any,
        outcomes: Any,
        index: Any,
        n_bins: int | Sequence[int],
        blocks: Any,
        values: Any = None,
    ) -> JackknifeSums:
        """Sum up rows.

        Parameters
        ----------
        outputs, outcomes, index : arrays, shape (n,); marginal (n, K)
            Outputs in [0, 1], 0 and 1, and bins; marginal from 0 within each class, per predicted class from 0 over the
            bins of all classes.
        n_bins : int, or of marginal one a class
        blocks : array, shape (n,)
            Groups, or ``row_blocks``.
        values : array, or of marginal one a class
            Fixed value of each bin of a binned model.
        """
        u, y = np.asarray(outputs, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
        j, marginal = np.asarray(index, dtype=np.intp), np.ndim(outputs) == 2
        bins = tuple(map(int, n_bins)) if isinstance(n_bins, Sequence) else (int(n_bins),)
        if not u.shape == y.shape == j.shape or (marginal and u.shape[1] != len(bins)) or len(blocks) != len(u):
            raise InvalidInputError(
                f"outputs, outcomes and index must have one shape, (n,) or (n, K), with one block a row and one number "
                f"of bins a class, got {u.shape}, {y.shape}, {j.shape}, {len(blocks)} blocks and {len(bins)} classes"
            )
        if marginal:
            j = j + _starts(bins)[np.newaxis, :-1]
            blocks = np.repeat(np.asarray(blocks), len(bins))
            values = None if values is None else np.concatenate(list(values))
        fixed = None if values is None else np.asarray(values, dtype=np.float64)
        u, y, j = u.ravel(), y.ravel(), j.ravel()
        counts = GroupTable.from_rows(blocks, y, j, sum(bins))
        return cls(counts, GroupTable.from_rows(blocks, y, j, sum(bins), weights=u), bins, marginal, fixed)

    def merge(self, *others: JackknifeSums) -> JackknifeSums:
        """Sums of all rows together, in any order; blocks are matched by id."""
        if any((one.n_bins, one.marginal) != (self.n_bins, self.marginal) for one in others):
            raise InvalidInputError("parts must have the same bins and classes")
        parts = (self, *others)
        counts = GroupTable.merge([part.counts for part in parts])
        return replace(self, counts=counts, outputs=GroupTable.merge([part.outputs for part in parts]))

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.counts.counts.sum()) // (len(self.n_bins) if self.marginal else 1)

    def squares(self) -> _Squares:
        """Signed debiased squares of the whole and without each block; of several classes their mean."""
        blocks = _blocks_of(self.counts.ids)
        tables = (self.counts.counts, self.counts.positives, self.outputs.counts)
        n, k, s = (_collapsed(table, blocks) for table in tables)
        sizes = n.sum(axis=1) / (len(self.n_bins) if self.marginal else 1)
        rest = [np.vstack([whole, whole - table]) for table in (n, k, s) for whole in [table.sum(axis=0)]]
        left, positives = np.maximum(np.rint(rest[0]), 0), np.maximum(np.rint(rest[1]), 0)
        if self.values is None:
            u = np.clip(rest[2] / np.where(left > 0, left, 1), 0.0, 1.0)
        else:
            u = np.broadcast_to(self.values, left.shape)
        starts = _starts(self.n_bins)
        parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(starts)]
        each = [debiased_squared_of(left[:, part], positives[:, part], u[:, part]) for part in parts]
        squares = np.mean(each, axis=0)
        return _Squares(float(squares[0]), squares[1:], sizes)


def jackknife_difference(first: JackknifeSums, second: JackknifeSums, *, n_groups: int | None) -> JackknifeDifference:
    """First minus second, over the same rows in the same blocks.

    With n_g rows in block g of G: variance G / (G - 1) sum_g ((n - n_g) / n)^2 (D_-g - D)^2, where D_-g is the
    difference without block g; of a mean it is the variance by group sums. ``n_groups`` is None where blocks are parts
    of independent rows.

    Raises
    ------
    InvalidInputError
        Where the two were not summed over the same blocks.
    """
    if first.counts.ids != second.counts.ids or first.n != second.n:
        raise InvalidInputError("both models must be summed over the same rows in the same blocks")
    one, other = first.squares(), second.squares()
    n_blocks, n = len(one.sizes), first.n
    root = float(_root(one.whole) - _root(other.whole))
    square = one.whole - other.whole
    if n_blocks < 2:
        return JackknifeDifference(root, None, square, None, 0.0, n, n_groups, n_blocks)
    of_roots = float(jackknife_error(root, _root(one.without) - _root(other.without), one.sizes))
    of_squares = float(jackknife_error(square, one.without - other.without, one.sizes))
    return JackknifeDifference(root, of_roots, square, of_squares, float(n_blocks - 1), n, n_groups, n_blocks)


def jackknife_error(whole: Any, without: Floats, sizes: Floats) -> Floats:
    """Standard error of a figure from what it is without each block; shapes (...), (..., G), (..., G) -> (...).

    >>> means = np.array([1.0, 2.0, 6.0])  # of three rows: their mean is 3
    >>> bool(jackknife_error(3.0, (9 - means) / 2, np.ones(3)) == (np.var(means, ddof=1) / 3) ** 0.5)
    True
    """
    total = sizes.sum(axis=-1, keepdims=True)
    moved = (total - sizes) / total * (without - np.asarray(whole)[..., np.newaxis])
    n_blocks = without.shape[-1]
    return np.asarray(np.sqrt(n_blocks / (n_blocks - 1) * (moved**2).sum(axis=-1)))


def _root(squared: Any) -> Any:
    return np.sqrt(np.maximum(squared, 0.0))


def _starts(n_bins: Sequence[int]) -> npt.NDArray[np.intp]:
    return np.concatenate([[0], np.cumsum(n_bins)]).astype(np.intp)


def _blocks_of(ids: tuple[str, ...]) -> npt.NDArray[np.intp]:
    """Block of each id: its own, or a hashed one where there are too many."""
    if len(ids) <= MOST_BLOCKS:
        return np.arange(len(ids), dtype=np.intp)
    hashed = np.array([zlib.crc32(one.encode()) % N_BLOCKS for one in ids])
    return np.unique(hashed, return_inverse=True)[1].astype(np.intp).reshape(-1)


def _collapsed(table: Any, blocks: npt.NDArray[np.intp]) -> Floats:
    cells = table.tocoo()
    dense = np.zeros((int(blocks.max(initial=-1)) + 1, table.shape[1]))
    np.add.at(dense, (blocks[cells.row], cells.col), cells.data)
    return dense
