"""Columns as callers hand them over, made arrays without a guess.

numpy makes text of a list that mixes texts with numbers or gaps ("nan" of NaN), forgets the mask of a masked array,
reads numbers out of texts and dates, and drops the imaginary part of complex numbers. None of that happens here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.errors import InvalidInputError

#: The one type that the items of a list must have for numpy to leave them as they are.
_TEXTS = {"U": str, "S": bytes}


def column(values: Any, name: str) -> npt.NDArray[Any]:
    """Values as an array: masked ones are None, and texts beside other things stay apart from them.

    Raises
    ------
    InvalidInputError
        Where the values have no one shape.

    Examples
    --------
    >>> masked = np.ma.array([7, 8], mask=[True, False])
    >>> column([float("nan"), "yes"], "labels").tolist(), column(masked, "keys").tolist()
    ([nan, 'yes'], [None, 8])
    """
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        plain = np.asarray(values)
        if masked.any():
            plain = plain.astype(object)
            plain[masked] = None
        return plain
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"{name} must be an array of one shape: {error}") from error
    text = _TEXTS.get(array.dtype.kind)
    if text and array.ndim == 1 and isinstance(values, (list, tuple)) and not all(isinstance(v, text) for v in values):
        array = np.empty(len(values), dtype=object)
        array[:] = values
    return array


def numbers(values: Any, name: str, problems: list[str]) -> runtime.Floats | None:
    """Values as float64, missing ones as NaN; None, and a problem more, where they are no numbers."""
    try:
        return runtime.as_numbers(values, name)
    except ValueError as error:
        problems.append(str(error))
        return None


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # several values in one place are something else
        return False


def is_real(value: Any) -> bool:
    """Whether a value is one real number; True and False are none.

    >>> is_real(0.5), is_real(np.float32(0.5)), is_real("0.5"), is_real(True), is_real(np.array([0.5]))
    (True, True, False, False, False)
    """
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
