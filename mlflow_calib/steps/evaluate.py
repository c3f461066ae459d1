"""Estimate the calibration error of a candidate on evaluation data that neither it nor its calibrator has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.records import log_record, read_record_text
from mlflow_calib.flavor.registry import tag_version
from mlflow_calib.flavor.runs import log_metrics
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import (
    Candidate,
    as_tags,
    find_candidate,
    read_calibrator,
    require_own_run,
    verify_base_model,
)
from mlflow_calib.steps.contenders import Sums, add_up
from mlflow_calib.steps.evaluated import build_record, metrics_of
from mlflow_calib.steps.evaluation_rows import DataDigest, contenders_of, iter_batches, require_no_overlap
from mlflow_calib.steps.hand_over import give, take
from mlflow_calib.steps.opening import open_partitions, open_policy

FOLDER = "mlflow_calib"
FIGURE = "figures/reliability.png"


def evaluate(
    partitions: Mapping[str, Any] | str,
    candidate: Mapping[str, Any] | str,
    *,
    policy: Mapping[str, Any] | str | None = None,
    run_tags: Mapping[str, str] | None = None,
    server: MlflowServer | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Estimate candidate, base model, rival and champion on the same rows, and leave the evidence record.

    Nothing is scored again: the candidate is the column of base scores put through the calibrator of the logged model.

    Parameters
    ----------
    partitions
        What ``split`` returned, its JSON, or the URI of its manifest.
    candidate
        What ``fit`` returned, its JSON, or ``models:/<name>/<version>``.
    policy
        Of the gate, as dict, JSON or URI; the bounds shown are of its level. The verdict recomputes them.
    run_tags
        Further tags of the candidate's run; those that the fit has set stay.
    server
        By default the one of the environment.
    progress
        Show a bar.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.evaluate/1``: uri and sha256 of ``evidence.json``, run_id, model_uri, version, name,
        calibration_error and upper_bound (roots; None where the data are too few), mse, n, status.

    Raises
    ------
    EvidenceError
        The candidate was fitted on other partitions, is the champion itself, was changed since it was logged, or is a
        copy of another version. Or evaluation rows are recalibration rows too.
    DataError
        The evaluation data are missing or changed.
    ModelError
        The run of the candidate was deleted, or its calibrator or rival is damaged.
    """
    server = server or MlflowServer.from_environment()
    rules = open_policy(policy)
    manifest, digest = open_partitions(partitions)
    found = find_candidate(server, take(candidate, "mlflow_calib.fit/1", "candidate"))
    run_id = require_own_run(server, found)
    _require_fit(found, manifest, digest)
    require_no_overlap(manifest)
    verify_base_model(server, found)
    where = f"runs:/{run_id}/{FOLDER}/rival.json"
    rival = read_calibrator(read_record_text(server, where), where)
    contenders = contenders_of(manifest, found.calibrator, rival)
    data = DataDigest()
    sums = add_up(contenders, iter_batches(manifest, data, found.calibrator.score_kind, progress=progress))
    record = build_record(server, manifest, digest, found, rules, contenders, sums, data.text())
    return _logged(server, found, record, sums, run_tags or {})


def _require_fit(candidate: Candidate, manifest: PartitionsManifest, digest: str) -> None:
    """Refuse a candidate of other partitions, and one that is its own champion."""
    fitted_on = candidate.calibrator.facts.get("partitions") or {}
    if fitted_on.get("sha256") != digest:
        raise EvidenceError(
            f"{candidate.model_uri} must be evaluated on the partitions it was fitted on, {fitted_on.get('uri')} "
            f"({fitted_on.get('sha256')}), got {manifest.uri} ({digest}); fit on these, or evaluate on those"
        )
    champion = manifest.champion or {}
    same_version = (champion.get("name"), champion.get("version")) == (candidate.name, candidate.version)
    if same_version or (champion.get("model_id") and champion["model_id"] == candidate.model_id):
        raise EvidenceError(
            f"the champion must be another model version than the candidate, and both are {candidate.model_uri}: it "
            "was promoted before; score and fit again for a new candidate"
        )


def _logged(
    server: MlflowServer, candidate: Candidate, record: Mapping[str, Any], sums: Sums, run_tags: Mapping[str, str]
) -> dict[str, Any]:
    """Figure, metrics and tags beside the evidence; the record is the last to be written."""
    run_id = str(candidate.run_id)
    _log_figure(server, run_id, candidate, sums)
    log_metrics(server, run_id, metrics_of(record, sums), model_id=candidate.model_id)
    uri, sha256 = log_record(server, run_id, f"{FOLDER}/evidence.json", record)
    estimate, evaluated_at = record["estimates"]["candidate"], record["evaluated_at"]
    figures = {"calibration_error": estimate["root"], "upper_bound": estimate["upper_bound"], "n": estimate["n"]}
    shown = {"evidence": uri, "evidence_sha256": sha256, "evaluated_at": evaluated_at, **figures}
    with connected(server) as client:
        of_the_fit = client.get_run(run_id).data.tags
        for name in run_tags.keys() - of_the_fit.keys():
            client.set_tag(run_id, name, run_tags[name])
        tag_version(client, candidate.name, candidate.version, as_tags("mlflow_calib", shown))
    return give(
        "evaluate",
        uri=uri,
        sha256=sha256,
        run_id=run_id,
        model_uri=candidate.model_uri,
        version=candidate.version,
        name=candidate.name,
        mse=estimate["mse"],
        status=estimate["status"],
        **figures,
    )


def _log_figure(server: MlflowServer, run_id: str, candidate: Candidate, sums: Sums) -> None:
    from mlflow_calib.report.reliability import reliability_diagram

    shown = [name for name in ("candidate", "base", "champion") if name in sums.statistics]
    curves = {name: sums.statistics[name].finish() for name in shown}
    figure = reliability_diagram(curves, title=f"{candidate.name} version {candidate.version} on evaluation data")
    with connected(server) as client:
        client.log_figure(run_id, figure, FIGURE)
