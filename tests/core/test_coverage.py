"""How often the bounds hold: the settings of ``python -m tests.bench.coverage`` with fewer draws (docs/coverage.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_calib.core.bound_terms import row_terms
from mlflow_calib.core.error_statistics import plugin_squared_of
from tests.bench.coverage import class_statistics, group_terms_of_draws, of_classes, of_groups, of_rows
from tests.bench.populations import chunks, class_settings, group_settings, rows_settings
from tests.bench.unbiased import distance, squares_of_classes, squares_of_rows

ROWS, GROUPS, CLASSES = rows_settings(), group_settings(), class_settings()
#: Simulated in full by the bench; here those that are quick.
QUICK_CLASSES = [name for name, population in CLASSES.items() if population.n_classes <= 3]


def least(level: float, draws: int) -> float:
    """Three standard errors below the level that the full simulation shows."""
    return level - 3 * math.sqrt(level * (1 - level) / draws)


def test_there_are_enough_settings_and_no_thin_bin_among_them():
    settings = {**ROWS, **GROUPS, **CLASSES}
    assert len(settings) == len(ROWS) + len(GROUPS) + len(CLASSES) >= 60
    assert min(population.fewest for population in settings.values()) >= 10 - 1e-9


@pytest.mark.parametrize("name", ROWS)
def test_bounds_by_row_cover(name):
    outcome = of_rows(name, ROWS[name], 1_000, seed=1, finite=ROWS[name].n_bins <= 20)
    assert outcome.upper_coverage >= least(0.94, 1_000)
    assert outcome.lower_coverage >= least(0.93, 1_000)
    if outcome.finite_coverage is not None:
        assert outcome.finite_coverage >= least(0.95, 1_000)
        assert np.median(outcome.finite) > 0


@pytest.mark.parametrize("name", [name for name, population in GROUPS.items() if population.n_groups == 30])
def test_bounds_by_group_cover(name):
    outcome = of_groups(name, GROUPS[name], 400, seed=1)
    unequal = GROUPS[name].sigma > 0.5
    assert outcome.upper_coverage >= least(0.92 if unequal else 0.94, 400)
    assert outcome.lower_coverage >= least(0.93, 400)


@pytest.mark.parametrize("name", QUICK_CLASSES)
def test_marginal_bounds_of_dependent_classes_cover_and_are_narrower_than_without_counts(name):
    outcome = of_classes(name, CLASSES[name], 300, seed=1)
    assert outcome.upper_coverage >= least(0.94, 300)
    assert outcome.lower_coverage >= least(0.93, 300)
    assert outcome.upper.mean() <= outcome.comonotone.mean() * 1.001


@pytest.mark.parametrize("name", ROWS)
def test_mean_of_the_debiased_square_is_the_truth(name):
    """20,000 draws: within 4 standard errors."""
    assert abs(distance(ROWS[name], squares_of_rows, [20, len(name)])) < 4


@pytest.mark.parametrize("name", CLASSES)
def test_mean_of_the_debiased_square_over_classes_is_the_truth(name):
    population = CLASSES[name]
    assert abs(distance(population, squares_of_classes, [21, len(name)])) < 4
    statistics, _ = class_statistics(population, population.cells(np.random.default_rng(0), 1)[0])
    assert [s.n for s in statistics] == [population.n] * population.n_classes


def test_a_biased_square_lies_far_from_the_truth():
    """The plug-in square of the same draws."""

    def plugin(population, rng, n_draws):
        return plugin_squared_of(*population.draw(rng, n_draws), population.u)

    assert distance(ROWS["calibrated, B 10, n 1000"], plugin, [20]) > 100


@pytest.mark.parametrize("name", ["30 equal groups, calibrated", "30 equal groups, off by up to .1"])
def test_mean_of_the_square_by_group_is_the_truth_for_equal_groups(name):
    """T_G, the centre by group; by row it would be too high."""
    population = GROUPS[name]
    rng, by_group, by_row = np.random.default_rng([22, len(name)]), [], []
    for size in chunks(20_000, 1_000):
        terms = group_terms_of_draws(*population.draw(rng, size), population.u)
        by_group.append(terms.lower_centre)
        by_row.append(terms.upper_centre)
    squares, rows = np.concatenate(by_group), np.concatenate(by_row)
    error = squares.std(ddof=1) / math.sqrt(20_000)
    assert abs(squares.mean() - population.theta) < 4 * error
    assert rows.mean() > population.theta + 10 * error


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_weighted_bounds_cover_and_the_weighted_square_is_unbiased(gap):
    """N15: lognormal weights that know nothing of the labels; the truth is that of the unweighted population."""
    rng, n, u, draws = np.random.default_rng(int(100 * gap)), 800, (np.arange(8) + 0.5) / 8, 3_000
    p = np.clip(u + gap * (-1.0) ** np.arange(8), 0, 1)
    index = rng.integers(8, size=(draws, n)) + 8 * np.arange(draws)[:, np.newaxis]
    outcomes = rng.random((draws, n)) < p[index % 8]
    weights = np.exp(0.7 * rng.normal(size=(draws, n)))
    sums, squares, positive = (
        np.bincount(index.ravel(), each.ravel(), 8 * draws).reshape(draws, 8)
        for each in (weights, weights**2, weights * outcomes)
    )
    effective, shares = sums**2 / squares, sums / sums.sum(axis=1, keepdims=True)
    terms = row_terms(effective, effective * positive / sums, u, shares)
    theta = float(np.mean((u - p) ** 2))
    assert np.mean(terms.upper(0.95) >= theta) >= least(0.94, draws)
    assert np.mean(terms.lower(0.95) <= theta) >= least(0.93, draws)
    error = terms.upper_centre.std() / math.sqrt(draws)
    assert abs(terms.upper_centre.mean() - theta) < 4 * error
