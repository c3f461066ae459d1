"""Bounds on the difference of two calibration errors (roots) of models on the same rows.

The difference of the squares has a jackknife standard error that holds at any error, as the debiased squares are
smooth; roots are not near zero. What a difference D of squares says of the roots depends on the second root b:
sqrt(b^2 + D) - b falls with b where D is over zero, and rises where it is below. So b enters with its own lower bound
in the first case, and with its upper bound in the second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlflow_calib.core.bound_terms import one_sided_quantile
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.jackknife import JackknifeDifference

#: Share of the error probability that is spent on the difference of squares; the rest goes to the second root.
SQUARES_SHARE = 0.9


class RootBounds(NamedTuple):
    """Lower and upper bound on one model's calibration error, a root; 0 and 1 where there are none."""

    lower: Any = 0.0
    upper: Any = 1.0


def own_level(confidence_level: float) -> float:
    """Level of each model's own bounds in the bound on their difference.

    >>> round(own_level(0.95), 6)
    0.995
    """
    return 1 - (1 - SQUARES_SHARE) * (1 - confidence_level)


def difference_bounds(
    difference: JackknifeDifference, first: RootBounds, second: RootBounds, confidence_level: float = 0.95
) -> tuple[float, float] | None:
    """Lower and upper bound on first minus second root, each one-sided; None where there is no standard error.

    Parameters
    ----------
    difference
        From ``jackknife_difference``.
    first, second
        Each model's own bounds at ``own_level(confidence_level)``.
    confidence_level
        Above 0.5.

    Examples
    --------
    >>> found = JackknifeDifference(0.01, 0.003, 0.0009, 0.0002, 199.0, 10_000, None, 200)
    >>> lower, upper = difference_bounds(found, RootBounds(0.04, 0.06), RootBounds(0.03, 0.05))
    >>> round(lower, 4), round(upper, 4)  # sqrt(.03^2 + .0009 + 1.7 .0002) - .03 = .0163
    (0.0049, 0.0163)
    """
    if difference.squared_standard_error is None:
        return None
    quantile = squares_quantile(confidence_level, difference.degrees_of_freedom)
    half = quantile * difference.squared_standard_error
    upper = root_difference_upper(difference.squared_mean + half, second)
    lower = -root_difference_upper(half - difference.squared_mean, first)
    return float(lower), float(upper)


def squares_quantile(confidence_level: float, degrees_of_freedom: float) -> float:
    """Standard errors of the difference of squares that its bounds lie away."""
    return one_sided_quantile(1 - SQUARES_SHARE * (1 - confidence_level), degrees_of_freedom)


def root_difference_upper(squared_upper: Any, second: RootBounds) -> Floats:
    """Largest first minus second root, where first^2 - second^2 is at most ``squared_upper``; any shape."""
    above = np.sqrt(np.asarray(second.lower) ** 2 + np.maximum(squared_upper, 0.0)) - second.lower
    below = np.sqrt(np.maximum(np.asarray(second.upper) ** 2 + squared_upper, 0.0)) - second.upper
    return np.asarray(np.where(np.asarray(squared_upper) > 0, above, below))
