"""Log losses of rows, added up with the infinite ones counted: no clip decides a figure that decides a promotion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.paired import PairedDifference, PairedSums
from mlflow_calib.errors import InvalidInputError


def row_log_losses(outputs: Any, outcomes: Any) -> Floats:
    """Negative logarithm of the probability given to what happened, a row; infinite where that was 0.

    Parameters
    ----------
    outputs, outcomes : arrays, shape (n,) or (n, K)
        Probabilities, and 0 and 1. Binary: -y ln p - (1 - y) ln(1 - p). Multi-class: -sum_k y_k ln p_k; rows that do
        not sum to one are taken as they are.

    Returns
    -------
    array, shape (n,)

    Examples
    --------
    >>> row_log_losses([0.5, 0.0, 1.0], [0, 1, 1]).round(3).tolist()
    [0.693, inf, 0.0]
    >>> row_log_losses([[0.25, 0.75]], [[0, 1]]).round(3).tolist()
    [0.288]
    """
    p, y = np.asarray(outputs, dtype=np.float64), np.asarray(outcomes)
    if p.shape != y.shape or p.ndim not in (1, 2):
        raise InvalidInputError(f"outputs and outcomes must have one shape, (n,) or (n, K), got {p.shape}, {y.shape}")
    happened = y.astype(bool)
    with np.errstate(divide="ignore"):
        if p.ndim == 1:
            losses = -np.where(happened, np.log(p), np.log1p(-p))
        else:
            losses = -np.where(happened, np.log(p), 0.0).sum(axis=1)
    return np.asarray(losses + 0.0)  # -0.0 is no loss either


@dataclass(frozen=True)
class LossSums:
    """Rows, sum of their finite losses, and how many losses are infinite; mergeable.

    Examples
    --------
    >>> sums = LossSums.from_rows([0.5, 0.3]).merge(LossSums.from_rows([0.1]))
    >>> sums.n, round(sums.mean, 6)
    (3, 0.3)
    >>> sums.merge(LossSums.from_rows([math.inf])).mean
    inf
    """

    n: int
    total: float
    n_infinite: int = 0

    @classmethod
    def from_rows(cls, losses: Any) -> LossSums:
        """Sum up losses, shape (n,)."""
        values = np.asarray(losses, dtype=np.float64)
        infinite = np.isposinf(values)
        return cls(len(values), float(values[~infinite].sum()), int(infinite.sum()))

    def merge(self, *others: LossSums) -> LossSums:
        """Sums of all rows together, in any order."""
        parts = (self, *others)
        return LossSums(
            sum(part.n for part in parts),
            math.fsum(part.total for part in parts),
            sum(part.n_infinite for part in parts),
        )

    @property
    def mean(self) -> float:
        """Mean loss; infinite where one row's is."""
        if self.n == 0:
            raise InvalidInputError("a mean loss needs at least one row, got none")
        return math.inf if self.n_infinite else self.total / self.n


@dataclass(frozen=True, eq=False)
class PairedLossSums:
    """Paired differences of losses of which some may be infinite: ``finish`` then gives None; mergeable.

    Examples
    --------
    >>> round(PairedLossSums.from_rows([0.5, 0.4], [0.4, 0.4]).finish().mean, 6)
    0.05
    >>> PairedLossSums.from_rows([math.inf, 0.3], [0.4, 0.4]).finish() is None
    True
    """

    finite: PairedSums
    n_infinite: int

    @classmethod
    def from_rows(cls, first_losses: Any, second_losses: Any, groups: Any = None) -> PairedLossSums:
        """Sum up the rows of two models, shapes (n,)."""
        first, second = np.asarray(first_losses, dtype=np.float64), np.asarray(second_losses, dtype=np.float64)
        if first.shape != second.shape:
            raise InvalidInputError(f"paired losses must have one shape (n,), got {first.shape} and {second.shape}")
        infinite = np.isposinf(first) | np.isposinf(second)
        first, second = np.where(infinite, 0.0, first), np.where(infinite, 0.0, second)
        return cls(PairedSums.from_rows(first, second, groups), int(infinite.sum()))

    def merge(self, *others: PairedLossSums) -> PairedLossSums:
        """Sums of all rows together, in any order; groups are matched by id."""
        parts = (self, *others)
        merged = self.finite.merge(*(other.finite for other in others))
        return PairedLossSums(merged, sum(part.n_infinite for part in parts))

    def finish(self) -> PairedDifference | None:
        """Mean difference and its standard error; None where a loss of either model is infinite."""
        return None if self.n_infinite else self.finite.finish(skewed=True)
