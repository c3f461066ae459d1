"""Step 1 of the scaling-binning calibrator: a scaling function g fitted to scores and outcomes.

Notation of Kumar et al. 2019: z a score, y its outcome, g(z) = sigma(a x + b) with x the log odds of z.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from mlflow_calib.runtime import Floats

#: Candidates for the boundary c: log odds are taken of scores held within [c, 1 - c].
BOUNDARIES = np.array([1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 2e-2, 5e-2, 1e-1])
#: The smallest boundary within this many nats of the best is taken: half the .99 quantile of chi-square(1).
NATS_FROM_BEST = 3.317
MAX_ITERATIONS = 50
MIN_STEP = 1e-9
#: Newton decrement (twice the nats still to gain) at which a fit has converged.
TOLERANCE = 1e-10
#: Cells of log odds that stand for their rows while boundaries are compared.
N_CELLS = 4096


@dataclass(frozen=True)
class ScalingFunction:
    """A fitted scaling function, callable on scores.

    Attributes
    ----------
    family : str
        "platt": g(z) = sigma(a x + b), x = log(z / (1 - z)), a >= 0.
    a, b : float
        Slope and intercept on the log odds.
    boundary : float or None
        Scores are held within [boundary, 1 - boundary] before the log odds; None where scores are log odds already.
    converged : bool
        Whether the log loss has a minimum and Newton's method came to it.
    n_iterations : int
        Newton steps on the rows.
    constraint_active : bool
        Whether the slope is held at 0, because the scores do not rise with the labels.
    loss : float
        Mean log loss over the rows of the fit, in nats; the smaller the better.
    """

    family: str
    a: float
    b: float
    boundary: float | None
    converged: bool
    n_iterations: int
    constraint_active: bool
    loss: float

    def __call__(self, scores: Floats) -> Floats:
        """Scaled probabilities g(z); shapes (n,) -> (n,)."""
        return np.asarray(expit(self.a * log_odds(scores, self.boundary) + self.b))

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of the attributes."""
        return asdict(self)


def fit_platt(scores: Floats, outcomes: Floats, score_kind: str = "probability") -> ScalingFunction:
    """Fit Platt scaling on log odds by log loss, the slope held at or above zero.

    Scores of 0 and 1 have no log odds, and with a fixed clip a few wrong ones rule the fit. The boundary is therefore
    fitted too: the smallest of ``BOUNDARIES`` whose profile log likelihood is within 3.3 nats of the best, that is,
    which the data do not refute at 99 %. Where scores separate the labels (every positive scores at least as high as
    every negative) the log loss has no minimum: the fit is then to the targets of Platt 1999, (n1 + 1) / (n1 + 2) and
    1 / (n0 + 2), and ``converged`` is False.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
        Probabilities in [0, 1], or any finite log odds with ``score_kind="logit"``.
    outcomes : ndarray of float64, shape (n,)
        0 and 1, both present.
    score_kind : {"probability", "logit"}

    Returns
    -------
    ScalingFunction

    Notes
    -----
    Minimises sum_i log(1 + exp(t_i)) - y_i t_i with t = a x + b over a >= 0 and b, by Newton's method with step
    halving. The problem is convex, so a = 0 is the solution exactly where x and y do not correlate positively.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4.1, step 1, with log loss as in
    its experiments. Platt, "Probabilistic outputs for support vector machines", 1999, section 2.2 (targets).

    Examples
    --------
    Scores that are calibrated already stay as they are:

    >>> import numpy as np
    >>> g = fit_platt(np.repeat([0.1, 0.9], 10), np.array([1.0] + [0.0] * 9 + [0.0] + [1.0] * 9))
    >>> round(g.a, 6), round(abs(g.b), 6), g.converged
    (1.0, 0.0, True)
    """
    boundary = None if score_kind == "logit" else float(BOUNDARIES[0])
    x = log_odds(scores, boundary)
    targets, separated = _targets(x, outcomes)
    boundary, start = _on_cells(x, targets, boundary, compare=not separated)
    x = log_odds(scores, boundary)
    fit = _minimise(x[None], targets, np.ones_like(x), start)
    return ScalingFunction(
        family="platt",
        a=float(fit.slopes[0]),
        b=float(fit.intercepts[0]),
        boundary=boundary,
        converged=fit.converged and not separated,
        n_iterations=fit.n_iterations,
        constraint_active=bool(fit.held[0]),
        loss=float(fit.losses[0] / len(x)),
    )


def log_odds(scores: Floats, boundary: float | None) -> Floats:
    """Log odds of scores held within [boundary, 1 - boundary]; with None the scores are log odds already."""
    if boundary is None:
        return scores
    return np.asarray(logit(np.clip(scores, boundary, 1 - boundary)))


def _targets(x: Floats, outcomes: Floats) -> tuple[Floats, bool]:
    positive = outcomes > 0
    n1, n0 = np.count_nonzero(positive), np.count_nonzero(~positive)
    if x[positive].min() < x[~positive].max() or x.min() == x.max():
        return outcomes, False
    return np.where(positive, (n1 + 1) / (n1 + 2), 1 / (n0 + 2)), True


