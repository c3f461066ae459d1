"""Bins by a table are those of a search, on every score there is."""

from __future__ import annotations

import numpy as np
import pytest

from mlflow_calib import runtime
from mlflow_calib.core import fast_index
from mlflow_calib.core.fast_index import EdgeTable, bin_columns, bin_scores, distinct_values

EDGES = {
    "none": np.empty(0),
    "one": np.array([0.3]),
    "uniform": np.arange(1, 100) / 100,
    "near zero": np.geomspace(1e-300, 1e-3, 50),
    "near one, many a cell": 1 - np.geomspace(1e-15, 1e-3, 60)[::-1],
    "powers of two": 0.5 ** np.arange(40, 0, -1),
    "neighbours": np.array([0.25, np.nextafter(0.25, 1), np.nextafter(np.nextafter(0.25, 1), 1)]),
    "from zero on": np.array([0.0, 5e-324, 0.5]),
    "outside": np.array([-0.5, 0.2, 1.0, 1.5]),
}


@pytest.mark.parametrize("name", EDGES)
def test_table_and_search_agree_on_edges_their_neighbours_and_all_between(name):
    edges, rng = EDGES[name], np.random.default_rng(0)
    inside = edges[(edges >= 0) & (edges <= 1)]
    scores = np.concatenate(
        [
            [0.0, -0.0, 1.0, 5e-324, np.nextafter(1, 0), 0.5],
            inside,
            np.clip(np.nextafter(inside, -1), 0, 1),
            np.clip(np.nextafter(inside, 2), 0, 1),
            rng.random(2_000),
            rng.random(2_000) ** 20,
            1 - rng.random(2_000) ** 20,
        ]
    )
    assert np.array_equal(EdgeTable.of(edges).index(scores), runtime.bin_index(scores, edges))


def test_columns_in_blocks_agree_with_a_search(monkeypatch):
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([0.3, 1, 2], size=5_000)
    edges = [np.quantile(scores[:, 0], np.arange(1, 20) / 20), np.empty(0), np.array([0.1, 0.2])]
    searched = bin_columns(scores, edges)
    monkeypatch.setattr(fast_index, "FEW_SCORES", 10)
    monkeypatch.setattr(fast_index, "BLOCK", 300)
    monkeypatch.setattr(fast_index, "_TABLES", 2)
    tabled = bin_columns(scores, edges)
    assert np.array_equal(searched, tabled)
    assert all(np.array_equal(tabled[:, k], runtime.bin_index(scores[:, k], edges[k])) for k in range(3))


def test_logits_are_searched():
    scores = np.linspace(-5, 5, 30_000)
    edges = np.array([-1.0, 0.0, 2.0])
    assert np.array_equal(bin_scores(scores, edges, "logit"), runtime.bin_index(scores, edges))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("n_values", [3, 50, 40_000])
def test_distinct_values_are_all_found(n_values, late):
    rng = np.random.default_rng(2)
    scores = rng.random(n_values)[rng.integers(n_values, size=40_000)]
    if late:
        scores[-3:] = [0.123, 0.456, 0.123]
    values, index = distinct_values(scores)
    assert np.array_equal(values, np.unique(scores))
    assert np.array_equal(values[index], scores)
