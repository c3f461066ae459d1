"""The requirement on the calibration error, read for the candidate, and the same limit held against the champion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.error_bounds import Bounds, ErrorEvidence, has_groups
from mlflow_calib.core.policy import Requirement
from mlflow_calib.core.requirement_record import Reading
from mlflow_calib.core.requirements import bounds_status
from mlflow_calib.core.wording import bounds_words, count, figure, settling

#: Of the champion against the limit; "none": there is no champion, "not judged": nothing could be said.
CHAMPION_STATUSES = ("past the limit", "within", "not shown within", "none", "not judged")


def read_calibration_error(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Pass when the upper bound is within the limit, fail when the lower bound is above it, else inconclusive.

    Thin data can neither pass nor fail by the asymptotic bound. An estimate that is a lower bound of the error never
    passes.
    """
    entry = evidence["estimates"]["candidate"]
    by_group = asked_by_group(requirement, evidence)
    barred = barred_by(requirement, evidence, by_group) or groups_missing(entry, by_group)
    if barred:
        return barred
    reading = read_error(requirement, evidence, ErrorEvidence.of_entry(entry, by_group))
    if evidence["overlap"]["recalibration"] is None:  # of a champion on its own
        unverified = "how many of these rows it was recalibrated on is unverified"
        return reading._replace(hint="; ".join(filter(None, (reading.hint, unverified))))
    return reading


def barred_by(requirement: Requirement, evidence: Mapping[str, Any], by_group: bool) -> Reading | None:
    """No verdict where the policy asks for another reduction, or for a bound that these rows cannot have."""
    if requirement.reduction not in (None, evidence["reduction"]):
        words = f"the evidence is of the {evidence['reduction']} error, not of the {requirement.reduction} one"
        return Reading("no verdict", words, hint="evaluate the reduction that the policy names")
    if requirement.bound == "finite-sample" and by_group:
        words = "the finite-sample bound needs independent rows, and these have groups"
        hint = 'set by_group = false where rows of one group are independent, or bound = "asymptotic"'
        return Reading("no verdict", words, hint=hint)
    return None


def groups_missing(entry: Mapping[str, Any], by_group: bool) -> Reading | None:
    """No verdict where a bound by group is asked of an entry that has no groups."""
    if not by_group or has_groups(entry):
        return None
    hint = "evaluate with a group column, or set by_group = false"
    return Reading("no verdict", "a bound by group is asked, and the evidence has no group moments", hint=hint)


def asked_by_group(requirement: Requirement, evidence: Mapping[str, Any]) -> bool:
    """Whether bounds go by group: as the policy says, and where it is silent, when the evidence has groups."""
    if requirement.by_group is not None:
        return requirement.by_group
    return evidence["data"]["n_groups"] is not None or has_groups(evidence["estimates"]["candidate"])


def read_error(
    requirement: Requirement, evidence: Mapping[str, Any], error: ErrorEvidence, level: float | None = None
) -> Reading:
    """One calibration error against the limit; ``level`` None is the policy's."""
    level = level or requirement.confidence_level or math.nan
    bounds = error.bounds(level, requirement.bound or "asymptotic")
    actual = scaled(requirement, error.squared)
    if bounds is None:
        more, hint = _settle(requirement, error, None, level)
        words = f"no bound, {error.reason}"
        return Reading("inconclusive", words, actual, n=error.n, hint=hint, more_rows=more)
    lower, upper, floor = (scaled(requirement, one) for one in bounds)
    status, why = _status(requirement, error, lower, upper)
    unit = unit_words(evidence, error.by_group)
    words = _bounds_words(requirement, status, (actual, lower, upper), level, unit)
    if status != "inconclusive":
        return Reading(status, words, actual, lower, upper, error.n, noise_floor=floor)
    more, hint = _settle(requirement, error, bounds, level)
    if error.from_below and why:  # no number of rows makes it more
        more, hint = None, ""
    hint = "; ".join(filter(None, (why, hint)))
    return Reading(status, words, actual, lower, upper, error.n, hint, floor, more)


