"""Predictions: rows with their label, base scores and the champion's, and the manifest that describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mlflow_calib.data.manifest import Manifest, read_manifest
from mlflow_calib.errors import raise_problems

#: Columns of the source that are stored under a name of their own.
LABEL, TIME, GROUP = "label", "time", "group"
#: Columns the steps add.
KEY_HASH, PART = "key_hash", "part"


@dataclass(frozen=True, kw_only=True)
class PredictionsManifest(Manifest):
    """What ``score`` leaves. ``files`` holds ``data``, or ``recalibration`` and ``evaluation`` where two were given."""

    SCHEMA: ClassVar[str] = "mlflow_calib.predictions/1"


def read_predictions(uri: str, sha256: str | None = None, written_on: str | None = None) -> PredictionsManifest:
    """Read the manifest of predictions; see `read_manifest`."""
    return read_manifest(PredictionsManifest, uri, sha256, written_on)


def stored_columns(
    key_columns: tuple[str, ...],
    label_column: str,
    group_column: str | None,
    time_column: str | None,
    slice_columns: tuple[str, ...],
) -> dict[str, str]:
    """Stored name -> source column of everything copied from the source.

    Raises
    ------
    InvalidInputError
        Two source columns would be stored under one name, or one under a name with a meaning here: all such cases.
    """
    meant = {LABEL: label_column, TIME: time_column, GROUP: group_column}
    pairs = [(name, name) for name in key_columns] + [(LABEL, label_column)]
    pairs += [(TIME, time_column)] if time_column else []
    pairs += [(GROUP, group_column)] if group_column else []
    pairs += [(name, name) for name in slice_columns]
    stored: dict[str, str] = {}
    problems = []
    for name, source in pairs:
        reserved = name in (KEY_HASH, PART) or name.startswith(("score_", "champion_"))
        if reserved or meant.get(name, source) != source or stored.setdefault(name, source) != source:
            holder = meant.get(name) or stored.get(name)
            taken = "the step's own figures" if reserved else f"{holder!r}" if holder else f"the {name} column, if any"
            problems.append(f"column {source!r} cannot be stored as {name!r}, which holds {taken}; rename it")
    if problems:
        raise_problems(problems)
    return stored
