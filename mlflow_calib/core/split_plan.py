"""How a split is asked for: a small dict, from code, a DAG's params or a command line, checked all at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from mlflow_calib.core.periods import Period, count_back, parse_moment, parse_period
from mlflow_calib.errors import InvalidInputError, raise_problems

#: A century: longer windows are typing errors.
LONGEST_DAYS = 36_525
#: What each way to split takes beside ``how``.
FIELDS: dict[str, tuple[str, ...]] = {
    "hash": ("evaluation_fraction", "seed"),
    "time": (
        "recalibration_period",
        "evaluation_period",
        "recalibration_days",
        "evaluation_days",
        "label_delay_days",
    ),
    "given": (),
}


@dataclass(frozen=True)
class SplitPlan:
    """A split as it was asked for, checked; what does not belong to ``how`` is None."""

    how: str
    evaluation_fraction: float | None = None
    seed: int | None = None
    recalibration_period: Period | None = None
    evaluation_period: Period | None = None
    recalibration_days: float | None = None
    evaluation_days: float | None = None
    label_delay_days: float = 0.0


def read_split(split: Mapping[str, Any]) -> SplitPlan:
    """A split dict, checked; entries of None or "" count as absent, and numbers may come as texts.

    Raises
    ------
    InvalidInputError
        Everything that is wrong with it, at once.
    """
    if not isinstance(split, Mapping):
        raise InvalidInputError(f'split must be a dict such as {{"how": "hash"}}, got {split!r}')
    given = {name: value for name, value in split.items() if not _absent(value)}
    how = given.pop("how", None)
    if how not in FIELDS:
        raise InvalidInputError(f'split["how"] must be one of {", ".join(FIELDS)}, got {how!r}')
    problems = [_misplaced(name, how) for name in given if name not in FIELDS[how]]
    readers = {"hash": _read_hash, "time": _read_time, "given": _read_nothing}
    values = readers[how]({name: given[name] for name in FIELDS[how] if name in given}, problems)
    if problems:
        raise_problems(problems)
    return SplitPlan(how, **values)


def resolve_periods(
    split: Mapping[str, Any] | SplitPlan | None, as_of: datetime | date | str | None = None
) -> tuple[Period, Period] | None:
    """The recalibration and the evaluation period, or None where the split is not by time.

    Without periods of its own the split counts days back: evaluation is [as_of - delay - evaluation_days, as_of -
    delay), recalibration the recalibration_days before it.

    Raises
    ------
    InvalidInputError
        The split is wrong, or it counts days and ``as_of`` is missing.
    """
    if split is None:
        return None
    plan = split if isinstance(split, SplitPlan) else read_split(split)
    if plan.how != "time":
        return None
    if plan.recalibration_period and plan.evaluation_period:
        return plan.recalibration_period, plan.evaluation_period
    if _absent(as_of):
        raise InvalidInputError(
            "as_of must be given where the split counts days back; give a time in ISO 8601, or name "
            "recalibration_period and evaluation_period"
        )
    lengths = (plan.evaluation_days or 0.0, plan.recalibration_days or 0.0)
    evaluation, recalibration = count_back(parse_moment(as_of, "as_of"), plan.label_delay_days, *lengths)
    return recalibration, evaluation


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in {"", "None"})


def _misplaced(name: str, how: str) -> str:
    owner = next((other for other, fields in FIELDS.items() if name in fields), None)
    if owner is None:
        known = ", ".join(sorted({field for fields in FIELDS.values() for field in fields}))
        return f"split has no entry {name!r}; it knows how, {known}"
    return f'{name!r} belongs to how="{owner}", and how is "{how}"; leave it empty or change how'


def _read_nothing(_given: dict[str, Any], _problems: list[str]) -> dict[str, Any]:
    return {}


def _read_hash(given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    fraction, seed = _number(given.get("evaluation_fraction", 0.5)), _number(given.get("seed", 0))
    seed = int(seed) if isinstance(seed, float) and seed.is_integer() else seed
    found = (fraction_problem(fraction), seed_problem(seed))
    problems.extend(problem for problem in found if problem)
    return {"evaluation_fraction": fraction, "seed": seed}


def _read_time(given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    names = [name for name in ("recalibration_period", "evaluation_period") if name in given]
    if len(names) == 1:
        problems.append(f"recalibration_period and evaluation_period must be given together, got {names[0]} alone")
    if names:
        return _read_periods(given, names, problems)
    values = {name: _days(given, name, problems) for name in ("recalibration_days", "evaluation_days")}
    return {**values, "label_delay_days": _days(given, "label_delay_days", problems, 0.0)}


def _read_periods(given: dict[str, Any], names: Sequence[str], problems: list[str]) -> dict[str, Any]:
    periods: dict[str, Period] = {}
    for name in names:
        try:
            periods[name] = parse_period(given[name], name)
        except InvalidInputError as error:  # noqa: PERF203 - every wrong period is reported
            problems.append(str(error))
    if len(periods) == 2:
        recalibration, evaluation = (period.in_utc() for period in periods.values())
        if evaluation.start < recalibration.end and recalibration.start < evaluation.end:
            problems.append(
                "evaluation_period must not overlap recalibration_period, "
                f"got {given['recalibration_period']} and {given['evaluation_period']}"
            )
    return dict(periods)


def _days(given: dict[str, Any], name: str, problems: list[str], default: float | None = None) -> float:
    value = _number(given.get(name, default))
    lowest = "over 0" if default is None else "of at least 0"
    at_least = isinstance(value, (int, float)) and (value > 0 if default is None else value >= 0)
    if not at_least or value > LONGEST_DAYS:
        problems.append(f"{name} must be a number of days {lowest} and at most {LONGEST_DAYS}, got {given.get(name)!r}")
        return 0.0
    return float(value)


def _number(value: Any) -> Any:
    """A number or the text of one as a finite float or int; anything else as it is."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return value
    if isinstance(value, bool) or not math.isfinite(number):
        return str(value)
    return value if isinstance(value, int) else number


def fraction_problem(value: Any) -> str | None:
    """What is wrong with an evaluation fraction, or None."""
    if isinstance(value, (int, float)) and 0 < value < 1:
        return None
    return f"evaluation_fraction must lie between 0 and 1, both left out, got {value!r}"


def seed_problem(value: Any) -> str | None:
    """What is wrong with a seed, or None."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64:
        return None
    return f"seed must be a whole number from 0 to 2**64 - 1, got {value!r}"
