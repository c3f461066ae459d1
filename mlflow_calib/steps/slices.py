"""Slices of the evaluation data that a policy asks for: their columns, and the rows of each in a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlflow_calib.core.records import same_scalar
from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.data.predictions import GROUP, TIME
from mlflow_calib.errors import DataError
from mlflow_calib.steps.contenders import Batch
from mlflow_calib.steps.judged_rows import Index

#: A slice: its columns with the value of each.
Slice = tuple[tuple[str, Any], ...]


@dataclass
class Slices:
    """Which slices there are: of some columns every value that is met, and named ones.

    Examples
    --------
    >>> batch = Batch(np.zeros(3), np.zeros(3), slices={"region": (["EU", "US"], np.array([0, 1, 0]))})
    >>> slices = Slices(("region",), ({"region": "JP"},), most=200)
    >>> [(key, rows.tolist()) for key, rows in slices.of(batch)]
    [((('region', 'EU'),), [0, 2]), ((('region', 'US'),), [1])]
    >>> slices.all_of({(("region", "EU"),): 1})  # one that is named is there, with rows or without
    [(('region', 'EU'),), (('region', 'JP'),)]
    """

    columns: tuple[str, ...]
    named: tuple[Mapping[str, Any], ...]
    most: int
    _met: dict[str, set[Any]] = field(default_factory=dict)

    def of(self, batch: Batch) -> Iterator[tuple[Slice, Index]]:
        """Slices with rows in a batch, and the numbers of those rows.

        Raises
        ------
        DataError
            A column has more values than there may be slices.
        """
        found = {key: rows for column in self.columns for key, rows in self._every(column, batch)}
        for wanted in self._keys():
            rows = np.flatnonzero(np.logical_and.reduce([_equal(batch.slices[name], value) for name, value in wanted]))
            if wanted not in found and len(rows):
                found[wanted] = rows
        yield from found.items()

    def all_of(self, met: Mapping[Slice, Any]) -> list[Slice]:
        """Every slice in order: those of the columns by their values, then the named ones, rows or none."""
        return sorted({*met, *self._keys()}, key=lambda key: [(name, value is None, str(value)) for name, value in key])

    def _keys(self) -> list[Slice]:
        return [tuple(sorted(one.items())) for one in self.named]

    def _every(self, column: str, batch: Batch) -> Iterator[tuple[Slice, Index]]:
        values, codes = batch.slices[column]
        met = self._met.setdefault(column, set())
        met.update(values)
        if sum(map(len, self._met.values())) > self.most:
            raise DataError(
                f"the slices of a policy must be at most {self.most}, and column {column!r} alone has at least "
                f"{len(met)} values; name the slices that matter, or a coarser column"
            )
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(values)))
        for value, rows in zip(values, np.split(order, ends[:-1]), strict=True):
            if len(rows):
                yield ((column, value),), rows


def require_slice_columns(manifest: PartitionsManifest, wanted: Sequence[str]) -> dict[str, str]:
    """Stored name of every column that slices need, by its name in the source.

    Raises
    ------
    DataError
        Columns that were not stored when the rows were scored: all of them, and how to have them.
    """
    stored = {name: name for name in (*manifest.key_columns, *manifest.slice_columns)}
    stored |= {
        source: name for name, source in ((GROUP, manifest.group_column), (TIME, manifest.time_column)) if source
    }
    missing = [name for name in wanted if name not in stored]
    if missing:
        listed = ", ".join(map(repr, missing))
        options = " ".join(f"--slice {name}" for name in missing)
        raise DataError(
            f"the policy asks for slices by {listed}, and {manifest.uri} holds {', '.join(map(repr, stored))} to slice "
            f"by; score again with slice_columns=[{listed}] (on the command line {options}), then split and fit"
        )
    return {name: stored[name] for name in wanted}


def distinct_of(column: Any) -> tuple[list[Any], Index]:
    """Distinct values of an Arrow column as JSON scalars, and each row's place among them; NaN is missing, null.

    >>> values, codes = distinct_of(pa.chunked_array([["EU", None, "EU"]]))
    >>> values, codes.tolist()
    (['EU', None], [0, 1, 0])
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    encoded = array.dictionary_encode(null_encoding="encode")
    return [_scalar(value) for value in encoded.dictionary.to_pylist()], np.asarray(encoded.indices, dtype=np.intp)


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _equal(column: tuple[list[Any], Index], wanted: Any) -> Any:
    values, codes = column
    return np.array([same_scalar(value, wanted) for value in values], dtype=np.bool_)[codes]
