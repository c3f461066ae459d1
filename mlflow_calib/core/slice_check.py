"""What the slices of an evidence record must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.estimate_check import entry_problems
from mlflow_calib.core.records import COUNT, TABLE, Kind, canonical_json, field_problems, is_number, shown
from mlflow_calib.core.statistics_check import Rows

_VALUES = Kind(
    "a table of columns and their values",
    lambda value: (
        isinstance(value, Mapping)
        and len(value) > 0
        and all(isinstance(name, str) and name != "" and _scalar(one) for name, one in value.items())
    ),
)


def slices_problems(slices: Any, rows: Rows, reduction: Any) -> list[str]:
    """Problems of the slices; null says that none were collected."""
    if not isinstance(slices, list):
        return []
    if not slices:
        return ["slices must be null where none were collected, got an empty list"]
    problems: list[str] = []
    for place, one in enumerate(slices):
        problems += _slice_problems(one, f"slices[{place}]", rows, reduction)
    if problems:
        return problems
    names = [canonical_json(one["slice"]) for one in slices]
    twice = sorted({name for name in names if names.count(name) > 1})
    return [f"slices must name each slice once, and {shown(twice)} stand twice"] if twice else []


def _slice_problems(one: Any, where: str, rows: Rows, reduction: Any) -> list[str]:
    problems = field_problems(one, {"slice": _VALUES, "n": COUNT, "estimates": TABLE}, where)
    if problems:
        return problems
    problems = field_problems(one["estimates"], {"candidate": TABLE.or_null()}, f"{where}.estimates")
    if is_number(rows.n) and one["n"] > rows.n:
        problems.append(f"{where}.n must be at most data.n = {rows.n}, got {one['n']}")
    entry = one["estimates"].get("candidate")
    if (entry is None) != (one["n"] == 0):
        problems.append(f"{where}.estimates.candidate must be null where the slice has no rows, and only there")
    if not isinstance(entry, Mapping):
        return problems
    own = Rows(one["n"], rows.n_groups, all_groups=False)
    return problems + entry_problems(entry, f"{where}.estimates.candidate", own, reduction)


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool)) or is_number(value)