def scaled(requirement: Requirement, squared: float) -> float:
    """A square on the policy's scale."""
    return squared if requirement.squared else math.sqrt(max(squared, 0.0))


def unit_words(evidence: Mapping[str, Any], by_group: bool) -> str:
    """What the bounds go by: "by row", or "by" and the column of the groups."""
    return f"by {evidence['data']['group_column'] or 'group'}" if by_group else "by row"


def _bounds_words(
    requirement: Requirement, status: str, figures: tuple[float, float, float], level: float, unit: str
) -> str:
    bound = "finite-sample bound" if requirement.bound == "finite-sample" else "bound"
    return bounds_words(status, figures, limit=requirement.limit, level=level, unit=unit, bound=bound)


def _status(requirement: Requirement, error: ErrorEvidence, lower: float, upper: float) -> tuple[str, str]:
    if error.status != "ok" and requirement.bound != "finite-sample":
        return "inconclusive", f"too thin, {error.reason}"
    status = bounds_status(lower, upper, requirement.limit)
    if error.from_below and status != "fail":
        return "inconclusive", "binned continuous outputs bound the error from below only, and cannot meet a limit"
    return status, ""


def _settle(
    requirement: Requirement, error: ErrorEvidence, bounds: Bounds | None, level: float
) -> tuple[int | None, str]:
    """How many more rows would settle it, and what a model without any error would show on these."""
    limit = math.sqrt(requirement.limit) if requirement.squared else requirement.limit
    total = error.settled_at(limit, level, requirement.bound or "asymptotic")
    more = None if total is None else total - error.n
    above = scaled(requirement, error.squared) > requirement.limit
    settle = settling(more, error.n, above) if error.n else "there are no rows"
    if bounds is None:
        return more, settle
    floor = figure(scaled(requirement, bounds.floor), requirement.limit)
    return (
        more,
        f"{settle}, and a model without calibration error would show a bound of {floor} on these {count(error.n)}",
    )


def champion_status(requirement: Requirement, evidence: Mapping[str, Any]) -> tuple[str, str]:
    """The champion against the same limit on the new rows, and one sentence.

    "past the limit": its lower bound is above it. "within": its upper bound is within it; never of continuous outputs,
    nor of rows that it was recalibrated on. Else "not shown within".
    """
    champion = evidence["champion"]
    if champion is None:
        itself = evidence["role"] == "champion"
        return "not judged", "the champion is the one judged" if itself else "the champion was not looked up"
    if champion["version"] is None:
        return "none", "there is no champion yet"
    who = f"champion {champion['name']} version {champion['version']}"
    entry, by_group = evidence["estimates"]["champion"], asked_by_group(requirement, evidence)
    if not requirement.enabled or barred_by(requirement, evidence, by_group):
        return "not judged", f"{who}: the policy sets no limit to this calibration error"
    if entry is None or groups_missing(entry, by_group):
        return "not shown within", f"{who}: the evidence has no estimate of it that could be judged"
    error = ErrorEvidence.of_entry(entry, by_group)
    reading = read_error(requirement, evidence, error)
    status, limit = _champion_status(reading, evidence), figure(requirement.limit)
    if reading.lower is None or reading.upper is None or reading.actual is None:
        return status, f"{who} is {status} the limit of {limit}: no bound, {error.reason}"
    bar = {"past the limit": "fail", "within": "pass"}.get(status, "inconclusive")
    figures = (reading.actual, reading.lower, reading.upper)
    level, unit = requirement.confidence_level or math.nan, unit_words(evidence, by_group)
    words = _bounds_words(requirement, bar, figures, level, unit)
    return status, f"{who} is {status.removesuffix(' the limit')} the limit of {limit}: {words}"


def _champion_status(reading: Reading, evidence: Mapping[str, Any]) -> str:
    if reading.status == "fail":
        return "past the limit"
    raw = evidence["champion"]["kind"] == "raw"
    own_rows = evidence["overlap"]["champion_recalibration"]
    return "within" if reading.status == "pass" and not raw and not own_rows else "not shown within"
