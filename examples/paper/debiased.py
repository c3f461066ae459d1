"""Debiased against plug-in estimates of the squared calibration error, CIFAR-10 VGG16, top-label.

1,000 rows for Platt scaling and 2,000 for the bins, 7,000 rows to verify, of which n are drawn 1,000 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from examples.paper import drawing
from examples.paper.common import (
    Floats,
    Interval,
    Settings,
    interval_90,
    publish,
    quiet,
    ratio_90,
    read_scores,
    settings_of,
    table_text,
    top_label,
)
from examples.paper.populations import FinitePopulation, squared_error_of
from examples.paper.published import DEBIASED
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.error_statistics import debiased_squared_of, plugin_squared_of
from mlflow_calib.report.reliability import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_PLATT, N_BINS_ROWS = 1000, 2000
ROWS, BINS = (500, 1000, 2000, 4000, 7000), (15, 100)
#: Splits of the file into rows to calibrate and rows to verify, each with its own draws.
N_SPLITS = 20


@dataclass(frozen=True)
class Setting:
    """Estimates less the true squared error, per draw, plug-in and debiased; and the true error, mean over splits."""

    plugin: Floats
    debiased: Floats
    truth: float


def measure(settings: Settings) -> dict[tuple[int, int], Setting]:
    """Draw evaluation rows with replacement from the rows to verify, which are the population."""
    confidence, correct = top_label(*read_scores(settings, "cifar10_vgg"))
    found: dict[tuple[int, int], list[tuple[Floats, Floats, float]]] = {(b, n): [] for b in BINS for n in ROWS}
    draws = np.array_split(np.arange(settings.trials), min(N_SPLITS, settings.trials))
    for split, of_split in enumerate(tqdm(draws, desc="splits", disable=None)):
        rng = np.random.default_rng([settings.seed, split])
        order = rng.permutation(len(correct))
        for n_bins in BINS:
            masses, rates, values = _verified(confidence[order], correct[order], n_bins)
            truth = squared_error_of(masses, rates, values, merged=False)
            for n in ROWS:
                estimates = _estimates(rng, n, len(of_split), masses, rates, values)
                found[n_bins, n].append((estimates[0] - truth, estimates[1] - truth, truth))
    return {key: _joined(parts) for key, parts in found.items()}


def _verified(confidence: Floats, correct: Floats, n_bins: int) -> tuple[Floats, Floats, Floats]:
    """Masses, rates and outputs of the bins on the rows to verify, of a calibrator fitted to the rows before."""
    n_fit = N_PLATT + N_BINS_ROWS
    # Platt scaling on the first 1,000 rows, bins and their means on the next 2,000, as in the authors' script
    parts = np.repeat([1, 2, 3], [N_PLATT, N_BINS_ROWS // 2, N_BINS_ROWS // 2])
    calibrator = fit_calibrator(confidence[:n_fit], correct[:n_fit], n_bins=n_bins, scaling="platt", parts=parts)
    (one_map,) = calibrator.maps
    population = FinitePopulation(confidence[n_fit:], correct[n_fit:])
    counts, positives = population.cells(0, one_map.edges)
    return counts / population.n, positives / np.maximum(counts, 1), one_map.values


def _estimates(
    rng: np.random.Generator, n: int, draws: int, masses: Floats, rates: Floats, values: Floats
) -> tuple[Floats, Floats]:
    """Both estimates on ``draws`` sets of n rows: counts of bin and outcome are multinomial."""
    counts = rng.multinomial(n, masses, size=draws)
    positives = rng.binomial(counts, rates)
    return plugin_squared_of(counts, positives, values), debiased_squared_of(counts, positives, values)


def _joined(parts: list[tuple[Floats, Floats, float]]) -> Setting:
    plugin, debiased, truths = zip(*parts, strict=True)
    return Setting(np.concatenate(plugin), np.concatenate(debiased), float(np.mean(truths)))


def table(found: dict[tuple[int, int], Setting]) -> str:
    """Bias and mean squared error of both estimates of the squared calibration error."""
    head = ["bins", "rows", "truth x 1e4", "plug-in bias", "debiased bias", "MSE, plug-in / debiased", "published"]
    head.append("mean absolute deviation, plug-in / debiased")
    rows = []
    for (n_bins, n), s in found.items():
        biases = [interval_90(part).text(1e4) for part in (s.plugin, s.debiased)]
        ratios = [ratio_90(np.abs(s.plugin) ** p, np.abs(s.debiased) ** p).text() for p in (2, 1)]
        known = DEBIASED.get((n_bins, n))
        row = [
            str(n_bins),
            f"{n:,}",
            f"{s.truth * 1e4:.2f}",
            *biases,
            ratios[0],
            f"{known}" if known else "",
            ratios[1],
        ]
        rows.append(row)
    return table_text(head, rows)


def picture(found: dict[tuple[int, int], Setting]) -> Figure:
    """Root mean square deviation of the estimates from the true squared error, by rows."""
    figure, axes = drawing.panels(len(BINS), "Estimates of the squared top-label calibration error, CIFAR-10 VGG16")
    for one, n_bins in zip(axes, BINS, strict=True):
        for method in ("plug-in", "debiased"):
            deviations = [found[n_bins, n].plugin if method == "plug-in" else found[n_bins, n].debiased for n in ROWS]
            drawing.draw(one, ROWS, [_root_mean_square(d) for d in deviations], method, 1e4)
        one.axhline(
            found[n_bins, ROWS[0]].truth * 1e4, color=INK, linewidth=0.8, linestyle=":", label="the error itself"
        )
        one.set_ylim(bottom=0)
        drawing.name_axes(one, f"{n_bins} bins", "rows to verify", "root mean square deviation x 1e4")
    return figure


def _root_mean_square(deviations: Floats) -> Interval:
    squares = interval_90(deviations**2)
    root = float(np.sqrt(squares.mean))
    return Interval(root, squares.half_width / (2 * root))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=1000)
    with quiet():
        found = measure(settings)
    n_splits = min(N_SPLITS, settings.trials)
    words = (
        f"{settings.trials:,} draws over {n_splits} splits of the file, ± half of the 90 % interval. The truth is the "
        "squared calibration error on all 7,000 rows to verify; biases are of the squared error, x 1e4."
    )
    publish(settings, "debiased", "Debiased against plug-in", [words, table(found)], picture(found))


if __name__ == "__main__":
    main()
