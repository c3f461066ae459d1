"""Bin statistics as JSON text, so that sums made in different places can be merged in a third."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlflow_calib.core.bin_weights import BinWeights
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.group_moments import GroupTable, table_from_dict, table_to_dict
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
        return _fields(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise EvidenceError(f"bin statistics are damaged ({error!r}); add up the rows again") from error


def _fields(document: Mapping[str, Any]) -> dict[str, Any]:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema must be {SCHEMA}, got {document['schema']!r}")
    fields: dict[str, Any] = {
        name: np.asarray(document[name], dtype=np.int64 if name in ARRAYS[:2] else np.float64) for name in ARRAYS
    }
    if len({array.shape for array in fields.values()}) != 1 or fields["counts"].ndim != 1:
        raise ValueError("all arrays must have one shape (B,)")
    values, groups, weights = document["values"], document["groups"], document["weights"]
    fields["values"] = None if values is None else np.asarray(values, dtype=np.float64)
    fields["group_table"] = None if groups is None else table_from_dict(groups)
    fields["weights"] = None if weights is None else BinWeights.from_dict(weights)
    return fields
