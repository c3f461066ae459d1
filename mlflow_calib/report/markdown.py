"""Texts and tables of Markdown, with whatever a text holds shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from mlflow_calib.core.records import is_number, shown

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: Half of a pair of UTF-16: no text in UTF-8 holds one.
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def plain_text(text: Any) -> str:
    r"""The text on one line, every sign that Markdown or HTML would read escaped.

    >>> print(plain_text("a_b | <img>"))
    a\_b \| \<img\>
    """
    line = _SURROGATE.sub("\ufffd", _CONTROL.sub(" ", str(text))).replace("&", "&amp;")
    return _SPECIAL.sub(r"\\\1", line).strip()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table; cells are Markdown already, an empty one a dash.

    >>> table(["a"], [["1"], [""]])
    ['| a |', '|---|', '| 1 |', '| - |']
    """
    lines = [_row(header), "|" + "---|" * len(header)]
    return lines + [_row([cell or "-" for cell in row]) for row in rows]


def number(value: Any) -> str:
    """A figure for people: four significant digits, whole numbers with separators; empty for None.

    >>> number(20000), number(0.04321987), number(None)
    ('20,000', '0.04322', '')
    """
    if value is None:
        return ""
    if not is_number(value):
        return plain_text(shown(value) if isinstance(value, int) else value)
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:.4g}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
