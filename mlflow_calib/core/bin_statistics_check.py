"""Whether sums over bins can be sums of rows at all: what is refused before it is merged or judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.bin_weights import BinWeights
from mlflow_calib.core.columns import numbers
from mlflow_calib.runtime import Floats

#: Addition order moves a sum by this share.
_ROUNDING = 1e-9


def whole_numbers(values: Any, name: str, problems: list[str]) -> npt.NDArray[np.int64]:
    """Counts of shape (B,) as int64; what is wrong with them is added to ``problems``."""
    found = numbers(values, name, problems)
    if found is None:
        return np.zeros(0, dtype=np.int64)
    if found.ndim != 1 or not (np.isfinite(found) & (found >= 0) & (found == np.rint(found)) & (found < 2**53)).all():
        problems.append(f"{name} must be whole numbers of at least 0, shape (B,), got {found.tolist()!r:.200}")
        return np.zeros(0, dtype=np.int64)
    return found.astype(np.int64)


def sums_problems(sums: Mapping[str, Any], values: Any, weights: BinWeights | None) -> list[str]:
    """Problems of the sums of ``BinStatistics``, arrays that have been read as numbers."""
    counts, positives = sums["counts"], sums["positives"]
    if len({array.shape for array in sums.values()}) != 1 or counts.ndim != 1 or not len(counts):
        shapes = {name: array.shape for name, array in sums.items()}
        return [f"all sums must have one shape (B,), B at least 1, got {shapes}"]
    problems = []
    if (positives > counts).any():
        problems.append(f"positives must be at most counts in every bin, got {positives.tolist()} of {counts.tolist()}")
    if values is not None and (values.shape != counts.shape or not ((values >= 0) & (values <= 1)).all()):
        problems.append(f"values must be {len(counts)} numbers in [0, 1], one a bin, got {values.tolist()!r:.200}")
    if weights is not None:
        problems += weights.problems(counts)
    if problems:
        return problems
    masses = counts if weights is None else weights.sums
    largest = masses * (1 + _ROUNDING)
    for name in sorted(sums.keys() - {"counts", "positives"}):
        if not ((sums[name] >= 0) & (sums[name] <= largest)).all():
            problems.append(f"{name} must lie between 0 and the rows, or their weight, of each bin")
    return problems


def row_problems(u: Floats, y: Floats, j: npt.NDArray[Any], n_bins: Any, values: Floats | None) -> list[str]:
    """Problems of rows to add up: outputs u, outcomes y and bins j, shape (n,), and fixed values of the bins."""
    if not isinstance(n_bins, (int, np.integer)) or isinstance(n_bins, bool) or n_bins < 1:
        return [f"n_bins must be a whole number of at least 1, got {n_bins!r}"]
    if not (u.ndim == 1 and u.shape == y.shape == j.shape):
        return [f"outputs, outcomes and index must have one shape (n,), got {u.shape}, {y.shape}, {j.shape}"]
    problems = []
    if j.dtype.kind not in "iu" or (j.size and not 0 <= j.min() <= j.max() < n_bins):
        problems.append(f"index must hold whole numbers from 0 to {n_bins - 1}, n_bins - 1")
    if not ((y == 0) | (y == 1)).all():
        problems.append("outcomes must be 0 or 1; code the labels first")
    if not ((u >= 0) & (u <= 1)).all():
        problems.append("outputs must be numbers in [0, 1]")
    if values is not None and (values.shape != (n_bins,) or not ((values >= 0) & (values <= 1)).all()):
        problems.append(f"values must be {n_bins} numbers in [0, 1], one a bin, got {values.tolist()}")
    return problems


def merge_problems(first: Any, other: Any) -> list[str]:
    """Why two ``BinStatistics`` are no parts of one whole."""
    problems = []
    if first.n_bins != other.n_bins:
        problems.append(f"parts must have the same bins, got {first.n_bins} and {other.n_bins}")
    elif (first.values is None) != (other.values is None) or not np.array_equal(
        np.asarray(first.values), np.asarray(other.values)
    ):
        problems.append("parts must have the same fixed values; they come from different models")
    if (first.group_table is None) != (other.group_table is None):
        problems.append("either all parts have groups or none has")
    if (first.weights is None) != (other.weights is None):
        problems.append("either all parts have weights or none has")
    return problems
