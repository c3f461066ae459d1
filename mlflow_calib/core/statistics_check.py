"""What the statistics of an evidence record must be: bins that fit together, and group moments that can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from mlflow_calib.core.records import (
    COUNT,
    FRACTION,
    LIST,
    NOT_NEGATIVE,
    POSITIVE,
    POSITIVE_COUNT,
    TABLE,
    Kind,
    field_problems,
    is_number,
    shown,
)

#: Addition order moves a sum by this share.
ROUNDING = 1e-9
_GROUPS = {"M": LIST, "L": NOT_NEGATIVE, "G": POSITIVE_COUNT, "H": POSITIVE}
_COLUMNS = {"n": COUNT, "k": COUNT, "u": FRACTION}


class Rows(NamedTuple):
    """What every estimate and comparison of the same rows must share: rows, and groups where there are groups.

    ``all_groups`` False: of a part of the rows, in which some groups may have none.
    """

    n: Any
    n_groups: Any
    all_groups: bool = True


def bins_problems(statistics: Any, where: str, n: Any, n_bins: Any) -> list[str]:
    """Problems of the bins of one binary problem over ``n`` rows; ``n_bins`` None takes what there are."""
    if not isinstance(statistics, Mapping):
        return [f"{where} must be a table, got {shown(statistics)}"]
    problems = field_problems(statistics, {**dict.fromkeys(_COLUMNS, LIST), "groups": TABLE.or_null()}, where)
    if problems:
        return problems
    expected = max(len(statistics["n"]), 1) if n_bins is None else n_bins
    for name, kind in _COLUMNS.items():
        problems += _items_problems(statistics[name], kind, f"{where}.{name}", expected)
    if problems:
        return problems
    counts, positives = statistics["n"], statistics["k"]
    over = [bin_ for bin_, (n_j, k_j) in enumerate(zip(counts, positives, strict=True)) if k_j > n_j]
    if over:
        problems.append(f"{where}.k must be at most n in every bin, and is not in bin {over[0]} ({len(over)} in all)")
    if sum(counts) != n:
        problems.append(f"{where}.n must sum to n = {shown(n)}, got {sum(counts)}")
    return problems


def groups_problems(statistics: Mapping[str, Any], where: str, rows: Rows) -> list[str]:
    """Problems of the group moments beside sound bins; they may be null."""
    groups = statistics["groups"]
    if groups is None:
        return []
    problems = field_problems(groups, _GROUPS, where)
    if problems:
        return problems
    known = groups["G"] == rows.n_groups or (
        not rows.all_groups and is_number(rows.n_groups) and groups["G"] <= rows.n_groups
    )
    if not known:
        at_most = "" if rows.all_groups else "at most "
        problems.append(f"{where}.G must be {at_most}data.n_groups = {shown(rows.n_groups)}, got {groups['G']}")
    if not groups["H"] <= groups["G"] * (1 + ROUNDING):
        problems.append(f"{where}.H must be at most G = {groups['G']}, got {shown(groups['H'])}")
    return problems + _moment_problems(groups["M"], f"{where}.M", len(statistics["n"]))


def _items_problems(items: Any, kind: Kind, where: str, n_bins: Any) -> list[str]:
    if len(items) != n_bins:
        return [f"{where} must hold n_bins = {shown(n_bins)} items, got {len(items)}"]
    wrong = [bin_ for bin_, value in enumerate(items) if not kind.test(value)]
    more = f" ({len(wrong)} in all)" if len(wrong) > 1 else ""
    return [f"{where}[{wrong[0]}]{more} must be {kind.words}, got {shown(items[wrong[0]])}"] if wrong else []


def _moment_problems(matrix: Any, where: str, n_bins: int) -> list[str]:
    rows = [row for row in matrix if isinstance(row, (list, tuple)) and len(row) == n_bins]
    if len(matrix) != n_bins or len(rows) != n_bins:
        return [f"{where} must be a square table of {n_bins} rows and columns, one a bin"]
    if not all(is_number(value) for row in rows for value in row):
        return [f"{where} must hold finite numbers alone"]
    if any(rows[j][j] < 0 for j in range(n_bins)):
        return [f"{where} must have no negative number on its diagonal"]
    tolerance = ROUNDING * max(rows[j][j] for j in range(n_bins))
    if any(abs(rows[j][k] - rows[k][j]) > tolerance for j in range(n_bins) for k in range(j)):
        return [f"{where} must be symmetric"]
    return []
