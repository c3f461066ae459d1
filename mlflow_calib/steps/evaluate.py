"""Estimate the calibration error of a candidate on evaluation data that neither it nor its calibrator has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.core.binning import uniform_mass
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.evidence import estimate_entry, evidence_record
from mlflow_calib.core.policy import CALIBRATION_ERROR, Policy
from mlflow_calib.data.partitions import EVALUATION, PartitionsManifest
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.records import log_record, read_record_text
from mlflow_calib.flavor.registry import tag_version
from mlflow_calib.flavor.runs import log_metrics
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate, as_tags, find_candidate, verify_base_model
from mlflow_calib.steps.contenders import (
    Contender,
    Sums,
    add_up,
    base_model,
    calibrated,
    calibrated_champion,
    raw_champion,
)
from mlflow_calib.steps.evaluation_rows import (
    DataDigest,
    champion_column,
    iter_batches,
    rows_the_champion_was_fitted_on,
)
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
        Further tags of the candidate's run.
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
        The candidate was fitted on other partitions, is the champion itself, or was changed since it was logged.
    DataError
        The evaluation data are missing or changed.
    """
    server = server or MlflowServer.from_environment()
    rules = open_policy(policy)
    manifest, digest = open_partitions(partitions)
    found = find_candidate(server, take(candidate, "mlflow_calib.fit/1", "candidate"))
    _require_fit(found, manifest, digest)
    verify_base_model(server, found)
    rival = Calibrator.from_json(read_record_text(server, f"runs:/{found.run_id}/{FOLDER}/rival.json"))
    contenders = _contenders(manifest, found.calibrator, rival)
    data = DataDigest()
    sums = add_up(contenders, iter_batches(manifest, data, found.calibrator.score_kind, progress=progress))
    record = _record(manifest, digest, found, rules, contenders, sums, data.text())
    return _logged(server, found, record, sums, run_tags or {})


def _require_fit(candidate: Candidate, manifest: PartitionsManifest, digest: str) -> None:
    """Refuse a candidate of other partitions, and one that is its own champion (N20)."""
    if candidate.run_id is None:
        raise EvidenceError(
            f"{candidate.model_uri} must name the run it was fitted in, and names none; register it by fit"
        )
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
            f"the champion must be another model version than the candidate, and both are {candidate.model_uri}: it was "
            "promoted before; score and fit again for a new candidate"
        )


def _contenders(manifest: PartitionsManifest, candidate: Calibrator, rival: Calibrator) -> dict[str, Contender]:
    found = {"candidate": calibrated(candidate), "base": base_model(candidate), "rival": calibrated(rival)}
    champion = _champion(manifest, candidate)
    return found if champion is None else {**found, "champion": champion}


def _champion(manifest: PartitionsManifest, candidate: Calibrator) -> Contender | None:
    """The champion in its own bins; where it is the base model itself, in the candidate's."""
    champion = manifest.champion
    if champion is None or champion.get("version") is None:
        return None
    n_bins = candidate.n_bins_requested
    if champion["kind"] == "calibrated":
        return calibrated_champion(champion_column(manifest, "output_column"), n_bins)
    if champion["digest"] == manifest.base_model["digest"]:
        return base_model(candidate)
    return raw_champion(uniform_mass(champion_column(manifest, "score_column"), n_bins))


def _record(
    manifest: PartitionsManifest,
    digest: str,
    candidate: Candidate,
    policy: Policy,
    contenders: Mapping[str, Contender],
    sums: Sums,
    data_sha256: str,
) -> dict[str, Any]:
    return evidence_record(
        candidate=candidate.to_dict(),
        champion=_champion_facts(manifest),
        data=_data_facts(manifest, digest, data_sha256),
        estimates=_estimates(contenders, sums, policy),
        comparisons={name: paired.finish() for name, paired in sums.comparisons.items()},
        recalibration_overlap=manifest.overlap["recalibration"],
        base_training_overlap=manifest.overlap["base_training"],
        mlflow_calib_version=__version__,
        run_id=candidate.run_id,
    )


