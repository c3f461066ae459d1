"""Numbers as the sentences of a verdict say them: short, and never on the wrong side of the limit."""

from __future__ import annotations

import math
from typing import Any

_DIGITS = 3
_ALL_DIGITS = 17
_HOURS = 24


def figure(value: float, limit: float | None = None) -> str:
    """A number in at least three significant digits and two decimals.

    With ``limit``, in as many digits as it takes for the text to stand on the same side of it as the number.

    >>> figure(0.0642), figure(0.1), figure(0.002)
    ('0.0642', '0.10', '0.002')
    >>> figure(0.0500004, limit=0.05), figure(0.05, limit=0.05)
    ('0.0500004', '0.05')
    """
    for digits in range(_DIGITS, _ALL_DIGITS + 1):
        text = f"{value:.{digits}g}"
        if limit is None or _side(float(text), limit) == _side(value, limit):
            break
    whole, _, decimals = text.partition(".")
    return text if "e" in text or len(decimals) >= 2 else f"{whole}.{decimals:0<2}"


def _side(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def count(value: float) -> str:
    """A whole number with separators: 12,000."""
    return f"{value:,.0f}"


def about(rows: int) -> str:
    """A number of rows to plan with: two significant digits, rounded up.

    >>> about(12_345), about(7)
    ('13,000', '7')
    """
    step = 10 ** max(0, len(str(rows)) - 2)
    return count(-(-rows // step) * step)


#: Beyond this many times the rows at hand nobody waits for them.
FAR = 20


def settling(more: float | None, n: int, above: bool) -> str:
    """What more rows of the same kind would do: settle it as a pass or, where the estimate is above the limit, a fail.

    >>> settling(1_150, 1_000, above=False)
    'about 1,200 more rows like these would settle it as a pass'
    >>> settling(2_300_000, 1_000, above=True), settling(None, 1_000, above=True)
    ('the estimate lies too near the limit for more rows to settle it', 'more rows alone may not settle it')
    """
    if more is None:
        return "more rows alone may not settle it"
    if more > FAR * n:
        return "the estimate lies too near the limit for more rows to settle it"
    return f"about {about(math.ceil(more))} more rows like these would settle it as a {'fail' if above else 'pass'}"


def percent(level: float) -> str:
    """A confidence level: 95 %."""
    return f"{100 * level:.10g} %"


def age_words(days: float, limit: float | None = None) -> str:
    """A time span in the unit that suits it; in days where it is over the limit.

    >>> age_words(0.004), age_words(0.5), age_words(9.1, limit=7)
    ('6 minutes', '12 hours', '9.10 days')
    """
    if limit is not None and days > limit:
        return f"{figure(days, limit)} days"
    if days < 2 / _HOURS:
        return f"{days * _HOURS * 60:.0f} minutes"
    return f"{days * _HOURS:.0f} hours" if days < 2 else f"{figure(days, limit)} days"


def expected_words(requirement: Any) -> str:
    """The demand of a policy's requirement, limit included, in words."""
    name, limit = requirement.name, requirement.limit
    if name == "n_evaluation":
        return f"at least {count(limit)} evaluation rows"
    if name == "rows_per_bin":
        return f"at least {count(limit)} rows in every bin"
    if name == "evidence_age_days":
        return f"evidence at most {limit:g} days old"
    what, increase, other = name.partition("_increase_over_")
    if increase:
        return f"{_INCREASING[what]} at most {figure(limit)} over the {_OTHERS[other]}'s"
    where = _PARTS.get(name, "")
    return f"{'squared ' if requirement.squared else ''}calibration error{where} at most {figure(limit)}"


_INCREASING = {"mse": "mean squared error", "log_loss": "log loss", "calibration_error": "calibration error"}
_OTHERS = {"champion": "champion", "base": "base model"}
_PARTS = {
    "worst_class_calibration_error_upper_bound": " of every class",
    "slice_calibration_error_upper_bound": " of every slice",
}


def bounds_words(
    status: str, figures: tuple[float, float, float], *, limit: float, level: float, unit: str, bound: str = "bound"
) -> str:
    """The bound that decided, or both where none did; ``figures`` are estimate, lower and upper bound.

    >>> bounds_words("pass", (0.01, 0.0, 0.03), limit=0.05, level=0.95, unit="by row")
    'upper 95 % bound by row 0.03'
    """
    actual, lower, upper = (figure(value, limit) for value in figures)
    if status == "pass":
        return f"upper {percent(level)} {bound} {unit} {upper}"
    if status == "fail":
        return f"lower {percent(level)} {bound} {unit} {lower}"
    return f"estimate {actual}, {percent(level)} {bound}s {unit} {lower} and {upper}"
