"""Rows that are judged: outputs and labels made clean, and the models that speak of them with their bins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib import runtime
from mlflow_calib.core.binning import MAX_BINS, distinct, uniform_mass
from mlflow_calib.core.clean_rows import CleanRows
from mlflow_calib.core.group_ids import group_codes
from mlflow_calib.core.reductions import TOP_LABEL
from mlflow_calib.core.scores import clean_rows
from mlflow_calib.errors import InvalidInputError
from mlflow_calib.evaluator.outputs import Outputs
from mlflow_calib.evaluator.settings import DISTINCT, Settings
from mlflow_calib.runtime import Floats
from mlflow_calib.steps.contenders import Batch, Contender, base_model, calibrated, champion

DEFAULT_BINS = 10


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows with the models they are held against: "candidate", and of a calibrated model "base" beside it.

    Attributes
    ----------
    n_groups : int or None
    """

    batch: Batch
    contenders: Mapping[str, Contender]
    reduction: str
    classes: tuple[Any, ...]
    positive_class: Any
    n_groups: int | None


def judged_rows(outputs: Outputs, labels: Any, groups: Any, settings: Settings) -> Judged:
    """Check outputs, labels and groups, and choose the bins.

    Raises
    ------
    InvalidInputError
        For scores that are no probabilities (NaN included, first rows and count), labels unknown to the model, a
        positive class that must be stated, groups that are missing.
    """
    reduction = _reduction(outputs, settings)
    clean = _clean(outputs, labels, reduction, settings)
    codes = clean.outcomes if reduction == "binary" else clean.truths.argmax(axis=1)
    ids, own = ((), None) if groups is None else group_codes(groups, len(codes))
    batch = Batch(
        base_scores=clean.scores,
        codes=codes,
        champion_scores=clean.scores,
        champion_outputs=clean.scores,
        groups=own,
        key_hashes=np.arange(len(codes), dtype=np.uint64),  # rows have no keys here: blocks by their place
    )
    contenders = _contenders(outputs, clean.scores, reduction, clean.classes, settings)
    n_groups = None if groups is None else len(ids)
    return Judged(batch, contenders, reduction, clean.classes, clean.positive_class, n_groups)


def _reduction(outputs: Outputs, settings: Settings) -> str:
    if outputs.calibrator is not None:
        return str(outputs.calibrator.reduction)
    if settings.reduction is not None:
        return settings.reduction
    return "top-label" if outputs.scores.ndim == 2 and outputs.scores.shape[1] > 2 else "binary"


def _clean(outputs: Outputs, labels: Any, reduction: str, settings: Settings) -> CleanRows:
    """Binary: as it is. Several classes: every column, whatever the reduction takes of them."""
    words = {"classes": outputs.classes, "positive_class": outputs.positive_class}
    if reduction == "binary":
        return clean_rows(outputs.scores, labels, **words)
    scores, kind = outputs.scores, "probability"
    if scores.ndim == 2 and (reduction == "marginal" or settings.bins == DISTINCT):
        # each class speaks for itself, and calibrated rows need not sum to one
        try:
            scores, kind = runtime.clean_scores(scores, scores.shape[1], sums=False)[0], "logit"
        except ValueError as error:
            raise InvalidInputError(f"scores: {error}") from error
    return clean_rows(scores, labels, reduction="marginal", classes=outputs.classes, score_kind=kind)


def _contenders(
    outputs: Outputs, scores: Floats, reduction: str, classes: tuple[Any, ...], settings: Settings
) -> dict[str, Contender]:
    if outputs.calibrator is not None:
        return {"candidate": calibrated(outputs.calibrator), "base": base_model(outputs.calibrator)}
    said = _said(scores, reduction)
    n_bins = settings.bins or DEFAULT_BINS
    values = {place: np.unique(own) for place, own in said.items()}
    most = max(len(own) for own in values.values())
    if n_bins == DISTINCT and most > MAX_BINS:
        raise InvalidInputError(
            f"bins={DISTINCT!r} needs outputs of at most {MAX_BINS} values, and these have {most}; "
            "give a number of bins: what is estimated is then a lower bound of the calibration error"
        )
    if n_bins == DISTINCT or most <= int(n_bins):  # nothing of the outputs is lost in such bins
        edges = {place: distinct(own).edges for place, own in said.items()}
        return {"candidate": champion(reduction, classes, edges, values)}
    edges = {place: uniform_mass(own, int(n_bins)).edges for place, own in said.items()}
    return {"candidate": champion(reduction, classes, edges, None)}


def _said(scores: Floats, reduction: str) -> dict[int, Floats]:
    """What the model says in each set of bins, by the place of the set's class."""
    if reduction == "binary":
        return {0: scores}
    if reduction not in TOP_LABEL:
        return dict(enumerate(scores.T))
    predicted, confidence = scores.argmax(axis=1), scores.max(axis=1)
    if reduction == "top-label":
        return {0: confidence}
    return {int(place): confidence[predicted == place] for place in np.unique(predicted)}
