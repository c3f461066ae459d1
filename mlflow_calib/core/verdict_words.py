"""A verdict in words: what stands against a pass, and the whole in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.policy import Policy
from mlflow_calib.core.requirement_record import VERDICTS, RequirementVerdict


def reasons_of(policy: Policy, problems: list[str], requirements: tuple[RequirementVerdict, ...]) -> tuple[str, ...]:
    """The sentences of all that stands against a pass, the weightiest first; none where nothing does."""
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


def whole_sentence(
    policy: Policy,
    status: str,
    candidate: Mapping[str, Any] | None,
    reasons: tuple[str, ...],
    requirements: tuple[RequirementVerdict, ...],
    champion: tuple[str, str],
) -> str:
    """The whole verdict in one sentence, with the alarm where the champion itself is past the limit."""
    known = candidate or {}
    who = f"{known['name']} version {known['version']}" if known.get("name") and known.get("version") else "candidate"
    mode = "" if policy.mode == "enforce" else f" ({policy.mode}: blocks nothing)"
    passed = [requirement.sentence for requirement in requirements if requirement.status == "pass"]
    shown = reasons or tuple(passed)
    more = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
    alarm = f"; {champion[1]}" if champion[0] == "past the limit" else ""
    return f"{who}: {status}{mode}: {shown[0]}{more}{alarm}"
