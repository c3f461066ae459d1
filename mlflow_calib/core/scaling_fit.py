"""Fits of one family: the boundary by profile likelihood, the coefficients by Newton's method."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from mlflow_calib.core.scaling_families import FAMILIES, Family
from mlflow_calib.core.scaling_function import ScalingFunction
from mlflow_calib.core.scaling_newton import Minimum, minimise
from mlflow_calib.core.scaling_rows import Points, TeachingRows, clipped
from mlflow_calib.runtime import Floats

#: The smallest boundary within this many nats of the best is taken: half the .999 quantile of chi-square(1).
NATS_FROM_BEST = 5.414
#: More rows than this are fitted by the points of their cells, which moves the coefficients by about 1e-12.
EXACT_ROWS = 20_000


def fit_family(
    name: str, rows: TeachingRows, loss: str, targets: str, boundary: float | None = None
) -> ScalingFunction:
    """Fit one family, at the boundary given or else at the smallest that the data do not refute at 99.9 %.

    Where scores separate the labels (every positive scores at least as high as every negative) neither loss has a
    minimum: the fit is then to the targets of Platt 1999, and ``converged`` is False.
    """
    family = FAMILIES[name]
    separated = rows.separated(at_zero=not family.intercept)
    smoothed = separated or targets == "platt"
    goals = rows.targets(smoothed)
    boundaries = rows.boundaries()
    if separated or boundary is not None:
        boundaries = boundaries[:1] if boundary is None else np.array([boundary])
    cells = Points.of_cells(rows)
    chosen, start = _on_cells(family, rows, cells, goals, boundaries)
    held = rows.held(chosen)
    points = Points.of_rows(held) if len(held.x) <= EXACT_ROWS else cells if held is rows else Points.of_cells(held)
    ends = held.ends
    fit = _minimum(family, points, goals, ends, loss, start)
    aims = points.aims(goals)
    # the squared loss was minimised with y in place of its equal y^2, which smoothed targets are not
    rest = float(points.totals @ (aims * (aims - 1))) if loss == "squared" else 0.0
    parameters: dict[str, Any] = family.parameters(fit.coefficients()[0], *ends)
    return ScalingFunction(
        family=name,
        **parameters,
        boundary=chosen,
        converged=bool(fit.converged[0]) and not separated,
        n_iterations=fit.n_iterations,
        constraint_active=bool(fit.held.any()),
        loss=(float(fit.losses[0]) + rest) / len(held.x),
        loss_name=loss,
        targets="platt" if smoothed else "labels",
    )


def identity(rows: TeachingRows, loss: str) -> ScalingFunction:
    """The scores as they are, with the loss they have."""
    x, y = rows.x, rows.outcomes
    values = (expit(x) - y) ** 2 if loss == "squared" else np.logaddexp(0.0, x) - y * x
    mean = float(np.average(values, weights=rows.weights))
    boundary = 0.0 if rows.probabilities else None
    return ScalingFunction("identity", 1.0, 0.0, boundary, True, 0, False, mean, loss_name=loss)


def _on_cells(
    family: Family, rows: TeachingRows, cells: Points, goals: Floats, boundaries: Floats
) -> tuple[float | None, Floats]:
    """Boundary by profile likelihood over cells of rows, and the coefficients there, where the rows start."""
    x = clipped(cells.x, boundaries)
    features = family.features(x, x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True))
    fit = minimise(features, cells.totals * cells.aims(goals), cells.totals, intercept=family.intercept)
    nats = (fit.losses - fit.losses.min()) * rows.effective_share
    best = int(np.argmax(nats <= NATS_FROM_BEST))
    return float(boundaries[best]) if rows.probabilities else None, fit.coefficients()[[best]]


def _minimum(
    family: Family, points: Points, goals: Floats, ends: tuple[float, float], loss: str, start: Floats
) -> Minimum:
    features = family.features(points.x[None], *np.reshape(ends, (2, 1, 1)))
    positives = points.totals * points.aims(goals)
    return minimise(features, positives, points.totals, intercept=family.intercept, loss=loss, start=start)
