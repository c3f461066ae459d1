"""The planner: rows to verify an error, rows to fit a calibrator, and what a number of rows can show.

Before there are data. With evaluation data at hand ``rows_that_would_settle`` says how many more a verdict needs.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.binning import check_n_bins
from mlflow_calib.core.bound_terms import BoundTerms, one_sided_quantile, row_terms, skewed_quantile
from mlflow_calib.core.columns import is_real, numbers
from mlflow_calib.core.levels import level_problem
from mlflow_calib.core.settling import SAFE_ROWS, rows_that_would_settle, smallest
from mlflow_calib.errors import InvalidInputError, raise_problems

__all__ = ["FITTED_CONSTANTS", "noise_floor_of", "rows_that_would_settle", "rows_to_fit", "rows_to_verify"]

#: The square of a smaller error is no float.
SMALLEST_ERROR = 1e-100
#: Squared error on average c B / n with histogram binning and c / n with scaling-binning: c as fitted in the paper's
#: synthetic experiment (z uniform, y calibrated, Platt scaling well specified), `python -m examples.paper.synthetic`.
FITTED_CONSTANTS = {"histogram-binning": 0.17, "scaling-binning": 0.33}


def noise_floor_of(n: int, n_bins: int, confidence_level: float = 0.95, rates: npt.ArrayLike | None = None) -> float:
    """The upper bound, as a root, that n rows show where the debiased square of a binned model is zero.

    What an evaluation set can show at best, before it is collected: no limit below it can be met. Bins hold equally
    many rows, as uniform-mass bins do.

    Parameters
    ----------
    n : int
        Rows of the evaluation data.
    n_bins : int
    confidence_level : float
        From 0.5 up to, not including, 1.
    rates : array_like, shape (n_bins,), optional
        The shape: positive rate of each bin; by default .5 / B, 1.5 / B, ..., the scores of a model that are uniform.
        Rates near 0 and 1 have a lower floor.

    Examples
    --------
    >>> round(noise_floor_of(1_000, 10), 3), round(noise_floor_of(10_000, 10), 3)
    (0.057, 0.018)
    """
    problems = [level_problem("confidence_level", confidence_level)]
    shape = _shape(n_bins, rates, problems)
    if not is_real(n) or not (n_bins if shape.size else 1) <= n < math.inf:
        problems.append(f"n must be at least one row a bin, {n_bins}, got {n!r}")
    _raise_any(problems)
    return math.sqrt(float(_planned_terms(n, shape, 0.0, 0.5).upper(confidence_level)))


def rows_to_verify(
    limit_root: float,
    n_bins: int,
    confidence_level: float = 0.95,
    *,
    rates: npt.ArrayLike | None = None,
    true_error: float = 0.0,
    pass_probability: float = 0.5,
) -> int | None:
    """Evaluation rows from which a model within ``limit_root`` can be shown to be so.

    By default the smallest n whose noise floor is within the limit: a perfectly calibrated model then passes about
    every second time. At least 20 rows a bin in any case, so that no bin is thin.

    Parameters
    ----------
    limit_root : float
        The calibration error, not squared, that the upper bound must not exceed.
    n_bins, confidence_level, rates
        As in :func:`noise_floor_of`.
    true_error : float
        Calibration error (root) of the model one has in mind, below the limit.
    pass_probability : float
        How likely that model is to pass, from 0.5 up to, not including, 1.

    Returns
    -------
    int or None
        None where over 1e12 rows would be needed.

    Examples
    --------
    >>> rows_to_verify(0.05, 10)
    1298
    >>> rows_to_verify(0.05, 10, true_error=0.02, pass_probability=0.9) > 2 * 1298
    True
    """
    levels = {"confidence_level": confidence_level, "pass_probability": pass_probability}
    problems = [level_problem(name, level) for name, level in levels.items()]
    shape = _shape(n_bins, rates, problems)
    if not (is_real(limit_root) and is_real(true_error) and 0 <= true_error < limit_root <= 1):
        problems.append(
            "limit_root must be a positive number above true_error >= 0, and at most 1, "
            f"got {limit_root!r} and {true_error!r}"
        )
    _raise_any(problems)

    def shown(rows: int) -> bool:
        terms = _planned_terms(rows, shape, true_error**2, pass_probability)
        return math.sqrt(float(terms.upper(confidence_level))) <= limit_root

    return smallest(SAFE_ROWS * n_bins, shown)


def rows_to_fit(error: float, n_bins: int, method: str = "scaling-binning") -> int:
    """Recalibration rows after which the calibration error is ``error`` (root of the mean square) on average.

    Scaling-binning: B + c / error^2, above the error that its scaling family cannot avoid. Histogram binning:
    c B / error^2. The constants are those fitted in the paper's synthetic experiment, ``FITTED_CONSTANTS``; they differ
    by population (.11 and .28 at its a = 2, c = 1), so read the result as an order of magnitude. The B of the first
    form is one row a bin, without which there are no B bins; the experiment shows no further cost of bins.

    Parameters
    ----------
    error : float
        In (0, 1).
    n_bins : int
    method : {"scaling-binning", "histogram-binning"}

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4, theorem.

    Examples
    --------
    >>> rows_to_fit(0.02, 100), rows_to_fit(0.02, 100, "histogram-binning")
    (925, 42500)
    """
    check_n_bins(n_bins)
    if method not in sorted(FITTED_CONSTANTS):
        raise InvalidInputError(f"method must be one of {', '.join(sorted(FITTED_CONSTANTS))}, got {method!r}")
    if not is_real(error) or not SMALLEST_ERROR <= error < 1:
        raise InvalidInputError(f"error must lie in (0, 1), got {error!r}")
    rows = FITTED_CONSTANTS[method] / error**2
    # what rounding adds to a whole number is no row
    return math.ceil(round(n_bins + rows if method == "scaling-binning" else n_bins * rows, 6))


def _planned_terms(n: int, rates: npt.NDArray[np.float64], true_squared: float, pass_probability: float) -> BoundTerms:
    """Terms by row of n rows that are shaped so, with T at its quantile of that probability."""
    counts = np.full(len(rates), n / len(rates))
    terms = row_terms(counts, counts * rates, rates)
    # T is skewed to the right where the error is zero, and near normal where it is large; at one half T is the truth.
    quantile = max(
        one_sided_quantile(pass_probability, math.inf),
        float(skewed_quantile(pass_probability, math.inf, terms.nu)),
        0.0,
    )
    centre = true_squared + quantile * math.sqrt(float(terms.v0 + terms.c * true_squared))
    return replace(terms, upper_centre=centre, lower_centre=centre)


def _shape(n_bins: int, rates: npt.ArrayLike | None, problems: list[str | None]) -> npt.NDArray[np.float64]:
    """Rates of the bins; empty where something is wrong, which is added to ``problems``."""
    try:
        check_n_bins(n_bins)
    except InvalidInputError as error:
        problems.append(str(error))
        return np.empty(0)
    if rates is None:
        return (np.arange(n_bins) + 0.5) / n_bins
    found: list[str] = []
    shape = numbers(rates, "rates", found)
    if shape is not None and (shape.shape != (n_bins,) or not ((shape >= 0) & (shape <= 1)).all()):
        found.append(f"rates must be {n_bins} numbers in [0, 1], one a bin, got {shape.tolist()}")
    problems += found
    return np.empty(0) if shape is None or found else shape


def _raise_any(problems: list[str | None]) -> None:
    there = [problem for problem in problems if problem]
    if there:
        raise_problems(there)
