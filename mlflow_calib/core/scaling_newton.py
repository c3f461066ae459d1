"""Minimum of the log or squared loss over increasing functions of a score, for many rivals at once.

t = theta_1 u_1 + ... + theta_P u_P + b with features u that rise with the score and every theta >= 0, so that
sigma(t) never falls. Arrays of rivals (C, n) stand for, say, one family at C boundaries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from mlflow_calib.runtime import Floats

Flags = npt.NDArray[np.bool_]
MAX_ITERATIONS = 50
MIN_STEP = 1e-9
#: Newton decrement (twice the loss still to gain, summed over rows) at which a fit has converged.
TOLERANCE = 1e-10
#: Coefficients of standardised features beyond this are on their way to infinity: there is no minimum.
LARGEST = 1e3
#: Longest Newton step in standardised coefficients; matters where the squared loss is nearly flat.
LONGEST_STEP = 20.0


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the loss is smallest, for each of C rivals.

    Attributes
    ----------
    slopes : ndarray, shape (C, P)
        Coefficients of the features, at least 0.
    intercepts : ndarray, shape (C,)
    losses : ndarray, shape (C,)
        Summed over the rows.
    held : ndarray of bool, shape (C, P)
        Which coefficients the constraint holds at 0.
    converged : ndarray of bool, shape (C,)
    n_iterations : int
    """

    slopes: Floats
    intercepts: Floats
    losses: Floats
    held: Flags
    converged: Flags
    n_iterations: int

    def coefficients(self) -> Floats:
        """Slopes and intercept, shape (C, P + 1)."""
        return np.column_stack([self.slopes, self.intercepts])


def minimise(
    features: list[Floats],
    positives: Floats,
    totals: Floats,
    *,
    intercept: bool = True,
    loss: str = "log",
    start: Floats | None = None,
) -> Minimum:
    """Minimise by Newton's method, projected on theta >= 0 and with step halving.

    Parameters
    ----------
    features : list of P ndarrays, shape (C, n)
        Each rises with the score.
    positives, totals : ndarray, shape (n,)
        Weight of the rows each column stands for, and the part of it that is positive.
    intercept : bool
        Whether b is free; else it is 0.
    loss : {"log", "squared"}
    start : ndarray, shape (C, P + 1), optional
        Slopes and intercept to start from; by default slopes 0.

    Notes
    -----
    Log loss: sum m log(1 + exp t) - k t, convex, so the minimum is the one there is. Squared loss:
    sum m p^2 - 2 k p + k with p = sigma(t), not convex: a local minimum, reached from ``start``; where the Hessian is
    not positive definite its Gauss-Newton part is taken.
    """
    centers, spreads = _moments(features, totals, intercept)
    scaled = [(u - centers[:, j, None]) / spreads[:, j, None] for j, u in enumerate(features)]
    problem = _Problem(scaled, positives, totals, intercept, loss)
    theta = problem.null()
    if start is not None:
        slopes = start[:, :-1] * spreads
        theta = np.column_stack([slopes, start[:, -1] + (start[:, :-1] * centers).sum(axis=1)])
    theta, losses, held, converged, n_iterations = _descend(problem, theta)
    slopes = theta[:, :-1] / spreads
    return Minimum(slopes, theta[:, -1] - (slopes * centers).sum(axis=1), losses, held, converged, n_iterations)


def _moments(features: list[Floats], totals: Floats, intercept: bool) -> tuple[Floats, Floats]:
    n = totals.sum()
    centers = np.stack([u @ totals / n * intercept for u in features], axis=1)
    squares = [(u - centers[:, j, None]) ** 2 @ totals / n for j, u in enumerate(features)]
    spreads = np.sqrt(np.stack(squares, axis=1))
    return centers, np.where(spreads > 0, spreads, 1.0)


def _descend(problem: _Problem, theta: Floats) -> tuple[Floats, Floats, Flags, Flags, int]:
    losses, p = problem.evaluate(theta)
    decrement, n_iterations = np.full(len(theta), np.inf), 0
    held: Flags = np.zeros(theta[:, :-1].shape, dtype=np.bool_)
    while n_iterations < MAX_ITERATIONS and (decrement > TOLERANCE).any():
        step, held, decrement = problem.newton(theta, p)
        theta, losses, p = problem.move(theta, step, losses)
        n_iterations += 1
    converged: Flags = (decrement <= TOLERANCE) & np.all(np.abs(theta) <= LARGEST, axis=1)
    return theta, losses, held, converged, n_iterations


