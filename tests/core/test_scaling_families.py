"""Every family and loss: known parameters, minima found by SciPy too, constraints, weights, JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

from mlflow_calib.core.scaling import SCALINGS, ScalingFunction, fit_scaling
from mlflow_calib.core.scaling_fit import EXACT_ROWS
from mlflow_calib.errors import InvalidInputError

FITTED = ("platt", "quadratic", "beta", "temperature")
LOSSES = ("log", "squared")
TRUE = {
    "platt": lambda x: 1.4 * x - 0.6,
    "temperature": lambda x: 0.6 * x,
    "beta": lambda x: 1.5 * log_expit(x) - 0.5 * log_expit(-x) + 0.3,
    "quadratic": lambda x: 0.08 * x**2 + 1.1 * x - 0.4,
    "identity": lambda x: x,
}
PARAMETERS = {
    "platt": {"a": 1.4, "b": -0.6},
    "temperature": {"a": 0.6},
    "beta": {"a": 1.5, "b": 0.5, "c": 0.3},
    "quadratic": {"a": 0.08, "b": 1.1, "c": -0.4},
}


def grid_of_rates(family: str, n: int = 10**9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log odds, outcomes and weights of a population: at each of 41 scores the exact share of positives."""
    x = np.linspace(-3, 3, 41)
    rates = expit(TRUE[family](x))
    outcomes = np.repeat([1.0, 0.0], len(x))
    return np.tile(x, 2), outcomes, n * np.concatenate([rates, 1 - rates])


def drawn(n: int, family: str = "platt", seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=1.5, size=n)
    return x, (rng.uniform(size=n) < expit(TRUE[family](x))).astype(float)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FITTED)
def test_parameters_of_a_population_are_found(family: str, loss: str) -> None:
    """Both losses are proper: on exact rates each is smallest at the truth."""
    x, outcomes, weights = grid_of_rates(family)
    g = fit_scaling(family, x, outcomes, weights=weights, score_kind="logit", loss=loss)
    assert g.parameters == pytest.approx(PARAMETERS[family], abs=1e-6)
    assert (g.family, g.loss_name, g.converged, g.constraint_active) == (family, loss, True, False)


@pytest.mark.parametrize("family", FITTED)
def test_parameters_are_found_from_probabilities(family: str) -> None:
    x, outcomes, weights = grid_of_rates(family)
    g = fit_scaling(family, expit(x), outcomes, weights=weights)
    assert g.parameters == pytest.approx(PARAMETERS[family], abs=1e-6)
    assert g(expit(x)) == pytest.approx(expit(TRUE[family](x)), abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FITTED)
@pytest.mark.parametrize("n", [80, 1500])
def test_loss_is_as_small_as_scipy_makes_it(family: str, loss: str, n: int) -> None:
    x, outcomes = drawn(n, "quadratic", seed=1)
    g = fit_scaling(family, x, outcomes, score_kind="logit", loss=loss)
    formula = {
        "platt": lambda t: t[0] * x + t[1],
        "temperature": lambda t: t[0] * x,
        "beta": lambda t: t[0] * log_expit(x) - t[1] * log_expit(-x) + t[2],
        "quadratic": lambda t: (t[0] * x + t[1]) * x + t[2],
    }[family]

    def mean_loss(theta: np.ndarray) -> float:
        t = formula(theta)
        if loss == "squared":
            return float(np.mean((expit(t) - outcomes) ** 2))
        return float(np.mean(np.logaddexp(0, t) - outcomes * t))

    start = np.array([*g.parameters.values()])
    assert g.loss == pytest.approx(mean_loss(start), rel=1e-12)
    theirs = min(
        (
            minimize(mean_loss, point, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000})
            for point in (start, start + 0.3)
        ),
        key=lambda found: found.fun,
    )
    assert not g.constraint_active
    assert g.loss <= theirs.fun + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("targets", ["labels", "platt"])
