"""Choice of family and boundary by cross-fitted squared loss inside T1: ``scaling="auto"``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from mlflow_calib.core.scaling_families import FAMILIES
from mlflow_calib.core.scaling_fit import NATS_FROM_BEST
from mlflow_calib.core.scaling_newton import minimise
from mlflow_calib.core.scaling_rows import TeachingRows, cell_of, clipped
from mlflow_calib.runtime import Floats

N_FOLDS = 3
#: The three folds are drawn this many times, which takes the luck of one draw out of the comparison.
N_REPEATS = 3
#: Rows of each outcome without which nothing is compared.
FEWEST = 2 * N_FOLDS


@dataclass(frozen=True, eq=False)
class Rival:
    """A family at one boundary: its features of every group of rows (P, m), and its fit to them all (1, P + 1)."""

    family: str
    boundary: float
    features: Floats
    start: Floats


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of one outcome in one cell of log odds, sorted by outcome, then x. All of shape (m,).

    Folds are dealt by the counts of groups alone, so that the order of rows does not matter.
    """

    x: Floats
    outcomes: Floats
    counts: Floats
    weights: Floats
    squares: Floats

    @classmethod
    def of(cls, rows: TeachingRows) -> Groups:
        """Groups of all rows, with the sum of weights and of squared weights."""
        group, place, origin, width = cell_of(rows)
        counts = np.bincount(group)
        held = np.flatnonzero(counts)
        held = held[np.argsort(held % 2, kind="stable")]
        w = rows.weights
        weights, squares = counts, counts
        if w is not None:
            weights, squares = np.bincount(group, w), np.bincount(group, w * w)
        places = np.bincount(group, place if w is None else w * place)[held] / weights[held]
        columns = (column[held].astype(np.float64) for column in (counts, weights, squares))
        return cls(origin + (held // 2 + places) * width, (held % 2).astype(np.float64), *columns)

    def fold_shares(self, rng: np.random.Generator) -> Floats:
        """Share of each group in each fold, shape (3, m): each fold gets a random third of each outcome."""
        sizes = [int(self.counts[self.outcomes == outcome].sum()) for outcome in (0, 1)]
        dealt = np.concatenate([rng.permutation(np.arange(size) % N_FOLDS) for size in sizes])
        stops = np.cumsum(self.counts).astype(np.intp) - 1
        running = np.stack([np.cumsum(dealt == fold)[stops] for fold in range(N_FOLDS)])
        return np.asarray(np.diff(running, axis=1, prepend=0) / self.counts)


def cross_fitted(rows: TeachingRows, loss: str, targets: str, seed: int) -> tuple[dict[str, Any], ...]:
    """Every rival with its cross-fitted squared loss, Platt scaling first.

    Each family stands with the smallest boundary that T1 does not refute and, where that is another, with the
    likeliest one, which counts only where it is better than the smallest by more than a standard error of the
    difference. Platt scaling at its smallest boundary is left for the rival of least loss among those that are
    better than it by more than a standard error. Nothing is compared, and the answer is empty, where scores separate
    the labels or an outcome has fewer than 6 rows.

    Returns
    -------
    tuple of dict
        ``family``, ``boundary``, ``squared_loss`` (mean over rows, each predicted by a fit to the other two folds),
        ``difference`` from the first, its ``standard_error``, and ``chosen``, true of one.
    """
    positive = int(np.count_nonzero(rows.outcomes))
    if min(positive, len(rows.x) - positive) < FEWEST or rows.separated():
        return ()
    groups = Groups.of(rows)
    goals = rows.targets(smoothed=targets == "platt")[groups.outcomes.astype(np.intp)]
    rivals = [rival for name in FAMILIES for rival in _rivals(name, rows, groups, goals)]
    rng = np.random.default_rng(seed)
    losses, beyond_platt, beyond_own = np.mean(
        [_figures(rivals, groups, goals, loss, rng) for _ in range(N_REPEATS)], axis=0
    )
    own_first = [rival.family != before.family for rival, before in zip(rivals[1:], rivals, strict=False)]
    better = (beyond_platt.sum(axis=0) < 0) & ((beyond_own.sum(axis=0) < 0) | [False, *own_first])
    chosen = int(np.argmin(np.where(better, losses[0], np.inf))) if better.any() else 0
    return tuple(
        {
            "family": rival.family,
            "boundary": rival.boundary if rows.probabilities else None,
            "squared_loss": float(losses[0, place]),
            "difference": float(beyond_platt[0, place]),
            "standard_error": float(beyond_platt[1, place]),
            "chosen": place == chosen,
        }
        for place, rival in enumerate(rivals)
    )


def _rivals(name: str, rows: TeachingRows, groups: Groups, goals: Floats) -> Iterator[Rival]:
    boundaries = rows.boundaries()
    x = clipped(groups.x, boundaries)
    features = FAMILIES[name].features(x, x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True))
    fit = minimise(features, groups.weights * goals, groups.weights, intercept=FAMILIES[name].intercept)
    nats = (fit.losses - fit.losses.min()) * rows.effective_share
    for place in sorted({int(np.argmax(nats <= NATS_FROM_BEST)), int(np.argmin(nats))}):
        yield Rival(name, float(boundaries[place]), np.stack([u[place] for u in features]), fit.coefficients()[[place]])


def _figures(rivals: list[Rival], groups: Groups, goals: Floats, loss: str, rng: np.random.Generator) -> Floats:
    """Mean and standard error of three columns, shape (3, 2, C).

    The squared loss of each rival, its difference from that of the first, and from that of the first of its family.
    """
    names = [rival.family for rival in rivals]
    references = [[0] * len(rivals), [names.index(name) for name in names]]
    total, squares = groups.weights.sum(), groups.squares.sum()
    sums = np.zeros((3, 2, len(rivals)))
    for share in groups.fold_shares(rng):
        taught = groups.weights * (1 - share)
        lost = (np.stack([_outputs(rival, taught, goals, loss) for rival in rivals]) - groups.outcomes) ** 2
        for place, columns in enumerate((lost, *(lost - lost[reference] for reference in references))):
            sums[place] += [columns @ (groups.weights * share), columns**2 @ (groups.squares * share)]
    means = sums[:, 0] / total
    variances = (sums[:, 1] - means**2 * squares) / total**2
    return np.stack([means, np.sqrt(np.maximum(variances, 0.0))], axis=1)


def _outputs(rival: Rival, taught: Floats, goals: Floats, loss: str) -> Floats:
    """Outputs for every group of a fit to the weights taught."""
    held = taught > 0
    features = [u[None, held] for u in rival.features]
    positives, totals = (taught * goals)[held], taught[held]
    intercept = FAMILIES[rival.family].intercept
    fit = minimise(features, positives, totals, intercept=intercept, start=rival.start)
    if loss == "squared":
        fit = minimise(features, positives, totals, intercept=intercept, loss=loss, start=fit.coefficients())
    return np.asarray(expit(fit.slopes[0] @ rival.features + fit.intercepts[0]))
