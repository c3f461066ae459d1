"""Bounds: hand values to the letter of their formulas, coverage by simulation, status and planning."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special, stats
from scipy.sparse import csr_array

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.bound_terms import comonotone, group_terms, row_terms
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.intervals import (
    ErrorStatistics,
    debiased_squared,
    noise_floor,
    plugin_squared,
    rows_that_would_settle,
    squared_lower_bound,
    squared_upper_bound,
    status,
)
from mlflow_calib.errors import EvidenceError, InvalidInputError

Z = 1.6448536269514722  # one-sided 95 %


def grouped_statistics(seed: int = 0, n_groups: int = 30, rows: int = 1_500, shift: float = 0.05) -> ErrorStatistics:
    rng = np.random.default_rng(seed)
    groups, index = rng.integers(n_groups, size=rows), rng.integers(10, size=rows)
    values = (np.arange(10) + 0.5) / 10
    chance = np.clip(values[index] + shift + 0.05 * rng.normal(size=n_groups)[groups], 0, 1)
    return BinStatistics.from_rows(
        values[index], (rng.random(rows) < chance).astype(float), index, 10, values=values, groups=groups
    ).finish()


# The squared estimates and the bounds by row, by hand


def test_squared_estimates_by_hand():
    s = ErrorStatistics([60, 39, 1, 0], [12, 30, 1, 0], [0.25, 0.7, 0.5, 0.9])
    y2 = 30 / 39
    plugin = 0.60 * 0.05**2 + 0.39 * (0.7 - y2) ** 2 + 0.01 * 0.5**2
    assert plugin_squared(s) == pytest.approx(plugin, rel=1e-14)
    debiased = 0.60 * (0.05**2 - 0.2 * 0.8 / 59) + 0.39 * ((0.7 - y2) ** 2 - y2 * (1 - y2) / 38)  # one row adds 0
    assert debiased_squared(s) == pytest.approx(debiased, rel=1e-12)


def test_debiased_square_stays_signed():
    s = ErrorStatistics([100, 100], [20, 70], [0.2, 0.7])
    assert debiased_squared(s) == pytest.approx(-0.5 * (0.2 * 0.8 + 0.7 * 0.3) / 99)


def root_of_quadratic(squared: float, v0: float, c: float, z: float, side: int) -> float:
    """theta with (theta - T)^2 = z^2 (v0 + c theta), the larger (side 1) or the smaller (side -1)."""
    middle = 2 * squared + z**2 * c
    return (middle + side * math.sqrt(max(0, middle**2 - 4 * (squared**2 - z**2 * v0)))) / 2


def hand_terms(s: ErrorStatistics) -> tuple[float, float, float, float]:
    """T, v0, c and nu by their definitions, in loops."""
    n = sum(s.counts)
    fourth = second = slope = 0.0
    for n_j, k_j, u_j in zip(s.counts, s.positives, s.outputs, strict=True):
        m = (k_j + 1) / (n_j + 2)
        variance = m * (1 - m)
        if n_j >= 2:
            fourth, second = fourth + variance**2, second + variance
        term = 4 * variance + (u_j - m) ** 2
        if n_j < 10:
            term = max(term, (2 - u_j) ** 2 / 3 + u_j**2)
        slope = max(slope, term / n)
    return debiased_squared(s), 2 / n**2 * fourth, slope, second**2 / fourth


ROW_CASES = {
    "two bins": ErrorStatistics([60, 40], [12, 30], [0.2, 0.7]),
    "wrong": ErrorStatistics([300, 200, 100], [20, 90, 95], [0.2, 0.6, 0.7]),
    "with a rare, a single and an empty bin": ErrorStatistics([500, 9, 1, 0], [100, 2, 0, 0], [0.2, 0.6, 0.7, 1.0]),
    "all of one class": ErrorStatistics([100, 100], [0, 0], [0.01, 0.3]),
}


@pytest.mark.parametrize("name", ROW_CASES)
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_bounds_by_row_are_the_closed_form(name, level):
    s = ROW_CASES[name]
    squared, v0, c, nu = hand_terms(s)
    z = stats.norm.ppf(level)
    expected = root_of_quadratic(squared, v0, c, z, 1)
    assert squared_upper_bound(s, level) == pytest.approx(max(0, expected), rel=1e-10)
    z = max(z, (stats.chi2.ppf(level, nu) - nu) / math.sqrt(2 * nu))
    expected = root_of_quadratic(squared, v0, c, z, -1)
    assert squared_lower_bound(s, level) == pytest.approx(max(0, expected), rel=1e-9, abs=1e-15)
    floor = math.sqrt((Z**2 * c + math.sqrt(Z**4 * c**2 + 4 * Z**2 * v0)) / 2)
    assert noise_floor(s) == pytest.approx(floor, rel=1e-10)


@pytest.mark.parametrize("name", ROW_CASES)
def test_bounds_solve_what_they_invert(name):
    """At the bound theta the distance |T - theta| is z sqrt(v0 + c theta)."""
    s = ROW_CASES[name]
    squared, v0, c, nu = hand_terms(s)
    upper, lower = squared_upper_bound(s), squared_lower_bound(s)
    if upper > 0:
        assert upper - squared == pytest.approx(Z * math.sqrt(v0 + c * upper), rel=1e-8)
    if lower > 0:
        z = max(Z, (stats.chi2.ppf(0.95, nu) - nu) / math.sqrt(2 * nu))
        assert squared - lower == pytest.approx(z * math.sqrt(v0 + c * lower), rel=1e-8)


def test_a_rare_bin_takes_the_largest_value_of_its_term():
    """(2 - u)^2 / 3 + u^2 is the maximum over p of 4 p (1 - p) + (u - p)^2."""
    p = np.linspace(0, 1, 100_001)
    for u in (0.0, 0.3, 0.9, 1.0):
        largest = np.max(4 * p * (1 - p) + (u - p) ** 2)
        assert (2 - u) ** 2 / 3 + u**2 == pytest.approx(largest, abs=1e-8)
        rare = row_terms(np.array([990, 9]), np.array([99, 4]), np.array([0.1, u]))
        assert float(rare.c) == pytest.approx(max(largest, 4 * 0.0908) / 999, rel=1e-6)


def test_lower_bound_is_zero_where_the_square_is_far_below_zero():
    """The bare formula would show an error of .07 for a model that is right to the bit, beside a bin of one row."""
    s = ErrorStatistics([11] * 7 + [1], [5] * 7 + [0], [5 / 11] * 7 + [0.0])
    squared, v0, c, nu = hand_terms(s)
    z = max(Z, (stats.chi2.ppf(0.95, nu) - nu) / math.sqrt(2 * nu))
    assert status(s) == ("ok", "")
    assert squared < -z * math.sqrt(v0)
    assert math.sqrt(root_of_quadratic(squared, v0, c, z, -1)) > 0.07
    assert squared_lower_bound(s) == 0.0


def test_bounds_widen_with_the_level_and_hold_the_estimate():
    s = ROW_CASES["wrong"]
    uppers = [squared_upper_bound(s, level) for level in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)]
    lowers = [squared_lower_bound(s, level) for level in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)]
    assert uppers == sorted(uppers)
    assert lowers == sorted(lowers, reverse=True)
    assert uppers[0] == pytest.approx(debiased_squared(s)) == pytest.approx(lowers[0])


def test_noise_floor_of_uniform_scores():
    """About .055 at n = 1,000 and .017 at n = 10,000."""
    u = (np.arange(10) + 0.5) / 10
    for rows, expected in ((100, 0.055), (1_000, 0.017)):
        s = ErrorStatistics([rows] * 10, np.rint(rows * u).astype(int), u)
        assert noise_floor(s) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("level", [0.4, 1.0, -1, math.nan])
def test_level_outside_its_range_is_refused(level):
    for bound in (squared_upper_bound, squared_lower_bound, noise_floor):
        with pytest.raises(InvalidInputError, match=r"confidence_level must lie in \[0.5, 1\)"):
            bound(ROW_CASES["wrong"], level)


# Bounds by group, by hand


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_bounds_by_group_are_the_closed_form(shift, level):
    s = grouped_statistics(shift=shift)
    g, n = s.group_moments, s.n
    gaps = s.outputs - s.positives / s.counts
    plugin = float(s.counts @ gaps**2) / n
    spread = g.M / np.sqrt(np.outer(s.counts, s.counts))
    v0, trace = 2 / n**2 * (spread**2).sum(), np.trace(spread)
    squared, _, c_rows, _ = hand_terms(s)
    c = max(c_rows, g.L / plugin)
    z = stats.t.ppf(level, g.H - 1)
    expected = root_of_quadratic(squared, v0, c, z, 1)
    assert squared_upper_bound(s, level) == pytest.approx(max(0, expected), rel=1e-8)
    nu, squared = trace**2 / (spread**2).sum(), plugin - trace / n
    z = max(z, (nu * stats.f.ppf(level, nu, g.H - 1) - nu) / math.sqrt(2 * nu))
    expected = root_of_quadratic(squared, v0, c, z, -1)
    expected = expected if z * math.sqrt(v0) < squared else 0.0
    assert squared_lower_bound(s, level) == pytest.approx(expected, rel=1e-7, abs=1e-15)
    z = stats.t.ppf(0.95, g.H - 1)
    floor = math.sqrt((z**2 * c_rows + math.sqrt(z**4 * c_rows**2 + 4 * z**2 * v0)) / 2)
    assert noise_floor(s) == pytest.approx(floor, rel=1e-8)


def test_by_group_is_the_default_where_there_are_groups():
    s = grouped_statistics()
    assert squared_upper_bound(s) == squared_upper_bound(s, by_group=True) != squared_upper_bound(s, by_group=False)
    rows_only = ErrorStatistics(s.counts, s.positives, s.outputs)
    assert squared_upper_bound(rows_only) == squared_upper_bound(s, by_group=False)
    with pytest.raises(InvalidInputError, match="bounds by group need groups"):
        squared_upper_bound(rows_only, by_group=True)


def test_where_all_gaps_are_zero_c_is_that_of_the_rows():
    rows = {"outputs": [0.5] * 200, "outcomes": [0, 1] * 100, "index": [0] * 200, "n_bins": 1}
    s = BinStatistics.from_rows(**rows, groups=np.arange(200) // 8).finish()
    assert plugin_squared(s) == 0.0
    assert group_terms(s, s.group_moments).c == float(row_terms(s.counts, s.positives, s.outputs).c)
    assert math.isfinite(squared_upper_bound(s))


def test_labels_alike_in_every_bin_leave_finite_bounds_by_group():
    outcomes = [0, 1] * 100
    s = BinStatistics.from_rows([0.1, 0.9] * 100, outcomes, outcomes, 2, groups=np.arange(200) // 8).finish()
    assert (s.group_moments.M == 0).all()
    assert 0 <= squared_lower_bound(s) <= 0.01 <= squared_upper_bound(s) < 0.1


# The record of the evidence


def test_bounds_from_the_json_are_equal_to_the_bit():
    for s in [*ROW_CASES.values(), grouped_statistics(1), grouped_statistics(2, n_groups=5)]:
        text = json.dumps(s.to_dict(), allow_nan=False)
        again = ErrorStatistics.from_dict(json.loads(text))
        assert set(json.loads(text)) == {"n", "k", "u", "groups"}
        assert again.to_dict() == s.to_dict()
        for bound in (squared_upper_bound, squared_lower_bound, noise_floor):
            assert bound(again) == bound(s)


@pytest.mark.parametrize(
    "damage",
    [
        {"n": [10]},
        {"n": [10, None]},
        {"k": [11, 0]},
        {"k": [-1, 0]},
        {"k": [1.5, 0]},
        {"u": [0.5, 1.5]},
        {"u": [0.5, math.nan]},
        {"n": [], "k": [], "u": []},
        {"groups": {"M": [[0.0]], "L": 0.0, "G": 2, "H": 2.0}},
        {"groups": {"M": [[0.0, math.nan], [0.0, 0.0]], "L": 0.0, "G": 2, "H": 2.0}},
        {"groups": {"M": [[0.0, 0.0], [0.0, 0.0]], "L": -1.0, "G": 2, "H": 2.0}},
        {"groups": {}},
    ],
)
def test_damaged_statistics_are_refused(damage):
    with pytest.raises(EvidenceError, match="evaluate again"):
        ErrorStatistics.from_dict({"n": [10, 10], "k": [5, 5], "u": [0.5, 0.5], "groups": None, **damage})
    with pytest.raises(EvidenceError, match="damaged"):
        ErrorStatistics.from_dict({"n": [10, 10]})


# Status


def test_two_rows_in_two_bins_are_unusable():
    """N21: no bin has two rows, the debiased square is 0, and nothing may pass on it."""
    s = ErrorStatistics([1, 1], [0, 1], [0.2, 0.7])
    assert debiased_squared(s) == 0.0
    assert status(s)[0] == "unusable"
    assert (squared_upper_bound(s), squared_lower_bound(s), noise_floor(s)) == (None, None, None)


@pytest.mark.parametrize(
    ("counts", "expected", "reason"),
    [
        ([100, 100], "ok", ""),
        ([5, 5], "thin", "fewer than 10 rows hold 10 of 10 rows"),
        ([5, 4], "unusable", "9 rows in 2 bins"),
        ([491, 9], "ok", ""),  # 1.8 %
        ([441, 9], "ok", ""),  # 2 % exactly
        ([440, 9], "thin", "fewer than 10 rows hold 9 of 449"),
        ([490, 10], "ok", ""),
        ([500, 0], "thin", r"no rows in 1 of 2 bins \(counted from 0: 1\)"),
        ([0, 0], "unusable", "0 rows in 2 bins"),
        ([3, 0, 0], "unusable", r"no rows in 2 of 3 bins \(counted from 0: 1, 2\)"),
    ],
)
def test_status_and_reason(counts, expected, reason):
    """N13: empty bins are named."""
    found, why = status(ErrorStatistics(counts, [0] * len(counts), [0.1] * len(counts)))
    assert found == expected
    assert re.search(reason, why)


def test_few_groups_are_thin_and_one_group_is_unusable():
    few, many = grouped_statistics(n_groups=15), grouped_statistics(n_groups=60)
    assert status(many) == ("ok", "")
    assert status(few)[0] == "thin"
    assert "15 groups" in status(few)[1]
    assert status(few, by_group=False)[0] == "ok"
    assert squared_upper_bound(few) is not None
    one = grouped_statistics(n_groups=1)
    assert status(one)[0] == "unusable"
    assert (squared_upper_bound(one), noise_floor(one), rows_that_would_settle(one, 0.05)) == (None, None, None)


# Rows that would settle a verdict


def test_a_settled_verdict_needs_no_more_rows():
    assert rows_that_would_settle(ErrorStatistics([5_000, 5_000], [1_000, 3_500], [0.21, 0.69]), 0.05) == 10_000
    assert rows_that_would_settle(ErrorStatistics([500, 500], [100, 350], [0.4, 0.9]), 0.05) == 1_000


@pytest.mark.parametrize(("gap", "limit"), [(0.05, 0.08), (0.10, 0.07)], ids=["to a pass", "to a fail"])
def test_at_that_many_rows_of_the_same_shape_the_verdict_falls(gap, limit):
    s = ErrorStatistics([100, 100], [25, 75], [0.25 + gap, 0.75 - gap])
    squared, theta = debiased_squared(s), limit**2

    def settled(rows: int) -> bool:
        terms = row_terms(s.counts * rows / 200, s.positives * rows / 200, s.outputs)
        z = max(Z, (stats.chi2.ppf(0.95, terms.nu) - terms.nu) / math.sqrt(2 * terms.nu))
        spread = math.sqrt(terms.v0 + terms.c * theta)
        return theta - squared >= Z * spread or squared - theta > z * spread

    needed = rows_that_would_settle(s, limit)
    assert needed > 200
    assert settled(needed)
    assert not settled(needed - 1)


def test_a_square_below_zero_does_not_promise_too_much():
    """It is noise of 200 rows; the rows that settle must bring the noise floor near the limit, not T below it."""
    s = ErrorStatistics([100, 100], [32, 72], [0.30, 0.70])
    assert debiased_squared(s) < -0.0015
    needed = rows_that_would_settle(s, 0.05)
    at_needed = ErrorStatistics([needed // 2] * 2, [int(0.32 * needed / 2), int(0.72 * needed / 2)], [0.30, 0.70])
    assert needed > 600
    assert noise_floor(at_needed) < 0.07


def test_an_estimate_at_the_limit_is_never_settled():
    s = ErrorStatistics([100, 100], [25, 75], [0.35, 0.65])
    assert rows_that_would_settle(s, math.sqrt(debiased_squared(s))) is None


def test_thin_bins_count_among_the_rows_that_would_settle():
    """At least 20 rows a bin where every bin counts, also when the bound itself is already within the limit."""
    s = ErrorStatistics([6] * 10, [3] * 10, [0.5] * 10)
    assert status(s)[0] == "thin"
    assert rows_that_would_settle(s, 0.45) == 200
    empty = ErrorStatistics([1_000, 1_000, 0], [200, 700, 0], [0.2, 0.7, 0.9])
    assert rows_that_would_settle(empty, 0.2) == 6_000  # the empty bin expects 3 rows then


def test_groups_scale_with_the_rows():
    s = grouped_statistics(n_groups=10, rows=1_000, shift=0.0)
    needed = rows_that_would_settle(s, 0.2)
    assert needed >= 20 / s.group_moments.H * 1_000 - 1
    wide, narrow = rows_that_would_settle(s, 0.06), rows_that_would_settle(s, 0.06, by_group=False)
    assert wide > narrow
    at_present = group_terms(s, s.group_moments)
    assert float(at_present.upper(0.95)) == squared_upper_bound(s)
    with pytest.raises(InvalidInputError, match="limit_root must be a positive number"):
        rows_that_would_settle(s, 0.0)


def test_group_terms_of_twice_the_data_are_those_of_the_data_laid_end_to_end():
    """The same groups under new names: what planning extrapolates is what would be computed."""
    rng = np.random.default_rng(4)
    counts = rng.integers(20, 60, size=(25, 4))
    positives = rng.binomial(counts, [0.2, 0.4, 0.6, 0.8])
    u = np.array([0.25, 0.35, 0.7, 0.8])

    def build(times: int) -> ErrorStatistics:
        n, k = np.tile(counts, (times, 1)), np.tile(positives, (times, 1))
        table = GroupTable(tuple(f"{g:03d}" for g in range(len(n))), csr_array(n), csr_array(k))
        return ErrorStatistics(n.sum(0), k.sum(0), u, table.moments(n.sum(0), k.sum(0), u))

    once, twice = build(1), build(2)
    planned, real = group_terms(once, once.group_moments, 2.0), group_terms(twice, twice.group_moments)
    assert planned.v0 == pytest.approx(real.v0)
    assert planned.c == pytest.approx(real.c)
    assert planned.degrees_of_freedom == pytest.approx(real.degrees_of_freedom)
    assert planned.nu == pytest.approx(real.nu)


# Coverage


@dataclass(frozen=True)
class Population:
    """Bins of known share, chance and value: the squared calibration error is sum w (u - p)^2."""

    n: int
    u: np.ndarray
    p: np.ndarray
    w: np.ndarray

    @property
    def theta(self) -> float:
        return float(self.w @ (self.u - self.p) ** 2)


def middles(n_bins: int) -> np.ndarray:
    return (np.arange(n_bins) + 0.5) / n_bins


def even(n: int, u: np.ndarray, p: np.ndarray) -> Population:
    return Population(n, np.asarray(u), np.clip(p, 0, 1), np.full(len(u), 1 / len(u)))


def rare(n_bins: int, n: int, rows: float, u: float, p: float) -> Population:
    """All bins right but the last, which expects ``rows`` rows and says u where p is true."""
    values, chances, shares = middles(n_bins), middles(n_bins), np.full(n_bins, (n - rows) / (n_bins - 1) / n)
    values[-1], chances[-1], shares[-1] = u, p, rows / n
    return Population(n, values, chances, shares)


SKEWED = np.array([0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.1, 0.2, 0.4])
POPULATIONS = {
    "right, B = 10, n = 200": even(200, middles(10), middles(10)),
    "right, B = 10, n = 1000": even(1_000, middles(10), middles(10)),
    "right, B = 100, n = 2000": even(2_000, middles(100), middles(100)),
    "right, skewed": even(1_000, SKEWED, SKEWED),
    "skewed, half of the truth": even(1_000, SKEWED, 2 * SKEWED),
    "off by .05, B = 10": even(1_000, middles(10), middles(10) + 0.05),
    "off by .05, B = 100": even(2_000, middles(100), middles(100) + 0.05),
    "off by .1 to either side, B = 100": even(1_000, middles(100), middles(100) + 0.1 * (-1.0) ** np.arange(100)),
    "over-confident by half": even(500, middles(10), 0.25 + 0.5 * middles(10)),
    "certain labels": even(500, np.array([0.02, 0.98]), np.array([0.0, 1.0])),
    "one bin": even(100, np.array([0.5]), np.array([0.6])),
    "rare bin wrong, B = 10, 10 rows": rare(10, 1_000, 10, 0.9, 0.1),
    "rare bin wrong, B = 100, 10 rows": rare(100, 2_000, 10, 0.9, 0.1),
    "rare bin wrong, B = 2, 12 rows": rare(2, 20_000, 12, 0.99, 0.4),
    "rare bin says 1, B = 10, 10 rows": rare(10, 500, 10, 1.0, 0.5),
    "rare bin wrong, B = 10, 3 rows": rare(10, 1_000, 3, 0.95, 0.05),
    "rare bin wrong, B = 10, 1 row": rare(10, 1_000, 1, 0.95, 0.3),
}
DRAWS = 10_000


@pytest.mark.parametrize("name", POPULATIONS)
def test_coverage_by_row(name):
    """N23. 10,000 draws: the Monte Carlo error (one standard error) is .0022 at .95, .0025 at .93, .0033 at .88."""
    population = POPULATIONS[name]
    rng = np.random.default_rng([2019, list(POPULATIONS).index(name)])
    counts = rng.multinomial(population.n, population.w, size=DRAWS)
    positives = rng.binomial(counts, population.p)
    terms = row_terms(counts, positives, population.u)
    upper = terms.upper(0.95) >= population.theta
    lower = terms.lower(0.95) <= population.theta
    assert upper.mean() >= 0.945
    assert lower.mean() >= 0.93
    assert (upper & lower).mean() >= 0.88
    first = ErrorStatistics(counts[0], positives[0], population.u)  # the public bound is the one simulated
    if status(first)[0] != "unusable":
        assert squared_upper_bound(first) == float(terms.upper(0.95)[0])


def test_mean_of_the_debiased_square_is_the_truth_and_of_the_plugin_is_not():
    """10,000 draws of 2,000 rows in 100 bins; within 4 standard errors of the mean."""
    population = POPULATIONS["off by .05, B = 100"]
    rng = np.random.default_rng(5)
    counts = rng.multinomial(population.n, population.w, size=DRAWS)
    positives = rng.binomial(counts, population.p)
    squared = row_terms(counts, positives, population.u).upper_centre
    assert abs(squared.mean() - population.theta) < 4 * squared.std() / math.sqrt(DRAWS)
    plugin = (counts * (population.u - positives / counts) ** 2).sum(axis=1) / population.n
    assert plugin.mean() > 3 * population.theta


@dataclass(frozen=True)
class DayEffects:
    """30 days; the chance of a day's bin is beta with mean p and precision kappa, all bins of a day moving as one."""

    sigma: float  # of the logarithm of the days' sizes; 0: equal
    p: np.ndarray
    kappa: float
    rows_a_day: int

    def draw(self, rng: np.random.Generator, table: np.ndarray) -> ErrorStatistics:
        sizes = np.maximum(1, np.rint(self.rows_a_day * np.exp(self.sigma * rng.normal(size=30)))).astype(int)
        counts = rng.multinomial(sizes, np.full(10, 0.1))
        positives = rng.binomial(counts, table[rng.integers(len(table), size=30)])
        n, k, u = counts.sum(axis=0), positives.sum(axis=0), middles(10)
        days = GroupTable(tuple(f"{day:02d}" for day in range(30)), csr_array(counts), csr_array(positives))
        return ErrorStatistics(n, k, u, days.moments(n, k, u))

    @property
    def theta(self) -> float:
        return float(np.mean((middles(10) - self.p) ** 2))


