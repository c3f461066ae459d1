"""The bound on synthetic data: the squared error falls as 1/n, and with scaling-binning it does not grow with B.

z uniform on [0, 1], P(y = 1 | z) = sigma(a logit z + c); errors are exact on the population, 1,000 draws a setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    settings_of,
    table_text,
)
from examples.paper.populations import PlattPopulation
from examples.paper.published import SYNTHETIC
from mlflow_calib.core.planning import FITTED_CONSTANTS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS, BINS_OF_ROWS = tuple(range(500, 4001, 500)), 10
BINS, ROWS_OF_BINS = (5, 10, 20, 40, 80), 2000
SETTINGS = (*((n, BINS_OF_ROWS) for n in ROWS), *((ROWS_OF_BINS, b) for b in BINS if b != BINS_OF_ROWS))
POPULATIONS = {"a = 1, c = 0": PlattPopulation(1, 0), "a = 2, c = 1": PlattPopulation(2, 1)}
SOURCES = {"a = 1, c = 0": "exact", "a = 2, c = 1": "paper"}


@dataclass(frozen=True)
class Errors:
    """Squared errors of one method by (rows, bins), each (trials,): a bin at a time, and with equal outputs merged."""

    by_bin: dict[tuple[int, int], Floats]
    merged: dict[tuple[int, int], Floats]

    def halving(self, *, merged: bool = False) -> tuple[Floats, Floats]:
        """Errors at 1,000 and at 2,000 rows."""
        errors = self.merged if merged else self.by_bin
        return errors[1000, BINS_OF_ROWS], errors[2000, BINS_OF_ROWS]

    def growth(self, *, merged: bool = False) -> tuple[Floats, Floats]:
        """Errors with 20 and with 5 bins."""
        errors = self.merged if merged else self.by_bin
        return errors[ROWS_OF_BINS, 20], errors[ROWS_OF_BINS, 5]


def measure(settings: Settings, name: str) -> dict[str, Errors]:
    """Fit every setting on fresh draws, both methods on the same ones."""
    population = POPULATIONS[name]
    found = {(method, s): np.empty((settings.trials, 2)) for method in METHODS for s in SETTINGS}
    for trial in tqdm(range(settings.trials), desc=name, disable=None):
        for n, n_bins in SETTINGS:
            rows = population.draw(np.random.default_rng([settings.seed, trial, n, n_bins]), n)
            for method in METHODS:
                calibrator = fit_as_published(*rows, method, n_bins)
                errors = [population.squared_error(calibrator, merged) for merged in (False, True)]
                found[method, (n, n_bins)][trial] = errors
    return {
        method: Errors(*({s: found[method, s][:, part] for s in SETTINGS} for part in (0, 1))) for method in METHODS
    }


def ratio_table(name: str, errors: dict[str, Errors]) -> str:
    """The two factors beside the published ones, evaluated a bin at a time and with equal outputs merged."""
    published = SYNTHETIC[SOURCES[name]]
    head = ["squared error", "method", "published", "ours, by bin", "ours, equal outputs merged"]
    rows = []
    for key, words in (("halving", "falls by, n 1,000 to 2,000"), ("growth", "grows by, B 5 to 20")):
        for method in METHODS:
            ours = [ratio_90(*getattr(errors[method], key)(merged=merged)).text() for merged in (False, True)]
            rows.append([words, method, published[method][key], *ours])
    return table_text(head, rows)


def sweep_table(errors: dict[str, Errors]) -> str:
    """Squared errors of all settings."""
    rows = []
    for n, n_bins in SETTINGS:
        of_methods = [interval_90(errors[method].by_bin[n, n_bins]).text(1e4) for method in METHODS]
        rows.append([f"{n:,}", str(n_bins), *of_methods])
    return table_text(["rows", "bins", *METHODS], rows)


def constants(errors: dict[str, Errors]) -> dict[str, float]:
    """Constants c of c B / n for histogram binning, and of c / n for scaling-binning: means over the settings."""
    scales = {"histogram-binning": lambda n, b: n / b, "scaling-binning": lambda n, b: n}  # noqa: ARG005 one call for both
    return {
        method: float(np.mean([errors[method].by_bin[s].mean() * scales[method](*s) for s in SETTINGS]))
        for method in METHODS
    }


def constants_sentence(name: str, errors: dict[str, Errors]) -> str:
    """The fitted constants, and those the planner carries."""
    found, planner = constants(errors), FITTED_CONSTANTS
    return (
        f"Constants at {name}: squared error {found['histogram-binning']:.3f} B / n with histogram binning, "
        f"{found['scaling-binning']:.3f} / n with scaling-binning, whatever B is (the planner has "
        f"{planner['histogram-binning']} and {planner['scaling-binning']}, fitted at a = 1, c = 0)."
    )


def picture(errors: dict[str, dict[str, Errors]]) -> Figure:
    """1 / squared error against n, as in the paper, and squared error against B; a pair of panels a population."""
    figure, axes = drawing.panels(2, "Synthetic data: " + "; ".join(errors) + " (paler line)")
    for position, of_population in enumerate(errors.values()):
        for one, settings, inverse in ((axes[0], SETTINGS[: len(ROWS)], True), (axes[1], _of_bins(), False)):
            for method in reversed(METHODS):
                x = [n if inverse else b for n, b in settings]
                y = [interval_90(of_population[method].by_bin[s]) for s in settings]
                shown = [1 / e.mean if inverse else e.mean * 1e4 for e in y]
                drawing.line(one, x, shown, method, label=None if position else method, pale=position > 0)
    drawing.name_axes(axes[0], "10 bins", "rows n", "1 / squared calibration error")
    drawing.name_axes(axes[1], "2,000 rows", "bins B", "squared calibration error x 1e4")
    for one in axes:
        one.set_ylim(bottom=0)
    return figure


def _of_bins() -> list[tuple[int, int]]:
    return [(ROWS_OF_BINS, b) for b in BINS]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=1000)
    with quiet():
        errors = {name: measure(settings, name) for name in POPULATIONS}
    parts = [f"Mean over {settings.trials:,} draws ± half of the 90 % interval; all errors squared, sweeps x 1e4."]
    for name, of_population in errors.items():
        parts += [f"## {name}", ratio_table(name, of_population), sweep_table(of_population)]
        parts.append(constants_sentence(name, of_population))
    publish(settings, "synthetic", "Synthetic validation of the bound", parts, picture(errors))


if __name__ == "__main__":
    main()
