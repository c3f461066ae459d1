"""The maps of a reduction: one fit for every binary problem, and what a class with too few rows takes instead."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from mlflow_calib.core.class_fit import Recipe, fit_class_map
from mlflow_calib.core.class_map import FEW_ROWS, ClassMap, Floats
from mlflow_calib.core.parts import Parts
from mlflow_calib.core.reductions import BinaryProblem, score_columns
from mlflow_calib.core.scores import CleanRows
from mlflow_calib.core.step_rows import Steps, steps_of

#: Sorting and sums of so many rows leave Python alone for long enough that a second thread pays.
MANY_ROWS, CORES = 100_000, 2


def fit_maps(rows: CleanRows, parts: Parts, recipe: Recipe, unlabeled: CleanRows | None) -> Iterator[ClassMap]:
    """Fit the map of each binary problem, in the order of ``rows.problems()``."""
    problems = zip(rows.problems(), _unlabeled_columns(unlabeled), strict=False)
    if rows.reduction != "top-label-per-class":
        yield from _side_by_side(problems, parts, recipe, len(rows.scores))
        return
    pooled: ClassMap | None = None
    for problem, other in problems:
        steps = steps_of(problem, parts, other, recipe.labels_in_bins)
        if recipe.method == "identity" or _enough(steps, recipe):
            yield fit_class_map(problem.label, steps, recipe)
            continue
        if pooled is None:
            pooled = _pooled(rows, parts, recipe, unlabeled)
        yield replace(pooled, label=problem.label, flags=(*pooled.flags, "few-predicted"))


def _side_by_side(problems: Iterator[Any], parts: Parts, recipe: Recipe, n: int) -> Iterator[ClassMap]:
    """Fits that know nothing of one another: many rows on two cores, and no more columns in memory than cores."""

    def fit(pair: tuple[BinaryProblem, Any]) -> ClassMap:
        problem, other = pair
        return fit_class_map(problem.label, steps_of(problem, parts, other, recipe.labels_in_bins), recipe)

    if n < MANY_ROWS:
        yield from map(fit, problems)
        return
    places, taking = itertools.count(), threading.Lock()
    fitted: dict[int, ClassMap] = {}

    def work(_: int) -> None:
        while True:
            with taking:  # a column is copied only when a core is free for it
                place, pair = next(places), next(problems, None)
            if pair is None:
                return
            fitted[place] = fit(pair)

    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(work, range(CORES)))
    yield from (fitted[place] for place in sorted(fitted))


def _unlabeled_columns(unlabeled: CleanRows | None) -> Iterator[tuple[Any, Floats] | None]:
    if unlabeled is None:
        yield from itertools.repeat(None)
    else:
        n_classes = len(unlabeled.classes)
        yield from score_columns(unlabeled.scores, unlabeled.predicted, unlabeled.reduction, n_classes)


def _enough(steps: Steps, recipe: Recipe) -> bool:
    taught = recipe.taught(steps)
    parts = (steps.one, steps.two, steps.three)
    return min(len(part.scores) for part in parts) >= FEW_ROWS and bool(taught.any()) and not bool(taught.all())


def _pooled(rows: CleanRows, parts: Parts, recipe: Recipe, unlabeled: CleanRows | None) -> ClassMap:
    everyone = BinaryProblem(None, rows.scores, rows.outcomes, rows.weights, slice(None))
    other = None if unlabeled is None else (slice(None), unlabeled.scores)
    return fit_class_map(None, steps_of(everyone, parts, other, recipe.labels_in_bins), recipe)
