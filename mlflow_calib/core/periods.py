"""Periods of time, half-open and in ISO 8601: written "A/B", or counted back in days from a moment.

Which rows a period holds is decided in UTC where the time has a zone, and by the clock on the wall where it has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from mlflow_calib.errors import InvalidInputError


@dataclass(frozen=True)
class Period:
    """The moments from ``start``, included, to ``end``, left out; both with a zone or both without."""

    start: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.start.isoformat()}/{self.end.isoformat()}"

    def in_utc(self) -> Period:
        """The period with its zone; the clock of a period without a zone is taken as UTC."""
        return Period(in_utc(self.start), in_utc(self.end))

    def wall_clock(self) -> Period:
        """The period without a zone: the clock of UTC where it had one."""
        utc = self.in_utc()
        return Period(utc.start.replace(tzinfo=None), utc.end.replace(tzinfo=None))


def in_utc(moment: datetime) -> datetime:
    """A moment in UTC; without a zone its clock is taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


def parse_moment(value: Any, name: str = "a time") -> datetime:
    """A datetime, a date or an ISO 8601 text as a datetime; a date is its midnight.

    Raises
    ------
    InvalidInputError
        It is none of these.

    Examples
    --------
    >>> parse_moment("2013-12-01T00:00:00Z")
    datetime.datetime(2013, 12, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001 - a date has no zone
    text = str(value).strip()
    try:
        return datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in {"Z", "z"} else text)
    except ValueError as error:
        raise InvalidInputError(
            f"{name} must be a date or time in ISO 8601, such as 2013-12-01 or 2013-12-01T00:00:00Z, got {value!r}"
        ) from error


def parse_period(text: Any, name: str = "a period") -> Period:
    """The period of a text "A/B".

    Raises
    ------
    InvalidInputError
        The text is not two ISO 8601 times, one of them alone has a zone, or the end is not after the start.

    Examples
    --------
    >>> str(parse_period("2013-11-01/2013-12-01"))
    '2013-11-01T00:00:00/2013-12-01T00:00:00'
    """
    if isinstance(text, Period):
        return text
    ends = str(text).split("/")
    if len(ends) != 2:
        raise InvalidInputError(f'{name} must be written "A/B", such as 2013-11-01/2013-12-01, got {text!r}')
    start, end = (parse_moment(moment, f"each end of {name}") for moment in ends)
    if (start.tzinfo is None) != (end.tzinfo is None):
        raise InvalidInputError(f"{name} must have a zone at both ends or at neither, got {text!r}")
    if not start < end:
        raise InvalidInputError(f"{name} must end after it starts, got {text!r}")
    return Period(start, end)


def count_back(as_of: datetime, label_delay_days: float, *lengths: float) -> list[Period]:
    """Periods of so many days, each before the last, the first one ending ``label_delay_days`` before ``as_of``."""
    try:
        end = as_of - timedelta(days=label_delay_days)
        periods = []
        for days in lengths:
            start = end - timedelta(days=days)
            periods.append(Period(start, end))
            end = start
    except OverflowError as error:
        raise InvalidInputError(f"as_of must lie late enough to count the days back, got {as_of} ({error})") from error
    return periods


def covers(periods: Sequence[Period], wanted: Period) -> bool:
    """Whether the periods, taken together, hold every moment of ``wanted``."""
    reached = in_utc(wanted.start)
    for period in sorted((p.in_utc() for p in periods), key=lambda p: p.start):
        if period.start <= reached:
            reached = max(reached, period.end)
    return reached >= in_utc(wanted.end)
