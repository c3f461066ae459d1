"""How many bins ``n_bins="auto"`` makes."""

from __future__ import annotations

import numpy as np

from mlflow_calib.core.binning import MAX_BINS
from mlflow_calib.core.cuts import uniform_mass_cuts
from mlflow_calib.core.weights import effective_n
from mlflow_calib.runtime import Floats


def cube_root_bins(n: float) -> int:
    """Bins for histogram binning of ``n`` rows: the cube root, at which the risk B/n + 1/B^2 is least to a factor.

    References
    ----------
    Sun, Song and Hero, "Minimum-Risk Recalibration of Classifiers", NeurIPS 2023, section 3.

    Examples
    --------
    >>> cube_root_bins(1000), cube_root_bins(20_000), cube_root_bins(1)
    (10, 27, 1)
    """
    return int(np.clip(round(n ** (1 / 3)), 1, MAX_BINS))


def sweep_bins(scores: Floats, outcomes: Floats, weights: Floats | None = None) -> int:
    """Bins for scaling-binning: the most for which label means rise from bin to bin, as do those of all fewer bins.

    Uniform-mass bins of the scores are tried with B = 2, 3, ... until a label mean falls below that of the bin before
    it: with more bins than that the rows do not tell the order of neighbours.

    References
    ----------
    Roelofs, Cain, Shlens and Mozer, "Mitigating Bias in Calibration Error Estimation", AISTATS 2022, section 4
    (monotonic sweep).

    Examples
    --------
    >>> import numpy as np
    >>> sweep_bins(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]), np.array([0.0, 0.0, 1.0, 0.0, 1.0, 1.0]))
    4
    """
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    mass = None if weights is None else weights[order]
    reached = np.arange(1, len(order) + 1) if mass is None else np.cumsum(mass)
    positives = np.cumsum(outcomes[order] if mass is None else outcomes[order] * mass)
    most = int(min(MAX_BINS, len(order) if mass is None else effective_n(mass)))
    for n_bins in range(2, most + 1):
        ends = np.append(uniform_mass_cuts(ordered, n_bins, mass), len(ordered)) - 1
        means = np.diff(positives[ends], prepend=0) / np.diff(reached[ends], prepend=0)
        if (np.diff(means) < 0).any():
            return n_bins - 1
    return max(most, 1)
