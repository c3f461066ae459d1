"""Texts and tables of Markdown, with whatever a text holds shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


def plain_text(text: Any) -> str:
    r"""The text on one line, every sign that Markdown or HTML would read escaped.

    >>> print(plain_text("a_b | <img>"))
    a\_b \| \<img\>
    """
    line = _CONTROL.sub(" ", str(text)).replace("&", "&amp;")
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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return plain_text(value)
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 1 else f"{value:.4g}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
