"""The bins a champion is judged in: one a distinct output where these are few, else equal shares of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mlflow_calib.core.binning import MAX_BINS, distinct, uniform_mass
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.runtime import Floats
from mlflow_calib.steps.contenders import Batch, Contender, base_model, champion, champion_says


@dataclass(frozen=True)
class ChampionRows:
    """The champion's columns over all evaluation rows.

    ``batches`` reads them from the first row, at each call; ``outputs_of`` gives what it says of one class, (n,).
    """

    batches: Callable[[], Iterable[Batch]]
    outputs_of: Callable[[int], Floats]


def champion_contender(manifest: PartitionsManifest, candidate: Calibrator, rows: ChampionRows) -> Contender | None:
    """The champion in its own bins; where it is the base model itself, in the candidate's. None where there is none."""
    facts = manifest.champion
    if facts is None or facts.get("version") is None:
        return None
    if facts["kind"] == "raw" and facts["digest"] == manifest.base_model["digest"]:
        return base_model(candidate)
    reduction, classes = candidate.reduction, manifest.classes
    values = _distinct(reduction, rows.batches()) if facts["kind"] == "calibrated" else None
    if values is not None:
        return champion(reduction, classes, {place: distinct(own).edges for place, own in values.items()}, values)
    said = _said(reduction, len(classes), rows)
    edges = {place: uniform_mass(outputs, candidate.n_bins_requested).edges for place, outputs in said}
    return champion(reduction, classes, edges, None)


def _distinct(reduction: str, batches: Iterable[Batch]) -> dict[int, Floats] | None:
    """Distinct outputs by the place of the class; None where one has more than there may be bins."""
    found: dict[int, Floats] = {}
    for batch in batches:
        for place, outputs in _sets(batch, reduction):
            found[place] = np.union1d(found.get(place, np.empty(0)), outputs)
            if len(found[place]) > MAX_BINS:
                return None
    return found


def _said(reduction: str, n_classes: int, rows: ChampionRows) -> Iterator[tuple[int, Floats]]:
    """Everything it says in each set of bins: equal shares need the rows in order, 8 bytes a row, a class at a time."""
    if reduction == "marginal":
        yield from ((place, rows.outputs_of(place)) for place in range(n_classes))
        return
    parts: dict[int, list[Floats]] = {}
    for batch in rows.batches():
        for place, outputs in _sets(batch, reduction):
            parts.setdefault(place, []).append(outputs)
    yield from ((place, np.concatenate(found)) for place, found in parts.items())


def _sets(batch: Batch, reduction: str) -> Iterable[tuple[int, Floats]]:
    """What it says in each set of bins of a batch; of predicted classes those that occur."""
    spoken, predicted = champion_says(batch, reduction)
    if reduction == "top-label-per-class" and predicted is not None:
        return [(int(place), spoken[predicted == place]) for place in np.unique(predicted)]
    return enumerate(spoken.T) if spoken.ndim == 2 else [(0, spoken)]
