"""Lines for people in a version's description: verdicts and moves of an alias, the oldest making room."""

from __future__ import annotations

#: MLflow keeps at most 5,000 characters of a version's description.
_LONGEST_DESCRIPTION, _LONGEST_LINE = 4900, 1000
LINE_STARTS = "Calibration gate, evidence of "
MOVE_STARTS = "Alias moved on "


def described(before: str, line: str) -> str:
    """The description with one more line; our oldest lines go where there is no room, nobody else's.

    >>> described("Written by a person.", "Alias moved on 2026").splitlines()
    ['Written by a person.', 'Alias moved on 2026']
    """
    line = " ".join(line.split())[:_LONGEST_LINE]
    lines = before.splitlines()
    if line in lines:
        return before
    lines.append(line)
    while len("\n".join(lines)) > _LONGEST_DESCRIPTION:
        ours = (position for position, text in enumerate(lines) if text.startswith((LINE_STARTS, MOVE_STARTS)))
        oldest = next(ours, len(lines) - 1)
        if oldest == len(lines) - 1:
            return before
        del lines[oldest]
    return "\n".join(lines)
