"""How the classes of a marginal estimate move together, as they share rows.

T = mean over classes of T_k. Were the classes independent, the variance of T would be the mean variance of a class
divided by K; where they move as one it is not divided at all. Two figures say where between: the part of v0 that comes
from pairs of classes, and the dependence rho of the rows' influence on T, 1 to K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.bound_terms import BoundTerms, inverse_roots, row_terms_of, usable_gaps
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats
from mlflow_calib.core.squares import ENOUGH_ROWS

#: Rows of two classes' bins are counted together while classes times bins are at most this.
MOST_CROSS_BINS = 2_000


@dataclass(frozen=True)
class ClassDependence:
    """What pairs of classes add to the variance of the mean over classes.

    Attributes
    ----------
    cross : float
        Sum over pairs of different classes' bins of S_ab^2, S_ab the covariance of their residuals per root row, less
        what noise alone puts there; on the scale of sum s_j^4.
    rho : float
        Variance of the rows' influence on the sum of the squared errors of the classes, over the sum of the classes'
        own variances: 1 where classes are independent, K where they move as one.
    """

    cross: float
    rho: float


@dataclass(frozen=True, eq=False)
class StackedBins:
    """The bins of all classes, one after the other."""

    masses: Floats
    means: Floats
    gaps: Floats
    inverse_roots: Floats
    classes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, statistics: Sequence[ErrorStatistics]) -> StackedBins:
        """Stack sufficient statistics, one a class."""
        return cls(
            masses=np.concatenate([np.asarray(s.masses, dtype=np.float64) for s in statistics]),
            means=np.concatenate([s.label_means for s in statistics]),
            gaps=np.concatenate([usable_gaps(s) for s in statistics]),
            inverse_roots=np.concatenate([inverse_roots(s) for s in statistics]),
            classes=np.repeat(np.arange(len(statistics)), [s.n_bins for s in statistics]),
        )


def rho_of(total: float, own: float, n_classes: int) -> float:
    """Dependence of the influence; K, which holds whatever the classes do, where no class has any of its own."""
    return min(max(total / own, 1.0), float(n_classes)) if own > 0 else float(n_classes)


def marginal_row_terms(statistics: Sequence[ErrorStatistics], dependence: ClassDependence) -> BoundTerms:
    """Terms by row of the mean over classes.

    v0 = (sum_k v0_k + cross part) / K^2, c = max_k c_k rho / K, nu = (sum_k sum_j s_kj^2)^2 / (sum s_kj^4 + cross).
    With K classes that move as one these are the terms of one class.
    """
    terms = [row_terms_of(s) for s in statistics]
    n_classes = len(terms)
    own = sum(float(one.v0) for one in terms)
    v0 = (own + _smoothed(own, statistics) * dependence.cross) / n_classes**2
    trace = sum(float(np.sqrt(one.nu * one.v0 / 2)) for one in terms)
    centre = float(np.mean([one.upper_centre for one in terms]))
    return BoundTerms(
        upper_centre=centre,
        lower_centre=centre,
        v0=v0,
        c=max(float(one.c) for one in terms) * dependence.rho / n_classes,
        degrees_of_freedom=np.inf,
        nu=trace**2 / (n_classes**2 * v0 / 2) if v0 > 0 else 1.0,
    )


def _smoothed(own: float, statistics: Sequence[ErrorStatistics]) -> float:
    """What turns the cross part into variance: 2 / n^2, and the same raise that m_j in place of ybar_j gives v0."""
    raw = sum(float(((s.label_means * (1 - s.label_means) * _rate(s)) ** 2).sum()) for s in statistics)
    scale = 2.0 / max(float(statistics[0].masses.sum()), 1e-300) ** 2
    return scale * max(1.0, own / (2 * raw)) if raw > 0 else scale


def _rate(s: ErrorStatistics) -> Floats:
    counts = s.effective_counts
    return np.where(counts >= ENOUGH_ROWS, s.shares / np.where(counts > 0, counts, 1), 0.0)
