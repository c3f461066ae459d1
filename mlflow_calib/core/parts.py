"""Which rows of the recalibration data each of the three steps sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.columns import numbers
from mlflow_calib.core.scores import check_choice, key_order
from mlflow_calib.core.split import thirds
from mlflow_calib.errors import InvalidInputError

PARTS = ("auto", "disjoint", "shared")
#: "auto" takes disjoint parts where T3 then holds at least this many rows a bin.
ROWS_PER_BIN = 100


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows of T1, T2 and T3.

    Attributes
    ----------
    name : str
        "disjoint", or "shared" where steps 2 and 3 use the same rows.
    sizes : tuple of int
        Rows of each part.
    assigned : ndarray of int8 or None
        Part of each row; None where all steps that read these rows read every one.
    unlabeled : bool
        Whether ``assigned`` speaks of unlabeled rows, 2 or 3, while T1 holds every labelled one.
    """

    name: str
    sizes: tuple[int, int, int]
    assigned: npt.NDArray[np.int8] | None
    unlabeled: bool = False

    def chosen(self, part: int, rows: Any = slice(None)) -> Any:
        """What selects the rows of a part from the rows ``rows`` of its data: indices, or the slice of all."""
        if self.assigned is None or (self.unlabeled and part == 1):
            return slice(None)
        return np.flatnonzero(self.assigned[rows] == part)


def choose_parts(n: int, n_bins: int, parts: Any, keys: Any, seed: int, n_unlabeled: int | None = None) -> Parts:
    """Parts of ``n`` rows as ``fit_calibrator`` takes them: a word, or 1, 2 or 3 for each row.

    With unlabeled rows T1 holds all ``n`` labelled ones, and the unlabeled are halved between T2 and T3, or shared.

    Examples
    --------
    >>> choose_parts(600, 2, "auto", None, 0).sizes, choose_parts(599, 2, "auto", None, 0).sizes
    ((200, 200, 200), (599, 599, 599))
    >>> choose_parts(50, 2, "auto", None, 0, n_unlabeled=1000).sizes
    (50, 500, 500)
    """
    order = None if keys is None else key_order(keys, n)
    if n_unlabeled is not None:
        return _of_unlabeled(n, n_unlabeled, n_bins, parts, seed)
    if not isinstance(parts, str):
        return _disjoint(_given(n, parts))
    check_choice("parts", parts, PARTS)
    if parts == "shared" or (parts == "auto" and n < 3 * ROWS_PER_BIN * n_bins):
        return Parts("shared", (n, n, n), None)
    if n < 3:
        raise InvalidInputError(f'disjoint parts need at least 3 rows, got {n}; add rows or use parts="shared"')
    assigned = np.empty(n, dtype=np.int8)
    assigned[np.random.default_rng(seed).permutation(n) if order is None else order] = thirds(n)
    return _disjoint(assigned)


def _of_unlabeled(n: int, n_unlabeled: int, n_bins: int, parts: Any, seed: int) -> Parts:
    if not isinstance(parts, str):
        raise InvalidInputError(
            "parts as an array speaks of labelled rows, which are all in T1 where unlabeled= is given; "
            'use "auto", "disjoint" or "shared"'
        )
    check_choice("parts", parts, PARTS)
    if parts == "shared" or (parts == "auto" and n_unlabeled < 2 * ROWS_PER_BIN * n_bins):
        return Parts("shared", (n, n_unlabeled, n_unlabeled), None, unlabeled=True)
    if n_unlabeled < 2:
        raise InvalidInputError('disjoint parts need at least 2 unlabeled rows, got 1; add rows or use parts="shared"')
    two = n_unlabeled - n_unlabeled // 2
    assigned = np.full(n_unlabeled, 3, dtype=np.int8)
    assigned[np.random.default_rng(seed).permutation(n_unlabeled)[:two]] = 2
    return Parts("disjoint", (n, two, n_unlabeled - two), assigned, unlabeled=True)


def _given(n: int, parts: Any) -> Any:
    problems: list[str] = []
    given = numbers(parts, "parts", problems)
    if given is None or given.shape != (n,) or {*np.unique(given).tolist()} != {1, 2, 3}:
        got = problems[0] if given is None else f"got shape {given.shape} with values {np.unique(given)[:5].tolist()}"
        raise InvalidInputError(
            f'parts must be "auto", "disjoint", "shared", or an array of 1, 2, 3, each present, for the {n} rows; {got}'
        )
    return given.astype(np.int8)


def _disjoint(assigned: npt.NDArray[np.int8]) -> Parts:
    one, two, three = (int(np.count_nonzero(assigned == part)) for part in (1, 2, 3))
    return Parts("disjoint", (one, two, three), assigned)
