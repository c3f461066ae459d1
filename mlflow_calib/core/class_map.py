"""The three steps of the method for one class, and the step function of its score that they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from mlflow_calib import runtime
from mlflow_calib.core.binning import edges_at, equal_width_cuts, uniform_mass_cuts
from mlflow_calib.core.labels import Label
from mlflow_calib.core.parts import Parts
from mlflow_calib.core.scaling import ScalingFunction, fit_platt

Floats = runtime.Floats
CUTS = {"uniform-mass": uniform_mass_cuts, "equal-width": equal_width_cuts}
#: What a flag of a map says.
FLAGS = {
    "fewer-bins": "fewer bins than requested, because scores tie or T2 holds fewer",
    "empty-bin": "T3 left a bin empty, which took the mean of T2",
    "constraint-active": "scores do not rise with the labels, so the slope is held at 0",
    "not-converged": "scores separate the labels, or Newton's method did not converge: the slope is not determined",
    "class-absent": "no row of the class to learn from, so its outputs are the mean base scores of its bins",
    "class-only": "no row of another class to learn from, so its outputs are the mean base scores of its bins",
}


@dataclass(frozen=True, eq=False)
class ClassMap:
    """The calibrated outputs of one class: a step function of its score.

    Attributes
    ----------
    label : str, int, float or bool
        The class.
    edges : ndarray of float64, shape (B - 1,)
        Inner edges in the space of the base scores, increasing; a bin is (lower, upper].
    values : ndarray of float64, shape (B,)
        Output of each bin, in [0, 1].
    counts : ndarray of int64, shape (B,)
        Rows of T3 in each bin.
    flags : tuple of str
        Keys of ``FLAGS``: where the fit was not as asked.
    scaling : ScalingFunction or None
        Step 1 of the fit; None for histogram binning and for a class that had nothing to learn from.
    """

    label: Label
    edges: Floats
    values: Floats
    counts: npt.NDArray[np.int64]
    flags: tuple[str, ...] = ()
    scaling: ScalingFunction | None = None

    def __post_init__(self) -> None:
        for array in (self.edges, self.values, self.counts):
            array.setflags(write=False)

    def to_dict(self) -> dict[str, Any]:
        """One entry of ``maps`` in calibrator.json."""
        arrays = {name: getattr(self, name).tolist() for name in ("edges", "values", "counts")}
        scaling = None if self.scaling is None else self.scaling.to_dict()
        return {"class": self.label, **arrays, "flags": list(self.flags), "scaling": scaling}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ClassMap:
        """Read back what ``to_dict`` gave."""
        edges, values = runtime.map_arrays(dict(document))
        counts = np.asarray(document["counts"], dtype=np.int64)
        scaling = None if document["scaling"] is None else ScalingFunction(**document["scaling"])
        return cls(document["class"], edges, values, counts, tuple(document["flags"]), scaling)


@dataclass(frozen=True)
class Recipe:
    """How each class is fitted: with step 1 or without, into how many bins, of which kind, from which scores."""

    scaled: bool
    n_bins: int
    binning: str
    score_kind: str

    def teacher(self, parts: Parts) -> Any:
        """Rows whose labels are learnt from: T1 where g is fitted, T3 where labels are averaged."""
        return parts.one if self.scaled else parts.three


def fit_class_map(label: Label, scores: Floats, outcomes: Floats, parts: Parts, recipe: Recipe) -> ClassMap:
    """Fit g on T1, cut bins of g(z) on T2, average g(z) (without step 1: outcomes) over T3 in each bin.

    Scores and outcomes have shape (n,). A bin that T3 leaves empty takes the average over T2, which made it and is
    never empty. Where outcomes are all 0 or all 1 there is no g to fit, and the outputs are average scores.
    """
    taught = outcomes[recipe.teacher(parts)]
    absent, alone = not taught.any(), bool(taught.all())
    scaling = None
    if recipe.scaled and not (absent or alone):
        scaling = fit_platt(scores[parts.one], taught, recipe.score_kind)
    g: Callable[[Floats], Floats] = scaling or (expit if recipe.score_kind == "logit" else np.positive)
    averaged = g(scores) if recipe.scaled or absent or alone else outcomes
    edges = _edges(scores[parts.two], g, recipe)
    counts, values = _averages(scores[parts.three], averaged[parts.three], edges)
    empty = counts == 0
    if empty.any():
        values = np.where(empty, _averages(scores[parts.two], averaged[parts.two], edges)[1], values)
    raised = {
        "fewer-bins": len(values) < recipe.n_bins,
        "empty-bin": bool(empty.any()),
        "constraint-active": scaling is not None and scaling.constraint_active,
        "not-converged": scaling is not None and not scaling.converged,
        "class-absent": absent,
        "class-only": alone,
    }
    return ClassMap(label, edges, values, counts, tuple(flag for flag, up in raised.items() if up), scaling)


def _edges(scores: Floats, g: Callable[[Floats], Floats], recipe: Recipe) -> Floats:
    ordered = np.sort(scores)
    # g rises or ties, but rounding may let it fall by one unit in the last place between neighbouring scores
    rising = np.maximum.accumulate(g(ordered))
    return edges_at(ordered, CUTS[recipe.binning](rising, recipe.n_bins))


def _averages(scores: Floats, averaged: Floats, edges: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    index = runtime.bin_index(scores, edges)
    counts = np.bincount(index, minlength=len(edges) + 1)
    sums = np.bincount(index, averaged, minlength=len(edges) + 1)
    return counts, np.clip(sums / np.maximum(counts, 1), 0, 1)
