"""Bounds of several classes on the same rows: their terms by loops, in the limits, and by every route."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mlflow_calib.core import class_rows
from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.bound_terms import comonotone, row_terms_of
from mlflow_calib.core.class_rows import ClassRows, squared_norm
from mlflow_calib.core.cross_counts import CrossCounts
from mlflow_calib.errors import InvalidInputError


def draw(seed: int, n: int = 600, n_classes: int = 3, n_bins: int = 4, shift: float = 0.1):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), size=n)
    labels = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=n_classes - 1)
    index = np.minimum((p * n_bins).astype(int), n_bins - 1)
    u = np.clip((np.arange(n_bins) + 0.5) / n_bins + shift, 0, 1)
    return index, np.equal.outer(labels, np.arange(n_classes)), u


def statistics_of(index, truths, u, weights=None, groups=None):
    columns = range(index.shape[1])
    return [
        BinStatistics.from_rows(u[index[:, k]], truths[:, k], index[:, k], len(u), u, groups, weights).finish()
        for k in columns
    ]


def rows_of(index, truths, u, *, one_class=True, weights=None, groups=None):
    return ClassRows(index, truths, (len(u),) * index.shape[1], one_class, weights, groups)


@pytest.mark.parametrize("one_class", [True, False])
def test_dependence_by_loops_over_rows_and_pairs(one_class):
    index, truths, u = draw(0, n=150)
    if not one_class:
        truths = truths | (np.random.default_rng(1).random(truths.shape) < 0.3)
    s = statistics_of(index, truths, u)
    n, n_classes, n_bins = len(index), 3, 4
    residual = np.zeros((n, n_classes * n_bins))
    influence = np.zeros((n, n_classes))
    for i, k in itertools.product(range(n), range(n_classes)):
        j = index[i, k]
        mean, gap = s[k].label_means[j], s[k].outputs[j] - s[k].label_means[j]
        residual[i, k * n_bins + j] = (mean - truths[i, k]) / np.sqrt(s[k].counts[j])
        plugin = (s[k].shares * (s[k].outputs - s[k].label_means) ** 2).sum()
        influence[i, k] = 2 * gap * (mean - truths[i, k]) + gap**2 - plugin
    cross = 0.0
    for a, b in itertools.product(range(n_classes * n_bins), repeat=2):
        if a // n_bins != b // n_bins:
            products = residual[:, a] * residual[:, b]
            shared = np.count_nonzero((index[:, a // n_bins] == a % n_bins) & (index[:, b // n_bins] == b % n_bins))
            cross += products.sum() ** 2 - ((products**2).sum() - products.sum() ** 2 / max(shared, 1))
    found = CrossCounts.from_rows(index, truths, [n_bins] * 3, one_class=one_class).dependence(s)
    assert found.cross == pytest.approx(max(cross, 0.0), rel=1e-9)
    total = (influence.sum(axis=1) ** 2).sum() / (influence**2).sum()
    assert found.rho == pytest.approx(min(max(total, 1.0), 3.0))


def test_a_class_and_its_mirror_have_the_bounds_of_one():
    """K = 2: the second class is one minus the first, so that the mean over both is the error of either."""
    index, truths, u = draw(1, n_classes=2, shift=0.0)
    both_index = np.column_stack([index[:, 0], 3 - index[:, 0]])
    terms = rows_of(both_index, truths, u).terms(statistics_of(both_index, truths, u))
    one = row_terms_of(statistics_of(both_index, truths, u)[0])
    assert float(terms.c) == pytest.approx(float(one.c))
    assert float(terms.v0) == pytest.approx(float(one.v0), rel=0.02)
    assert float(terms.upper(0.95)) == pytest.approx(float(one.upper(0.95)), rel=0.01)


def test_ten_labels_that_are_one_have_the_bounds_of_one():
    index, truths, u = draw(2, n=4_000)
    index, truths = np.tile(index[:, :1], (1, 10)), np.tile(truths[:, :1], (1, 10))
    s = statistics_of(index, truths, u)
    terms = rows_of(index, truths, u, one_class=False).terms(s)
    assert float(terms.upper(0.95)) == pytest.approx(float(row_terms_of(s[0]).upper(0.95)), rel=1e-3)
    assert float(terms.lower(0.95)) == pytest.approx(float(row_terms_of(s[0]).lower(0.95)), rel=1e-3)


def test_independent_labels_have_a_tenth_of_the_variance():
    rng, u = np.random.default_rng(4), (np.arange(4) + 0.5) / 4
    index = rng.integers(4, size=(5_000, 10))
    truths = rng.random(index.shape) < u[index]
    s = statistics_of(index, truths, u)
    terms, wide = rows_of(index, truths, u, one_class=False).terms(s), comonotone([row_terms_of(one) for one in s])
    assert float(terms.v0) == pytest.approx(float(wide.v0) / 10, rel=0.1)
    assert float(terms.c) == pytest.approx(float(wide.c) / 10, rel=0.1)


def test_counts_and_rows_give_the_same_terms():
    index, truths, u = draw(5)
    s = statistics_of(index, truths, u)
    counted = rows_of(index, truths, u)
    weighted = rows_of(index, truths, u, weights=np.full(len(index), 3.0))
    assert (counted.bound_kind, weighted.bound_kind) == ("cross-class counts", "rows")
    first, second = counted.terms(s), weighted.terms(statistics_of(index, truths, u, np.full(len(index), 3.0)))
    for name in ("upper_centre", "v0", "c", "nu"):
        assert float(getattr(first, name)) == pytest.approx(float(getattr(second, name)), rel=1e-9)


def test_each_row_its_own_group_is_close_to_no_groups():
    index, truths, u = draw(6, n=2_000)
    by_row = rows_of(index, truths, u).terms(statistics_of(index, truths, u))
    groups = np.arange(len(index))
    by_group = rows_of(index, truths, u, groups=groups).terms(statistics_of(index, truths, u))
    assert float(by_group.upper(0.95)) == pytest.approx(float(by_row.upper(0.95)), rel=0.03)
    assert float(by_group.lower(0.95)) == pytest.approx(float(by_row.lower(0.95)), rel=0.03)


def test_one_class_by_group_is_the_binary_form():
    index, truths, u = draw(7, n_classes=2)
    index, truths, groups = index[:, :1], truths[:, :1], np.arange(len(index)) // 20
    s = statistics_of(index, truths, u, groups=groups)
    from mlflow_calib.core.intervals import bound_terms

    expected, found = bound_terms(s[0]), rows_of(index, truths, u, groups=groups).terms(s)
    for name in ("upper_centre", "lower_centre", "v0", "c", "degrees_of_freedom", "nu"):
        assert float(getattr(found, name)) == pytest.approx(float(getattr(expected, name)), rel=1e-9)


def test_counts_of_parts_merge_to_those_of_the_whole():
    index, truths, _ = draw(8)
    whole = CrossCounts.from_rows(index, truths, [4] * 3)
    parts = [CrossCounts.from_rows(index[part::3], truths[part::3], [4] * 3) for part in (2, 0, 1)]
    merged = parts[0].merge(*parts[1:])
    for name in ("rows", "first", "both"):
        assert np.array_equal(getattr(merged, name), getattr(whole, name))
    with pytest.raises(InvalidInputError, match="same bins"):
        whole.merge(CrossCounts.from_rows(index, truths, [4, 4, 5]))


def test_random_signs_stand_for_what_cannot_be_written_down(monkeypatch):
    index, truths, u = draw(9, n=3_000, n_classes=3, n_bins=40)
    s = statistics_of(index, truths, u)
    rows = rows_of(index, truths, u)
    exact = rows.terms(s)
    monkeypatch.setattr(class_rows, "MOST_CROSS_BINS", 50)
    assert rows.bound_kind == "rows"
    estimated = rows.terms(s)
    assert float(exact.v0) <= float(estimated.v0) * 1.02
    assert float(estimated.v0) == pytest.approx(float(exact.v0), rel=0.25)
    matrix = rows._matrix(np.ones(index.shape))
    assert squared_norm(matrix) == pytest.approx(float(((matrix.T @ matrix).toarray() ** 2).sum()), rel=0.3)
