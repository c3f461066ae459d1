"""The facts of a calibrator that travel with its model: as meta data in ``MLmodel`` and as tags that the UI shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mlflow_calib.errors import InvalidInputError

#: Prefix of the tags, on the logged model and on the version; ``copy_model_version`` copies those of a version.
PREFIX = "mlflow_calib.calibrator"
#: MLflow cuts longer values of tags.
_LONGEST_TAG = 4_000
#: Entries of the facts of a fit that say on which data it was made.
DATA_FACTS = (
    "data_uri", "data_sha256", "source_uris", "partitions", "recalibration_keys", "recalibration_period",
    "recalibrated_from",
)  # fmt: skip


def travelling_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    """What an auditor asks first, of a document of ``calibrator.json``: a few lines whatever the number of classes.

    Edges and values stand in ``calibrator.json`` alone; `describe` shows them.
    """
    facts, base = document["facts"], document.get("base_model") or {}
    found = {
        "schema_version": document["schema_version"],
        "mlflow_calib_version": facts.get("mlflow_calib_version"),
        "method": document["method"],
        "reduction": document["reduction"],
        "n_bins": n_bins_of(document),
        "binning": document["binning"],
        "scaling": document["scaling"],
        "families": families_of(document),
        "parts": document["parts"],
        "score_kind": document["score_kind"],
        "n": facts.get("n"),
        "n_parts": facts.get("n_parts"),
        "keys": facts.get("keys"),
        "data": data_of(facts),
        "base_model": {name: base.get(name) for name in ("uri", "model_id", "digest")},
    }
    # rows calibrated class by class stay as they are: renormalised, they could not be verified
    free = document["reduction"] in ("marginal", "multi-label")
    return {**found, "rows_sum_to_one": False} if free else found


def travelling_tags(document: Mapping[str, Any]) -> dict[str, str]:
    """The same as tags ``mlflow_calib.calibrator.*``, texts and JSON; what there is nothing of is left out."""
    facts = travelling_facts(document)
    base = facts.pop("base_model")
    flat = {**facts, **{f"base_{name}": value for name, value in base.items()}}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in flat.items()}
    kept = {name: text for name, text in texts.items() if text not in ("null", "{}", "[]")}
    return {f"{PREFIX}.{name}": text for name, text in kept.items() if len(text) <= _LONGEST_TAG}


def plain_metadata(metadata: Any) -> dict[str, Any]:
    """Meta data as ``MLmodel`` can hold it, before anything is written; InvalidInputError where it is no JSON."""
    if isinstance(metadata, Mapping):
        try:
            return dict(json.loads(json.dumps(dict(metadata))))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"metadata must hold plain JSON values only: {error}") from error
    raise InvalidInputError(f"metadata must be a mapping of plain JSON values, got {type(metadata).__name__}")


def data_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of the facts of a fit that say where its data came from, with their digests."""
    return {name: facts[name] for name in DATA_FACTS if facts.get(name) is not None}


def n_bins_of(document: Mapping[str, Any]) -> int | list[int]:
    """Bins there are: one number where all maps have as many."""
    counts = [len(one_map["values"]) for one_map in document["maps"]]
    return counts[0] if len(set(counts)) == 1 else counts


def families_of(document: Mapping[str, Any]) -> dict[str, int]:
    """Chosen families of scaling functions, with the number of maps that have each."""
    names = [one_map["scaling"]["family"] for one_map in document["maps"] if one_map.get("scaling")]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def is_embedded(document: Mapping[str, Any]) -> bool:
    """Whether the base model lies in the artifact; where not, its pinned URI and digest do."""
    return (document.get("base_model") or {}).get("embedded") is not False
