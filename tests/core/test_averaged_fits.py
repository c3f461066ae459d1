"""The average of fits to the differences of labels from g: its formula, its limits, and what it gains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from mlflow_calib.core.averaged_fits import averaged_differences

Array = np.ndarray


def by_matrices(means: Array, shares: Array, rows: Array, differences: Array) -> Array:
    """The definition, with every fit as its matrix."""
    spreads, x = means * (1 - means), logit(means)
    noise = spreads / rows
    matrices = [np.zeros((len(means),) * 2)]
    for degree in range(4):
        features = spreads[:, None] * x[:, None] ** np.arange(degree + 1)
        matrices.append(features @ np.linalg.solve(features.T @ (features / noise[:, None]), features.T / noise))
    matrices.append(np.eye(len(means)))
    risks = [shares @ ((h @ differences - differences) ** 2 + 2 * np.diag(h) * noise - noise) for h in matrices]
    unit = (shares * noise) @ (shares * noise) / (shares @ noise)
    weights = np.exp(-(np.array(risks) - min(risks)) / (2 * unit))
    return np.asarray(np.average([h @ differences for h in matrices], axis=0, weights=weights))


def test_the_average_is_that_of_its_definition() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        means = np.sort(rng.uniform(0.02, 0.98, size=9))
        rows = rng.integers(5, 200, size=9).astype(float)
        differences = rng.normal(size=9) * np.sqrt(means * (1 - means) / rows) * rng.uniform(0.5, 3)
        shares = rng.dirichlet(np.full(9, 5.0))
        ours = averaged_differences(means, shares, rows, differences)
        assert ours == pytest.approx(by_matrices(means, shares, rows, differences), abs=1e-9)


def test_one_bin_by_hand() -> None:
    """Three fits: nothing, of risk d^2 - v, and a constant and the difference itself, both d and of risk v."""
    d, v = 0.1, 0.5 * 0.5 / 40
    weight = np.exp(-(d**2 - v) / (2 * v)), 2 * np.exp(-v / (2 * v))
    ours = averaged_differences(np.array([0.5]), np.ones(1), np.array([40.0]), np.array([d]))
    assert ours == pytest.approx([d * weight[1] / sum(weight)])


def test_bins_of_one_mean_have_one_polynomial() -> None:
    """Powers of the same log odds say nothing new, so that bins share their mean difference or keep their own."""
    d = np.array([0.1, -0.02, 0.04])
    ours = averaged_differences(np.full(3, 0.3), np.full(3, 1 / 3), np.full(3, 50.0), d)
    share = np.polyfit(d, ours, 1)
    assert np.polyval(share, d) == pytest.approx(ours)
    assert 0 < share[0] < 1


def test_empty_bins_are_left_alone_and_do_not_matter() -> None:
    means, rows, d = np.array([0.2, 0.4, 0.7]), np.array([50.0, 0, 50]), np.array([0.1, 0.0, 0.1])
    ours = averaged_differences(means, rows / 100, rows, d)
    without = averaged_differences(means[[0, 2]], np.full(2, 0.5), np.full(2, 50.0), d[[0, 2]])
    assert ours == pytest.approx([without[0], 0.0, without[1]])
    assert averaged_differences(means, np.zeros(3), np.zeros(3), np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def squared_errors(means: Array, truth: Array, rows: int, seed: int = 0) -> tuple[float, float, float]:
    """Mean squared errors over bins and 400 draws: the averaged values, means of g, mean labels."""
    rng = np.random.default_rng(seed)
    shares, counts = np.full(len(means), 1 / len(means)), np.full(len(means), float(rows))
    ours, labels = [], []
    for _ in range(400):
        d = rng.binomial(rows, truth) / rows - means
        ours.append(np.mean((averaged_differences(means, shares, counts, d) + means - truth) ** 2))
        labels.append(np.mean((means + d - truth) ** 2))
    return float(np.mean(ours)), float(np.mean((means - truth) ** 2)), float(np.mean(labels))


@pytest.mark.parametrize(("n_bins", "rows"), [(10, 100), (100, 10), (100, 100)])
def test_where_g_is_right_little_is_lost(n_bins: int, rows: int) -> None:
    means = np.linspace(0.02, 0.95, n_bins)
    ours, _, labels = squared_errors(means, means, rows)
    assert ours < 2 * labels / n_bins


def test_a_smooth_error_of_g_is_learnt_from_all_bins_together() -> None:
    means = np.linspace(0.02, 0.95, 100)
    x = logit(means)
    ours, plain, labels = squared_errors(means, expit(x + 0.1 * x**2 - 0.3), 40)
    assert ours < 0.3 * min(plain, labels)


@pytest.mark.parametrize("rows", [1000, 10_000])
def test_where_the_error_of_g_is_rough_the_labels_win(rows: int) -> None:
    means = np.linspace(0.1, 0.9, 10)
    ours, plain, labels = squared_errors(means, means + 0.08 * (-1.0) ** np.arange(10), rows)
    assert ours < 1.05 * labels < 0.1 * plain
