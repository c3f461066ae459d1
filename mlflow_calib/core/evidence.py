"""The evidence: one JSON record of who was estimated, on what, with which sufficient statistics, and when.

It holds no rows. It holds the counts, positives and outputs of every bin (with groups also the group moments), so that
the verdict recomputes every bound at the policy's level; the bounds beside them are for reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.core import intervals
from mlflow_calib.core.estimate_check import COMPARISONS, ESTIMATES
from mlflow_calib.core.evidence_check import EVIDENCE_SCHEMA, check_evidence
from mlflow_calib.core.intervals import ErrorStatistics
from mlflow_calib.core.paired import PairedDifference
from mlflow_calib.core.records import canonical_json, digest, is_number
from mlflow_calib.errors import EvidenceError, InvalidInputError, raise_problems

__all__ = ["EVIDENCE_SCHEMA", "canonical_json", "check_evidence", "digest", "estimate_entry", "evidence_record"]


def estimate_entry(
    error_statistics: ErrorStatistics,
    mse: float,
    *,
    confidence_level: float = 0.95,
    by_group: bool | None = None,
    lower_bound_of_calibration_error: bool = False,
) -> dict[str, Any]:
    """One model's entry of the record: sufficient statistics first, then the figures they give.

    Parameters
    ----------
    error_statistics
        Counts, positives and outputs of the bins, with group moments where rows have groups.
    mse
        Mean of (output - outcome)², the smaller the better; for a binary model the Brier score.
    confidence_level
        One-sided level of each bound shown here. The verdict takes the policy's level instead.
    by_group
        None: by group when there are group moments.
    lower_bound_of_calibration_error
        True for continuous outputs that were binned: what is estimated is then at most the model's own error.

    Returns
    -------
    dict
        Root, bounds and noise floor on the scale of probabilities; squares signed. Where the status is ``unusable`` a
        figure that cannot be had is None.

    Raises
    ------
    InvalidInputError
        Where a figure that the status promises is not finite.
    """
    groups = error_statistics.group_moments is not None if by_group is None else by_group
    status, reason = intervals.status(error_statistics, groups)
    statistics = error_statistics.to_dict()
    figures = _figures(error_statistics, confidence_level, groups)
    return {
        "statistics": statistics,
        "n": sum(statistics["n"]),
        "n_bins": len(statistics["n"]),
        **{name: _or_none(name, value, status != "unusable") for name, value in figures.items()},
        "mse": _or_none("mse", mse, usable=True),
        "status": status,
        "reason": reason or None,
        "confidence_level": float(confidence_level),
        "bound_kind": "groups" if groups else "rows",
        "lower_bound_of_calibration_error": bool(lower_bound_of_calibration_error),
    }


def _figures(s: ErrorStatistics, confidence_level: float, by_group: bool) -> dict[str, float | None]:
    squared = intervals.debiased_squared(s)
    return {
        "squared_plugin": intervals.plugin_squared(s),
        "squared_debiased": squared,
        "root": root_of(squared),
        "upper_bound": root_of(intervals.squared_upper_bound(s, confidence_level, by_group)),
        "lower_bound": root_of(intervals.squared_lower_bound(s, confidence_level, by_group)),
        "noise_floor": intervals.noise_floor(s, confidence_level, by_group),
    }


def _or_none(name: str, value: float | None, usable: bool) -> float | None:
    if value is not None and is_number(float(value)):
        return float(value)
    if usable:
        raise InvalidInputError(f"{name} must be a finite number, got {value}; look for NaN among outputs and labels")
    return None


def root_of(squared: float | None) -> float | None:
    """The reported root of a signed square, clipped at zero once; None of None."""
    return None if squared is None else math.sqrt(max(squared, 0.0))


def evidence_record(
    *,
    candidate: Mapping[str, Any],
    champion: Mapping[str, Any] | None,
    data: Mapping[str, Any],
    estimates: Mapping[str, Mapping[str, Any] | None],
    comparisons: Mapping[str, PairedDifference | Mapping[str, Any] | None],
    recalibration_overlap: int,
    base_training_overlap: int | None,
    mlflow_calib_version: str,
    run_id: str | None,
    evaluated_at: datetime | None = None,
    reduction: str = "binary",
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
        ``estimate_entry`` of "candidate", "base", "rival", "champion"; one that is left out is null.
    comparisons
        Paired differences, "mse_increase_over_champion", "mse_increase_over_base" and any other; of the two, one that
        is left out is null.
    recalibration_overlap, base_training_overlap
        Evaluation rows that stand in the candidate's recalibration data and in the base model's training data (None:
        unverified).
    evaluated_at
        With its zone; None: now.

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
        "run_id": run_id,
    }
    problems = check_evidence(record)
    if problems:
        raise_problems(problems, EvidenceError)
    return record


def _comparison(difference: PairedDifference | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return difference.to_dict() if isinstance(difference, PairedDifference) else dict(difference)
