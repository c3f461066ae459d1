"""Fit a calibrator on the recalibration data; package it with its base model and register the version."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.core.estimators import mean_squared_error
from mlflow_calib.core.scores import CleanRows, clean_rows
from mlflow_calib.data import records
from mlflow_calib.data.partitions import RECALIBRATION, PartitionsManifest
from mlflow_calib.data.predictions import KEY_HASH, LABEL
from mlflow_calib.errors import CalibrationWarning, DataError, ModelError, raise_problems
from mlflow_calib.flavor.base_model import BUNDLE, resolve_model
from mlflow_calib.flavor.model import log_model
from mlflow_calib.flavor.records import log_record
from mlflow_calib.flavor.registry import register_candidate, registered_version
from mlflow_calib.flavor.runs import log_metrics, start_or_reuse_run
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import find_candidate
from mlflow_calib.steps.hand_over import give
from mlflow_calib.steps.opening import open_partitions

#: Arguments of ``fit_calibrator`` that a step takes; classes and keys come from the partitions.
ARGUMENTS = ("method", "reduction", "n_bins", "binning", "scaling", "parts", "score_kind", "seed")
#: Tags that say which task of which DAG run this is; the number of the try is not among them.
IDENTITY = ("airflow.dag_id", "airflow.run_id", "airflow.task_id", "airflow.map_index")
FOLDER = "mlflow_calib"


@dataclass(frozen=True, eq=False)
class Fitted:
    """Candidate and rival of one recalibration, with the clean rows they were fitted on."""

    calibrator: Calibrator
    rival: Calibrator
    rows: CleanRows


def fit(
    partitions: Mapping[str, Any] | str,
    *,
    name: str,
    calibrator: Mapping[str, Any] | None = None,
    experiment: str | None = None,
    run_tags: Mapping[str, str] | None = None,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Fit a calibrator, log it with its base model in one MLflow run, and register the version as a candidate.

    A histogram-binning rival of as many bins is fitted on the same rows and logged beside it. No alias moves.

    Parameters
    ----------
    partitions
        What ``split`` returned, its JSON, or the URI of its manifest.
    name
        Registered model that gets the new version.
    calibrator
        Arguments of :func:`mlflow_calib.fit_calibrator`: method, n_bins, binning, scaling, parts, score_kind, seed.
    experiment
        Of the run; by default it has the name of the registered model.
    run_tags
        Tags of the run. With ``airflow.dag_id`` and ``airflow.run_id`` among them a retry on the same partitions with
        the same arguments finds its run and its version again; without them each call makes new ones.
    server
        By default the one of the environment.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.fit/1``: uri and sha256 of ``calibrator.json``, run_id, model_uri, version, name,
        model_id, n, n_bins.

    Raises
    ------
    DataError
        Partitions are missing, changed, or without rows to learn from.
    InvalidInputError
        An argument is wrong; all of them at once.
    ModelError
        The base model is gone, or is no longer the one that was scored.

    Notes
    -----
    Registering is the last act: where anything fails before it the run is FAILED and no version is left.
    """
    server = server or MlflowServer.from_environment()
    manifest, digest = open_partitions(partitions)
    arguments = _arguments(name, calibrator)
    key = _run_key(digest, name, arguments, run_tags or {})
    version = _earlier_version(server, name, key)
    if version is None:
        tags = {**(run_tags or {}), "mlflow_calib.partitions": manifest.uri, "mlflow_calib.model": name}
        with start_or_reuse_run(server, experiment or name, f"recalibrate {name}", tags, key) as run_id:
            fitted = _fitted(manifest, digest, arguments)
            version = _logged(server, run_id, name, key, manifest, fitted)
    return _result(server, name, version)


def _arguments(name: str, calibrator: Mapping[str, Any] | None) -> dict[str, Any]:
    given = {key: value for key, value in (calibrator or {}).items() if value is not None and value != ""}
    problems = [
        f"calibrator has no argument {key!r}; it has {', '.join(ARGUMENTS)}" for key in given if key not in ARGUMENTS
    ]
    if given.get("reduction", "binary") != "binary":
        problems.append(f'the steps calibrate binary models: reduction must be "binary", got {given["reduction"]!r}')
    if not isinstance(given.get("parts", ""), str):
        problems.append(f'parts must be "auto", "disjoint" or "shared" in a step, got {given["parts"]!r}')
    if not isinstance(name, str) or not name.strip():
        problems.append(f"name must be that of a registered model, got {name!r}")
    if problems:
        raise_problems(problems)
    return given


def _run_key(digest: str, name: str, arguments: Mapping[str, Any], run_tags: Mapping[str, str]) -> str | None:
    """Key by which a retry finds its run: None where nothing says which task this is."""
    identity = {tag: run_tags[tag] for tag in IDENTITY if tag in run_tags}
    if not identity:
        return None
    document = {"step": "fit", "name": name, "partitions": digest, "calibrator": dict(arguments), "task": identity}
    return records.digest(document)


def _earlier_version(server: MlflowServer, name: str, key: str | None) -> str | None:
    if key is None:
        return None
    with connected(server) as client:
        return registered_version(client, name, key)