DAYS = {
    "right, equal": DayEffects(0.0, middles(10), 30.0, 50),
    "right, lognormal 1": DayEffects(1.0, middles(10), 30.0, 50),
    "off by up to .1, equal": DayEffects(0.0, 0.9 * middles(10) + 0.1, 10.0, 200),
    "off by up to .1, lognormal 1.5": DayEffects(1.5, 0.9 * middles(10) + 0.1, 10.0, 200),
    "over-confident, lognormal 1": DayEffects(1.0, 0.2 + 0.6 * middles(10), 30.0, 50),
}


@pytest.mark.parametrize("name", DAYS)
def test_coverage_by_group(name):
    """3,000 draws: the Monte Carlo error (one standard error) is .0050 at .92, .0047 at .93."""
    days = DAYS[name]
    rng = np.random.default_rng([30, list(DAYS).index(name)])
    quantiles = (np.arange(2_000)[:, np.newaxis] + 0.5) / 2_000
    table = special.betaincinv(days.p * days.kappa, (1 - days.p) * days.kappa, quantiles)
    drawn = [days.draw(rng, table) for _ in range(3_000)]
    terms = [group_terms(s, s.group_moments) for s in drawn]
    upper = np.mean([float(one.upper(0.95)) >= days.theta for one in terms])
    lower = np.mean([float(one.lower(0.95)) <= days.theta for one in terms])
    by_row = np.mean([squared_lower_bound(s, by_group=False) <= days.theta for s in drawn])
    assert upper >= 0.92
    assert lower >= 0.93
    assert by_row < lower


def test_comonotone_bounds_of_identical_classes_are_those_of_one_class():
    """Ten classes that move as one: the mean has the bounds of each, and so their coverage."""
    population = POPULATIONS["off by .05, B = 10"]
    rng = np.random.default_rng(9)
    counts = rng.multinomial(population.n, population.w, size=50)
    positives = rng.binomial(counts, population.p)
    for n_j, k_j in zip(counts, positives, strict=True):
        one = row_terms(n_j, k_j, population.u)
        mean = comonotone([one] * 10)
        assert float(mean.upper(0.95)) == pytest.approx(float(one.upper(0.95)), rel=1e-9)
        assert float(mean.lower(0.95)) == pytest.approx(float(one.lower(0.95)), rel=1e-9, abs=1e-15)
