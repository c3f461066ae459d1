"""Rows of the three steps for one binary problem, those of steps 2 and 3 in the order of their scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.parts import Parts
from mlflow_calib.core.reductions import BinaryProblem
from mlflow_calib.runtime import Floats


@dataclass(frozen=True, eq=False)
class StepRows:
    """Scores (m,) of some rows, with their outcomes and weights where there are any and they are needed."""

    scores: Floats
    outcomes: Floats | None = None
    weights: Floats | None = None

    def in_order(self) -> StepRows:
        """The same rows in the order of their scores."""
        if self.outcomes is None and self.weights is None:
            return StepRows(np.sort(self.scores))
        order = np.argsort(self.scores)
        others = (None if column is None else column[order] for column in (self.outcomes, self.weights))
        return StepRows(self.scores[order], *others)


@dataclass(frozen=True, eq=False)
class Steps:
    """Rows of T1, as they came, and of T2 and T3, sorted; one object where those are the same.

    ``labelled`` are sorted rows with outcomes for the bins to read: T3, or T1 where T3 has no labels.
    """

    one: StepRows
    two: StepRows
    three: StepRows
    labelled: StepRows


def steps_of(problem: BinaryProblem, parts: Parts, unlabeled: tuple[Any, Floats] | None, labels_in_bins: bool) -> Steps:
    """Rows of each step; ``unlabeled`` are the rows and scores of the same problem without labels.

    Outcomes of steps 2 and 3 are carried along only where ``labels_in_bins``.
    """

    def rows_of(part: int, outcomes: bool) -> StepRows:
        rows = parts.chosen(part, problem.rows)
        weights = None if problem.weights is None else problem.weights[rows]
        return StepRows(problem.scores[rows], problem.outcomes[rows] if outcomes else None, weights)

    one = rows_of(1, outcomes=True)
    if unlabeled is not None:
        rows, scores = unlabeled
        two, three = (StepRows(scores[parts.chosen(part, rows)]).in_order() for part in (2, 3))
        return Steps(one, two, three, one.in_order() if labels_in_bins else one)
    two = rows_of(2, labels_in_bins).in_order()
    three = two if parts.assigned is None else rows_of(3, labels_in_bins).in_order()
    return Steps(one, two, three, three)


@dataclass(frozen=True, eq=False)
class BinSums:
    """Sums over sorted rows in each of B bins.

    Attributes
    ----------
    counts : ndarray of int64, shape (B,)
        Rows.
    masses, effective : ndarray of float64, shape (B,)
        Weights, and the rows they are worth: (sum of weights)^2 / (sum of squared weights).
    sums : ndarray of float64, shape (B,)
        Weighted sums of the summed column.
    """

    counts: Any
    masses: Floats
    effective: Floats
    sums: Floats

    @classmethod
    def of(cls, rows: StepRows, column: Floats, edges: Floats) -> BinSums:
        """Sums of ``column`` (m,), in the order of the sorted rows, in the bins of the scores."""
        starts = np.concatenate([[0], np.searchsorted(rows.scores, edges, side="right")])
        counts = np.diff(starts, append=len(rows.scores)).astype(np.int64)
        held = counts > 0

        def total(values: Floats) -> Floats:
            out = np.zeros(len(counts))
            if held.any():
                out[held] = np.add.reduceat(values, starts[held])
            return out

        if rows.weights is None:
            masses = counts.astype(np.float64)
            return cls(counts, masses, masses, total(column))
        masses = total(rows.weights)
        effective = np.zeros_like(masses)
        if held.any():  # in units of the bin's largest weight, as squares of tiny ones are 0
            largest = np.maximum.reduceat(rows.weights, starts[held])
            relative = rows.weights / np.repeat(largest, counts[held])
            effective[held] = np.add.reduceat(relative, starts[held]) ** 2
            effective[held] /= np.add.reduceat(relative**2, starts[held])
        return cls(counts, masses, effective, total(rows.weights * column))

    @property
    def means(self) -> Floats:
        """Weighted means, within [0, 1]; 0 in a bin without rows."""
        return np.clip(self.sums / np.where(self.counts > 0, self.masses, 1.0), 0.0, 1.0)
