"""Losses that true probabilities minimise, in their conventions by name, and what the squared one is made of.

A lower calibration error can be a worse model: it is read beside these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.columns import is_real, numbers
from mlflow_calib.core.error_statistics import Floats, debiased_squared, plugin_squared
from mlflow_calib.core.judged_pairs import check_domains
from mlflow_calib.core.weights import clean_weights
from mlflow_calib.errors import InvalidInputError, raise_problems

#: Smallest distance to 0 and 1 in the logarithm: the spacing of floats at 1, as scikit-learn has it.
LOG_CLIP = 2.220446049250313e-16


def mean_squared_error(outputs: Any, outcomes: Any, sample_weight: Any = None) -> float:
    """Mean squared error of probabilities; the smaller the better.

    Binary, shapes (n,): mean of (p - y)^2, the Brier score. Multi-class, shapes (n, K): mean over rows and classes,
    which is the Brier score summed over classes divided by K (the paper's figures show K / 2 times that).

    Examples
    --------
    >>> mean_squared_error([0.8, 0.4], [1, 0])  # (.04 + .16) / 2
    0.1
    >>> round(mean_squared_error([[0.8, 0.2]], [[1, 0]]), 6)  # (.04 + .04) / 2
    0.04
    """
    p, y, w = _same_shape(outputs, outcomes, sample_weight)
    squares = (p - y) ** 2
    if w is None:
        return float(np.mean(squares))
    return float(w @ (squares if squares.ndim == 1 else squares.mean(axis=1)))


def brier_score(outputs: Any, outcomes: Any, sample_weight: Any = None) -> float:
    """Brier score as Brier defined it: squared distances summed over classes, mean over rows; from 0 to 2.

    Of shapes (n,), one probability a row, it is the sum over that class alone and equals ``mean_squared_error``.

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 1950.

    Examples
    --------
    >>> round(brier_score([[0.8, 0.2], [0.4, 0.6]], [[1, 0], [1, 0]]), 6)  # (.08 + .72) / 2
    0.4
    """
    mean = mean_squared_error(outputs, outcomes, sample_weight)
    shape = np.shape(outputs)
    return mean * (shape[1] if len(shape) == 2 else 1)


def log_loss(outputs: Any, outcomes: Any, *, clip: float = LOG_CLIP, sample_weight: Any = None) -> float:
    """Mean negative logarithm of the probability given to what happened; the smaller the better.

    Parameters
    ----------
    outputs, outcomes : arrays, shape (n,) or (n, K)
        Probabilities, and 0 and 1. Binary: -y ln p - (1 - y) ln(1 - p). Multi-class: -sum_k y_k ln p_k; rows that do
        not sum to one are taken as they are.
    clip : float
        Probabilities are kept this far from 0 and 1. Rows beyond decide the figure: one certain mistake in a thousand
        adds .036 at 2.2e-16, .014 at 1e-6. State the clip with the figure.
    sample_weight : array, shape (n,), optional

    Examples
    --------
    >>> round(log_loss([0.5, 0.9], [0, 1]), 6)  # (ln 2 - ln .9) / 2
    0.399254
    >>> round(log_loss([[0.2, 0.8]], [[0, 1]]), 6)
    0.223144
    """
    if not is_real(clip) or not 0 <= clip < 0.5:
        raise InvalidInputError(f"clip must lie in [0, 0.5), got {clip}")
    p, y, w = _same_shape(outputs, outcomes, sample_weight)
    kept = np.clip(p, clip, 1 - clip)
    with np.errstate(divide="ignore"):
        if p.ndim == 1:
            losses = -np.where(y == 1, np.log(kept), np.log1p(-kept))
        else:
            losses = -np.where(y == 1, np.log(kept), 0.0).sum(axis=1)
    return float(losses.mean() if w is None else w @ losses)


@dataclass(frozen=True)
class MseDecomposition:
    """What a mean squared error is made of: mse = calibration + refinement + within_bins.

    Attributes
    ----------
    mse : float
    calibration : float
        Squared calibration error, plug-in: sum_j w_j (u_j - ybar_j)^2.
    refinement : float
        What is left when every bin says its label mean: sum_j w_j ybar_j (1 - ybar_j); it equals uncertainty minus
        resolution, and calibration cannot lower it.
    within_bins : float
        What outputs that differ inside a bin add or save: zero for a binned model.
    calibration_debiased, refinement_debiased : float
        The same without the bias of noise, which moves sum_j w_j ybar_j (1 - ybar_j) / (n_j - 1) from one to the other.
    uncertainty : float
        ybar (1 - ybar): the mean squared error of always stating the base rate.
    resolution : float
        sum_j w_j (ybar_j - ybar)^2: what the bins tell beyond the base rate; the larger the better.
    """

    mse: float
    calibration: float
    refinement: float
    within_bins: float
    calibration_debiased: float
    refinement_debiased: float
    uncertainty: float
    resolution: float


def mse_decomposition(statistics: BinStatistics) -> MseDecomposition:
    """Decompose the mean squared error of one binary problem over its bins, from sums alone.

    References
    ----------
    Murphy, "A new vector partition of the probability score", Journal of Applied Meteorology 1973; terms within bins:
    Stephenson, Coelho and Jolliffe, Weather and Forecasting 2008; debiased: Brocker, Climate Dynamics 2012.

    Examples
    --------
    >>> s = BinStatistics.from_counts([60, 40], [12, 30], [0.2, 0.7])
    >>> parts = mse_decomposition(s)
    >>> round(parts.calibration, 6), round(parts.refinement, 6), round(parts.mse, 6)  # .6 .2 .8 + .4 .75 .25
    (0.001, 0.171, 0.172)
    """
    s = statistics.finish()
    means, shares = s.label_means, s.shares
    base_rate = float(shares @ means)
    calibration, mse = plugin_squared(s), statistics.mse
    refinement = float(shares @ (means * (1 - means)))
    # A bin of one row adds nothing to the debiased square; its distance then stands in the refinement.
    debiased = debiased_squared(s)
    return MseDecomposition(
        mse=mse,
        calibration=calibration,
        refinement=refinement,
        within_bins=mse - calibration - refinement,
        calibration_debiased=debiased,
        refinement_debiased=refinement + calibration - debiased,
        uncertainty=base_rate * (1 - base_rate),
        resolution=float(shares @ (means - base_rate) ** 2),
    )


def refinement(statistics: BinStatistics) -> float:
    """The part of the mean squared error that no recalibration of the bins can remove: sum_j w_j ybar_j (1 - ybar_j).

    Examples
    --------
    >>> round(refinement(BinStatistics.from_counts([60, 40], [12, 30], [0.2, 0.7])), 6)
    0.171
    """
    return mse_decomposition(statistics).refinement


def _same_shape(outputs: Any, outcomes: Any, sample_weight: Any) -> tuple[Floats, Floats, Floats | None]:
    problems: list[str] = []
    p, y = numbers(outputs, "outputs", problems), numbers(outcomes, "outcomes", problems)
    if p is not None and y is not None:
        if p.shape != y.shape or p.size == 0 or p.ndim not in (1, 2):
            shapes = f"{p.shape}, {y.shape}"
            problems.append(
                f"outputs and outcomes must have one shape of at least one row, (n,) or (n, K), got {shapes}"
            )
        else:
            check_domains(p, y, problems)
    weights = clean_weights(sample_weight, None if p is None or problems else len(p), problems)
    if p is None or y is None or problems:
        raise_problems(problems)
    return p, y, None if weights is None else weights / weights.sum()
