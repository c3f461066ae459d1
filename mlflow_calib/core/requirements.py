"""How the requirements on rows and on age read; comparisons say ``not (x <= limit)``: no figure, no pass.

Those on calibration errors and on increases have files of their own: ``error_requirement``, ``part_requirements``,
``comparison_requirement``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mlflow_calib.core.policy import Requirement
from mlflow_calib.core.records import is_count, parse_time
from mlflow_calib.core.requirement_record import Reading
from mlflow_calib.core.wording import about, age_words, count

SECONDS_A_DAY = 86400.0
#: Clocks of two machines may differ by this; evidence from farther in the future is not believed.
CLOCK_TOLERANCE_DAYS = 300 / SECONDS_A_DAY


def read_n_evaluation(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Too few rows are inconclusive: more rows may say either."""
    n = evidence["data"]["n"]
    if not is_count(n):
        return Reading("no verdict", "the number of rows is not recorded")
    if not (n >= requirement.limit):
        missing = int(requirement.limit - n)
        more = f"{count(missing)} more are needed"
        return Reading("inconclusive", f"{count(n)} rows", n, n=n, hint=more, more_rows=missing)
    return Reading("pass", f"{count(n)} rows", n, n=n)


def read_rows_per_bin(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Too few rows in a bin of the candidate, of any class, are inconclusive."""
    entry = evidence["estimates"]["candidate"]
    bins = [("", entry["statistics"])] if entry["classes"] is None else _of_classes(entry["classes"])
    fewest, where = min(
        (rows, f"bin {place}{label}") for label, statistics in bins for place, rows in enumerate(statistics["n"])
    )
    n = entry["n"]
    words = f"{count(fewest)} rows in {where} (counted from 0), the fewest"
    if fewest >= requirement.limit:
        return Reading("pass", words, fewest, n=n)
    if fewest == 0:
        return Reading("inconclusive", words, fewest, n=n, hint="use fewer bins, or evaluate on rows that reach it")
    more = math.ceil(n * requirement.limit / fewest) - n
    hint = f"about {about(more)} more rows like these would fill it, or use fewer bins"
    return Reading("inconclusive", words, fewest, n=n, hint=hint, more_rows=more)


def _of_classes(classes: Any) -> list[tuple[str, Any]]:
    return [(f" of class {one['class']!r}", one["statistics"]) for one in classes]


def read_evidence_age(requirement: Requirement, evidence: Mapping[str, Any], now: datetime) -> Reading:
    """Age runs from the time of evaluation; stale evidence and evidence from the future give no verdict."""
    evaluated_at = parse_time(evidence["evaluated_at"])
    if evaluated_at is None:
        return Reading("no verdict", "the time of evaluation is not recorded", hint="evaluate again")
    age = (now - evaluated_at).total_seconds() / SECONDS_A_DAY
    if not (age >= -CLOCK_TOLERANCE_DAYS):
        hint = "set the clocks of both machines right, and evaluate again"
        return Reading("no verdict", f"evaluated {age_words(-age)} in the future", age, hint=hint)
    words = f"evaluated {age_words(max(age, 0.0), requirement.limit)} ago"
    if not (age <= requirement.limit):
        return Reading("no verdict", words, age, hint="evaluate again on newer data")
    return Reading("pass", words, age)


def bounds_status(lower: float, upper: float, limit: float) -> str:
    """Pass when the upper bound is within the limit, fail when the lower bound is above it, else inconclusive."""
    if not (upper <= limit):
        return "fail" if lower > limit else "inconclusive"
    return "pass"
