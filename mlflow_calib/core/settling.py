"""How many rows of the present shape would settle a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mlflow_calib.core.bound_terms import BoundTerms, extrapolated, group_terms, row_terms
from mlflow_calib.core.columns import is_real
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared
from mlflow_calib.core.levels import check_confidence_level
from mlflow_calib.core.status import ENOUGH_GROUPS, FEW_ROWS_SHARE, ROWS_A_BIN, groups_for, status
from mlflow_calib.errors import InvalidInputError

#: A bin that expects this many rows seldom gets fewer than 10.
SAFE_ROWS = 20
#: A bin that expects this many rows stays empty once in twenty times.
SELDOM_EMPTY = 3
#: More rows than this are no plan.
MOST_ROWS = 10**12


def rows_that_would_settle(
    s: ErrorStatistics, limit_root: float, confidence_level: float = 0.95, by_group: bool | None = None
) -> int | None:
    """Rows at which the verdict on ``calibration error <= limit_root`` would be pass or fail.

    Shares of the bins, label means, outputs and the estimated error stay what they are (a square below zero is noise
    and rises towards zero as rows are added); by group, groups of the same sizes are added. The bins must be filled
    too: those that expect fewer than 20 rows hold at most 2 % of the rows, and none is likely to stay empty. The
    present number of rows where the verdict is settled; None where the estimate lies at the limit, or where there is
    nothing to extrapolate (no rows, a single group).

    Examples
    --------
    >>> s = ErrorStatistics([100, 100], [32, 72], [0.30, 0.70])  # gaps of .02
    >>> rows_that_would_settle(s, 0.05)
    747
    >>> rows_that_would_settle(s, 0.2)
    200
    """
    if not is_real(limit_root) or not 0 < limit_root < math.inf:
        raise InvalidInputError(f"limit_root must be a positive number, got {limit_root!r}")
    check_confidence_level(confidence_level)
    groups = groups_for(s, by_group)
    if s.n == 0 or (groups is not None and groups.H <= 1):
        return None

    def terms(rows: int) -> BoundTerms:
        scale = rows / s.n
        return _scaled_row_terms(s, scale) if groups is None else group_terms(s, groups, scale)

    def decided(rows: int) -> bool:
        at = terms(rows)
        upper, lower = math.sqrt(at.upper(confidence_level)), math.sqrt(at.lower(confidence_level))
        return upper <= limit_root or lower > limit_root

    if status(s, by_group)[0] == "ok" and decided(s.n):
        return s.n
    n_groups = None if groups is None else groups.H
    return smallest(s.n, lambda rows: _filled(s, rows / s.n, n_groups) and decided(rows))


def rows_that_would_settle_classes(
    statistics: Sequence[ErrorStatistics], terms: BoundTerms, limit_root: float, confidence_level: float = 0.95
) -> int | None:
    """The same for a mean over classes on the same rows, whose bounds have level-free ``terms``."""
    n, free = statistics[0].n, float(terms.degrees_of_freedom)
    if n == 0 or free <= 0:
        return None
    n_groups = None if math.isinf(free) else free + 1

    def decided(rows: int) -> bool:
        at = _scaled_terms(terms, rows / n, n_groups)
        upper, lower = math.sqrt(at.upper(confidence_level)), math.sqrt(at.lower(confidence_level))
        return upper <= limit_root or lower > limit_root

    return smallest(n, lambda rows: all(_filled(s, rows / n, n_groups) for s in statistics) and decided(rows))


def _scaled_terms(terms: BoundTerms, scale: float, n_groups: float | None) -> BoundTerms:
    correction, free = 1.0, math.inf
    if n_groups is not None:
        effective = n_groups * scale
        correction, free = (effective / (effective - 1)) / (n_groups / (n_groups - 1)), effective - 1
    return replace(
        terms,
        upper_centre=extrapolated(float(terms.upper_centre), float(terms.lower_centre), scale),
        lower_centre=extrapolated(float(terms.lower_centre), float(terms.lower_centre), scale),
        v0=float(terms.v0) * correction**2 / scale**2,
        c=float(terms.c) * correction / scale,
        degrees_of_freedom=free,
    )


def _scaled_row_terms(s: ErrorStatistics, scale: float) -> BoundTerms:
    centre = debiased_squared(s)
    centre = extrapolated(centre, centre, scale)
    at_scale = row_terms(s.effective_counts * scale, s.effective_positives * scale, s.outputs, s.weighted_shares)
    return replace(at_scale, upper_centre=centre, lower_centre=centre)


def _filled(s: ErrorStatistics, scale: float, n_groups: float | None) -> bool:
    # A bin without a row so far is taken to have one: its share is at most about 1/n. Weighted rows are what they are
    # worth.
    expected = np.maximum(s.effective_counts, 1) * scale
    rows = s.effective_n * scale
    few = float(np.maximum(s.shares, 1 / s.effective_n)[expected < SAFE_ROWS].sum())
    enough_groups = n_groups is None or n_groups * scale >= ENOUGH_GROUPS
    seldom_empty = bool((expected >= SELDOM_EMPTY).all())
    few_enough = few <= FEW_ROWS_SHARE * (1 + 1e-12)
    return rows >= ROWS_A_BIN * s.n_bins and few_enough and seldom_empty and enough_groups


def smallest(start: int, holds: Callable[[int], bool]) -> int | None:
    """Smallest number of rows from ``start`` on that holds, by doubling and halving."""
    below, above = start - 1, start
    while not holds(above):
        if above > MOST_ROWS:
            return None
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above
