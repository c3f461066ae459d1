"""Labels in the model's own words, and the classes they belong to: stated by the caller, never guessed from order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.columns import column, is_missing
from mlflow_calib.errors import InvalidInputError

Index = npt.NDArray[np.intp]
Label = str | int | float | bool
#: Whole labels that span no more than this are numbered by a table.
MOST_CODES = 100_000


@dataclass(frozen=True, eq=False)
class Labels:
    """Distinct values of a column as plain Python values, and the position of each row's own among them.

    Attributes
    ----------
    values : list
    codes : ndarray of intp, shape (n,)
    """

    values: list[Any]
    codes: Index

    def shown(self, chosen: Sequence[Any]) -> str:
        """The chosen values, each with the count and the first of its rows."""
        parts = []
        for value in chosen[:10]:
            place = next(place for place, other in enumerate(self.values) if other is value)
            rows = np.flatnonzero(self.codes == place)
            parts.append(f"{value!r} ({len(rows)} rows, first {', '.join(map(str, rows[:3]))})")
        return ", ".join(parts) + (f" and {len(chosen) - 10} more" if len(chosen) > 10 else "")

    def missing(self) -> Index:
        """Rows whose value is None, NaN, NaT or pandas.NA."""
        absent = np.array([is_missing(value) for value in self.values], dtype=bool)
        return np.flatnonzero(absent[self.codes])

    def wrong(self) -> list[Any]:
        """Values that are there and are no labels."""
        return [value for value in self.values if not is_missing(value) and not is_label(value)]

    def only_labels(self) -> Labels:
        """The same where rows without a label have the position -1."""
        places = [place for place, value in enumerate(self.values) if not is_missing(value) and is_label(value)]
        numbered = np.full(len(self.values), -1, dtype=np.intp)
        numbered[places] = np.arange(len(places))
        return Labels([self.values[place] for place in places], numbered[self.codes])


def factorize(values: Any) -> Labels:
    """Distinct values of an array (n,), and each row's position among them.

    Numbers, strings and booleans come sorted; an array of objects keeps the order of first appearance. Texts beside
    other things stay apart from them, and masked values are None.

    Raises
    ------
    InvalidInputError
        For another shape, and for dates, bytes and complex numbers, which are no labels.

    Examples
    --------
    >>> found = factorize(["b", "a", "b"])
    >>> found.values, found.codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    array = column(values, "labels")
    if array.ndim != 1:
        raise InvalidInputError(f"one value a row is due, shape (n,), got shape {array.shape}")
    if array.dtype.kind not in "biufUO":
        shown = array[:1].astype(object).tolist()
        raise InvalidInputError(f"texts, whole numbers or booleans are due, got {array.dtype}: {shown}; convert them")
    if array.dtype.kind in "iu" and len(array) > 0 and int(array.max()) - int(array.min()) < MOST_CODES:
        return _factorize_small(array)
    if array.dtype != object:
        distinct, codes = np.unique(array, return_inverse=True)
        return Labels(distinct.tolist(), codes)
    positions: dict[Any, int] = {}
    found = (positions.setdefault(value, len(positions)) for value in array.tolist())
    try:
        codes = np.fromiter(found, dtype=np.intp, count=len(array))
    except TypeError as error:
        raise InvalidInputError(f"texts, whole numbers or booleans are due: {error}") from error
    return Labels([plain(value) for value in positions], codes)


def _factorize_small(array: npt.NDArray[Any]) -> Labels:
    """Whole numbers of a small range: a table in place of a sort."""
    lowest = int(array.min())
    offsets = array.astype(np.intp) - lowest if array.dtype != np.uint64 else (array - array.min()).astype(np.intp)
    present = np.flatnonzero(np.bincount(offsets))
    table = np.empty(int(present[-1]) + 1, dtype=np.intp)
    table[present] = np.arange(len(present))
    return Labels([lowest + offset for offset in present.tolist()], table[offsets])


def is_label(value: Any) -> bool:
    """Whether a plain value can name a class: a text, a whole number of any type, or a boolean.

    >>> is_label("yes"), is_label(2.0), is_label(0.5), is_label(b"yes"), is_label(None)
    (True, True, False, False, False)
    """
    return isinstance(value, (str, int)) or (isinstance(value, float) and value.is_integer())


def plain(value: Any) -> Any:
    """A numpy scalar as the Python value it holds."""
    return value.item() if isinstance(value, np.generic) else value


