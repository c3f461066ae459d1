"""The gate's judgement: evidence and policy in, a verdict out. Pure, and closed on failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from mlflow_calib.core.comparison_requirement import read_increase
from mlflow_calib.core.error_requirement import champion_status, read_calibration_error
from mlflow_calib.core.evidence_check import ROLES, check_evidence
from mlflow_calib.core.part_requirements import read_slices, read_worst_class
from mlflow_calib.core.policy import (
    CALIBRATION_ERROR,
    EVIDENCE_AGE,
    N_EVALUATION,
    ROWS_PER_BIN,
    SLICES,
    WORST_CLASS,
    Policy,
    Requirement,
)
from mlflow_calib.core.records import digest, from_json
from mlflow_calib.core.requirement_record import Reading, RequirementVerdict, requirement_verdict
from mlflow_calib.core.requirements import read_evidence_age, read_n_evaluation, read_rows_per_bin
from mlflow_calib.core.verdict_record import VERDICT_SCHEMA, Verdict, overall_status
from mlflow_calib.core.verdict_words import reasons_of, whole_sentence
from mlflow_calib.errors import InvalidInputError, MlflowCalibError

__all__ = ["VERDICT_SCHEMA", "Verdict", "judge"]
_WHO = ("alias", "name", "version", "model_uri", "model_id", "digest", "kind")
#: What a record of an unforeseen shape can raise; each becomes "no verdict".
_UNREADABLE = (MlflowCalibError, ArithmeticError, ValueError, TypeError, LookupError)


def judge(
    evidence: Mapping[str, Any] | str | None,
    policy: Policy | Mapping[str, Any] | None = None,
    *,
    now: datetime | None = None,
) -> Verdict:
    """Hold evidence against a policy.

    Every bound is recomputed at the policy's level from the sufficient statistics of the record. Evidence that is
    missing, damaged, not finite, stale, or of something else than the policy asks gives "no verdict", and never an
    exception: the gate fails closed.

    Parameters
    ----------
    evidence
        The record, or its JSON text.
    policy
        A policy or its document; None: ``Policy.default()``.
    now
        The time that the age of the evidence is counted to, with its zone; None: the clock.

    Raises
    ------
    InvalidInputError
        Where the policy is not one, or ``now`` has no zone.

    Examples
    --------
    >>> verdict = judge(None)
    >>> verdict.status, verdict.blocks
    ('no verdict', True)
    """
    policy = policy if isinstance(policy, Policy) else Policy.from_dict({} if policy is None else policy)
    if now is not None and now.tzinfo is None:
        raise InvalidInputError(f"now must carry its time zone, got {now}; use datetime.now(timezone.utc)")
    time = (now or datetime.now(timezone.utc)).astimezone(timezone.utc)
    document, problems = _read_evidence(evidence)
    with np.errstate(all="ignore"):  # a figure that overflows is not finite, and reads "no verdict"
        requirements = tuple(_judged(one, policy, document, problems, time) for one in policy.requirements.values())
        champion = _champion(policy, document, problems)
    return _verdict(policy, document, problems, requirements, champion, time)


def _read_evidence(evidence: Any) -> tuple[Any, list[str]]:
    if isinstance(evidence, str):
        try:
            evidence = from_json(evidence)
        except ValueError as error:
            return None, [
                f"the evidence must be a record or its JSON text, and is neither ({error}); read it by its URI"
            ]
    if evidence is None:
        return None, ["there is no evidence; evaluate first"]
    try:
        return evidence, check_evidence(evidence)
    except _UNREADABLE as error:
        return evidence, [f"the evidence cannot be read ({error!r}); evaluate again"]


def _judged(
    requirement: Requirement, policy: Policy, evidence: Any, problems: list[str], now: datetime
) -> RequirementVerdict:
    if policy.mode == "off":
        return requirement_verdict(requirement, Reading("off", "the policy is off"))
    if not requirement.enabled:
        return requirement_verdict(requirement, Reading("off", "switched off by the policy"))
    if problems:
        return requirement_verdict(requirement, Reading("no verdict", "the evidence cannot be used"))
    try:
        return requirement_verdict(requirement, _read(requirement, evidence, now))
    except _UNREADABLE as error:
        return requirement_verdict(requirement, Reading("no verdict", f"the evidence cannot be read ({error!r})"))


_READERS: Mapping[str, Callable[[Requirement, Mapping[str, Any]], Reading]] = {
    CALIBRATION_ERROR: read_calibration_error,
    WORST_CLASS: read_worst_class,
    SLICES: read_slices,
    ROWS_PER_BIN: read_rows_per_bin,
    N_EVALUATION: read_n_evaluation,
}


def _read(requirement: Requirement, evidence: Mapping[str, Any], now: datetime) -> Reading:
    if requirement.name == EVIDENCE_AGE:
        return read_evidence_age(requirement, evidence, now)
    return _READERS.get(requirement.name, read_increase)(requirement, evidence)


def _champion(policy: Policy, evidence: Any, problems: list[str]) -> tuple[str, str]:
    if policy.mode == "off" or problems:
        return "not judged", "the policy is off" if policy.mode == "off" else "the evidence cannot be used"
    try:
        return champion_status(policy.requirements[CALIBRATION_ERROR], evidence)
    except _UNREADABLE as error:
        return "not judged", f"the evidence of the champion cannot be read ({error!r})"


def _verdict(
    policy: Policy,
    evidence: Any,
    problems: list[str],
    requirements: tuple[RequirementVerdict, ...],
    champion: tuple[str, str],
    now: datetime,
) -> Verdict:
    status = overall_status(requirements)
    reasons = reasons_of(policy, problems, requirements)
    candidate = _who(evidence, "candidate")
    return Verdict(
        status=status,
        mode=policy.mode,
        sentence=whole_sentence(policy, status, candidate, reasons, requirements, champion),
        reasons=reasons,
        requirements=requirements,
        champion_status=champion[0],
        champion_sentence=champion[1],
        role=_role(evidence),
        candidate=candidate,
        champion=_who(evidence, "champion"),
        policy_digest=policy.digest,
        evidence_digest=_digest(evidence),
        judged_at=now.isoformat(timespec="seconds"),
    )


def _role(evidence: Any) -> str:
    """Whom the record is about; a damaged one is taken for a candidate's, and gives no verdict."""
    role = evidence.get("role") if isinstance(evidence, Mapping) else None
    return role if isinstance(role, str) and role in ROLES else ROLES[0]


def _who(evidence: Any, part: str) -> dict[str, Any] | None:
    """Names of a model as the record has them, texts only, so that a damaged record cannot damage the verdict."""
    found = evidence.get(part) if isinstance(evidence, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    return {name: found[name] if isinstance(found[name], str) else None for name in _WHO if name in found}


def _digest(evidence: Any) -> str | None:
    try:
        return None if evidence is None else digest(evidence)
    except (TypeError, ValueError, RecursionError):
        return None
