"""Sample weights: what is accepted, and how many rows they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlflow_calib.runtime import Floats


def clean_weights(sample_weight: Any, n: int | None, problems: list[str]) -> Floats | None:
    """Weights as float64, shape (n,), or None where they are all the same; what is wrong goes to ``problems``.

    Only their proportions matter, so that equal weights are none at all. A weight of 0 leaves its row out.

    Examples
    --------
    >>> clean_weights([2, 2, 2], 3, []) is None
    True
    >>> clean_weights([1, 2, 2], 3, []).tolist()
    [1.0, 2.0, 2.0]
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        problems.append(f"sample_weight must hold numbers: {error}")
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
    if len(weights) and not weights.any():
        problems.append("sample_weight must be over 0 in some row, and all are 0")
        return None
    return None if not len(weights) or weights.min() == weights.max() else weights


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
