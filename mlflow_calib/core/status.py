"""Whether the evaluation data can carry a bound: ok, thin or unusable, and why."""

from __future__ import annotations

import math

import numpy as np

from mlflow_calib.core.bound_terms import FEW_ROWS
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.group_moments import GroupMoments
from mlflow_calib.errors import InvalidInputError

#: Bins of few rows may hold this share of the rows.
FEW_ROWS_SHARE = 0.02
#: Fewer effective groups than this cannot show how groups differ.
ENOUGH_GROUPS = 20
#: Fewer rows a bin than this carry no bound at all.
ROWS_A_BIN = 5


def groups_for(s: ErrorStatistics, by_group: bool | None) -> GroupMoments | None:
    """Group moments that the bounds go by; None by row. ``by_group=None`` goes by group where there are groups."""
    if by_group and s.group_moments is None:
        raise InvalidInputError("bounds by group need groups, these statistics have none; evaluate with groups=")
    return None if by_group is False else s.group_moments


def status(s: ErrorStatistics, by_group: bool | None = None) -> tuple[str, str]:
    """Status "ok", "thin" or "unusable", with the reason ("" where ok).

    ``unusable``: fewer than 5 rows a bin on average, or fewer than 2 effective groups; there is no bound.
    ``thin``: bins of fewer than 10 rows hold over 2 % of the rows, a bin is empty, or fewer than 20 effective groups;
    the bound is a number that may be shown, but neither passes nor fails. With weights, rows count by their effective
    number.

    Examples
    --------
    >>> status(ErrorStatistics([60, 40], [12, 30], [0.2, 0.7]))
    ('ok', '')
    >>> status(ErrorStatistics([1, 1], [0, 1], [0.2, 0.7]))
    ('unusable', '2 rows in 2 bins; a bound needs at least 5 rows a bin, 10 rows')
    """
    groups = groups_for(s, by_group)
    if s.effective_n < ROWS_A_BIN * s.n_bins:
        needed = ROWS_A_BIN * s.n_bins
        reason = f"{_rows(s)} in {s.n_bins} bins; a bound needs at least {ROWS_A_BIN} rows a bin, {needed} rows"
        return "unusable", "; ".join([reason, *_empty_reasons(s)])
    if groups is not None and groups.H < 2:
        return "unusable", f"{groups.G} groups, {_down(groups.H)} effective; a bound by group needs at least 2"
    reasons = _thin_reasons(s, groups)
    return ("thin", "; ".join(reasons)) if reasons else ("ok", "")


def _thin_reasons(s: ErrorStatistics, groups: GroupMoments | None) -> list[str]:
    reasons = _empty_reasons(s)
    few = s.effective_counts < FEW_ROWS * (1 - 1e-9)
    if float(s.masses[few].sum()) > FEW_ROWS_SHARE * float(s.masses.sum()):
        rows = f"bins of fewer than {FEW_ROWS} {'rows' if s.weights is None else 'effective rows'}"
        reasons.append(f"{rows} hold {int(s.counts[few].sum())} of {s.n} rows, over 2 %")
    if groups is not None and groups.H < ENOUGH_GROUPS:
        reasons.append(f"{groups.G} groups, {_down(groups.H)} effective; at least {ENOUGH_GROUPS} are needed")
    return reasons


def _empty_reasons(s: ErrorStatistics) -> list[str]:
    empty = np.flatnonzero(s.counts == 0)
    if not empty.size:
        return []
    shown = ", ".join(str(bin_number) for bin_number in empty[:10]) + (", ..." if empty.size > 10 else "")
    return [f"no rows in {empty.size} of {s.n_bins} bins (counted from 0: {shown})"]


def _rows(s: ErrorStatistics) -> str:
    return f"{s.n} rows" if s.weights is None else f"{s.n} rows, {_down(s.effective_n)} effective,"


def _down(effective: float) -> str:
    return f"{math.floor(effective * 10) / 10:g}"
