"""Figure 3 (left) of Kumar, Liang and Ma 2019: squared marginal calibration error against bins, CIFAR-10 VGG16.

The table is that of the authors' script (notes, 5.1: 100 trials, seed 0; its half-widths are 1.645 standard errors).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.errors import CalibrationWarning

N_TRIALS, N_FIT = 200, 1000
BINS = tuple(range(10, 101, 10))
#: Mean squared error and 90 % half-width, times 1e4, for 10, 20, ..., 100 bins.
TABLE = {
    "histogram-binning": (
        (1.376, 2.198, 3.128, 3.629, 4.318, 4.996, 5.276, 5.987, 6.181, 6.204),
        (0.085, 0.136, 0.161, 0.191, 0.226, 0.235, 0.233, 0.275, 0.263, 0.280),
    ),
    "scaling-binning": (
        (1.320, 2.100, 2.636, 2.946, 3.304, 3.549, 3.690, 3.944, 3.933, 4.234),
        (0.075, 0.103, 0.137, 0.119, 0.152, 0.163, 0.153, 0.158, 0.148, 0.165),
    ),
}


class Population:
    """All 10,000 rows, a class at a time in the order of its score, so that any bins are counted by their edges."""

    def __init__(self, path: Path) -> None:
        table = pq.read_table(path)
        self.scores = np.column_stack([table[f"p_{k}"].to_numpy().astype(np.float64) for k in range(10)])
        self.labels = table["label"].to_numpy()
        order = np.argsort(self.scores, axis=0)
        self.sorted = np.take_along_axis(self.scores, order, axis=0).T.copy()
        hits = self.labels[order] == np.arange(10)
        self.positives_up_to = np.vstack([np.zeros(10), hits.cumsum(axis=0)]).T.copy()

    def squared_error(self, calibrator: Calibrator) -> float:
        """Mean over classes of sum_j w_j (u_j - ybar_j)^2; bins with equal outputs count as one, as in the script."""
        return float(np.mean([self._of_class(k, m.edges, m.values) for k, m in enumerate(calibrator.maps)]))

    def _of_class(self, k: int, edges: np.ndarray, values: np.ndarray) -> float:
        n = len(self.labels)
        up_to = np.concatenate([[0], np.searchsorted(self.sorted[k], edges, side="right"), [n]])
        outputs, output = np.unique(values, return_inverse=True)
        counts = np.bincount(output, np.diff(up_to))
        positives = np.bincount(output, np.diff(self.positives_up_to[k][up_to]))
        return float(np.sum(counts * (outputs - positives / np.maximum(counts, 1)) ** 2) / n)


@pytest.fixture(scope="module")
def population(real_data: Callable[[str], Path]) -> Population:
    return Population(real_data("cifar10_vgg.parquet"))


def trials(population: Population, method: str) -> np.ndarray:
    errors = np.empty((N_TRIALS, len(BINS)))
    with warnings.catch_warnings():
        # float32 scores of exactly 1 tie, and a class may be separated by its scores in one draw of 1,000 rows
        warnings.simplefilter("ignore", CalibrationWarning)
        for trial in range(N_TRIALS):
            drawn = np.random.default_rng(trial).integers(len(population.labels), size=N_FIT)
            scores, labels = population.scores[drawn], population.labels[drawn]
            for position, n_bins in enumerate(BINS):
                calibrator = fit_calibrator(
                    scores, labels, method=method, reduction="marginal", n_bins=n_bins, parts="shared"
                )
                errors[trial, position] = population.squared_error(calibrator) * 1e4
    return errors


@pytest.mark.parametrize("method", TABLE)
def test_figure_3_left(population: Population, method: str) -> None:
    errors = trials(population, method)
    ours, ours_error = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(N_TRIALS)
    theirs, half_widths = map(np.array, TABLE[method])
    standard_errors = np.sqrt(ours_error**2 + (half_widths / 1.645) ** 2)
    deviations = (ours - theirs) / standard_errors
    assert np.all(np.abs(deviations) <= 3), dict(zip(BINS, deviations.round(2).tolist(), strict=True))
