"""The calibration error of scores or of a calibrator, estimated on evaluation data.

Axes: reduction (binary, marginal, top-label, per predicted class, multi-label) x estimator (plug-in, debiased) x bins
(a calibrator's, a scheme's, a number of uniform-mass bins, one a distinct value).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_calib.core.binned_rows import BinnedRows, binned_rows
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared, plugin_squared
from mlflow_calib.core.estimate import CalibrationEstimate, ConfidenceInterval
from mlflow_calib.core.group_ids import group_codes
from mlflow_calib.core.judged_bins import Bins, rows_to_judge
from mlflow_calib.core.proper_losses import mean_squared_error
from mlflow_calib.core.scores import check_choice
from mlflow_calib.core.status import status

__all__ = ["CalibrationEstimate", "ConfidenceInterval", "estimate_calibration_error", "mean_squared_error"]

ESTIMATORS = {"debiased": debiased_squared, "plugin": plugin_squared}


def estimate_calibration_error(
    scores: Any,
    labels: Any,
    *,
    reduction: str = "binary",
    estimator: str = "debiased",
    bins: Bins,
    classes: Sequence[Any] | None = None,
    positive_class: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    score_kind: str = "probability",
) -> CalibrationEstimate:
    """Estimate the l2 calibration error on rows that neither model nor calibrator has seen.

    Says by how much, root-mean-square, the stated probabilities differ from the frequencies; the smaller the better,
    minimum zero. For outputs with few values the estimate is of the whole error; for continuous scores binned here it
    is of the binned error, which is never larger.

    Parameters
    ----------
    scores : array, shape (n,), (n, 2) with ``classes``, or (n, K)
        With a calibrator its base scores, and the estimate is of ``calibrator.predict(scores)``; else the
        probabilities to judge, as they are.
    labels : array, shape (n,); multi-label (n, K)
        In the model's own words; multi-label: 0 and 1, or booleans.
    reduction : {"binary", "marginal", "top-label", "top-label-per-class", "multi-label"}
        Binary: of P(positive class). Marginal: mean of the squared errors of the K classes; multi-label the same of K
        labels that do not exclude one another. Top-label: of the confidence in the predicted class, the base model's
        largest score. Per predicted class: mean of that over the predicted classes, weighted by their rows.
    estimator : {"debiased", "plugin"}
    bins : Calibrator, BinningScheme, int or "distinct"
        An int asks for that many uniform-mass bins of ``scores``, "distinct" for one bin a value.
    classes, positive_class
        As in ``fit_calibrator``; a calibrator brings its own.
    sample_weight : array, shape (n,), optional
        At least 0; only proportions matter. Shares and label means are weighted; the noise of a bin is that of
        (sum w)^2 / sum w^2 rows, so that weights of 2 are weights of 1, and not twice the data.
    groups : array, shape (n,), optional
        Day, user or game of each row, where rows of one group move together: the bounds then go by group.
    score_kind : {"probability", "logit"}
        A calibrator brings its own; logits without a calibrator are refused.

    Raises
    ------
    InvalidInputError
        Where scores, labels or bins do not hold what they must; where the scores are a calibrator's outputs already.

    Notes
    -----
    Debiased: sum over bins with n_j >= 2 of w_j [(u_j - ybar_j)^2 - ybar_j (1 - ybar_j) / (n_j - 1)]. Bounds of
    several classes on the same rows take their variance from counts of the rows in pairs of the classes' bins
    (``mlflow_calib.core.class_dependence``), computed when a bound is first asked for.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 5.

    Examples
    --------
    >>> outputs = [0.2] * 60 + [0.7] * 40
    >>> labels = [1] * 12 + [0] * 48 + [1] * 34 + [0] * 6
    >>> estimate = estimate_calibration_error(outputs, labels, bins="distinct", estimator="plugin")
    >>> round(estimate.squared, 6), estimate.status  # .4 (.7 - .85)^2
    (0.009, 'ok')
    >>> round(estimate.upper_bound(0.95), 3)
    0.172
    """
    check_choice("estimator", estimator, tuple(ESTIMATORS))
    names = {"reduction": reduction, "classes": classes, "positive_class": positive_class}
    rows = rows_to_judge(scores, labels, bins, **names, score_kind=score_kind, sample_weight=sample_weight)
    codes = None if groups is None else group_codes(groups, len(rows.scores))[1]
    if rows.weights is not None and not rows.weights.all():  # rows of weight 0 are no rows
        held = np.flatnonzero(rows.weights)
        rows, codes = rows.select(held), None if codes is None else codes[held]
    binned = binned_rows(rows, bins, codes)
    one = binned.pooled
    worst, reason = _overall_status(binned, one)
    estimates = [ESTIMATORS[estimator](s) for s in (binned.statistics if one is None else (one,))]
    by_row = "rows" if binned.class_rows is None else binned.class_rows.bound_kind
    return CalibrationEstimate(
        squared=float(np.mean(estimates)),
        n=len(rows.scores),
        n_bins=max(s.n_bins for s in binned.statistics),
        estimator=estimator,
        reduction=reduction,
        status=worst,
        reason=reason,
        statistics=binned.statistics,
        bound_kind=by_row if groups is None else "groups",
        by_group=groups is not None,
        n_clipped=rows.n_clipped,
        labels=binned.labels,
        pooled=binned.pooled,
        class_rows=binned.class_rows,
    )


def _overall_status(binned: BinnedRows, pooled: ErrorStatistics | None) -> tuple[str, str]:
    if pooled is not None:
        name, why = status(pooled)
        return name, why and f"bins of all {len(binned.labels)} predicted classes, one after the other: {why}"
    found = [status(s) for s in binned.statistics]
    worst = max((name for name, _ in found), key=("ok", "thin", "unusable").index)
    at_worst = [position for position, (name, _) in enumerate(found) if name == worst]
    reason = found[at_worst[0]][1]
    if len(found) == 1 or worst == "ok":
        return worst, reason
    return worst, f"{len(at_worst)} of {len(found)} classes, first {binned.labels[at_worst[0]]!r}: {reason}"
