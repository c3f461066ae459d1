"""How each requirement of a policy reads on the evidence; comparisons say ``not (x <= limit)``: no figure, no pass.

The requirement on the calibration error has a file of its own, ``error_requirement``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple

from mlflow_calib.core.paired import PairedDifference
from mlflow_calib.core.policy import EVIDENCE_AGE, MSE_INCREASE, N_EVALUATION, Requirement
from mlflow_calib.core.records import NUMBER, TEXT, field_problems, is_count, is_number, one_of, parse_time
from mlflow_calib.core.wording import age_words, count, figure, percent, settling
from mlflow_calib.errors import EvidenceError, raise_problems

#: The four that decide, the weightiest first: one of them is the whole verdict.
VERDICTS = ("no verdict", "fail", "inconclusive", "pass")
#: "not applicable": nothing to compare with yet. "off": switched off by the policy. Neither decides.
STATUSES = (*VERDICTS, "not applicable", "off")
SECONDS_A_DAY = 86400.0
#: Clocks of two machines may differ by this; evidence from farther in the future is not believed.
CLOCK_TOLERANCE_DAYS = 300 / SECONDS_A_DAY


class Reading(NamedTuple):
    """What the evidence says about one requirement: status, the words between demand and status, the figures."""

    status: str
    words: str
    actual: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int | None = None
    hint: str = ""


@dataclass(frozen=True)
class RequirementVerdict:
    """One requirement with its verdict, its figures, and one sentence that says both.

    ``actual`` is the estimate, ``lower`` and ``upper`` its one-sided bounds at the policy's level, None where there are
    none; ``expected`` is the demand in words and ``limit`` its number.
    """

    name: str
    status: str
    expected: str
    limit: float
    actual: float | None
    lower: float | None
    upper: float | None
    n: int | None
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Any) -> RequirementVerdict:
        """Read what ``to_dict`` wrote.

        Raises
        ------
        EvidenceError
            With every problem of the document at once.
        """
        problems = field_problems(document, _FIELDS, "a requirement of the verdict")
        if problems:
            raise_problems(problems, EvidenceError)
        return cls(**{field.name: document[field.name] for field in fields(cls)})


_FIELDS = {
    **dict.fromkeys(("name", "expected", "sentence"), TEXT),
    "status": one_of(*STATUSES),
    "limit": NUMBER,
    **dict.fromkeys(("actual", "lower", "upper", "n"), NUMBER.or_null()),
}


def requirement_verdict(requirement: Requirement, reading: Reading) -> RequirementVerdict:
    """The finished record; a figure that is not finite becomes None, and takes a pass or fail with it."""
    figures = {name: _plain(getattr(reading, name)) for name in ("actual", "lower", "upper")}
    lost = any(getattr(reading, name) is not None and value is None for name, value in figures.items())
    if lost and reading.status in VERDICTS:
        reading = reading._replace(status="no verdict", words="a figure is not finite", hint="evaluate again")
    expected = expected_words(requirement)
    sentence = f"{expected} asked; {reading.words}: {reading.status}" + (f"; {reading.hint}" if reading.hint else "")
    return RequirementVerdict(
        name=requirement.name,
        status=reading.status,
        expected=expected,
        limit=requirement.limit,
        n=reading.n,
        sentence=sentence,
        **figures,
    )


def _plain(value: float | None) -> float | None:
    return float(value) if value is not None and is_number(float(value)) else None


def expected_words(requirement: Requirement) -> str:
    """The demand, limit included, in words."""
    limit = requirement.limit
    if requirement.name == N_EVALUATION:
        return f"at least {count(limit)} evaluation rows"
    if requirement.name == EVIDENCE_AGE:
        return f"evidence at most {limit:g} days old"
    if requirement.name == MSE_INCREASE:
        return f"mean squared error at most {figure(limit)} over the champion's"
    return f"{'squared ' if requirement.squared else ''}calibration error at most {figure(limit)}"


def read_n_evaluation(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Too few rows are inconclusive: more rows may say either."""
    n = evidence["data"]["n"]
    if not is_count(n):
        return Reading("no verdict", "the number of rows is not recorded")
    if not (n >= requirement.limit):
        more = f"{count(requirement.limit - n)} more are needed"
        return Reading("inconclusive", f"{count(n)} rows", n, n=n, hint=more)
    return Reading("pass", f"{count(n)} rows", n, n=n)


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


