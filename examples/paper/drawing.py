"""How the figures look: Okabe and Ito's colours with a marker each, ours filled, published figures open and dashed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from examples.paper.common import Interval
from mlflow_calib.report.reliability import COLOURS, INK, MARKERS, PALE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: One colour and marker a method, in every figure.
PLACES = {"scaling-binning": 0, "histogram-binning": 1, "debiased": 0, "plug-in": 1, "scaling": 2}


def panels(n_panels: int, title: str) -> tuple[Figure, list[Axes]]:
    """A row of panels under one title; drawn without pyplot, so there is nothing to close."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.9 * n_panels, 4.1), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, n_panels, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(color=PALE, linewidth=0.7)
        one.set_axisbelow(True)
    figure.suptitle(title, fontsize=11, color=INK)
    return figure, list(axes)


def draw(axes: Axes, x: Sequence[float], y: Sequence[Interval], method: str, scale: float = 1.0) -> None:
    """Draw our means with their 90 % intervals."""
    place = PLACES[method]
    axes.errorbar(
        x,
        [one.mean * scale for one in y],
        yerr=[one.half_width * scale for one in y],
        color=COLOURS[place],
        marker=MARKERS[place],
        markersize=5,
        linewidth=1.4,
        capsize=2,
        label=method,
    )


def draw_published(axes: Axes, x: Sequence[float], y: Sequence[float], method: str, words: str = "published") -> None:
    """Draw published figures as open markers on a dashed line of the same colour."""
    place = PLACES[method]
    style: dict[str, Any] = {"linestyle": (0, (4, 3)), "linewidth": 0.9, "markersize": 8, "markerfacecolor": "none"}
    axes.plot(x, y, color=COLOURS[place], marker=MARKERS[place], alpha=0.75, label=f"{method}, {words}", **style)


def line(axes: Axes, x: Sequence[float], y: Sequence[float], method: str, *, label: str | None, pale: bool) -> None:
    """Draw a line without intervals; a pale one for the second of two settings."""
    place = PLACES[method]
    style: dict[str, Any] = {"marker": MARKERS[place], "markersize": 5, "linewidth": 1.4, "alpha": 0.4 if pale else 1.0}
    axes.plot(x, y, color=COLOURS[place], label=label, **style)


def name_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Say what is drawn."""
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, frameon=False, handlelength=2.8)
