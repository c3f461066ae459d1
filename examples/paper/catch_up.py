"""Histogram binning catches up as rows grow: where Platt scaling does not fit, its error stays while B / n falls.

Rows drawn with replacement from the whole file, which is the population; 10 and 100 bins, 100 draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from examples.paper import drawing
from examples.paper.common import (
    METHODS,
    Floats,
    Settings,
    fit_as_published,
    interval_90,
    publish,
    quiet,
    ratio_90,
    read_scores,
    settings_of,
    table_text,
    top_label,
)
from examples.paper.populations import FinitePopulation
from examples.paper.top_label import SETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, BINS = (500, 1000, 2000, 4000, 8000, 16000, 32000), (10, 100)
H, S = METHODS
Errors = dict[tuple[str, int], Floats]


def measure(settings: Settings, name: str) -> Errors:
    """Squared top-label calibration errors, (trials, rows) for each method and number of bins."""
    confidence, correct = top_label(*read_scores(settings, name))
    population = FinitePopulation(confidence, correct)
    errors = {(method, n_bins): np.empty((settings.trials, len(ROWS))) for method in METHODS for n_bins in BINS}
    for trial in tqdm(range(settings.trials), desc=name, disable=None):
        for position, n in enumerate(ROWS):
            drawn = np.random.default_rng([settings.seed, trial, n]).integers(len(correct), size=n)
            for (method, n_bins), values in errors.items():
                calibrator = fit_as_published(confidence[drawn], correct[drawn], method, n_bins)
                values[trial, position] = population.judge(calibrator).squared_error
    return errors


def table(errors: Errors) -> str:
    """Squared errors by rows, and the ratio at each number of bins."""
    head = ["rows"]
    for n_bins in BINS:
        head += [f"{H}, {n_bins} bins", f"{S}, {n_bins} bins", f"{S} / {H}"]
    rows = []
    for position, n in enumerate(ROWS):
        row = [f"{n:,}"]
        for n_bins in BINS:
            h, s = errors[H, n_bins][:, position], errors[S, n_bins][:, position]
            row += [interval_90(h).text(1e4), interval_90(s).text(1e4), ratio_90(s, h).text()]
        rows.append(row)
    return table_text(head, rows)


def sentence(errors: Errors) -> str:
    """From how many rows histogram binning is the better one."""
    words = []
    for n_bins in BINS:
        h, s = (errors[method, n_bins].mean(axis=0) for method in METHODS)
        ahead = [f"{n:,}" for n, better in zip(ROWS, h < s, strict=True) if better]
        words.append(f"with {n_bins} bins {'from ' + ahead[0] + ' rows on' if ahead else 'at none of these rows'}")
    return f"{H} has the lower error {', '.join(words)}."


def picture(errors: dict[str, Errors]) -> Figure:
    """A panel a data set, both axes logarithmic; 100 bins are the paler pair of lines."""
    figure, axes = drawing.panels(len(errors), "Top-label: histogram binning catches up as rows grow")
    for one, (name, of_set) in zip(axes, errors.items(), strict=True):
        for (method, n_bins), values in of_set.items():
            drawing.line(
                one,
                ROWS,
                [interval_90(column).mean * 1e4 for column in values.T],
                method,
                label=f"{method}, {n_bins} bins",
                pale=n_bins == BINS[1],
            )
        one.set_xscale("log")
        one.set_yscale("log")
        drawing.name_axes(one, SETS[name], "rows to calibrate", "squared calibration error x 1e4")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=100)
    with quiet():
        errors = {name: measure(settings, name) for name in SETS}
    parts = [f"Mean over {settings.trials} draws ± half of the 90 % interval. Squared calibration error x 1e4."]
    for name, of_set in errors.items():
        parts += [f"## {SETS[name]}", table(of_set), sentence(of_set)]
    publish(settings, "catch_up", "Histogram binning catches up", parts, picture(errors))


if __name__ == "__main__":
    main()
