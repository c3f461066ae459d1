"""The three steps of the method for one binary problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib import runtime
from mlflow_calib.core.bin_numbers import cube_root_bins, sweep_bins
from mlflow_calib.core.class_map import ClassMap, Floats, few_rows_flag, score_function
from mlflow_calib.core.cuts import edges_at, equal_width_cuts, uniform_mass_cuts
from mlflow_calib.core.folding import folded_edges
from mlflow_calib.core.scaling import ScalingFunction, fit_scaling
from mlflow_calib.core.shrinkage import joined, shrunk_values
from mlflow_calib.core.step_rows import BinSums, Steps

#: The number of bins that the rows themselves give.
AUTO = "auto"
METHODS = ("scaling-binning", "scaling-binning-shrunk", "histogram-binning", "scaling", "identity")


CUTS = {"uniform-mass": uniform_mass_cuts, "equal-width": equal_width_cuts}


@dataclass(frozen=True)
class Recipe:
    """How each binary problem is fitted.

    ``scaling`` is None for methods without step 1; ``n_bins`` "auto" finds the number in the rows themselves.
    """

    method: str
    n_bins: int | str
    binning: str
    scaling: str | None
    loss: str
    score_kind: str
    seed: int
    targets: str = "labels"

    @property
    def teacher(self) -> int:
        """The part whose labels are learnt from: T1 where g is fitted, T3 where labels are averaged."""
        return 3 if self.method == "histogram-binning" else 1

    def taught(self, steps: Steps) -> Any:
        """Outcomes that are learnt from, shape (m,)."""
        return steps.three.outcomes if self.teacher == 3 else steps.one.outcomes

    @property
    def labels_in_bins(self) -> bool:
        """Whether bin values read labels."""
        return self.method in ("histogram-binning", "scaling-binning-shrunk")


def fit_class_map(label: Any, steps: Steps, recipe: Recipe) -> ClassMap:
    """Fit g on T1, cut bins of g(z) on T2, average g(z) (without step 1: outcomes) over T3 in each bin.

    A bin that T3 leaves empty takes the average over T2, which made it and is never empty. Where outcomes are all 0 or
    all 1 there is no g to fit, and the outputs are average scores.
    """
    if recipe.method == "identity":
        return ClassMap.continuous(label, (), None)
    taught = np.asarray(recipe.taught(steps))
    of_rows = few_rows_flag(int(taught.sum()), len(taught))
    untaught = of_rows in ("class-absent", "class-only")
    scaling = None if recipe.scaling is None or untaught else _step_one(steps, recipe)
    raised = {
        "constraint-active": scaling is not None and scaling.constraint_active,
        "not-converged": scaling is not None and not scaling.converged,
    }
    flags = (*(flag for flag, up in raised.items() if up), *([of_rows] if of_rows else []))
    if recipe.method in runtime.CONTINUOUS_METHODS:
        return ClassMap.continuous(label, flags, scaling)
    return _binned(label, steps, recipe, flags, scaling, untaught=untaught)


def _step_one(steps: Steps, recipe: Recipe) -> ScalingFunction:
    one = steps.one
    return fit_scaling(
        str(recipe.scaling),
        one.scores,
        np.asarray(one.outcomes),
        weights=one.weights,
        score_kind=recipe.score_kind,
        loss=recipe.loss,
        targets=recipe.targets,
        seed=recipe.seed,
    )


def _binned(
    label: Any, steps: Steps, recipe: Recipe, flags: tuple[str, ...], scaling: ScalingFunction | None, untaught: bool
) -> ClassMap:
    n_bins = _bins_of(steps, recipe) if recipe.n_bins == AUTO else int(recipe.n_bins)
    g = score_function(scaling, recipe.score_kind)
    rising = _rising(g, steps.two.scores)
    edges = _edges(steps, recipe, n_bins, scaling, rising)
    if recipe.method == "histogram-binning" and not untaught:
        counts, values, empty = _bin_means(steps, steps.two.outcomes, steps.three.outcomes, edges)
    else:
        of_three = rising if steps.three is steps.two else _each(g, steps.three.scores)
        counts, values, empty = _bin_means(steps, rising, of_three, edges)
        values = np.maximum.accumulate(values)  # falls by rounding at most, where g is all but constant
        if recipe.method == "scaling-binning-shrunk" and not untaught:
            values = _shrunk(values, steps, edges)
    fewer, emptied = ("fewer-bins",) * (len(values) < n_bins), ("empty-bin",) * empty
    if recipe.method == "scaling-binning-shrunk":  # bins that shrinkage pooled are one output, hence one bin
        edges, values, counts = joined(edges, values, counts)
    return ClassMap(label, edges, values, counts, (*fewer, *emptied, *flags), scaling)


def _each(g: Any, scores: Floats) -> Floats:
    """The scaled scores, a block at a time, which stays in the processor's cache."""
    return np.concatenate([g(scores[start : start + runtime.BLOCK]) for start in range(0, len(scores), runtime.BLOCK)])


def _rising(g: Any, ordered: Floats) -> Floats:
    """Scaled sorted scores: g rises or ties, but for rounding may fall by a few units in the last place."""
    values = _each(g, ordered)
    return np.maximum.accumulate(values) if (values[1:] < values[:-1]).any() else values


def _bins_of(steps: Steps, recipe: Recipe) -> int:
    one = steps.one
    if recipe.method == "histogram-binning":
        return cube_root_bins(len(steps.three.scores))
    return sweep_bins(one.scores, np.asarray(one.outcomes), one.weights)


def _edges(steps: Steps, recipe: Recipe, n_bins: int, scaling: ScalingFunction | None, rising: Floats) -> Floats:
    two = steps.two
    if scaling is None and not (recipe.score_kind == "logit" and recipe.binning == "equal-width"):
        return edges_at(two.scores, CUTS[recipe.binning](two.scores, n_bins, two.weights))
    g = score_function(scaling, recipe.score_kind)
    return folded_edges(two.scores, rising, CUTS[recipe.binning](rising, n_bins, two.weights), g)


def _bin_means(steps: Steps, of_two: Any, of_three: Any, edges: Floats) -> tuple[Any, Floats, bool]:
    """Counts of T3, means a bin, and whether T3 left a bin to the mean of T2."""
    sums = BinSums.of(steps.three, of_three, edges)
    empty = sums.counts == 0
    if not empty.any():
        return sums.counts, sums.means, False
    return sums.counts, np.where(empty, BinSums.of(steps.two, of_two, edges).means, sums.means), True


def _shrunk(values: Floats, steps: Steps, edges: Floats) -> Floats:
    labels = BinSums.of(steps.labelled, np.asarray(steps.labelled.outcomes), edges)
    return shrunk_values(values, labels.masses, labels.sums, labels.effective)
