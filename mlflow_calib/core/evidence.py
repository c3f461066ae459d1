"""The evidence: one JSON record of who was estimated, on what, with which sufficient statistics, and when.

It holds no rows. It holds the counts, positives and outputs of every bin (with groups also the group moments), so that
the verdict recomputes every bound at the policy's level; the bounds beside them are for reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.core.comparison_check import COMPARISONS
from mlflow_calib.core.estimate_check import ESTIMATES
from mlflow_calib.core.evidence_check import EVIDENCE_SCHEMA, check_evidence
from mlflow_calib.core.evidence_entry import class_entry, estimate_entry, slice_entry
from mlflow_calib.core.jackknife import JackknifeDifference
from mlflow_calib.core.paired import PairedDifference
from mlflow_calib.core.records import canonical_json, digest
from mlflow_calib.errors import EvidenceError, raise_problems

__all__ = [
    "EVIDENCE_SCHEMA",
    "canonical_json",
    "check_evidence",
    "class_entry",
    "digest",
    "estimate_entry",
    "evidence_record",
    "slice_entry",
]
#: What a comparison may be given as.
Comparison = PairedDifference | JackknifeDifference | Mapping[str, Any] | None


def evidence_record(
    *,
    candidate: Mapping[str, Any],
    champion: Mapping[str, Any] | None,
    data: Mapping[str, Any],
    estimates: Mapping[str, Mapping[str, Any] | None],
    comparisons: Mapping[str, Comparison],
    recalibration_overlap: int | None,
    base_training_overlap: int | None,
    mlflow_calib_version: str,
    run_id: str | None,
    evaluated_at: datetime | None = None,
    reduction: str = "binary",
    slices: Sequence[Mapping[str, Any]] | None = None,
    role: str = "candidate",
    ranking: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The whole record, checked.

    Parameters
    ----------
    candidate, data
        As in the record: who, and on what.
    champion
        None: not looked up. A table with ``version`` None: looked up, none yet. Its count of evaluation rows that it
        was recalibrated on (None: unverified) is copied into ``overlap``.
    estimates
        ``estimate_entry`` or ``class_entry`` of "candidate", "base", "rival", "champion"; one left out is null.
    comparisons
        Paired differences ("mse_increase_over_champion", "log_loss_increase_over_base", ...) and jackknife differences
        ("calibration_error_increase_over_champion", ...) by name, and any other; one that is left out is null.
    recalibration_overlap, base_training_overlap
        Evaluation rows that stand in the candidate's recalibration data and in the base model's training data (None:
        unverified; of a candidate's recalibration data it never is).
    evaluated_at
        With its zone; None: now.
    reduction
        "binary", "marginal", "top-label" or "top-label-per-class".
    slices
        ``slice_entry`` of every slice that was asked for; None: not collected.
    role
        "candidate", or "champion": a champion evaluated on its own, who is then the ``candidate`` of the record, with
        ``champion`` None; nothing can be promoted by it.
    ranking
        ``accuracy``, ``auc`` and ``tied_pairs`` of every model that is estimated; None: not computed.

    Raises
    ------
    EvidenceError
        With every problem of the record at once.
    """
    time = evaluated_at or datetime.now(timezone.utc)
    record = {
        "schema": EVIDENCE_SCHEMA,
        "mlflow_calib_version": mlflow_calib_version,
        "evaluated_at": time.astimezone(timezone.utc).isoformat(timespec="seconds"),
        "candidate": dict(candidate),
        "champion": None if champion is None else dict(champion),
        "data": dict(data),
        "overlap": {
            "recalibration": recalibration_overlap,
            "base_training": base_training_overlap,
            "champion_recalibration": (champion or {}).get("n_evaluation_rows_in_its_recalibration_data"),
        },
        "reduction": reduction,
        "estimates": {name: estimates.get(name) for name in ESTIMATES},
        "comparisons": {name: _comparison(comparisons.get(name)) for name in (*COMPARISONS, *comparisons)},
        "slices": None if slices is None else [dict(one) for one in slices],
        "role": role,
        "ranking": None if ranking is None else {name: ranking.get(name) for name in ESTIMATES},
        "run_id": run_id,
    }
    problems = check_evidence(record)
    if problems:
        raise_problems(problems, EvidenceError)
    return record


def _comparison(difference: Comparison) -> dict[str, Any] | None:
    if difference is None:
        return None
    return dict(difference) if isinstance(difference, Mapping) else difference.to_dict()
