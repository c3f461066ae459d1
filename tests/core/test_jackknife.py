"""The jackknife of two calibration errors: by hand, merged, and its bounds on the difference of roots."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mlflow_calib.core.error_statistics import debiased_squared_of
from mlflow_calib.core.jackknife import (
    MOST_BLOCKS,
    N_BLOCKS,
    JackknifeDifference,
    JackknifeSums,
    jackknife_difference,
    row_blocks,
)
from mlflow_calib.core.paired import PairedSums
from mlflow_calib.core.paired_error import RootBounds, difference_bounds, root_difference_upper
from mlflow_calib.errors import EvidenceError, InvalidInputError


def rows(n=3000, n_blocks=50, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.3, 0.6, 0.9], size=n)
    return p, (rng.random(n) < p).astype(float), rng.integers(n_blocks, size=n)


def sums(outputs, p, y, blocks, **options):
    index = np.searchsorted([0.1, 0.3, 0.6, 0.9], p)
    return JackknifeSums.from_rows(np.asarray(outputs)[index], y, index, 4, blocks, **options)


RIGHT, WRONG = np.array([0.1, 0.3, 0.6, 0.9]), np.array([0.2, 0.2, 0.7, 0.8])


def test_each_block_is_left_out_in_turn():
    p, y, blocks = rows()
    found = jackknife_difference(
        sums(WRONG, p, y, blocks, values=WRONG), sums(RIGHT, p, y, blocks, values=RIGHT), n_groups=50
    )

    def square(values, kept):
        index = np.searchsorted(RIGHT, p[kept])
        return debiased_squared_of(np.bincount(index, minlength=4), np.bincount(index, y[kept], 4), values)

    everything = np.full(len(p), True)
    whole = square(WRONG, everything) - square(RIGHT, everything)
    without = np.array([square(WRONG, blocks != g) - square(RIGHT, blocks != g) for g in range(50)])
    sizes = np.bincount(blocks)
    variance = 50 / 49 * (((len(p) - sizes) / len(p) * (without - whole)) ** 2).sum()
    assert found.squared_mean == pytest.approx(whole)
    assert found.squared_standard_error == pytest.approx(math.sqrt(variance))
    roots = [math.sqrt(max(square(values, everything), 0)) for values in (WRONG, RIGHT)]
    assert found.mean == pytest.approx(roots[0] - roots[1])
    assert (found.n, found.n_groups, found.n_blocks, found.degrees_of_freedom) == (3000, 50, 50, 49)


def test_of_a_mean_it_is_the_variance_by_group_sums():
    """Both in one bin: the plug-in parts are linear where u is the same but for little, so PairedSums agrees."""
    rng = np.random.default_rng(3)
    y, blocks = (rng.random(4000) < 0.5).astype(float), np.arange(4000) % 40
    first, second = (
        JackknifeSums.from_rows(np.full(4000, u), y, np.zeros(4000, dtype=int), 1, blocks, values=[u])
        for u in (0.6, 0.2)
    )
    found = jackknife_difference(first, second, n_groups=40)
    theirs = PairedSums.from_rows((0.6 - y) ** 2, (0.2 - y) ** 2, blocks).finish()
    assert found.squared_standard_error == pytest.approx(theirs.standard_error, rel=1e-6)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("marginal", [True, False])
def test_batches_in_any_order_give_the_figures_of_the_whole(fixed, marginal):
    rng = np.random.default_rng(5)
    n = 1200
    z = rng.dirichlet([1, 1, 1], size=n)
    truths = np.eye(3)[(rng.random((n, 1)) > np.cumsum(z, axis=1)).sum(axis=1)]
    index = np.minimum((z * 4).astype(int), 3)
    values = [(np.arange(4) + 0.5) / 4] * 3
    if marginal:
        options = {"values": values if fixed else None}
        outputs, n_bins = (values[0][index] if fixed else z), [4, 4, 4]
    else:
        z, truths, index, n_bins = z[:, 0], truths[:, 0], index[:, 0], 4
        options = {"values": values[0] if fixed else None}
        outputs = values[0][index] if fixed else z
    blocks = row_blocks(rng.integers(2**63, size=n, dtype=np.uint64) * np.uint64(2))

    def of(kept):
        return JackknifeSums.from_rows(outputs[kept], truths[kept], index[kept], n_bins, blocks[kept], **options)

    other = JackknifeSums.from_rows(np.full(outputs.shape, 0.5), truths, index * 0, [1] * 3 if marginal else 1, blocks)
    order = rng.permutation(n) % 3
    merged = of(order == 2).merge(of(order == 0), of(order == 1))
    whole = jackknife_difference(of(np.full(n, True)), other, n_groups=None)
    again = jackknife_difference(merged, other, n_groups=None)
    for name, value in whole.to_dict().items():
        expected = value if value is None else pytest.approx(value, rel=1e-9, abs=1e-14)
        assert getattr(again, name) == expected, name


def test_row_blocks_do_not_depend_on_the_order():
    hashes = np.random.default_rng(0).integers(2**63, size=500, dtype=np.uint64)
    order = np.random.default_rng(1).permutation(500)
    np.testing.assert_array_equal(row_blocks(hashes)[order], row_blocks(hashes[order]))
    assert row_blocks(hashes).max() < N_BLOCKS


def test_many_groups_are_hashed_into_blocks_whatever_the_order():
    p, y, _ = rows()
    groups = np.array([f"user-{k}" for k in range(len(p) // 2)] * 2)
    found = jackknife_difference(
        sums(WRONG, p, y, groups, values=WRONG), sums(RIGHT, p, y, groups, values=RIGHT), n_groups=len(p) // 2
    )
    assert found.n_blocks <= N_BLOCKS < MOST_BLOCKS < found.n_groups
    assert found.degrees_of_freedom == found.n_blocks - 1


def test_one_block_has_no_standard_error():
    p, y, _ = rows()
    one = np.zeros(len(p), dtype=int)
    found = jackknife_difference(sums(WRONG, p, y, one), sums(RIGHT, p, y, one), n_groups=1)
    assert (found.standard_error, found.squared_standard_error, found.degrees_of_freedom) == (None, None, 0)
    assert difference_bounds(found, RootBounds(), RootBounds()) is None
    assert JackknifeDifference.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_damage_and_misuse_are_refused():
    p, y, blocks = rows()
    right = sums(RIGHT, p, y, blocks, values=RIGHT)
    good = jackknife_difference(sums(WRONG, p, y, blocks), right, n_groups=50).to_dict()
    assert JackknifeDifference.from_dict(json.loads(json.dumps(good))).to_dict() == good
    for damage in ({"mean": math.nan}, {"standard_error": -1.0}, {"squared_standard_error": None}, {"n": "x"}):
        with pytest.raises(EvidenceError, match="damaged"):
            JackknifeDifference.from_dict({**good, **damage})
    with pytest.raises(InvalidInputError, match="same blocks"):
        jackknife_difference(right, sums(RIGHT, p, y, blocks * 2), n_groups=None)
    with pytest.raises(InvalidInputError, match="one shape"):
        JackknifeSums.from_rows(p, y, np.zeros(3, dtype=int), 4, blocks)
    with pytest.raises(InvalidInputError, match="same bins"):
        right.merge(JackknifeSums.from_rows(p, y, np.zeros(len(p), dtype=int), 1, blocks))


@pytest.mark.parametrize("second", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("difference", [-0.05, -0.001, 0.0, 0.001, 0.05])
def test_the_bound_on_roots_holds_whatever_the_second_root_is(second, difference):
    """Where the squares differ by at most the bound and the second root lies in its own, the roots differ by less."""
    first = second + difference
    if first < 0:
        return
    squares = first**2 - second**2
    for lower, upper in ((second, second), (0.0, 1.0), (second / 2, second + 0.1)):
        found = float(root_difference_upper(squares, RootBounds(lower, upper)))
        assert found >= difference - 1e-12
        if lower == upper:
            assert found == pytest.approx(difference, abs=1e-9)
