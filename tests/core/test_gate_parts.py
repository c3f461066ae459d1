"""The gate beyond one binary number: classes, slices, finite-sample bounds, rows a bin, and the champion on its own."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest

from mlflow_calib import Verdict, judge
from mlflow_calib.core import intervals
from mlflow_calib.core.class_sums import ClassSums
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.evidence import check_evidence, class_entry, estimate_entry, slice_entry
from mlflow_calib.core.finite_sample import worst_case_squared
from mlflow_calib.core.settling import rows_that_would_settle_classes
from tests.bench.gate_records import (
    TIME,
    VALUES,
    binary_entry,
    class_record,
    class_sums,
    judged,
    record,
    sliced,
)

ERROR = "calibration_error_upper_bound"
WORST = "worst_class_calibration_error_upper_bound"
SLICES = "slice_calibration_error_upper_bound"
# Classes


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("reduction", ["marginal", "top-label-per-class"])
def test_bounds_of_several_classes_are_recomputed_from_the_record(reduction: str, grouped: bool) -> None:
    evidence = json.loads(json.dumps(class_record(reduction, errors=(0.05, 0, -0.05), grouped=grouped)))
    assert check_evidence(evidence) == []
    terms = class_sums(reduction, (0.05, 0, -0.05), grouped=grouped).finish().terms
    for level in (0.8, 0.95, 0.999):
        found = judged(evidence, ERROR, confidence_level=level, limit=0.5).requirement(ERROR)
        assert found.status == "pass"
        assert found.upper == pytest.approx(math.sqrt(terms.upper(level)), rel=1e-9)
        assert found.lower == pytest.approx(math.sqrt(terms.lower(level)), rel=1e-9)
    entry = evidence["estimates"]["candidate"]
    assert found.actual == pytest.approx(entry["root"])
    shown = judged(evidence, ERROR, limit=0.5).requirement(ERROR)
    assert shown.upper == pytest.approx(entry["upper_bound"], rel=1e-12)


def test_by_row_of_grouped_classes_is_the_form_that_always_holds() -> None:
    evidence = class_record(grouped=True)
    by_row = judged(evidence, ERROR, by_group=False).requirement(ERROR)
    assert by_row.upper is not None
    statistics = [ErrorStatistics.from_dict(one["statistics"]) for one in evidence["estimates"]["candidate"]["classes"]]
    terms = intervals.comonotone([intervals.bound_terms(s, False) for s in statistics])
    assert by_row.upper == pytest.approx(math.sqrt(terms.upper(0.95)))
    assert "by row" in by_row.sentence


@pytest.mark.parametrize("reduction", ["marginal", "top-label-per-class"])
def test_one_bad_class_fails_the_worst_class_and_is_named(reduction: str) -> None:
    evidence = class_record(reduction, errors=(0, 0, 0.15))
    found = judged(evidence, WORST).requirement(WORST)
    assert found.status == "fail"
    assert "1 of 3 classes, first class 'emu'" in found.sentence
    assert "(each at 98.33333" in found.sentence
    assert [part["status"] for part in found.parts] == ["pass", "pass", "fail"] or reduction != "marginal"
    assert found.parts[2]["lower"] == found.lower
    s = ErrorStatistics.from_dict(evidence["estimates"]["candidate"]["classes"][2]["statistics"])
    lower = intervals.squared_lower_bound(s, 1 - 0.05 / 3, False)
    assert found.lower == pytest.approx(math.sqrt(lower or 0))


def test_all_classes_must_pass() -> None:
    good = judged(class_record(), WORST, limit=0.06).requirement(WORST)
    assert good.status == "pass"
    assert good.sentence.startswith("calibration error of every class at most 0.06 asked; all 3 classes, the nearest")
    few = judged(class_record(n=300), WORST, limit=0.06).requirement(WORST)
    assert few.status == "inconclusive"
    assert few.more_rows is not None
    assert "more rows like these would settle it" in few.sentence


def test_worst_class_needs_classes_and_their_groups() -> None:
    none = judged(record(binary_entry()), WORST)
    assert none.status == "no verdict"
    assert "the binary error has no classes" in none.reasons[0]
    grouped = class_record(grouped=True)
    assert judged(grouped, WORST, limit=0.2).status == "pass"
    for one in grouped["estimates"]["candidate"]["classes"]:
        one["statistics"]["groups"] = None
    assert judged(grouped, WORST, limit=0.2).status == "no verdict"
    assert judged(grouped, WORST, limit=0.2, by_group=False).status == "pass"
    assert judged(grouped, ERROR, limit=0.2).status == "pass", "the terms on the mean go by group without them"


def test_a_class_that_is_never_predicted_settles_nothing() -> None:
    rows = np.arange(4000)
    right = rows % 10 < 10 * VALUES[rows % 5]
    index = rows % 5
    only = ClassSums.from_predicted(
        ("a", "b"), VALUES[index], right, np.zeros(4000, dtype=int), index, [5, 5], [VALUES] * 2
    )
    evidence = record(class_entry(only.finish(), only.mse), reduction="top-label-per-class")
    found = judged(evidence, WORST, limit=0.5).requirement(WORST)
    assert found.status == "inconclusive"
    assert "class 'b': no rows" in found.sentence


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("statistics", {"n": [1], "k": [0], "u": [0.5], "groups": None}, "statistics must be null"),
        ("terms", None, "terms must be a table"),
        ("classes", None, "classes must be a list"),
        ("classes", [], "must hold one table a class"),
        ("classes.1.class", "cat", "must name each class once"),
        ("classes.1.class", None, "classes[1].class must be a text"),
        ("classes.1.statistics.n.0", 1, "must sum to n = 9000"),
        ("classes.1.statistics", {}, "classes[1].statistics.n is missing"),
        ("terms.v0", 0.0, "terms.v0 must be at least"),
        ("terms.c", 0.0, "terms.c must be at least"),
        ("terms.upper_centre", 0.3, "terms.upper_centre must be the debiased square"),
        ("terms.nu", [1.0], "terms.nu must hold one number a class, 3, got 1"),
        ("terms.nu", 0, "terms.nu must be a number over 0"),
        ("terms.degrees_of_freedom", 3.0, "terms.degrees_of_freedom must be a number where bound_kind is groups"),
        ("squared_plugin", 0.3, "squared_plugin must be"),
        ("n_bins", 4, "n_bins must be those of the class with most, 5, got 4"),
    ],
)
def test_damage_of_classes_is_named(path: str, value: Any, message: str) -> None:
    evidence = class_record()
    *parents, last = path.split(".")
    target: Any = evidence["estimates"]["candidate"]
    for name in parents:
        target = target[int(name) if isinstance(target, list) else name]
    target[int(last) if isinstance(target, list) else last] = value
    problems = check_evidence(evidence)
    assert any(message in problem for problem in problems), problems
    assert judged(evidence, ERROR, limit=1.0).status == "no verdict"


def test_pooled_bins_are_those_of_the_classes() -> None:
    evidence = class_record("top-label-per-class")
    evidence["estimates"]["candidate"]["statistics"]["u"][0] = 0.2
    assert any("side by side" in problem for problem in check_evidence(evidence))


def test_n22_many_classes_are_averaged_signed() -> None:
    """N22: K = 10, n = 1000, B = 10, right everywhere: the mean of the signed square is 0, clipped classes say .012."""
    rng, squares, clipped = np.random.default_rng(22), [], []
    values = (np.arange(10) + 0.5) / 10
    for _ in range(200):
        index = rng.integers(10, size=(1000, 10))
        truths = rng.random((1000, 10)) < values[index]
        sums = ClassSums.from_marginal(range(10), values[index], truths, index, [10] * 10, [values] * 10)
        entry = class_entry(sums.finish(), sums.mse)
        squares.append(entry["squared_debiased"])
        each = [ErrorStatistics.from_dict(one["statistics"]) for one in entry["classes"]]
        clipped.append(np.mean([max(intervals.debiased_squared(s), 0.0) for s in each]))
    error = np.std(squares, ddof=1) / math.sqrt(200)
    assert abs(np.mean(squares)) < 2 * error
    assert np.mean(clipped) > 10 * error


@pytest.mark.parametrize("grouped", [False, True])
def test_one_class_is_settled_by_as_many_rows_as_one_problem(grouped: bool) -> None:
    """Scaled terms and scaled statistics differ by the smoothing of the rates alone."""
    rng, n = np.random.default_rng(4), 900
    index = rng.integers(5, size=(n, 1))
    truths = rng.random((n, 1)) < VALUES[index]
    groups = np.arange(n) % 45 if grouped else None
    found = ClassSums.from_marginal(("a",), VALUES[index], truths, index, [5], [VALUES], groups).finish()
    for limit in (0.02, 0.04):
        mine = rows_that_would_settle_classes(found.statistics, found.terms, limit)
        theirs = intervals.rows_that_would_settle(found.statistics[0], limit)
        assert mine is not None
        assert theirs is not None
        assert mine == pytest.approx(theirs, rel=0.05)
        assert mine > n


# Slices


def test_every_slice_of_a_column_is_judged_at_a_level_that_holds_for_all() -> None:
    good = judged(sliced(EU=0.0, US=0.0), SLICES, columns=["region"], limit=0.06).requirement(SLICES)
    assert good.status == "pass"
    assert "all 2 slices" in good.sentence
    assert "each at 97.5 %" in good.sentence
    bad = judged(sliced(EU=0.0, US=0.2), SLICES, columns=["region"], limit=0.06).requirement(SLICES)
    assert bad.status == "fail"
    assert "first region = 'US'" in bad.sentence
    assert [(part["part"], part["status"]) for part in bad.parts] == [
        ("region = 'EU'", "pass"),
        ("region = 'US'", "fail"),
    ]
    assert Verdict.from_dict(judged(sliced(EU=0.0, US=0.2), SLICES, columns=["region"], limit=0.06).to_dict())


def test_named_slices() -> None:
    evidence = sliced(EU=0.0, US=0.2)
    assert judged(evidence, SLICES, slices=[{"region": "EU"}], limit=0.06).status == "pass"
    missing = judged(evidence, SLICES, slices=[{"region": "EU", "age": None}], limit=0.2).requirement(SLICES)
    assert missing.status == "pass"
    assert "region = 'EU', age missing" in missing.sentence
    empty = judged(evidence, SLICES, slices=[{"region": "EU"}, {"age": "old", "region": "EU"}], limit=0.06)
    assert empty.status == "inconclusive"
    assert "no rows" in empty.reasons[0]
    unknown = judged(evidence, SLICES, slices=[{"region": "AU"}], columns=["region"], limit=0.06)
    assert unknown.status == "fail", "US fails, whatever AU would say"
    assert "1 of 3 slices" in unknown.reasons[0]


def test_slices_that_were_not_collected_give_no_verdict() -> None:
    evidence = sliced(EU=0.0, US=0.0)
    for settings in ({"columns": ["age"]}, {"slices": [{"age": 3}]}, {"slices": [{"region": "AU"}]}):
        assert judged(evidence, SLICES, **settings).status == "no verdict", settings
    del evidence["slices"][1]
    part = judged(evidence, SLICES, columns=["region"])
    assert part.status == "no verdict"
    assert "do not hold every row" in part.reasons[0]
    assert judged(record(binary_entry()), SLICES, columns=["region"]).status == "no verdict"


def test_slice_values_are_compared_as_json_values() -> None:
    entry = binary_entry(n=6000)
    evidence = record(entry, slices=[slice_entry({"x": value}, binary_entry(n=3000)) for value in (1, True)])
    for value in (1, 1.0, True):
        assert judged(evidence, SLICES, slices=[{"x": value}], limit=0.1).status == "pass"
    assert judged(evidence, SLICES, slices=[{"x": "1"}], limit=0.1).status == "no verdict"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda slices: slices.clear(), "null where none were collected"),
        (lambda slices: slices.append(slices[0]), "must name each slice once"),
        (lambda slices: slices[0].update(n=7), "that of the slice, 7"),
        (lambda slices: slices[0].update(slice={}), "a table of columns and their values"),
        (lambda slices: slices[0].update(slice={"region": [1]}), "a table of columns and their values"),
        (lambda slices: slices[0]["estimates"].update(candidate=None), "must be null where the slice has no rows"),
        (lambda slices: slices[0]["estimates"]["candidate"].pop("mse"), "candidate.mse is missing"),
    ],
)
def test_damage_of_slices_is_named(change: Any, message: str) -> None:
    evidence = sliced(EU=0.0, US=0.0)
    change(evidence["slices"])
    problems = check_evidence(evidence)
    assert any(message in problem for problem in problems), problems


# The finite-sample bound


def test_the_finite_sample_bound_passes_thin_data_that_it_can() -> None:
    s = ErrorStatistics([4000, 4000, 3], [800, 3200, 1], [0.2, 0.8, 0.5])
    evidence = record(estimate_entry(s, 0.2))
    assert "finite-sample bound by row" in judged(evidence, ERROR, bound="finite-sample", limit=0.2).sentence
    found = judged(evidence, ERROR, bound="finite-sample", limit=0.2).requirement(ERROR)
    assert found.status == "pass"
    assert found.upper == math.sqrt(worst_case_squared(s.counts, s.positives, s.outputs, 0.95))
    empty = record(estimate_entry(ErrorStatistics([4000, 4000, 0], [800, 3200, 0], [0.2, 0.8, 0.5]), 0.2))
    assert judged(empty, ERROR, limit=0.2).status == "inconclusive"
    assert judged(empty, ERROR, bound="finite-sample", limit=0.2).status == "pass"


def test_n21_and_p3_too_few_rows_never_pass() -> None:
    """N21: n = 2 in two bins has a debiased error of 0. P3: one class, 3 rows, 15 bins."""
    two = record(estimate_entry(ErrorStatistics([1, 1], [0, 1], [0.2, 0.7]), 0.065))
    counts = np.zeros(15, dtype=int)
    counts[[0, 7, 14]] = 1
    three = record(estimate_entry(ErrorStatistics(counts, counts, (np.arange(15) + 0.5) / 15), 0.3))
    for evidence in (two, three):
        for bound in ("asymptotic", "finite-sample"):
            verdict = judged(evidence, ERROR, limit=0.5, bound=bound)
            assert verdict.status == "inconclusive"
            assert "NaN" not in verdict.to_json()
        assert judge(evidence, now=TIME).blocks
    assert "no bound, 3 rows in 15 bins" in judged(three, ERROR).reasons[0]


def test_the_finite_sample_bound_says_how_many_rows_would_settle_it() -> None:
    s = ErrorStatistics([300, 300], [60, 240], [0.2, 0.8])
    evidence = record(estimate_entry(s, 0.16))
    found = judged(evidence, ERROR, bound="finite-sample", limit=0.05).requirement(ERROR)
    assert found.status == "inconclusive"
    assert found.more_rows is not None
    grown = (600 + found.more_rows) // 2
    enough = ErrorStatistics([grown] * 2, [round(grown * 0.2), round(grown * 0.8)], [0.2, 0.8])
    again = judged(record(estimate_entry(enough, 0.16)), ERROR, bound="finite-sample", limit=0.051)
    assert again.status == "pass"


def test_the_finite_sample_bound_of_classes_takes_each_at_its_share_and_refuses_groups() -> None:
    evidence = class_record()
    found = judged(evidence, ERROR, bound="finite-sample", limit=0.5).requirement(ERROR)
    each = [ErrorStatistics.from_dict(one["statistics"]) for one in evidence["estimates"]["candidate"]["classes"]]
    squares = [worst_case_squared(s.counts, s.positives, s.outputs, 1 - 0.05 / 3) for s in each]
    assert found.upper == pytest.approx(math.sqrt(np.mean(squares)))
    grouped = class_record(grouped=True)
    refused = judged(grouped, ERROR, bound="finite-sample")
    assert refused.status == "no verdict"
    assert "needs independent rows, and these have groups" in refused.reasons[0]
    assert judged(grouped, ERROR, bound="finite-sample", by_group=False, limit=0.5).status == "pass"


# Rows a bin, reductions, the champion on its own


def test_rows_per_bin() -> None:
    entry = estimate_entry(ErrorStatistics([100, 15, 885], [50, 5, 100], [0.5, 0.4, 0.1]), 0.2)
    few = judged(record(entry), "rows_per_bin").requirement("rows_per_bin")
    assert (few.status, few.actual, few.n, few.more_rows) == ("inconclusive", 15, 1000, 334)
    assert "15 rows in bin 1 (counted from 0), the fewest" in few.sentence
    assert judged(record(entry), "rows_per_bin", limit=15).status == "pass"
    empty = estimate_entry(ErrorStatistics([100, 0], [50, 0], [0.5, 0.4]), 0.2)
    assert judged(record(empty), "rows_per_bin", limit=1).status == "inconclusive"
    of_class = judged(class_record(n=90), "rows_per_bin", limit=1000).requirement("rows_per_bin")
    assert "of class" in of_class.sentence


def test_the_reduction_is_that_of_the_evidence_unless_named() -> None:
    evidence = class_record()
    assert judged(evidence, ERROR, limit=0.2).status == "pass"
    assert judged(evidence, ERROR, limit=0.2, reduction="marginal").status == "pass"
    other = judged(evidence, ERROR, limit=0.2, reduction="top-label")
    assert other.status == "no verdict"
    assert "of the marginal error, not of the top-label one" in other.reasons[0]
    top = record(binary_entry(), reduction="top-label")
    assert judged(top, ERROR, limit=0.2, reduction="top-label").status == "pass"


def test_the_champion_on_its_own() -> None:
    evidence = copy.deepcopy(record(binary_entry()))
    evidence.update(role="champion", champion=None)
    evidence["overlap"]["recalibration"] = None
    assert check_evidence(evidence) == []
    verdict = judge(evidence, {"requirements": {ERROR: {"limit": 0.1}}}, now=TIME)
    assert (verdict.status, verdict.role) == ("pass", "champion")
    assert verdict.requirement(ERROR).sentence.endswith("how many of these rows it was recalibrated on is unverified")
    assert verdict.requirement("mse_increase_over_champion").status == "not applicable"
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict
    evidence["champion"] = {"alias": "champion", "name": "simulated", "version": None}
    assert judge(evidence, now=TIME).status == "no verdict"
    candidate = record(binary_entry())
    candidate["overlap"]["recalibration"] = None
    assert judge(candidate, now=TIME).status == "no verdict", "a candidate's overlap is never unverified"
