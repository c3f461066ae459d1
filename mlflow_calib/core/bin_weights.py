"""What sample weights leave of the rows of each bin: their sums, and the effective number of rows.

A row twice is not two rows: the noise of a weighted mean is that of (sum w)^2 / sum w^2 rows of equal weight (Kish
1965, section 11.7). All weights doubled change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.weights import checked_weights
from mlflow_calib.errors import raise_problems

Floats = npt.NDArray[np.float64]
#: Within these the squares of the largest weights, and sums of them, are floats.
_SMALLEST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class BinWeights:
    """Sums over the rows of each bin; all arrays have shape (B,).

    Parameters
    ----------
    sums, squares : array of float
        Sums of w and of w^2.
    positives : array of float
        Sums of w over the positives.

    Examples
    --------
    >>> weights = BinWeights([3.0], [5.0], [2.0])  # weights 1 and 2, the second row positive
    >>> weights.effective_counts.tolist(), weights.label_means.round(3).tolist()
    ([1.8], [0.667])
    """

    sums: Floats
    squares: Floats
    positives: Floats

    def __post_init__(self) -> None:
        for name in ("sums", "squares", "positives"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))

    @classmethod
    def from_rows(cls, weights: Floats, outcomes: Floats, index: npt.NDArray[Any], n_bins: int) -> BinWeights:
        """Sum up rows; ``index`` is the bin of each."""
        summed = (weights, weights**2, weights * outcomes)
        return cls(*(np.bincount(index, each, n_bins).astype(np.float64) for each in summed))

    @property
    def label_means(self) -> Floats:
        """Weighted label mean of each bin, and 0 in an empty one."""
        # Sums of the same weights in another order may exceed one another in the last bit.
        return np.minimum(self.positives / np.where(self.sums > 0, self.sums, 1.0), 1.0)

    @property
    def effective_counts(self) -> Floats:
        """(sum w)^2 / sum w^2 of each bin, and 0 in an empty one."""
        return np.asarray(self.sums**2 / np.where(self.squares > 0, self.squares, 1.0))

    @property
    def effective_n(self) -> float:
        """(sum w)^2 / sum w^2 over all rows."""
        squares = float(self.squares.sum())
        return float(self.sums.sum()) ** 2 / squares if squares > 0 else 0.0

    def merge(self, *others: BinWeights) -> BinWeights:
        """Sums of all rows together."""
        parts = (self, *others)
        names = ("sums", "squares", "positives")
        return BinWeights(*(np.sum([getattr(part, name) for part in parts], axis=0) for name in names))

    def chosen(self, bins: Any) -> BinWeights:
        """The sums of some bins alone."""
        return BinWeights(self.sums[bins], self.squares[bins], self.positives[bins])

    def problems(self, counts: npt.NDArray[Any]) -> list[str]:
        """What is wrong beside these counts of rows."""
        arrays = (self.sums, self.squares, self.positives)
        if any(array.shape != counts.shape for array in arrays):
            return [f"weight sums must have the shape of counts, {counts.shape}"]
        if not all(np.isfinite(array).all() and (array >= 0).all() for array in arrays):
            return ["weight sums must be finite and not negative"]
        if (self.positives > self.sums * (1 + 1e-9)).any():
            return ["the weight of the positives must be at most that of the rows"]
        return []

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {"w": self.sums.tolist(), "w2": self.squares.tolist(), "wk": self.positives.tolist()}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> BinWeights:
        """Read what ``to_dict`` wrote."""
        return cls(document["w"], document["w2"], document["wk"])


def check_weights(weights: Any, n: int) -> Floats:
    """Weights as float64, equal ones too: other parts of the same data may hold unequal ones.

    Raises
    ------
    InvalidInputError
        Where they are not one a row, finite, not negative, and of a size that sums of squares hold. All may be 0.
    """
    problems: list[str] = []
    checked = checked_weights(weights, n, problems)
    if checked is not None and len(checked) and checked.any() and not _SMALLEST <= checked.max() <= _LARGEST:
        problems.append(
            f"sample_weight must have its largest number within {_SMALLEST} and {_LARGEST}, so that squares add up, "
            f"got {checked.max()}; multiply the weights of all parts by the same number"
        )
    if checked is None or problems:
        raise_problems(problems)
    return checked
