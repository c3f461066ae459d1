"""The calibrated outputs of one binary problem: a step function of its score, or the scaling function itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from mlflow_calib import runtime
from mlflow_calib.core.labels import Label
from mlflow_calib.core.scaling import ScalingFunction

Floats = runtime.Floats
#: A class with fewer rows to learn from is named.
FEW_ROWS = 5
#: What a flag of a map says.
FLAGS = {
    "fewer-bins": "fewer bins than requested, because scores tie or T2 holds fewer",
    "empty-bin": "T3 left a bin empty, which took the mean of T2",
    "constraint-active": "scores do not rise with the labels everywhere, so a slope is held at 0",
    "not-converged": "scores separate the labels, or Newton's method did not converge: the slope is not determined",
    "few-rows": f"fewer than {FEW_ROWS} rows of the class, or of the rest, to learn from",
    "class-absent": "no row of the class to learn from, so its outputs are the mean base scores of its bins",
    "class-only": "no row of another class to learn from, so its outputs are the mean base scores of its bins",
    "few-predicted": f"predicted on fewer than {FEW_ROWS} rows of a part, or never right, or always: it takes the map "
    "of all predicted classes together",
}
#: Flags that the labels alone raise, named before anything is fitted.
OF_ROWS = ("few-rows", "class-absent", "class-only")


def few_rows_flag(positives: int, n: int) -> str | None:
    """The flag of a class with ``positives`` among ``n`` rows to learn from; None where both sides have enough."""
    if positives == 0:
        return "class-absent"
    if positives == n:
        return "class-only"
    return "few-rows" if min(positives, n - positives) < FEW_ROWS else None


@dataclass(frozen=True, eq=False)
class ClassMap:
    """The calibrated outputs of one class: a step function of its score.

    Attributes
    ----------
    label : str, int, float, bool or None
        The class; None for the confidence in whatever class is predicted.
    edges : ndarray of float64, shape (B - 1,)
        Inner edges in the space of the base scores, increasing; a bin is (lower, upper].
    values : ndarray of float64, shape (B,)
        Output of each bin, in [0, 1]. Empty where outputs are continuous (methods "scaling" and "identity").
    counts : ndarray of int64, shape (B,)
        Rows of T3 in each bin.
    flags : tuple of str
        Keys of ``FLAGS``: where the fit was not as asked.
    scaling : ScalingFunction or None
        Step 1 of the fit; None for histogram binning, identity, and a class that had nothing to learn from.
    """

    label: Label | None
    edges: Floats
    values: Floats
    counts: npt.NDArray[np.int64]
    flags: tuple[str, ...] = ()
    scaling: ScalingFunction | None = None

    def __post_init__(self) -> None:
        for array in (self.edges, self.values, self.counts):
            array.setflags(write=False)

    @classmethod
    def continuous(cls, label: Label | None, flags: tuple[str, ...], scaling: ScalingFunction | None) -> ClassMap:
        """A map without bins: g, or the score itself as a probability."""
        return cls(label, np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), flags, scaling)

    def predict(self, scores: Floats, score_kind: str = "probability") -> Floats:
        """Outputs of clean scores, shapes (m,) -> (m,)."""
        if len(self.values):
            return runtime.look_up(scores, self.edges, self.values)
        return np.asarray(score_function(self.scaling, score_kind)(scores))

    def to_dict(self) -> dict[str, Any]:
        """One entry of ``maps`` in calibrator.json."""
        arrays = {name: getattr(self, name).tolist() for name in ("edges", "values", "counts")}
        scaling = None if self.scaling is None else self.scaling.to_dict()
        return {"class": self.label, **arrays, "flags": list(self.flags), "scaling": scaling}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ClassMap:
        """Read back what ``to_dict`` gave."""
        edges, values = runtime.map_arrays(dict(document))
        counts = np.array(document["counts"], dtype=np.int64)
        scaling = None if document["scaling"] is None else ScalingFunction(**document["scaling"])
        return cls(document["class"], edges, values, counts, tuple(document["flags"]), scaling)


def score_function(scaling: ScalingFunction | None, score_kind: str) -> Any:
    """From scores to probabilities, shapes (m,) -> (m,): g, or without it the probability that the score states."""
    if scaling is not None:
        return scaling
    return expit if score_kind == "logit" else np.positive
