"""Requirements on increases over the champion or the base model: non-inferiority on the same rows, by paired bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from mlflow_calib.core.error_bounds import ErrorEvidence, has_groups
from mlflow_calib.core.error_requirement import unit_words
from mlflow_calib.core.jackknife import JackknifeDifference
from mlflow_calib.core.paired import ALIKE_SHARE, PairedDifference
from mlflow_calib.core.paired_error import RootBounds, difference_bounds, own_level
from mlflow_calib.core.policy import Requirement
from mlflow_calib.core.requirement_record import Reading
from mlflow_calib.core.requirements import bounds_status
from mlflow_calib.core.status import ENOUGH_GROUPS
from mlflow_calib.core.wording import bounds_words, count, settling

_WHO = {"champion": "the champion", "base": "the base model"}


class Comparison(NamedTuple):
    """What is compared ("mse", "log_loss", "calibration_error") and with whom ("champion", "base")."""

    what: str
    other: str


class Increase(NamedTuple):
    """Estimate and bounds of an increase, and why it can neither pass nor fail."""

    mean: float
    lower: float
    upper: float
    n: int
    by_group: bool
    thin: str = ""
    from_below: bool = False


def read_increase(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Pass when the upper bound of the increase is within the margin, fail when the lower bound is above it.

    Inconclusive where the champion was recalibrated on some of these rows.
    """
    what, _, other = requirement.name.partition("_increase_over_")
    compared = Comparison(what, other)
    barred = _no_comparison(requirement, evidence, compared)
    if barred:
        return barred
    increase = _increase(requirement, evidence, compared)
    if isinstance(increase, Reading):
        return increase
    return _read(requirement, evidence, compared, increase)


def _read(requirement: Requirement, evidence: Mapping[str, Any], compared: Comparison, found: Increase) -> Reading:
    limit, level = requirement.limit, requirement.confidence_level or math.nan
    status = bounds_status(found.lower, found.upper, limit)
    more, hints = None, []
    if found.thin:
        status, hints = "inconclusive", [f"too thin, {found.thin}"]
    elif status == "fail" and found.from_below:
        status = "inconclusive"
        hints = [f"{_WHO[compared.other]}'s continuous outputs show its error from below only, so nothing fails by it"]
    elif status == "inconclusive":
        more = _more_rows(found, limit)
        hints = [settling(more, found.n, found.mean > limit)]
    unit = unit_words(evidence, found.by_group)
    figures = (found.mean, found.lower, found.upper)
    words = bounds_words(status, figures, limit=limit, level=level, unit=unit)
    shared = evidence["overlap"]["champion_recalibration"] if compared.other == "champion" else 0
    if shared is None:
        hints.append("how many of these rows the champion was recalibrated on is unverified")
    if shared:
        status = "inconclusive"
        hints = [f"the champion was recalibrated on {count(shared)} of these {count(found.n)} rows, evaluate on others"]
    more = math.ceil(more) if more is not None and status == "inconclusive" and not shared else None
    return Reading(status, words, *figures, found.n, "; ".join(hints), more_rows=more)


def _no_comparison(requirement: Requirement, evidence: Mapping[str, Any], compared: Comparison) -> Reading | None:
    champion, comparison = evidence["champion"], evidence["comparisons"][requirement.name]
    if compared.other == "champion":
        if evidence["role"] == "champion":
            return Reading("not applicable", "the champion is judged on its own")
        if champion is None:
            return Reading("no verdict", "the champion was not looked up", hint="score again with champion=")
        if champion["version"] is None:
            return Reading("not applicable", "there is no champion yet")
    if comparison is None:
        return _infinite(evidence, compared) or _not_compared(champion, compared)
    if comparison["n_groups"] is None and evidence["data"]["n_groups"] is not None:
        return Reading("no verdict", "the rows have groups and the comparison went by row", hint="evaluate again")
    return None


def _not_compared(champion: Mapping[str, Any] | None, compared: Comparison) -> Reading:
    if compared.other == "base" or champion is None:
        return Reading("no verdict", "nothing compares it with the base model", hint="evaluate with this policy")
    hint = "score again so that candidate and champion stand on the same rows"
    if compared.what != "mse":
        hint = f"evaluate with this policy, or {hint}"
    return Reading("no verdict", f"nothing compares it with champion version {champion['version']}", hint=hint)


