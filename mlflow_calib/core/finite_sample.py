"""Bounds on the squared calibration error that hold at every number of rows, without any asymptotics.

The squared error is sum_j m_j (u_j - p_j)^2 with masses m_j and rates p_j of the bins. All rates and all masses lie in
their Clopper-Pearson intervals at once with the stated probability; the bound is the worst that these intervals allow.
Masses are part of it: taken as observed, they hide a rare bin that is badly wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.errors import InvalidInputError

#: Share of the error probability that is spent on the rates; the rest goes to the masses, which matter less.
RATES_SHARE = 0.9


def clopper_pearson(counts: Any, positives: Any, confidence_level: Any = 0.95) -> tuple[Floats, Floats]:
    """Two-sided exact interval for a rate; [0, 1] where there are no rows.

    Parameters
    ----------
    counts, positives : arrays of int
        Rows, and positives among them; effective numbers that are not whole give the interval in between.
    confidence_level : float
        Between 0 and 1.

    Returns
    -------
    tuple of two arrays
        Lower and upper ends.

    References
    ----------
    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
    Biometrika 1934.

    Examples
    --------
    >>> low, high = clopper_pearson([10, 0], [0, 0])
    >>> low.round(3).tolist(), high.round(3).tolist()  # 1 - .025^(1/10)
    ([0.0, 0.0], [0.308, 1.0])
    """
    n, k = np.asarray(counts, dtype=np.float64), np.asarray(positives, dtype=np.float64)
    if not ((np.asarray(confidence_level) > 0) & (np.asarray(confidence_level) < 1)).all():
        raise InvalidInputError(f"confidence_level must lie between 0 and 1, got {confidence_level}")
    tail = (1 - np.asarray(confidence_level)) / 2
    some, others = np.maximum(k, 1e-300), np.maximum(n - k, 1e-300)
    low = np.where(k > 0, special.betaincinv(some, n - k + 1, tail), 0.0)
    high = np.where(n - k > 0, special.betainccinv(k + 1, others, tail), 1.0)
    return low, high


def worst_case_squared(
    counts: npt.NDArray[Any], positives: npt.NDArray[Any], outputs: Floats, confidence_level: float = 0.95
) -> Floats:
    """Finite-sample upper bound on the squared calibration error over the last axis, shapes (..., B) -> (...).

    Rows must be independent of one another. An empty bin counts max(u, 1 - u)^2. The rates share 90 % of the error
    probability (Sidak: given the counts, bins are independent), the masses the rest (Bonferroni). The worst masses are
    found exactly: every bin starts at its least mass, and what is left goes to the worst bins first.

    Examples
    --------
    >>> counts, positives = np.array([500, 500]), np.array([150, 350])
    >>> round(float(worst_case_squared(counts, positives, np.array([0.3, 0.7]))) ** 0.5, 2)
    0.05
    """
    low, high, least, most = _intervals(counts, positives, confidence_level)
    errors = np.maximum(outputs - low, high - outputs) ** 2
    return np.asarray(_filled(errors, least, most))


def best_case_squared(
    counts: npt.NDArray[Any], positives: npt.NDArray[Any], outputs: Floats, confidence_level: float = 0.95
) -> Floats:
    """Finite-sample lower bound: the least squared error that the same intervals allow, shapes (..., B) -> (...)."""
    low, high, least, most = _intervals(counts, positives, confidence_level)
    errors = np.maximum(np.maximum(low - outputs, outputs - high), 0.0) ** 2
    return np.asarray(-_filled(-errors, least, most))


def _intervals(
    counts: npt.NDArray[Any], positives: npt.NDArray[Any], confidence_level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    n_bins = counts.shape[-1]
    miss = 1 - confidence_level
    rate_level = (1 - RATES_SHARE * miss) ** (1 / n_bins)
    low, high = clopper_pearson(counts, positives, rate_level)
    if n_bins == 1:  # its mass is one
        return low, high, np.ones(counts.shape), np.ones(counts.shape)
    total = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    least, most = clopper_pearson(total, counts, 1 - (1 - RATES_SHARE) * miss / n_bins)
    return low, high, least, most


def _filled(errors: Floats, least: Floats, most: Floats) -> Floats:
    """Maximum of sum m_j e_j over masses between least and most that sum to one."""
    order = np.argsort(-errors, axis=-1)
    sorted_errors, start, room = (np.take_along_axis(array, order, -1) for array in (errors, least, most - least))
    left = 1 - start.sum(axis=-1, keepdims=True)
    used = np.clip(left - (np.cumsum(room, axis=-1) - room), 0.0, room)
    total: Floats = ((start + used) * sorted_errors).sum(axis=-1)
    return total