@pytest.mark.parametrize("family", SCALINGS)
def test_g_never_falls(family: str, targets: str, loss: str) -> None:
    """Within the data, beyond it, and where the data fall or turn."""
    shapes = [lambda x: x, lambda x: -x, lambda x: 1 - x**2, lambda x: x**2 - 2, lambda x: np.sin(2 * x), np.zeros_like]
    everywhere = np.linspace(0, 1, 4001)
    for seed, shape in enumerate(shapes):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=300)
        outcomes = (rng.uniform(size=300) < expit(shape(x))).astype(float)
        g = fit_scaling(family, expit(x), outcomes, targets=targets, loss=loss)
        outputs = g(everywhere)
        assert np.isfinite(outputs).all()
        assert (np.diff(outputs) >= -1e-15).all(), (seed, g)
        assert outputs.min() >= 0
        assert outputs.max() <= 1


@pytest.mark.parametrize("family", FITTED)
def test_falling_rates_leave_a_constant_and_say_so(family: str) -> None:
    x, outcomes = drawn(2000)
    g = fit_scaling(family, -x, outcomes, score_kind="logit")
    assert g.constraint_active
    assert g.converged
    constant = outcomes.mean() if family != "temperature" else 0.5
    assert g(np.array([-2.0, 0.0, 2.0])) == pytest.approx([constant] * 3, abs=1e-6)


def test_quadratic_that_would_turn_is_held_at_its_end() -> None:
    """Rates that rise and then fall: the slope at the upper end is held at 0, which is the minimum on that edge."""
    x = np.repeat(np.linspace(-2, 2, 9), 2)
    rates = expit(1.5 - (np.linspace(-2, 2, 9) - 1) ** 2)
    outcomes, weights = np.tile([1.0, 0.0], 9), np.column_stack([rates, 1 - rates]).ravel()
    g = fit_scaling("quadratic", x, outcomes, weights=weights, score_kind="logit")
    assert g.constraint_active
    assert 2 * g.a * 2 + g.b == pytest.approx(0, abs=1e-9)
    assert (g.lower, g.upper) == (-2, 2)

    def on_the_edge(theta: np.ndarray) -> float:
        t = theta[0] * (x**2 - 4 * x) + theta[1]
        return float(np.average(np.logaddexp(0, t) - outcomes * t, weights=weights))

    theirs = minimize(on_the_edge, [0, 0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-14})
    assert g.loss == pytest.approx(theirs.fun, abs=1e-10)
    assert g(np.array([2.0, 50.0])).tolist() == [g(np.array([2.0]))[0]] * 2


def test_beta_that_would_fall_is_held() -> None:
    """Rates that depend on ln(1 - z) alone, with the wrong sign in ln z."""
    x = np.repeat(np.linspace(-4, 4, 33), 2)
    rates = expit(-0.3 * log_expit(np.linspace(-4, 4, 33)) - 1.2 * log_expit(-np.linspace(-4, 4, 33)) - 1)
    outcomes, weights = np.tile([1.0, 0.0], 33), np.column_stack([rates, 1 - rates]).ravel()
    g = fit_scaling("beta", x, outcomes, weights=weights, score_kind="logit")
    assert g.constraint_active
    assert g.a == 0
    assert g.b > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FITTED)
def test_weights_are_repeated_rows(family: str, loss: str) -> None:
    x, outcomes = drawn(400, "beta")
    times = np.random.default_rng(3).integers(0, 4, size=400)
    by_weight = fit_scaling(family, x, outcomes, weights=times.astype(float), score_kind="logit", loss=loss)
    by_row = fit_scaling(family, np.repeat(x, times), np.repeat(outcomes, times), score_kind="logit", loss=loss)
    assert by_weight.parameters == pytest.approx(by_row.parameters, abs=1e-7)
    assert by_weight.loss == pytest.approx(by_row.loss, abs=1e-12)


@pytest.mark.parametrize("family", SCALINGS)
def test_only_proportions_of_weights_matter(family: str) -> None:
    """Doubled weights are the same to the bit, and equal weights are none."""
    x, outcomes = drawn(300)
    weights = np.random.default_rng(4).uniform(0.1, 2, size=300)
    first = fit_scaling(family, expit(x), outcomes, weights=weights)
    assert fit_scaling(family, expit(x), outcomes, weights=2 * weights) == first
    even, none = (fit_scaling(family, expit(x), outcomes, weights=w) for w in (np.full(300, 2.0), None))
    assert even.parameters == pytest.approx(none.parameters, abs=1e-12)


