"""Where sorted values are cut into bins, and where the edge at a cut lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.runtime import Floats

Index = npt.NDArray[np.intp]
#: Weights that are whole multiples of 1/1024 count as rows of a common unit.
_FRACTION = 1024
#: Values looked at first.
_FIRST = 1024


def uniform_mass_cuts(ordered: Floats, n_bins: int, weights: Floats | None = None) -> Index:
    """Cuts of the sorted values (n,) into runs of equal weight: the numbers of values below each cut, increasing.

    ``weights`` (n,) stand in the same order; None counts values.
    """
    if weights is None and _shows_one_alone(ordered):
        return _between_distinct(ordered, _sizes(len(ordered), n_bins).clip(1))
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(ordered))
    reached = ends if weights is None else np.cumsum(weights)[ends - 1]
    moved = np.unique(ends[np.searchsorted(reached, _goals(reached, n_bins), side="left")])
    return moved[moved < len(ordered)]


def _shows_one_alone(ordered: Floats) -> bool:
    """Whether a value stands once among the first, so that the common unit of all runs is one row."""
    first = ordered[:_FIRST]
    differs = first[1:] != first[:-1]
    return bool((differs[1:] & differs[:-1]).any())


def _sizes(n: int, n_bins: int) -> Index:
    """Ends of all but the last of the groups of ``numpy.array_split``."""
    bins = np.arange(1, n_bins)
    size, longer = divmod(n, n_bins)
    return size * bins + np.minimum(bins, longer)


def _goals(reached: npt.NDArray[Any], n_bins: int) -> npt.NDArray[Any]:
    """Weight below each cut, from the weight reached at the end of each run of equal values."""
    runs = np.diff(reached, prepend=0)
    if runs.min() == 1 and reached.dtype.kind == "i":
        unit: float = 1
    else:
        scaled = runs * float(_FRACTION)
        if (scaled % 1).any() or reached[-1] > 2.0**43:
            shares = np.arange(1, n_bins) * (1 - 1e-12)  # what rounding alone misses is reached
            return np.asarray(reached[-1] / n_bins * shares)
        unit = int(np.gcd.reduce(scaled.astype(np.int64))) / _FRACTION
    return np.asarray(unit * _sizes(round(reached[-1] / unit), n_bins))


def equal_width_cuts(ordered: Floats, n_bins: int, weights: Floats | None = None) -> Index:  # noqa: ARG001
    """Cuts of the sorted probabilities (n,) at 1/B, 2/B, ...; a value on an edge belongs to the lower bin."""
    return _between_distinct(ordered, np.searchsorted(ordered, np.arange(1, n_bins) / n_bins, side="right"))


def _between_distinct(ordered: Floats, cuts: Index) -> Index:
    inside = cuts[(cuts > 0) & (cuts < len(ordered))]
    moved = np.unique(np.searchsorted(ordered, ordered[inside - 1], side="right"))
    return moved[moved < len(ordered)]


def edges_at(ordered: Floats, cuts: Index) -> Floats:
    """Edges midway between the sorted scores on both sides of each cut, or the lower where no float lies between."""
    lower, upper = ordered[cuts - 1], ordered[cuts]
    middle = lower / 2 + upper / 2
    return np.where((middle >= lower) & (middle < upper), middle, lower)
