"""The evidence record of one evaluation, from its sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.core.evidence import estimate_entry, evidence_record
from mlflow_calib.core.policy import CALIBRATION_ERROR, Policy
from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.candidate import Candidate
from mlflow_calib.steps.contenders import Contender, Sums
from mlflow_calib.steps.key_record import rows_the_champion_was_fitted_on


def build_record(
    server: MlflowServer,
    manifest: PartitionsManifest,
    digest: str,
    candidate: Candidate,
    policy: Policy,
    contenders: Mapping[str, Contender],
    sums: Sums,
    data_sha256: str,
) -> dict[str, Any]:
    """The whole record, checked: who, on what, which sufficient statistics.

    Raises
    ------
    EvidenceError
        Something in it cannot be, such as evaluation rows that the candidate was fitted on.
    """
    return evidence_record(
        candidate=candidate.to_dict(),
        champion=_champion_facts(server, manifest),
        data=_data_facts(manifest, digest, data_sha256, sums),
        estimates=_estimates(contenders, sums, policy),
        comparisons={name: paired.finish() for name, paired in sums.comparisons.items()},
        recalibration_overlap=0,  # counted in the files by ``require_no_overlap``
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


def _champion_facts(server: MlflowServer, manifest: PartitionsManifest) -> dict[str, Any] | None:
    champion = manifest.champion
    if champion is None:
        return None
    who = {"alias": champion.get("alias") or "none", "name": champion.get("name"), "version": champion.get("version")}
    if who["version"] is None:
        return who
    shared = None
    if champion["kind"] == "calibrated":
        shared = rows_the_champion_was_fitted_on(server, manifest, champion.get("recalibration_keys"))
    return {
        **who,
        "model_uri": champion["uri"],
        "model_id": champion["model_id"],
        "digest": champion["digest"],
        "kind": champion["kind"],
        "n_evaluation_rows_in_its_recalibration_data": 0 if champion["kind"] == "raw" else shared,
    }


def _data_facts(manifest: PartitionsManifest, digest: str, data_sha256: str, sums: Sums) -> dict[str, Any]:
    """Rows and groups are counted in the file; what the manifest says of them is not taken."""
    counted = sums.statistics["candidate"].finish()
    groups = counted.group_moments
    return {
        "partitions_uri": manifest.uri,
        "manifest_sha256": digest,
        "source_uris": list(dict(manifest.source["uris"]).values()),
        "sha256": data_sha256,
        "n": counted.n,
        "n_groups": None if groups is None else groups.G,
        "group_column": manifest.group_column,
        "evaluation_period": manifest.split.get("evaluation_period"),
        "recalibration_period": manifest.split.get("recalibration_period"),
    }


def metrics_of(record: Mapping[str, Any], sums: Sums) -> dict[str, float | None]:
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
