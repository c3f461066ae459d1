"""What would have caught a pass that went wrong: the champion watched on new days, other months, a longer memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from examples.backtest.periods import Period, Shown, joined, shown_of
from examples.backtest.replay import Turn
from mlflow_calib.steps.contenders import calibrated

#: Days of a watch: the fewest whole weeks that make at least 20 effective groups of unequal days.
WATCH_DAYS = 28


@dataclass(frozen=True)
class Watch:
    """A champion evaluated on its own every day, on the last ``WATCH_DAYS`` days: when it was first past the limit."""

    version: int
    first_day: str
    last_day: str
    n_looks: int
    n_past: int
    alarm: str | None


def watches(turns: Sequence[Turn], periods: Sequence[Period], limit: float) -> list[Watch]:
    """One for each promoted calibrator, while it was champion."""
    rows = joined(periods)
    days = np.unique(rows.days)
    found = []
    for turn in (turn for turn in turns if turn.passed):
        tenure = _tenure(turn, turns, periods)
        if tenure:
            first, last = min(tenure[0].days), max(tenure[-1].days)
            looks = [day for day in days if first <= day <= last]
            past = [day for day in looks if _looked(turn, rows, days, day).lower > limit]
            found.append(Watch(turn.version, first, last, len(looks), len(past), past[0] if past else None))
    return found


def _tenure(turn: Turn, turns: Sequence[Turn], periods: Sequence[Period]) -> list[Period]:
    """Periods in which it was champion."""
    names = [period.name for period in periods]
    held = [one.period.name for one in turns if one.champion_after == turn.version]
    return [periods[names.index(name) + 1] for name in held if names.index(name) + 1 < len(periods)]


def _looked(turn: Turn, rows: Period, days: np.ndarray, day: str) -> Shown:
    first = days[max(0, int(np.searchsorted(days, day)) + 1 - WATCH_DAYS)]
    return shown_of({"candidate": calibrated(turn.candidate)}, rows.between(first, day))["candidate"]


def on_earlier(turn: Turn, periods: Sequence[Period]) -> list[Shown]:
    """The candidate on each period before the one it was fitted on, whose labels were there when it was judged."""
    names = [period.name for period in periods]
    earlier = periods[: names.index(turn.period.name) - 1]
    return [shown_of({"candidate": calibrated(turn.candidate)}, period)["candidate"] for period in earlier]
