"""The two squared estimates of a calibration error as formulas on arrays, for one data set or many draws at once.

For bin j n_j rows, k_j positives, w_j = n_j / n, ybar_j = k_j / n_j, and u_j the value the model says there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.runtime import Floats

#: A bin of fewer (effective) rows shows no variance and adds nothing to the debiased square.
ENOUGH_ROWS = 2 - 1e-9


def plugin_squared_of(
    counts: npt.NDArray[Any], positives: npt.NDArray[Any], outputs: Floats, shares: Floats | None = None
) -> Floats:
    """Plug-in square over the last axis, shapes (..., B) -> (...); zero where there are no rows.

    ``shares`` of the bins follow from the counts; with weights the counts are effective, and shares are given.
    """
    gaps = outputs - label_means_of(counts, positives)
    return _mean_over_rows(counts, gaps**2, shares)


def debiased_squared_of(
    counts: npt.NDArray[Any], positives: npt.NDArray[Any], outputs: Floats, shares: Floats | None = None
) -> Floats:
    """Debiased square over the last axis, shapes (..., B) -> (...); zero where there are no rows."""
    means = label_means_of(counts, positives)
    # Effective counts of 2 equal weights may round to just below 2.
    enough = counts >= ENOUGH_ROWS
    noise = means * (1 - means) / np.where(enough, counts - 1, 1)
    return _mean_over_rows(counts, np.where(enough, (outputs - means) ** 2 - noise, 0.0), shares)


def label_means_of(counts: npt.NDArray[Any], positives: npt.NDArray[Any]) -> Floats:
    """ybar_j, and 0 in an empty bin, where its weight is 0 too."""
    means: Floats = positives / np.where(counts > 0, counts, 1)
    return means


def _mean_over_rows(counts: npt.NDArray[Any], terms: Floats, shares: Floats | None) -> Floats:
    if shares is not None:
        return np.asarray((shares * terms).sum(axis=-1))
    total: Floats = (counts * terms).sum(axis=-1) / np.maximum(counts.sum(axis=-1), 1)
    return total
