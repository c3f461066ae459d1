"""Estimates of every reduction, with weights, their table of bins, and the three ways to a bound."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mlflow_calib.core.bootstrap import bootstrap_squares
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.estimators import estimate_calibration_error
from mlflow_calib.core.finite_sample import clopper_pearson, worst_case_squared
from mlflow_calib.core.intervals import debiased_squared, squared_upper_bound
from mlflow_calib.errors import CalibrationWarning, InvalidInputError


def simplex(seed: int, n: int, n_classes: int = 3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), size=n)
    return p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)


def binary(seed: int, n: int = 600):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**1.3).astype(int)


# Reductions


def test_top_label_is_the_binary_problem_of_confidence_and_correct():
    p, labels = simplex(0, 900)
    confidence, correct = p.max(axis=1), (p.argmax(axis=1) == labels).astype(int)
    found = estimate_calibration_error(p, labels, reduction="top-label", bins=8)
    expected = estimate_calibration_error(confidence, correct, bins=8)
    assert found.squared == expected.squared
    assert found.upper_bound() == expected.upper_bound()
    assert (found.labels, found.bound_kind, len(found.statistics)) == ((None,), "rows", 1)


def test_a_top_label_calibrator_is_judged_by_the_base_models_label():
    calibrator = fit_calibrator(*simplex(1, 2_000), reduction="top-label", n_bins=5)
    p, labels = simplex(2, 1_500)
    found = estimate_calibration_error(p, labels, reduction="top-label", bins=calibrator)
    outputs = np.take_along_axis(calibrator.predict(p), p.argmax(axis=1)[:, np.newaxis], axis=1)[:, 0]
    correct = (p.argmax(axis=1) == labels).astype(int)
    expected = estimate_calibration_error(outputs, correct, bins="distinct")
    assert found.squared == pytest.approx(expected.squared, rel=1e-9)
    assert found.upper_bound() == pytest.approx(expected.upper_bound(), rel=1e-9)
    with pytest.raises(InvalidInputError, match="already calibrated"):
        estimate_calibration_error(calibrator.predict(p), labels, reduction="top-label", bins=calibrator)


@pytest.mark.parametrize("fitted", [False, True])
def test_per_predicted_class_is_the_mean_weighted_by_rows(fitted):
    """sum_c n_c / n T_c, each T_c of the confidence of the rows where c is predicted."""
    p, labels = simplex(3, 1_500)
    bins = fit_calibrator(*simplex(4, 3_000), reduction="top-label-per-class", n_bins=4) if fitted else 4
    found = estimate_calibration_error(p, labels, reduction="top-label-per-class", bins=bins)
    predicted, total = p.argmax(axis=1), 0.0
    for c in range(3):
        mine = predicted == c
        outputs = (bins.predict(p) if fitted else p)[mine, c]
        one = estimate_calibration_error(outputs, (labels[mine] == c).astype(int), bins="distinct" if fitted else 4)
        total += mine.mean() * one.squared
        assert found.statistics[c].counts.tolist() == one.statistics[0].counts.tolist()
    assert found.squared == pytest.approx(total, rel=1e-9)
    assert found.labels == (0, 1, 2)
    assert math.sqrt(squared_upper_bound(found.pooled)) == found.upper_bound()
    assert found.lower_bound() <= found.root <= found.upper_bound()


def test_a_class_that_is_never_predicted_has_no_bins_of_its_own():
    p = np.tile([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]], (100, 1))
    found = estimate_calibration_error(
        p, np.tile([0, 2], 100), reduction="top-label-per-class", bins="distinct", classes=[0, 1, 2]
    )
    assert found.labels == (0, 1)
    assert found.status == "ok"


def test_multi_label_is_the_mean_over_labels_that_do_not_exclude_one_another():
    rng = np.random.default_rng(5)
    scores = rng.random((800, 3))
    truths = rng.random((800, 3)) < scores
    found = estimate_calibration_error(scores, truths, reduction="multi-label", bins=5, classes=["red", "round", "new"])
    each = [estimate_calibration_error(scores[:, k], truths[:, k].astype(int), bins=5).squared for k in range(3)]
    assert found.squared == pytest.approx(np.mean(each))
    assert (found.labels, found.bound_kind) == (("red", "round", "new"), "cross-class counts")
    assert found.lower_bound() <= found.root <= found.upper_bound()


def test_marginal_bounds_are_narrower_than_what_holds_however_classes_depend():
    p, labels = simplex(6, 2_000, n_classes=10)
    found = estimate_calibration_error(p, labels, reduction="marginal", bins=10)
    slim = found.without_rows()
    assert slim.class_rows is None
    assert (slim.upper_bound(), slim.lower_bound()) == (found.upper_bound(), found.lower_bound())
    from mlflow_calib.core.bound_terms import comonotone, row_terms_of

    wide = comonotone([row_terms_of(s) for s in found.statistics])
    assert found.upper_bound() < 0.6 * math.sqrt(float(wide.upper(0.95)))
    assert found.noise_floor() < found.upper_bound() + 0.1


@pytest.mark.parametrize("method", ["scaling", "identity"])
def test_continuous_outputs_are_not_judged_by_bins_they_do_not_have(method):
    calibrator = fit_calibrator(*binary(7), method=method)
    with pytest.raises(InvalidInputError, match="continuous outputs"):
        estimate_calibration_error(*binary(8), bins=calibrator)


# Weights


@pytest.mark.parametrize("reduction", ["binary", "marginal", "top-label", "top-label-per-class"])
def test_weights_of_two_are_weights_of_one(reduction):
    """N15: everything, to the last bound; duplicated rows are not more information."""
    scores, labels = binary(9) if reduction == "binary" else simplex(9, 600)
    one, two = (
        estimate_calibration_error(scores, labels, reduction=reduction, bins=5, sample_weight=weights)
        for weights in (None, np.full(600, 2.0))
    )
    assert (one.squared, one.upper_bound(), one.lower_bound()) == (two.squared, two.upper_bound(), two.lower_bound())


@pytest.mark.parametrize("reduction", ["binary", "marginal", "top-label", "top-label-per-class"])
@pytest.mark.parametrize("by_group", [False, True])
def test_weights_against_rows_so_many_times(reduction, by_group):
    """N15: the same plug-in; the debiased square and the bounds know that a row twice is one row."""
    scores, labels = binary(10) if reduction == "binary" else simplex(10, 600)
    weights = np.where(np.arange(600) % 4 == 0, 2, 1)
    twice, groups = np.repeat(np.arange(600), weights), np.arange(600) // 10
    others = binary(30, 900) if reduction == "binary" else simplex(30, 900)
    calibrator = fit_calibrator(*others, reduction=reduction, n_bins=4, method="histogram-binning")
    options = {"reduction": reduction, "bins": calibrator}
    grouped = [{"groups": groups}, {"groups": groups[twice]}] if by_group else [{}, {}]
    for estimator, same in (("plugin", True), ("debiased", False)):
        weighted = estimate_calibration_error(
            scores, labels, estimator=estimator, sample_weight=weights, **options, **grouped[0]
        )
        repeated = estimate_calibration_error(
            scores[twice], labels[twice], estimator=estimator, **options, **grouped[1]
        )
        assert (weighted.squared == pytest.approx(repeated.squared, rel=1e-9)) == same
    assert weighted.squared < repeated.squared  # more noise is taken off
    if by_group:  # by group, the groups are the same, and so is their variance
        assert weighted.terms.v0 == pytest.approx(repeated.terms.v0, rel=1e-9)
    else:
        assert weighted.noise_floor() > repeated.noise_floor()


def test_effective_numbers_by_hand():
    """One bin, weights 1 and 3 in equal numbers: 200^2 / 500 = 80 rows of 100."""
    labels, weights = [0, 1] * 50, [1.0, 3.0] * 50
    found = estimate_calibration_error([0.7] * 100, labels, bins="distinct", sample_weight=weights)
    mean = 0.75
    assert found.statistics[0].effective_counts[0] == pytest.approx(80)
    assert found.squared == pytest.approx((0.7 - mean) ** 2 - mean * (1 - mean) / 79)
    row = found.bin_table()[0]
    assert (row.n, row.effective_n, row.label_mean) == (100, pytest.approx(80), mean)


def test_rows_of_weight_zero_are_no_rows():
    scores, labels = binary(11)
    weights = (np.arange(600) % 3 > 0) * 1.5
    held = weights > 0
    with_zeros = estimate_calibration_error(scores, labels, bins=5, sample_weight=weights, groups=np.arange(600) // 6)
    without = estimate_calibration_error(scores[held], labels[held], bins=5, groups=(np.arange(600) // 6)[held])
    assert with_zeros.n == without.n == 400
    assert with_zeros.squared == pytest.approx(without.squared)
    assert with_zeros.upper_bound() == pytest.approx(without.upper_bound())
    with pytest.raises(InvalidInputError, match="sample_weight"):
        estimate_calibration_error(scores, labels, bins=5, sample_weight=np.zeros(600))


def test_weights_that_leave_few_effective_rows_are_thin():
    scores, labels = binary(12, 200)
    weights = np.where(np.arange(200) < 8, 1_000.0, 1.0)
    found = estimate_calibration_error(scores, labels, bins=2, sample_weight=weights)
    assert found.status == "unusable"
    assert "effective" in found.reason
    assert estimate_calibration_error(scores, labels, bins=2).status == "ok"


# The table of bins


def test_every_bin_has_its_count_and_interval():
    """N14: 50 rows in 10 bins are shown as the noise they are."""
    found = estimate_calibration_error(*binary(13, 50), bins=10)
    table = found.bin_table(0.9)
    assert [row.n for row in table] == [5] * 10
    for row in table:
        low, high = clopper_pearson(row.n, row.positives, 0.9)
        assert (row.low, row.high) == (float(low), float(high))
        assert row.low <= row.label_mean <= row.high
        assert row.high - row.low > 0.4
    assert json.loads(json.dumps([row.to_dict() for row in table]))[0]["n"] == 5


def test_empty_bins_are_named():
    """N13: by class and number, and in the reason."""
    calibrator = fit_calibrator(*simplex(14, 600), reduction="marginal", n_bins=3, method="histogram-binning")
    p = np.tile([[0.9, 0.05, 0.05]], (60, 1))
    found = estimate_calibration_error(p, [0] * 60, reduction="marginal", bins=calibrator)
    assert found.empty_bins == ((0, 0), (0, 1), (1, 1), (1, 2), (2, 1), (2, 2))
    assert found.status == "thin"
    assert "no rows in 2 of 3 bins (counted from 0: 0, 1)" in found.reason
    empty = next(row for row in found.bin_table() if row.n == 0)
    assert (empty.label_mean, empty.low, empty.high) == (None, 0.0, 1.0)


# Bounds


def test_finite_sample_bound_is_wide_and_given_where_nothing_else_is():
    """N21: two rows know next to nothing, and say so."""
    two = estimate_calibration_error([0.2, 0.7], [0, 1], bins=2)
    assert two.upper_bound() is None
    assert two.upper_bound(method="finite-sample") > 0.7
    found = estimate_calibration_error(*binary(15), bins=5)
    s = found.statistics[0]
    assert found.upper_bound(0.9, "finite-sample") == math.sqrt(
        worst_case_squared(s.counts, s.positives, s.outputs, 0.9)
    )
    assert found.upper_bound() < found.upper_bound(method="finite-sample")
    low, high = found.confidence_interval(0.9, method="finite-sample")
    assert low <= found.lower_bound() <= found.root <= high


def test_finite_sample_bound_of_classes_shares_the_level():
    p, labels = simplex(16, 900)
    found = estimate_calibration_error(p, labels, reduction="marginal", bins=4)
    each = [worst_case_squared(s.counts, s.positives, s.outputs, 1 - 0.05 / 3) for s in found.statistics]
    assert found.upper_bound(method="finite-sample") == pytest.approx(math.sqrt(np.mean(each)))


def test_bootstrap_from_cell_counts_is_close_to_the_closed_form():
    scores, labels = binary(17, 4_000)
    found = estimate_calibration_error(scores, labels, bins=10)
    assert found.upper_bound(method="bootstrap") == pytest.approx(found.upper_bound(), rel=0.1)
    assert found.lower_bound(method="bootstrap") == pytest.approx(found.lower_bound(), rel=0.1)
    p, labels = simplex(18, 4_000, n_classes=10)
    many = estimate_calibration_error(p, labels, reduction="marginal", bins=10)
    assert many.upper_bound(method="bootstrap") == pytest.approx(many.upper_bound(), rel=0.3)


def test_bootstrap_draws_are_those_of_resampled_rows():
    scores, labels = binary(19, 400)
    s = estimate_calibration_error(scores, labels, bins=5).statistics[0]
    index, rng = np.repeat(np.arange(5), s.counts), np.random.default_rng(0)
    outcomes = np.concatenate([np.arange(n) < k for n, k in zip(s.counts, s.positives, strict=True)])
    resampled = []
    for _ in range(4_000):
        rows = rng.integers(400, size=400)
        n = np.bincount(index[rows], minlength=5)
        k = np.bincount(index[rows], outcomes[rows], minlength=5)
        resampled.append(float((n / 400 * ((s.outputs - k / n) ** 2 - k / n * (1 - k / n) / (n - 1))).sum()))
    drawn = bootstrap_squares(s, 4_000)
    assert drawn.mean() == pytest.approx(np.mean(resampled), abs=4 * np.std(resampled) / math.sqrt(2_000))
    assert drawn.std() == pytest.approx(np.std(resampled), rel=0.06)
    assert np.array_equal(bootstrap_squares(s, 100, seed=3), bootstrap_squares(s, 100, seed=3))


def test_percentiles_of_a_plugin_are_no_bound():
    """2.6 times too high at B = 100 and n = 2,000; the standard deviation of T is not."""
    rng, u = np.random.default_rng(20), (np.arange(100) + 0.5) / 100
    counts = rng.multinomial(2_000, np.full(100, 0.01))
    from mlflow_calib.core.intervals import ErrorStatistics

    s = ErrorStatistics(counts, rng.binomial(counts, u), u)
    cells = np.concatenate([s.positives, s.counts - s.positives]) / 2_000
    drawn = rng.multinomial(2_000, cells, size=1_000)
    k, n = drawn[:, :100], drawn[:, :100] + drawn[:, 100:]
    plugin = (n / 2_000 * (u - k / np.maximum(n, 1)) ** 2).sum(axis=1)
    ours = debiased_squared(s) + 1.645 * bootstrap_squares(s).std()
    assert math.sqrt(np.quantile(plugin, 0.95)) > 2 * math.sqrt(max(ours, 0.0))


def test_rows_that_are_not_alone_refuse_what_needs_independent_rows():
    scores, labels = binary(21)
    grouped = estimate_calibration_error(scores, labels, bins=5, groups=np.arange(600) // 10)
    weighted = estimate_calibration_error(scores, labels, bins=5, sample_weight=np.arange(1, 601))
    for found, word in ((grouped, "groups"), (weighted, "weights")):
        for method in ("bootstrap", "finite-sample"):
            with pytest.raises(InvalidInputError, match=f"these have {word}; use method='asymptotic'"):
                found.upper_bound(method=method)
    with pytest.raises(InvalidInputError, match="method must be one of"):
        grouped.upper_bound(method="exact")


def test_warnings_are_none_where_all_is_as_asked(recwarn):
    estimate_calibration_error(*binary(22), bins=5).confidence_interval()
    assert not [warning for warning in recwarn if issubclass(warning.category, CalibrationWarning)]
