"""An estimated calibration error as a record that knows its data and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mlflow_calib.core.bin_table import BinRow, bin_rows, empty_bins
from mlflow_calib.core.bootstrap import bootstrap_deviation, variance_ratio
from mlflow_calib.core.bound_terms import BoundTerms, comonotone, one_sided_quantile
from mlflow_calib.core.class_rows import ClassRows
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.finite_sample import best_case_squared, worst_case_squared
from mlflow_calib.core.intervals import bound_terms
from mlflow_calib.core.levels import check_confidence_level, check_two_sided_level
from mlflow_calib.errors import InvalidInputError

BOUND_METHODS = ("asymptotic", "bootstrap", "finite-sample")


class ConfidenceInterval(NamedTuple):
    """Interval for the calibration error, as a root."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class CalibrationEstimate:
    """An estimated calibration error that knows its data and its uncertainty.

    Attributes
    ----------
    squared : float
        Signed estimate of the squared calibration error; marginal and multi-label: mean of the classes' signed
        squares; per predicted class: their mean weighted by the rows.
    n, n_bins : int
        Rows, and bins (of the class that has most).
    estimator, reduction : str
    status, reason : str
        "ok"; "thin": the bounds are numbers that neither pass nor fail a gate; "unusable": there are no bounds.
    statistics : tuple of ErrorStatistics
        Rows, positives and value of each bin; one for binary and top-label, else one a class.
    bound_kind : str
        Where the variance comes from. "rows", "groups"; of several classes on the same rows also "cross-class counts",
        or "comonotone": from per-class statistics alone, which holds however the classes depend on one another and may
        be wide.
    by_group : bool
        Whether the bounds go by group.
    n_clipped : int
        Scores outside [0, 1] by rounding that were clipped.
    labels : tuple
        The class of each of ``statistics``; (None,) for binary and top-label.
    pooled : ErrorStatistics or None
        Per predicted class: the bins of all classes side by side, as each row lies in one of them.
    class_rows : ClassRows or None
        Bin of every row in every class, one or two bytes each, where classes share rows; dropped by ``without_rows``.
    """

    squared: float
    n: int
    n_bins: int
    estimator: str
    reduction: str
    status: str
    reason: str
    statistics: tuple[ErrorStatistics, ...]
    bound_kind: str
    by_group: bool = False
    n_clipped: int = 0
    labels: tuple[Any, ...] = (None,)
    pooled: ErrorStatistics | None = None
    class_rows: ClassRows | None = None

    @property
    def root(self) -> float:
        """Calibration error: the root of the square, clipped at zero here and nowhere else."""
        return math.sqrt(max(self.squared, 0.0))

    def upper_bound(self, confidence_level: float = 0.95, method: str = "asymptotic") -> float | None:
        """One-sided upper confidence bound on the calibration error (root).

        Parameters
        ----------
        confidence_level : float
            From 0.5 up to, not including, 1.
        method : {"asymptotic", "bootstrap", "finite-sample"}
            "asymptotic": the closed form that gates. "bootstrap": T plus normal quantile times the standard deviation
            over 1,000 draws of the cell counts; it covers down to .93 where a rare bin is wrong, so it is for
            comparison and does not gate. "finite-sample": the worst that simultaneous Clopper-Pearson intervals
            for all rates and masses allow; wide, and valid at any number of rows, so that it is given where the status
            is "unusable" too. The last two need independent rows of equal weight.

        Returns
        -------
        float or None
            None where the status is "unusable" and the method is not "finite-sample".
        """
        return self._bound(confidence_level, method, worst_case_squared, BoundTerms.upper, 1)

    def lower_bound(self, confidence_level: float = 0.95, method: str = "asymptotic") -> float | None:
        """One-sided lower confidence bound on the calibration error (root), as ``upper_bound``."""
        return self._bound(confidence_level, method, best_case_squared, BoundTerms.lower, -1)

    def confidence_interval(
        self, confidence_level: float = 0.90, method: str = "asymptotic"
    ) -> ConfidenceInterval | None:
        """Two one-sided bounds on the root, each at 1 - (1 - confidence_level) / 2; None where unusable.

        At .90 its ends are the one-sided 95 % bounds.
        """
        check_two_sided_level(confidence_level)
        one_sided = 1 - (1 - confidence_level) / 2
        low, high = self.lower_bound(one_sided, method), self.upper_bound(one_sided, method)
        return None if low is None or high is None else ConfidenceInterval(low, high)

    def noise_floor(self, confidence_level: float = 0.95) -> float | None:
        """The upper bound, as a root, that these data would show where the debiased square is zero."""
        check_confidence_level(confidence_level)
        return None if self.status == "unusable" else math.sqrt(float(self.terms.floor(confidence_level)))

    def bin_table(self, confidence_level: float = 0.95) -> tuple[BinRow, ...]:
        """Every bin: rows, what the model says, the share of positives and its Clopper-Pearson interval."""
        pairs = zip(self.labels, self.statistics, strict=True)
        return tuple(row for label, s in pairs for row in bin_rows(s, label, confidence_level))

    @property
    def empty_bins(self) -> tuple[tuple[Any, int], ...]:
        """(class, bin) of every bin without rows; the class is None for binary and top-label."""
        return empty_bins(self.statistics, self.labels)

    @cached_property
    def terms(self) -> BoundTerms:
        """Level-free terms of both closed-form bounds: v0, c, degrees of freedom and nu."""
        if self.class_rows is not None:
            return self.class_rows.terms(self.statistics)
        terms = [bound_terms(s, self.by_group) for s in self._independent]
        return terms[0] if len(terms) == 1 else comonotone(terms)

    def without_rows(self) -> CalibrationEstimate:
        """The same estimate with its bounds' terms computed and the rows behind them dropped."""
        slim = replace(self, class_rows=None)
        slim.__dict__["terms"] = self.terms
        return slim

    @property
    def _independent(self) -> tuple[ErrorStatistics, ...]:
        return self.statistics if self.pooled is None else (self.pooled,)

    def _bound(
        self,
        confidence_level: float,
        method: str,
        extreme: Callable[..., Any],
        closed_form: Callable[[BoundTerms, float], Any],
        side: int,
    ) -> float | None:
        check_confidence_level(confidence_level)
        if method not in BOUND_METHODS:
            raise InvalidInputError(f"method must be one of {', '.join(map(repr, BOUND_METHODS))}, got {method!r}")
        if method != "asymptotic":
            self._check_equal_rows(method)
        if method == "finite-sample":
            return self._finite(confidence_level, extreme)
        if self.status == "unusable":
            return None
        if method == "bootstrap":
            moved = one_sided_quantile(confidence_level, math.inf) * self._deviation
            return math.sqrt(max(0.0, self.terms.upper_centre + side * moved))
        return math.sqrt(float(closed_form(self.terms, confidence_level)))

    def _finite(self, confidence_level: float, extreme: Callable[..., Any]) -> float:
        parts = self._independent
        level = 1 - (1 - confidence_level) / len(parts)
        squares = [float(extreme(s.counts, s.positives, s.outputs, level)) for s in parts]
        return math.sqrt(float(np.mean(squares)))

    @cached_property
    def _deviation(self) -> float:
        parts = self._independent
        return bootstrap_deviation(parts, variance_ratio(parts, self.terms))

    def _check_equal_rows(self, method: str) -> None:
        if self.by_group or any(s.weights is not None for s in self.statistics):
            raise InvalidInputError(
                f"method={method!r} needs independent rows of equal weight, and these have "
                f"{'groups' if self.by_group else 'weights'}; use method='asymptotic'"
            )
