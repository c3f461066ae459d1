"""Requirements on every part of the evaluation data: on each class, and on each slice, at levels that hold at once.

Where parts are m, each bound has the level 1 - (1 - level) / m (Bonferroni): whatever the parts share, all bounds hold
together with the policy's level. One part that fails fails the requirement; all must pass for it to pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mlflow_calib.core.error_bounds import ErrorEvidence, relevelled
from mlflow_calib.core.error_requirement import asked_by_group, barred_by, groups_missing, read_error
from mlflow_calib.core.policy import Requirement
from mlflow_calib.core.records import same_scalar
from mlflow_calib.core.requirement_record import Reading, plain
from mlflow_calib.core.wording import percent


class Part(NamedTuple):
    """A class or slice in words, and what the evidence says of it; None: it has no rows."""

    words: str
    error: ErrorEvidence | None


def read_worst_class(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Every class against the limit, each on its own bins."""
    entry, by_group = evidence["estimates"]["candidate"], asked_by_group(requirement, evidence)
    barred = barred_by(requirement, evidence, by_group)
    if barred:
        return barred
    if entry["classes"] is None:
        words = f"the {evidence['reduction']} error has no classes of its own"
        return Reading("no verdict", words, hint="evaluate a marginal or top-label-per-class calibrator")
    if by_group and any(
        one["statistics"]["groups"] is None and sum(one["statistics"]["n"]) for one in entry["classes"]
    ):
        words = "a bound by group is asked, and the evidence has no group moments of each class"
        return Reading("no verdict", words, hint="evaluate with a group column and fewer bins, or set by_group = false")
    from_below = entry["lower_bound_of_calibration_error"]
    parts = [
        Part(f"class {one['class']!r}", ErrorEvidence.of_statistics(one["statistics"], by_group, from_below=from_below))
        for one in entry["classes"]
    ]
    return _read_parts(requirement, evidence, parts, "classes")


def read_slices(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Every slice that the policy asks for against the limit."""
    by_group = asked_by_group(requirement, evidence)
    barred = barred_by(requirement, evidence, by_group)
    if barred:
        return barred
    found = _asked_slices(requirement, evidence)
    if isinstance(found, str):
        return Reading("no verdict", found, hint="evaluate with this policy, on data that has the columns")
    parts = []
    for values, entry in found:
        if entry is not None and (missing := groups_missing(entry, by_group)):
            return missing
        parts.append(Part(slice_words(values), None if entry is None else ErrorEvidence.of_entry(entry, by_group)))
    return _read_parts(requirement, evidence, parts, "slices")


def slice_words(values: Mapping[str, Any]) -> str:
    """A slice as its text.

    >>> slice_words({"region": "EU", "age": None})
    "region = 'EU', age missing"
    """
    return ", ".join(f"{name} missing" if one is None else f"{name} = {one!r}" for name, one in values.items())


def _asked_slices(requirement: Requirement, evidence: Mapping[str, Any]) -> list[tuple[Any, Any]] | str:
    """Values and entry of each slice asked for; a sentence where they were not collected."""
    if evidence["slices"] is None:
        return "the evidence has no slices"
    chosen: dict[int, tuple[Any, Any]] = {}
    for column in requirement.columns or ():
        of_column = [place for place, one in enumerate(evidence["slices"]) if set(one["slice"]) == {column}]
        if sum(evidence["slices"][place]["n"] for place in of_column) != evidence["data"]["n"]:
            return f"the slices of column {column!r} in the evidence do not hold every row"
        chosen |= {place: _slice(evidence["slices"][place]) for place in of_column}
    for named in requirement.slices or ():
        same = [place for place, one in enumerate(evidence["slices"]) if _same_slice(one["slice"], named)]
        if same:
            chosen[same[0]] = _slice(evidence["slices"][same[0]])
        elif len(named) == 1 and set(named) <= set(requirement.columns or ()):
            chosen[-1 - len(chosen)] = (named, None)
        else:
            return f"the evidence has no slice {slice_words(named)}"
    return list(chosen.values())


def _slice(one: Mapping[str, Any]) -> tuple[Any, Any]:
    return one["slice"], one["estimates"]["candidate"]


def _same_slice(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return first.keys() == second.keys() and all(same_scalar(first[name], second[name]) for name in first)


def _read_parts(requirement: Requirement, evidence: Mapping[str, Any], parts: Sequence[Part], what: str) -> Reading:
    level = relevelled(requirement.confidence_level or math.nan, len(parts))
    readings = [_read_part(requirement, evidence, part, level) for part in parts]
    if not readings:
        return Reading("no verdict", f"the evidence has no {what}", hint="evaluate again")
    order = ("fail", "inconclusive", "pass")
    worst = min(range(len(parts)), key=lambda place: (order.index(readings[place].status), -_most(readings[place])))
    decisive, status = readings[worst], readings[worst].status
    alike = sum(reading.status == status for reading in readings)
    number = f"all {len(parts)} {what}" if status == "pass" else f"{alike} of {len(parts)} {what}"
    first = "the nearest" if status == "pass" else "first"
    words = f"{number}, {first} {parts[worst].words}: {decisive.words}"
    most = [reading.more_rows for reading in readings if reading.status == "inconclusive"]
    known = [more for more in most if more is not None]
    hint = decisive.hint
    if status == "inconclusive" and hint:
        hint = f"of {parts[worst].words}: {hint}"
    return Reading(
        status,
        f"{words} (each at {percent(round(level, 8))})",
        decisive.actual,
        decisive.lower,
        decisive.upper,
        decisive.n,
        hint,
        decisive.noise_floor,
        max(known) if known and len(known) == len(most) and status == "inconclusive" else None,
        tuple(_part(part, reading) for part, reading in zip(parts, readings, strict=True)),
    )


def _read_part(requirement: Requirement, evidence: Mapping[str, Any], part: Part, level: float) -> Reading:
    if part.error is None or part.error.n == 0:
        hint = "leave it out of the policy, or evaluate on data that has it"
        return Reading("inconclusive", "no rows", n=0, hint=hint)
    return read_error(requirement, evidence, part.error, level)


def _most(reading: Reading) -> float:
    """What makes one part worse than another of the same status: its upper bound, without one everything."""
    return math.inf if reading.upper is None else reading.upper


def _part(part: Part, reading: Reading) -> dict[str, Any]:
    figures = {name: plain(getattr(reading, name)) for name in ("actual", "lower", "upper")}
    return {"part": part.words, "status": reading.status, **figures, "n": reading.n}
