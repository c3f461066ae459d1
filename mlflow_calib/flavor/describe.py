"""What a calibrated model says of itself, by its URI, without loading its base model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mlflow_calib import runtime
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.description_text import description_text
from mlflow_calib.flavor.facts import data_of, is_embedded, n_bins_of
from mlflow_calib.flavor.glance import Glance, glance_at
from mlflow_calib.flavor.resolved import BUNDLE, FLAVOR_NAME
from mlflow_calib.flavor.tracking import MlflowServer

__all__ = ["DESCRIPTION_SCHEMA", "describe", "description_text"]

DESCRIPTION_SCHEMA = "mlflow_calib.description/1"
_META, _CALIBRATOR, _REQUIREMENTS = "MLmodel", f"{BUNDLE}/calibrator.json", "requirements.txt"
_PYTHON = "python_env.yaml"
#: Of ``calibrator.json`` what was asked of the fit and what came of it.
_FIT = (
    "method", "reduction", "binning", "scaling", "loss", "score_kind", "classes", "positive_class",
    "n_bins_requested", "parts_requested", "parts", "seed",
)  # fmt: skip


def describe(model_uri: str | os.PathLike[str], server: MlflowServer | None = None) -> dict[str, Any]:
    """Everything a calibrated model says of itself, as plain JSON values.

    Four small files are read, and what the server says of the version; the base model is neither loaded nor, where
    it lies elsewhere, downloaded (a ``runs:/`` URI excepted, which MLflow fetches whole).

    Parameters
    ----------
    model_uri
        ``models:/name/1``, ``models:/name@alias``, ``models:/m-...``, ``runs:/...``, or a local folder. A version
        made by ``copy_model_version`` describes itself as its source does.
    server
        By default MLflow's own tracking and registry URI.

    Returns
    -------
    dict
        ``schema`` "mlflow_calib.description/1"; ``model`` (pinned URI, name, version, aliases, model_id, run_id, time);
        ``base_model`` (URI, model id, digest, flavors, whether embedded, score source); ``calibrator`` (what was
        asked, what came of it, ``maps`` with edges, values, counts, family and its ``candidates``); ``data`` (rows,
        parts, digests); ``evaluation`` (figures and tags recorded after the fit: estimate and bound; empty where
        nothing was recorded); ``signature``; ``environment`` (Python, requirement lines, versions).

    Raises
    ------
    ModelError
        Where there is no such model, or it is not one of this package.
    InvalidInputError
        Where ``model_uri`` is no URI, and where no server is named although one is needed.

    Examples
    --------
    >>> print(description_text(describe("models:/flights@champion")))  # doctest: +SKIP
    """
    found = glance_at(server, model_uri, [_META, _CALIBRATOR, _REQUIREMENTS, _PYTHON])
    meta = _meta(found)
    document = _document(found)
    flavor, function = meta["flavors"][FLAVOR_NAME], meta["flavors"].get("python_function", {})
    return {
        "schema": DESCRIPTION_SCHEMA,
        "model": _model(found, meta),
        "base_model": {**(document.get("base_model") or {}), "embedded": is_embedded(document)},
        "calibrator": {
            **{name: document[name] for name in _FIT},
            "n_bins_effective": n_bins_of(document),
            "maps": document["maps"],
        },
        "data": _data(document["facts"]),
        "evaluation": _evaluation(found.registered),
        "signature": _signature(meta),
        "environment": {
            "python": _python(found, function),
            "requirements": (found.texts[_REQUIREMENTS] or "").splitlines(),
            "runtime": "bundled" if flavor.get("bundled_runtime", True) else "installed",
            "loader_module": function.get("loader_module"),
            "schema_version": document["schema_version"],
            "mlflow_calib_version": flavor.get("mlflow_calib_version"),
            "mlflow_version": meta.get("mlflow_version"),
        },
    }


def _meta(found: Glance) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # MLflow's own dependency; it ships without types

    try:
        meta = yaml.safe_load(found.texts[_META] or "")
        flavors = [*meta["flavors"]]
        for name in flavors:
            meta["flavors"][name].get("data")  # a table of tables
        _signature(meta)
    except (yaml.YAMLError, TypeError, KeyError, ValueError, AttributeError) as error:
        raise ModelError(
            f"the file MLmodel of {found.uri} is damaged ({error}); fetch or log the model again"
        ) from error
    if FLAVOR_NAME not in flavors:
        raise ModelError(f"{found.uri} must be a calibrated model, and its flavors are {flavors}")
    return dict(meta)


def _document(found: Glance) -> dict[str, Any]:
    from mlflow_calib.core.calibrator import Calibrator

    text = found.texts[_CALIBRATOR] or ""
    try:
        document = runtime.read_calibrator(text)
        Calibrator.from_json(text)  # says what prediction does not need, too
    except ValueError as error:
        raise ModelError(f"the calibrated model {found.uri} cannot be read: {error}") from error
    return document


def _model(found: Glance, meta: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "uri": found.uri,
        "name": found.name,
        "version": found.version,
        "aliases": found.registered.get("aliases", []),
        "model_id": found.model_id or meta.get("model_id"),
        "run_id": found.registered.get("run_id") or meta.get("run_id"),
        "created_at": str(meta["utc_time_created"]) if meta.get("utc_time_created") else None,
        "description": found.registered.get("description"),
    }


def _data(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Rows first, then where they came from, then whatever else the fit recorded."""
    first = ("n", "n_parts", "positives", "n_clipped", "keys")
    rest = {name: value for name, value in facts.items() if name not in {*first, *data_of(facts)}}
    return {**{name: facts.get(name) for name in first}, **data_of(facts), **rest}


def _evaluation(registered: Mapping[str, Any]) -> dict[str, Any]:
    tags = {**registered.get("model_tags", {}), **registered.get("tags", {})}
    ours = {name: tags[name] for name in sorted(tags) if name.startswith("mlflow_calib.")}
    return {"metrics": registered.get("metrics", {}), "tags": ours}


def _signature(meta: Mapping[str, Any]) -> dict[str, Any]:
    import json

    signature = meta.get("signature") or {}
    texts = {name: signature.get(name) for name in ("inputs", "outputs", "params")}
    return {name: json.loads(text) if isinstance(text, str) else text for name, text in texts.items()}


def _python(found: Glance, function: Mapping[str, Any]) -> str | None:
    """The Python of the environment that MLflow would build, else the one the model was saved with."""
    import yaml

    try:
        declared = yaml.safe_load(found.texts[_PYTHON] or "") or {}
    except yaml.YAMLError:
        declared = None
    if not isinstance(declared, dict):
        raise ModelError(f"the file {_PYTHON} of {found.uri} is damaged; fetch or log the model again")
    return str(declared.get("python") or function.get("python_version") or "") or None
