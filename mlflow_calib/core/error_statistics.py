"""The sufficient statistics of a calibration error, and its two squared estimates.

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
from mlflow_calib.errors import EvidenceError, InvalidInputError, raise_problems

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
#: A bin of fewer (effective) rows shows no variance and adds nothing to the debiased square.
ENOUGH_ROWS = 2 - 1e-9


@dataclass(frozen=True, eq=False)
class GroupMoments:
    """What the bounds by group need of the groups; the groups themselves are gone.

    With r_gj = n_gj ybar_j - k_gj and H the effective number of groups: ``M`` = H / (H - 1) R'R, shape (B, B);
    ``L`` the variance of the plug-in square by group; ``G`` the number of groups; ``H`` = n^2 / sum n_g^2.
    """

    M: Floats
    L: float
    G: int
    H: float

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as the evidence stores them."""
        return {"M": self.M.tolist(), "L": self.L, "G": self.G, "H": self.H}


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
        object.__setattr__(self, "outputs", np.asarray(self.outputs, dtype=np.float64))
        problems = _problems(self)
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
            moments = None if groups is None else _read_moments(groups)
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


def _whole_numbers(values: Any, name: str) -> Integers:
    array = np.asarray(values)
    whole = np.asarray(array, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(whole).all() or (whole != np.rint(whole)).any():
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


def _read_moments(groups: Mapping[str, Any]) -> GroupMoments:
    moments = GroupMoments(
        np.asarray(groups["M"], dtype=np.float64), float(groups["L"]), int(groups["G"]), float(groups["H"])
    )
    if not (np.isfinite(moments.M).all() and np.isfinite([moments.L, moments.H]).all()):
        raise InvalidInputError("group moments must be finite numbers")
    if moments.L < 0 or moments.G < 0 or moments.H < 0:
        raise InvalidInputError(f"L, G, H must not be negative, got {moments.L}, {moments.G}, {moments.H}")
    return moments
