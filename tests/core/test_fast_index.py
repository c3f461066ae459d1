"""Bins by a table are those of a search, on every score there is."""

from __future__ import annotations

import numpy as np
import pytest

import mlflow_calib as mc
from mlflow_calib import runtime
from mlflow_calib.core import fast_index
from mlflow_calib.core.fast_index import bin_columns, bin_scores, distinct_columns

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
    "below and at a zero with a sign": np.array([-1.5, -1e-300, -0.0, 0.2]),
    "more than two bytes number": np.linspace(0, 1, 70_000)[1:-1],
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
            rng.random(20_000),
            rng.random(20_000) ** 20,
            1 - rng.random(20_000) ** 20,
        ]
    )
    searched = np.searchsorted(edges, scores, side="left")
    assert np.array_equal(runtime.EdgeTable(edges).index(scores + 0.0), searched)
    assert len(scores) >= runtime.MANY_SCORES
    assert np.array_equal(runtime.bin_index(scores, edges), searched)


@pytest.fixture
def _small_blocks(monkeypatch):
    monkeypatch.setattr(runtime, "MANY_SCORES", 1_000)
    monkeypatch.setattr(runtime, "BLOCK", 300)
    monkeypatch.setattr(fast_index, "TABLES", 2)


@pytest.mark.usefixtures("_small_blocks")
def test_columns_in_blocks_agree_with_a_search():
    rng = np.random.default_rng(1)
    scores = rng.dirichlet([0.3, 1, 2], size=5_000)
    edges = [np.quantile(scores[:, 0], np.arange(1, 20) / 20), np.empty(0), np.array([0.1, 0.2])]
    tabled = bin_columns(scores, edges)
    assert all(np.array_equal(tabled[:, k], np.searchsorted(edges[k], scores[:, k])) for k in range(3))


def test_logits_are_searched():
    scores = np.linspace(-5, 5, 60_000)
    edges = np.array([-1.0, 0.0, 2.0])
    assert np.array_equal(bin_scores(scores, edges, "logit"), np.searchsorted(edges, scores))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("n_values", [3, 50, 80_000])
def test_distinct_values_of_all_columns_are_found(n_values, late):
    """Of values that repeat, of values that show late, and of so many that two bytes do not number them."""
    rng = np.random.default_rng(2)
    columns = [rng.random(m)[rng.integers(m, size=100_000)] for m in (n_values, 5)]
    if late:
        columns[0][-3:] = [0.123, 0.456, 0.123]
    scores = np.column_stack(columns)
    values, index = distinct_columns(scores)
    for k in range(2):
        assert np.array_equal(values[k], np.unique(scores[:, k]))
        assert np.array_equal(values[k][index[:, k]], scores[:, k])


@pytest.mark.usefixtures("_small_blocks")
def test_counts_in_blocks_are_those_of_all_rows():
    rng = np.random.default_rng(3)
    outputs = np.array([0.1, 0.3, 0.6])[rng.integers(3, size=(5_000, 2))]
    labels = (rng.random((5_000, 2)) < outputs).astype(int)
    estimate = mc.estimate_calibration_error(outputs, labels, reduction="multi-label", bins="distinct")
    for k, statistics in enumerate(estimate.statistics):
        held = [outputs[:, k] == value for value in statistics.outputs]
        assert statistics.counts.tolist() == [int(rows.sum()) for rows in held]
        assert statistics.positives.tolist() == [int(labels[rows, k].sum()) for rows in held]
