"""Step 2 of the scaling-binning calibrator: where one bin ends and the next begins.

A bin is (lower, upper], the first one closed. Edges lie between distinct scores, so equal scores share a bin and no
bin is empty of the scores it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.core.columns import numbers
from mlflow_calib.core.cuts import Index, edges_at, equal_width_cuts, uniform_mass_cuts
from mlflow_calib.errors import InvalidInputError, raise_problems

Floats = runtime.Floats
BINNINGS = ("uniform-mass", "equal-width")
MAX_BINS = 1000


@dataclass(frozen=True, eq=False)
class BinningScheme:
    """Bins of a score: B - 1 increasing inner edges, and how many bins were asked for.

    Attributes
    ----------
    edges : ndarray of float64, shape (B - 1,)
        Inner edges in the space of the scores; the outer bins have no end.
    requested : int
        Number of bins asked for. Fewer result where scores tie.

    Raises
    ------
    InvalidInputError
        For edges that are not increasing finite numbers.
    """

    edges: Floats
    requested: int

    def __post_init__(self) -> None:
        problems: list[str] = []
        edges = numbers(self.edges, "edges", problems)
        if edges is not None:
            object.__setattr__(self, "edges", edges + 0.0)  # no edge is -0.0
            if edges.ndim != 1 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                problems.append(f"edges must be increasing finite numbers, shape (B - 1,), got {edges.tolist()!r:.200}")
        if problems:
            raise_problems(problems)

    @property
    def n_bins(self) -> int:
        """Number of bins there are."""
        return len(self.edges) + 1

    def index(self, scores: npt.ArrayLike) -> Index:
        """Bin of each score, 0 to ``n_bins - 1``. Shapes (n,) -> (n,)."""
        return runtime.bin_index(np.asarray(scores, dtype=np.float64), self.edges)


def uniform_mass(scores: npt.ArrayLike, n_bins: int, weights: npt.ArrayLike | None = None) -> BinningScheme:
    """Bins that hold equally many of the given scores, or equal shares of their weight, as far as ties allow.

    The sorted scores are cut into groups of the sizes of ``numpy.array_split``. A cut inside a run of equal scores
    moves to the upper end of the run, and cuts that then coincide count once, so fewer bins may result. Whole weights
    count as so many rows (fractions of 1/1024 in their proportions), others cut at 1/B, 2/B, ... of their sum. Rows
    that all stand twice are split as if they stood once, so that doubled rows, weights of 2 and no weights make the
    same bins.

    Parameters
    ----------
    scores : array_like, shape (n,)
        Finite numbers; n at least 1.
    n_bins : int
        From 1 to 1000.
    weights : array_like, shape (n,), optional
        Finite numbers over 0.

    Returns
    -------
    BinningScheme

    Raises
    ------
    InvalidInputError
        For an ``n_bins`` outside its range, or no scores.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4.1, step 2 ("uniform-mass").

    Examples
    --------
    >>> scheme = uniform_mass([0.1, 0.2, 0.2, 0.2, 0.4, 0.8], n_bins=3)
    >>> scheme.edges.round(3).tolist(), scheme.requested, scheme.n_bins
    ([0.3], 3, 2)
    >>> uniform_mass([0.2] * 30 + [0.7] * 10, n_bins=4).n_bins
    2
    >>> uniform_mass([0.1, 0.2, 0.4, 0.8], n_bins=2, weights=[3, 1, 1, 1]).edges.round(3).tolist()
    [0.15]
    """
    ordered = _ordered(scores)
    check_n_bins(n_bins)
    mass = None if weights is None else _positive_weights(weights, len(ordered))[np.argsort(np.asarray(scores))]
    return BinningScheme(edges_at(ordered, uniform_mass_cuts(ordered, n_bins, mass)), int(n_bins))


def equal_width(scores: npt.ArrayLike, n_bins: int) -> BinningScheme:
    """Bins of equal width over [0, 1], those empty of the given scores joined to a neighbour.

    The given scores fall into exactly the bins (j/B, (j + 1)/B] that hold any of them; the edges stand midway between
    the neighbouring scores, as everywhere here.

    Parameters
    ----------
    scores : array_like, shape (n,)
        Probabilities in [0, 1]; n at least 1.
    n_bins : int
        From 1 to 1000.

    Returns
    -------
    BinningScheme

    Raises
    ------
    InvalidInputError
        For an ``n_bins`` outside its range, or no scores.

    Examples
    --------
    >>> equal_width([0.05, 0.1, 0.2, 0.95], n_bins=10).edges.round(3).tolist()
    [0.15, 0.575]
    """
    ordered = _ordered(scores)
    check_n_bins(n_bins)
    if ordered[0] < 0 or ordered[-1] > 1:
        raise InvalidInputError(f"scores must lie in [0, 1], got {ordered[0]} to {ordered[-1]}")
    return BinningScheme(edges_at(ordered, equal_width_cuts(ordered, n_bins)), int(n_bins))


def distinct(scores: npt.ArrayLike) -> BinningScheme:
    """One bin for each distinct score: the bins of a model whose outputs are few.

    Examples
    --------
    >>> distinct([0.7, 0.2, 0.7]).n_bins
    2
    """
    values = np.unique(_ordered(scores))
    return BinningScheme(edges_at(values, np.arange(1, len(values))), len(values))


def check_n_bins(n_bins: Any) -> None:
    """Refuse a number of bins outside 1 to 1000."""
    whole = isinstance(n_bins, (int, np.integer)) and not isinstance(n_bins, bool)
    if not (whole and 1 <= n_bins <= MAX_BINS):
        raise InvalidInputError(f"n_bins must be an integer from 1 to {MAX_BINS}, got {n_bins!r}")


def _ordered(scores: npt.ArrayLike) -> Floats:
    problems: list[str] = []
    given = numbers(scores, "scores", problems)
    if given is None:
        raise_problems(problems)
    if given.ndim != 1 or not len(given):
        raise InvalidInputError(f"scores must be at least one finite number, shape (n,), got shape {given.shape}")
    ordered = np.sort(given)
    if not np.isfinite(ordered[[0, -1]]).all():
        bad = np.flatnonzero(~np.isfinite(given))
        rows = f"{len(bad)} of {len(given)} are not, first {bad[:3].tolist()}"
        raise InvalidInputError(f"scores must be at least one finite number, and all finite; {rows}")
    return ordered


def _positive_weights(weights: npt.ArrayLike, n: int) -> Floats:
    problems: list[str] = []
    given = numbers(weights, "weights", problems)
    if given is not None and (given.shape != (n,) or not (np.isfinite(given) & (given > 0)).all()):
        problems.append(f"weights must be finite numbers over 0, shape ({n},), got shape {given.shape}")
    if given is None or problems:
        raise_problems(problems)
    return given
