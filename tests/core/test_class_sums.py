"""Sums over classes: any batches in any order give the figures of the estimate on all rows at once."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from mlflow_calib.core import class_sums
from mlflow_calib.core.bound_terms import comonotone, row_terms_of
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.class_sums import ClassSums
from mlflow_calib.core.error_statistics import debiased_squared
from mlflow_calib.core.estimators import estimate_calibration_error
from mlflow_calib.core.proper_losses import mean_squared_error
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

LABELS = ("cat", "dog", "emu")


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet([0.6, 1.0, 1.5], size=n)
    labels = np.array([LABELS[k] for k in (rng.random((n, 1)) > np.cumsum(chances, axis=1)).sum(axis=1)])
    return chances, labels, rng.integers(40, size=n)


def fitted(reduction):
    scores, labels, _ = rows(seed=9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)  # flags are no matter here
        return fit_calibrator(scores, labels, reduction=reduction, classes=LABELS, n_bins=6, parts="shared")


def sums_of(calibrator, scores, labels, groups):
    """What a batch of rows adds up to, as a step would do it."""
    n_bins, values = [len(one.values) for one in calibrator.maps], [one.values for one in calibrator.maps]
    if calibrator.reduction == "marginal":
        index = np.stack(
            [np.searchsorted(one.edges, scores[:, k], side="left") for k, one in enumerate(calibrator.maps)], axis=1
        )
        truths = np.equal.outer(labels, np.array(LABELS))
        outputs = calibrator.predict(scores)
        return ClassSums.from_marginal(LABELS, outputs, truths, index, n_bins, values, groups)
    predicted = scores.argmax(axis=1)
    confidence = scores[np.arange(len(scores)), predicted]
    index = np.array(
        [np.searchsorted(calibrator.maps[k].edges, z, side="left") for k, z in zip(predicted, confidence, strict=True)]
    )
    outputs = np.array([values[k][j] for k, j in zip(predicted, index, strict=True)])
    correct = labels == np.array(LABELS)[predicted]
    return ClassSums.from_predicted(LABELS, outputs, correct, predicted, index, n_bins, values, groups)


@pytest.mark.parametrize("reduction", ["marginal", "top-label-per-class"])
@pytest.mark.parametrize("grouped", [False, True])
def test_batches_in_any_order_give_the_estimate_on_all_rows(reduction, grouped):
    calibrator = fitted(reduction)
    scores, labels, groups = rows()
    groups = groups if grouped else None
    cuts = np.random.default_rng(1).permutation(len(scores)) % 4
    parts = [
        sums_of(calibrator, scores[cuts == cut], labels[cuts == cut], None if groups is None else groups[cuts == cut])
        for cut in range(4)
    ]
    found = parts[2].merge(parts[0], parts[3], parts[1])
    finished = found.finish()
    whole = estimate_calibration_error(scores, labels, reduction=reduction, bins=calibrator, groups=groups)
    assert (found.n, finished.labels, finished.bound_kind) == (1500, LABELS, whole.bound_kind)
    for mine, theirs in zip(finished.statistics, whole.statistics, strict=True):
        assert mine.counts.tolist() == theirs.counts.tolist()
        assert mine.positives.tolist() == theirs.positives.tolist()
        np.testing.assert_array_equal(mine.outputs, theirs.outputs)
        assert (mine.group_moments is not None) == grouped
    for field in dataclasses.fields(whole.terms):
        mine, expected = (np.asarray(getattr(terms, field.name), float) for terms in (finished.terms, whole.terms))
        np.testing.assert_allclose(mine, expected, rtol=1e-9, atol=1e-15)


def test_mse_is_the_mean_over_rows_and_classes():
    calibrator = fitted("marginal")
    scores, labels, _ = rows()
    truths = np.equal.outer(labels, np.array(LABELS))
    expected = mean_squared_error(calibrator.predict(scores), truths)
    assert sums_of(calibrator, scores, labels, None).mse == pytest.approx(expected, rel=1e-12)


def test_too_many_bins_to_count_together_leave_the_form_that_always_holds(monkeypatch):
    monkeypatch.setattr(class_sums, "MOST_CROSS_BINS", 5)
    found = sums_of(fitted("marginal"), *rows()[:2], None).finish()
    assert found.bound_kind == "comonotone"
    expected = comonotone([row_terms_of(s) for s in found.statistics])
    assert (found.terms.v0, found.terms.c) == (expected.v0, expected.c)
    assert found.terms.upper_centre == pytest.approx(np.mean([debiased_squared(s) for s in found.statistics]))


def test_too_many_moments_are_not_kept_and_the_terms_by_group_stand(monkeypatch):
    monkeypatch.setattr(class_sums, "MOST_MOMENTS", 5)
    found = sums_of(fitted("marginal"), *rows()).finish()
    assert all(s.group_moments is None for s in found.statistics)
    assert found.bound_kind == "groups"
    assert np.isfinite(found.terms.degrees_of_freedom)


def test_a_class_that_is_never_predicted_has_empty_bins_and_no_groups():
    calibrator = fitted("top-label-per-class")
    scores, labels, groups = rows()
    never = scores.argmax(axis=1) != 0
    found = sums_of(calibrator, scores[never], labels[never], groups[never]).finish()
    assert found.statistics[0].n == 0
    assert found.statistics[0].group_moments is None
    assert found.statistics[1].group_moments.G <= 40


def test_what_does_not_fit_together_is_refused():
    marginal, predicted = (sums_of(fitted(name), *rows()[:2], None) for name in ("marginal", "top-label-per-class"))
    with pytest.raises(InvalidInputError, match="same classes, bins and reduction"):
        marginal.merge(predicted)
