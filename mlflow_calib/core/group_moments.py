"""Rows and positives of each group in each bin while they accumulate, and the moments that remain of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from mlflow_calib.core.group_ids import common_ids, group_codes
from mlflow_calib.core.squares import label_means_of
from mlflow_calib.errors import InvalidInputError
from mlflow_calib.runtime import Floats


@dataclass(frozen=True, eq=False)
class GroupMoments:
    """What the bounds by group need of the groups; the groups themselves are gone.

    With r_gj = n_gj ybar_j - k_gj and H the effective number of groups: ``M`` = H / (H - 1) R'R, shape (B, B);
    ``L`` the variance of the plug-in square by group; ``G`` the number of groups; ``H`` = n^2 / sum n_g^2.
    """

    M: Floats
    L: float
    G: int
    H: float

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as the evidence stores them."""
        return {"M": self.M.tolist(), "L": self.L, "G": self.G, "H": self.H}

    @classmethod
    def from_dict(cls, groups: Mapping[str, Any]) -> GroupMoments:
        """Read back what ``to_dict`` gave.

        Raises
        ------
        InvalidInputError
            Where a figure is no number or is negative.
        """
        moments = cls(
            np.asarray(groups["M"], dtype=np.float64), float(groups["L"]), int(groups["G"]), float(groups["H"])
        )
        if not (np.isfinite(moments.M).all() and np.isfinite([moments.L, moments.H]).all()):
            raise InvalidInputError("group moments must be finite numbers")
        if moments.L < 0 or moments.G < 0 or moments.H < 0:
            raise InvalidInputError(f"L, G, H must not be negative, got {moments.L}, {moments.G}, {moments.H}")
        return moments


@dataclass(frozen=True, eq=False)
class GroupTable:
    """n_gj and k_gj, or sums of weights, sparse, shape (G, B), with the sorted ids of the groups.

    Sparse, because a group of few rows touches few bins: memory is bounded by the rows, not by groups times bins.
    """

    ids: tuple[str, ...]
    counts: csr_array[Any]
    positives: csr_array[Any]

    @classmethod
    def from_rows(
        cls, groups: Any, outcomes: Floats, index: npt.NDArray[Any], n_bins: int, weights: Floats | None = None
    ) -> GroupTable:
        """Count the rows and positives of each group in each bin, or add up their weights."""
        ids, codes = group_codes(groups, len(index))
        shape = (len(ids), n_bins)
        masses = np.ones(len(index), dtype=np.int64) if weights is None else weights
        positives = outcomes.astype(np.int64) if weights is None else weights * outcomes
        return cls(ids, _table(masses, codes, index, shape), _table(positives, codes, index, shape))

    @staticmethod
    def merge(tables: Sequence[GroupTable]) -> GroupTable:
        """Add up by group id; the order of the tables does not matter, not even in the last bit."""
        ids, positions = common_ids([table.ids for table in tables])
        shape = (len(ids), tables[0].counts.shape[1])
        merged = [
            _stack([getattr(table, name).tocoo() for table in tables], positions, shape)
            for name in ("counts", "positives")
        ]
        return GroupTable(ids, *merged)

    def moments(
        self, counts: npt.NDArray[Any], positives: npt.NDArray[Any], outputs: Floats, enough: Any = None
    ) -> GroupMoments:
        """Moments of the groups about the bins' label means; ``outputs`` are the u_j.

        A bin of fewer than 2 rows adds nothing to P and d_j, as to the debiased estimate; where counts and positives
        are sums of weights, ``enough`` says which bins have 2 effective rows.
        """
        sizes = np.asarray(self.counts.sum(axis=1), dtype=np.float64).ravel()
        n = float(counts.sum())
        effective = n**2 / float(sizes @ sizes) if n else 0.0
        # One group alone has r_gj = 0 and L = 0: its factor does not matter, and the status says unusable.
        factor = effective / (effective - 1) if len(self.ids) > 1 else 1.0
        means = label_means_of(counts, positives)
        gaps = np.where(counts >= 2 if enough is None else enough, outputs - means, 0.0)
        plugin = float(counts @ gaps**2) / (n or 1.0)
        deviations = csr_array(self.counts.multiply(means[np.newaxis, :]) - self.positives)
        influence = deviations @ (2 * gaps) + self.counts @ (gaps**2 - plugin)
        spread = factor * (deviations.T @ deviations).toarray()
        variance = factor * float(influence @ influence) / (n or 1.0) ** 2
        return GroupMoments(M=spread, L=variance, G=len(self.ids), H=effective)


def _table(
    data: npt.NDArray[Any], rows: npt.NDArray[np.intp], columns: npt.NDArray[Any], shape: tuple[int, int]
) -> Any:
    table = csr_array((data, (rows, columns)), shape=shape)
    table.sum_duplicates()
    return table


def table_to_dict(table: GroupTable) -> dict[str, Any]:
    """Ids, and the filled cells as (group, bin, count, positives); a sparse list, as long as groups touch bins."""
    cells, positives = table.counts.tocoo(), table.positives
    columns = (cells.row, cells.col, cells.data, np.asarray(positives[cells.row, cells.col]).ravel())
    return {"ids": list(table.ids), "shape": list(cells.shape), "cells": [column.tolist() for column in columns]}


def table_from_dict(document: Mapping[str, Any]) -> GroupTable:
    """Read what ``table_to_dict`` wrote."""
    rows, columns, counts, positives = (np.asarray(column) for column in document["cells"])
    rows, columns = rows.astype(np.intp), columns.astype(np.intp)
    groups, bins = document["shape"]
    shape = (int(groups), int(bins))
    tables = (_table(data, rows, columns, shape) for data in (counts, positives))
    return GroupTable(tuple(document["ids"]), *tables)


def _stack(tables: list[Any], positions: list[npt.NDArray[np.intp]], shape: tuple[int, int]) -> Any:
    data = np.concatenate([table.data for table in tables])
    rows = np.concatenate([position[table.row] for table, position in zip(tables, positions, strict=True)])
    columns = np.concatenate([table.col for table in tables])
    return _table(data, rows, columns, shape)