def _on_cells(x: Floats, targets: Floats, boundary: float | None, compare: bool) -> tuple[float | None, Floats]:
    """Boundary by profile likelihood over cells of rows, and the (slope, intercept) there, where the rows start."""
    means, positives, totals = _cells(x, targets)
    if boundary is None or not compare:
        fit = _minimise(means[None], positives, totals)
        return boundary, np.array([fit.slopes[0], fit.intercepts[0]])
    ends = -logit(BOUNDARIES)
    moves = ends < np.abs(x).max()
    moves[0] = True
    fit = _minimise(np.clip(means, -ends[moves, None], ends[moves, None]), positives, totals)
    chosen = int(np.argmax(fit.losses <= fit.losses.min() + NATS_FROM_BEST))
    return float(BOUNDARIES[moves][chosen]), np.array([fit.slopes[chosen], fit.intercepts[chosen]])


def _cells(x: Floats, targets: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean log odds, sum of targets and number of rows of each cell that holds any."""
    width = max((x.max() - x.min()) / N_CELLS, np.finfo(float).tiny)
    cell = ((x - x.min()) / width).astype(np.intp)
    counts = np.bincount(cell)
    held = counts > 0
    totals = counts[held].astype(np.float64)
    sums = [np.bincount(cell, weights=column)[held] for column in (x, targets)]
    return sums[0] / totals, sums[1].astype(np.float64), totals


@dataclass(frozen=True, eq=False)
class _Minimum:
    slopes: Floats
    intercepts: Floats
    losses: Floats
    held: npt.NDArray[np.bool_]
    n_iterations: int
    converged: bool


def _minimise(x: Floats, positives: Floats, totals: Floats, start: Floats | None = None) -> _Minimum:
    """Minimum of sum_i m_i log(1 + exp(t_i)) - k_i t_i over t = a x + b, a >= 0, for each row of x (C, n) at once."""
    center, spread = _moments(x, totals)
    problem = _Problem((x - center[:, None]) / spread[:, None], positives, totals)
    held = problem.u @ positives <= TOLERANCE * totals.sum()
    a, b = problem.null()
    if start is not None and not held.any():
        a, b = start[0] * spread, start[1] + start[0] * center
    losses, p = problem.loss(a, b)
    n_iterations, decrement = 0, np.full(len(x), np.inf)
    while n_iterations < MAX_ITERATIONS and (decrement > TOLERANCE).any():
        step_a, step_b, decrement = problem.newton(p, held)
        a, b, losses, p = problem.descend(a, b, step_a, step_b, losses)
        n_iterations += 1
    converged = bool((decrement <= TOLERANCE).all())
    return _Minimum(a / spread, b - a / spread * center, losses, held, n_iterations, converged)


def _moments(x: Floats, totals: Floats) -> tuple[Floats, Floats]:
    center = x @ totals / totals.sum()
    spread = np.sqrt((x - center[:, None]) ** 2 @ totals / totals.sum())
    return center, np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Standardised log odds u (C, n), with the positives k (n,) of totals m (n,)."""

    u: Floats
    positives: Floats
    totals: Floats

    def null(self) -> tuple[Floats, Floats]:
        """Slope 0 and the intercept that is best with it."""
        rate = self.positives.sum() / self.totals.sum()
        return np.zeros(len(self.u)), np.full(len(self.u), logit(rate))

    def loss(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Log loss (C,) and probabilities (C, n)."""
        t = a[:, None] * self.u + b[:, None]
        e = np.exp(-np.abs(t))
        loss = (np.maximum(t, 0) + np.log1p(e)) @ self.totals - t @ self.positives
        return loss, np.where(t >= 0, 1.0, e) / (1 + e)

    def newton(self, p: Floats, held: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Newton step for slope and intercept and its decrement, zero where the slope is held at 0."""
        residual, weight = p * self.totals - self.positives, p * (1 - p) * self.totals
        weighted = weight * self.u
        gradient_a, gradient_b = (residual * self.u).sum(axis=1), residual.sum(axis=1)
        aa, ab, bb = (weighted * self.u).sum(axis=1), weighted.sum(axis=1), weight.sum(axis=1)
        free = np.where(held, 0.0, 1 / np.maximum(aa * bb - ab**2, np.finfo(float).tiny))
        step_a = (bb * gradient_a - ab * gradient_b) * free
        step_b = (aa * gradient_b - ab * gradient_a) * free
        return step_a, step_b, gradient_a * step_a + gradient_b * step_b

    def descend(self, a: Floats, b: Floats, step_a: Floats, step_b: Floats, losses: Floats) -> tuple[Floats, ...]:
        """Point (a, b) after the step, halved until no loss grows by more than rounding, with loss and p there."""
        size = np.ones(len(a))
        while True:
            trial_a, trial_b = a - size * step_a, b - size * step_b
            trial, p = self.loss(trial_a, trial_b)
            worse = (trial > losses + 1e-13 * np.abs(losses)) & (size > MIN_STEP)
            if not worse.any():
                return trial_a, trial_b, trial, p
            size = np.where(worse, size / 2, size)
