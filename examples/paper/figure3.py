"""Figure 3: squared marginal calibration error against bins, and MSE against it, CIFAR-10 VGG16.

1,000 rows drawn with replacement calibrate, all 10,000 rows are the population, 100 draws.
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
)
from examples.paper.populations import FinitePopulation
from examples.paper.published import BINS, FIGURE_3, LOWER_MSE, REDUCTION_AT_100_BINS, ROOT_REDUCTION
from mlflow_calib.report.reliability import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_FIT, N_CLASSES = 1000, 10
#: "At most .02" in the paper is the root: 4e-4 squared.
LIMIT_SQUARED = 4e-4
#: The paper's MSE is half the Brier score summed over classes.
HALF_BRIER = N_CLASSES / 2
H, S = METHODS
Errors = dict[str, Floats]


def measure(settings: Settings) -> Errors:
    """Per method an array (2, trials, bins): squared error and half-Brier MSE."""
    scores, labels = read_scores(settings, "cifar10_vgg")
    population = FinitePopulation(scores, labels[:, None] == np.arange(N_CLASSES))
    errors = {method: np.empty((2, settings.trials, len(BINS))) for method in METHODS}
    for trial in tqdm(range(settings.trials), desc="draws", disable=None):
        drawn = np.random.default_rng([settings.seed, trial]).integers(len(labels), size=N_FIT)
        for method in METHODS:
            for position, n_bins in enumerate(BINS):
                calibrator = fit_as_published(scores[drawn], labels[drawn], method, n_bins, reduction="marginal")
                judged = population.judge(calibrator)
                errors[method][:, trial, position] = judged.squared_error, judged.mse * HALF_BRIER
    return errors


def left_table(errors: Errors) -> str:
    """Squared calibration error by bins."""
    head = ["bins", f"{H}, published", "ours", f"{S}, published", "ours", "lower by, published", "ours"]
    rows = []
    for position, n_bins in enumerate(BINS):
        h, s = (errors[method][0][:, position] for method in METHODS)
        row = [str(n_bins)]
        for method, ours in zip(METHODS, (h, s), strict=True):
            published = FIGURE_3[method]
            row.append(f"{published['squared'][position]:.2f} ± {published['half_width'][position]:.2f}")
            row.append(interval_90(ours).text(1e4))
        lower = 1 - FIGURE_3[S]["squared"][position] / FIGURE_3[H]["squared"][position]
        rows.append([*row, f"{lower:.0%}", _lower_by(s, h)])
    return table_text(head, rows)


def right_table(errors: Errors) -> str:
    """MSE by bins, to be read against the squared error."""
    head = ["bins", f"{H}, published", "ours", f"{S}, published", "ours"]
    rows = []
    for position, n_bins in enumerate(BINS):
        row = [str(n_bins)]
        for method in METHODS:
            row.append(f"{FIGURE_3[method]['mse'][position]:.5f}")
            row.append(interval_90(errors[method][1][:, position]).text(digits=5))
        rows.append(row)
    return table_text(head, rows)


def best_within_limit(errors: Errors, method: str) -> int:
    """Position of the number of bins with the lowest MSE among those whose squared error is within the limit."""
    squared, mse = errors[method].mean(axis=1)
    return int(np.argmin(np.where(squared <= LIMIT_SQUARED, mse, np.inf)))


def _lower_by(ours: Floats, other: Floats) -> str:
    ratio = ratio_90(ours, other)
    return f"{100 * (1 - ratio.mean):.1f} ± {100 * ratio.half_width:.1f} %"


def claims(errors: Errors) -> str:
    """The paper's two headline claims in its words and ours."""
    h, s = (errors[method] for method in METHODS)
    root_lower = 1 - np.sqrt(s[0][:, -1].mean() / h[0][:, -1].mean())
    at_h, at_s = best_within_limit(errors, H), best_within_limit(errors, S)
    first = (
        f"At 100 bins the **squared** calibration error is lower by {_lower_by(s[0][:, -1], h[0][:, -1])} "
        f"({REDUCTION_AT_100_BINS}); its root, **not squared**, by {100 * root_lower:.1f} % ({ROOT_REDUCTION})."
    )
    second = (
        f"Where the calibration error (root) is at most .02, the lowest MSE of {S} is at {BINS[at_s]} bins and that of "
        f"{H} at {BINS[at_h]} bins: lower by {_lower_by(s[1][:, at_s], h[1][:, at_h])} ({LOWER_MSE})."
    )
    return f"{first}\n\n{second}"


def picture(errors: Errors) -> Figure:
    """Both panels, published figures beside ours."""
    figure, (left, right) = drawing.panels(2, "Figure 3, CIFAR-10 VGG16, marginal, 1,000 rows to calibrate")
    for method in reversed(METHODS):
        squared, mse = ([interval_90(column) for column in part.T] for part in errors[method])
        published = FIGURE_3[method]
        drawing.draw(left, BINS, squared, method, 1e4)
        drawing.draw_published(left, BINS, published["squared"], method)
        drawing.draw(right, [one.mean * 1e4 for one in squared], mse, method)
        drawing.draw_published(right, published["squared"], published["mse"], method)
    right.axvline(LIMIT_SQUARED * 1e4, color=INK, linewidth=0.8, linestyle=":")
    right.annotate("root .02", (LIMIT_SQUARED * 1e4, 0.069), xytext=(4, 0), textcoords="offset points", fontsize=8)
    drawing.name_axes(left, "left", "bins", "squared calibration error x 1e4")
    drawing.name_axes(right, "right", "squared calibration error x 1e4", "MSE (half the summed Brier score)")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=100)
    with quiet():
        errors = measure(settings)
    parts = [
        f"Mean over {settings.trials} draws ± half of the 90 % interval. Squared calibration error x 1e4:",
        left_table(errors),
        "MSE, half the Brier score summed over classes:",
        right_table(errors),
        claims(errors),
    ]
    publish(settings, "figure3", "Figure 3: CIFAR-10 VGG16, marginal", parts, picture(errors))


if __name__ == "__main__":
    main()