def _fitted(manifest: PartitionsManifest, digest: str, arguments: Mapping[str, Any]) -> Fitted:
    """Both calibrators on the recalibration rows; disjoint parts are the thirds of the sorted key hashes."""
    table = manifest.read_rows(RECALIBRATION, [KEY_HASH, LABEL, manifest.score_column])
    keys = table[KEY_HASH].to_numpy()
    if not (np.diff(keys) > 0).all():
        raise DataError(f"{manifest.file_uri(RECALIBRATION)} must be sorted by distinct key hashes; split again")
    labels = table[LABEL].to_numpy()
    scores = table[manifest.score_column].to_numpy()
    words = {"classes": list(manifest.classes), "positive_class": manifest.positive_class}
    rival = {
        name: arguments[name] for name in ("n_bins", "binning", "parts", "score_kind", "seed") if name in arguments
    }
    facts = _facts(manifest, digest)
    return Fitted(
        calibrator=fit_calibrator(scores, labels, keys=keys, **words, **arguments).with_facts(**facts),
        rival=fit_calibrator(scores, labels, keys=keys, method="histogram-binning", **words, **rival).with_facts(
            **facts
        ),
        rows=clean_rows(scores, labels, score_kind=arguments.get("score_kind", "probability"), **words),
    )


def _rival(arguments: Mapping[str, Any], **rows: Any) -> Calibrator:
    """Histogram binning of as many bins; where scores tie the candidate has warned already."""
    shared = {name: value for name, value in arguments.items() if name not in ("method", "scaling")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_calibrator(method="histogram-binning", **rows, **shared)


def _facts(manifest: PartitionsManifest, digest: str) -> dict[str, Any]:
    """What the artifact remembers of the data it was fitted on; ``evaluate`` holds it against its own partitions."""
    return {
        "data_uri": manifest.file_uri(RECALIBRATION),
        "source_uris": list(manifest.source["uris"]),
        "partitions": {"uri": manifest.uri, "sha256": digest},
        "recalibration_keys": dict(manifest.recalibration_keys),
        "recalibration_period": manifest.split.get("recalibration_period"),
        "scored_base_model": {part: manifest.base_model.get(part) for part in ("uri", "model_id", "digest")},
    }


def _logged(
    server: MlflowServer, run_id: str, name: str, key: str | None, manifest: PartitionsManifest, fitted: Fitted
) -> str:
    """Log everything of the recalibration to its run, then register; returns the version."""
    model_id = _log_model(server, run_id, manifest, fitted.calibrator)
    log_record(server, run_id, f"{FOLDER}/calibrator.json", _packaged_text(server, model_id))
    log_record(server, run_id, f"{FOLDER}/rival.json", fitted.rival.to_json())
    log_record(server, run_id, f"{FOLDER}/partitions.json", manifest.to_dict())
    _log_params(server, run_id, manifest, fitted.calibrator)
    log_metrics(server, run_id, _metrics(fitted), model_id=model_id)
    return register_candidate(server, name, f"models:/{model_id}", run_key=key, run_id=run_id)


def _log_model(server: MlflowServer, run_id: str, manifest: PartitionsManifest, calibrator: Calibrator) -> str:
    scored = manifest.base_model
    base = resolve_model(server, scored["uri"])
    if base.digest != scored["digest"]:
        raise ModelError(
            f"base model {scored['uri']} must have digest {scored['digest']}, found {base.digest}: it is not the "
            "one that was scored; score again"
        )
    source = scored["score_source"]
    options = {} if base.kind == "calibrated" else {"score": source["score"], "classes": source["classes"]}
    with connected(server):
        return str(log_model(base, calibrator, name="model", run_id=run_id, **options).model_id)


def _packaged_text(server: MlflowServer, model_id: str) -> str:
    """``calibrator.json`` as it stands in the logged model, with the facts of the base model."""
    import mlflow

    with connected(server) as client, tempfile.TemporaryDirectory() as folder:
        location = client.get_logged_model(model_id).artifact_location.rstrip("/")
        path = mlflow.artifacts.download_artifacts(f"{location}/{BUNDLE}/calibrator.json", dst_path=folder)
        return Path(path).read_text(encoding="utf-8")


def _log_params(server: MlflowServer, run_id: str, manifest: PartitionsManifest, calibrator: Calibrator) -> None:
    from mlflow.entities import Param

    names = ("method", "reduction", "binning", "scaling", "score_kind", "parts_requested", "parts", "seed")
    params = {
        **{name: getattr(calibrator, name) for name in names},
        "n_bins_requested": calibrator.n_bins_requested,
        "n_bins_effective": calibrator.n_bins_effective,
        "flags": ", ".join(calibrator.maps[0].flags) or "none",
        "positive_class": manifest.positive_class,
        "base_model_uri": manifest.base_model["uri"],
        "partitions_uri": manifest.uri,
    }
    with connected(server) as client:
        client.log_batch(run_id, params=[Param(name, str(value)) for name, value in params.items()])


def _metrics(fitted: Fitted) -> dict[str, float]:
    """Figures on the rows that were fitted: they describe the fit and show nothing about other rows."""
    rows, outputs = fitted.rows, fitted.calibrator.predict(fitted.rows.scores)
    return {
        "recalibration_n": float(len(rows.scores)),
        "recalibration_positives": float(rows.outcomes.sum()),
        "recalibration_mse": mean_squared_error(outputs, rows.outcomes),
        "recalibration_n_bins": float(len(fitted.calibrator.maps[0].values)),
        "recalibration_n_clipped": float(rows.n_clipped),
    }


def _result(server: MlflowServer, name: str, version: str) -> dict[str, Any]:
    candidate = find_candidate(server, {"model_uri": f"models:/{name}/{version}"})
    return give(
        "fit",
        uri=f"runs:/{candidate.run_id}/{FOLDER}/calibrator.json",
        sha256=candidate.calibrator_sha256,
        run_id=candidate.run_id,
        model_uri=candidate.model_uri,
        version=version,
        name=name,
        model_id=candidate.model_id,
        n=candidate.calibrator.facts["n"],
        n_bins=candidate.calibrator.n_bins_effective,
    )