def _infinite(evidence: Mapping[str, Any], compared: Comparison) -> Reading | None:
    """Log losses that are infinite: an outcome that was given probability 0 happened, so the true loss is infinite too.

    A candidate without outputs of 0 and 1 has a finite one, whatever the rows.
    """
    other = evidence["estimates"][compared.other]
    candidate, n = evidence["estimates"]["candidate"], evidence["data"]["n"]
    if compared.what != "log_loss" or other is None:
        return None
    own, theirs = candidate["log_loss_infinite"], other["log_loss_infinite"]
    if own and not theirs:
        return Reading("fail", "it gave probability 0 to an outcome that happened, an infinite log loss", n=n)
    if own:
        hint = "bound the outputs away from 0 and 1, or ask for mse_increase"
        return Reading("inconclusive", "both gave probability 0 to outcomes that happened", n=n, hint=hint)
    if not theirs:
        return None
    words = f"{_WHO[compared.other]} gave probability 0 to an outcome that happened"
    if _never_certain(candidate):
        return Reading("pass", f"{words}, and the candidate gives 0 to none", n=n)
    hint = "the candidate has outputs of 0 or 1 too, so its loss may be infinite on other rows"
    return Reading("inconclusive", words, n=n, hint=hint)


def _never_certain(candidate: Mapping[str, Any]) -> bool:
    if candidate["lower_bound_of_calibration_error"]:
        return False
    tables = (
        [candidate["statistics"]] if candidate["statistics"] else [one["statistics"] for one in candidate["classes"]]
    )
    return all(0 < u < 1 for table in tables for u in table["u"])


def _increase(requirement: Requirement, evidence: Mapping[str, Any], compared: Comparison) -> Increase | Reading:
    level, document = requirement.confidence_level or math.nan, evidence["comparisons"][requirement.name]
    if compared.what == "calibration_error":
        return _error_increase(JackknifeDifference.from_dict(document), evidence, compared, level)
    difference = PairedDifference.from_dict(document)
    lower, upper = difference.lower_bound(level), difference.upper_bound(level)
    if lower is None or upper is None:
        return _no_bound(difference.mean, difference.n)
    thin = _few_groups(difference)
    return Increase(difference.mean, lower, upper, difference.n, difference.n_groups is not None, thin)


def _few_groups(difference: PairedDifference) -> str:
    """Why groups cannot decide: few effective ones, as a few hold most rows. As many of one size can."""
    effective = difference.degrees_of_freedom + 1
    if difference.n_groups is None or effective >= min(ENOUGH_GROUPS, ALIKE_SHARE * difference.n_groups):
        return ""
    shown = math.floor(effective * 10) / 10
    return f"{difference.n_groups} groups of unequal sizes, {shown:g} effective; at least {ENOUGH_GROUPS} are needed"


def _no_bound(mean: float, n: int) -> Reading:
    return Reading("inconclusive", "no bound from a single row or group", mean, n=n)


def _error_increase(
    difference: JackknifeDifference, evidence: Mapping[str, Any], compared: Comparison, level: float
) -> Increase | Reading:
    by_group = difference.n_groups is not None
    entries = [evidence["estimates"][name] for name in ("candidate", compared.other)]
    if any(entry is None for entry in entries):
        return Reading("no verdict", f"the evidence has no estimate of {_WHO[compared.other]}", hint="evaluate again")
    if by_group and not all(map(has_groups, entries)):
        return Reading(
            "no verdict", "the comparison went by group and an estimate has no groups", hint="evaluate again"
        )
    errors = [ErrorEvidence.of_entry(entry, by_group) for entry in entries]
    own = [_own_bounds(error, level) for error in errors]
    found = difference_bounds(difference, own[0], own[1], level)
    if found is None:
        return _no_bound(difference.mean, difference.n)
    thin = next((error.reason for error in errors if error.status != "ok"), "")
    return Increase(difference.mean, *found, difference.n, by_group, thin, errors[1].from_below)


def _own_bounds(error: ErrorEvidence, level: float) -> RootBounds:
    bounds = error.bounds(own_level(level))
    return RootBounds() if bounds is None else RootBounds(math.sqrt(bounds.lower), math.sqrt(bounds.upper))


def _more_rows(found: Increase, limit: float) -> float | None:
    """The half width on the side of the limit shrinks with the square root of the rows, at the same difference."""
    gap = abs(limit - found.mean)
    half_width = found.mean - found.lower if found.mean > limit else found.upper - found.mean
    return max(1.0, found.n * ((half_width / gap) ** 2 - 1)) if gap else None
