"""Forecasts of NBA games, by season: recalibrated on the season before, judged on the season, then the next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from examples.backtest import tables
from examples.backtest.page import options_of, publish
from examples.backtest.periods import Period
from examples.backtest.picture import picture
from examples.backtest.replay import Turn, replay, words_of
from mlflow_calib.core.planning import noise_floor_of
from mlflow_calib.core.policy import Policy

FILE = "nba_games.csv"
#: The package's defaults, and the flights' policy.
POLICIES = {
    "defaults": {},
    "as the flights": {
        "requirements": {
            "calibration_error_upper_bound": {"limit": 0.10},
            "mse_increase_over_champion": {"limit": 0.005},
        }
    },
}


def read_periods(folder: Path) -> list[Period]:
    """Seasons 2016 to 2022; the base model is the published forecast."""
    path = folder / FILE
    if not path.exists():
        raise SystemExit(f"{path} is not there; docs/backtest.md says where it is public, --data where you keep it")
    games = pd.read_csv(path).sort_values("date", kind="stable")
    return [
        Period(str(season), own["p"].to_numpy(), own["label"].to_numpy(), own["date"].to_numpy().astype(str))
        for season, own in games.groupby("season")
    ]


def sections(periods: Sequence[Period]) -> tuple[list[str], dict[str, list[Turn]]]:
    """The parts of the page, and the turns behind them by policy."""
    parts, panels = [], {}
    for name, document in POLICIES.items():
        policy = Policy.from_dict(document)
        turns = replay(periods, policy)
        panels[f"{name}: {words_of(policy)}"] = turns
        parts += [f"Policy, {name}: {words_of(policy)}; bounds by day at 95 %.", tables.turns_table(turns)]
        parts += [tables.counts_sentence(turns), *tables.wrong_passes(turns)]
    smallest, largest = (extreme(period.n for period in periods) for extreme in (min, max))
    floors = [f"{noise_floor_of(n, 10):.3f}" for n in (smallest, largest)]
    parts += [
        "![NBA: candidates where they were judged, and on the next season](images/backtest_nba.png)",
        tables.wrapped(
            f"A season has {smallest:,} to {largest:,} games. A model without any calibration error, with uniform "
            f"scores and 10 bins, would show a bound by row of {floors[0]} on the fewest and {floors[1]} on the most."
        ),
        "What moved:",
        tables.drift_table(next(iter(panels.values()))),
    ]
    return parts, panels


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    options = options_of(__doc__, argv)
    parts, panels = sections(read_periods(options.data))
    publish(options, "nba", parts, picture(panels, "NBA forecasts, season by season"))


if __name__ == "__main__":
    main()
