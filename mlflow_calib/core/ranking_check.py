"""What the ranking figures of an evidence record must be. No requirement is judged by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.estimate_check import ESTIMATES
from mlflow_calib.core.records import FRACTION, TABLE, field_problems, shown

_RANKING = {"accuracy": FRACTION, "auc": FRACTION.or_null(), "tied_pairs": FRACTION.or_null()}


def ranking_problems(document: Mapping[str, Any]) -> list[str]:
    """Problems of the table ``ranking``, which may be left out or null; else it has every model that was estimated."""
    ranking, estimates = document.get("ranking"), document.get("estimates")
    if ranking is None:
        return []
    problems = field_problems(ranking, dict.fromkeys(ESTIMATES, TABLE.or_null()), "ranking")
    if problems or not isinstance(estimates, Mapping):
        return problems
    for name in ESTIMATES:
        if (ranking[name] is None) != (estimates.get(name) is None):
            there = "null" if ranking[name] is not None else "there"
            problems.append(f"ranking.{name} must be {there} as estimates.{name} is, got {shown(ranking[name])}")
        elif ranking[name] is not None:
            problems += field_problems(ranking[name], _RANKING, f"ranking.{name}")
    return problems
