"""The public estimate: what it judges, what it refuses, and how its interval covers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from mlflow_calib.core.binning import BinningScheme
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.estimators import estimate_calibration_error, mean_squared_error
from mlflow_calib.errors import InvalidInputError


def draw(seed: int, n: int = 2_000, curve: float = 1.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**curve).astype(int)


def simplex(seed: int, n: int, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), size=n)
    return p, (rng.random(n)[:, np.newaxis] > p.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)


# What is judged


def test_small_scores_of_sure_positives_are_far_off():
    """N12: binary means P(y = 1), not the confidence of a predicted label; .995 = 1 - (.01 + .001 + .005) / 3."""
    estimate = estimate_calibration_error([0.01, 0.001, 0.005], [1, 1, 1], bins=1)
    assert estimate.root == pytest.approx(1 - 0.016 / 3)
    by_value = estimate_calibration_error([0.01, 0.001, 0.005], [1, 1, 1], bins="distinct", estimator="plugin")
    assert by_value.root == pytest.approx(math.sqrt((0.99**2 + 0.999**2 + 0.995**2) / 3))
    assert (estimate.reduction, by_value.status) == ("binary", "unusable")


def test_bins_come_with_their_counts_and_empty_ones_are_named():
    """N13."""
    asked = estimate_calibration_error([0.9, 0.8, 0.2], [1, 1, 0], bins=3)
    assert asked.statistics[0].counts.tolist() == [1, 1, 1]
    thirds = BinningScheme(np.array([1 / 3, 2 / 3]), requested=3)
    estimate = estimate_calibration_error([0.9, 0.8, 0.2], [1, 1, 0], bins=thirds)
    assert estimate.statistics[0].counts.tolist() == [1, 0, 2]
    assert "no rows in 1 of 3 bins (counted from 0: 1)" in estimate.reason


def test_two_rows_in_two_bins_are_unusable():
    """N21."""
    estimate = estimate_calibration_error([0.2, 0.7], [0, 1], bins=2)
    assert (estimate.squared, estimate.status) == (0.0, "unusable")
    assert (estimate.upper_bound(), estimate.lower_bound(), estimate.confidence_interval()) == (None, None, None)


def test_squares_are_signed_and_only_the_root_is_clipped():
    labels = [1] * 20 + [0] * 80 + [1] * 70 + [0] * 30
    estimate = estimate_calibration_error([0.2] * 100 + [0.7] * 100, labels, bins="distinct")
    assert estimate.squared == pytest.approx(-(0.16 + 0.21) / 2 / 99)
    assert estimate.root == 0.0
    assert estimate.upper_bound() > 0


def test_a_calibrator_is_judged_by_its_own_outputs_and_bins():
    calibrator = fit_calibrator(*draw(0), n_bins=10)
    scores, labels = draw(1)
    estimate = estimate_calibration_error(scores, labels, bins=calibrator)
    outputs = calibrator.predict(scores)
    s, index = estimate.statistics[0], calibrator.bin_index(scores)
    assert np.array_equal(s.outputs, calibrator.maps[0].values)
    assert s.counts.tolist() == np.bincount(index, minlength=10).tolist()
    assert s.positives.tolist() == np.bincount(index, labels, minlength=10).astype(int).tolist()
    by_value = estimate_calibration_error(outputs, labels, bins="distinct")
    assert estimate.squared == pytest.approx(by_value.squared, rel=1e-9)
    assert estimate.upper_bound() == pytest.approx(by_value.upper_bound(), rel=1e-9)


def test_calibrated_scores_with_their_calibrator_are_refused():
    calibrator = fit_calibrator(*draw(0), n_bins=10)
    scores, labels = draw(1)
    with pytest.raises(InvalidInputError, match=r'already calibrated.*bins="distinct"'):
        estimate_calibration_error(calibrator.predict(scores), labels, bins=calibrator)


def test_a_marginal_calibrator_and_its_outputs_that_do_not_sum_to_one():
    calibrator = fit_calibrator(*simplex(0, 600), reduction="marginal", n_bins=5)
    scores, labels = simplex(1, 900)
    estimate = estimate_calibration_error(scores, labels, reduction="marginal", bins=calibrator)
    outputs = calibrator.predict(scores)
    by_value = estimate_calibration_error(outputs, labels, reduction="marginal", bins="distinct")
    assert estimate.squared == pytest.approx(by_value.squared, rel=1e-9)
    per_class = [estimate_calibration_error(outputs[:, k], labels == k, bins="distinct").squared for k in range(3)]
    assert estimate.squared == pytest.approx(np.mean(per_class), rel=1e-9)
    assert (len(estimate.statistics), estimate.n_bins, estimate.bound_kind) == (3, 5, "cross-class counts")
    with pytest.raises(InvalidInputError, match="already calibrated"):
        estimate_calibration_error(outputs, labels, reduction="marginal", bins=calibrator)
    with pytest.raises(InvalidInputError, match="sum to 1"):
        estimate_calibration_error(outputs, labels, reduction="marginal", bins=5)
    with pytest.raises(InvalidInputError, match="must lie in"):
        estimate_calibration_error(outputs + 1, labels, reduction="marginal", bins="distinct")


def test_marginal_bounds_by_group_are_wider_where_rows_come_in_groups_of_twins():
    """Each row eight times over: by row they would look like eight times the data."""
    scores, labels = (np.repeat(part, 8, axis=0) for part in simplex(3, 200))
    by_row, by_group = (
        estimate_calibration_error(scores, labels, reduction="marginal", bins=5, groups=groups)
        for groups in (None, np.arange(1_600) // 8)
    )
    assert by_row.squared == by_group.squared
    assert (by_group.by_group, by_group.bound_kind) == (True, "groups")
    assert by_group.upper_bound() > by_row.upper_bound()
    assert by_group.lower_bound() <= by_row.lower_bound()


def test_logits_of_a_calibrator_that_was_fitted_on_logits():
    scores, labels = draw(0)
    held_out, outcomes = draw(1)
    estimate = estimate_calibration_error(
        special.logit(held_out), outcomes, bins=fit_calibrator(special.logit(scores), labels, score_kind="logit")
    )
    assert estimate.status == "ok"
    with pytest.raises(InvalidInputError, match="must be probabilities where bins is not a Calibrator"):
        estimate_calibration_error(special.logit(held_out), outcomes, bins=10, score_kind="logit")


def test_labels_in_the_models_own_words_and_two_columns():
    """N25, and N5: a class may be absent from the evaluation labels."""
    scores, labels = draw(2, n=400)
    words = np.where(labels == 1, "late", "on time")
    plain = estimate_calibration_error(scores, labels, bins=5).squared
    assert estimate_calibration_error(scores, words, bins=5, positive_class="late").squared == plain
    columns = np.column_stack([scores, 1 - scores])
    both = {"classes": ["late", "on time"], "positive_class": "late"}
    assert estimate_calibration_error(columns, words, bins=5, **both).squared == pytest.approx(plain)
    two = estimate_calibration_error([[0.9, 0.1], [0.8, 0.2]], [0, 0], bins=1, reduction="marginal", estimator="plugin")
    assert two.squared == pytest.approx(0.15**2)


def test_scores_clipped_for_rounding_are_counted():
    """N24."""
    estimate = estimate_calibration_error([1.0000001, 0.5, -1e-8], [1, 1, 0], bins=1)
    assert estimate.n_clipped == 2
    with pytest.raises(InvalidInputError, match=r"-0\.01"):
        estimate_calibration_error([-0.01, 0.5], [0, 1], bins=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bins": "uniform"}, "bins must be a Calibrator"),
        ({"bins": 0}, "n_bins must be an integer from 1 to 1000"),
        ({"bins": 2.5}, "n_bins must be an integer from 1 to 1000"),
        ({"bins": 5, "estimator": "unbiased"}, "estimator must be one of 'debiased', 'plugin'"),
        ({"bins": 5, "reduction": "top"}, "reduction must be one of"),
        ({"bins": 5, "reduction": "top-label"}, r"top-label scores must have shape \(n, K\)"),
        ({"bins": 5, "groups": ["a"]}, r"groups must have shape \(100,\)"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        estimate_calibration_error(*draw(0, n=100), **options)


def test_what_disagrees_with_the_calibrator_is_named_at_once():
    calibrator = fit_calibrator(*draw(0))
    with pytest.raises(InvalidInputError) as caught:
        estimate_calibration_error(
            *draw(1), bins=calibrator, reduction="marginal", classes=["a", "b"], positive_class="b"
        )
    for name in ("reduction", "classes", "positive_class"):
        assert f"{name} must be the calibrator's" in str(caught.value)


# Means over draws


def test_marginal_square_of_a_right_model_averages_to_zero():
    """N22: K = 10, n = 1,000, B = 10, 200 seeds, within 2 standard errors of 0.

    p is Dirichlet(1/2) and labels follow it. The outputs are the exact means of p_k in ten fixed bins (p_k is
    Beta(1/2, 9/2)), so every class is right: P(y = k | output) = output. Clipping each class before averaging would
    show about .012 in place of 0.
    """
    a, b = 0.5, 4.5
    edges = special.betaincinv(a, b, np.arange(1, 10) / 10)
    upto = special.betainc(a + 1, b, np.concatenate([[0], edges, [1]]))
    values = a / (a + b) * np.diff(upto) / 0.1
    squares, clipped = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.full(10, a), size=1_000)
        labels = (rng.random(1_000)[:, np.newaxis] > p.cumsum(axis=1)).sum(axis=1).clip(max=9)
        outputs = values[np.searchsorted(edges, p)]
        estimate = estimate_calibration_error(outputs, labels, reduction="marginal", bins="distinct")
        assert estimate.n_bins == 10
        squares.append(estimate.squared)
        clipped.append(np.mean([math.sqrt(max(0, one)) for one in _class_squares(outputs, labels)]))
    assert abs(np.mean(squares)) <= 2 * np.std(squares, ddof=1) / math.sqrt(200)
    assert np.mean(clipped) > 0.004  # what a root a class does


def _class_squares(outputs, labels):
    for k in range(10):
        yield estimate_calibration_error(outputs[:, k], labels == k, bins="distinct").squared


@pytest.mark.parametrize(("n", "curve"), [(300, 1.0), (300, 1.5), (2_000, 1.1)])
def test_interval_of_a_calibrator_covers(n, curve):
    """N23: level .90 through the public function, 1,000 draws of evaluation data; Monte Carlo error .0095.

    The truth is that of the fitted calibrator over uniform scores, where P(y = 1 | z) = z^curve. By binomial counts
    and with 10,000 draws: test_intervals.test_coverage_by_row.
    """
    calibrator = fit_calibrator(*draw(100, n=1_000, curve=2.0), n_bins=8)
    edges = np.concatenate([[0], calibrator.maps[0].edges, [1]])
    shares = np.diff(edges)
    chances = np.diff(edges ** (curve + 1)) / (curve + 1) / shares
    truth = math.sqrt(float(shares @ (calibrator.maps[0].values - chances) ** 2))
    covered = 0
    for seed in range(1_000):
        low, high = estimate_calibration_error(*draw(seed, n, curve), bins=calibrator).confidence_interval(0.90)
        covered += low <= truth <= high
    assert covered / 1_000 >= 0.88


def test_interval_is_two_one_sided_bounds():
    """N23: at .90 the ends are the one-sided 95 % bounds, not wider."""
    estimate = estimate_calibration_error(*draw(4), bins=10)
    interval = estimate.confidence_interval(0.90)
    assert interval == pytest.approx((estimate.lower_bound(0.95), estimate.upper_bound(0.95)))
    assert interval.low < estimate.root < interval.high
    wider = estimate.confidence_interval(0.99)
    assert wider.low < interval.low < interval.high < wider.high
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        estimate.confidence_interval(1.0)


def test_mean_squared_error_in_both_conventions():
    assert mean_squared_error([0.8, 0.4], [1, 0]) == pytest.approx((0.2**2 + 0.4**2) / 2)
    assert mean_squared_error([[0.7, 0.2, 0.1]], [[1, 0, 0]]) == pytest.approx((0.3**2 + 0.2**2 + 0.1**2) / 3)
    with pytest.raises(InvalidInputError, match="one shape"):
        mean_squared_error([0.8], [1, 0])
