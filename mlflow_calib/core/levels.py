"""Confidence levels as callers state them: one real number in its range."""

from __future__ import annotations

from typing import Any

from mlflow_calib.core.columns import is_real
from mlflow_calib.errors import InvalidInputError


def check_confidence_level(confidence_level: Any) -> None:
    """Refuse what is no one-sided level; below one half a bound would fall on the wrong side of its estimate."""
    problem = level_problem("confidence_level", confidence_level)
    if problem:
        raise InvalidInputError(problem)


def level_problem(name: str, level: Any) -> str | None:
    """What is wrong with a one-sided level, a number of [0.5, 1).

    >>> level_problem("confidence_level", 0.95), level_problem("confidence_level", 95)
    (None, 'confidence_level must lie in [0.5, 1), got 95')
    """
    return None if is_real(level) and 0.5 <= level < 1 else f"{name} must lie in [0.5, 1), got {level!r}"


def check_two_sided_level(confidence_level: Any) -> None:
    """Refuse what is no two-sided level."""
    if not is_real(confidence_level) or not 0 < confidence_level < 1:
        raise InvalidInputError(f"confidence_level must lie between 0 and 1, got {confidence_level!r}")
