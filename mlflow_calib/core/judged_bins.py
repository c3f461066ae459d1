"""Which bins an estimate judges, and the rows that fit them: a calibrator's, a scheme's, so many, or one a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlflow_calib import runtime
from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.binning import BinningScheme, check_n_bins, distinct, uniform_mass
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.scores import CleanRows, clean_rows
from mlflow_calib.errors import InvalidInputError, raise_problems

Bins = Calibrator | BinningScheme | int | str


def rows_to_judge(
    scores: Any,
    labels: Any,
    bins: Bins,
    *,
    reduction: str,
    classes: Sequence[Any] | None,
    positive_class: Any,
    score_kind: str,
) -> CleanRows:
    """Clean rows of the reduction; a calibrator brings its own classes and kind of score.

    Raises
    ------
    InvalidInputError
        Where scores, labels or bins do not hold what they must.
    """
    if isinstance(bins, Calibrator):
        _check_agrees(bins, reduction, classes, positive_class)
        _refuse_calibrated(bins, scores)
        classes, positive_class, score_kind = bins.classes, bins.positive_class, bins.score_kind
    else:
        _check_bins(bins, score_kind)
    # Calibrated marginal outputs do not sum to one, so with one bin a value only the range is checked.
    sums_are_free = reduction == "marginal" and isinstance(bins, str)
    rows = clean_rows(
        scores,
        labels,
        reduction=reduction,
        classes=classes,
        positive_class=positive_class,
        score_kind="logit" if sums_are_free else score_kind,
    )
    return _with_range_checked(rows) if sums_are_free else rows


def bin_statistics(rows: CleanRows, bins: Bins, groups: Any) -> list[BinStatistics]:
    """Statistics of each binary problem of the rows: one, or one a class."""
    columns = list(rows.columns())
    if isinstance(bins, Calibrator):
        parts = []
        for one_map, (scores, outcomes) in zip(bins.maps, columns, strict=True):
            index = runtime.bin_index(scores, one_map.edges)
            outputs = one_map.values[index]
            parts.append(BinStatistics.from_rows(outputs, outcomes, index, len(one_map.values), one_map.values, groups))
        return parts
    schemes = [_scheme(bins, scores) for scores, _ in columns]
    return [
        BinStatistics.from_rows(scores, outcomes, scheme.index(scores), scheme.n_bins, groups=groups)
        for scheme, (scores, outcomes) in zip(schemes, columns, strict=True)
    ]


def _scheme(bins: BinningScheme | int | str, scores: Floats) -> BinningScheme:
    if isinstance(bins, BinningScheme):
        return bins
    return distinct(scores) if isinstance(bins, str) else uniform_mass(scores, bins)


def _with_range_checked(rows: CleanRows) -> CleanRows:
    try:
        flat, n_clipped = runtime.clean_scores(rows.scores.ravel())
    except ValueError as error:
        raise InvalidInputError(f"{error} (counted through rows and columns)") from error
    return replace(rows, scores=flat.reshape(rows.scores.shape), n_clipped=n_clipped)


def _check_agrees(calibrator: Calibrator, reduction: str, classes: Any, positive_class: Any) -> None:
    problems = []
    if reduction != calibrator.reduction:
        problems.append(f"reduction must be the calibrator's, {calibrator.reduction!r}, got {reduction!r}")
    if classes is not None and tuple(classes) != tuple(calibrator.classes):
        problems.append(f"classes must be the calibrator's, {list(calibrator.classes)}, got {list(classes)}; omit them")
    if positive_class is not None and positive_class != calibrator.positive_class:
        known = calibrator.positive_class
        problems.append(f"positive_class must be the calibrator's, {known!r}, got {positive_class!r}; omit it")
    if problems:
        raise_problems(problems)


def _check_bins(bins: Any, score_kind: str) -> None:
    if isinstance(bins, str):
        if bins != "distinct":
            raise InvalidInputError(f'bins must be a Calibrator, a BinningScheme, an int or "distinct", got {bins!r}')
    elif not isinstance(bins, BinningScheme):
        check_n_bins(bins)
    if score_kind != "probability":
        raise InvalidInputError(
            f"scores must be probabilities where bins is not a Calibrator, got score_kind={score_kind!r}; "
            "pass the fitted calibrator as bins=, or turn logits into probabilities"
        )


def _refuse_calibrated(calibrator: Calibrator, scores: Any) -> None:
    # Before cleaning: calibrated marginal rows would be refused there for their sums, which is not the remedy.
    array = np.asarray(scores)
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2) or not array.size:
        return
    columns = array.reshape(len(array), -1).T
    if calibrator.positive_class is not None and len(columns) == 2:
        columns = columns[[calibrator.classes.index(calibrator.positive_class)]]
    if len(columns) != len(calibrator.maps):
        return
    pairs = zip(columns, calibrator.maps, strict=True)
    if all(bool(np.isin(column, one_map.values).all()) for column, one_map in pairs):
        raise InvalidInputError(
            "scores must be base scores where bins is a Calibrator, but every score equals one of its outputs: they "
            'are already calibrated; pass the base scores, or use bins="distinct" to judge these as they are'
        )
