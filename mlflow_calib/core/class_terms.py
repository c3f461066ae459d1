"""Terms of the bounds on a mean over classes: by group, as plain numbers, and the status that goes with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mlflow_calib.core.bound_terms import BoundTerms
from mlflow_calib.core.class_dependence import StackedBins
from mlflow_calib.core.class_rows import squared_norm
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.status import ENOUGH_GROUPS, status

#: Level-free terms of a bound as the record names them.
TERMS = ("upper_centre", "lower_centre", "v0", "c", "c_of_rows", "degrees_of_freedom", "nu")


def group_terms_of_classes(table: GroupTable, statistics: Sequence[ErrorStatistics], by_row: BoundTerms) -> BoundTerms:
    """Terms by group of the mean over classes that share rows: the form for one model, on the bins of all classes.

    ``table`` holds the bins of all classes side by side; what of the terms goes by row is taken from ``by_row``.
    """
    bins, n_classes = StackedBins.of(statistics), len(statistics)
    mass = float(bins.masses.sum()) / n_classes
    sizes = np.asarray(table.counts.sum(axis=1), dtype=np.float64).ravel() / n_classes
    effective = mass**2 / float(sizes @ sizes)
    factor = effective / (effective - 1) if effective > 1 else 1.0
    residuals = csr_array(table.counts.multiply(bins.means[np.newaxis, :]) - table.positives)
    spread = csr_array(residuals.multiply(bins.inverse_roots[np.newaxis, :]))
    fourth, trace = factor**2 * squared_norm(spread), factor * float((spread.data**2).sum())
    plugin = np.bincount(bins.classes, bins.masses * bins.gaps**2, n_classes) / mass
    influence = residuals @ (2 * bins.gaps) + table.counts @ (bins.gaps**2 - plugin[bins.classes])
    mean_square = float(plugin.mean())
    by_group = influence / n_classes
    slope = factor * float(by_group @ by_group) / mass**2 / mean_square if mean_square > 0 else 0.0
    return replace(
        by_row,
        lower_centre=mean_square - trace / mass / n_classes,
        v0=2 * fourth / (mass * n_classes) ** 2,
        c=max(float(by_row.c), slope),
        degrees_of_freedom=effective - 1,
        nu=trace**2 / fourth if fourth > 0 else 1.0,
        c_of_rows=float(by_row.c),
    )


def terms_to_dict(terms: BoundTerms) -> dict[str, Any]:
    """Level-free terms as plain numbers, ``nu`` a list where it is one a class; null is what is not there by row.

    Examples
    --------
    >>> terms_to_dict(BoundTerms(0.01, 0.01, 1e-6, 2e-3, np.inf, 4.0))["degrees_of_freedom"] is None
    True
    """
    found = {name: getattr(terms, name) for name in TERMS}
    found["degrees_of_freedom"] = None if np.isinf(terms.degrees_of_freedom) else terms.degrees_of_freedom
    return {
        name: None if value is None else np.asarray(value, dtype=np.float64).tolist() for name, value in found.items()
    }


def terms_of(document: Mapping[str, Any]) -> BoundTerms:
    """Read what ``terms_to_dict`` wrote."""
    free = document["degrees_of_freedom"]
    values = {name: document[name] for name in TERMS}
    nu = np.asarray(values["nu"], dtype=np.float64)
    return BoundTerms(**{**values, "degrees_of_freedom": np.inf if free is None else free, "nu": nu})


def classes_status(
    statistics: Sequence[ErrorStatistics], terms: BoundTerms, labels: Sequence[Any], *, by_group: bool = True
) -> tuple[str, str]:
    """Status of a mean over classes, the worst of theirs; by group those of the terms count."""
    found = [status(s, by_group=False) for s in statistics]
    worst = max((name for name, _ in found), key=("ok", "thin", "unusable").index)
    at_worst = [position for position, (name, _) in enumerate(found) if name == worst]
    reason = found[at_worst[0]][1]
    if worst != "ok":
        reason = f"{len(at_worst)} of {len(found)} classes, first {labels[at_worst[0]]!r}: {reason}"
    if not by_group or np.isinf(terms.degrees_of_freedom) or worst == "unusable":
        return worst, reason
    effective = float(terms.degrees_of_freedom) + 1
    shown = f"{math.floor(effective * 10) / 10:g} effective groups"
    if effective < 2:
        return "unusable", f"{shown}; a bound by group needs at least 2"
    if effective < ENOUGH_GROUPS:
        return "thin", "; ".join(filter(None, (reason, f"{shown}; at least {ENOUGH_GROUPS} are needed")))
    return worst, reason
