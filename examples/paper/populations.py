"""Populations whose calibration error is known: all rows of a file, or a formula for P(y = 1 | z)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from examples.paper.common import Floats
from mlflow_calib.core.calibrator import Calibrator

#: Gauss-Legendre nodes a bin; the integrands are smooth.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


@dataclass(frozen=True)
class Judged:
    """Squared calibration error and mean squared error of a calibrator on its population; mean over classes each."""

    squared_error: float
    mse: float


class FinitePopulation:
    """Rows that are the population: draws from them with replacement, and the exact errors on all of them.

    Scores of each class are sorted once, so that any bins are counted by their edges.
    """

    def __init__(self, scores: Floats, outcomes: npt.NDArray[Any]) -> None:
        """Scores and outcomes 0 or 1, both of shape (n,) or (n, K)."""
        z, y = (np.asarray(array).reshape(len(scores), -1) for array in (scores, outcomes))
        order = np.argsort(z, axis=0, kind="stable")
        self.n = len(z)
        self.sorted = np.take_along_axis(z, order, axis=0).T.copy()
        hits = np.take_along_axis(y, order, axis=0).T
        self.positives_up_to = np.hstack([np.zeros((len(hits), 1)), hits.cumsum(axis=1)])

    def judge(self, calibrator: Calibrator) -> Judged:
        """Errors of a calibrator on all rows; bins with equal outputs are one event, as the definition has it."""
        each = [self._of_class(k, m.edges, m.values) for k, m in enumerate(calibrator.maps)]
        return Judged(float(np.mean([one.squared_error for one in each])), float(np.mean([one.mse for one in each])))

    def cells(self, k: int, edges: Floats) -> tuple[Floats, Floats]:
        """Rows and positives of class ``k`` in each bin."""
        up_to = np.concatenate([[0], np.searchsorted(self.sorted[k], edges, side="right"), [self.n]])
        return np.diff(up_to).astype(float), np.diff(self.positives_up_to[k][up_to])

    def _of_class(self, k: int, edges: Floats, values: Floats) -> Judged:
        counts, positives = self.cells(k, edges)
        mse = (counts * values**2 - 2 * values * positives + positives).sum() / self.n
        return Judged(
            squared_error_of(counts / self.n, positives / np.maximum(counts, 1), values, merged=True), float(mse)
        )


@dataclass(frozen=True)
class PlattPopulation:
    """z uniform on [0, 1], P(y = 1 | z) = sigma(a logit z + c): Platt scaling fits it exactly."""

    a: float
    c: float

    def rate(self, z: Floats) -> Floats:
        """P(y = 1 | z), written without logit so that 0 and 1 need no clip."""
        odds = np.exp(self.c) * z**self.a
        return np.asarray(odds / (odds + (1 - z) ** self.a))

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, npt.NDArray[Any]]:
        """Scores and outcomes of n rows."""
        z = rng.uniform(size=n)
        return z, (rng.uniform(size=n) < self.rate(z)).astype(int)

    def squared_error(self, calibrator: Calibrator, merged: bool = False) -> float:
        """Exact squared calibration error, a bin at a time, or with bins of equal outputs as one."""
        (one_map,) = calibrator.maps
        masses, rates = exact_bins(self.rate, one_map.edges)
        return squared_error_of(masses, rates, one_map.values, merged=merged)


def exact_bins(rate: Callable[[Floats], Floats], edges: Floats) -> tuple[Floats, Floats]:
    """P(z in bin) and P(y = 1 | z in bin) for z uniform on [0, 1], by Gauss-Legendre quadrature in every bin."""
    ends = np.concatenate([[0.0], edges, [1.0]])
    masses, middles = np.diff(ends), (ends[1:] + ends[:-1]) / 2
    z = middles[:, None] + masses[:, None] / 2 * _NODES
    return masses, rate(z) @ _WEIGHTS / 2


def squared_error_of(masses: Floats, rates: Floats, values: Floats, *, merged: bool) -> float:
    """sum_j P_j (u_j - E[y | bin j])^2 over bins, or over distinct outputs u where ``merged``."""
    if not merged:
        return float(masses @ (values - rates) ** 2)
    outputs, output = np.unique(values, return_inverse=True)
    held = np.bincount(output, masses)
    positive = np.bincount(output, masses * rates)
    return float(held @ (outputs - positive / np.where(held > 0, held, 1)) ** 2)
