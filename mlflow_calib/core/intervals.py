"""Confidence bounds on the squared calibration error, from its sufficient statistics alone.

By row, or by group where rows of one group move together. None where the status is ``unusable``.
"""

from __future__ import annotations

import math

from mlflow_calib.core.bound_terms import BoundTerms, comonotone, group_terms, row_terms_of
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared, plugin_squared
from mlflow_calib.core.group_moments import GroupMoments
from mlflow_calib.core.levels import check_confidence_level
from mlflow_calib.core.planning import rows_that_would_settle
from mlflow_calib.core.status import groups_for, status

__all__ = [
    "BoundTerms",
    "ErrorStatistics",
    "GroupMoments",
    "bound_terms",
    "check_confidence_level",
    "comonotone",
    "debiased_squared",
    "noise_floor",
    "plugin_squared",
    "rows_that_would_settle",
    "squared_lower_bound",
    "squared_upper_bound",
    "status",
]


def squared_upper_bound(
    s: ErrorStatistics, confidence_level: float = 0.95, by_group: bool | None = None
) -> float | None:
    """Upper confidence bound on the squared calibration error, one-sided; a model passes by it.

    Covers the error with at least the stated probability where every bin expects at least 10 rows (simulated in the
    tests); a bin of fewer rows widens it. None where the status is "unusable".

    Parameters
    ----------
    s : ErrorStatistics
    confidence_level : float
        From 0.5 up to, not including, 1.
    by_group : bool, optional
        None goes by group where the statistics have groups.

    Notes
    -----
    theta = (2 T + z^2 c + sqrt((2 T + z^2 c)^2 - 4 (T^2 - z^2 v0))) / 2, the larger theta with
    theta - T = z sqrt(v0 + c theta); terms in ``bound_terms.row_terms`` and ``group_terms``.

    Examples
    --------
    >>> s = ErrorStatistics([500, 500], [150, 350], [0.29, 0.71])  # gaps of .01
    >>> round(squared_upper_bound(s) ** 0.5, 3)
    0.043
    """
    terms = _terms_or_none(s, confidence_level, by_group)
    return None if terms is None else float(terms.upper(confidence_level))


def squared_lower_bound(
    s: ErrorStatistics, confidence_level: float = 0.95, by_group: bool | None = None
) -> float | None:
    """Lower confidence bound on the squared calibration error, one-sided; a model fails by it.

    The mirrored form of the upper bound, with a quantile that allows for the skewness of T. Zero where the data do
    not show any calibration error; None where the status is "unusable".

    Examples
    --------
    >>> s = ErrorStatistics([500, 500], [150, 350], [0.1, 0.9])
    >>> 0.15 < squared_lower_bound(s) ** 0.5 < 0.2
    True
    """
    terms = _terms_or_none(s, confidence_level, by_group)
    return None if terms is None else float(terms.lower(confidence_level))


def noise_floor(s: ErrorStatistics, confidence_level: float = 0.95, by_group: bool | None = None) -> float | None:
    """The upper bound, as a root, that these data would show where the debiased square is zero.

    A limit far below it is seldom met on so few rows. By group c stays that of the rows, as L / P is not
    defined where all gaps are zero.

    Examples
    --------
    >>> s = ErrorStatistics([100] * 10, [5 + 10 * j for j in range(10)], [0.05 + 0.1 * j for j in range(10)])
    >>> round(noise_floor(s), 3)
    0.057
    """
    check_confidence_level(confidence_level)
    if status(s, by_group)[0] == "unusable":
        return None
    return math.sqrt(float(bound_terms(s, by_group).floor(confidence_level)))


def bound_terms(s: ErrorStatistics, by_group: bool | None = None) -> BoundTerms:
    """Level-free terms of both bounds; by group there must be at least 2 effective groups."""
    groups = groups_for(s, by_group)
    return row_terms_of(s) if groups is None else group_terms(s, groups)


def _terms_or_none(s: ErrorStatistics, confidence_level: float, by_group: bool | None) -> BoundTerms | None:
    check_confidence_level(confidence_level)
    return None if status(s, by_group)[0] == "unusable" else bound_terms(s, by_group)
