"""The calibration errors that others report: binned, plug-in, and without a bound.

For reading beside the squared calibration error, never for a gate: the plug-in bias grows with the number of bins, and
for continuous outputs every one of them is a lower bound of the error, as binning averages errors away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlflow_calib.core.binning import MAX_BINS, check_n_bins
from mlflow_calib.core.cuts import uniform_mass_cuts
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.judged_pairs import pairs_of
from mlflow_calib.core.scores import check_choice

#: The bin of a probability on an edge: "right-closed" (a, b], 0 in the first; "left-closed" [a, b), 1 in the last.
EDGE_CONVENTIONS = ("right-closed", "left-closed")
#: Exponent of the distance.
NORMS = ("l1", "l2")


def expected_calibration_error(
    outputs: Any,
    outcomes: Any,
    *,
    n_bins: int = 15,
    edges: str = "right-closed",
    sample_weight: Any = None,
) -> float:
    """Expected calibration error (ECE): l1, equal-width bins over [0, 1], plug-in.

    For top-label pass the confidence and whether the predicted label is right. Good for: comparing with published
    figures. The smaller the better, minimum zero; biased upward by noise.

    Parameters
    ----------
    outputs : array, shape (n,)
        Probabilities in [0, 1].
    outcomes : array, shape (n,)
        0 and 1.
    n_bins : int
        From 1 to 1000.
    edges : {"right-closed", "left-closed"}
        The bin of a probability that lies on an edge: (j/B, (j+1)/B] with 0 in the first (Guo et al. 2017; netcal,
        torch, scikit-learn's calibration_curve), or [j/B, (j+1)/B) with 1 in the last (numpy.histogram). Scores that
        are multiples of .05 or .1 lie on edges, and the two then differ in the second digit.
    sample_weight : array, shape (n,), optional

    Raises
    ------
    InvalidInputError
        Where the rows are not probabilities and outcomes.

    Notes
    -----
    sum_j w_j |ybar_j - ubar_j| over the bins that hold rows.

    References
    ----------
    Naeini, Cooper and Hauskrecht, AAAI 2015; Guo, Pleiss, Sun and Weinberger, ICML 2017, section 2.

    Examples
    --------
    >>> round(expected_calibration_error([0.2, 0.2, 0.9], [0, 1, 1], n_bins=2), 6)  # 2/3 |.5 - .2| + 1/3 |1 - .9|
    0.233333
    >>> first, second = (expected_calibration_error([0.5, 0.9], [0, 1], n_bins=2, edges=e) for e in EDGE_CONVENTIONS)
    >>> round(first, 3), round(second, 3)  # .5 alone below, or with .9 above: |.5 - .7|
    (0.3, 0.2)
    """
    check_choice("edges", edges, EDGE_CONVENTIONS)
    check_n_bins(n_bins)
    p, y, w = pairs_of(outputs, outcomes, sample_weight)
    inner = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    index = np.searchsorted(inner, p, side="left" if edges == "right-closed" else "right")
    gaps = np.bincount(index, w * y, n_bins) - np.bincount(index, w * p, n_bins)
    return float(np.abs(gaps).sum())


def sweep_calibration_error(
    outputs: Any, outcomes: Any, *, norm: str = "l1", sample_weight: Any = None
) -> tuple[float, int]:
    """ECE-sweep: uniform-mass bins, as many as keep the label means rising, and how many those are.

    Good for: the base model's continuous scores, without a number of bins to choose. Less biased than fixed bins where
    the truth rises with the score; too low where it does not.

    Parameters
    ----------
    outputs, outcomes : arrays, shape (n,)
        Probabilities in [0, 1], and 0 and 1.
    norm : {"l1", "l2"}
        sum_j w_j |gap_j|, or sqrt(sum_j w_j gap_j^2).
    sample_weight : array, shape (n,), optional
        Bins then hold equal weight.

    Returns
    -------
    error : float
    n_bins : int
        Bins used, 1000 at most; equal scores share a bin.

    References
    ----------
    Roelofs, Cain, Shlens and Mozer, "Mitigating Bias in Calibration Error Estimation", AISTATS 2022, algorithm 1.

    Examples
    --------
    >>> error, n_bins = sweep_calibration_error([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> round(error, 3), n_bins  # two bins rise (1/2, 1/2), three do not: |.5 - .15| / 2 + |.5 - .35| / 2
    (0.25, 2)
    """
    check_choice("norm", norm, NORMS)
    p, y, w = pairs_of(outputs, outcomes, sample_weight)
    order = np.argsort(p, kind="stable")
    sums = np.stack([np.concatenate([[0.0], np.cumsum(column[order])]) for column in (w, w * y, w * p)])
    ordered, mass = p[order], None if sample_weight is None else w[order] * len(p)
    best = np.array([0, len(p)])
    n_values = np.count_nonzero(np.diff(ordered)) + 1
    for n_bins in range(2, min(len(p), MAX_BINS) + 1):
        cuts = np.concatenate([[0], uniform_mass_cuts(ordered, n_bins, mass), [len(p)]])
        weight, positive, _ = np.diff(sums[:, cuts], axis=1)
        if (np.diff(positive / weight) < -1e-12).any():
            break
        best = cuts
        if len(cuts) - 1 == n_values:
            break
    weight, positive, stated = np.diff(sums[:, best], axis=1)
    return _distance(weight, positive, stated, norm), len(best) - 1


def _distance(weight: Floats, positive: Floats, stated: Floats, norm: str) -> float:
    gaps = np.abs(positive - stated)
    return float(gaps.sum()) if norm == "l1" else float(np.sqrt((gaps**2 / weight).sum()))
