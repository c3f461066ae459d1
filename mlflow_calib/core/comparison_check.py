"""What the paired comparisons of an evidence record must be, and what the estimates beside them say of their means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlflow_calib.core.records import (
    COUNT,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE_COUNT,
    TABLE,
    Kind,
    field_problems,
    is_number,
    shown,
)
from mlflow_calib.core.statistics_check import ROUNDING, Rows

#: What is compared, with the field of an estimate whose difference is the mean.
COMPARED = {"mse": "mse", "log_loss": "log_loss", "calibration_error": "root"}
AGAINST = ("champion", "base")
#: Those that every record names; each may be null.
COMPARISONS = tuple(f"{what}_increase_over_{other}" for what in COMPARED for other in AGAINST)
_JACKKNIFE = "calibration_error_increase_over_"

_PAIRED = {
    "mean": NUMBER,
    "standard_error": NOT_NEGATIVE.or_null(),
    "degrees_of_freedom": NOT_NEGATIVE,
    "n": POSITIVE_COUNT,
    "n_groups": POSITIVE_COUNT.or_null(),
}
#: The third power of deviations never sums to more than their squares do, to the power of 3 / 2.
_SKEWED = {"skewness": Kind("a number from -1 to 1", lambda value: is_number(value) and -1 <= value <= 1)}
_BLOCKED = {"squared_mean": NUMBER, "squared_standard_error": NOT_NEGATIVE.or_null(), "n_blocks": COUNT}


def comparisons_problems(comparisons: Any, rows: Rows) -> list[str]:
    """Problems of the table of paired comparisons; each may be null."""
    if not isinstance(comparisons, Mapping):
        return []
    names = dict.fromkeys((*COMPARISONS, *comparisons))
    problems = field_problems(comparisons, dict.fromkeys(names, TABLE.or_null()), "comparisons")
    for name in names:
        if isinstance(comparisons.get(name), Mapping):
            problems += _comparison_problems(comparisons[name], name, rows)
    return problems


def _comparison_problems(comparison: Mapping[str, Any], name: Any, rows: Rows) -> list[str]:
    where, blocked = f"comparisons.{name}", str(name).startswith(_JACKKNIFE)
    problems = field_problems(comparison, {**_PAIRED, **(_BLOCKED if blocked else _SKEWED)}, where)
    if problems:
        return problems
    if comparison["n"] != rows.n:
        problems.append(f"{where}.n must be data.n = {shown(rows.n)}, the same rows, got {comparison['n']}")
    if comparison["n_groups"] not in (None, rows.n_groups):
        problems.append(f"{where}.n_groups must be data.n_groups = {rows.n_groups}, got {comparison['n_groups']}")
    units = comparison["n_blocks"] if blocked else comparison["n_groups"] or comparison["n"]
    if blocked and units > comparison["n"]:
        problems.append(f"{where}.n_blocks must be at most n = {comparison['n']}, got {units}")
    free = comparison["degrees_of_freedom"]
    if not free < max(units, 1):
        problems.append(f"{where}.degrees_of_freedom must be under the {units} rows or groups, got {free}")
    errors = ("standard_error", "squared_standard_error") if blocked else ("standard_error",)
    for error in errors:
        if (comparison[error] is None) != (free == 0):
            problems.append(f"{where}.{error} must be null where degrees_of_freedom is 0, and only there")
    return problems


def means_problems(comparisons: Any, estimates: Any) -> list[str]:
    """Means of paired comparisons that the figures of the two models contradict."""
    if not isinstance(comparisons, Mapping) or not isinstance(estimates, Mapping):
        return []
    problems = []
    for name, comparison in comparisons.items():
        what, _, other = str(name).partition("_increase_over_")
        if what in COMPARED and isinstance(comparison, Mapping):
            say = _difference(comparison, f"comparisons.{name}", estimates, other)
            problems += say("mean", COMPARED[what])
            problems += say("squared_mean", "squared_debiased") if what == "calibration_error" else []
            if what == "log_loss" and any(_infinite(estimates, one) for one in ("candidate", other)):
                problems.append(f"comparisons.{name} must be null where the log loss of one of the two is infinite")
    return problems


def _difference(
    comparison: Mapping[str, Any], where: str, estimates: Mapping[str, Any], other: str
) -> Callable[[str, str], list[str]]:
    def say(field: str, figure: str) -> list[str]:
        first, second = (_figure(estimates, name, figure) for name in ("candidate", other))
        mean = comparison.get(field)
        if first is None or second is None or not is_number(mean):
            return []
        # Additions in another order move a square by 1e-12, and the root of one near zero by up to 1e-6.
        tolerance = 1e-6 if figure == "root" else ROUNDING * max(1.0, first, second)
        if abs(float(mean or 0) - (first - second)) <= tolerance:
            return []
        return [f"{where}.{field} must be the difference of the two {figure}, {first - second}, got {shown(mean)}"]

    return say


def _infinite(estimates: Mapping[str, Any], name: str) -> bool:
    entry = estimates.get(name)
    return isinstance(entry, Mapping) and entry.get("log_loss_infinite") is True


def _figure(estimates: Mapping[str, Any], name: str, figure: str) -> float | None:
    entry = estimates.get(name)
    value = entry.get(figure) if isinstance(entry, Mapping) else None
    return float(value) if value is not None and is_number(value) else None
