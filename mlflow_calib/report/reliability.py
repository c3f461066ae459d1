"""Reliability diagram: what the model says against what happened, with an interval and a count for every bin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from mlflow_calib.core.intervals import ErrorStatistics, debiased_squared
from mlflow_calib.errors import InvalidInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONFIDENCE_LEVEL = 0.95
#: Okabe and Ito's colours, told apart with every kind of colour vision, and markers for print without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "D", "^", "v", "P")
INK, RULE, PALE = "#222222", "#8a8a8a", "#e6e6e6"


def reliability_diagram(curves: Mapping[str, Any], *, title: str | None = None) -> Figure:
    """Draw named series of bins into one figure.

    On the diagonal a model is right as often as it says. Above it the model says too little, below it too much. Bars
    are two-sided Clopper-Pearson 95 % intervals of the positive rate of each bin, by row; the strip below counts rows.

    Parameters
    ----------
    curves
        Name to ``ErrorStatistics``, or to its document or another mapping with ``n``, ``k``, ``u``, or to a sequence
        (n_j, k_j, u_j), each of shape (B,). Bins without rows are left out. At most six series.
    title
        Above the figure; None for none.

    Returns
    -------
    matplotlib.figure.Figure
        Drawn on Agg, without pyplot: nothing to close. ``figure.savefig(path)`` writes it.

    Raises
    ------
    InvalidInputError
        Where there is no series, there are more than six, or a series does not hold three columns that fit together.

    Examples
    --------
    >>> figure = reliability_diagram({"calibrated": ([60, 40], [12, 30], [0.2, 0.7])})
    >>> len(figure.axes)
    2
    """
    series = _series(curves)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 7.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    diagonal = "diagonal: right as often as it says"
    above.plot([0, 1], [0, 1], color=RULE, linewidth=1, linestyle=(0, (4, 3)), label=diagonal, zorder=1)
    for position, (name, statistics) in enumerate(series.items()):
        _draw_curve(above, name, statistics, position)
        _draw_counts(below, statistics, position, len(series))
    _dress(above, below, title)
    return figure


def clopper_pearson(counts: Any, positives: Any, confidence_level: float = CONFIDENCE_LEVEL) -> tuple[Any, Any]:
    """Exact two-sided interval of a rate from ``positives`` of ``counts`` rows: lower and upper, shapes (B,).

    Good for any number of rows, never too narrow. Clopper and Pearson 1934.

    >>> lower, upper = clopper_pearson([10], [0])  # upper: 1 - .025**(1 / 10)
    >>> float(lower[0]), round(float(upper[0]), 4)
    (0.0, 0.3085)
    """
    n, k, tail = np.asarray(counts), np.asarray(positives), (1 - confidence_level) / 2
    lower = np.where(k > 0, stats.beta.ppf(tail, np.maximum(k, 1), n - k + 1), 0.0)
    upper = np.where(k < n, stats.beta.ppf(1 - tail, k + 1, np.maximum(n - k, 1)), 1.0)
    return lower, upper


def _series(curves: Mapping[str, Any]) -> dict[str, ErrorStatistics]:
    if not 1 <= len(curves) <= len(COLOURS):
        raise InvalidInputError(f"curves must hold 1 to {len(COLOURS)} named series, got {len(curves)}")
    return {name: _statistics(name, curve) for name, curve in curves.items()}


def _statistics(name: str, curve: Any) -> ErrorStatistics:
    if isinstance(curve, ErrorStatistics):
        return curve
    try:
        counts, positives, outputs = (curve[key] for key in "nku") if isinstance(curve, Mapping) else curve
        return ErrorStatistics(counts, positives, outputs)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"curve {name!r} must hold n, k and u, each of shape (B,): {error}") from error


def _draw_curve(axes: Axes, name: str, s: ErrorStatistics, position: int) -> None:
    """Points at (u_j, k_j / n_j) in order of u, joined faintly, with their intervals."""
    filled = np.flatnonzero(s.counts > 0)
    order = filled[np.argsort(s.outputs[filled], kind="stable")]
    rates = s.positives[order] / s.counts[order]
    lower, upper = clopper_pearson(s.counts[order], s.positives[order])
    axes.errorbar(
        s.outputs[order],
        rates,
        yerr=np.maximum(0.0, [rates - lower, upper - rates]),
        fmt=MARKERS[position],
        color=COLOURS[position],
        markersize=5.5,
        markeredgecolor="white",
        markeredgewidth=0.6,
        elinewidth=1.3,
        label=_label(name, s),
        zorder=3,
    )
    axes.plot(s.outputs[order], rates, color=COLOURS[position], linewidth=0.9, alpha=0.45, zorder=2)


def _label(name: str, s: ErrorStatistics) -> str:
    empty = int((s.counts == 0).sum())
    without = f", {empty} of {s.n_bins} bins empty" if empty else ""
    return f"{name}: calibration error {math.sqrt(max(debiased_squared(s), 0.0)):.3f}, {s.n:,} rows{without}"


def _draw_counts(axes: Axes, s: ErrorStatistics, position: int, n_series: int) -> None:
    """A thin bar a bin at u_j; series stand side by side so that none hides another."""
    filled = s.counts > 0
    width = 0.006
    shift = (position - (n_series - 1) / 2) * width
    axes.bar(s.outputs[filled] + shift, s.counts[filled], width=width, color=COLOURS[position], zorder=2)


def _dress(above: Axes, below: Axes, title: str | None) -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.ticker import MaxNLocator

    above.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    above.set_ylabel("positive rate, with 95 % interval by row", color=INK)
    legend = above.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, frameon=False, fontsize=9)
    legend.set_title(title or "", prop=FontProperties(size=12))
    legend.set_alignment("left")
    below.set_xlabel("what the model says", color=INK)
    below.set_ylabel("rows", color=INK)
    below.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    below.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    for axes in (above, below):
        axes.grid(color=PALE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=INK, labelsize=9)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(RULE)
