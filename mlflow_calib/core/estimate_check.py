"""What the estimates and comparisons of an evidence record must be: whole, finite, and all of the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared, plugin_squared
from mlflow_calib.core.records import (
    CONFIDENCE_LEVEL,
    COUNT,
    FRACTION,
    LIST,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
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

ESTIMATES = ("candidate", "base", "rival", "champion")
COMPARISONS = ("mse_increase_over_champion", "mse_increase_over_base")
#: Addition order moves a sum by this share.
_ROUNDING = 1e-9
#: Figures that agree to this are the same, however near zero they lie.
_SMALLEST = 1e-12
#: Every comparison that starts so names the model whose mean squared error is taken from the candidate's.
_INCREASE = "mse_increase_over_"

_ESTIMATE = {
    "statistics": TABLE,
    "n": COUNT,
    "n_bins": POSITIVE_COUNT,
    "mse": NOT_NEGATIVE,
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
_GROUPS = {"M": LIST, "L": NOT_NEGATIVE, "G": POSITIVE_COUNT, "H": POSITIVE}
_COMPARISON = {
    "mean": NUMBER,
    "standard_error": NOT_NEGATIVE.or_null(),
    "degrees_of_freedom": COUNT,
    "n": POSITIVE_COUNT,
    "n_groups": POSITIVE_COUNT.or_null(),
}


class Rows(NamedTuple):
    """What every estimate and comparison of one record must share: rows, and groups where there are groups."""

    n: Any
    n_groups: Any


def estimates_problems(estimates: Any, rows: Rows) -> list[str]:
    """Problems of the table of estimates; the candidate's must be there, others may be null."""
    if not isinstance(estimates, Mapping):
        return []
    kinds = {name: TABLE if name == "candidate" else TABLE.or_null() for name in ESTIMATES}
    problems = field_problems(estimates, kinds, "estimates")
    for name in ESTIMATES:
        if isinstance(estimates.get(name), Mapping):
            problems += _estimate_problems(estimates[name], f"estimates.{name}", rows)
    return problems


def _estimate_problems(entry: Mapping[str, Any], where: str, rows: Rows) -> list[str]:
    status = entry.get("status")
    figures = {name: kind.or_null() if status == "unusable" else kind for name, kind in _FIGURES.items()}
    problems = field_problems(entry, {**_ESTIMATE, **figures}, where)
    if entry.get("n") != rows.n:
        problems.append(f"{where}.n must be data.n = {shown(rows.n)}, the same rows, got {shown(entry.get('n'))}")
    if status in ("thin", "unusable") and entry.get("reason") is None:
        problems.append(f"{where}.reason must say why the status is {status}")
    statistics = entry.get("statistics")
    if isinstance(statistics, Mapping):
        bins = _bins_problems(statistics, f"{where}.statistics", entry)
        problems += bins or _groups_problems(statistics, f"{where}.statistics.groups", entry, rows)
        problems += [] if bins else _figures_problems(statistics, where, entry)
    return problems


def _figures_problems(statistics: Mapping[str, Any], where: str, entry: Mapping[str, Any]) -> list[str]:
    """Squares and root that the counts beside them do not give; bounds are recomputed by the verdict in any case."""
    bins = ErrorStatistics(statistics["n"], statistics["k"], statistics["u"])
    squared = debiased_squared(bins)
    computed = {"squared_plugin": plugin_squared(bins), "squared_debiased": squared, "root": math.sqrt(max(squared, 0))}
    return [
        f"{where}.{name} must be {value}, as the statistics give it, got {shown(entry[name])}"
        for name, value in computed.items()
        if is_number(entry.get(name)) and not _same(entry[name], value)
    ]


def _same(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=_ROUNDING, abs_tol=_SMALLEST)


def _bins_problems(statistics: Mapping[str, Any], where: str, entry: Mapping[str, Any]) -> list[str]:
    columns = {"n": COUNT, "k": COUNT, "u": FRACTION}
    problems = field_problems(statistics, {**dict.fromkeys(columns, LIST), "groups": TABLE.or_null()}, where)
    if problems:
        return problems
    for name, kind in columns.items():
        problems += _items_problems(statistics[name], kind, f"{where}.{name}", entry.get("n_bins"))
    if problems:
        return problems
    counts, positives = statistics["n"], statistics["k"]
    over = [bin_ for bin_, (n, k) in enumerate(zip(counts, positives, strict=True)) if k > n]
    if over:
        problems.append(f"{where}.k must be at most n in every bin, and is not in bin {over[0]} ({len(over)} in all)")
    if sum(counts) != entry.get("n"):
        problems.append(f"{where}.n must sum to n = {shown(entry.get('n'))}, got {sum(counts)}")
    return problems


