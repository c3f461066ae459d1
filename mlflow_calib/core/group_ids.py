"""Group ids that mean the same in every part of the data: one text an id, one integer code a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.columns import column, is_missing
from mlflow_calib.errors import InvalidInputError

Codes = npt.NDArray[np.intp]


def group_codes(groups: Any, n: int) -> tuple[tuple[str, ...], Codes]:
    """Sorted ids of the groups as text, and for each of ``n`` rows the position of its id.

    Integers, integral floats and their text are one id (1, 1.0, "1"), as are a date, the midnight of that date, and
    their ISO text: parts of the same data that were read with different column types still merge by group.

    Raises
    ------
    InvalidInputError
        Where the groups are not one a row, or a row has none (None, NaN, NaT, an empty text).

    Examples
    --------
    >>> group_codes(["b", "a", "b"], 3)
    (('a', 'b'), array([1, 0, 1]))
    """
    array = column(groups, "groups")
    if array.shape != (n,):
        raise InvalidInputError(f"groups must have shape ({n},), one id a row, got {array.shape}")
    found, inverse = _distinct(array)
    texts = [_as_text(value) for value in found]
    missing = np.array([text is None for text in texts], dtype=bool)
    if missing.any():
        count = int(np.count_nonzero(missing[inverse]))
        raise InvalidInputError(f"every row must have a group, {count} of {n} have none; drop them or name a group")
    ids = tuple(sorted({str(text) for text in texts}))
    position = {text: code for code, text in enumerate(ids)}
    codes = np.array([position[str(text)] for text in texts], dtype=np.intp)
    return ids, codes[inverse]


def common_ids(tables: list[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Codes]]:
    """The union of several sorted id lists, and for each list the positions of its ids in the union."""
    ids = tuple(sorted(set().union(*tables)))
    position = {text: code for code, text in enumerate(ids)}
    return ids, [np.array([position[text] for text in table], dtype=np.intp) for table in tables]


def _distinct(array: npt.NDArray[Any]) -> tuple[list[Any], Codes]:
    """Distinct raw values and the position of each row's value among them."""
    if array.dtype.kind in "biufM":
        values, inverse = np.unique(array, return_inverse=True)
        return list(values), inverse.reshape(-1)
    # Text and objects go through a dictionary: linear, and mixed types need no order.
    seen: dict[Any, int] = {}
    try:
        codes = np.fromiter((seen.setdefault(value, len(seen)) for value in array.tolist()), np.intp, len(array))
    except TypeError as error:
        raise InvalidInputError(f"groups must be texts, numbers or dates: {error}") from error
    return list(seen), codes


def _as_text(value: Any) -> str | None:
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64):
        value = str(value.astype("datetime64[us]"))
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    text = str(value.isoformat() if hasattr(value, "isoformat") else value)
    midnight, _, rest = text.replace(" ", "T", 1).partition("T")
    is_midnight = len(midnight) == 10 and rest.rstrip("0") in ("00:00:", "00:00:00.")
    return (midnight if is_midnight else text) or None
