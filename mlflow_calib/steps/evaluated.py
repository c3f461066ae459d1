"""The evidence record of one evaluation, from its sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.core.class_sums import ClassStatistics, ClassSums
from mlflow_calib.core.evidence import class_entry, estimate_entry, evidence_record, slice_entry
from mlflow_calib.core.policy import CALIBRATION_ERROR, Policy
from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.candidate import Candidate
from mlflow_calib.steps.contenders import Contender
from mlflow_calib.steps.evaluation_sums import ModelSums, Sums
from mlflow_calib.steps.key_record import rows_a_model_was_fitted_on
from mlflow_calib.steps.role import CHAMPION
from mlflow_calib.steps.slices import Slices


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated, on what, and in which role: ``candidate`` for promotion, or the ``champion`` on its own.

    ``shared`` are evaluation rows that the candidate was recalibrated on: 0, or None where that is not verified.
    """

    candidate: Candidate
    role: str
    manifest: PartitionsManifest
    digest: str
    policy: Policy
    shared: int | None = 0

    @property
    def compares(self) -> bool:
        """Whether the champion of the partitions is another model, to compare with."""
        return self.role != CHAMPION


def build_record(
    server: MlflowServer,
    evaluation: Evaluation,
    contenders: Mapping[str, Contender],
    sums: Sums,
    slices: Slices | None,
    data_sha256: str,
) -> dict[str, Any]:
    """The whole record, checked: who, on what, which sufficient statistics.

    Raises
    ------
    EvidenceError
        Something in it cannot be, such as evaluation rows that the candidate was fitted on.
    """
    manifest, policy = evaluation.manifest, evaluation.policy
    data = _data_facts(manifest, evaluation.digest, data_sha256, sums)
    return evidence_record(
        candidate=evaluation.candidate.to_dict(),
        champion=_champion_facts(server, manifest) if evaluation.compares else None,
        data=data,
        estimates={name: _entry(one, sums.models[name], policy) for name, one in contenders.items()},
        ranking={
            name: sums.rankings[name].figures(sums.models[name].statistics, binned=one.binned)
            for name, one in contenders.items()
        },
        comparisons=sums.comparisons(data["n_groups"]),
        recalibration_overlap=evaluation.shared,
        base_training_overlap=manifest.overlap["base_training"],
        mlflow_calib_version=__version__,
        run_id=evaluation.candidate.run_id,
        reduction=contenders["candidate"].reduction,
        slices=None if slices is None else _slice_entries(contenders["candidate"], sums, slices, policy),
        role=evaluation.role,
    )


def _entry(contender: Contender, sums: ModelSums, policy: Policy) -> dict[str, Any]:
    requirement = policy.requirements[CALIBRATION_ERROR]
    finished = sums.statistics.finish()
    figures: dict[str, Any] = {
        "confidence_level": requirement.confidence_level or 0.95,
        "by_group": False if requirement.by_group is False else None,
        "lower_bound_of_calibration_error": contender.is_lower_bound,
        "log_loss": sums.log_losses.mean,
    }
    if isinstance(finished, ClassStatistics):
        return class_entry(finished, sums.statistics.mse, **figures)
    return estimate_entry(finished, sums.statistics.mse, **figures)


def _slice_entries(contender: Contender, sums: Sums, slices: Slices, policy: Policy) -> list[dict[str, Any]]:
    return [
        slice_entry(dict(key), _entry(contender, sums.slices[key], policy) if key in sums.slices else None)
        for key in slices.all_of(sums.slices)
    ]


def _champion_facts(server: MlflowServer, manifest: PartitionsManifest) -> dict[str, Any] | None:
    champion = manifest.champion
    if champion is None:
        return None
    who = {"alias": champion.get("alias") or "none", "name": champion.get("name"), "version": champion.get("version")}
    if who["version"] is None:
        return who
    shared = None
    if champion["kind"] == "calibrated":
        shared = rows_a_model_was_fitted_on(server, manifest, champion.get("recalibration_keys"))
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
    counted = sums.models["candidate"].statistics
    groups = counted.stacked.group_table if isinstance(counted, ClassSums) else counted.group_table
    return {
        "partitions_uri": manifest.uri,
        "manifest_sha256": digest,
        "source_uris": list(dict(manifest.source["uris"]).values()),
        "sha256": data_sha256,
        "n": counted.n,
        "n_groups": None if groups is None else len(groups.ids),
        "group_column": manifest.group_column,
        "evaluation_period": manifest.split.get("evaluation_period"),
        "recalibration_period": manifest.split.get("recalibration_period"),
    }


def metrics_of(record: Mapping[str, Any]) -> dict[str, float | None]:
    """Figures of every model under its own name, the candidate's bare; None is not logged.

    Those of a champion on its own have a prefix, so that they never pass for the figures it was promoted by.
    """
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
            "log_loss": entry["log_loss"],
            **((record.get("ranking") or {}).get(model) or {}),
        }
        metrics |= {f"{prefix}{name}": value for name, value in named.items()}
    metrics |= {name: one["mean"] for name, one in record["comparisons"].items() if one is not None}
    own = "as_champion_" if record["role"] == CHAMPION else ""
    return {f"{own}{name}": value for name, value in metrics.items()}
