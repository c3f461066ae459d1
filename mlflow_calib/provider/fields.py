"""Operator fields after rendering, read back into what they mean.

Jinja leaves texts: a list as JSON, a number in quotes, an absent value as "". A reader turns each field into the type
its step takes, gathers every mistake, and names the field in each. Texts that are ids stay as they came.
"""

from __future__ import annotations

import ast
import json
import math
import os
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.records import RepeatedNameError, from_json
from mlflow_calib.errors import raise_problems

#: Settings inside ``split`` and ``calibrator`` that are numbers.
NUMBERS = {"evaluation_fraction", "recalibration_days", "evaluation_days", "label_delay_days"}
WHOLE_NUMBERS = {"seed", "n_bins"}
SPOKEN = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "": False, "none": False}


class FieldReader:
    """Read the rendered fields of one operator, and complain about all of them at once.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> fields = FieldReader(SimpleNamespace(key_columns='["game"]', group_column="", n_bins="10"))
    >>> fields.names("key_columns"), fields.text("group_column"), fields.whole_number("n_bins")
    (['game'], None, 10)
    """

    def __init__(self, operator: Any) -> None:
        self._operator = operator
        self._problems: list[str] = []

    def check(self) -> None:
        """Raise the problems found so far."""
        if self._problems:
            raise_problems(self._problems)

    def text(self, name: str) -> str | None:
        """Read a text as it stands, None where it is empty."""
        value = getattr(self._operator, name)
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        if isinstance(value, os.PathLike):
            return str(os.fspath(value))
        self._refuse(name, "be a text", value)
        return None

    def required_text(self, name: str) -> str:
        """Read a text that must be there."""
        value = getattr(self._operator, name)
        if value is None or (isinstance(value, str) and not value.strip()):
            self._refuse(name, "be given", value)
        return self.text(name) or ""

    def names(self, name: str) -> list[str]:
        """Read a list of names: a sequence, a JSON list, or one name."""
        value = _decoded(getattr(self._operator, name))
        items = [value] if isinstance(value, str) else list(value or ()) if _is_sequence(value) else None
        if items is not None and all(isinstance(item, str) for item in items):
            return [item for item in items if item.strip()]
        self._refuse(name, "be a list of column names, as a sequence or as JSON", value)
        return []

    def whole_number(self, name: str) -> int | None:
        """Read a whole number."""
        number = self._number(name, getattr(self._operator, name), whole=True)
        return None if number is None else int(number)

    def truth(self, name: str) -> bool:
        """Read true or false."""
        value = getattr(self._operator, name)
        spoken = SPOKEN.get(str("" if value is None else value).strip().lower())
        if spoken is None:
            self._refuse(name, "be true or false", value)
        return bool(spoken)

    def plain(self, name: str) -> Any:
        """Read a value that may be of any plain type, such as a class; a JSON text stands for its value."""
        value = getattr(self._operator, name)
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            return value.strip() or None

    def document(self, name: str) -> dict[str, Any] | str | None:
        """Read a record: a mapping, its JSON, or the URI where it stands."""
        value = _decoded(getattr(self._operator, name))
        if isinstance(value, Mapping):
            return dict(value)
        if value is None or isinstance(value, str):
            return (value or "").strip() or None
        self._refuse(name, "be a mapping, its JSON, or a URI", value)
        return None

    def required_document(self, name: str) -> dict[str, Any] | str:
        """Read a record that must be there."""
        value = self.document(name)
        if value is None:
            self._refuse(name, "be the record of an earlier step or its URI", value)
        return value or ""

    def required_documents(self, name: str) -> Any:
        """Read a record, or a pair of records, that must be there."""
        value = _decoded(getattr(self._operator, name))
        if not isinstance(value, (list, tuple)):
            return self.required_document(name)
        records = [_decoded(item) for item in value]
        if len(records) != 2 or not all(record and isinstance(record, (str, Mapping)) for record in records):
            self._refuse(name, "be one record of an earlier step, or a pair of them", value)
        return records

    def policy(self, name: str) -> dict[str, Any] | str | None:
        """Read a policy; numbers and truths inside its tables may come as texts."""
        value = self.document(name)
        return _spoken_numbers(value) if isinstance(value, dict) else value

    def settings(self, name: str) -> dict[str, Any] | None:
        """Read a mapping of settings; those that are empty count as absent, and numbers may come as texts."""
        value = self.document(name)
        if value is None:
            return None
        if isinstance(value, str):
            self._refuse(name, "be a mapping or its JSON", value)
            return None
        given = {key: item for key, item in value.items() if item is not None and item != ""}
        return {key: self._setting(f"{name}[{key!r}]", key, item) for key, item in given.items()}

    def _setting(self, label: str, key: str, value: Any) -> Any:
        if key in NUMBERS or key in WHOLE_NUMBERS:
            return self._number(label, value, whole=key in WHOLE_NUMBERS)
        return value

    def _number(self, label: str, value: Any, *, whole: bool) -> float | None:
        if value is None or value == "":
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isfinite(number) and number == int(number):
            return int(number)
        if math.isfinite(number) and not whole:
            return number
        self._refuse(label, f"be a {'whole ' if whole else ''}number", value)
        return None

    def _refuse(self, label: str, must: str, value: Any) -> None:
        self._problems.append(f"{label} must {must}, got {value!r}")


def _is_sequence(value: Any) -> bool:
    return value is None or isinstance(value, (list, tuple))


def _spoken_numbers(value: Any) -> Any:
    """The same tables, with numbers and truths where a template left their texts."""
    if isinstance(value, Mapping):
        return {key: _spoken_numbers(item) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    try:
        number = json.loads(value.lower())
    except ValueError:
        return value
    return number if isinstance(number, (bool, int, float)) else value


def _decoded(value: Any) -> Any:
    """JSON in a text as its value, also as Jinja prints a Python list or mapping; any other text stays."""
    text = value.strip() if isinstance(value, str) else ""
    if not text.startswith(("[", "{", '"')) and text != "null":
        return value
    try:
        return from_json(text)
    except RepeatedNameError:
        return value  # which the step refuses by name; as a Python mapping its last value would win
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value
