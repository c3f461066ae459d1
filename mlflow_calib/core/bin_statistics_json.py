"""Bin statistics as JSON text, so that sums made in different places can be merged in a third."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlflow_calib.core.bin_statistics_check import sums_problems, whole_numbers
from mlflow_calib.core.bin_weights import BinWeights
from mlflow_calib.core.columns import numbers
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.group_moments import GroupTable, table_from_dict, table_to_dict
from mlflow_calib.core.records import from_json
from mlflow_calib.errors import EvidenceError

SCHEMA = "mlflow_calib.bin_statistics/1"
#: The arrays of shape (B,), counts first.
ARRAYS = ("counts", "positives", "output_sums", "output_squares", "output_positives")


def written(
    arrays: Mapping[str, Any], values: Floats | None, table: GroupTable | None, weights: BinWeights | None
) -> str:
    """JSON text of the sums; floats are read back to the bit."""
    document: dict[str, Any] = {"schema": SCHEMA, **{name: arrays[name].tolist() for name in ARRAYS}}
    document["values"] = None if values is None else values.tolist()
    document["groups"] = None if table is None else table_to_dict(table)
    document["weights"] = None if weights is None else weights.to_dict()
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def read(text: str) -> dict[str, Any]:
    """Arguments of ``BinStatistics`` from what ``written`` gave.

    Raises
    ------
    EvidenceError
        Where the text is damaged or of another schema.
    """
    try:
        return _fields(from_json(text))
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"bin statistics are damaged ({error!r}); add up the rows again") from error


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema must be {SCHEMA}, got {document['schema']!r}")
    problems: list[str] = []
    sums: dict[str, Any] = {name: whole_numbers(document[name], name, problems) for name in ARRAYS[:2]}
    sums |= {name: numbers(document[name], name, problems) for name in ARRAYS[2:]}
    values = None if document["values"] is None else numbers(document["values"], "values", problems)
    weights = None if document["weights"] is None else BinWeights.from_dict(document["weights"])
    problems = problems or sums_problems(sums, values, weights)
    table = None if document["groups"] is None else table_from_dict(document["groups"])
    if table is not None and not problems:
        problems += _table_problems(table, sums, weights)
    if problems:
        raise ValueError("; ".join(problems))
    return {**sums, "values": values, "group_table": table, "weights": weights}


def _table_problems(table: GroupTable, sums: Mapping[str, Any], weights: BinWeights | None) -> list[str]:
    """Cells of the groups that do not add up to the bins."""
    counts, positives = (sums["counts"], sums["positives"]) if weights is None else (weights.sums, weights.positives)
    if table.counts.shape != (len(table.ids), len(counts)) or list(table.ids) != sorted({*table.ids}):
        return ["the groups must be sorted distinct ids with a cell for each of their bins"]
    pairs = (("counts", table.counts, counts), ("positives", table.positives, positives))
    return [
        f"{name} of the groups must add up to those of the bins"
        for name, cells, whole in pairs
        if not np.allclose(cells.sum(axis=0), whole, rtol=1e-9, atol=0)
    ]
