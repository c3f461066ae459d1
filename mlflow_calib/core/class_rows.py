"""The rows behind a marginal estimate, bin by bin in every class: what its bounds need beyond each class's own sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from mlflow_calib.core.bound_terms import BoundTerms
from mlflow_calib.core.class_dependence import (
    MOST_CROSS_BINS,
    ClassDependence,
    StackedBins,
    marginal_row_terms,
    rho_of,
)
from mlflow_calib.core.cross_counts import CrossCounts
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats

#: Random signs by which the squared entries of a covariance too large to write down are summed.
PROBES = 32


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Bins and outcomes of every row in every class.

    Attributes
    ----------
    index : array of int, shape (n, K)
        Bin within the class.
    truths : array of bool, shape (n, K)
    n_bins : tuple of int
        Bins of each class.
    one_class : bool
        A row is positive for one class at most.
    weights : array, shape (n,), or None
    groups : array of int, shape (n,), or None
        Code of each row's group.
    """

    index: npt.NDArray[Any]
    truths: npt.NDArray[np.bool_]
    n_bins: tuple[int, ...]
    one_class: bool
    weights: Floats | None = None
    groups: npt.NDArray[np.intp] | None = None

    @property
    def bound_kind(self) -> str:
        """Where the variance between classes comes from: "groups", "cross-class counts" or "rows"."""
        if self.groups is not None:
            return "groups"
        return "rows" if self.weights is not None or sum(self.n_bins) > MOST_CROSS_BINS else "cross-class counts"

    def terms(self, statistics: Sequence[ErrorStatistics]) -> BoundTerms:
        """Level-free terms of both bounds on the mean over classes."""
        if self.bound_kind == "cross-class counts":
            counts = CrossCounts.from_rows(self.index, self.truths, self.n_bins, one_class=self.one_class)
            return marginal_row_terms(statistics, counts.dependence(statistics))
        bins = StackedBins.of(statistics)
        influence = self._influence(bins)
        own, total = float((influence**2).sum()), float((influence.sum(axis=1) ** 2).sum())
        residuals = self._residuals(bins)
        dependence = ClassDependence(self._cross(bins, residuals), rho_of(total, own, len(self.n_bins)))
        by_row = marginal_row_terms(statistics, dependence)
        return by_row if self.groups is None else self._group_terms(bins, statistics, by_row, residuals, influence)

    def _columns(self) -> npt.NDArray[np.intp]:
        starts = np.concatenate([[0], np.cumsum(self.n_bins)[:-1]]).astype(np.intp)
        return self.index + starts[np.newaxis, :]

    def _residuals(self, bins: StackedBins) -> Floats:
        """Residuals w (ybar - y), shape (n, K)."""
        residuals: Floats = bins.means[self._columns()] - self.truths
        return residuals if self.weights is None else residuals * self.weights[:, np.newaxis]

    def _influence(self, bins: StackedBins) -> Floats:
        """Influence of each row on each class's squared error, times the total mass: w (2 d r + d^2 - P_k)."""
        gaps = bins.gaps[self._columns()]
        n_classes = len(self.n_bins)
        total = max(float(bins.masses.sum()) / n_classes, 1e-300)
        plugin = np.bincount(bins.classes, bins.masses * bins.gaps**2, n_classes) / total
        moved = gaps**2 - plugin[np.newaxis, :]
        if self.weights is not None:
            moved *= self.weights[:, np.newaxis]
        return np.asarray(2 * gaps * self._residuals(bins) + moved)

    def _cross(self, bins: StackedBins, residuals: Floats) -> float:
        """Sum of S_ab^2 over pairs of bins of different classes, less its noise."""
        scaled = residuals * bins.inverse_roots[self._columns()]
        own = np.bincount(self._columns().ravel(), (scaled**2).ravel(), len(bins.classes))
        squares = scaled**2
        noise = float((squares.sum(axis=1) ** 2).sum() - (squares**2).sum())
        noise -= self._shared(scaled, bins.classes)
        return max(0.0, squared_norm(self._matrix(scaled)) - float((own**2).sum()) - noise)

    def _shared(self, scaled: Floats, classes: npt.NDArray[np.intp]) -> float:
        """Sum over pairs of bins of S_ab^2 / n_ab, which is no noise; 0 where there are too many pairs to count."""
        if len(classes) > MOST_CROSS_BINS:
            return 0.0
        residuals, ones = self._matrix(scaled), self._matrix(np.ones(scaled.shape))
        products, counts = (residuals.T @ residuals).toarray(), (ones.T @ ones).toarray()
        other = classes[:, np.newaxis] != classes[np.newaxis, :]
        return float((products**2 / np.maximum(counts, 1))[other].sum())

    def _matrix(self, values: Floats, units: npt.NDArray[np.intp] | None = None) -> Any:
        """Values (n, K) as a sparse matrix, shape (rows or groups, bins of all classes)."""
        n, n_classes = values.shape
        owners = np.arange(n) if units is None else units
        shape = (int(owners.max()) + 1, sum(self.n_bins))
        places = (np.repeat(owners, n_classes), self._columns().ravel())
        return csr_array((values.ravel(), places), shape=shape)

    def _group_terms(
        self,
        bins: StackedBins,
        statistics: Sequence[ErrorStatistics],
        by_row: BoundTerms,
        residuals: Floats,
        influence: Floats,
    ) -> BoundTerms:
        """The form of ``group_terms``, on the bins of all classes and the mean of their squared errors."""
        codes = np.asarray(self.groups)
        n_classes, mass = len(self.n_bins), float(statistics[0].masses.sum())
        sizes = np.bincount(codes, self.weights)
        effective = mass**2 / float(sizes @ sizes)
        factor = effective / (effective - 1) if effective > 1 else 1.0
        spread = self._matrix(residuals * bins.inverse_roots[self._columns()], codes)
        fourth, trace = factor**2 * squared_norm(spread), factor * float((spread.data**2).sum())
        plugin = float(bins.masses @ bins.gaps**2) / mass / n_classes
        by_group = np.bincount(codes, influence.sum(axis=1)) / n_classes
        slope = factor * float(by_group @ by_group) / mass**2 / plugin if plugin > 0 else 0.0
        return replace(
            by_row,
            lower_centre=plugin - trace / mass / n_classes,
            v0=2 * fourth / (mass * n_classes) ** 2,
            c=max(float(by_row.c), slope),
            c_of_rows=float(by_row.c),
            degrees_of_freedom=effective - 1,
            nu=trace**2 / fourth if fourth > 0 else 1.0,
        )


def squared_norm(matrix: Any) -> float:
    """Sum of the squared entries of R'R, R sparse of shape (units, bins).

    Exact where bins or units are few; else by random signs q, as E |R'R q|^2 is that sum, two standard errors added.
    """
    units, bins = matrix.shape
    if min(units, bins) <= MOST_CROSS_BINS:
        product = matrix.T @ matrix if bins <= units else matrix @ matrix.T
        return float((csr_array(product).data ** 2).sum())
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(bins, PROBES))
    probes = np.asarray((matrix.T @ (matrix @ signs)) ** 2).sum(axis=0)
    return float(probes.mean() + 2 * probes.std(ddof=1) / np.sqrt(PROBES))
