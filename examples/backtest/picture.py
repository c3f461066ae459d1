"""The figure: the candidate where it was judged, beside it the same candidate on the next period, and the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from examples.backtest.periods import Shown
from examples.backtest.replay import Turn
from mlflow_calib.report.reliability import INK, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours and a shape for each verdict, as in the demo's figure.
COLOURS = {"pass": "#0072B2", "inconclusive": "#E69F00", "fail": "#D55E00"}
SHAPES = {"pass": "o", "inconclusive": "^", "fail": "X"}
NEXT, BASE, LIMIT = "#222222", "#8c8c8c", "#AA3377"


def picture(panels: Mapping[str, Sequence[Turn]], title: str) -> Figure:
    """One panel a policy, one group of markers a turn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 0.9 + 3.4 * len(panels)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, (name, turns) in zip(all_axes, panels.items(), strict=True):
        _panel(axes, name, turns)
    figure.suptitle(title, fontsize=12, color=INK, x=0.01, ha="left")
    return figure


def _panel(axes: Axes, name: str, turns: Sequence[Turn]) -> None:
    for at, turn in enumerate(turns):
        if turn.passed:
            axes.axvspan(at - 0.5, at + 0.5, color=COLOURS["pass"], alpha=0.07, lw=0, zorder=0)
        status = turn.verdict.status
        _bar(axes, at - 0.15, turn.now["candidate"], COLOURS[status], SHAPES[status], filled=True)
        if turn.then:
            _bar(axes, at + 0.15, turn.then["candidate"], NEXT, "D", filled=False)
            axes.plot(at + 0.32, turn.then["base"].error, "s", mfc="none", color=BASE, ms=5)
    axes.axhline(turns[0].limit, color=LIMIT, ls="--", lw=1.3)
    for status, colour in COLOURS.items():
        if any(turn.verdict.status == status for turn in turns):
            axes.plot([], [], SHAPES[status], color=colour, label=f"candidate where judged: {status}")
    axes.plot([], [], "D", mfc="none", color=NEXT, label="the same candidate, next period")
    axes.plot([], [], "s", mfc="none", color=BASE, label="base model, next period (at least)")
    axes.plot([], [], color=LIMIT, ls="--", label=f"limit {turns[0].limit:g}")
    axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper left")
    axes.set_title(f"{name}; shaded: promoted", fontsize=9.5, loc="left", color=INK)
    axes.set_xticks(range(len(turns)), [turn.period.name for turn in turns], fontsize=9)
    axes.set_xlabel("judged on", fontsize=9, color=INK)
    axes.set_ylabel("calibration error (root)\n95 % bounds by day", fontsize=9, color=INK)
    axes.set_xlim(-0.5, len(turns) - 0.5)
    top = max(one.upper for turn in turns for one in _all(turn))
    axes.set_ylim(-0.03 * top, 1.35 * top)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=PALE, lw=0.7)
    axes.set_axisbelow(True)


def _all(turn: Turn) -> list[Shown]:
    return [turn.now["candidate"], *([turn.then["candidate"]] if turn.then else [])]


def _bar(axes: Axes, x: float, shown: Shown, colour: str, shape: str, *, filled: bool) -> None:
    spread = [[shown.error - shown.lower], [shown.upper - shown.error]]
    inside = colour if filled else "white"
    axes.errorbar(x, shown.error, spread, fmt=shape, color=colour, mfc=inside, ms=6.5, lw=1.6, capsize=3)
