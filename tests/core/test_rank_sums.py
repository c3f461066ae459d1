"""AUC from counts of bins, and from scores that come in parts, agrees with scikit-learn, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mlflow_calib.core import rank_sums
from mlflow_calib.core.rank_sums import HeldScores, ranked_bins
from mlflow_calib.core.ranking import tied_pairs


def rows(n: int, decimals: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(decimals)
    scores = np.round(rng.random(n), decimals)
    return scores, rng.random(n) < 0.3 + 0.4 * scores


@pytest.mark.parametrize("decimals", [0, 1, 2, 9])
@pytest.mark.parametrize("block", [7, 1 << 18])
def test_held_scores_in_any_parts_agree_with_scikit_learn(
    decimals: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_sums, "_BLOCK", block)
    scores, truths = rows(400, decimals)
    found = []
    for cuts in ([], [1, 2, 150], [399]):
        parts = np.split(np.arange(400), cuts)
        held = HeldScores.from_rows(scores[parts[0]], truths[parts[0]])
        for part in parts[1:]:
            held = held.merge(HeldScores.from_rows(scores[part], truths[part]))
        found.append(held.finish())
    assert found[0] is not None
    assert found[0] == found[1] == found[2]
    assert found[0].auc == pytest.approx(roc_auc_score(truths, scores), abs=1e-14)
    assert found[0].tied_pairs == pytest.approx(tied_pairs(scores, truths), abs=1e-14)


def test_bins_rank_as_their_rows_do() -> None:
    """Two bins of one value are one tie; a bin without rows is none; values need no order."""
    values, counts, positives = np.array([0.7, 0.2, 0.2, 0.9]), np.array([30, 20, 25, 0]), np.array([17, 4, 9, 0])
    scores = np.repeat(values, counts)
    truths = np.concatenate([np.arange(n) < k for n, k in zip(counts, positives, strict=True)])
    found = ranked_bins(values, counts, positives)
    assert found is not None
    assert found.auc == pytest.approx(roc_auc_score(truths, scores), abs=1e-14)
    assert found.tied_pairs == pytest.approx((17 * 13 + 13 * 32) / (30 * 45), abs=1e-14)


@pytest.mark.parametrize("outcome", [False, True])
def test_one_outcome_alone_ranks_nothing(outcome: bool) -> None:
    truths = np.full(3, outcome)
    assert HeldScores.from_rows(np.array([0.1, 0.2, 0.3]), truths).finish() is None
    assert ranked_bins([0.1, 0.2], [2, 1], [2 * outcome, 1 * outcome]) is None