def _items_problems(items: Any, kind: Kind, where: str, n_bins: Any) -> list[str]:
    if len(items) != n_bins:
        return [f"{where} must hold n_bins = {shown(n_bins)} items, got {len(items)}"]
    wrong = [bin_ for bin_, value in enumerate(items) if not kind.test(value)]
    more = f" ({len(wrong)} in all)" if len(wrong) > 1 else ""
    return [f"{where}[{wrong[0]}]{more} must be {kind.words}, got {shown(items[wrong[0]])}"] if wrong else []


def _groups_problems(statistics: Mapping[str, Any], where: str, entry: Mapping[str, Any], rows: Rows) -> list[str]:
    groups = statistics["groups"]
    if groups is None:
        by_group = entry.get("bound_kind") == "groups"
        return [f"{where} must hold the moments that bound_kind groups was computed from"] if by_group else []
    problems = field_problems(groups, _GROUPS, where)
    if problems:
        return problems
    if groups["G"] != rows.n_groups:
        problems.append(f"{where}.G must be data.n_groups = {shown(rows.n_groups)}, got {groups['G']}")
    if not groups["H"] <= groups["G"] * (1 + _ROUNDING):
        problems.append(f"{where}.H must be at most G = {groups['G']}, got {shown(groups['H'])}")
    return problems + _moment_problems(groups["M"], f"{where}.M", len(statistics["n"]))


def _moment_problems(matrix: Any, where: str, n_bins: int) -> list[str]:
    rows = [row for row in matrix if isinstance(row, (list, tuple)) and len(row) == n_bins]
    if len(matrix) != n_bins or len(rows) != n_bins:
        return [f"{where} must be a square table of {n_bins} rows and columns, one a bin"]
    if not all(is_number(value) for row in rows for value in row):
        return [f"{where} must hold finite numbers alone"]
    if any(rows[j][j] < 0 for j in range(n_bins)):
        return [f"{where} must have no negative number on its diagonal"]
    tolerance = _ROUNDING * max(rows[j][j] for j in range(n_bins))
    if any(abs(rows[j][k] - rows[k][j]) > tolerance for j in range(n_bins) for k in range(j)):
        return [f"{where} must be symmetric"]
    return []


def comparisons_problems(comparisons: Any, rows: Rows) -> list[str]:
    """Problems of the table of paired comparisons; each may be null."""
    if not isinstance(comparisons, Mapping):
        return []
    names = dict.fromkeys((*COMPARISONS, *comparisons))
    problems = field_problems(comparisons, dict.fromkeys(names, TABLE.or_null()), "comparisons")
    for name in names:
        if isinstance(comparisons.get(name), Mapping):
            problems += _comparison_problems(comparisons[name], f"comparisons.{name}", rows)
    return problems


def _comparison_problems(comparison: Mapping[str, Any], where: str, rows: Rows) -> list[str]:
    problems = field_problems(comparison, _COMPARISON, where)
    if problems:
        return problems
    if comparison["n"] != rows.n:
        problems.append(f"{where}.n must be data.n = {shown(rows.n)}, the same rows, got {comparison['n']}")
    if comparison["n_groups"] not in (None, rows.n_groups):
        problems.append(f"{where}.n_groups must be data.n_groups = {rows.n_groups}, got {comparison['n_groups']}")
    units, free = comparison["n_groups"] or comparison["n"], comparison["degrees_of_freedom"]
    if not free < units:
        problems.append(f"{where}.degrees_of_freedom must be under the {units} rows or groups, got {free}")
    if (comparison["standard_error"] is None) != (free == 0):
        problems.append(f"{where}.standard_error must be null where degrees_of_freedom is 0, and only there")
    return problems


def means_problems(comparisons: Any, estimates: Any) -> list[str]:
    """Means of paired comparisons that the mean squared errors of the two models contradict."""
    if not isinstance(comparisons, Mapping) or not isinstance(estimates, Mapping):
        return []
    candidate, problems = _mse(estimates, "candidate"), []
    for name, comparison in comparisons.items():
        other = _mse(estimates, name.removeprefix(_INCREASE)) if name.startswith(_INCREASE) else None
        mean = comparison.get("mean") if isinstance(comparison, Mapping) else None
        if candidate is None or other is None or mean is None or not is_number(mean):
            continue
        if not abs(mean - (candidate - other)) <= _ROUNDING:
            problems.append(
                f"comparisons.{name}.mean must be the difference of the two mse, {candidate - other}, got {shown(mean)}"
            )
    return problems


def _mse(estimates: Mapping[str, Any], name: str) -> float | None:
    entry = estimates.get(name)
    mse = entry.get("mse") if isinstance(entry, Mapping) else None
    return mse if is_number(mse) else None
