"""Partitions: recalibration and evaluation rows, each sorted by key hash, and the manifest that describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mlflow_calib.core.records import COUNT, LIST, TABLE, TEXT, Kind, field_problems
from mlflow_calib.core.split import thirds
from mlflow_calib.data.keys import sorted_digest
from mlflow_calib.data.manifest import Manifest, read_manifest
from mlflow_calib.data.predictions import GROUP, KEY_HASH, LABEL, PART, TIME
from mlflow_calib.data.records import sha256_of_file
from mlflow_calib.data.times import covered, moments

RECALIBRATION, EVALUATION = "recalibration", "evaluation"


_KEYS = {"uri": TEXT, "sha256": TEXT, "n": COUNT, "key_kinds": TABLE}


@dataclass(frozen=True, kw_only=True)
class PartitionsManifest(Manifest):
    """What ``split`` leaves. ``files`` holds ``recalibration`` and ``evaluation``.

    Attributes
    ----------
    files : dict
        Of each file path, n, sha256, key_hashes_sha256, positives (None of three classes and more), class_counts (rows
        of each class, in the order of ``classes``), n_groups (None without groups), time_covers.
    split : dict
        how, evaluation_fraction, seed, as_of, recalibration_period, evaluation_period.
    n_dropped : int
        Rows of the predictions that lie in neither period.
    overlap : dict
        Evaluation rows that are recalibration rows too (0 always), and that the base model was trained on (None
        where its keys were not given); ``checked_by`` says how the first was shown.
    recalibration_keys : dict
        uri, sha256 of the sorted key hashes, n, key_kinds: what a calibrator records of the rows it was fitted on.
    predictions : dict
        uris and sha256 of the manifests these rows come from.
    notes : list of str
        What a reader should know, such as an evaluation file of one class.
    """

    SCHEMA: ClassVar[str] = "mlflow_calib.partitions/1"
    KINDS: ClassVar[Mapping[str, Kind]] = {
        **dict.fromkeys(("split", "overlap", "predictions"), TABLE),
        "recalibration_keys": Kind(
            "a table with uri, sha256, n and key_kinds", lambda value: not field_problems(value, _KEYS)
        ),
        "n_dropped": COUNT,
        "notes": LIST,
    }

    split: Mapping[str, Any]
    n_dropped: int
    overlap: Mapping[str, Any]
    recalibration_keys: Mapping[str, Any]
    predictions: Mapping[str, Any]
    notes: Sequence[str]


def read_partitions(uri: str, sha256: str | None = None, written_on: str | None = None) -> PartitionsManifest:
    """Read the manifest of partitions; see `read_manifest`."""
    return read_manifest(PartitionsManifest, uri, sha256, written_on)


def write_partition(folder: Path, role: str, rows: Any, classes: Sequence[Any], positive_class: Any) -> dict[str, Any]:
    """Write one partition sorted by key hash, thirds added to recalibration rows; returns its entry of ``files``."""
    rows = rows.take(pc.sort_indices(rows[KEY_HASH]))
    if role == RECALIBRATION:
        rows = rows.append_column(PART, pa.array(thirds(rows.num_rows)))
    path = folder / f"{role}.parquet"
    pq.write_table(rows, path)
    counts = count_labels(rows, classes)
    return {
        "path": path.name,
        "n": rows.num_rows,
        "sha256": sha256_of_file(path),
        "key_hashes_sha256": sorted_digest(np.asarray(rows[KEY_HASH].to_numpy())),
        "positives": counts[list(classes).index(positive_class)] if positive_class in classes else None,
        "class_counts": counts,
        "n_groups": pc.count_distinct(rows[GROUP]).as_py() if GROUP in rows.column_names else None,
        "time_covers": time_covers(rows),
    }


def count_labels(rows: Any, classes: Sequence[Any]) -> list[int]:
    """How many rows have each label, by the equality of Python (1 equals True and 1.0)."""
    found: dict[Any, int] = {}
    for entry in pc.value_counts(rows[LABEL]).to_pylist():
        found[entry["values"]] = found.get(entry["values"], 0) + entry["counts"]
    return [found.get(label, 0) for label in classes]


def time_covers(rows: Any) -> list[str] | None:
    """First and last time of the rows in ISO 8601, or None where they have no time."""
    ends = covered(*moments(rows[TIME])) if TIME in rows.column_names else None
    return None if ends is None else [end.isoformat() for end in ends]
