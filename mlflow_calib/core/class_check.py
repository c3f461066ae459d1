"""What the classes of an entry and the terms of their bounds must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.bound_terms import row_terms_of
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared
from mlflow_calib.core.records import (
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SCALAR,
    TABLE,
    Kind,
    field_problems,
    is_number,
    shown,
)
from mlflow_calib.core.statistics_check import ROUNDING, Rows, bins_problems, groups_problems

_NU = Kind(
    "a number over 0, or one a class",
    lambda value: POSITIVE.test(value) or (isinstance(value, list) and value != [] and all(map(POSITIVE.test, value))),
)
_TERMS = {
    "upper_centre": NUMBER,
    "lower_centre": NUMBER,
    "v0": NOT_NEGATIVE,
    "c": NOT_NEGATIVE,
    "c_of_rows": NOT_NEGATIVE.or_null(),
    "degrees_of_freedom": NOT_NEGATIVE.or_null(),
    "nu": _NU,
}


def classes_problems(entry: Mapping[str, Any], where: str, rows: Rows) -> list[str]:
    """Problems of the statistics of each class; nothing where there are no classes."""
    classes = entry.get("classes")
    if not isinstance(classes, list):
        return []
    if not classes:
        return [f"{where}.classes must hold one table a class, got none"]
    problems: list[str] = []
    for place, one in enumerate(classes):
        problems += _class_problems(one, f"{where}.classes[{place}]", entry, rows)
    if problems:
        return problems
    labels = [repr(one["class"]) for one in classes]
    if len(set(labels)) != len(labels):
        problems.append(f"{where}.classes must name each class once, got {shown(labels)}")
    if entry.get("statistics") is None:
        most = max(len(one["statistics"]["n"]) for one in classes)
        if most != entry.get("n_bins"):
            problems.append(f"{where}.n_bins must be those of the class with most, {most}, got {entry.get('n_bins')}")
    return problems + _pooled_problems(entry, where)


def _class_problems(one: Any, where: str, entry: Mapping[str, Any], rows: Rows) -> list[str]:
    problems = field_problems(one, {"class": SCALAR, "statistics": TABLE}, where)
    if problems:
        return problems
    statistics, marginal = one["statistics"], entry.get("statistics") is None
    counts = statistics.get("n")
    own = sum(counts) if isinstance(counts, list) and all(map(is_number, counts)) else None
    bins = bins_problems(statistics, f"{where}.statistics", entry.get("n") if marginal else own, None)
    return bins or groups_problems(
        statistics, f"{where}.statistics.groups", rows._replace(all_groups=marginal and rows.all_groups)
    )


def _pooled_problems(entry: Mapping[str, Any], where: str) -> list[str]:
    """Per predicted class the pooled bins are those of the classes, side by side."""
    pooled = entry.get("statistics")
    if not isinstance(pooled, Mapping):
        return []
    return [
        f"{where}.statistics.{name} must be those of the classes, side by side"
        for name in ("n", "k", "u")
        if pooled.get(name) != [value for one in entry["classes"] for value in one["statistics"][name]]
    ]


def terms_problems(entry: Mapping[str, Any], where: str) -> list[str]:
    """Terms of the bounds on a mean over classes that the statistics of the classes contradict.

    Dependent classes can only add to the variance of independent ones, which follows from their statistics.
    """
    terms, where = entry.get("terms"), f"{where}.terms"
    if terms is None:
        return []
    problems = field_problems(terms, _TERMS, where)
    if problems:
        return problems
    by_group = terms["degrees_of_freedom"] is not None
    if by_group != (entry.get("bound_kind") == "groups"):
        problems.append(f"{where}.degrees_of_freedom must be a number where bound_kind is groups, and only there")
    each = [ErrorStatistics.from_dict(one["statistics"]) for one in entry["classes"]]
    if isinstance(terms["nu"], list) and len(terms["nu"]) != len(each):
        problems.append(f"{where}.nu must hold one number a class, {len(each)}, got {len(terms['nu'])}")
    rows = [row_terms_of(s) for s in each]
    squared = sum(map(debiased_squared, each)) / len(each)
    for name in ("upper_centre",) if by_group else ("upper_centre", "lower_centre"):
        if abs(terms[name] - squared) > ROUNDING:
            problems.append(f"{where}.{name} must be the debiased square, {squared}, got {terms[name]}")
    least = {
        "v0": sum(float(one.v0) for one in rows) / len(rows) ** 2,
        "c": max(float(one.c) for one in rows) / len(rows),
    }
    for name in ("c",) if by_group else ("v0", "c"):
        if terms[name] < least[name] * (1 - ROUNDING):
            problems.append(
                f"{where}.{name} must be at least {least[name]}, that of independent classes, got {terms[name]}"
            )
    return problems
