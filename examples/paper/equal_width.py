"""Equal-width bins do not give the guarantee: they are not well balanced, and rare bins stay unverified.

Scores z ~ Beta(.3, 3), P(y = 1 | z) = z: truth known. 4,000 rows to calibrate, 4,000 to verify, 1,000 draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc
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
    settings_of,
    table_text,
)
from examples.paper.populations import squared_error_of
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.status import status
from mlflow_calib.core.theory import balance_of
from mlflow_calib.report.reliability import COLOURS, INK, MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Parameters of the scores' beta distribution: mean 1/11, most rows near zero.
P, Q = 0.3, 3.0
#: Enough rows for 100 bins by the lemma (3,041 at 95 %).
N_FIT, N_VERIFY = 4000, 4000
BINS, BINNINGS = (5, 10, 20, 50, 100), ("uniform-mass", "equal-width")
#: The theorem is for schemes that are 2-well-balanced.
BALANCED = 2.0
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Draw:
    """One calibrator on the population: well-balancedness, squared error, worst bin, and whether it can be verified."""

    balanced: float
    alpha: float
    squared_error: float
    worst_gap: float
    verified: float


def measure(settings: Settings) -> dict[Key, list[Draw]]:
    """Fit both methods with both kinds of bins."""
    found: dict[Key, list[Draw]] = {(m, binning, b): [] for m in METHODS for binning in BINNINGS for b in BINS}
    for trial in tqdm(range(settings.trials), desc="draws", disable=None):
        rng = np.random.default_rng([settings.seed, trial])
        z = rng.beta(P, Q, size=N_FIT)
        y = (rng.uniform(size=N_FIT) < z).astype(int)
        for (method, binning, n_bins), draws in found.items():
            calibrator = fit_as_published(z, y, method, n_bins, binning=binning)
            draws.append(_judged(calibrator, np.random.default_rng([settings.seed, trial, n_bins])))
    return found


def exact_bins(edges: Floats) -> tuple[Floats, Floats]:
    """P(z in bin) and E[y | bin] = E[z | bin], by the incomplete beta function."""
    ends = np.concatenate([[0.0], edges, [1.0]])
    masses = np.diff(betainc(P, Q, ends))
    moments = P / (P + Q) * np.diff(betainc(P + 1, Q, ends))
    return masses, moments / np.maximum(masses, np.finfo(float).tiny)


def _judged(calibrator: Calibrator, rng: np.random.Generator) -> Draw:
    (one_map,) = calibrator.maps
    masses, rates = exact_bins(one_map.edges)
    alpha = float(balance_of(masses))
    counts = rng.multinomial(N_VERIFY, masses / masses.sum())
    judged = ErrorStatistics(counts, rng.binomial(counts, np.clip(rates, 0, 1)), one_map.values)
    return Draw(
        balanced=float(alpha <= BALANCED),
        alpha=alpha,
        squared_error=squared_error_of(masses, rates, one_map.values, merged=False),
        worst_gap=float(np.abs(one_map.values - rates).max()),
        verified=float(status(judged)[0] == "ok"),
    )


def column(draws: list[Draw], name: str) -> Floats:
    """One figure over draws."""
    return np.array([getattr(draw, name) for draw in draws])


def table(found: dict[Key, list[Draw]]) -> str:
    """All settings."""
    head = ["method", "bins", "binning", "2-well-balanced", "median alpha", "squared error x 1e4", "worst bin's gap"]
    rows = []
    for (method, binning, n_bins), draws in sorted(found.items(), key=lambda item: (item[0][0], item[0][2])):
        of: dict[str, Any] = {field.name: column(draws, field.name) for field in fields(Draw)}
        row = [method, str(n_bins), binning, f"{of['balanced'].mean():.1%}", f"{np.median(of['alpha']):.1f}"]
        row += [interval_90(of["squared_error"]).text(1e4), interval_90(of["worst_gap"]).text(digits=3)]
        rows.append([*row, f"{of['verified'].mean():.1%}"])
    return table_text([*head, f"verifiable on {N_VERIFY:,} rows"], rows)


def picture(found: dict[Key, list[Draw]]) -> Figure:
    """Alpha and the worst bin's gap by bins, of scaling-binning and histogram binning."""
    figure, (left, right) = drawing.panels(2, "Equal-width bins (dashed) beside uniform-mass bins, skewed scores")
    for (method, binning), style in _styles().items():
        alphas = [float(np.median(column(found[method, binning, b], "alpha"))) for b in BINS]
        gaps = [interval_90(column(found[method, binning, b], "worst_gap")) for b in BINS]
        left.plot(BINS, alphas, **style)
        right.plot(BINS, [gap.mean for gap in gaps], **style)
    left.axhline(BALANCED, color=INK, linewidth=0.8, linestyle=":")
    left.annotate(
        "2, what the theorem asks",
        (BINS[-1], BALANCED),
        xytext=(0, 4),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    left.set_yscale("log")
    drawing.name_axes(left, "how unbalanced", "bins asked for", "median alpha")
    drawing.name_axes(right, "the worst bin", "bins asked for", "largest |output - P(y = 1 | bin)|, not squared")
    return figure


def _styles() -> dict[tuple[str, str], dict[str, Any]]:
    styles: dict[tuple[str, str], dict[str, Any]] = {}
    for method in reversed(METHODS):
        place = drawing.PLACES[method]
        for binning in BINNINGS:
            dashed = "-" if binning == "uniform-mass" else (0, (4, 3))
            look = {
                "color": COLOURS[place],
                "marker": MARKERS[place],
                "markersize": 5,
                "linestyle": dashed,
            }
            styles[method, binning] = {**look, "linewidth": 1.4, "label": f"{method}, {binning}"}
    return styles


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    settings = settings_of(__doc__, argv, trials=1000)
    with quiet():
        found = measure(settings)
    head = (
        f"{settings.trials:,} draws, ± half of the 90 % interval; errors and masses exact on the population. "
        "Verifiable: the status of the evaluation data is ok, so that a bound may gate."
    )
    tail = (
        "The squared error weighs a bin by its mass and forgives rare bins: with scaling-binning it hardly suffers. "
        "What is lost is what the theorem promises and the gate needs: a bound on the mass of every bin, hence on its "
        "error and on the rows that verify it."
    )
    parts = [head, table(found), tail]
    publish(settings, "equal_width", "Equal-width bins do not give the guarantee", parts, picture(found))


if __name__ == "__main__":
    main()
