"""The gate's judgement: every status of every requirement, its boundaries, and closed on every kind of damage."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mlflow_calib import Policy, Verdict, judge
from mlflow_calib.core import intervals
from mlflow_calib.core.evidence import check_evidence, digest, estimate_entry
from mlflow_calib.core.intervals import ErrorStatistics
from mlflow_calib.core.paired import PairedDifference
from mlflow_calib.core.records import parse_time
from mlflow_calib.core.requirement_record import RequirementVerdict
from mlflow_calib.errors import EvidenceError, InvalidInputError

Build = Callable[..., dict[str, Any]]
ERROR = "calibration_error_upper_bound"
INCREASE = "mse_increase_over_champion"
ROWS = "n_evaluation"
AGE = "evidence_age_days"


def at(record: Any, policy: Any = None, days: float = 1.0) -> Verdict:
    """The verdict ``days`` after the evaluation."""
    time = parse_time("2013-08-01T06:00:00+00:00")
    assert time is not None
    return judge(record, policy, now=time + timedelta(days=days))


def only(name: str, **settings: Any) -> dict[str, Any]:
    """A policy of one requirement."""
    others = {other: {"enabled": False} for other in (ERROR, INCREASE, ROWS, AGE) if other != name}
    return {"requirements": {**others, name: settings}}


def one(record: Any, name: str, days: float = 1.0, **settings: Any) -> RequirementVerdict:
    return at(record, only(name, **settings), days).requirement(name)


# The whole


def test_a_good_candidate_passes_and_says_so_with_its_numbers(evidence_of: Build) -> None:
    verdict = at(evidence_of(), {"requirements": {ERROR: {"limit": 0.10}}})
    assert (verdict.status, verdict.blocks, verdict.reasons) == ("pass", False, ())
    sentence = verdict.requirement(ERROR).sentence
    upper = verdict.requirement(ERROR).upper
    assert sentence == f"calibration error at most 0.10 asked; upper 95 % bound by day {upper:.3g}: pass"
    assert verdict.sentence == f"flights version 2: pass: {sentence} (and 3 more)"
    assert [requirement.status for requirement in verdict.requirements if requirement.status != "off"] == ["pass"] * 4


def test_the_weightiest_status_is_the_verdict(evidence_of: Build) -> None:
    bad, few = evidence_of(error=0.2), {"requirements": {ROWS: {"limit": 10**6}}}
    assert at(evidence_of()).status == "pass"
    assert at(evidence_of(), few).status == "inconclusive"
    assert at(bad, few).status == "fail"
    assert at(bad, few, days=8).status == "no verdict"
    reasons = at(bad, few, days=8).reasons
    assert len(reasons) == 4
    for reason, status in zip(reasons, ("no verdict", "fail", "fail", "inconclusive"), strict=True):
        assert f": {status}" in reason


@pytest.mark.parametrize("mode", ["enforce", "dry-run", "off"])
def test_modes(evidence_of: Build, mode: str) -> None:
    good, bad = at(evidence_of(), {"mode": mode}), at(evidence_of(error=0.2), {"mode": mode})
    assert bad.blocks is (mode == "enforce")
    assert good.blocks is False
    assert bad.mode == mode
    assert (good.status, bad.status) == (("no verdict",) * 2 if mode == "off" else ("pass", "fail"))
    if mode == "off":
        assert "the policy is off" in bad.reasons[0]
        assert {requirement.status for requirement in bad.requirements} == {"off"}
    if mode == "dry-run":
        assert "blocks nothing" in bad.sentence


def test_nothing_asked_is_no_pass(evidence_of: Build, champions: dict[str, Any]) -> None:
    nothing = {"requirements": {name: {"enabled": False} for name in (ERROR, INCREASE, ROWS, AGE)}}
    verdict = at(evidence_of(), nothing)
    assert (verdict.status, verdict.blocks) == ("no verdict", True)
    assert "no requirement could be applied" in verdict.reasons[0]
    without = at(evidence_of(champion=champions["none"]), only(INCREASE))
    assert (without.status, without.requirement(INCREASE).status) == ("no verdict", "not applicable")


def test_judging_is_pure_and_takes_json_text_too(evidence_of: Build) -> None:
    record = evidence_of(error=0.04)
    before = copy.deepcopy(record)
    verdict = at(record)
    assert record == before
    assert at(record) == verdict == at(json.dumps(record)) == at(record, Policy.default())
    assert verdict.evidence_digest == digest(record)
    assert verdict.policy_digest == Policy.default().digest


def test_wrong_use_is_an_error_and_not_a_verdict(evidence_of: Build, evaluated_at: datetime) -> None:
    with pytest.raises(InvalidInputError, match="time zone"):
        judge(evidence_of(), now=evaluated_at.replace(tzinfo=None))
    with pytest.raises(InvalidInputError, match="unknown requirement"):
        judge(evidence_of(), {"requirements": {"ece": {"limit": 0.1}}})


def test_a_verdict_is_plain_json_and_reads_back(evidence_of: Build) -> None:
    """P2, P3."""
    for record in (evidence_of(), evidence_of(error=0.2), evidence_of(n=40, n_groups=None), None, {"a": math.nan}):
        verdict = at(record)
        text = verdict.to_json()
        assert "NaN" not in text
        document = json.loads(text)
        assert document["schema"] == "mlflow_calib.verdict/1"
        assert Verdict.from_dict(document) == verdict
        assert Verdict.from_dict(document).blocks == verdict.blocks == document["blocks"]


def test_a_verdict_that_contradicts_itself_is_refused(evidence_of: Build) -> None:
    document = at(evidence_of(error=0.2)).to_dict()
    for change in (
        {"status": "pass"},
        {"blocks": False},
        {"mode": "off"},
        {"schema": "x"},
        {"requirements": []},
        {"status": 3},
    ):
        with pytest.raises(EvidenceError):
            Verdict.from_dict({**document, **change})
    document["requirements"][0]["actual"] = math.nan
    with pytest.raises(EvidenceError, match="actual must be a finite number or null"):
        Verdict.from_dict(document)
    for name in ("status", "candidate", "requirements", "judged_at"):
        with pytest.raises(EvidenceError, match=f"{name} is missing"):
            Verdict.from_dict({key: value for key, value in document.items() if key != name})
    with pytest.raises(EvidenceError):
        Verdict.from_dict(None)


# The calibration error


def test_calibration_error_passes_fails_or_neither(evidence_of: Build) -> None:
    assert one(evidence_of(), ERROR).status == "pass"
    assert one(evidence_of(error=0.2), ERROR).status == "fail"
    between = one(evidence_of(error=0.05), ERROR)
    assert between.status == "inconclusive"
    assert between.lower is not None
    assert between.upper is not None
    assert between.lower < 0.05 < between.upper


@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_bounds_are_recomputed_at_the_policy_s_level_and_boundaries_are_exact(
    evidence_of: Build, by_group: bool, squared: bool, level: float
) -> None:
    record = evidence_of(error=0.1)
    s = ErrorStatistics.from_dict(record["estimates"]["candidate"]["statistics"])
    squares = (
        intervals.squared_lower_bound(s, level, by_group),
        intervals.squared_upper_bound(s, level, by_group),
    )
    lower, upper = (value if squared else math.sqrt(value or 0.0) for value in squares)
    assert lower is not None
    assert upper is not None
    settings = {"confidence_level": level, "squared": squared, "by_group": by_group}

    def status(limit: float) -> str:
        return one(record, ERROR, limit=limit, **settings).status

    assert status(upper) == "pass"
    assert status(math.nextafter(upper, 0)) == "inconclusive"
    assert status(lower) == "inconclusive"
    assert status(math.nextafter(lower, 0)) == "fail"
    found = one(record, ERROR, limit=0.02, **settings)
    assert (found.lower, found.upper, found.n) == (lower, upper, 6000)
    assert found.actual == (intervals.debiased_squared(s) if squared else math.sqrt(intervals.debiased_squared(s)))


def test_the_scale_of_the_limit_is_that_of_the_policy(evidence_of: Build) -> None:
    record = evidence_of(error=0.1)
    assert one(record, ERROR, limit=0.2).status == "pass"
    assert one(record, ERROR, limit=0.02, squared=True).status == "pass"
    assert one(record, ERROR, limit=0.02).status == "fail"
    assert one(record, ERROR, limit=0.02, squared=True).sentence.startswith(
        "squared calibration error at most 0.02 asked"
    )


def test_the_shown_bounds_of_the_record_are_not_what_is_judged(evidence_of: Build) -> None:
    record = evidence_of(error=0.2)
    record["estimates"]["candidate"].update(upper_bound=0.0, lower_bound=0.0)
    assert one(record, ERROR).status == "fail"


def test_inconclusive_says_what_would_settle_it(evidence_of: Build) -> None:
    """N14: few rows show noise, and the sentence says how much."""
    found = one(evidence_of(n=600, n_groups=None, error=0.06), ERROR)
    assert found.status == "inconclusive"
    assert "about 6,000 more rows like these would settle it as a pass" in found.sentence
    assert "a model without calibration error would show a bound of" in found.sentence
    assert "95 % bounds by row" in found.sentence


def test_thin_data_neither_pass_nor_fail(evidence_of: Build) -> None:
    for error in (0.0, 0.3):
        found = one(evidence_of(error=error, n_groups=10), ERROR, limit=0.1)
        assert found.status == "inconclusive"
        assert "too thin, 10 groups" in found.sentence
        assert found.upper is not None


def test_unusable_data_have_no_bound(evidence_of: Build) -> None:
    """N21: a gate on the debiased error of 0 would pass."""
    record = evidence_of(n=40, n_groups=None)
    found = one(record, ERROR, limit=1.0)
    assert (found.status, found.lower, found.upper, found.n) == ("inconclusive", None, None, 40)
    assert "no bound, 40 rows in 10 bins" in found.sentence


def test_a_lower_bound_of_the_error_never_meets_a_limit(evidence_of: Build) -> None:
    record = evidence_of()
    record["estimates"]["candidate"]["lower_bound_of_calibration_error"] = True
    assert one(record, ERROR, limit=1.0).status == "inconclusive"
    assert "cannot meet a limit" in one(record, ERROR, limit=1.0).sentence
    record = evidence_of(error=0.2)
    record["estimates"]["candidate"]["lower_bound_of_calibration_error"] = True
    assert one(record, ERROR).status == "fail"


def test_by_group_is_the_default_where_there_are_groups_and_needs_their_moments(evidence_of: Build) -> None:
    record = evidence_of(error=0.03)
    asked, silent, by_row = (one(record, ERROR, by_group=value) for value in (True, None, False))
    assert asked == silent != by_row
    assert "by day" in silent.sentence
    assert "by row" in by_row.sentence
    assert "by row" in one(evidence_of(n_groups=None), ERROR).sentence
    missing = one(evidence_of(n_groups=None), ERROR, by_group=True)
    assert missing.status == "no verdict"
    assert "no group moments" in missing.sentence
    record["estimates"]["candidate"]["statistics"]["groups"] = None
    record["estimates"]["candidate"]["bound_kind"] = "rows"
    assert check_evidence(record) == []
    assert one(record, ERROR).status == "no verdict"


def test_evidence_of_another_reduction_gives_no_verdict(evidence_of: Build) -> None:
    found = one(evidence_of(), ERROR, reduction="marginal")
    assert found.status == "no verdict"
    assert "of the binary error, not of the marginal one" in found.sentence


# The mean squared error against the champion's


def _compared(record: dict[str, Any], mean: float, error: float) -> dict[str, Any]:
    difference = PairedDifference(mean, error, 29, record["data"]["n"], 30)
    record["comparisons"][INCREASE] = difference.to_dict()
    record["estimates"]["champion"]["mse"] = record["estimates"]["candidate"]["mse"] - mean
    return record


def test_mse_increase_boundaries(evidence_of: Build) -> None:
    record = _compared(evidence_of(), 0.001, 0.0005)
    difference = PairedDifference.from_dict(record["comparisons"][INCREASE])
    upper, lower = difference.upper_bound(0.9), difference.lower_bound(0.9)
    assert upper is not None
    assert lower is not None
    expected = {
        upper: "pass",
        math.nextafter(upper, -1): "inconclusive",
        lower: "inconclusive",
        math.nextafter(lower, -1): "fail",
    }
    for limit, status in expected.items():
        found = one(record, INCREASE, limit=limit, confidence_level=0.9)
        assert (found.status, found.actual, found.lower, found.upper) == (status, 0.001, lower, upper)


def test_mse_increase_by_default(evidence_of: Build) -> None:
    """DESIGN 10: lower calibration error can be a worse model."""
    assert one(_compared(evidence_of(), 0.0, 0.001), INCREASE).status == "pass"
    assert one(_compared(evidence_of(), 0.01, 0.001), INCREASE).status == "fail"
    unsettled = one(_compared(evidence_of(), 0.001, 0.001), INCREASE)
    assert unsettled.status == "inconclusive"
    # t_29 = 1.699: the half width .001699 must shrink to .001, 6000 (1.699^2 - 1) = 11,320 rows
    assert "about 12,000 more rows like these would settle it as a pass" in unsettled.sentence
    at_limit = one(_compared(evidence_of(), 0.002, 0.001), INCREASE)
    assert "more rows alone may not settle it" in at_limit.sentence


def test_comparisons_that_cannot_be_made(evidence_of: Build, champions: dict[str, Any]) -> None:
    first = one(evidence_of(champion=champions["none"]), INCREASE)
    assert (first.status, first.upper) == ("not applicable", None)
    assert at(evidence_of(champion=champions["none"])).status == "pass"
    assert at(evidence_of(champion=champions["none"], error=0.2)).status == "fail"

    unknown = one(evidence_of(champion=None), INCREASE)
    assert unknown.status == "no verdict"
    assert "the champion was not looked up" in unknown.sentence
    assert at(evidence_of(champion=None), {"requirements": {INCREASE: {"enabled": False}}}).status == "pass"

    record = evidence_of()
    record["comparisons"][INCREASE] = None
    assert one(record, INCREASE).status == "no verdict"
    by_row = evidence_of()
    by_row["comparisons"][INCREASE].update(n_groups=None, degrees_of_freedom=5999)
    assert one(by_row, INCREASE).status == "no verdict"
    assert "the comparison went by row" in one(by_row, INCREASE).sentence


def test_a_champion_recalibrated_on_these_rows_cannot_be_compared(evidence_of: Build) -> None:
    for mean in (0.0, 0.01):
        record = _compared(evidence_of(), mean, 0.0001)
        record["champion"]["n_evaluation_rows_in_its_recalibration_data"] = 7
        record["overlap"]["champion_recalibration"] = 7
        found = one(record, INCREASE)
        assert found.status == "inconclusive"
        assert "recalibrated on 7 of these 6,000 rows" in found.sentence


def test_an_unverified_overlap_is_said(evidence_of: Build) -> None:
    record = _compared(evidence_of(), 0.0, 0.001)
    record["champion"]["n_evaluation_rows_in_its_recalibration_data"] = None
    record["overlap"]["champion_recalibration"] = None
    found = one(record, INCREASE)
    assert found.status == "pass"
    assert "unverified" in found.sentence


def test_a_single_group_has_no_bound(evidence_of: Build) -> None:
    record = evidence_of(n_groups=1)
    assert one(record, INCREASE).status == "inconclusive"
    assert one(record, ERROR).status == "inconclusive"


# Rows and age


def test_too_few_rows_are_inconclusive(evidence_of: Build) -> None:
    assert one(evidence_of(), ROWS, limit=6000).status == "pass"
    few = one(evidence_of(), ROWS, limit=6001)
    assert (few.status, few.actual, few.n) == ("inconclusive", 6000, 6000)
    assert few.sentence == "at least 6,001 evaluation rows asked; 6,000 rows: inconclusive; 1 more are needed"


@pytest.mark.parametrize(
    ("days", "status"),
    [(0, "pass"), (6.9, "pass"), (7, "pass"), (7.0001, "no verdict"), (400, "no verdict"), (-1, "no verdict")],
)
def test_stale_evidence_and_evidence_from_the_future_give_no_verdict(
    evidence_of: Build, days: float, status: str
) -> None:
    found = one(evidence_of(), AGE, days=days, limit=7)
    assert found.status == status
    assert found.actual == pytest.approx(days)


def test_clocks_may_differ_by_minutes(evidence_of: Build) -> None:
    assert one(evidence_of(), AGE, days=-4 / 1440).status == "pass"
    assert one(evidence_of(), AGE, days=-6 / 1440).status == "no verdict"


def test_the_written_figures_stand_on_the_side_of_the_limit_that_they_are_on(evidence_of: Build) -> None:
    stale = one(evidence_of(), AGE, days=7.0001).sentence
    assert "evaluated 7.0001 days ago" in stale
    upper = one(evidence_of(), ERROR).upper
    assert upper is not None
    limit = round(upper, 3)
    shown = one(evidence_of(), ERROR, limit=limit).sentence
    assert f"at most {limit:g} asked" in shown
    figures = [float(word.rstrip(":;,")) for word in shown.split() if word.startswith("0.")]
    assert any((figure > limit) == (upper > limit) and figure != limit for figure in figures[1:])


# The champion itself


@pytest.mark.parametrize(
    ("kind", "champion_error", "status"),
    [
        ("calibrated", 0.2, "past the limit"),
        ("calibrated", 0.05, "not shown within"),
        ("calibrated", 0.0, "within"),
        ("raw", 0.2, "past the limit"),
        ("raw", 0.0, "not shown within"),
        ("none", 0.0, "none"),
        (None, 0.0, "not judged"),
    ],
)
def test_the_champion_against_the_same_limit(
    evidence_of: Build, champions: dict[str, Any], kind: str | None, champion_error: float, status: str
) -> None:
    record = evidence_of(champion=kind and champions[kind], champion_error=champion_error)
    verdict = at(record)
    assert verdict.champion_status == status
    assert verdict.sentence.endswith(f"; {verdict.champion_sentence}") is (status == "past the limit")
    if status == "past the limit":
        assert "champion flights version 1 is past the limit of 0.05: lower 95 % bound by day" in verdict.sentence


def test_a_champion_is_never_within_on_rows_it_was_recalibrated_on(evidence_of: Build) -> None:
    record = evidence_of(champion_error=0.0)
    record["champion"]["n_evaluation_rows_in_its_recalibration_data"] = 7
    record["overlap"]["champion_recalibration"] = 7
    assert at(record).champion_status == "not shown within"


def test_a_champion_without_an_estimate_is_not_shown_within(evidence_of: Build) -> None:
    record = evidence_of()
    record["estimates"]["champion"] = None
    assert at(record).champion_status == "not judged", "a record that lacks it is damaged"
    mse = record["estimates"]["base"]["mse"]  # as the comparison has it
    thin = estimate_entry(ErrorStatistics([6000], [3000], [0.9]), mse, by_group=False)
    record["estimates"]["champion"] = thin
    record["comparisons"]["calibration_error_increase_over_champion"] = None
    assert at(record).champion_status == "not shown within"
    assert at(record, {"requirements": {ERROR: {"by_group": False}}}).champion_status == "past the limit"
    assert at(record, {"requirements": {ERROR: {"enabled": False}}}).champion_status == "not judged"


# Closed on damage


@pytest.mark.parametrize(
    "evidence", [None, "", "no JSON", "[]", "null", "NaN", '{"a": NaN}', [], 3, {}, "[" * 100_000, {"a": {1, 2}}, b"{}"]
)
def test_what_is_no_evidence_gives_no_verdict(evidence: Any) -> None:
    verdict = judge(evidence)
    assert (verdict.status, verdict.blocks) == ("no verdict", True)
    assert verdict.reasons
    enabled = [name for name, requirement in Policy.default().requirements.items() if requirement.enabled]
    assert {verdict.requirement(name).status for name in enabled} == {"no verdict"}
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict


def test_a_damaged_record_keeps_the_candidate_s_name_and_every_problem(evidence_of: Build) -> None:
    record = evidence_of()
    record["data"]["n"] = math.inf
    record["estimates"]["candidate"]["mse"] = None
    verdict = at(record)
    assert verdict.candidate is not None
    assert verdict.candidate["name"] == "flights"
    assert verdict.sentence.startswith("flights version 2: no verdict: ")
    assert any("data.n" in reason for reason in verdict.reasons)
    assert any("candidate.mse" in reason for reason in verdict.reasons)
    assert verdict.evidence_digest is None


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a record, leaves and branches; of a moment matrix two rows stand for all."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if not (path and path[-1] == "M" and key > 1):
            yield from _places(item, (*path, key))


def _damaged(record: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    copied = copy.deepcopy(record)
    target: Any = copied
    for key in path[:-1]:
        target = target[key]
    change(target, path[-1])
    return copied


def _to(value: Any) -> Callable[[Any, Any], None]:
    def change(target: Any, key: Any) -> None:
        target[key] = value

    return change


def _delete(target: Any, key: Any) -> None:
    del target[key]


#: Fields of an estimate that may be null: not evaluated, or not of this reduction.
FREE = ("log_loss", "classes", "terms")
#: Places that no requirement of the default policy reads and that may be null.
MAY_BE_NULL = {
    "run_id",
    "candidate.model_id",
    "candidate.base_model_uri",
    "candidate.base_model_id",
    "champion.model_id",
    "champion.digest",
    "data.group_column",
    "data.evaluation_period",
    "data.recalibration_period",
    "overlap.base_training",
    "estimates.base",
    "estimates.rival",
    "estimates.champion",
    "ranking",
    "slices",
    *(
        f"comparisons.{what}_increase_over_{other}{field}"
        for what in ("mse", "log_loss", "calibration_error")
        for other in ("champion", "base")
        for field in ("", ".n_groups")
        if (what, other) != ("mse", "champion")
    ),
    *(f"estimates.{name}.{field}" for name in ("candidate", "base", "rival", "champion") for field in FREE),
    *(f"estimates.{name}.reason" for name in ("candidate", "base", "rival", "champion")),
    *(f"estimates.{name}.statistics.groups" for name in ("base", "rival", "champion")),
}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "delete"], ids=str)
def test_no_figure_no_pass(evidence_of: Build, value: Any) -> None:
    """Every place of a passing record, deleted or made not finite: no verdict, and never an exception."""
    record = evidence_of()
    assert at(record).status == "pass"
    change = _delete if value == "delete" else _to(value)
    for path in _places(record):
        if path == ("ranking",) and value == "delete":  # no requirement reads it, and it may be left out
            continue
        verdict = at(_damaged(record, path, change))
        assert verdict.status == "no verdict", path
        assert verdict.blocks


@pytest.mark.parametrize("value", [None, "", {}, [], "x", True, -1], ids=repr)
def test_no_pass_on_what_is_not_a_figure(evidence_of: Build, value: Any) -> None:
    """The same with values of the wrong kind; null is read as it is documented."""
    record = evidence_of()
    for path in _places(record):
        name = ".".join(map(str, path))
        changed = _damaged(record, path, _to(value))
        verdict = at(changed)
        if verdict.status == "pass":
            unread = (value is None and name in MAY_BE_NULL) or _same_kind(record, path, value)
            assert unread, (name, value)


def _same_kind(record: Any, path: tuple[Any, ...], value: Any) -> bool:
    """A text for a text, a truth for a truth, or a signed number where one is allowed: not damage."""
    for key in path:
        record = record[key]
    if isinstance(value, str):
        return value != "" and (isinstance(record, str) or path[-1] == "reason")
    if isinstance(value, bool):
        return isinstance(record, bool)
    signed = path[-1] in ("squared_debiased", "mean", "squared_mean", "skewness") or "M" in path
    return isinstance(value, int) and signed
