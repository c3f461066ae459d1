"""The calibration error of scores or of a calibrator, estimated on evaluation data.

Axes: reduction (binary, marginal) x estimator (plug-in, debiased) x bins (a calibrator's, a scheme's, a number of
uniform-mass bins, one a distinct value). Top-label: pass (confidence, correct) as a binary problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared, plugin_squared
from mlflow_calib.core.estimate import CalibrationEstimate, ConfidenceInterval
from mlflow_calib.core.group_ids import group_codes
from mlflow_calib.core.judged_bins import Bins, bin_statistics, rows_to_judge
from mlflow_calib.core.scores import check_choice
from mlflow_calib.core.status import status
from mlflow_calib.errors import InvalidInputError

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
    labels : array, shape (n,)
        In the model's own words.
    reduction : {"binary", "marginal"}
        Marginal: mean of the squared errors of the K classes.
    estimator : {"debiased", "plugin"}
    bins : Calibrator, BinningScheme, int or "distinct"
        An int asks for that many uniform-mass bins of ``scores``, "distinct" for one bin a value.
    classes, positive_class
        As in ``fit_calibrator``; a calibrator brings its own.
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
    Debiased: sum over bins with n_j >= 2 of w_j [(u_j - ybar_j)^2 - ybar_j (1 - ybar_j) / (n_j - 1)].

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
    rows = rows_to_judge(
        scores,
        labels,
        bins,
        reduction=reduction,
        classes=classes,
        positive_class=positive_class,
        score_kind=score_kind,
    )
    codes = None if groups is None else group_codes(groups, len(rows.scores))[1]
    statistics = tuple(part.finish() for part in bin_statistics(rows, bins, codes))
    worst, reason = _overall_status(statistics, rows.classes)
    return CalibrationEstimate(
        squared=float(np.mean([ESTIMATORS[estimator](s) for s in statistics])),
        n=len(rows.scores),
        n_bins=max(s.n_bins for s in statistics),
        estimator=estimator,
        reduction=reduction,
        status=worst,
        reason=reason,
        statistics=statistics,
        bound_kind="comonotone" if reduction == "marginal" else "rows" if groups is None else "groups",
        by_group=groups is not None,
        n_clipped=rows.n_clipped,
    )


def mean_squared_error(outputs: Any, outcomes: Any) -> float:
    """Mean squared error of probabilities; the smaller the better.

    Binary, shapes (n,): mean of (p - y)^2, the Brier score. Multi-class, shapes (n, K): mean over rows and classes,
    which is the Brier score summed over classes divided by K.

    Examples
    --------
    >>> mean_squared_error([0.8, 0.4], [1, 0])  # (.04 + .16) / 2
    0.1
    >>> round(mean_squared_error([[0.8, 0.2]], [[1, 0]]), 6)  # (.04 + .04) / 2
    0.04
    """
    p, y = np.asarray(outputs, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
    if p.shape != y.shape or p.size == 0:
        raise InvalidInputError(
            f"outputs and outcomes must have one shape of at least one row, got {p.shape}, {y.shape}"
        )
    return float(np.mean((p - y) ** 2))


def _overall_status(statistics: Sequence[ErrorStatistics], classes: Sequence[Any]) -> tuple[str, str]:
    found = [status(s) for s in statistics]
    worst = max((name for name, _ in found), key=("ok", "thin", "unusable").index)
    at_worst = [position for position, (name, _) in enumerate(found) if name == worst]
    reason = found[at_worst[0]][1]
    if len(statistics) == 1 or worst == "ok":
        return worst, reason
    return worst, f"{len(at_worst)} of {len(statistics)} classes, first {classes[at_worst[0]]!r}: {reason}"
