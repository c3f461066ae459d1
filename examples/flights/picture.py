"""The year as a picture: what was shown about each month's candidate, what the gate decided, and who was champion.

Colours are of the Okabe-Ito palette, which colour-blind readers can tell apart, and every verdict has its own shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from examples.flights.months import Month, Requirements

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mlflow_calib.flavor.tracking import MlflowServer

COLOURS = {"pass": "#0072B2", "inconclusive": "#E69F00", "fail": "#D55E00"}
SHAPES = {"pass": "o", "inconclusive": "^", "fail": "X"}
CHAMPION_COLOUR, BASE_COLOUR, LIMIT_COLOUR, TEXT_COLOUR = "#000000", "#8C8C8C", "#AA3377", "#333333"
OFFSETS = {"base": -0.24, "champion": -0.08, "candidate": 0.16}


def draw_year(months: Sequence[Month], requirements: Requirements) -> Figure:
    """Draw the calibration errors with their bounds over the increase of the MSE, month by month."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8.2), layout="constrained", facecolor="white")
    errors, increases = figure.subplots(2, 1, sharex=True, height_ratios=[2.6, 1])
    _draw_errors(errors, months, requirements.limit)
    _draw_increases(increases, months, requirements.margin)
    _name_months(increases, months)
    _mark_verdicts(errors, months)
    for axes in (errors, increases):
        _tint_promotions(axes, months)
    figure.align_ylabels()
    figure.suptitle(
        "Flights 2013: a recalibrated model becomes champion only when both bounds are within their limits",
        fontsize=13,
        fontweight="bold",
        color=TEXT_COLOUR,
        x=0.01,
        ha="left",
    )
    level = f"{requirements.confidence_level:.0%}".replace("%", " %")
    figure.supxlabel(
        f"Bars run from the lower to the upper {level} bound (one-sided each), by calendar day. Open markers: "
        "models with continuous outputs, whose binned error is a lower bound.",
        fontsize=8.5,
        color=TEXT_COLOUR,
        x=0.01,
        ha="left",
    )
    return figure


def save_year(path: Path, months: Sequence[Month], requirements: Requirements) -> None:
    """Write `draw_year` as PNG."""
    draw_year(months, requirements).savefig(path, dpi=150)


def _draw_errors(axes: Axes, months: Sequence[Month], limit: float) -> None:
    x = np.arange(len(months))
    axes.plot(
        x + OFFSETS["base"], [m.base.error for m in months], "s", mfc="none", color=BASE_COLOUR, label="base model"
    )
    champions = [m.champion for m in months]
    calibrated = np.array([not champion.at_least for champion in champions])
    at, error = x + OFFSETS["champion"], np.array([champion.error for champion in champions])
    axes.plot(at[calibrated], error[calibrated], "D", color=CHAMPION_COLOUR, ms=5.5, label="champion it met")
    axes.plot(at[~calibrated], error[~calibrated], "D", mfc="none", color=CHAMPION_COLOUR, ms=5.5)
    for verdict in COLOURS:
        _draw_candidates(axes, [(i, m) for i, m in enumerate(months) if m.verdict == verdict], verdict)
    _draw_limit(axes, limit, f"limit {limit:.2f}")
    axes.set_ylabel("calibration error (root)", color=TEXT_COLOUR)
    top = max(_top(month) for month in months)
    axes.set_yticks(np.arange(0, top, 0.05))
    axes.set_ylim(0, 1.22 * top)
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.92), frameon=False, fontsize=9, ncols=2)
    _tidy(axes)


def _draw_candidates(axes: Axes, chosen: Sequence[tuple[int, Month]], verdict: str) -> None:
    label = f"candidate: {verdict}"
    if not chosen:
        return
    at = np.array([i for i, _ in chosen]) + OFFSETS["candidate"]
    error = np.array([month.candidate.error for _, month in chosen])
    low = error - np.array([month.candidate.lower_bound for _, month in chosen])
    high = np.array([_top_of_candidate(month) for _, month in chosen]) - error
    axes.errorbar(
        at,
        error,
        [low.clip(0), high.clip(0)],
        fmt=SHAPES[verdict],
        color=COLOURS[verdict],
        ms=9,
        lw=2.2,
        capsize=5,
        capthick=2.2,
        label=label,
        zorder=3,
    )


def _draw_increases(axes: Axes, months: Sequence[Month], margin: float) -> None:
    for i, month in enumerate(months):
        low, high = month.mse_increase_bounds
        axes.errorbar(
            i + OFFSETS["candidate"],
            month.mse_increase,
            [[month.mse_increase - low], [high - month.mse_increase]],
            fmt=SHAPES[month.verdict],
            color=COLOURS[month.verdict],
            ms=7,
            lw=2,
            capsize=4,
            capthick=2,
        )
    axes.axhline(0, color=TEXT_COLOUR, lw=0.8)
    _draw_limit(axes, margin, f"margin {margin:g}")
    axes.set_ylabel("MSE, candidate\nless champion", color=TEXT_COLOUR)
    _tidy(axes)


def _draw_limit(axes: Axes, at: float, text: str) -> None:
    """A dashed line across the axes, named at its right end."""
    axes.axhline(at, color=LIMIT_COLOUR, ls="--", lw=1.4)
    axes.annotate(
        text,
        (1, at),
        xycoords=("axes fraction", "data"),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        color=LIMIT_COLOUR,
        fontsize=9.5,
    )


def _mark_verdicts(axes: Axes, months: Sequence[Month]) -> None:
    """Write each verdict and the champion after it along the top."""
    for i, month in enumerate(months):
        words = f"{month.verdict}\nv{month.champion_after} " + ("promoted" if month.passed else "stays")
        axes.annotate(
            words,
            (i, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, -3),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=9,
            color=TEXT_COLOUR,
            fontweight="bold" if month.passed else "normal",
        )


def _tint_promotions(axes: Axes, months: Sequence[Month]) -> None:
    for i, month in enumerate(months):
        if month.passed:
            axes.axvspan(i - 0.5, i + 0.5, color=COLOURS["pass"], alpha=0.07, lw=0, zorder=0)


def _name_months(axes: Axes, months: Sequence[Month]) -> None:
    axes.set_xticks(range(len(months)), [f"{month.start:%B}\n{month.n:,} flights" for month in months], fontsize=9)
    axes.set_xlim(-0.5, len(months) - 0.5)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E6E6E6", lw=0.8)
    axes.set_axisbelow(True)


def _top_of_candidate(month: Month) -> float:
    bound = month.candidate.upper_bound
    return month.candidate.error if bound is None else bound


def _top(month: Month) -> float:
    return max(_top_of_candidate(month), month.base.error, month.champion.error)


def save_reliability(path: Path, server: MlflowServer, month: Month) -> None:
    """Write the reliability diagram of a month's candidate beside the base model's, as PNG."""
    from mlflow_calib.flavor.records import read_record
    from mlflow_calib.report.reliability import reliability_diagram

    estimates = read_record(server, f"runs:/{month.run_id}/mlflow_calib/evidence.json")["estimates"]
    curves = {
        f"candidate v{month.candidate_version}": estimates["candidate"]["statistics"],
        "base model": estimates["base"]["statistics"],
    }
    title = f"Flights of {month.start:%B %Y}: {month.verdict}"
    reliability_diagram(curves, title=title).savefig(path, dpi=150)
