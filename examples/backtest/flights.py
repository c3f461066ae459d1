"""Flights out of New York in 2013, by month: recalibrated on the month before, judged on the month, then the next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.backtest import tables
from examples.backtest.aftermath import on_earlier, watches
from examples.backtest.page import options_of, publish
from examples.backtest.periods import Period
from examples.backtest.picture import picture
from examples.backtest.replay import ALL, Turn, replay, words_of
from mlflow_calib.core.policy import Policy
from mlflow_calib.data.records import read_policy_document

#: The demo's own policy.
POLICY_FILE = Path(__file__).resolve().parents[1] / "flights" / "policy.toml"
FIRST_MONTH = 3
MONTHS = ("March", "April", "May", "June", "July", "August", "September", "October", "November", "December")


def read_periods() -> list[Period]:
    """March to December, scored by the demo's base model of January and February; about half a minute."""
    from examples.flights.data import FEATURES, GROUP, LABEL, read_flights
    from examples.flights.train import fit_base_model

    flights = read_flights().frame
    model = fit_base_model(flights)
    periods = []
    for month, name in enumerate(MONTHS, start=FIRST_MONTH):
        rows = flights[flights["month"] == month]
        scores = model.predict_proba(rows[list(FEATURES)])[:, 1]
        periods.append(Period(name, scores, rows[LABEL].to_numpy(), rows[GROUP].to_numpy().astype(str)))
    return periods


def sections(periods: Sequence[Period], policy: Policy) -> tuple[list[str], list[Turn]]:
    """The parts of the page, and the turns behind them."""
    by_history = {
        "the month before": replay(periods, policy),
        "two months before": replay(periods, policy, history=2),
        "all months from March": replay(periods, policy, history=ALL),
    }
    turns = by_history["the month before"]
    passed = {turn.period.name: (turn, on_earlier(turn, periods)) for turn in turns if turn.passed}
    parts = [
        f"Policy: {words_of(policy)}; bounds by day at 95 %.",
        tables.turns_table(turns),
        tables.counts_sentence(turns),
        "![Flights: candidates where they were judged, and on the next month](images/backtest_flights.png)",
        "What moved:",
        tables.drift_table(turns),
        "### Flights: passes that the next month did not bear out",
        "\n".join(tables.wrong_passes(turns)),
        "### Flights: what would have caught them",
        "The champion evaluated on its own each day. Looks overlap, and the bounds are of one look each.",
        tables.watch_table(watches(turns, periods, turns[0].limit)),
        "The promoted candidates on the months before the one they were fitted on, whose labels were there.",
        tables.earlier_table(passed),
        "The same gate with a longer memory.",
        tables.history_table(by_history, periods[-1]),
    ]
    return parts, turns


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    options = options_of(__doc__, argv)
    policy = Policy.from_dict(read_policy_document(POLICY_FILE))
    parts, turns = sections(read_periods(), policy)
    publish(options, "flights", parts, picture({words_of(policy): turns}, "Flights 2013, month by month"))


if __name__ == "__main__":
    main()
