"""The rows a scaling function is fitted to, and the cells of nearly equal log odds that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.scaling_families import log_odds
from mlflow_calib.runtime import Floats

#: Candidates for the boundary c: log odds are taken of scores held within [c, 1 - c].
BOUNDARIES = np.array([1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 2e-2, 5e-2, 1e-1])
#: Cells of equal width that the range of the log odds is cut into.
N_CELLS = 4096
#: Rows looked at first, and rows at a time.
FEW, BLOCK = 4096, 65_536


@dataclass(frozen=True, eq=False)
class TeachingRows:
    """Rows (n,) to fit to, of positive weight.

    Attributes
    ----------
    x : ndarray of float64
        Log odds of the scores at the smallest boundary, or the scores where they are log odds.
    outcomes : ndarray of float64
        0 and 1, both present.
    weights : ndarray of float64, or None
        Scaled to mean 1; None for all 1.
    probabilities : bool
        Whether the scores are probabilities, so that a boundary is to be chosen.
    """

    x: Floats
    outcomes: Floats
    weights: Floats | None
    probabilities: bool

    @classmethod
    def of(cls, scores: Floats, outcomes: Floats, weights: Floats | None, score_kind: str) -> TeachingRows:
        """Rows of positive weight, weights scaled to mean 1."""
        if weights is not None:
            held = weights > 0
            scores, outcomes, weights = scores[held], outcomes[held], weights[held]
            weights = weights * (len(weights) / weights.sum())
        probabilities = score_kind == "probability"
        return cls(log_odds(scores, float(BOUNDARIES[0]) if probabilities else None), outcomes, weights, probabilities)

    def held(self, boundary: float | None) -> TeachingRows:
        """The same rows with log odds held at a boundary."""
        if boundary is None or boundary <= BOUNDARIES[0]:
            return self
        return TeachingRows(clipped(self.x, np.array([boundary]))[0], self.outcomes, self.weights, self.probabilities)

    @property
    def effective_share(self) -> float:
        """Effective rows, (sum of weights)^2 / (sum of squared weights), a row."""
        return 1.0 if self.weights is None else len(self.weights) / float(self.weights @ self.weights)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Smallest and largest log odds."""
        return float(self.x.min()), float(self.x.max())

    def targets(self, smoothed: bool) -> Floats:
        """What is fitted to for outcomes 0 and 1: these, or the targets of Platt 1999 of effective rows."""
        if not smoothed:
            return np.array([0.0, 1.0])
        positive = self.outcomes.sum() if self.weights is None else self.weights @ self.outcomes
        n1, n0 = np.array([positive, len(self.x) - positive]) * self.effective_share
        return np.array([1 / (n0 + 2), (n1 + 1) / (n1 + 2)])

    def separated(self, at_zero: bool = False) -> bool:
        """Whether every positive scores at least as high as every negative (and, if asked, 0 stands between)."""
        lowest, highest = _meeting(self.x[:FEW], self.outcomes[:FEW])
        if lowest < highest:  # in a few rows already
            return False
        lowest, highest = _meeting(self.x, self.outcomes)
        if at_zero:
            return bool(lowest >= 0 >= highest and lowest > highest)
        return bool(lowest >= highest and self.ends[0] < self.ends[1])

    def boundaries(self) -> Floats:
        """The candidates that move any score, and the smallest; infinite for log odds."""
        if not self.probabilities:
            return np.array([np.inf])
        moves = _ends(BOUNDARIES) < max(-self.ends[0], self.ends[1])
        moves[0] = True
        return np.asarray(BOUNDARIES[moves])


@dataclass(frozen=True, eq=False)
class Points:
    """Weighted points a function is fitted to: rows, or points that stand for many rows.

    Attributes
    ----------
    x, totals, outcomes : ndarray, shape (m,)
        Log odds, weight, and outcome 0 or 1.
    """

    x: Floats
    totals: Floats
    outcomes: Floats

    @classmethod
    def of_rows(cls, rows: TeachingRows) -> Points:
        """One point a row."""
        return cls(rows.x, np.ones(len(rows.x)) if rows.weights is None else rows.weights, rows.outcomes)

    @classmethod
    def of_cells(cls, rows: TeachingRows) -> Points:
        """Of each cell and outcome the mean log odds, less and plus one standard deviation.

        Sums over these points equal sums over rows up to the third order in the width of a cell.
        """
        totals, places, squares = _cell_sums(rows)
        held = np.flatnonzero(totals)
        first, second = places[held] / totals[held], squares[held] / totals[held]
        origin, width = _grid(rows)
        spread = np.sqrt(np.maximum(second - first * first, 0.0))
        two = spread > 1e-7
        means = origin + (held // 2 + first) * width
        x = np.concatenate([means - spread * width * two, (means + spread * width)[two]])
        shares = np.where(two, 0.5, 1.0) * totals[held]
        return cls(x, np.concatenate([shares, shares[two]]), np.concatenate([held % 2, (held % 2)[two]]) * 1.0)

    def aims(self, goals: Floats) -> Floats:
        """What is fitted to at each point: ``goals`` of outcomes 0 and 1."""
        return np.asarray(goals[self.outcomes.astype(np.intp)])


def _meeting(x: Floats, outcomes: Floats) -> tuple[float, float]:
    """Lowest log odds of a positive, and highest of a negative."""
    positive = outcomes > 0
    return float(np.where(positive, x, np.inf).min()), float(np.where(positive, -np.inf, x).max())


def _grid(rows: TeachingRows) -> tuple[float, float]:
    """Origin and width of the cells."""
    origin, highest = rows.ends
    return origin, max((highest - origin) / N_CELLS, float(np.finfo(float).tiny))


def cell_of(rows: TeachingRows, part: slice = slice(None)) -> tuple[npt.NDArray[np.intp], Floats, float, float]:
    """Twice the cell plus the outcome of each row, its place in the cell, and the cells' origin and width."""
    origin, width = _grid(rows)
    place = (rows.x[part] - origin) / width
    group = place.astype(np.intp)
    place -= group
    group *= 2
    group += rows.outcomes[part] > 0
    return group, place, origin, width


def _cell_sums(rows: TeachingRows) -> Floats:
    """Weights, places and squared places summed over each cell and outcome, a block of rows at a time."""
    sums = np.zeros((3, 2 * N_CELLS + 2))
    for start in range(0, len(rows.x), BLOCK):
        part = slice(start, start + BLOCK)
        group, place, _, _ = cell_of(rows, part)
        weights = None if rows.weights is None else rows.weights[part]
        for power, column in enumerate((None, place, place * place)):
            weighted = column if weights is None else weights if column is None else weights * column
            sums[power] += np.bincount(group, weighted, sums.shape[1])
    return sums


def clipped(x: Floats, boundaries: Floats) -> Floats:
    """Log odds x (n,) at each of the boundaries (C,): shape (C, n). Infinite boundaries leave them."""
    if np.isinf(boundaries).any():
        return np.broadcast_to(x, (len(boundaries), len(x)))
    ends = _ends(boundaries)[:, None]
    return np.clip(x, -ends, ends)


def _ends(boundaries: Floats) -> Floats:
    return np.log1p(-boundaries) - np.log(boundaries)