@dataclass(frozen=True, eq=False)
class _Problem:
    """Standardised features (C, n), with the positives k (n,) of totals m (n,)."""

    features: list[Floats]
    positives: Floats
    totals: Floats
    intercept: bool
    loss: str

    def null(self) -> Floats:
        """Slopes 0 and the intercept that is best with them."""
        theta = np.zeros((len(self.features[0]), len(self.features) + 1))
        if self.intercept:
            theta[:, -1] = logit(self.positives.sum() / self.totals.sum())
        return theta

    def evaluate(self, theta: Floats) -> tuple[Floats, Floats]:
        """Losses (C,) and probabilities (C, n)."""
        t = theta[:, 0, None] * self.features[0]
        for j, u in enumerate(self.features[1:], 1):
            t += theta[:, j, None] * u
        t += theta[:, -1, None]
        e = np.abs(t)
        np.exp(np.negative(e, out=e), out=e)
        p = np.where(t >= 0, 1.0, e)
        p /= 1 + e
        if self.loss == "log":
            softplus = np.log1p(e, out=e)
            softplus += np.maximum(t, 0)
            return softplus @ self.totals - t @ self.positives, p
        return (p * p) @ self.totals - 2 * (p @ self.positives) + self.positives.sum(), p

    def newton(self, theta: Floats, p: Floats) -> tuple[Floats, Flags, Floats]:
        """Newton step over what is free, which slopes are held at 0, and the decrement."""
        residual, slope = p * self.totals - self.positives, p * (1 - p)
        if self.loss == "log":
            gradient, hessian = self._sums(residual, slope * self.totals)
        else:
            gradient, hessian = self._squared(p, residual, slope)
        held = (theta[:, :-1] <= TOLERANCE) & (gradient[:, :-1] >= -TOLERANCE * self.totals.sum())
        free = np.column_stack([~held, np.full(len(theta), self.intercept)])
        step = _solve(gradient, hessian, free)
        decrement = (gradient * step).sum(axis=1)
        step *= np.minimum(1.0, LONGEST_STEP / np.maximum(np.abs(step).max(axis=1), LONGEST_STEP))[:, None]
        step[:, :-1] = np.where(held, theta[:, :-1], step[:, :-1])
        return step, held, decrement

    def move(self, theta: Floats, step: Floats, losses: Floats) -> tuple[Floats, Floats, Floats]:
        """Point after the step, halved until no loss grows by more than rounding, with losses and p there."""
        size = np.ones(len(theta))
        while True:
            trial = theta - size[:, None] * step
            trial[:, :-1] = np.maximum(trial[:, :-1], 0.0)
            trial_losses, p = self.evaluate(trial)
            worse = (trial_losses > losses + 1e-13 * np.abs(losses)) & (size > MIN_STEP)
            if not worse.any():
                return trial, trial_losses, p
            size = np.where(worse, size / 2, size)

    def _squared(self, p: Floats, residual: Floats, slope: Floats) -> tuple[Floats, Floats]:
        gauss_newton = 2 * self.totals * slope**2
        gradient, hessian = self._sums(2 * residual * slope, gauss_newton + 2 * residual * slope * (1 - 2 * p))
        indefinite = np.linalg.eigvalsh(hessian if self.intercept else hessian[:, :-1, :-1])[:, 0] <= 0
        if indefinite.any():
            hessian[indefinite] = self._sums(residual, gauss_newton)[1][indefinite]
        return gradient, hessian

    def _sums(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Gradient (C, P + 1) and Hessian (C, P + 1, P + 1) from the loss's derivatives by t (C, n)."""
        size = len(self.features) + 1
        gradient, hessian = np.empty((len(first), size)), np.empty((len(first), size, size))
        gradient[:, -1], hessian[:, -1, -1] = first.sum(axis=1), second.sum(axis=1)
        for j, u in enumerate(self.features):
            weighted = second * u
            gradient[:, j] = np.einsum("cn,cn->c", first, u)
            hessian[:, j, -1] = hessian[:, -1, j] = weighted.sum(axis=1)
            for k in range(j + 1):
                hessian[:, j, k] = hessian[:, k, j] = np.einsum("cn,cn->c", weighted, self.features[k])
        return gradient, hessian


def _solve(gradient: Floats, hessian: Floats, free: Flags) -> Floats:
    """Newton step of the free coefficients, 0 for the others."""
    identity = np.eye(gradient.shape[1])
    scale = np.trace(hessian, axis1=1, axis2=2)[:, None, None] + np.finfo(float).tiny
    both = free[:, :, None] & free[:, None, :]
    damped = np.where(both, hessian / scale, identity) + 1e-13 * identity
    step: Floats = np.linalg.solve(damped, (np.where(free, gradient, 0.0) / scale[:, 0])[:, :, None])[:, :, 0]
    return step
