"""What an estimate judges: rows and bins that fit each other, checked, with every problem named at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_calib.core.binning import BinningScheme, check_n_bins
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.reductions import TOP_LABEL
from mlflow_calib.core.scores import CleanRows, clean_rows
from mlflow_calib.errors import InvalidInputError, raise_problems

Bins = Calibrator | BinningScheme | int | str
#: Rows that are compared first.
_FEW = 1_000


def rows_to_judge(
    scores: Any,
    labels: Any,
    bins: Bins,
    *,
    reduction: str,
    classes: Sequence[Any] | None,
    positive_class: Any,
    score_kind: str,
    sample_weight: Any = None,
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
    # Calibrated outputs of several classes need not sum to one, so with one bin a value only the range is checked.
    sums_are_free = reduction in ("marginal", *TOP_LABEL) and isinstance(bins, str)
    return clean_rows(
        scores,
        labels,
        reduction=reduction,
        classes=classes,
        positive_class=positive_class,
        score_kind=score_kind,
        sample_weight=sample_weight,
        free_sums=sums_are_free,
    )


def _check_agrees(calibrator: Calibrator, reduction: str, classes: Any, positive_class: Any) -> None:
    problems = []
    if not calibrator.is_binned:
        problems.append(
            f"bins must be those of a binned calibrator, and method {calibrator.method!r} has continuous outputs, "
            "whose error cannot be verified; judge calibrator.predict(scores) with a number of bins: a lower bound"
        )
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
    known = [one_map.values for one_map in calibrator.maps]
    # A few rows show base scores for what they are; all are compared only where these few look calibrated.
    suspect = _all_known(calibrator, array[:_FEW], known) and _all_known(calibrator, array, known)
    if suspect and not _unmoved(calibrator, array):
        raise InvalidInputError(
            "scores must be base scores where bins is a Calibrator, but every score equals one of its outputs: they "
            'are already calibrated; pass the base scores, or use bins="distinct" to judge these as they are'
        )


def _unmoved(calibrator: Calibrator, array: Any) -> bool:
    """Whether calibration leaves every score as it is, so that base and calibrated scores are one and the same."""
    try:
        return bool(np.array_equal(calibrator.predict(array), array))
    except InvalidInputError:
        return False


def _all_known(calibrator: Calibrator, array: Any, known: list[Floats]) -> bool:
    columns = array.reshape(len(array), -1).T
    if calibrator.reduction in TOP_LABEL:  # the calibrated confidence stands in one of the columns
        return bool(np.isin(columns, np.concatenate(known)).any(axis=0).all())
    if calibrator.positive_class is not None and len(columns) == 2:
        columns = columns[[calibrator.classes.index(calibrator.positive_class)]]
    pairs = zip(columns, known, strict=True) if len(columns) == len(known) else ()
    return len(columns) == len(known) and all(bool(np.isin(column, values).all()) for column, values in pairs)
