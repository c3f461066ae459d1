"""Increases over champion and base model: log loss and calibration error, their boundaries, and what bars them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from mlflow_calib import judge
from mlflow_calib.core import intervals
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.evidence import check_evidence
from mlflow_calib.core.jackknife import JackknifeDifference
from mlflow_calib.core.paired import PairedDifference
from mlflow_calib.core.paired_error import RootBounds, difference_bounds, own_level
from mlflow_calib.core.policy import SETTINGS
from mlflow_calib.core.records import parse_time
from mlflow_calib.core.requirement_record import RequirementVerdict

Build = Callable[..., dict[str, Any]]
LOG_LOSS = "log_loss_increase_over_champion"
ERROR = "calibration_error_increase_over_champion"
ALL = [
    f"{what}_increase_over_{other}"
    for what in ("mse", "log_loss", "calibration_error")
    for other in ("champion", "base")
]


def one(record: Any, name: str, **settings: Any) -> RequirementVerdict:
    others: dict[str, Any] = {other: {"enabled": False} for other in SETTINGS if other != name}
    now = parse_time("2013-08-01T06:00:00+00:00")
    assert now is not None
    policy = {"requirements": {**others, name: settings}}
    return judge(record, policy, now=now + timedelta(days=1)).requirement(name)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n_groups", [None, 30])
def test_bounds_are_recomputed_at_the_policy_s_level_and_boundaries_are_exact(
    evidence_of: Build, name: str, n_groups: int | None
) -> None:
    record = evidence_of(champion_error=0.04, error=0.02, n_groups=n_groups)
    for level in (0.8, 0.95):
        lower, upper = _bounds(record, name, level)
        expected = {
            upper: "pass",
            math.nextafter(upper, -1): "inconclusive",
            lower: "inconclusive",
            math.nextafter(lower, -1): "fail",
        }
        if name == "calibration_error_increase_over_base":  # continuous outputs show an error from below only
            expected[math.nextafter(lower, -1)] = "inconclusive"
        for limit, status in expected.items():
            found = one(record, name, limit=limit, confidence_level=level)
            assert (found.status, found.lower, found.upper) == (status, lower, upper), limit
            assert found.actual == record["comparisons"][name]["mean"]


def _bounds(record: dict[str, Any], name: str, level: float) -> tuple[float, float]:
    document = record["comparisons"][name]
    if not name.startswith("calibration_error"):
        difference = PairedDifference.from_dict(document)
        lower, upper = difference.lower_bound(level), difference.upper_bound(level)
        assert lower is not None
        assert upper is not None
        return lower, upper
    by_group = document["n_groups"] is not None
    own = []
    for entry in (record["estimates"]["candidate"], record["estimates"][name.rpartition("_")[2]]):
        s = ErrorStatistics.from_dict(entry["statistics"])
        bound = (intervals.squared_lower_bound, intervals.squared_upper_bound)
        own.append(RootBounds(*(math.sqrt(each(s, own_level(level), by_group) or 0) for each in bound)))
    found = difference_bounds(JackknifeDifference.from_dict(document), own[0], own[1], level)
    assert found is not None
    return found


@pytest.mark.parametrize("name", ALL)
def test_an_inconclusive_increase_says_how_many_rows_would_settle_it(evidence_of: Build, name: str) -> None:
    record = evidence_of(champion_error=0.04, error=0.02)
    lower, upper = _bounds(record, name, 0.95)
    mean = record["comparisons"][name]["mean"]
    found = one(record, name, limit=mean + (upper - mean) / 2)
    assert (found.status, found.more_rows) == ("inconclusive", pytest.approx(3 * 6000, abs=2))
    assert "more rows like these would settle it as a pass" in found.sentence
    above = one(record, name, limit=mean - (mean - lower) / 2)
    assert above.more_rows == pytest.approx(3 * 6000, abs=2)
    assert "would settle it as a fail" in above.sentence
    assert one(record, name, limit=mean).more_rows is None


@pytest.mark.parametrize("name", ALL)
def test_what_is_missing_gives_no_verdict(evidence_of: Build, champions: dict[str, Any], name: str) -> None:
    record = evidence_of()
    record["comparisons"][name] = None
    assert one(record, name).status == "no verdict"
    by_row = evidence_of()
    by_row["comparisons"][name]["n_groups"] = None
    found = one(by_row, name)
    assert found.status == "no verdict"
    assert "the comparison went by row" in found.sentence or "cannot be used" in found.sentence
    first = one(evidence_of(champion=champions["none"]), name)
    assert (first.status == "not applicable") is name.endswith("champion")
    assert first.status != "no verdict"


@pytest.mark.parametrize("name", [name for name in ALL if name.endswith("champion")])
def test_a_champion_recalibrated_on_these_rows_cannot_be_compared(evidence_of: Build, name: str) -> None:
    record = evidence_of()
    record["champion"]["n_evaluation_rows_in_its_recalibration_data"] = 7
    record["overlap"]["champion_recalibration"] = 7
    for limit in (-1.0, 1.0):
        found = one(record, name, limit=limit)
        assert (found.status, found.more_rows) == ("inconclusive", None)
        assert "recalibrated on 7 of these 6,000 rows" in found.sentence


def test_the_base_model_is_no_champion(evidence_of: Build) -> None:
    """Rows that the champion saw are no matter for the base model."""
    record = evidence_of()
    record["champion"]["n_evaluation_rows_in_its_recalibration_data"] = 7
    record["overlap"]["champion_recalibration"] = 7
    assert one(record, "mse_increase_over_base").status == "pass"
    assert "base model's asked" in one(record, "mse_increase_over_base").sentence


def _infinite(record: dict[str, Any], *models: str) -> dict[str, Any]:
    for name in models:
        record["estimates"][name].update(log_loss=None, log_loss_infinite=True)
    for name in ("champion", "base"):
        record["comparisons"][f"log_loss_increase_over_{name}"] = None
    return record


def test_infinite_log_losses(evidence_of: Build) -> None:
    worse = one(_infinite(evidence_of(), "candidate"), LOG_LOSS)
    assert worse.status == "fail"
    assert "probability 0 to an outcome that happened" in worse.sentence
    assert one(_infinite(evidence_of(), "candidate", "champion"), LOG_LOSS).status == "inconclusive"
    better = one(_infinite(evidence_of(), "champion"), LOG_LOSS)
    assert better.status == "pass"
    assert "the candidate gives 0 to none" in better.sentence
    record = _infinite(evidence_of(), "champion")
    entry = record["estimates"]["candidate"]
    entry["statistics"]["u"][0] = 0.0  # and the figures beside it are no longer those of the statistics
    assert one(record, LOG_LOSS).status == "no verdict"
    assert one(_infinite(evidence_of(), "base"), "log_loss_increase_over_base").status == "pass"


@pytest.mark.parametrize("name", ["candidate", "champion"])
def test_an_infinite_log_loss_has_no_difference(evidence_of: Build, name: str) -> None:
    """A record with both would pass by the comparison although the loss is infinite."""
    record = evidence_of()
    record["estimates"][name].update(log_loss=None, log_loss_infinite=True)
    assert f"comparisons.{LOG_LOSS} must be null" in " ".join(check_evidence(record))
    assert one(record, LOG_LOSS).status == "no verdict"


def test_a_candidate_that_is_sometimes_certain_does_not_pass_by_the_champion_s_infinity(evidence_of: Build) -> None:
    record = _infinite(evidence_of(n_groups=None), "champion")
    entry = record["estimates"]["candidate"]
    entry["statistics"]["u"][0] = 0.0
    s = ErrorStatistics.from_dict(entry["statistics"])
    squared = intervals.debiased_squared(s)
    entry.update(squared_plugin=intervals.plugin_squared(s), squared_debiased=squared, root=math.sqrt(max(squared, 0)))
    for other in ("champion", "base"):
        record["comparisons"][f"calibration_error_increase_over_{other}"] = None
    assert check_evidence(record) == []
    assert one(record, LOG_LOSS).status == "inconclusive"


def test_the_record_s_own_losses_are_held_against_the_comparison(evidence_of: Build) -> None:
    for name, field in ((LOG_LOSS, "mean"), (ERROR, "mean"), (ERROR, "squared_mean")):
        record = evidence_of()
        record["comparisons"][name][field] -= 0.01
        problems = check_evidence(record)
        assert any(f"comparisons.{name}.{field} must be the difference" in problem for problem in problems), problems
    record = evidence_of()
    record["estimates"]["candidate"]["log_loss_infinite"] = True
    assert any("log_loss must be null where it is infinite" in problem for problem in check_evidence(record))


def test_thin_estimates_cannot_be_compared_by_their_calibration_error(evidence_of: Build) -> None:
    record = evidence_of(n_groups=12)
    found = one(record, ERROR, limit=1.0)
    assert found.status == "inconclusive"
    assert "too thin, 12 groups" in found.sentence
    assert one(record, "mse_increase_over_champion", limit=1.0).status == "pass", "12 groups of one size can"


def test_few_groups_that_hold_most_rows_cannot_decide(evidence_of: Build) -> None:
    record = evidence_of()
    record["comparisons"]["mse_increase_over_champion"]["degrees_of_freedom"] = 8.5
    found = one(record, "mse_increase_over_champion", limit=1.0)
    assert found.status == "inconclusive"
    assert "30 groups of unequal sizes, 9.5 effective; at least 20 are needed" in found.sentence
    record["comparisons"]["mse_increase_over_champion"]["degrees_of_freedom"] = 20.0
    assert one(record, "mse_increase_over_champion", limit=1.0).status == "pass"


def test_equal_models_near_the_noise_pass_a_margin_that_the_noise_floor_is_above(evidence_of: Build) -> None:
    """Both errors are zero and their noise floor is .02, yet on the same rows they differ by nothing."""
    record = copy.deepcopy(evidence_of(champion_error=0.0, n_groups=None))
    found = one(record, ERROR, limit=0.001)
    assert found.status == "pass"
    floor = record["estimates"]["candidate"]["noise_floor"]
    assert floor > 0.02
    assert np.isclose(found.upper or 0.0, 0.0)
