"""All that a calibrated model needs to predict: a search and a look-up a class.

This one file is copied into every model artifact under a name that holds its hash, so that the model serves where
mlflow-calib is not installed. It therefore imports numpy and the standard library alone, MLflow only inside the
loader, and never the package it belongs to. It raises plain ``ValueError``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
SCHEMA_VERSION = 1
#: Scores this far outside [0, 1] are rounding, and are clipped and counted; farther ones are refused.
ROUNDING = 1e-6
#: Rows of class probabilities sum to one within this (three times .3333 in float32 does, .2 and .3 do not).
ROW_SUM_TOLERANCE = 1e-3


def bin_index(scores: Floats, edges: Floats) -> npt.NDArray[np.intp]:
    """Bin of each score; a bin is (lower, upper], the first one closed. Shapes (n,), (B - 1,) -> (n,)."""
    return np.searchsorted(edges, scores, side="left")


def look_up(scores: Floats, edges: Floats, values: Floats) -> Floats:
    """Value of the bin each score falls in. Shapes (n,), (B - 1,), (B,) -> (n,)."""
    return values[bin_index(scores, edges)]


def predict_maps(scores: Floats, maps: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Calibrated scores, of the shape of ``scores``: (n,) with one map, (n, K) with K maps of (edges, values)."""
    if scores.ndim == 1:
        return look_up(scores, *maps[0])
    columns = [look_up(scores[:, k], *one_map) for k, one_map in enumerate(maps)]
    return np.column_stack(columns) if columns else np.empty_like(scores)


def clean_scores(scores: Any, n_classes: int | None = None, score_kind: str = "probability") -> tuple[Floats, int]:
    """Scores as float64, with the count of those clipped to [0, 1] for rounding.

    ``n_classes`` is None for one score a row, shape (n,), else the number of columns, shape (n, K). Logits are any
    finite numbers. Raises ValueError that shows the first bad rows and their count.
    """
    array = np.asarray(scores, dtype=np.float64)
    expected = "(n,)" if n_classes is None else f"(n, {n_classes})"
    if array.ndim != (1 if n_classes is None else 2) or (n_classes is not None and array.shape[1] != n_classes):
        raise ValueError(f"scores must have shape {expected}, got {array.shape}")
    _refuse(array, ~np.isfinite(array), "scores must be finite numbers; drop or repair the rows")
    if score_kind == "logit":
        return array, 0
    outside = (array < -ROUNDING) | (array > 1 + ROUNDING)
    _refuse(array, outside, 'scores must lie in [0, 1]; if these are logits, say so with score_kind="logit"')
    clipped = np.clip(array, 0.0, 1.0)
    if n_classes is not None:
        off = np.abs(clipped.sum(axis=1) - 1) > ROW_SUM_TOLERANCE
        _refuse(array, off, f"each row of class probabilities must sum to 1 within {ROW_SUM_TOLERANCE}")
    return clipped, int(np.count_nonzero(clipped != array))


def _refuse(array: Floats, bad: npt.NDArray[np.bool_], rule: str) -> None:
    rows = np.flatnonzero(bad if bad.ndim == 1 else bad.any(axis=1))
    if rows.size:
        shown = "; ".join(f"row {row}: {array[row].tolist()}" for row in rows[:3])
        raise ValueError(f"{rule}. {rows.size} of {len(array)} rows do not hold it: {shown}")


def read_calibrator(text: str) -> dict[str, Any]:
    """The document of a ``calibrator.json``, checked for what prediction needs.

    Raises ValueError for a damaged file and for a schema this release does not know.
    """
    try:
        document = json.loads(text)
        version = document["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"calibrator.json is damaged ({error}); fetch the artifact again or fit a new calibrator"
        ) from error
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"calibrator.json has schema_version {version!r}, and this release reads {SCHEMA_VERSION}; "
            "install the mlflow-calib release that wrote it, or fit a new calibrator"
        )
    _check_maps(document)
    return dict(document)


def _check_maps(document: dict[str, Any]) -> None:
    maps = document.get("maps")
    expected = len(document.get("classes", ())) if document.get("reduction") == "marginal" else 1
    if not isinstance(maps, list) or len(maps) != expected:
        raise ValueError(f"calibrator.json is damaged: it must hold {expected} maps; fetch the artifact again")
    for position, one_map in enumerate(maps):
        try:
            edges, values = map_arrays(one_map)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"calibrator.json is damaged: map {position} holds no edges and values") from error
        finite = bool(np.isfinite(edges).all() and np.isfinite(values).all())
        ordered = bool((np.diff(edges) > 0).all() and (values >= 0).all() and (values <= 1).all())
        if not (finite and ordered and len(values) == len(edges) + 1):
            raise ValueError(
                f"calibrator.json is damaged: map {position} must hold B - 1 increasing edges "
                "and B values in [0, 1]; fetch the artifact again"
            )


def map_arrays(one_map: dict[str, Any]) -> tuple[Floats, Floats]:
    """Edges (B - 1,) and values (B,) of one map of the document."""
    return np.asarray(one_map["edges"], dtype=np.float64), np.asarray(one_map["values"], dtype=np.float64)
