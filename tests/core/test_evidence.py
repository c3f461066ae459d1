"""Evidence holds sufficient statistics, is plain JSON, and says everything that is wrong with it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from mlflow_calib.core import intervals
from mlflow_calib.core.evidence import canonical_json, check_evidence, digest, estimate_entry, evidence_record
from mlflow_calib.core.intervals import ErrorStatistics
from mlflow_calib.errors import EvidenceError, InvalidInputError

Build = Callable[..., dict[str, Any]]
BINS = ErrorStatistics([60, 40], [12, 30], [0.2, 0.7])


def test_an_entry_holds_statistics_that_give_its_own_bounds_again() -> None:
    entry = estimate_entry(BINS, 0.2, confidence_level=0.9)
    again = ErrorStatistics.from_dict(json.loads(json.dumps(entry["statistics"])))
    upper = intervals.squared_upper_bound(again, 0.9, by_group=False)
    assert upper is not None
    assert entry["upper_bound"] == math.sqrt(upper)
    assert entry["squared_plugin"] == pytest.approx(0.4 * 0.05**2)
    assert entry["squared_debiased"] == pytest.approx(0.4 * 0.05**2 - 0.6 * 0.16 / 59 - 0.4 * 0.1875 / 39)
    assert entry["root"] == 0.0
    assert (entry["n"], entry["n_bins"], entry["status"], entry["reason"]) == (100, 2, "ok", None)
    assert (entry["bound_kind"], entry["lower_bound_of_calibration_error"]) == ("rows", False)


def test_an_unusable_entry_has_no_bounds_and_says_why() -> None:
    """N21, P3: n = 2 in two bins has a debiased error of 0, and no bound that could pass."""
    entry = estimate_entry(ErrorStatistics([1, 1], [0, 1], [0.2, 0.7]), 0.065)
    assert entry["status"] == "unusable"
    assert entry["reason"]
    assert (entry["upper_bound"], entry["lower_bound"], entry["noise_floor"]) == (None, None, None)


@pytest.mark.parametrize("mse", [math.nan, math.inf])
def test_a_figure_that_is_not_finite_is_refused(mse: float) -> None:
    with pytest.raises(InvalidInputError, match="mse must be a finite number"):
        estimate_entry(BINS, mse)


@pytest.mark.parametrize("n_groups", [None, 30])
@pytest.mark.parametrize("kind", ["calibrated", "raw", "none", None])
def test_built_records_are_valid_plain_and_alike_after_json(
    evidence_of: Build, champions: dict[str, Any], n_groups: int | None, kind: str | None
) -> None:
    record = evidence_of(n_groups=n_groups, champion=kind and champions[kind])
    assert check_evidence(record) == []
    again = json.loads(canonical_json(record))
    assert again == record
    assert digest(again) == digest(record)
    assert record["evaluated_at"] == "2013-08-01T06:00:00+00:00"


def _set(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *parents, last = path.split(".")
    target: Any = record
    for name in parents:
        target = target[int(name) if isinstance(target, list) else name]
    target[int(last) if isinstance(target, list) else last] = value
    return record


CANDIDATE = "estimates.candidate"
STATISTICS = f"{CANDIDATE}.statistics"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", "mlflow_calib.evidence/2", 'schema must be "mlflow_calib.evidence/1"'),
        ("evaluated_at", "2013-08-01T06:00:00", "ISO 8601 time with its zone"),
        ("evaluated_at", "yesterday", "ISO 8601 time with its zone"),
        ("candidate.version", 2, "candidate.version must be a text"),
        ("candidate.digest", "", "candidate.digest must be a text that is not empty"),
        ("candidate", "flights", "candidate must be a table"),
        ("champion.kind", "other", "champion.kind must be one of"),
        ("champion.version", "2", "another model version than the candidate"),
        ("champion.model_id", "m-2", "another model version than the candidate"),
        ("champion.n_evaluation_rows_in_its_recalibration_data", 5, "must count the same shared rows"),
        ("champion.version", None, "estimates.champion must be null where the champion has no version"),
        ("champion.version", None, "champion.version must be there beside model_uri, model_id, digest, kind, n_eval"),
        ("champion", None, "estimates.champion must be null where the champion was not looked up"),
        ("data.n", 5999, f"{CANDIDATE}.n must be data.n = 5999"),
        ("data.n", 0, "data.n must be a whole number of at least 1"),
        ("data.n_groups", None, "groups.G must be data.n_groups = None, got 30"),
        ("overlap.recalibration", 1, "overlap.recalibration must be 0: evaluation rows must not be among them, got 1"),
        ("overlap.base_training", 3, "overlap.base_training must be 0"),
        ("estimates.rival.n", 10, "estimates.rival.n must be data.n = 6000, the same rows, got 10"),
        ("estimates.candidate", None, "estimates.candidate must be a table, got None"),
        (f"{CANDIDATE}.mse", True, f"{CANDIDATE}.mse must be a finite number"),
        (f"{CANDIDATE}.mse", math.nan, f"these are not: {CANDIDATE}.mse"),
        (f"{CANDIDATE}.upper_bound", None, f"{CANDIDATE}.upper_bound must be"),
        (f"{CANDIDATE}.status", "thin", "reason must say why the status is thin"),
        (f"{CANDIDATE}.status", "fine", "status must be one of"),
        (f"{CANDIDATE}.confidence_level", 95, "confidence_level must be a number between 0.5 and 1"),
        (f"{CANDIDATE}.n_bins", 9, "must hold n_bins = 9 items, got 10"),
        ("estimates.champion", None, "estimates.champion must be there where a champion with a version is recorded"),
        (f"{CANDIDATE}.squared_plugin", 0.25, "as the statistics give it, got 0.25"),
        (f"{CANDIDATE}.squared_debiased", -0.5, "as the statistics give it, got -0.5"),
        (f"{CANDIDATE}.root", 0.5, f"{CANDIDATE}.root must be 0.0, as the statistics give it, got 0.5"),
        (f"{CANDIDATE}.mse", 0.1, "comparisons.mse_increase_over_base.mean must be the difference of the two mse"),
        ("comparisons.mse_increase_over_champion.mean", -0.1, "over_champion.mean must be the difference of the two"),
        (f"{STATISTICS}.k.3", 601, "k must be at most n in every bin, and is not in bin 3"),
        (f"{STATISTICS}.k.3", -1, "k[3] must be a whole number of at least 0, got -1"),
        (f"{STATISTICS}.n.3", 600.5, "n[3] must be a whole number of at least 0, got 600.5"),
        (f"{STATISTICS}.n.3", 599, "n must sum to n = 6000, got 5999"),
        (f"{STATISTICS}.u.0", 1.5, "u[0] must be a number from 0 to 1, got 1.5"),
        (f"{STATISTICS}.u", [0.5], "u must hold n_bins = 10 items, got 1"),
        (f"{STATISTICS}.groups", None, "moments that bound_kind groups was computed from"),
        (f"{STATISTICS}.groups.M", [[1.0]], "M must be a square table of 10 rows and columns"),
        (f"{STATISTICS}.groups.M.0.0", -1.0, "no negative number on its diagonal"),
        (f"{STATISTICS}.groups.M.0.1", 1e6, "M must be symmetric"),
        (f"{STATISTICS}.groups.M.0.1", "x", "M must hold finite numbers alone"),
        (f"{STATISTICS}.groups.H", 31.0, "H must be at most G = 30"),
        (f"{STATISTICS}.groups.L", -1.0, "groups.L must be a finite number of at least 0"),
        ("comparisons.mse_increase_over_champion.n", 3, "mse_increase_over_champion.n must be data.n = 6000"),
        ("comparisons.mse_increase_over_champion.n_groups", 29, "n_groups must be data.n_groups = 30, got 29"),
        ("comparisons.mse_increase_over_champion.degrees_of_freedom", 6000, "must be under the 30 rows or groups"),
        ("comparisons.mse_increase_over_champion.standard_error", None, "null where degrees_of_freedom is 0, and only"),
        ("comparisons.mse_increase_over_champion.standard_error", -1.0, "standard_error must be a finite number"),
        ("comparisons.mse_increase_over_base.mean", math.inf, "not: comparisons.mse_increase_over_base.mean"),
    ],
)
def test_each_damage_is_named(evidence_of: Build, path: str, value: Any, message: str) -> None:
    """N19, N20, N21 and their kind."""
    problems = check_evidence(_set(evidence_of(), path, value))
    assert any(message in problem for problem in problems), problems


def test_all_problems_are_reported_at_once(evidence_of: Build) -> None:
    record = evidence_of()
    del record["overlap"]
    record["data"]["n"] = -1
    record["estimates"]["base"]["mse"] = math.nan
    record["champion"]["version"] = "2"
    text = "\n".join(check_evidence(record))
    for part in ("overlap is missing", "data.n must be", "estimates.base.mse", "another model version"):
        assert part in text


@pytest.mark.parametrize("document", [None, [], "text", 3, {1, 2}, {"a": {1}}, {"a": object()}, {}])
def test_what_is_no_record_is_a_problem_and_never_an_exception(document: Any) -> None:
    assert check_evidence(document)


def test_the_builder_refuses_a_model_compared_with_itself(evidence_of: Build) -> None:
    """N20: by model version; candidate and champion must differ."""
    record = evidence_of()
    with pytest.raises(EvidenceError, match="another model version than the candidate"):
        evidence_record(
            candidate=record["candidate"],
            champion={**record["champion"], "version": "2"},
            data=record["data"],
            estimates=record["estimates"],
            comparisons=record["comparisons"],
            recalibration_overlap=0,
            base_training_overlap=None,
            mlflow_calib_version="0.1.0",
            run_id=None,
        )


RANKED = {"accuracy": 0.8, "auc": 0.9, "tied_pairs": None}


@pytest.mark.parametrize(
    ("ranking", "message"),
    [
        (None, None),
        ({**dict.fromkeys(("candidate", "base", "rival", "champion"), RANKED)}, None),
        ({**dict.fromkeys(("candidate", "base", "rival"), RANKED)}, "ranking.champion is missing"),
        ([RANKED], "ranking must be a table"),
        (
            {**dict.fromkeys(("candidate", "base", "rival"), RANKED), "champion": None},
            "ranking.champion must be there as estimates.champion is, got None",
        ),
        (
            {**dict.fromkeys(("base", "rival", "champion"), RANKED), "candidate": {**RANKED, "auc": 1.5}},
            "ranking.candidate.auc must be a number from 0 to 1 or null, got 1.5",
        ),
    ],
)
def test_ranking_figures_are_optional_and_checked(evidence_of: Build, ranking: Any, message: str | None) -> None:
    problems = check_evidence({**evidence_of(), "ranking": ranking})
    assert problems == [] if message is None else message in problems[0], problems


def test_a_record_without_ranking_is_whole(evidence_of: Build) -> None:
    record = evidence_of()
    del record["ranking"]
    assert check_evidence(record) == []


def test_other_comparisons_are_kept_and_checked(evidence_of: Build) -> None:
    record = evidence_of()
    over_rival = {**record["comparisons"]["mse_increase_over_base"], "mean": 0.0}
    record["comparisons"]["mse_increase_over_rival"] = over_rival
    assert check_evidence(record) == []
    record["comparisons"]["mse_increase_over_rival"]["n"] = 1
    assert len(check_evidence(record)) == 1