def test_many_rows_are_fitted_as_well_by_their_cells() -> None:
    """Above the exact limit the gradient over the rows themselves is still zero to rounding."""
    x, outcomes = drawn(3 * EXACT_ROWS)
    g = fit_scaling("platt", expit(x), outcomes)
    residual = g(expit(x)) - outcomes
    assert abs(residual.mean()) < 1e-10
    assert abs((residual * x).mean()) < 1e-10


@pytest.mark.parametrize("family", FITTED)
def test_separated_scores_are_fitted_to_platts_targets(family: str) -> None:
    x = np.concatenate([np.linspace(-3, -0.5, 30), np.linspace(0.5, 3, 20)])
    g = fit_scaling(family, x, np.repeat([0.0, 1.0], [30, 20]), score_kind="logit")
    assert (g.converged, g.targets) == (False, "platt")
    assert np.isfinite([*g.parameters.values()]).all()


def test_temperature_has_a_minimum_where_only_a_shift_separates() -> None:
    """Every positive over every negative, but not over 0: without an intercept the log loss has a minimum."""
    x = np.concatenate([np.linspace(-4, 0.5, 30), np.linspace(1, 3, 20)])
    assert fit_scaling("temperature", x, np.repeat([0.0, 1.0], [30, 20]), score_kind="logit").converged


def test_smoothed_targets_are_platts() -> None:
    x, outcomes = drawn(40)
    g = fit_scaling("platt", x, outcomes, score_kind="logit", targets="platt")
    n1 = outcomes.sum()
    aims = np.where(outcomes > 0, (n1 + 1) / (n1 + 2), 1 / (40 - n1 + 2))
    assert g.targets == "platt"
    assert abs(np.sum(g(x) - aims)) < 1e-7
    assert abs(np.sum((g(x) - aims) * x)) < 1e-7
    squared = fit_scaling("platt", x, outcomes, score_kind="logit", targets="platt", loss="squared")
    assert squared.loss == pytest.approx(np.mean((squared(x) - aims) ** 2))


def test_squared_loss_without_a_minimum_is_reported() -> None:
    """Four rows that a step fits best: the slope has no finite optimum, and the object says so."""
    x = np.array([-2.0, -1.0, -0.9, 1.0, 1.1, 2.0] * 2)
    outcomes = np.array([0.0, 0, 0, 1, 1, 1] * 2)
    outcomes[3], outcomes[2] = 1.0, 0.0
    flipped = np.append(outcomes, [1.0, 0.0])
    g = fit_scaling("platt", np.append(x, [-5.0, 5.0]), flipped, score_kind="logit", loss="squared")
    assert np.isfinite([g.a, g.b, g.loss]).all()


def test_identity_leaves_scores_alone() -> None:
    scores = np.array([0.0, 0.3, 1.0, 0.5])
    g = fit_scaling("identity", scores, np.array([0.0, 1.0, 1.0, 0.0]))
    assert g(scores).tolist() == scores.tolist()
    assert g.parameters == {}
    logits = fit_scaling("identity", logit(scores[[1, 3]]), np.array([0.0, 1.0]), score_kind="logit")
    assert logits(logit(scores[[1, 3]])) == pytest.approx([0.3, 0.5])


@pytest.mark.parametrize("score_kind", ["probability", "logit"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", SCALINGS)
def test_json_brings_back_the_same_function(family: str, loss: str, score_kind: str) -> None:
    x, outcomes = drawn(200, "quadratic")
    scores = x if score_kind == "logit" else expit(x)
    g = fit_scaling(family, scores, outcomes, score_kind=score_kind, loss=loss)
    again = ScalingFunction(**json.loads(json.dumps(g.to_dict(), allow_nan=False)))
    assert again == g
    assert (again(scores) == g(scores)).all()


def test_platt_writes_the_keys_of_schema_1() -> None:
    g = fit_scaling("platt", expit(drawn(100)[0]), drawn(100)[1])
    keys = ["family", "a", "b", "boundary", "converged", "n_iterations", "constraint_active", "loss"]
    assert [*g.to_dict()] == keys


def test_every_wrong_word_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"(?s)scaling must be .*loss must be .*targets must be "):
        fit_scaling("probit", np.array([0.1]), np.array([1.0]), loss="hinge", targets="hard")
    with pytest.raises(InvalidInputError, match="both 0 and 1"):
        fit_scaling("platt", np.array([0.1, 0.2]), np.array([1.0, 1.0]))
