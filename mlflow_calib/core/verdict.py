"""The gate's judgement: evidence and policy in, a verdict out. Pure, and closed on failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from mlflow_calib.core.error_requirement import champion_status, read_calibration_error
from mlflow_calib.core.evidence_check import check_evidence
from mlflow_calib.core.policy import CALIBRATION_ERROR, EVIDENCE_AGE, MSE_INCREASE, Policy, Requirement
from mlflow_calib.core.records import digest
from mlflow_calib.core.requirements import (
    VERDICTS,
    Reading,
    RequirementVerdict,
    read_evidence_age,
    read_mse_increase,
    read_n_evaluation,
    requirement_verdict,
)
from mlflow_calib.core.verdict_record import VERDICT_SCHEMA, Verdict, overall_status
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
            evidence = json.loads(evidence)
        except (ValueError, RecursionError) as error:
            return None, [
                f"the evidence must be a record or its JSON text, and is neither ({error}); read it by its URI"
            ]
    if evidence is None:
        return None, ["there is no evidence; evaluate first"]
    return evidence, check_evidence(evidence)


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


def _read(requirement: Requirement, evidence: Mapping[str, Any], now: datetime) -> Reading:
    if requirement.name == CALIBRATION_ERROR:
        return read_calibration_error(requirement, evidence)
    if requirement.name == MSE_INCREASE:
        return read_mse_increase(requirement, evidence)
    if requirement.name == EVIDENCE_AGE:
        return read_evidence_age(requirement, evidence, now)
    return read_n_evaluation(requirement, evidence)


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
    reasons = _reasons(policy, problems, requirements)
    candidate = _who(evidence, "candidate")
    return Verdict(
        status=status,
        mode=policy.mode,
        sentence=_sentence(policy, status, candidate, reasons, requirements, champion),
        reasons=reasons,
        requirements=requirements,
        champion_status=champion[0],
        champion_sentence=champion[1],
        candidate=candidate,
        champion=_who(evidence, "champion"),
        policy_digest=policy.digest,
        evidence_digest=_digest(evidence),
        judged_at=now.isoformat(timespec="seconds"),
    )


def _reasons(policy: Policy, problems: list[str], requirements: tuple[RequirementVerdict, ...]) -> tuple[str, ...]:
    if policy.mode == "off":
        return ("the policy is off: nothing was judged, and nothing blocks",)
    if problems:
        return tuple(problems)
    deciding = [requirement for requirement in requirements if requirement.status in VERDICTS]
    if not deciding:
        return ("no requirement could be applied: each is switched off or has nothing to compare with",)
    against = [requirement for requirement in deciding if requirement.status != "pass"]
    weightiest_first = sorted(against, key=lambda requirement: VERDICTS.index(requirement.status))
    return tuple(requirement.sentence for requirement in weightiest_first)


def _sentence(
    policy: Policy,
    status: str,
    candidate: Mapping[str, Any] | None,
    reasons: tuple[str, ...],
    requirements: tuple[RequirementVerdict, ...],
    champion: tuple[str, str],
) -> str:
    known = candidate or {}
    who = f"{known['name']} version {known['version']}" if known.get("name") and known.get("version") else "candidate"
    mode = "" if policy.mode == "enforce" else f" ({policy.mode}: blocks nothing)"
    passed = [requirement.sentence for requirement in requirements if requirement.status == "pass"]
    shown = reasons or tuple(passed)
    more = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
    alarm = f"; {champion[1]}" if champion[0] == "past the limit" else ""
    return f"{who}: {status}{mode}: {shown[0]}{more}{alarm}"


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