def read_mse_increase(requirement: Requirement, evidence: Mapping[str, Any]) -> Reading:
    """Non-inferiority on the same rows: pass, fail or neither by the bounds of the paired difference."""
    barred = _no_comparison(evidence)
    if barred:
        return barred
    difference = PairedDifference.from_dict(evidence["comparisons"][MSE_INCREASE])
    level, n = requirement.confidence_level or math.nan, difference.n
    lower, upper = difference.lower_bound(level), difference.upper_bound(level)
    if lower is None or upper is None:
        return Reading("inconclusive", "no bound from a single row or group", difference.mean, n=n)
    shared = evidence["overlap"]["champion_recalibration"]
    status = bounds_status(lower, upper, requirement.limit)
    by_group = difference.n_groups is not None
    words = bounds_words(requirement, evidence, status, (difference.mean, lower, upper), by_group)
    hint = "" if shared is not None else "how many of these rows the champion was recalibrated on is unverified"
    if status == "inconclusive":
        hint = "; ".join(filter(None, (_more_rows(difference, upper, requirement.limit), hint)))
    if shared:
        status = "inconclusive"
        hint = f"the champion was recalibrated on {count(shared)} of these {count(n)} rows, evaluate on others"
    return Reading(status, words, difference.mean, lower, upper, n, hint)


def _no_comparison(evidence: Mapping[str, Any]) -> Reading | None:
    champion, comparison = evidence["champion"], evidence["comparisons"][MSE_INCREASE]
    if champion is None:
        return Reading("no verdict", "the champion was not looked up", hint="score again with champion=")
    if champion["version"] is None:
        return Reading("not applicable", "there is no champion yet")
    if comparison is None:
        hint = "score again so that candidate and champion stand on the same rows"
        return Reading("no verdict", f"nothing compares it with champion version {champion['version']}", hint=hint)
    if comparison["n_groups"] is None and evidence["data"]["n_groups"] is not None:
        return Reading("no verdict", "the rows have groups and the comparison went by row", hint="evaluate again")
    return None


def _more_rows(difference: PairedDifference, upper: float, limit: float) -> str:
    """The half width shrinks with the square root of the rows, at the same difference."""
    gap, half_width = abs(limit - difference.mean), upper - difference.mean
    more = max(1.0, difference.n * ((half_width / gap) ** 2 - 1)) if gap else None
    return settling(more, difference.n, difference.mean > limit)


def bounds_status(lower: float, upper: float, limit: float) -> str:
    """Pass when the upper bound is within the limit, fail when the lower bound is above it, else inconclusive."""
    if not (upper <= limit):
        return "fail" if lower > limit else "inconclusive"
    return "pass"


def bounds_words(
    requirement: Requirement,
    evidence: Mapping[str, Any],
    status: str,
    figures: tuple[float, float, float],
    by_group: bool,
) -> str:
    """The bound that decided, or both where none did; ``figures`` are estimate, lower and upper bound."""
    actual, lower, upper = (figure(value, requirement.limit) for value in figures)
    unit = f"by {evidence['data']['group_column'] or 'group'}" if by_group else "by row"
    level = percent(requirement.confidence_level or math.nan)
    if status == "pass":
        return f"upper {level} bound {unit} {upper}"
    if status == "fail":
        return f"lower {level} bound {unit} {lower}"
    return f"estimate {actual}, {level} bounds {unit} {lower} and {upper}"
