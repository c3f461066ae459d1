"""The terms of a closed-form bound on the squared calibration error, by row and by group, and its inversion.

The debiased square T of a model whose squared calibration error is theta has a variance of about v0 + c theta. The
bounds are the two theta where |T - theta| = z sqrt(v0 + c theta).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from mlflow_calib.core.error_statistics import ErrorStatistics, Floats, debiased_squared
from mlflow_calib.core.group_moments import GroupMoments
from mlflow_calib.core.squares import ENOUGH_ROWS, debiased_squared_of

#: A bin of fewer rows cannot show its own variance, and enters c with the largest value its term can take.
FEW_ROWS = 10
#: The same for effective counts, where ten rows of equal weight may round to just below ten.
_FEW = FEW_ROWS * (1 - 1e-9)


@dataclass(frozen=True)
class BoundTerms:
    """T for the upper and for the lower bound, v0, c, degrees of freedom (inf by row), and nu.

    Each is a number, or an array over draws; ``nu`` stands for the skewness that the lower bound pays for. By group
    ``c`` may come from the groups; ``c_of_rows`` is then the one by row, which stands where all gaps are zero.
    """

    upper_centre: Any
    lower_centre: Any
    v0: Any
    c: Any
    degrees_of_freedom: float
    nu: Any
    c_of_rows: Any = None

    def upper(self, confidence_level: float) -> Floats:
        """Upper bound on the squared scale, floored at zero."""
        z = one_sided_quantile(confidence_level, self.degrees_of_freedom)
        middle = 2 * self.upper_centre + z**2 * self.c
        root = np.sqrt(np.maximum(0.0, middle**2 - 4 * (self.upper_centre**2 - z**2 * self.v0)))
        return np.asarray(np.maximum(0.0, (middle + root) / 2))

    def lower(self, confidence_level: float) -> Floats:
        """Lower bound on the squared scale, floored at zero; zero where T lies within its noise of zero."""
        z = np.maximum(
            one_sided_quantile(confidence_level, self.degrees_of_freedom),
            skewed_quantile(confidence_level, self.degrees_of_freedom, self.nu),
        )
        if np.ndim(z) > np.ndim(self.lower_centre):  # one nu a class
            z = z.max(axis=0)
        middle = 2 * self.lower_centre + z**2 * self.c
        root = np.sqrt(np.maximum(0.0, middle**2 - 4 * (self.lower_centre**2 - z**2 * self.v0)))
        # A T far below zero has two positive roots of the upper kind; theta = 0 is never excluded there.
        shown = self.lower_centre > z * np.sqrt(self.v0)
        return np.asarray(np.where(shown, np.maximum(0.0, (middle - root) / 2), 0.0))

    def floor(self, confidence_level: float) -> Floats:
        """Upper bound, squared, that the same data show where T = 0."""
        z = one_sided_quantile(confidence_level, self.degrees_of_freedom)
        c = self.c if self.c_of_rows is None else self.c_of_rows
        return np.asarray((z**2 * c + np.sqrt(z**4 * c**2 + 4 * z**2 * self.v0)) / 2)


def row_terms(
    counts: npt.NDArray[Any], positives: npt.NDArray[Any], outputs: Floats, shares: Floats | None = None
) -> BoundTerms:
    """Terms by row over the last axis, shapes (..., B).

    m_j = (k_j + 1) / (n_j + 2), s_j^2 = m_j (1 - m_j), v0 = 2 / n^2 sum s_j^4, c = max_j [4 s_j^2 + (u_j - m_j)^2] / n,
    nu = (sum s_j^2)^2 / sum s_j^4; sums over bins with n_j >= 2, the maximum over all bins. With weights n_j is the
    effective count, and 1 / n of bin j becomes w_j / n_j, its share over its effective count.
    """
    squared = debiased_squared_of(counts, positives, outputs, shares)
    rate = _rate(counts, shares)
    means = (positives + 1) / (counts + 2)
    variances = means * (1 - means)
    summed = np.where(counts >= ENOUGH_ROWS, variances * rate, 0.0)
    fourth = (summed**2).sum(axis=-1)
    slopes = 4 * variances + (outputs - means) ** 2
    # The largest value of 4 p (1 - p) + (u - p)^2, at p = (2 - u) / 3.
    largest = (2 - outputs) ** 2 / 3 + outputs**2
    slope = (np.where(counts < _FEW, largest, slopes) * rate).max(axis=-1)
    nu = np.where(fourth > 0, summed.sum(axis=-1) ** 2 / np.where(fourth > 0, fourth, 1.0), 1.0)
    return BoundTerms(squared, squared, 2 * fourth, slope, np.inf, nu)


def row_terms_of(s: ErrorStatistics) -> BoundTerms:
    """Terms by row of sufficient statistics, weighted where they are."""
    return row_terms(s.effective_counts, s.effective_positives, s.outputs, s.weighted_shares)


def _rate(counts: npt.NDArray[Any], shares: Floats | None) -> Floats:
    """Weight of one effective row of each bin among all: 1 / n where all rows count the same."""
    total = np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    if shares is None:
        return np.asarray(1.0 / total)
    rate = shares / np.where(counts > 0, counts, 1.0)
    # A bin without rows has no rate of its own, and one of few may show too low a one.
    return np.where(counts < _FEW, np.maximum(rate, 1.0 / total), rate)


def group_terms(s: ErrorStatistics, groups: GroupMoments, scale: float = 1.0) -> BoundTerms:
    """Terms by group; ``scale`` times as many rows and groups of the same shape.

    S_jk = M_jk / sqrt(n_j n_k), v0 = 2 / n^2 sum S_jk^2, P = sum w_j d_j^2, c = max(c by row, L / P),
    T_G = P - tr(S) / n, nu = tr(S)^2 / sum S_jk^2. The upper bound is centred at T by row (conservative), the lower at
    T_G. With weights n_j and n are sums of weights.
    """
    rows = row_terms(s.effective_counts * scale, s.effective_positives * scale, s.outputs, s.weighted_shares)
    squared = debiased_squared(s)
    n, effective = float(s.masses.sum()), groups.H * scale
    correction = (effective / (effective - 1)) / (groups.H / (groups.H - 1))
    spread = groups.M * np.outer(inverse_roots(s), inverse_roots(s))
    plugin = float(s.shares @ usable_gaps(s) ** 2)
    by_group = plugin - float(np.trace(spread)) / n
    fourth = float((spread**2).sum())
    slope = max(float(rows.c), groups.L * correction / scale / plugin) if plugin > 0 else float(rows.c)
    return BoundTerms(
        upper_centre=extrapolated(squared, by_group, scale),
        lower_centre=extrapolated(by_group, by_group, scale),
        v0=2 * fourth * correction**2 / (n * scale) ** 2,
        c=slope,
        degrees_of_freedom=effective - 1,
        nu=float(np.trace(spread)) ** 2 / fourth if fourth > 0 else 1.0,
        c_of_rows=float(rows.c),
    )


def usable_gaps(s: ErrorStatistics) -> Floats:
    """d_j = u_j - ybar_j, and 0 in a bin of fewer than 2 rows, which adds nothing to the estimate."""
    return np.where(s.effective_counts >= ENOUGH_ROWS, s.outputs - s.label_means, 0.0)


def inverse_roots(s: ErrorStatistics) -> Floats:
    """1 / sqrt(n_j) of the rows, or of their weight, and 0 in a bin of fewer than 2 rows."""
    masses = np.where(s.masses > 0, s.masses, 1)
    return np.where(s.effective_counts >= ENOUGH_ROWS, 1 / np.sqrt(masses), 0.0)


def extrapolated(centre: float, estimate: float, scale: float) -> float:
    """``centre`` at ``scale`` times the rows, where the calibration error stays as estimated.

    What differs from the estimate, or lies below zero, is noise of order 1/n and shrinks.
    """
    if scale == 1.0:
        return centre
    standing = max(estimate, 0.0)
    return standing + (centre - standing) / scale


def comonotone(terms: Sequence[BoundTerms]) -> BoundTerms:
    """Terms of the mean over classes that hold however the classes depend on one another.

    Mean of sqrt(v0), largest c, not divided by K, fewest degrees of freedom, the largest lower quantile.
    """
    return BoundTerms(
        upper_centre=float(np.mean([one.upper_centre for one in terms])),
        lower_centre=float(np.mean([one.lower_centre for one in terms])),
        v0=float(np.mean(np.sqrt([one.v0 for one in terms]))) ** 2,
        c=max(float(one.c) for one in terms),
        degrees_of_freedom=min(one.degrees_of_freedom for one in terms),
        nu=np.array([float(one.nu) for one in terms]),
        c_of_rows=max(float(one.c if one.c_of_rows is None else one.c_of_rows) for one in terms),
    )


def one_sided_quantile(confidence_level: float, degrees_of_freedom: float) -> float:
    """Quantile of the normal, or of Student's t where the degrees of freedom are finite."""
    if np.isinf(degrees_of_freedom):
        return float(special.ndtri(confidence_level))
    return float(special.stdtrit(degrees_of_freedom, confidence_level))


def skewed_quantile(confidence_level: float, degrees_of_freedom: float, nu: Any) -> Any:
    """(chi2_nu - nu) / sqrt(2 nu), or with nu F(nu, degrees of freedom) in place of chi2_nu by group."""
    if np.isinf(degrees_of_freedom):
        quantile = special.chdtri(nu, 1 - confidence_level)
    else:
        quantile = nu * special.fdtri(nu, degrees_of_freedom, confidence_level)
    return (quantile - nu) / np.sqrt(2 * nu)
