"""smECE: the calibration error after smoothing residuals by a kernel whose width the data choose; no bins.

Blasiok and Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", ICLR 2024 (arXiv 2309.12236).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import fft

from mlflow_calib.core.columns import is_real
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.judged_pairs import pairs_of
from mlflow_calib.errors import InvalidInputError

#: Cells of [0, 1] on which residuals are laid; the error of that is far below their width.
CELLS = 2**14
_HALVINGS = 40


def smooth_calibration_error(outputs: Any, outcomes: Any, *, sample_weight: Any = None) -> float:
    """Smooth calibration error (smECE) at the width that equals it.

    Good for: a single figure of a continuous base model, without bins; it moves continuously with the outputs and lies
    within constant factors of the distance to the nearest calibrated model. The smaller the better, minimum zero.

    Parameters
    ----------
    outputs : array, shape (n,)
        Probabilities in [0, 1].
    outcomes : array, shape (n,)
        0 and 1; for top-label the confidence and whether the predicted label is right.
    sample_weight : array, shape (n,), optional

    Notes
    -----
    smECE_sigma = integral over t in [0, 1] of |sum_i w_i (y_i - f_i) K_sigma(t, f_i)|, K_sigma the Gaussian reflected
    at 0 and 1; smECE is the sigma with smECE_sigma = sigma. The reflected Gaussian is diagonal in cosines, so that
    smoothing is one cosine transform there and one back, whatever the width.

    Examples
    --------
    >>> import numpy as np
    >>> outputs = np.linspace(0, 1, 10_001)
    >>> round(smooth_calibration_error(outputs, outputs > 0.5), 2)  # certain labels, hesitant outputs
    0.15
    """
    residuals = residual_cells(outputs, outcomes, sample_weight)
    cosines = fft.dct(residuals, type=2, norm="ortho")
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _smoothed(cosines, middle) > middle else (low, middle)
    return (low + high) / 2


def smooth_calibration_error_at(outputs: Any, outcomes: Any, width: float, *, sample_weight: Any = None) -> float:
    """smECE_sigma at a given width sigma; falls as the width grows.

    Examples
    --------
    >>> round(smooth_calibration_error_at([0.3, 0.7], [1, 1], 0.1), 3)  # far apart: |.7| / 2 + |.3| / 2
    0.5
    """
    if not is_real(width) or not 0 < width < np.inf:
        raise InvalidInputError(f"width must be a positive number, got {width}")
    return _smoothed(fft.dct(residual_cells(outputs, outcomes, sample_weight), type=2, norm="ortho"), width)


def residual_cells(outputs: Any, outcomes: Any, sample_weight: Any = None) -> Floats:
    """Weighted residuals y - f on the cells, each shared between the two nearest midpoints."""
    p, y, w = pairs_of(outputs, outcomes, sample_weight)
    place = p * CELLS - 0.5
    left = np.floor(place)
    share = place - left
    cells = left.astype(np.intp)
    residuals = w * (y - p)
    lower = np.bincount(np.maximum(cells, 0), residuals * (1 - share), CELLS)
    # Beyond the outermost midpoints reflection folds both shares into one cell.
    return np.asarray(lower + np.bincount(np.minimum(cells + 1, CELLS - 1), residuals * share, CELLS))


def _smoothed(cosines: Floats, width: float) -> float:
    damping = np.exp(-((np.pi * width * np.arange(CELLS)) ** 2) / 2)
    return float(np.abs(fft.idct(cosines * damping, type=2, norm="ortho")).sum())
