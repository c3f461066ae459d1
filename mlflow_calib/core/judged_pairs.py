"""Outputs and outcomes of the classic figures, made clean once: one probability and one 0 or 1 a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mlflow_calib.core.columns import numbers
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.weights import clean_weights
from mlflow_calib.errors import raise_problems


class Pairs(NamedTuple):
    """Probabilities (n,), outcomes 0.0 and 1.0 (n,), and weights (n,) that sum to one."""

    outputs: Floats
    outcomes: Floats
    weights: Floats


def pairs_of(outputs: Any, outcomes: Any, sample_weight: Any = None) -> Pairs:
    """Check rows of one probability each.

    Raises
    ------
    InvalidInputError
        For other shapes than (n,), no rows, probabilities outside [0, 1], outcomes other than 0 and 1, and weights
        that are not finite numbers of at least 0; all at once.
    """
    problems: list[str] = []
    p, y = numbers(outputs, "outputs", problems), numbers(outcomes, "outcomes", problems)
    if p is not None and y is not None:
        if p.ndim != 1 or p.shape != y.shape or not len(p):
            problems.append(f"outputs and outcomes must have one shape (n,), n at least 1, got {p.shape} and {y.shape}")
        else:
            check_domains(p, y, problems)
    weights = clean_weights(sample_weight, None if p is None or problems else len(p), problems)
    if p is None or y is None or problems:
        raise_problems(problems)
    equal = np.full(len(p), 1 / len(p)) if weights is None else weights / weights.sum()
    return Pairs(p, y, equal)


def check_domains(outputs: Floats, outcomes: Floats, problems: list[str]) -> None:
    """Probabilities in [0, 1] and outcomes 0 or 1, shapes (n,) or (n, K); what is wrong is added to ``problems``."""
    _check_domain("outputs must be numbers in [0, 1]", ~((outputs >= 0) & (outputs <= 1)), outputs, problems)
    _check_domain("outcomes must be 0 or 1", (outcomes != 0) & (outcomes != 1), outcomes, problems)


def _check_domain(rule: str, bad: Any, values: Floats, problems: list[str]) -> None:
    rows = np.flatnonzero(bad if bad.ndim == 1 else bad.any(axis=1))
    if rows.size:
        shown = "; ".join(f"row {row}: {values[row].tolist()}" for row in rows[:3])
        problems.append(f"{rule}. {rows.size} of {len(values)} rows do not hold it: {shown}")
