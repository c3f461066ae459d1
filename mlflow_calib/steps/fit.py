"""Fit a calibrator on the recalibration data; package it with its base model and register the version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_calib.core.records import digest as digest_of
from mlflow_calib.core.records import is_count
from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.errors import raise_problems
from mlflow_calib.flavor.facts import travelling_tags
from mlflow_calib.flavor.names import experiment_problems, model_name_problems
from mlflow_calib.flavor.records import log_record
from mlflow_calib.flavor.registry import register_candidate, registered_version
from mlflow_calib.flavor.runs import log_metrics, start_or_reuse_run
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.runtime import CONTINUOUS_METHODS
from mlflow_calib.steps.candidate import find_candidate
from mlflow_calib.steps.fitted import Fitted, fit_both, metrics_of
from mlflow_calib.steps.hand_over import give
from mlflow_calib.steps.key_record import log_key_hashes
from mlflow_calib.steps.opening import open_partitions
from mlflow_calib.steps.packaged import log_packaged, packaged_text, params_of
from mlflow_calib.steps.whole_model import MODEL_SHA256, list_model_files

#: Arguments of ``fit_calibrator`` that a step takes; classes and keys come from the partitions.
ARGUMENTS = ("method", "reduction", "n_bins", "binning", "scaling", "loss", "targets", "parts", "score_kind", "seed")
#: Reductions that have evidence; multi-label rows have several labels, and no column of labels holds those.
REDUCTIONS = ("binary", "marginal", "top-label", "top-label-per-class")
#: Tags that say which task of which DAG run this is; the number of the try is not among them.
IDENTITY = ("airflow.dag_id", "airflow.run_id", "airflow.task_id", "airflow.map_index")
FOLDER = "mlflow_calib"


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
        Arguments of :func:`mlflow_calib.fit_calibrator`: method, reduction, n_bins, binning, scaling, parts,
        score_kind, seed. Of three classes and more the reduction must be said: "marginal" (a probability of every
        class), "top-label" (the confidence in the predicted class) or "top-label-per-class".
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
        model_id, reduction, n, n_bins (the most of any class).

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
    arguments = _arguments(name, calibrator, experiment, manifest.classes)
    key = _run_key(digest, name, arguments, run_tags or {})
    version = _earlier_version(server, name, key)
    if version is None:
        tags = {**(run_tags or {}), "mlflow_calib.partitions": manifest.uri, "mlflow_calib.model": name}
        with start_or_reuse_run(server, experiment or name, f"recalibrate {name}", tags, key) as run_id:
            fitted = fit_both(manifest, digest, arguments, log_key_hashes(server, run_id, manifest))
            version = _logged(server, run_id, name, key, manifest, fitted)
    return _result(server, name, version)


def _arguments(name: Any, calibrator: Any, experiment: Any, classes: Sequence[Any]) -> dict[str, Any]:
    problems = [*model_name_problems(name), *experiment_problems(experiment or None)]
    if calibrator is not None and not isinstance(calibrator, Mapping):
        problems.append(f"calibrator must be a table of arguments, such as {{'n_bins': 10}}, got {calibrator!r}")
        calibrator = None
    given = {key: value for key, value in (calibrator or {}).items() if value is not None and value != ""}
    problems += [
        f"calibrator has no argument {key!r}; it has {', '.join(ARGUMENTS)}" for key in given if key not in ARGUMENTS
    ]
    problems += reduction_problems(classes, given.get("reduction"))
    if given.get("method") in CONTINUOUS_METHODS:
        problems.append(f"method {given['method']!r} has continuous outputs, whose calibration error is not verifiable")
    if not isinstance(given.get("parts", ""), str):
        problems.append(f'parts must be "auto", "disjoint" or "shared" in a step, got {given["parts"]!r}')
    if not is_count(given.get("seed", 0)):
        problems.append(f"seed must be a whole number of at least 0, got {given['seed']!r}")
    if problems:
        raise_problems(problems)
    return given


def reduction_problems(classes: Sequence[Any], given: Any) -> list[str]:
    """What is wrong with a reduction for a model of these classes; of two it is binary, of more it must be said.

    >>> reduction_problems(["no", "yes"], None)
    []
    >>> reduction_problems(["a", "b", "c"], "top-label")
    []
    """
    if given not in (None, *REDUCTIONS):
        return [f"reduction must be one of {', '.join(map(repr, REDUCTIONS))}, got {given!r}"]
    if len(classes) == 2 and given not in (None, "binary"):
        return [f'reduction must be "binary" for a model of two classes, {list(classes)}, got {given!r}; leave it out']
    if len(classes) > 2 and given in (None, "binary"):
        sentence = (
            f"reduction must be said for a model of {len(classes)} classes, {list(classes)[:10]}, got {given!r}: "
            '"marginal" calibrates the probability of every class, "top-label" the confidence in the predicted class, '
            '"top-label-per-class" that confidence for each predicted class apart'
        )
        return [sentence]
    return []


def _run_key(digest: str, name: str, arguments: Mapping[str, Any], run_tags: Mapping[str, str]) -> str | None:
    """Key by which a retry finds its run: None where nothing says which task this is."""
    identity = {tag: run_tags[tag] for tag in IDENTITY if tag in run_tags}
    if not identity:
        return None
    document = {"step": "fit", "name": name, "partitions": digest, "calibrator": dict(arguments), "task": identity}
    return digest_of(document)


def _earlier_version(server: MlflowServer, name: str, key: str | None) -> str | None:
    if key is None:
        return None
    with connected(server) as client:
        return registered_version(client, name, key)


def _logged(
    server: MlflowServer, run_id: str, name: str, key: str | None, manifest: PartitionsManifest, fitted: Fitted
) -> str:
    """Log everything of the recalibration to its run, then register; returns the version."""
    from mlflow.entities import Param

    model_id = log_packaged(server, run_id, manifest.base_model, fitted.calibrator)
    text = packaged_text(server, model_id)
    log_record(server, run_id, f"{FOLDER}/calibrator.json", text)
    log_record(server, run_id, f"{FOLDER}/rival.json", fitted.rival.to_json())
    log_record(server, run_id, f"{FOLDER}/partitions.json", manifest.to_dict())
    params = {**params_of(fitted.calibrator), "partitions_uri": manifest.uri}
    with connected(server) as client:
        client.log_batch(run_id, params=[Param(param, str(value)) for param, value in params.items()])
    log_metrics(server, run_id, metrics_of(fitted), model_id=model_id)
    tags = travelling_tags(json.loads(text))
    tags[MODEL_SHA256] = list_model_files(server, run_id, f"models:/{model_id}")
    return register_candidate(server, name, f"models:/{model_id}", run_key=key, run_id=run_id, tags=tags)


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
        reduction=candidate.calibrator.reduction,
        n_bins=max(len(one.values) for one in candidate.calibrator.maps),
    )
