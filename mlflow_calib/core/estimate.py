"""An estimated calibration error as a record that knows its data and its uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from mlflow_calib.core.bound_terms import BoundTerms, comonotone
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.intervals import bound_terms, check_confidence_level
from mlflow_calib.errors import InvalidInputError


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
        Signed estimate of the squared calibration error; marginal: mean of the classes' signed squares.
    n, n_bins : int
        Rows, and bins (of the class that has most).
    estimator, reduction : str
    status, reason : str
        "ok"; "thin": the bounds are numbers that neither pass nor fail a gate; "unusable": there are no bounds.
    statistics : tuple of ErrorStatistics
        Rows, positives and value of each bin; one for binary, one a class for marginal.
    bound_kind : str
        "rows", "groups", or "comonotone": marginal from per-class statistics alone, which holds however the classes
        depend on one another and may be wide.
    by_group : bool
        Whether the bounds go by group.
    n_clipped : int
        Scores outside [0, 1] by rounding that were clipped.
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

    @property
    def root(self) -> float:
        """Calibration error: the root of the square, clipped at zero here and nowhere else."""
        return math.sqrt(max(self.squared, 0.0))

    def upper_bound(self, confidence_level: float = 0.95) -> float | None:
        """One-sided upper confidence bound on the calibration error (root); None where unusable."""
        check_confidence_level(confidence_level)
        return None if self.status == "unusable" else math.sqrt(float(self._terms().upper(confidence_level)))

    def lower_bound(self, confidence_level: float = 0.95) -> float | None:
        """One-sided lower confidence bound on the calibration error (root); None where unusable."""
        check_confidence_level(confidence_level)
        return None if self.status == "unusable" else math.sqrt(float(self._terms().lower(confidence_level)))

    def confidence_interval(self, confidence_level: float = 0.90) -> ConfidenceInterval | None:
        """Two one-sided bounds on the root, each at 1 - (1 - confidence_level) / 2; None where unusable.

        At .90 its ends are the one-sided 95 % bounds.
        """
        if not 0 < confidence_level < 1:
            raise InvalidInputError(f"confidence_level must lie between 0 and 1, got {confidence_level}")
        one_sided = 1 - (1 - confidence_level) / 2
        low, high = self.lower_bound(one_sided), self.upper_bound(one_sided)
        return None if low is None or high is None else ConfidenceInterval(low, high)

    def _terms(self) -> BoundTerms:
        terms = [bound_terms(s, self.by_group) for s in self.statistics]
        return terms[0] if len(terms) == 1 else comonotone(terms)
