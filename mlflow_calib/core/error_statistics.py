"""The sufficient statistics of a calibration error, and its two squared estimates from them.

Notation of Kumar et al. 2019, section 5: for bin j of evaluation data n_j rows, k_j positives, w_j = n_j / n,
ybar_j = k_j / n_j, and u_j the value the model says there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.bin_weights import BinWeights
from mlflow_calib.core.columns import numbers
from mlflow_calib.core.group_moments import GroupMoments
from mlflow_calib.core.squares import debiased_squared_of, label_means_of, plugin_squared_of
from mlflow_calib.errors import EvidenceError, InvalidInputError, raise_problems
from mlflow_calib.runtime import Floats

__all__ = [
    "ErrorStatistics",
    "Floats",
    "Integers",
    "debiased_squared",
    "debiased_squared_of",
    "plugin_squared",
    "plugin_squared_of",
]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ErrorStatistics:
    """Rows, positives and value of each bin: every binary estimate and bound follows from these.

    Parameters
    ----------
    counts : array of int, shape (B,)
        n_j, rows of the evaluation data in each bin; a bin may be empty.
    positives : array of int, shape (B,)
        k_j, positives among them.
    outputs : array of float, shape (B,)
        u_j, the value in [0, 1] the model says in each bin.
    group_moments : GroupMoments, optional
        Where rows of one group move together.
    weights : BinWeights, optional
        Where rows count unequally. A bin then has the effective number of rows (sum w)^2 / sum w^2, its label mean and
        its share are weighted, and weights that are all 2 give what weights of 1 give.

    Raises
    ------
    InvalidInputError
        Where these do not fit together; all problems at once.

    Examples
    --------
    >>> s = ErrorStatistics(counts=[60, 40], positives=[12, 30], outputs=[0.2, 0.7])
    >>> s.n, s.n_bins
    (100, 2)
    >>> s.to_dict()
    {'n': [60, 40], 'k': [12, 30], 'u': [0.2, 0.7], 'groups': None}
    """

    counts: Integers
    positives: Integers
    outputs: Floats
    group_moments: GroupMoments | None = None
    weights: BinWeights | None = None

    def __post_init__(self) -> None:
        for name in ("counts", "positives"):
            object.__setattr__(self, name, _whole_numbers(getattr(self, name), name))
        problems: list[str] = []
        outputs = numbers(self.outputs, "outputs", problems)
        if outputs is not None:
            object.__setattr__(self, "outputs", outputs)
            problems += _problems(self)
        if problems:
            raise_problems(problems)

    @property
    def n(self) -> int:
        """Rows of the evaluation data."""
        return int(self.counts.sum())

    @property
    def n_bins(self) -> int:
        """Bins, empty ones included."""
        return len(self.counts)

    @property
    def masses(self) -> npt.NDArray[Any]:
        """Rows of each bin, or the sums of their weights."""
        return self.counts if self.weights is None else self.weights.sums

    @property
    def shares(self) -> Floats:
        """w_j: share of each bin in the rows, or in their weight; they sum to one where there are rows."""
        total = self.masses.sum()
        return np.asarray(self.masses / (total if total > 0 else 1), dtype=np.float64)

    @property
    def effective_counts(self) -> npt.NDArray[Any]:
        """n_j, or with weights (sum w)^2 / sum w^2 of each bin."""
        return self.counts if self.weights is None else self.weights.effective_counts

    @property
    def effective_positives(self) -> npt.NDArray[Any]:
        """k_j, or with weights the label mean times the effective count."""
        return self.positives if self.weights is None else self.weights.label_means * self.effective_counts

    @property
    def effective_n(self) -> float:
        """Rows, or with weights (sum w)^2 / sum w^2 over all rows."""
        return float(self.n) if self.weights is None else self.weights.effective_n

    @property
    def label_means(self) -> Floats:
        """ybar_j, weighted where there are weights; 0 in an empty bin."""
        return label_means_of(self.counts, self.positives) if self.weights is None else self.weights.label_means

    @property
    def weighted_shares(self) -> Floats | None:
        """Shares of the bins where rows count unequally, else None: they follow from the counts."""
        return None if self.weights is None else self.shares

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the evidence: ``n``, ``k``, ``u`` a bin, ``groups``, and ``weights`` where there are any."""
        groups = None if self.group_moments is None else self.group_moments.to_dict()
        counts, positives, outputs = self.counts.tolist(), self.positives.tolist(), self.outputs.tolist()
        document = {"n": counts, "k": positives, "u": outputs, "groups": groups}
        return document if self.weights is None else {**document, "weights": self.weights.to_dict()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ErrorStatistics:
        """Read what ``to_dict`` wrote; every figure computed from it is the same to the bit.

        Raises
        ------
        EvidenceError
            Where the document is damaged.
        """
        try:
            groups = document["groups"]
            moments = None if groups is None else GroupMoments.from_dict(groups)
            weights = document.get("weights")
            read = None if weights is None else BinWeights.from_dict(weights)
            return cls(document["n"], document["k"], document["u"], moments, read)
        except (KeyError, TypeError, ValueError) as error:
            raise EvidenceError(f"bin statistics are damaged ({error}); evaluate again") from error


def plugin_squared(s: ErrorStatistics) -> float:
    """Plug-in estimate of the squared calibration error: sum_j w_j (u_j - ybar_j)^2.

    The smaller the better, minimum zero. Biased upward by about sum_j ybar_j (1 - ybar_j) / n: a perfectly
    calibrated model with many bins looks bad. An empty bin adds zero.

    Examples
    --------
    >>> s = ErrorStatistics([60, 40], [12, 30], [0.2, 0.7])  # .4 (.7 - .75)^2
    >>> round(plugin_squared(s), 12)
    0.001
    """
    return float(plugin_squared_of(s.effective_counts, s.effective_positives, s.outputs, s.weighted_shares))


def debiased_squared(s: ErrorStatistics) -> float:
    """Debiased estimate of the squared calibration error, signed (Kumar et al. 2019, section 5).

    T = sum over bins with n_j >= 2 of w_j [(u_j - ybar_j)^2 - ybar_j (1 - ybar_j) / (n_j - 1)]. Unbiased for fixed
    u_j, hence negative about every second time for a perfectly calibrated model; clip the reported root alone.

    Examples
    --------
    >>> s = ErrorStatistics([60, 40], [12, 30], [0.2, 0.7])
    >>> round(debiased_squared(s) - (0.001 - 0.6 * 0.16 / 59 - 0.4 * 0.1875 / 39), 12)
    0.0
    """
    return float(debiased_squared_of(s.effective_counts, s.effective_positives, s.outputs, s.weighted_shares))


def _whole_numbers(values: Any, name: str) -> Integers:
    problems: list[str] = []
    array = numbers(values, name, problems)
    if array is None:
        raise_problems(problems)
    if array.ndim != 1 or not (np.isfinite(array) & (array == np.rint(array)) & (np.abs(array) < 2**53)).all():
        raise InvalidInputError(f"{name} must be whole numbers of shape (B,), got {values!r}")
    return array.astype(np.int64)


def _problems(s: ErrorStatistics) -> list[str]:
    shapes = {s.counts.shape, s.positives.shape, s.outputs.shape}
    if len(shapes) != 1 or s.n_bins == 0:
        return [f"counts, positives and outputs must have one shape (B,), B >= 1, got {sorted(shapes)}"]
    problems = []
    if (s.positives < 0).any() or (s.positives > s.counts).any():
        problems.append(f"positives must lie in 0..counts, got {s.positives.tolist()} of {s.counts.tolist()}")
    if not ((s.outputs >= 0) & (s.outputs <= 1)).all():
        problems.append(f"outputs must lie in [0, 1], got {s.outputs.tolist()}")
    if s.weights is not None:
        problems += s.weights.problems(s.counts)
    if s.group_moments is not None and s.group_moments.M.shape != (s.n_bins, s.n_bins):
        problems.append(f"M must have shape ({s.n_bins}, {s.n_bins}), got {s.group_moments.M.shape}")
    return problems
