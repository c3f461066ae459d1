"""What can go wrong, as types: each message says what must hold, what was given, and the remedy.

Every error here is final: the same call with the same input fails again, so an orchestrator need not retry.
Failures that pass by themselves (a server that does not answer) keep the type of the library they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


class MlflowCalibError(Exception):
    """Base of every error this package raises on purpose.

    ``problems`` holds its sentences one by one where it names several.
    """

    problems: tuple[str, ...] = ()


class InvalidInputError(MlflowCalibError, ValueError):
    """An argument or a row does not hold what it must."""


class DataError(InvalidInputError):
    """A table or record is missing, unreadable, or not what its manifest says."""


class ModelError(MlflowCalibError):
    """A model does not exist, cannot be loaded, or gives no score that can be calibrated."""


class EvidenceError(MlflowCalibError):
    """Evidence is missing, damaged, or speaks of another model or other data."""


class SignatureError(EvidenceError):
    """A signed statement is damaged, or no key at hand made its signature."""


class PromotionRefusedError(MlflowCalibError):
    """The verdict blocks, or the champion is not the one the evidence compared with."""


class CalibrationWarning(UserWarning):
    """A fit succeeded, but not as asked: fewer bins, an active constraint, a class without labels."""


def raise_problems(problems: Sequence[str], error: type[MlflowCalibError] = InvalidInputError) -> NoReturn:
    """Raise one error that lists every problem of one input."""
    several = f"{len(problems)} problems:\n" + "\n".join(f"- {problem}" for problem in problems)
    raised = error(problems[0] if len(problems) == 1 else several)
    raised.problems = tuple(problems)
    raise raised
