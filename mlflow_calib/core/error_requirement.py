"""The requirement on the calibration error, read for the candidate, and the same limit held against the champion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_calib.core import intervals
from mlflow_calib.core.intervals import ErrorStatistics
from mlflow_calib.core.policy import Requirement
from mlflow_calib.core.requirements import Reading, bounds_status, bounds_words
from mlflow_calib.core.wording import count, figure, settling

#: Of the champion against the limit; "none": there is no champion, "not judged": nothing could be said.
CHAMPION_STATUSES = ("past the limit", "within", "not shown within", "none", "not judged")


@dataclass(frozen=True)
class ErrorBounds:
    """One model's estimate and bounds at the policy's level, on the policy's scale, from the sufficient statistics.

    ``status`` and ``reason`` as ``intervals.status`` says them; bounds and noise floor are None where it is "unusable".
    """

    statistics: ErrorStatistics
    by_group: bool
    status: str
    reason: str
    actual: float
    lower: float | None
    upper: float | None
    noise_floor: float | None

    @classmethod
    def of(cls, requirement: Requirement, entry: Mapping[str, Any], by_group: bool) -> ErrorBounds:
        """Recompute them from one entry of the evidence's estimates."""
        s = ErrorStatistics.from_dict(entry["statistics"])
        level = requirement.confidence_level or math.nan
        lower = intervals.squared_lower_bound(s, level, by_group)
        upper = intervals.squared_upper_bound(s, level, by_group)
        floor = intervals.noise_floor(s, level, by_group)
        scale = float if requirement.squared else _root
        return cls(
            s,
            by_group,
            *intervals.status(s, by_group),
            actual=scale(intervals.debiased_squared(s)),
            lower=None if lower is None else scale(lower),
            upper=None if upper is None else scale(upper),
            noise_floor=None if floor is None else scale(floor**2),
        )


def _root(squared: float) -> float:
    return math.sqrt(max(squared, 0.0))


def read_calibration_error(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Pass when the upper bound is within the limit, fail when the lower bound is above it, else inconclusive.

    Thin data can neither pass nor fail. An estimate that is a lower bound of the error never passes.
    """
    if evidence["reduction"] != requirement.reduction:
        words = f"the evidence is of the {evidence['reduction']} error, not of the {requirement.reduction} one"
        return Reading("no verdict", words, hint="evaluate the reduction that the policy names")
    entry = evidence["estimates"]["candidate"]
    by_group = asked_by_group(requirement, evidence)
    if by_group and entry["statistics"]["groups"] is None:
        hint = "evaluate with a group column, or set by_group = false"
        return Reading("no verdict", "a bound by group is asked, and the evidence has no group moments", hint=hint)
    bounds = ErrorBounds.of(requirement, entry, by_group)
    n = bounds.statistics.n
    if bounds.lower is None or bounds.upper is None:
        hint = _settle(requirement, bounds)
        return Reading("inconclusive", f"no bound, {bounds.reason}", bounds.actual, n=n, hint=hint)
    status, hint = _status(requirement, bounds, entry["lower_bound_of_calibration_error"])
    words = bounds_words(requirement, evidence, status, (bounds.actual, bounds.lower, bounds.upper), by_group)
    return Reading(status, words, bounds.actual, bounds.lower, bounds.upper, n, hint)


def asked_by_group(requirement: Requirement, evidence: Mapping[str, Any]) -> bool:
    """Whether bounds go by group: as the policy says, and where it is silent, when the evidence has groups."""
    if requirement.by_group is not None:
        return requirement.by_group
    groups = evidence["estimates"]["candidate"]["statistics"]["groups"]
    return evidence["data"]["n_groups"] is not None or groups is not None


def _status(requirement: Requirement, bounds: ErrorBounds, is_lower_bound: bool) -> tuple[str, str]:
    if bounds.status != "ok" or bounds.lower is None or bounds.upper is None:
        return "inconclusive", "; ".join(filter(None, (f"too thin, {bounds.reason}", _settle(requirement, bounds))))
    status = bounds_status(bounds.lower, bounds.upper, requirement.limit)
    if is_lower_bound and status != "fail":
        return "inconclusive", "binned continuous outputs bound the error from below only, and cannot meet a limit"
    return status, _settle(requirement, bounds) if status == "inconclusive" else ""


def _settle(requirement: Requirement, bounds: ErrorBounds) -> str:
    """How many more rows would settle it, and what a model without any error would show on these."""
    limit = math.sqrt(requirement.limit) if requirement.squared else requirement.limit
    level, s = requirement.confidence_level or math.nan, bounds.statistics
    total = intervals.rows_that_would_settle(s, limit, level, bounds.by_group) if limit > 0 else None
    settle = settling(None if total is None else total - s.n, s.n, bounds.actual > requirement.limit)
    if bounds.noise_floor is None:
        return settle
    floor = figure(bounds.noise_floor, requirement.limit)
    return f"{settle}, and a model without calibration error would show a bound of {floor} on these {count(s.n)}"


def champion_status(requirement: Requirement, evidence: Mapping[str, Any]) -> tuple[str, str]:
    """The champion against the same limit on the new rows, and one sentence.

    "past the limit": its lower bound is above it. "within": its upper bound is within it; never of continuous outputs,
    nor of rows that it was recalibrated on. Else "not shown within".
    """
    champion = evidence["champion"]
    if champion is None:
        return "not judged", "the champion was not looked up"
    if champion["version"] is None:
        return "none", "there is no champion yet"
    who = f"champion {champion['name']} version {champion['version']}"
    entry, by_group = evidence["estimates"]["champion"], asked_by_group(requirement, evidence)
    if not requirement.enabled or evidence["reduction"] != requirement.reduction:
        return "not judged", f"{who}: the policy sets no limit to this calibration error"
    if entry is None or (by_group and entry["statistics"]["groups"] is None):
        return "not shown within", f"{who}: the evidence has no estimate of it that could be judged"
    bounds = ErrorBounds.of(requirement, entry, by_group)
    status, limit = _champion_status(requirement, bounds, evidence), figure(requirement.limit)
    if bounds.lower is None or bounds.upper is None:
        return status, f"{who} is {status} the limit of {limit}: no bound, {bounds.reason}"
    bar = {"past the limit": "fail", "within": "pass"}.get(status, "inconclusive")
    words = bounds_words(requirement, evidence, bar, (bounds.actual, bounds.lower, bounds.upper), by_group)
    return status, f"{who} is {status.removesuffix(' the limit')} the limit of {limit}: {words}"


def _champion_status(requirement: Requirement, bounds: ErrorBounds, evidence: Mapping[str, Any]) -> str:
    if bounds.status != "ok" or bounds.lower is None or bounds.upper is None:
        return "not shown within"
    status = bounds_status(bounds.lower, bounds.upper, requirement.limit)
    if status == "fail":
        return "past the limit"
    champion, entry = evidence["champion"], evidence["estimates"]["champion"]
    from_below = entry["lower_bound_of_calibration_error"] or champion["kind"] == "raw"
    own_rows = evidence["overlap"]["champion_recalibration"]
    return "within" if status == "pass" and not from_below and not own_rows else "not shown within"
