"""Top-label calibration on CIFAR-10 VGG16 and CIFAR-100 WideResNet: which method wins depends on the number of bins.

The binary problem (confidence, correct) with Platt scaling stated; 1,000 rows drawn with replacement, 100 draws.
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
from examples.paper.published import BINS as PUBLISHED_BINS
from examples.paper.published import TOP_LABEL_CIFAR10

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_FIT = 1000
#: The paper's 10 to 100, and fewer.
BINS = (2, 5, *PUBLISHED_BINS)
SETS = {"cifar10_vgg": "CIFAR-10 VGG16", "cifar100_wideresnet": "CIFAR-100 WideResNet"}
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {"cifar10_vgg": {**TOP_LABEL_CIFAR10}}
H, S = METHODS
Errors = dict[str, Floats]


def measure(settings: Settings, name: str) -> Errors:
    """Squared top-label calibration errors, per method (trials, bins)."""
    confidence, correct = top_label(*read_scores(settings, name))
    population = FinitePopulation(confidence, correct)
    errors = {method: np.empty((settings.trials, len(BINS))) for method in METHODS}
    for trial in tqdm(range(settings.trials), desc=name, disable=None):
        drawn = np.random.default_rng([settings.seed, trial]).integers(len(correct), size=N_FIT)
        for method in METHODS:
            for position, n_bins in enumerate(BINS):
                calibrator = fit_as_published(confidence[drawn], correct[drawn], method, n_bins)
                errors[method][trial, position] = population.judge(calibrator).squared_error
    return errors


def table(errors: Errors, published: dict[str, tuple[float, ...]] | None) -> str:
    """Squared error by bins, the published one where there is one, and the ratio."""
    head = ["bins", *(f"{m}, published" for m in METHODS if published), *errors, f"{S} / {H}"]
    rows = []
    for position, n_bins in enumerate(BINS):
        row = [str(n_bins)]
        if published:
            known = n_bins in PUBLISHED_BINS
            row += [f"{published[m][PUBLISHED_BINS.index(n_bins)]:.2f}" if known else "" for m in METHODS]
        row += [interval_90(of_way[:, position]).text(1e4) for of_way in errors.values()]
        rows.append([*row, ratio_90(errors[S][:, position], errors[H][:, position]).text()])
    return table_text(head, rows)


def sentence(errors: Errors) -> str:
    """Where which method has the lower error, beyond the 90 % interval of the ratio."""
    ratios = [ratio_90(errors[S][:, position], errors[H][:, position]) for position in range(len(BINS))]
    above = [str(b) for b, r in zip(BINS, ratios, strict=True) if r.mean - r.half_width > 1]
    below = [str(b) for b, r in zip(BINS, ratios, strict=True) if r.mean + r.half_width < 1]
    return (
        f"{H} is lower at {', '.join(above) or 'no number of'} bins, {S} at {', '.join(below) or 'no number of'} bins."
    )


def picture(errors: dict[str, Errors]) -> Figure:
    """A panel a data set."""
    figure, axes = drawing.panels(len(errors), "Top-label, 1,000 rows to calibrate, Platt scaling")
    for one, (name, of_set) in zip(axes, errors.items(), strict=True):
        for method in reversed(METHODS):
            drawing.draw(one, BINS, [interval_90(column) for column in of_set[method].T], method, 1e4)
            if name in PUBLISHED:
                drawing.draw_published(one, PUBLISHED_BINS, PUBLISHED[name][method], method)
        drawing.name_axes(one, SETS[name], "bins", "squared calibration error x 1e4")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=100)
    with quiet():
        errors = {name: measure(settings, name) for name in SETS}
    parts = [f"Mean over {settings.trials} draws ± half of the 90 % interval. Squared calibration error x 1e4."]
    for name, of_set in errors.items():
        parts += [f"## {SETS[name]}", table(of_set, PUBLISHED.get(name)), sentence(of_set)]
    publish(settings, "top_label", "Top-label calibration", parts, picture(errors))


if __name__ == "__main__":
    main()
