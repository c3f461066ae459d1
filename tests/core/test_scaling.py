"""Platt scaling: hand values, first-order conditions, the constraint, separation, and the fitted boundary."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from mlflow_calib.core.scaling import BOUNDARIES, fit_platt, log_odds


def exact(scores: list[float], rates: list[float], n: int) -> tuple[np.ndarray, np.ndarray]:
    """For each score n rows, of which exactly the rate is positive."""
    outcomes = np.concatenate([np.arange(n) < round(rate * n) for rate in rates])
    return np.repeat(scores, n), outcomes.astype(float)


def drawn(n: int, slope: float, intercept: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Log odds x and outcomes of P(y = 1) = sigma(slope x + intercept)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=2, size=n)
    return x, (rng.uniform(size=n) < expit(slope * x + intercept)).astype(float)


@pytest.mark.parametrize("score_kind", ["probability", "logit"])
def test_calibrated_scores_stay_as_they_are(score_kind: str) -> None:
    """N8: slope 1 and intercept 0, because the sigmoid is fitted to log odds."""
    scores, outcomes = exact([0.001, 0.01, 0.99, 0.999], [0.001, 0.01, 0.99, 0.999], 1000)
    g = fit_platt(scores if score_kind == "probability" else logit(scores), outcomes, score_kind)
    assert g.a == pytest.approx(1, abs=1e-9)
    assert g.b == pytest.approx(0, abs=1e-9)
    assert g.converged
    assert not g.constraint_active


def test_two_scores_are_met_exactly() -> None:
    """Two scores and two rates leave one line through (logit z, logit rate)."""
    g = fit_platt(*exact([0.3, 0.8], [0.2, 0.4], 50))
    slope = (logit(0.4) - logit(0.2)) / (logit(0.8) - logit(0.3))
    assert g.a == pytest.approx(slope)
    assert g.b == pytest.approx(logit(0.2) - slope * logit(0.3))
    assert g(np.array([0.3, 0.8])) == pytest.approx([0.2, 0.4])
    entropy = [-(r * np.log(r) + (1 - r) * np.log(1 - r)) for r in (0.2, 0.4)]
    assert g.loss == pytest.approx(np.mean(entropy))


@pytest.mark.parametrize(("n", "slope", "intercept"), [(60, 0.5, 1), (1000, 2, -3), (20_000, 0.05, 0)])
def test_gradient_is_zero_at_the_fit(n: int, slope: float, intercept: float) -> None:
    x, outcomes = drawn(n, slope, intercept)
    g = fit_platt(x, outcomes, "logit")
    residual = g(x) - outcomes
    assert g.converged
    assert abs(residual.sum()) < 1e-6
    assert abs(residual @ x) < 1e-6


def test_equals_unpenalised_logistic_regression() -> None:
    x, outcomes = drawn(500, 1.5, -1)
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(x[:, None], outcomes)
    g = fit_platt(expit(x), outcomes)
    assert g.a == pytest.approx(theirs.coef_[0, 0], rel=1e-5)
    assert g.b == pytest.approx(theirs.intercept_[0], rel=1e-5)


def test_location_and_scale_of_logits_do_not_matter() -> None:
    x, outcomes = drawn(500, 1, 0)
    far = fit_platt(1e6 + 1e4 * x, outcomes, "logit")
    assert far(1e6 + 1e4 * x) == pytest.approx(fit_platt(x, outcomes, "logit")(x), abs=1e-7)


@pytest.mark.parametrize("slope", [-1.0, 0.0])
def test_slope_is_held_at_zero(slope: float) -> None:
    """Scores that fall with the labels, or say nothing: the base rate, and the constraint on record."""
    x, outcomes = drawn(400, -1, 0.5) if slope < 0 else (np.zeros(400), drawn(400, 1, 0)[1])
    g = fit_platt(x, outcomes, "logit")
    assert g.constraint_active
    assert g.converged
    assert g.a == 0
    assert g(np.array([-9.0, 9.0])) == pytest.approx(outcomes.mean())


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_separated_scores_are_fitted_to_platts_targets(gap: float) -> None:
    """Above or at .5 all positive, below or at it all negative: the log loss has no minimum, Platt's targets have."""
    x = np.concatenate([np.linspace(-2, -gap, 30), np.linspace(gap, 2, 20)])
    outcomes = np.repeat([0.0, 1.0], [30, 20])
    g = fit_platt(x, outcomes, "logit")
    assert not g.converged
    assert np.isfinite([g.a, g.b]).all()
    targets = np.where(outcomes > 0, 21 / 22, 1 / 32)
    assert abs(np.sum(g(x) - targets)) < 1e-6
    assert abs(np.sum((g(x) - targets) * x)) < 1e-6


def test_boundary_stays_where_no_score_is_near_it() -> None:
    assert fit_platt(*exact([0.3, 0.8], [0.2, 0.4], 50)).boundary == BOUNDARIES[0]
    assert fit_platt(*drawn(50, 1, 0), "logit").boundary is None


def test_boundary_stays_where_extreme_scores_are_right() -> None:
    """Calibrated scores down to 1e-9: a wider boundary loses what they know."""
    x = np.random.default_rng(0).normal(scale=6, size=5000)
    outcomes = (np.random.default_rng(1).uniform(size=5000) < expit(x)).astype(float)
    g = fit_platt(expit(x), outcomes)
    assert g.boundary < 1e-8
    assert g.a == pytest.approx(1, abs=0.1)


def test_boundary_moves_where_zeros_and_ones_are_often_wrong() -> None:
    """Odds of .02 to .98 are right, and of the scores 0 and 1 a tenth is wrong: they may count as about .1 and .9."""
    x, outcomes = drawn(4000, 1, 0)
    ends, of_ends = exact([0.0, 1.0], [0.1, 0.9], 500)
    scores, outcomes = np.concatenate([expit(x), ends]), np.concatenate([outcomes, of_ends])
    g = fit_platt(scores, outcomes)
    assert g.boundary >= 0.01
    assert g(np.array([0.0, 1.0])) == pytest.approx([0.1, 0.9], abs=0.05)


def test_g_rises_and_is_made_of_plain_values() -> None:
    g = fit_platt(expit(drawn(300, 1, 0)[0]), drawn(300, 1, 0)[1])
    assert (np.diff(g(np.linspace(0, 1, 1001))) >= 0).all()
    assert [type(value) for value in g.to_dict().values()] == [str, float, float, float, bool, int, bool, float]


def test_log_odds_are_held_within_the_boundary() -> None:
    assert log_odds(np.array([0.0, 0.5, 1.0]), 0.01).tolist() == pytest.approx([logit(0.01), 0, logit(0.99)])
