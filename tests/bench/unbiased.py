"""Whether the mean of the debiased square is the truth: 20,000 draws of every setting but groups of unequal sizes.

Of thin settings it is not: a bin that holds one row adds nothing.
``python -m tests.bench.unbiased`` prints the table that docs/coverage.md shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mlflow_calib.core.error_statistics import debiased_squared_of
from tests.bench.coverage import group_terms_of_draws
from tests.bench.populations import (
    Classes,
    Groups,
    Rows,
    chunks,
    class_settings,
    group_settings,
    rows_settings,
)

DRAWS = 20_000
CHUNK = 500


class Distance(NamedTuple):
    """Distance of the mean square of all draws from the truth, in standard errors."""

    kind: str
    name: str
    distance: float


def squares_of_rows(population: Rows, rng: np.random.Generator, n_draws: int) -> Any:
    """Debiased squares of drawn evaluation data, shape (draws,)."""
    return debiased_squared_of(*population.draw(rng, n_draws), population.u)


def squares_of_groups(population: Groups, rng: np.random.Generator, n_draws: int) -> Any:
    """The square T_G of the lower bound by group, shape (draws,)."""
    return group_terms_of_draws(*population.draw(rng, n_draws), population.u).lower_centre


def squares_of_classes(population: Classes, rng: np.random.Generator, n_draws: int) -> Any:
    """Mean over classes of their debiased squares, shape (draws,)."""
    cells = population.cells(rng, n_draws)
    rows, squares = cells.sum(axis=2).astype(np.float64), []
    for k, u in enumerate(population.u):
        inside = np.equal.outer(population.bins[:, k], np.arange(len(u))).astype(np.float64)
        squares.append(debiased_squared_of(rows @ inside, cells[:, :, k] @ inside, u))
    return np.mean(squares, axis=0)


def distance(population: Any, squares_of: Any, seed: list[int], n_draws: int = DRAWS) -> float:
    """Distance of the mean of ``squares_of`` from the truth, in standard errors."""
    rng = np.random.default_rng(seed)
    squares = np.concatenate([squares_of(population, rng, size) for size in chunks(n_draws, CHUNK)])
    # Labels that never vary leave rounding alone.
    error = max(float(squares.std(ddof=1)) / np.sqrt(n_draws), 1e-12)
    return float(squares.mean() - population.theta) / error


def distances() -> Iterator[Distance]:
    """Every setting in which the square is unbiased."""
    equal = {name: one for name, one in group_settings().items() if one.sigma == 0}
    for kind, settings, squares_of in (
        ("independent rows", rows_settings(), squares_of_rows),
        ("several classes on the same rows", class_settings(), squares_of_classes),
        ("groups of equal sizes, T_G", equal, squares_of_groups),
    ):
        for name, population in settings.items():
            yield Distance(kind, name, distance(population, squares_of, [23, len(name)]))


def table(found: list[Distance]) -> str:
    """The farthest of each kind, as Markdown."""
    lines = ["| kind | settings | farthest from the truth, standard errors | over 4 |", "|---|--:|---|--:|"]
    for kind in dict.fromkeys(one.kind for one in found):
        own = [one for one in found if one.kind == kind]
        far = max(own, key=lambda one: abs(one.distance))
        over = sum(abs(one.distance) > 4 for one in own)
        lines.append(f"| {kind} | {len(own)} | {far.distance:+.2f} ({far.name}) | {over} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(list(distances())))
