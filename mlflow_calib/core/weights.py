"""Sample weights: what is accepted, and how many rows they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlflow_calib.core.columns import numbers
from mlflow_calib.runtime import Floats

#: Weights up to two to this, and their squares, add up without overflow over any number of rows.
_LARGEST_EXPONENT = 200
#: Beside a weight of 1 one of this changes no float.
_NEXT_TO_NOTHING = 1e-15


def clean_weights(sample_weight: Any, n: int | None, problems: list[str]) -> Floats | None:
    """Weights as float64, shape (n,), or None where they are all the same; what is wrong goes to ``problems``.

    Only their proportions matter, so that equal weights are none at all. A weight of 0, or of less than 1e-15 of the
    largest, leaves its row out.

    Examples
    --------
    >>> clean_weights([2, 2, 2], 3, []) is None
    True
    >>> clean_weights([1, 2, 2], 3, []).tolist()
    [1.0, 2.0, 2.0]
    """
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, n, problems)
    if weights is None:
        return None
    if len(weights) and not weights.any():
        problems.append("sample_weight must be over 0 in some row, and all are 0")
        return None
    return None if not len(weights) or weights.min() == weights.max() else _of_middle_size(weights)


def checked_weights(sample_weight: Any, n: int | None, problems: list[str]) -> Floats | None:
    """Weights as they are, shape (n,), where they are finite and not negative; else None, and a problem more."""
    weights = numbers(sample_weight, "sample_weight", problems)
    if weights is None:
        return None
    if weights.ndim != 1 or (n is not None and len(weights) != n):
        wanted = "(n,)" if n is None else f"({n},)"
        problems.append(f"sample_weight must hold one number a row, shape {wanted}, got shape {weights.shape}")
        return None
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        shown = ", ".join(f"row {row}: {weights[row]}" for row in bad[:3])
        problems.append(
            f"sample_weight must hold finite numbers of at least 0. {len(bad)} of {len(weights)} rows do not: {shown}"
        )
        return None
    return weights


def _of_middle_size(weights: Floats) -> Floats:
    """The same proportions where squares and sums would leave the range of floats, by a power of two.

    A weight of next to nothing beside the largest is 0: no row of it can be told from none.
    """
    largest = weights.max()
    _, exponent = np.frexp(largest)
    lost = weights < largest * _NEXT_TO_NOTHING
    if lost.any():
        weights = np.where(lost, 0.0, weights)
    return weights if abs(exponent) <= _LARGEST_EXPONENT else np.ldexp(weights, -exponent)


def effective_n(weights: Floats) -> float:
    """Rows that the weights are worth: (sum of weights)^2 / (sum of squared weights), at most their number.

    Examples
    --------
    >>> import numpy as np
    >>> effective_n(np.array([2.0, 2.0])), round(effective_n(np.array([1.0, 3.0])), 3)  # 4^2 / 10
    (2.0, 1.6)
    """
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled @ scaled))
