"""How well scores rank and label: accuracy and AUC, before and after calibration.

Calibration is monotone and moves no row past another, but bins tie rows that were apart, and ties cost AUC. Both are
named, so that nobody takes the fall for a worse model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.columns import is_real, numbers
from mlflow_calib.core.error_statistics import Floats
from mlflow_calib.core.judged_pairs import check_domains, pairs_of
from mlflow_calib.errors import InvalidInputError, raise_problems


def area_under_curve(scores: Any, outcomes: Any, sample_weight: Any = None) -> float:
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties counting one half.

    The larger the better; .5 is chance. Equals the Mann-Whitney statistic and scikit-learn's roc_auc_score.

    Parameters
    ----------
    scores : array, shape (n,)
        Any finite numbers that rank.
    outcomes : array, shape (n,)
        0 and 1, both present.
    sample_weight : array, shape (n,), optional

    Examples
    --------
    >>> area_under_curve([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])  # 3 of 4 pairs in order, 1 tied
    0.875
    """
    below, tied, pairs = _pair_weights(scores, outcomes, sample_weight)
    return (below + tied / 2) / pairs


def tied_pairs(scores: Any, outcomes: Any, sample_weight: Any = None) -> float:
    """Share of the pairs of a positive and a negative row that have one score: AUC counts each of them one half.

    Examples
    --------
    >>> tied_pairs([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
    0.25
    """
    _, tied, pairs = _pair_weights(scores, outcomes, sample_weight)
    return tied / pairs


def accuracy(scores: Any, outcomes: Any, *, threshold: float = 0.5, sample_weight: Any = None) -> float:
    """Share of rows whose label is right: positive where the probability is above the threshold.

    Multi-class, shapes (n, K): the column of the largest probability, of equal ones the first.

    Examples
    --------
    >>> accuracy([0.2, 0.6, 0.9, 0.8], [0, 0, 1, 1]), accuracy([[0.2, 0.8], [0.6, 0.4]], [[0, 1], [0, 1]])
    (0.75, 0.5)
    """
    if len(np.shape(scores)) == 2:
        right = _right(scores, outcomes)
        rows = pairs_of(right, right, sample_weight)
        return float(rows.weights @ rows.outcomes)
    if not is_real(threshold) or not 0 <= threshold <= 1:
        raise InvalidInputError(f"threshold must be a number in [0, 1], got {threshold!r}")
    rows = pairs_of(scores, outcomes, sample_weight)
    return float(rows.weights @ ((rows.outputs > threshold) == (rows.outcomes == 1)))


def _right(scores: Any, outcomes: Any) -> Floats:
    """Whether the column of the largest probability is that of the row's class, shapes (n, K) -> (n,)."""
    problems: list[str] = []
    p, y = numbers(scores, "outputs", problems), numbers(outcomes, "outcomes", problems)
    if p is not None and y is not None:
        if y.shape != p.shape or not p.size:
            rule = "scores and outcomes must have one shape (n, K) of at least one row"
            problems.append(f"{rule}, got {p.shape}, {y.shape}")
        else:
            check_domains(p, y, problems)
    if p is None or y is None or problems:
        raise_problems(problems)
    return np.asarray(y[np.arange(len(p)), p.argmax(axis=1)])


@dataclass(frozen=True)
class RankingComparison:
    """Accuracy and AUC of base and calibrated scores on the same rows.

    Attributes
    ----------
    base_auc, calibrated_auc : float
    base_tied_pairs, calibrated_tied_pairs : float
        Share of the pairs of a positive and a negative row with one score.
    base_accuracy, calibrated_accuracy : float
        At one half. The packaged model keeps the base model's label, whose accuracy is ``base_accuracy``.
    """

    base_auc: float
    calibrated_auc: float
    base_tied_pairs: float
    calibrated_tied_pairs: float
    base_accuracy: float
    calibrated_accuracy: float

    @property
    def sentence(self) -> str:
        """What happened to the ranking, ties named."""
        return (
            f"AUC {self.base_auc:.4f} of the base scores, {self.calibrated_auc:.4f} calibrated; pairs of a positive "
            f"and a negative row with equal scores: {self.base_tied_pairs:.1%} before, "
            f"{self.calibrated_tied_pairs:.1%} after, each counting one half"
        )


def ranking_before_and_after(base: Any, calibrated: Any, outcomes: Any, sample_weight: Any = None) -> RankingComparison:
    """Accuracy, AUC and ties of probabilities before and after calibration, shapes (n,).

    Examples
    --------
    >>> base, outcomes = [0.1, 0.2, 0.3, 0.6, 0.7, 0.8], [0, 1, 0, 1, 0, 1]
    >>> found = ranking_before_and_after(base, [0.3] * 3 + [0.7] * 3, outcomes)
    >>> round(found.base_auc, 3), round(found.calibrated_auc, 3), round(found.calibrated_tied_pairs, 3)
    (0.667, 0.667, 0.444)
    """
    both = (base, calibrated)
    return RankingComparison(
        *(area_under_curve(scores, outcomes, sample_weight) for scores in both),
        *(tied_pairs(scores, outcomes, sample_weight) for scores in both),
        *(accuracy(scores, outcomes, sample_weight=sample_weight) for scores in both),
    )


def _pair_weights(scores: Any, outcomes: Any, sample_weight: Any) -> tuple[float, float, float]:
    """Weight of the pairs (positive, negative) in order, tied, and in all."""
    problems: list[str] = []
    ranks = numbers(scores, "scores", problems)
    if ranks is None:
        raise_problems(problems)
    if ranks.ndim != 1:
        raise InvalidInputError(f"scores must be finite numbers, shape (n,), got shape {ranks.shape}")
    bad = np.flatnonzero(~np.isfinite(ranks))
    if len(bad):
        shown = "; ".join(f"row {row}: {ranks[row]}" for row in bad[:3])
        raise InvalidInputError(f"scores must be finite numbers. {len(bad)} of {len(ranks)} rows are not: {shown}")
    rows = pairs_of(np.zeros(len(ranks)), outcomes, sample_weight)
    weights = rows.weights if sample_weight is not None else np.ones(len(ranks))
    _, codes = np.unique(ranks, return_inverse=True)
    positive = np.bincount(codes, weights * rows.outcomes)
    negative = np.bincount(codes, weights * (1 - rows.outcomes))
    pairs = float(positive.sum() * negative.sum())
    if not pairs:
        raise InvalidInputError("outcomes must hold both 0 and 1: without a pair of them there is nothing to rank")
    below = np.cumsum(negative) - negative
    return float(positive @ below), float(positive @ negative), pairs