def binary_classes(
    seen: Labels, classes: Sequence[Any] | None, positive_class: Any, problems: list[str]
) -> tuple[tuple[Label, ...], Any]:
    """Classes of a binary problem and the positive one; what is wrong with them is added to ``problems``.

    The positive class may be left out for 0/1 and False/True alone. Classes that are not stated are these, or the
    label seen beside the positive class and that.
    """
    positive = plain(positive_class)
    if positive is not None and not is_label(positive):
        problems.append(f"positive_class must be a text, a whole number or a boolean, got {positive!r}")
        positive = None
    if classes is not None:
        stated = _stated(classes, problems)
        if len(stated) != 2:
            problems.append(f"classes of a binary problem must be two, got {list(stated)[:10]}")
        _refuse_unknown(seen, stated, problems)
    elif {*seen.values} | ({positive} - {None}) <= {0, 1}:
        booleans = bool(seen.values) and all(isinstance(value, bool) for value in seen.values)
        stated = (False, True) if booleans else (0, 1)
    else:
        stated = (*(value for value in seen.values if value != positive), *(() if positive is None else (positive,)))
        if len(stated) > 2:
            beside = "" if positive is None else f"; positive_class is {positive!r}"
            problems.append(f"labels of a binary problem must be of two classes, got {seen.shown(seen.values)}{beside}")
            return stated, positive
    if positive is None and {*stated} == {0, 1}:
        positive = 1
    if positive not in stated:
        known = f"{list(stated)[:10]}" if classes is not None else seen.shown(seen.values)
        problems.append(
            "positive_class must be stated, as one of the classes, unless they are 0/1 or False/True; "
            f"got {positive!r}, and classes {known}"
        )
        return stated, positive
    return stated, stated[stated.index(positive)]


def column_classes(
    seen: Labels, classes: Sequence[Any] | None, n_columns: int, problems: list[str]
) -> tuple[Label, ...]:
    """Classes of the columns, by default 0 .. K-1; what is wrong with them is added to ``problems``."""
    stated = tuple(range(n_columns)) if classes is None else _stated(classes, problems)
    if len(stated) != n_columns:
        problems.append(f"classes must name the {n_columns} columns of scores, got {len(stated)}: {list(stated)[:10]}")
    _refuse_unknown(seen, stated, problems)
    return stated


def indicators(
    labels: Any, classes: Sequence[Any] | None, n_columns: int, problems: list[str]
) -> tuple[tuple[Label, ...], npt.NDArray[np.bool_]]:
    """Names of the labels and indicators (n, K) of a multi-label problem; what is wrong is added to ``problems``.

    Examples
    --------
    >>> names, truths = indicators([[1, 0], [1, 1]], ["red", "round"], 2, [])
    >>> names, truths.tolist()
    (('red', 'round'), [[True, False], [True, True]])
    """
    stated = column_classes(Labels([], np.empty(0, dtype=np.intp)), classes, n_columns, problems)
    array = column(labels, "labels")
    if array.ndim != 2 or array.shape[1] != n_columns:
        problems.append(
            f"labels of a multi-label problem must be 0 or 1 for each of {n_columns} columns, shape (n, {n_columns}), "
            f"got shape {array.shape}"
        )
        return stated, np.zeros((0, n_columns), dtype=bool)
    try:
        truths = array == 1
        wrong = ~(truths | (array == 0))
        bad = np.flatnonzero(wrong.any(axis=1))
    except TypeError:  # pandas.NA has no truth value
        truths, bad = np.zeros(array.shape, dtype=bool), np.arange(len(array))
    if len(bad):
        shown = "; ".join(f"row {row}: {array[row].tolist()}" for row in bad[:3])
        problems.append(
            f"labels of a multi-label problem must be 0 or 1. {len(bad)} of {len(array)} rows do not hold it: {shown}"
        )
    return stated, truths


def _stated(classes: Sequence[Any], problems: list[str]) -> tuple[Label, ...]:
    if isinstance(classes, (str, bytes)) or np.ndim(classes) == 0:
        problems.append(f"classes must be a sequence, one name a column, got {classes!r}")
        return ()
    stated = tuple(plain(name) for name in classes)
    wrong = [name for name in stated if not is_label(name)]
    if wrong:
        problems.append(f"classes must be texts, whole numbers or booleans, got {wrong[:10]}")
    elif len({*stated}) != len(stated):
        problems.append(f"classes must be distinct (and 1 equals True), got {list(stated)[:10]}")
    return tuple(name for name in stated if is_label(name))


def _refuse_unknown(seen: Labels, stated: tuple[Label, ...], problems: list[str]) -> None:
    known = {*stated}
    unknown = [value for value in seen.values if value not in known]
    if unknown:
        shown = f"{list(stated[:10])}" + (" and more" if len(stated) > 10 else "")
        problems.append(f"labels unknown to the classes {shown}: {seen.shown(unknown)}; state the model's own classes")
