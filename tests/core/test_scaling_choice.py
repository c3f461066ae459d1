"""``scaling="auto"``: what it leaves Platt scaling for, what it records, and what it does not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from mlflow_calib.core.scaling import fit_scaling
from mlflow_calib.core.scaling_choice import Groups
from mlflow_calib.core.scaling_fit import fit_family
from mlflow_calib.core.scaling_rows import TeachingRows


def drawn(n: int, rate: object, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=1.5, size=n)
    return expit(x), (rng.uniform(size=n) < rate(x)).astype(float)


def bent(x: np.ndarray) -> np.ndarray:
    """Rates that level off: far from any straight line in log odds."""
    return expit(np.minimum(0.2 * x, 2 * x))


def test_platt_stays_where_platt_is_right() -> None:
    chosen = [fit_scaling("auto", *drawn(800, lambda x: expit(0.7 * x - 1), seed)).family for seed in range(20)]
    assert chosen.count("platt") >= 14


def test_platt_is_left_where_it_is_wrong() -> None:
    chosen = {fit_scaling("auto", *drawn(5000, bent, seed)).family for seed in range(5)}
    assert chosen <= {"quadratic", "beta"}


def test_the_choice_follows_the_record() -> None:
    """Chosen is the smallest loss among those better than the first by over one standard error."""
    for seed in range(8):
        scores, outcomes = drawn(700, bent, seed)
        g = fit_scaling("auto", scores, outcomes)
        first, *others = g.candidates
        assert first["family"] == "platt"
        assert first["difference"] == first["standard_error"] == 0
        assert {one["family"] for one in g.candidates} == {"platt", "quadratic", "beta", "temperature"}
        (chosen,) = [one for one in g.candidates if one["chosen"]]
        assert chosen is first or chosen["difference"] + chosen["standard_error"] < 0
        smallest = {one["family"]: one for one in reversed(g.candidates)}.values()  # each at its first boundary
        better = [one for one in smallest if one["difference"] + one["standard_error"] < 0]
        assert all(chosen["squared_loss"] <= one["squared_loss"] for one in better)
        assert (g.family, g.boundary) == (chosen["family"], chosen["boundary"])
        for one in others:
            assert one["difference"] == pytest.approx(one["squared_loss"] - first["squared_loss"], abs=1e-12)
        rows = TeachingRows.of(scores, outcomes, None, "probability")
        assert g.parameters == fit_family(chosen["family"], rows, "log", "labels", chosen["boundary"]).parameters


def test_losses_are_cross_fitted() -> None:
    """Half of the rows positive, whatever the score: a fit to its own rows loses at most 1/4, to others more."""
    losses, within = [], []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        scores, outcomes = rng.uniform(size=60), np.repeat([0.0, 1.0], 30)
        losses.append([one["squared_loss"] for one in fit_scaling("auto", scores, outcomes).candidates[:3]])
        within.append(fit_scaling("platt", scores, outcomes, loss="squared").loss)
    assert np.max(within) <= 0.25 + 1e-12
    platt, quadratic, _ = np.mean(losses, axis=0)
    assert 0.25 < platt < quadratic


def test_order_of_rows_does_not_matter_and_seed_decides() -> None:
    scores, outcomes = drawn(999, bent)
    order = np.random.default_rng(9).permutation(999)
    first, again, other = (
        fit_scaling("auto", scores, outcomes, seed=0),
        fit_scaling("auto", scores[order], outcomes[order], seed=0),
        fit_scaling("auto", scores, outcomes, seed=1),
    )
    losses = [[one["squared_loss"] for one in g.candidates] for g in (first, again, other)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)
    assert losses[0] != pytest.approx(losses[2], abs=1e-12)


def test_folds_hold_a_third_of_each_outcome() -> None:
    scores, outcomes = drawn(3001, bent)
    groups = Groups.of(TeachingRows.of(scores, outcomes, None, "probability"))
    shares = groups.fold_shares(np.random.default_rng(0))
    assert shares.sum(axis=0) == pytest.approx(1)
    for outcome in (0, 1):
        sizes = (shares * groups.counts)[:, groups.outcomes == outcome].sum(axis=1)
        assert np.ptp(sizes) <= 1 + 1e-9


@pytest.mark.parametrize(("n0", "n1"), [(400, 5), (5, 400)])
def test_too_few_of_an_outcome_is_platt_without_comparison(n0: int, n1: int) -> None:
    rng = np.random.default_rng(0)
    g = fit_scaling("auto", rng.uniform(size=n0 + n1), np.repeat([0.0, 1.0], [n0, n1]))
    assert (g.family, g.candidates) == ("platt", ())


def test_separated_scores_are_platt_without_comparison() -> None:
    g = fit_scaling("auto", np.linspace(0.1, 0.9, 60), np.repeat([0.0, 1.0], 30))
    assert (g.family, g.converged, g.candidates) == ("platt", False, ())


def test_zeros_and_ones_bring_rival_boundaries() -> None:
    scores, outcomes = drawn(3000, bent)
    scores[:300], outcomes[:300] = 1.0, np.arange(300) % 5 > 0
    g = fit_scaling("auto", scores, outcomes)
    assert len({one["boundary"] for one in g.candidates}) > 1
    logits = fit_scaling("auto", np.log(9) * (scores - 0.5), outcomes, score_kind="logit")
    assert {one["boundary"] for one in logits.candidates} == {None}