def _estimates(contenders: Mapping[str, Contender], sums: Sums, policy: Policy) -> dict[str, dict[str, Any]]:
    requirement = policy.requirements[CALIBRATION_ERROR]
    level = requirement.confidence_level or 0.95
    entries = {}
    for name, one in contenders.items():
        statistics = sums.statistics[name]
        finished = statistics.finish()
        by_group = finished.group_moments is not None and requirement.by_group is not False
        entries[name] = estimate_entry(
            finished,
            statistics.mse,
            confidence_level=level,
            by_group=by_group,
            lower_bound_of_calibration_error=one.is_lower_bound,
        )
    return entries


def _champion_facts(manifest: PartitionsManifest) -> dict[str, Any] | None:
    champion = manifest.champion
    if champion is None:
        return None
    who = {"alias": champion.get("alias") or "none", "name": champion.get("name"), "version": champion.get("version")}
    if who["version"] is None:
        return who
    shared = None
    if champion["kind"] == "calibrated":
        shared = rows_the_champion_was_fitted_on(manifest, champion.get("recalibration_keys"))
    return {
        **who,
        "model_uri": champion["uri"],
        "model_id": champion["model_id"],
        "digest": champion["digest"],
        "kind": champion["kind"],
        "n_evaluation_rows_in_its_recalibration_data": 0 if champion["kind"] == "raw" else shared,
    }


def _data_facts(manifest: PartitionsManifest, digest: str, data_sha256: str) -> dict[str, Any]:
    evaluation = manifest.files[EVALUATION]
    return {
        "partitions_uri": manifest.uri,
        "manifest_sha256": digest,
        "source_uris": list(dict(manifest.source["uris"]).values()),
        "sha256": data_sha256,
        "n": evaluation["n"],
        "n_groups": evaluation["n_groups"],
        "group_column": manifest.group_column,
        "evaluation_period": manifest.split.get("evaluation_period"),
        "recalibration_period": manifest.split.get("recalibration_period"),
    }


def _logged(
    server: MlflowServer, candidate: Candidate, record: Mapping[str, Any], sums: Sums, run_tags: Mapping[str, str]
) -> dict[str, Any]:
    """Figure, metrics and tags beside the evidence; the record is the last to be written."""
    run_id = str(candidate.run_id)
    _log_figure(server, run_id, candidate, sums)
    log_metrics(server, run_id, _metrics(record, sums), model_id=candidate.model_id)
    uri, sha256 = log_record(server, run_id, f"{FOLDER}/evidence.json", record)
    estimate, evaluated_at = record["estimates"]["candidate"], record["evaluated_at"]
    figures = {"calibration_error": estimate["root"], "upper_bound": estimate["upper_bound"], "n": estimate["n"]}
    shown = {"evidence": uri, "evidence_sha256": sha256, "evaluated_at": evaluated_at, **figures}
    with connected(server) as client:
        for name, value in run_tags.items():
            client.set_tag(run_id, name, value)
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


def _metrics(record: Mapping[str, Any], sums: Sums) -> dict[str, float | None]:
    """Figures of every model under its own name, the candidate's bare; None is not logged."""
    metrics: dict[str, float | None] = {"n_evaluation": float(record["data"]["n"])}
    for model, entry in record["estimates"].items():
        if entry is None:
            continue
        prefix = "" if model == "candidate" else f"{model}_"
        named = {
            "calibration_error": entry["root"],
            "calibration_error_squared_debiased": entry["squared_debiased"],
            "calibration_error_squared_plugin": entry["squared_plugin"],
            "calibration_error_upper_bound": entry["upper_bound"],
            "calibration_error_lower_bound": entry["lower_bound"],
            "calibration_error_noise_floor": entry["noise_floor"],
            "mse": entry["mse"],
        }
        metrics |= {f"{prefix}{name}": value for name, value in named.items()}
    return metrics | {name: paired.finish().mean for name, paired in sums.comparisons.items()}
