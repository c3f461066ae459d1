"""Estimate and bounds of one calibration error at the policy's level, from the statistics of the evidence alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mlflow_calib.core import intervals
from mlflow_calib.core.bound_terms import BoundTerms, comonotone, row_terms_of
from mlflow_calib.core.class_terms import classes_status, terms_of
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared
from mlflow_calib.core.finite_sample import best_case_squared, worst_case_squared
from mlflow_calib.core.settling import rows_that_would_settle_classes, smallest


class Bounds(NamedTuple):
    """Squared lower and upper bound, and the upper bound where the debiased square is zero."""

    lower: float
    upper: float
    floor: float


@dataclass(frozen=True, eq=False)
class ErrorEvidence:
    """What an entry, a class or a slice of the evidence says of one calibration error.

    Attributes
    ----------
    statistics
        Those whose mean square it is: one, or of a marginal entry one a class.
    status, reason
        "ok"; "thin": neither passes nor fails by the asymptotic bound; "unusable": has none.
    by_group
        Whether bounds go by group.
    terms
        Of several classes the level-free terms of the bounds on their mean; else None, they follow from the statistics.
    from_below
        Whether it is only a lower bound of the model's own error.
    """

    statistics: tuple[ErrorStatistics, ...]
    status: str
    reason: str
    by_group: bool
    terms: BoundTerms | None = None
    from_below: bool = False

    @classmethod
    def of_statistics(cls, document: Mapping[str, Any], by_group: bool, *, from_below: bool = False) -> ErrorEvidence:
        """From the statistics of one binary problem."""
        s = ErrorStatistics.from_dict(document)
        by_group = by_group and s.n > 0
        return cls((s,), *intervals.status(s, by_group), by_group, from_below=from_below)

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any], by_group: bool) -> ErrorEvidence:
        """From one entry of the estimates; ``by_group`` where ``has_groups`` says so."""
        from_below = entry["lower_bound_of_calibration_error"]
        if entry["statistics"] is not None:
            return cls.of_statistics(entry["statistics"], by_group, from_below=from_below)
        each = tuple(ErrorStatistics.from_dict(one["statistics"]) for one in entry["classes"])
        terms = terms_of(entry["terms"])
        if not by_group and not np.isinf(terms.degrees_of_freedom):
            terms = comonotone([row_terms_of(s) for s in each])  # what between classes went by group is lost
        labels = [one["class"] for one in entry["classes"]]
        return cls(each, *classes_status(each, terms, labels), by_group, terms, from_below)

    @property
    def n(self) -> int:
        """Rows."""
        return self.statistics[0].n

    @property
    def squared(self) -> float:
        """Signed debiased square."""
        return float(np.mean([debiased_squared(s) for s in self.statistics]))

    def bounds(self, confidence_level: float, bound: str = "asymptotic") -> Bounds | None:
        """Bounds at a level; None where the status is "unusable" and the bound asymptotic."""
        if bound == "finite-sample":
            return finite_sample_bounds(self.statistics, confidence_level)
        if self.status == "unusable":
            return None
        if self.terms is not None:
            of = (self.terms.lower, self.terms.upper, self.terms.floor)
            return Bounds(*(float(one(confidence_level)) for one in of))
        s = self.statistics[0]
        lower = intervals.squared_lower_bound(s, confidence_level, self.by_group)
        upper = intervals.squared_upper_bound(s, confidence_level, self.by_group)
        floor = intervals.noise_floor(s, confidence_level, self.by_group)
        return Bounds(lower or 0.0, math.inf if upper is None else upper, (floor or 0.0) ** 2)

    def settled_at(self, limit_root: float, confidence_level: float, bound: str = "asymptotic") -> int | None:
        """Rows at which the verdict would be pass or fail; None where it lies at the limit, or cannot be said."""
        if limit_root <= 0 or self.n == 0:
            return None
        if bound == "finite-sample":
            return _finite_sample_rows(self.statistics, limit_root, confidence_level)
        if self.terms is None:
            return intervals.rows_that_would_settle(self.statistics[0], limit_root, confidence_level, self.by_group)
        return rows_that_would_settle_classes(self.statistics, self.terms, limit_root, confidence_level)


def has_groups(entry: Mapping[str, Any]) -> bool:
    """Whether bounds of an entry can go by group."""
    if entry["statistics"] is not None:
        return entry["statistics"]["groups"] is not None
    return entry["terms"]["degrees_of_freedom"] is not None


def finite_sample_bounds(statistics: Sequence[ErrorStatistics], confidence_level: float, scale: float = 1.0) -> Bounds:
    """Bounds without asymptotics, of several classes each at its share; ``scale`` times as many such rows.

    The floor is the bound of rows that agree with the outputs exactly.
    """
    level = 1 - (1 - confidence_level) / len(statistics)
    rows = [(s.counts * scale, s.positives * scale, s.outputs) for s in statistics]
    lower = float(np.mean([best_case_squared(*one, level) for one in rows]))
    upper = float(np.mean([worst_case_squared(*one, level) for one in rows]))
    floor = float(np.mean([worst_case_squared(n, n * u, u, level) for n, _, u in rows]))
    return Bounds(lower, upper, floor)


def _finite_sample_rows(statistics: Sequence[ErrorStatistics], limit_root: float, level: float) -> int | None:
    n = statistics[0].n

    def decided(rows: int) -> bool:
        found = finite_sample_bounds(statistics, level, rows / n)
        return found.upper <= limit_root**2 or found.lower > limit_root**2

    return smallest(n, decided)


def relevelled(level: float, parts: int) -> float:
    """One-sided level of each of so many bounds that all hold at once with ``level`` (Bonferroni).

    >>> round(relevelled(0.95, 10), 6)
    0.995
    """
    return 1 - (1 - level) / max(parts, 1)
