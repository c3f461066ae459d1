"""Which rows of the recalibration data each of the three steps sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.scores import check_choice, key_order
from mlflow_calib.core.split import thirds
from mlflow_calib.errors import InvalidInputError

#: "auto" takes disjoint thirds where T3 then holds at least this many rows a bin.
ROWS_PER_BIN = 100


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of T1, T2 and T3: indices of shape (n_i,), or the slice of all.

    Attributes
    ----------
    name : str
        "disjoint" or "shared".
    one, two, three
        What selects the rows of an array (n,).
    sizes : tuple of int
        Rows of each.
    """

    name: str
    one: Any
    two: Any
    three: Any
    sizes: tuple[int, int, int]


def choose_parts(n: int, n_bins: int, parts: Any, keys: Any, seed: int) -> Parts:
    """Parts of ``n`` rows as ``fit_calibrator`` takes them: a word, or 1, 2 or 3 for each row.

    Examples
    --------
    >>> choose_parts(600, 2, "auto", None, 0).sizes, choose_parts(599, 2, "auto", None, 0).sizes
    ((200, 200, 200), (599, 599, 599))
    """
    order = None if keys is None else key_order(keys, n)
    if not isinstance(parts, str):
        return _disjoint(_given(n, parts))
    check_choice("parts", parts, ("auto", "disjoint", "shared"))
    if parts == "shared" or (parts == "auto" and n < 3 * ROWS_PER_BIN * n_bins):
        return Parts("shared", slice(None), slice(None), slice(None), (n, n, n))
    if n < 3:
        raise InvalidInputError(f'disjoint parts need at least 3 rows, got {n}; add rows or use parts="shared"')
    assigned = np.empty(n, dtype=np.int8)
    assigned[np.random.default_rng(seed).permutation(n) if order is None else order] = thirds(n)
    return _disjoint(assigned)


def _given(n: int, parts: Any) -> Any:
    given = np.asarray(parts)
    if given.shape != (n,) or {*np.unique(given).tolist()} != {1, 2, 3}:
        raise InvalidInputError(
            f'parts must be "auto", "disjoint", "shared", or an array of 1, 2, 3, each present, for the {n} rows; '
            f"got shape {given.shape} with values {np.unique(given)[:5].tolist()}"
        )
    return given


def _disjoint(assigned: Any) -> Parts:
    one, two, three = (np.flatnonzero(assigned == part) for part in (1, 2, 3))
    return Parts("disjoint", one, two, three, (len(one), len(two), len(three)))
