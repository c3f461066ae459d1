"""Rows counted by pairs of classes' bins: mergeable, and enough to say how the classes of an estimate depend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.class_dependence import ClassDependence, StackedBins, rho_of
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats, Integers
from mlflow_calib.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class CrossCounts:
    """Counts over all rows for bins a and b of any two classes; arrays have shape (A, A), A the bins of all classes.

    Attributes
    ----------
    rows : array of int
        Rows that lie in a and in b.
    first : array of int
        Those among them that are positive for the class of a.
    both : array of int
        Those that are positive for the classes of a and of b; zero between classes of which a row has but one.

    Examples
    --------
    Two classes of two bins each; rows of the first class lie in its upper and in the other's lower bin.

    >>> index = np.array([[1, 0], [1, 0], [0, 1]])
    >>> truths = np.array([[True, False], [False, True], [False, True]])
    >>> counts = CrossCounts.from_rows(index, truths, [2, 2])
    >>> counts.rows[1].tolist(), counts.first[1].tolist()
    ([0, 2, 2, 0], [0, 1, 1, 0])
    """

    rows: Integers
    first: Integers
    both: Integers

    @classmethod
    def from_rows(
        cls, index: npt.NDArray[Any], truths: npt.NDArray[np.bool_], n_bins: Sequence[int], *, one_class: bool = False
    ) -> CrossCounts:
        """Count rows.

        Parameters
        ----------
        index : array of int, shape (n, K)
            Bin of each row in each class, from 0 within the class.
        truths : array of bool, shape (n, K)
        n_bins : sequence of int
            Bins of each class.
        one_class : bool
            Every row is positive for one class at most, so that none is for two.
        """
        columns = [np.ascontiguousarray(index[:, k]) for k in range(len(n_bins))]
        positive = [np.flatnonzero(truths[:, k]) for k in range(len(n_bins))]
        starts = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.intp)
        tables = tuple(np.zeros((starts[-1], starts[-1]), dtype=np.int64) for _ in range(3))
        for k in range(len(n_bins)):
            mine = [column[positive[k]] for column in columns]
            for other in range(len(n_bins)):
                block = (slice(starts[k], starts[k + 1]), slice(starts[other], starts[other + 1]))
                shape = (n_bins[k], n_bins[other])
                if other >= k:
                    tables[0][block] = _pairs(columns[k], columns[other], shape)
                    tables[0][block[::-1]] = tables[0][block].T
                tables[1][block] = _pairs(mine[k], mine[other], shape)
                if other == k or not one_class:
                    kept = truths[positive[k], other]
                    tables[2][block] = _pairs(mine[k][kept], mine[other][kept], shape)
        return cls(*tables)

    def merge(self, *others: CrossCounts) -> CrossCounts:
        """Counts of all rows together, exact, in any order."""
        parts = (self, *others)
        if len({part.rows.shape for part in parts}) != 1:
            raise InvalidInputError("parts must have the same bins in every class")
        return CrossCounts(
            *(np.sum([getattr(part, name) for part in parts], axis=0) for name in ("rows", "first", "both"))
        )

    def dependence(self, statistics: Sequence[ErrorStatistics]) -> ClassDependence:
        """How the classes depend, from these counts and each class's own statistics."""
        bins = StackedBins.of(statistics)
        other = bins.classes[:, np.newaxis] != bins.classes[np.newaxis, :]
        products, lone = self._residual_products(bins.means)
        scale = bins.inverse_roots
        covariance = products * np.outer(scale, scale)
        # Less its mean, or classes that move as one would count as noise what they share.
        spread = self._squared_products(bins.means) - products**2 / np.maximum(self.rows, 1)
        noise = spread * np.outer(scale**2, scale**2)
        cross = float((covariance**2 - noise)[other].sum())
        gaps = bins.gaps
        weights = 4 * products + 2 * (lone * gaps[np.newaxis, :] + lone.T * gaps[:, np.newaxis])
        weights += self.rows * np.outer(gaps, gaps)
        mean = float(bins.masses @ gaps**2)
        influence = float(gaps @ weights @ gaps) - mean**2 / max(statistics[0].n, 1)
        own = sum(_own_influence(s) for s in statistics)
        return ClassDependence(max(cross, 0.0), rho_of(influence, own, len(statistics)))

    def _residual_products(self, means: Floats) -> tuple[Floats, Floats]:
        """Sums over the rows in a and b of r_a r_b, and of r_a, where r = ybar - y."""
        across = np.outer(means, means) * self.rows - means[np.newaxis, :] * self.first
        products = across - means[:, np.newaxis] * self.first.T + self.both
        return products, means[:, np.newaxis] * self.rows - self.first

    def _squared_products(self, means: Floats) -> Floats:
        """Sums over the rows in a and b of r_a^2 r_b^2."""
        zero, one = means**2, (1 - means) ** 2
        only_a, only_b = self.first - self.both, self.first.T - self.both
        neither = self.rows - self.first - only_b
        return np.asarray(
            np.outer(one, one) * self.both
            + np.outer(one, zero) * only_a
            + np.outer(zero, one) * only_b
            + np.outer(zero, zero) * neither
        )


def _own_influence(s: ErrorStatistics) -> float:
    """Sum over rows of the squared influence on one class's own squared error."""
    gaps = np.where(s.counts >= 2, s.outputs - s.label_means, 0.0)
    mean = float(s.counts @ gaps**2)
    variances = s.label_means * (1 - s.label_means)
    return float((s.counts * gaps**2) @ (4 * variances + gaps**2)) - mean**2 / max(s.n, 1)


def _pairs(first: npt.NDArray[Any], second: npt.NDArray[Any], shape: tuple[int, int]) -> Integers:
    cells = first * np.intp(shape[1])
    cells += second
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)
