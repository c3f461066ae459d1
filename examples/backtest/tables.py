"""The page's tables and sentences; every number in them is measured by the command that writes them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from examples.backtest.aftermath import WATCH_DAYS, Watch
from examples.backtest.periods import Period, Shown
from examples.backtest.replay import Turn
from examples.paper.common import table_text

OUTCOMES = ("within the limit", "not shown within", "past the limit")


def turns_table(turns: Sequence[Turn]) -> str:
    """One row a turn: what the gate saw, what it said, what the next period showed."""
    head = ("judged on", "rows, days", "candidate there", "verdict", "champion after")
    head += ("next period: the candidate", "the champion it met", "the base model", "the candidate then")
    return table_text(head, [_turn(turn) for turn in turns])


def _turn(turn: Turn) -> tuple[str, ...]:
    then = [turn.then[name].text() if turn.then else "" for name in ("candidate", "champion", "base")]
    status = f"**{turn.verdict.status}**" if turn.passed else turn.verdict.status
    return (
        turn.period.name,
        f"{turn.period.n:,}, {turn.period.n_days}",
        turn.now["candidate"].text(),
        status,
        f"v{turn.champion_after}",
        *then,
        turn.outcome or "no next period",
    )


def drift_table(turns: Sequence[Turn]) -> str:
    """What moved: the share of positives, and what base model, candidate and the next champion say on average."""
    head = ("period", "share of positives", "the base model says", "its candidate says", "the champion there says")
    rows = []
    for turn in turns:
        now = turn.now
        said = [f"{now[name].mean_output:.3f}" for name in ("base", "candidate", "champion")]
        rows.append((turn.period.name, f"{turn.period.rate:.3f}", *said))
    return table_text(head, rows)


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph as the documentation breaks its lines."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def counts_sentence(turns: Sequence[Turn]) -> str:
    """How many passed, and what became of those and of the refused ones."""
    decided = [turn for turn in turns if turn.outcome]
    parts = []
    for name, passed in (("promoted", True), ("refused", False)):
        own = [turn for turn in decided if turn.passed is passed]
        found = [f"{sum(turn.outcome == one for turn in own)} {one}" for one in OUTCOMES]
        parts.append(f"{len(own)} {name}, in the next period {', '.join(found)}")
    return wrapped(f"Of {len(decided)} candidates with a next period: {'; '.join(parts)}.")


def wrong_passes(turns: Sequence[Turn]) -> list[str]:
    """For each pass that the next period did not bear out: what was said there, and what happened."""
    return [_wrong(turn) for turn in turns if turn.passed and turn.outcome not in (None, OUTCOMES[0])]


def _wrong(turn: Turn) -> str:
    now, then = turn.now["candidate"], turn.then["candidate"]
    share = f"{min(1.0, then.gap**2 / then.error**2) if then.error else 0.0:.0%}".replace("%", " %")
    others = turn.then["champion"].mse, turn.then["base"].mse
    return wrapped(
        f"- **{turn.period.name}, passed; {then.period}: {then.reading(turn.limit)}** ({then.text()}). Fitted on "
        f"{turn.recalibrated_on}, the calibrator says {now.mean_output:.3f} on average in {now.period}, where "
        f"{now.rate:.3f} of the rows were positive, and {then.mean_output:.3f} in {then.period}, where "
        f"{then.rate:.3f} were. The gap of {abs(then.gap):.3f}, squared, is {share} of the squared calibration error "
        f"there. MSE in {then.period}: {then.mse:.4f}; of the champion that it replaced {others[0]:.4f}, of the base "
        f"model {others[1]:.4f}.",
        "  ",
    )


def watch_table(found: Sequence[Watch]) -> str:
    """When the champion alone, evaluated each day on the last weeks, was first past the limit."""
    head = ("champion", "from", "to", "daily looks", "looks past the limit", f"first, on the last {WATCH_DAYS} days")
    return table_text(
        head,
        [(f"v{w.version}", w.first_day, w.last_day, str(w.n_looks), str(w.n_past), w.alarm or "never") for w in found],
    )


def earlier_table(found: Mapping[str, tuple[Turn, Sequence[Shown]]]) -> str:
    """The promoted candidates on the periods before their own."""
    head = ("passed on", "next period", "earlier periods", "of these within", "worst of them")
    rows = []
    for name, (turn, shown) in found.items():
        within = sum(one.reading(turn.limit) == OUTCOMES[0] for one in shown)
        worst = max(shown, key=lambda one: one.error, default=None)
        words = "" if worst is None else f"{worst.period}: {worst.text()}"
        rows.append((name, turn.outcome or "none", str(len(shown)), str(within), words))
    return table_text(head, rows)


def history_table(found: Mapping[str, Sequence[Turn]], last: Period) -> str:
    """The same replay with longer memories."""
    head = ("recalibrated on", "passes", *(f"then {one}" for one in OUTCOMES), f"candidate on {last.name}")
    rows = []
    for name, turns in found.items():
        passed = [turn for turn in turns if turn.passed]
        counts = [str(sum(turn.outcome == one for turn in passed)) for one in OUTCOMES]
        rows.append((name, str(len(passed)), *counts, turns[-1].now["candidate"].text()))
    return table_text(head, rows)
