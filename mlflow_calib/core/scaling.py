"""Step 1 of the scaling-binning calibrator: a scaling function g fitted to scores and outcomes.

Notation of Kumar et al. 2019: z a score, y its outcome, g(z) its scaled probability; x the log odds of z. The axes:
family (``scaling_families``) x loss x targets; ``scaling_newton`` minimises, ``scaling_choice`` chooses for "auto".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlflow_calib.core.scaling_choice import cross_fitted
from mlflow_calib.core.scaling_families import log_odds
from mlflow_calib.core.scaling_fit import fit_family, identity
from mlflow_calib.core.scaling_function import ScalingFunction
from mlflow_calib.core.scaling_rows import BOUNDARIES, TeachingRows
from mlflow_calib.errors import InvalidInputError, raise_problems
from mlflow_calib.runtime import Floats

__all__ = ["BOUNDARIES", "SCALINGS", "ScalingFunction", "fit_platt", "fit_scaling", "log_odds"]

SCALINGS = ("platt", "quadratic", "beta", "temperature", "identity", "auto")
LOSSES = ("log", "squared")
TARGETS = ("labels", "platt")


def fit_scaling(
    name: str,
    scores: Floats,
    outcomes: Floats,
    *,
    weights: Floats | None = None,
    score_kind: str = "probability",
    loss: str = "log",
    targets: str = "labels",
    seed: int = 0,
) -> ScalingFunction:
    r"""Fit a scaling function that never falls as the score rises.

    Which family when: "platt" for few positives (one class against the rest); "quadratic" or "beta" for the confidence
    of a predicted label with a thousand rows or more; "auto" to have T1 say. docs/families.md has the figures.

    Parameters
    ----------
    name : {"platt", "quadratic", "beta", "temperature", "identity", "auto"}
        See the notes. "identity" fits nothing.
    scores : ndarray of float64, shape (n,)
        Probabilities in [0, 1], or any finite log odds with ``score_kind="logit"``.
    outcomes : ndarray of float64, shape (n,)
        0 and 1, both present among rows of positive weight.
    weights : ndarray of float64, shape (n,), optional
        At least 0; only their proportions matter. A whole weight stands for as many rows in the loss; what depends on
        the number of rows (boundary, smoothed targets, the choice of "auto") goes by effective rows,
        (sum w)^2 / sum w^2.
    score_kind : {"probability", "logit"}
    loss : {"log", "squared"}
        Log loss as in the paper's experiments, or the squared loss of its formula.
    targets : {"labels", "platt"}
        Fit to the labels, or to the smoothed targets of Platt 1999, (n1 + 1) / (n1 + 2) and 1 / (n0 + 2).
    seed : int
        Of the folds of "auto".

    Returns
    -------
    ScalingFunction
        ``converged`` and ``constraint_active`` say how the fit went.

    Raises
    ------
    InvalidInputError
        For an unknown name, loss or targets, or outcomes that are all equal.

    Notes
    -----
    With x = log(z / (1 - z)) and sigma the logistic function:

    .. math::
        \text{platt} &: \sigma(a x + b), \; a \ge 0; \quad
        \text{temperature}: \sigma(a x), \; a \ge 0; \quad
        \text{beta}: \sigma(a \ln z - b \ln(1 - z) + c), \; a, b \ge 0 \\
        \text{quadratic} &: \sigma(a x^2 + b x + c), \; 2 a x + b \ge 0 \text{ on the range of T1, constant beyond.}

    Scores of 0 and 1 have no log odds, and with a fixed clip a few wrong ones rule the fit. Scores are therefore held
    within [boundary, 1 - boundary], and the boundary is fitted too: the smallest of ``BOUNDARIES`` whose profile log
    likelihood is within 5.4 nats of the best, that is, which the data do not refute at 99.9 %.

    Every family is a sum of rising features with coefficients held at or above 0, minimised by projected Newton steps
    with step halving; the log loss is convex. Where scores separate the labels (every positive scores at least as high
    as every negative) the loss has no minimum: the fit is to Platt's targets, and ``converged`` is False.

    "auto" compares the four families by 3-fold cross-fitted squared loss, and leaves Platt scaling only for what is
    better by more than a standard error (:func:`mlflow_calib.core.scaling_choice.cross_fitted`).

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4.1, step 1. Platt, "Probabilistic
    outputs for support vector machines", 1999, section 2.2 (targets). Kull, Silva Filho and Flach, "Beta calibration",
    AISTATS 2017. Guo et al., "On calibration of modern neural networks", ICML 2017, section 4.2 (temperature).

    Examples
    --------
    Odds that are twice too extreme on the logarithmic scale:

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=20000)
    >>> y = (np.random.default_rng(1).logistic(size=20000) < x).astype(float)
    >>> g = fit_scaling("temperature", 2 * x, y, score_kind="logit")
    >>> round(g.a, 1), g.converged, g.constraint_active
    (0.5, True, False)
    """
    known = {"scaling": (name, SCALINGS), "loss": (loss, LOSSES), "targets": (targets, TARGETS)}
    problems = [
        f"{word} must be one of {words}, got {value!r}" for word, (value, words) in known.items() if value not in words
    ]
    if problems:
        raise_problems(problems)
    rows = TeachingRows.of(scores, outcomes, weights, score_kind)
    if not 0 < rows.outcomes.sum() < len(rows.outcomes):
        raise InvalidInputError(
            f"outcomes must hold both 0 and 1 to fit g, got {len(rows.outcomes)} equal ones; add rows"
        )
    if name == "identity":
        return identity(rows, loss)
    if name != "auto":
        return fit_family(name, rows, loss, targets)
    candidates = cross_fitted(rows, loss, targets, seed)
    chosen: dict[str, Any] = next((one for one in candidates if one["chosen"]), {"family": "platt", "boundary": None})
    return replace(fit_family(chosen["family"], rows, loss, targets, chosen["boundary"]), candidates=candidates)


def fit_platt(scores: Floats, outcomes: Floats, score_kind: str = "probability") -> ScalingFunction:
    """Fit Platt scaling on log odds by log loss: :func:`fit_scaling` of "platt".

    Examples
    --------
    Scores that are calibrated already stay as they are:

    >>> import numpy as np
    >>> g = fit_platt(np.repeat([0.1, 0.9], 10), np.array([1.0] + [0.0] * 9 + [0.0] + [1.0] * 9))
    >>> round(g.a, 6), round(abs(g.b), 6), g.converged
    (1.0, 0.0, True)
    """
    return fit_scaling("platt", scores, outcomes, score_kind=score_kind)
