"""What the estimates of an evidence record must be: whole, finite, of the same rows, as their statistics say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.class_check import classes_problems, terms_problems
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared, plugin_squared
from mlflow_calib.core.records import (
    CONFIDENCE_LEVEL,
    COUNT,
    LIST,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE_COUNT,
    TABLE,
    TEXT,
    TRUTH,
    Kind,
    field_problems,
    is_number,
    one_of,
    shown,
)
from mlflow_calib.core.statistics_check import ROUNDING, Rows, bins_problems, groups_problems

ESTIMATES = ("candidate", "base", "rival", "champion")
#: Figures that agree to this are the same, however near zero they lie.
SMALLEST = 1e-12

_NULL = Kind("null", lambda value: value is None)
#: Where the statistics of each reduction stand.
_SHAPES: Mapping[str, Mapping[str, Kind]] = {
    "binary": {"statistics": TABLE, "classes": _NULL, "terms": _NULL},
    "top-label": {"statistics": TABLE, "classes": _NULL, "terms": _NULL},
    "top-label-per-class": {"statistics": TABLE, "classes": LIST, "terms": _NULL},
    "marginal": {"statistics": _NULL, "classes": LIST, "terms": TABLE},
}
#: Reductions that evidence can be of.
REDUCTIONS = tuple(_SHAPES)
_ESTIMATE = {
    "n": COUNT,
    "n_bins": POSITIVE_COUNT,
    "mse": NOT_NEGATIVE,
    "log_loss": NOT_NEGATIVE.or_null(),
    "log_loss_infinite": TRUTH,
    "status": one_of("ok", "thin", "unusable"),
    "reason": TEXT.or_null(),
    "confidence_level": CONFIDENCE_LEVEL,
    "bound_kind": one_of("rows", "groups", "comonotone", "cross-class counts"),
    "lower_bound_of_calibration_error": TRUTH,
}
_FIGURES = {
    "squared_plugin": NOT_NEGATIVE,
    "squared_debiased": NUMBER,
    "root": NOT_NEGATIVE,
    "upper_bound": NOT_NEGATIVE,
    "lower_bound": NOT_NEGATIVE,
    "noise_floor": NOT_NEGATIVE,
}


def estimates_problems(estimates: Any, rows: Rows, reduction: Any) -> list[str]:
    """Problems of the table of estimates; the candidate's must be there, others may be null."""
    if not isinstance(estimates, Mapping):
        return []
    kinds = {name: TABLE if name == "candidate" else TABLE.or_null() for name in ESTIMATES}
    problems = field_problems(estimates, kinds, "estimates")
    for name in ESTIMATES:
        if isinstance(estimates.get(name), Mapping):
            problems += entry_problems(estimates[name], f"estimates.{name}", rows, reduction)
    return problems


def entry_problems(entry: Mapping[str, Any], where: str, rows: Rows, reduction: Any) -> list[str]:
    """Problems of one model's entry."""
    status = entry.get("status")
    figures = {name: kind.or_null() if status == "unusable" else kind for name, kind in _FIGURES.items()}
    shape = _SHAPES.get(reduction, {}) if isinstance(reduction, str) else {}
    problems = field_problems(entry, {**shape, **_ESTIMATE, **figures}, where)
    if entry.get("n") != rows.n:
        problems.append(f"{where}.n must be {_of_rows(rows)}, the same rows, got {shown(entry.get('n'))}")
    if status in ("thin", "unusable") and entry.get("reason") is None:
        problems.append(f"{where}.reason must say why the status is {status}")
    if entry.get("log_loss_infinite") is True and entry.get("log_loss") is not None:
        problems.append(f"{where}.log_loss must be null where it is infinite, got {shown(entry['log_loss'])}")
    parts = _statistics_problems(entry, where, rows)
    parts += classes_problems(entry, where, rows)
    if not problems and not parts:
        parts = _figures_problems(entry, where) + terms_problems(entry, where)
    return problems + parts


def entry_statistics(entry: Mapping[str, Any]) -> list[ErrorStatistics]:
    """Statistics whose mean square is the entry's: one, or of a marginal entry one a class."""
    if entry["statistics"] is not None:
        return [ErrorStatistics.from_dict(entry["statistics"])]
    return [ErrorStatistics.from_dict(one["statistics"]) for one in entry["classes"]]


def same(first: float, second: float) -> bool:
    """Whether two figures are one but for the order of additions."""
    return math.isclose(first, second, rel_tol=ROUNDING, abs_tol=SMALLEST)


def _of_rows(rows: Rows) -> str:
    return f"data.n = {shown(rows.n)}" if rows.all_groups else f"that of the slice, {shown(rows.n)}"


def _statistics_problems(entry: Mapping[str, Any], where: str, rows: Rows) -> list[str]:
    statistics = entry.get("statistics")
    if not isinstance(statistics, Mapping):
        return []
    where = f"{where}.statistics"
    bins = bins_problems(statistics, where, entry.get("n"), entry.get("n_bins"))
    if bins:
        return bins
    if statistics["groups"] is None and entry.get("bound_kind") == "groups":
        return [f"{where}.groups must hold the moments that bound_kind groups was computed from"]
    return groups_problems(statistics, f"{where}.groups", rows)


def _figures_problems(entry: Mapping[str, Any], where: str) -> list[str]:
    """Squares and root that the counts beside them do not give; bounds are recomputed by the verdict in any case."""
    each = entry_statistics(entry)
    squared = math.fsum(map(debiased_squared, each)) / len(each)
    plugin = math.fsum(map(plugin_squared, each)) / len(each)
    computed = {"squared_plugin": plugin, "squared_debiased": squared, "root": math.sqrt(max(squared, 0))}
    return [
        f"{where}.{name} must be {value}, as the statistics give it, got {shown(entry[name])}"
        for name, value in computed.items()
        if is_number(entry.get(name)) and not _alike(name, entry[name], value)
    ]


def _alike(name: str, found: float, value: float) -> bool:
    # The root of a square that additions in another order move by 1e-12 moves by up to 1e-6.
    return same(found * found, value * value) if name == "root" else same(found, value)
