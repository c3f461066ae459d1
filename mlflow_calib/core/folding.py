"""Folding: edges between values of g become edges between scores, so that prediction never needs g."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.cuts import Index, edges_at
from mlflow_calib.runtime import Floats

Positions = npt.NDArray[np.int64]
_LOWEST = np.iinfo(np.int64).min
#: Floats on each side of an edge, counted from it, at which g must stand on its side.
_NEAR = np.concatenate([np.arange(1, 17), 2 ** np.arange(5, 41)])
#: Units in the last place by which an edge of g moves until it does.
_MOVES = np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8])


def folded_edges(ordered: Floats, rising: Floats, cuts: Index, g: Callable[[Floats], Floats]) -> Floats:
    """Edges in score space that sort every float64 score into the bin in which the edges of g sort its g.

    The edge of g at a cut is midway between the values on both sides. Its fold is the largest score at which g does
    not exceed it, found by bisection over the floats in between, which stand in the order of their bits. Where g, for
    rounding, crosses the edge to and fro from one float to the next, the edge moves by the few units in the last place
    it takes to be crossed once.

    Parameters
    ----------
    ordered : ndarray of float64, shape (n,)
        Scores, sorted.
    rising : ndarray of float64, shape (n,)
        g at each, non-decreasing.
    cuts : ndarray of intp, shape (B - 1,)
        Numbers of scores below each cut; g differs across it.
    g : callable
        Non-decreasing in the score, shapes (m,) -> (m,).

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([0.1, 0.2, 0.6, 0.9])
    >>> edge = folded_edges(z, z**2, np.array([2]), np.square)  # g = z^2, (.04 + .36) / 2 = .2
    >>> round(float(edge[0]), 6), bool(edge[0] ** 2 <= 0.2 < np.nextafter(edge[0], 1) ** 2)
    (0.447214, True)
    """
    middles = edges_at(rising, cuts)
    edges, open_ = np.empty(len(cuts)), np.arange(len(cuts))
    for move in _MOVES:
        limits = np.clip(middles[open_] + move * np.spacing(middles[open_]), rising[cuts[open_] - 1], None)
        limits = np.minimum(limits, np.nextafter(rising[cuts[open_]], -np.inf))
        found = _last_within(ordered[cuts[open_] - 1], ordered[cuts[open_]], limits, g)
        clean = _crossed_once(found, g)
        kept = clean if move else np.ones_like(clean)
        edges[open_[kept]] = found[kept]
        open_ = open_[~clean]
        if not len(open_):
            break
    return edges


def _last_within(lower: Floats, upper: Floats, limits: Floats, g: Callable[[Floats], Floats]) -> Floats:
    """Largest float of [lower, upper) at which g does not exceed the limit, for g that rises between; shapes (m,)."""
    below, above = _positions(lower), _positions(upper)
    while (above - below > 1).any():
        middle = (below & above) + ((below ^ above) >> 1)  # floor of the mean, without overflow
        within = g(_floats(middle)) <= limits
        below, above = np.where(within, middle, below), np.where(within, above, middle)
    return _floats(below)


def _crossed_once(edges: Floats, g: Callable[[Floats], Floats]) -> npt.NDArray[np.bool_]:
    """Whether g exceeds its value at the edge nowhere below, and everywhere above, as far as is looked."""
    places = _positions(edges)[:, None]
    below, above = (g(_floats(near).ravel()).reshape(near.shape) for near in (places - _NEAR, places + _NEAR))
    limits = g(edges)[:, None]
    return np.asarray((below <= limits).all(axis=1) & (above > limits).all(axis=1))


def _positions(values: Floats) -> Positions:
    """Place of each float64 among all in increasing order; 0 for both zeros."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, _LOWEST - bits, bits)


def _floats(positions: Positions) -> Floats:
    return np.where(positions < 0, _LOWEST - positions, positions).view(np.float64)
