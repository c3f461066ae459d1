"""Plain JSON records: what a field must be, all problems of a record at once, one text and one digest a record.

Policy, evidence and verdict are such records. A field's kind is a sentence and a test, so that each message says what
must hold and what was given.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.errors import InvalidInputError

#: Whole numbers beyond this are not exact in float64, and no count of rows is as large.
LARGEST_COUNT = 2**53


@dataclass(frozen=True)
class Kind:
    """What a field must be: ``words`` complete "must be ...", ``test`` says whether a value is so."""

    words: str
    test: Callable[[Any], bool]

    def or_null(self) -> Kind:
        """The same kind, or null."""
        return Kind(f"{self.words} or null", lambda value: value is None or self.test(value))

    def problem(self, where: str, value: Any) -> str | None:
        """One sentence where ``value`` is not of this kind, else None."""
        return None if self.test(value) else f"{where} must be {self.words}, got {shown(value)}"


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= LARGEST_COUNT


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least zero."""
    return isinstance(value, int) and is_number(value) and value >= 0


TEXT = Kind("a text that is not empty", lambda value: isinstance(value, str) and value.strip() != "")
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind("a whole number of at least 0", is_count)
POSITIVE_COUNT = Kind("a whole number of at least 1", lambda value: is_count(value) and value >= 1)
NUMBER = Kind("a finite number", is_number)
NOT_NEGATIVE = Kind("a finite number of at least 0", lambda value: is_number(value) and value >= 0)
POSITIVE = Kind("a finite number over 0", lambda value: is_number(value) and value > 0)
FRACTION = Kind("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
CONFIDENCE_LEVEL = Kind("a number between 0.5 and 1", lambda value: is_number(value) and 0.5 < value < 1)
TABLE = Kind("a table", lambda value: isinstance(value, Mapping))
LIST = Kind("a list", lambda value: isinstance(value, (list, tuple)))
SCALAR = Kind(
    "a text, a finite number, true or false", lambda value: isinstance(value, (str, bool)) or is_number(value)
)
TIME = Kind("an ISO 8601 time with its zone", lambda value: parse_time(value) is not None)


def one_of(*choices: str) -> Kind:
    """The kind of a text that is one of ``choices``."""
    words = ", ".join(f'"{choice}"' for choice in choices)
    return Kind(words if len(choices) == 1 else f"one of {words}", lambda v: isinstance(v, str) and v in choices)


def field_problems(document: Any, fields: Mapping[str, Kind], where: str = "") -> list[str]:
    """Every field that is missing or not of its kind; keys without a kind are left alone.

    ``where`` is the path of the document inside its record, empty at the top.
    """
    if not isinstance(document, Mapping):
        return [f"{where or 'the record'} must be a table, got {shown(document)}"]
    prefix = f"{where}." if where else ""
    missing = [f"{prefix}{name} is missing" for name in fields if name not in document]
    wrong = (kind.problem(f"{prefix}{name}", document[name]) for name, kind in fields.items() if name in document)
    return missing + [problem for problem in wrong if problem]


def non_finite_paths(document: Any) -> Iterator[str]:
    """Paths of every NaN and infinity of a record, at any depth."""
    stack = [("", document)]
    while stack:
        where, value = stack.pop()
        if isinstance(value, Mapping):
            stack.extend((f"{where}.{name}" if where else str(name), item) for name, item in value.items())
        elif isinstance(value, (list, tuple)):
            stack.extend((f"{where}[{position}]", item) for position, item in enumerate(value))
        elif isinstance(value, float) and not math.isfinite(value):
            yield where


def parse_time(text: Any) -> datetime | None:
    """The time in UTC, or None where the text is no ISO 8601 time with its zone."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)
        return None if time.tzinfo is None else time.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


class RepeatedNameError(ValueError):
    """A table of a JSON text names something twice."""


def from_json(text: str) -> Any:
    """The document of a JSON text in which every name stands once, as in TOML.

    Python takes the last of several values of one name, others the first: such a record says two things.

    Raises
    ------
    ValueError
        The text is no JSON, is nested too deeply, or a table names something twice.

    Examples
    --------
    >>> from_json('{"limit": 0.05, "limit": 0.5}')
    Traceback (most recent call last):
    ...
    mlflow_calib.core.records.RepeatedNameError: 'limit' stands twice in one table
    """
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedNameError(f"{shown(name)} stands twice in one table")
        found[name] = value
    return found


def same_scalar(first: Any, second: Any) -> bool:
    """Equality of JSON: 1 and 1.0 are equal, true is no number.

    >>> same_scalar(1, 1.0), same_scalar(1, True), same_scalar(1, "1"), same_scalar(None, None)
    (True, False, False, True)
    """
    return bool(isinstance(first, bool) == isinstance(second, bool) and first == second)


def unknown_name(what: str, name: Any, known: Sequence[str]) -> str:
    """One sentence on a name that is none, with the nearest known one.

    >>> unknown_name("mode", "enforc", ("enforce", "off"))
    "unknown mode 'enforc': did you mean 'enforce'? known are enforce, off"
    """
    nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"unknown {what} {shown(name)}: {hint}known are {', '.join(known)}"


def shown(value: Any) -> str:
    """A value as a message shows it: short, whatever it is."""
    try:
        return reprlib.repr(value)
    except ValueError:  # whole numbers of thousands of digits have no text
        return f"a {type(value).__name__} too long to show"


def json_text(document: Any, **layout: Any) -> str:
    """JSON text of a record with its keys sorted, UTF-8 as it is; ``layout`` as ``json.dumps`` takes it.

    Raises
    ------
    InvalidInputError
        The document holds a number that is not finite, or something JSON has no word for.
    """
    try:
        return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=False, **layout)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"a record must hold plain JSON with finite numbers ({error}); use null and a reason instead"
        ) from error


def canonical_json(document: Any) -> str:
    """The one JSON text of a record: keys sorted, no spaces; the errors of ``json_text``.

    >>> canonical_json({"b": 0.5, "a": ["é", None]})
    '{"a":["é",null],"b":0.5}'
    """
    return json_text(document, separators=(",", ":"))


def digest(document: Any) -> str:
    """``sha256:`` and the hash of the canonical JSON.

    >>> digest({})
    'sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
    """
    return "sha256:" + hashlib.sha256(canonical_json(document).encode("utf-8", "surrogatepass")).hexdigest()
