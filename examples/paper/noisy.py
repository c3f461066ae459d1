"""Scaling alone keeps an error that binning averages out: Platt's curve with noise of ± .02 that no family fits.

z uniform on [.25, .75], P(y = 1 | z) = sigma(2 logit z + 1) ± .02 in 100,000 cells; 3,000 rows, 10 bins, 1,000 draws.
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
    settings_of,
    table_text,
)
from examples.paper.populations import PlattPopulation, squared_error_of
from examples.paper.published import NOISY
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.report.reliability import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOWER, UPPER, NOISE, N_CELLS, N_BINS = 0.25, 0.75, 0.02, 100_000, 10
ROWS = (500, 1000, 2000, 3000, 4000)
#: The published figure is for this many rows.
PUBLISHED_ROWS = 3000
Errors = dict[str, Floats]


class NoisyPopulation:
    """Cells of equal mass, each with its own rate: Platt's curve plus or minus the noise."""

    def __init__(self, seed: int) -> None:
        """Throw the signs of the noise once, for all draws."""
        signs = np.random.default_rng([seed, 0]).integers(2, size=N_CELLS) * 2 - 1
        self.middles = LOWER + (np.arange(N_CELLS) + 0.5) * (UPPER - LOWER) / N_CELLS
        self.rates = PlattPopulation(2, 1).rate(self.middles) + NOISE * signs

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Scores, at the middles of cells, and outcomes of n rows."""
        cells = rng.integers(N_CELLS, size=n)
        return self.middles[cells], (rng.uniform(size=n) < self.rates[cells]).astype(int)

    def squared_errors(self, calibrator: Calibrator) -> tuple[float, float]:
        """Exact squared error of the binned outputs, and of the scaling function alone (NaN where there is none)."""
        (one_map,) = calibrator.maps
        cuts = np.searchsorted(self.middles, one_map.edges, side="right")
        starts = np.concatenate([[0], cuts])
        counts = np.diff(np.concatenate([starts, [N_CELLS]]))
        rates = np.add.reduceat(self.rates, starts) / counts
        binned = squared_error_of(counts / N_CELLS, rates, one_map.values, merged=False)
        g = one_map.scaling
        return binned, float("nan") if g is None else float(np.mean((g(self.middles) - self.rates) ** 2))


def measure(settings: Settings) -> Errors:
    """Squared errors, (trials, rows), of both methods and of scaling alone."""
    population = NoisyPopulation(settings.seed)
    errors = {name: np.empty((settings.trials, len(ROWS))) for name in (*METHODS, "scaling")}
    for trial in tqdm(range(settings.trials), desc="draws", disable=None):
        for position, n in enumerate(ROWS):
            rows = population.draw(np.random.default_rng([settings.seed, 1, trial, n]), n)
            for method in METHODS:
                binned, scaled = population.squared_errors(fit_as_published(*rows, method, N_BINS))
                errors[method][trial, position] = binned
                if method == "scaling-binning":
                    errors["scaling"][trial, position] = scaled
    return errors


def table(errors: Errors) -> str:
    """Squared errors by rows, and how many times that of scaling is."""
    rows = []
    for position, n in enumerate(ROWS):
        of_methods = [interval_90(values[:, position]).text(1e4) for values in errors.values()]
        ratio = ratio_90(errors["scaling"][:, position], errors["scaling-binning"][:, position]).text()
        rows.append([f"{n:,}", *of_methods, ratio, NOISY if n == PUBLISHED_ROWS else ""])
    return table_text(["rows", *errors, "scaling / scaling-binning", "published"], rows)


def picture(errors: Errors) -> Figure:
    """Squared error by rows."""
    figure, (axes,) = drawing.panels(1, "Noisy Platt curve, 10 bins")
    for method, values in errors.items():
        drawing.draw(axes, ROWS, [interval_90(column) for column in values.T], method, 1e4)
    axes.axhline(NOISE**2 * 1e4, color=INK, linewidth=0.8, linestyle=":", label="noise², what scaling cannot fit")
    axes.set_ylim(bottom=0)
    drawing.name_axes(axes, "", "rows to calibrate", "squared calibration error x 1e4")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=1000)
    with quiet():
        errors = measure(settings)
    words = f"Mean over {settings.trials:,} draws ± half of the 90 % interval; squared calibration error x 1e4, exact."
    publish(settings, "noisy", "Scaling alone against scaling-binning", [words, table(errors)], picture(errors))


if __name__ == "__main__":
    main()
