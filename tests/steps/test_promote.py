"""promote: the alias moves for the version that was judged, past the champion it was compared with, or not at all."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.errors import EvidenceError, InvalidInputError, PromotionRefusedError
from mlflow_calib.flavor.records import log_record, read_record
from mlflow_calib.flavor.tracking import connected
from mlflow_calib.steps import evaluate, fit, gate, promote

PASSING = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
FAILING = {"requirements": {"mse_increase_over_champion": {"limit": -0.9}}}


@pytest.fixture
def passed(judged: Any) -> dict[str, Any]:
    return gate(judged.evidence, policy=PASSING, server=judged.world.server)


def test_the_record_says_what_was_done_and_on_what(judged: Any, passed: dict[str, Any]) -> None:
    handed = promote(judged.candidate, passed, promoted_by="anna", server=judged.world.server)
    assert (handed["promoted"], handed["version"], handed["previous_version"]) == (True, "2", "1")
    assert judged.world.champion() == "2"
    record = read_record(judged.world.server, handed["uri"], handed["sha256"])
    assert record["schema"] == "mlflow_calib.promotion/1"
    assert (record["promoted"], record["promoted_by"], record["previous_version"]) == (True, "anna", "1")
    assert record["verdict"] == {"uri": passed["uri"], "sha256": passed["sha256"], "status": "pass", "mode": "enforce"}
    assert record["evidence"]["sha256"] == judged.evidence["sha256"]
    tags = judged.world.tags("2")
    assert tags["mlflow_calib.promotion.record"] == handed["uri"]
    assert tags["mlflow_calib.promotion.previous_version"] == "1"
    assert len(json.dumps(handed).encode()) < 1024


def test_a_second_call_returns_the_same(judged: Any, passed: dict[str, Any]) -> None:
    first = promote(judged.candidate, passed, promoted_by="anna", server=judged.world.server)
    second = promote(judged.candidate, passed, promoted_by="anna", server=judged.world.server)
    assert second == first
    assert judged.world.champion() == "2"


@pytest.mark.parametrize("policy", [FAILING, {"requirements": {"calibration_error_upper_bound": {"limit": 0.015}}}])
def test_a_verdict_that_blocks_is_refused_with_its_sentence(judged: Any, policy: dict[str, Any]) -> None:
    blocked = gate(judged.evidence, policy=policy, server=judged.world.server)
    with pytest.raises(PromotionRefusedError) as error:
        promote(judged.candidate, blocked, server=judged.world.server)
    assert blocked["reason"].removesuffix("...") in str(error.value)
    assert judged.world.champion() == "1"


def test_what_the_hand_over_claims_does_not_count(judged: Any) -> None:
    """The record is read: a dict that says it passed does not make it so."""
    blocked = gate(judged.evidence, policy=FAILING, server=judged.world.server)
    with pytest.raises(PromotionRefusedError, match="the verdict blocks"):
        promote(judged.candidate, {**blocked, "status": "pass", "blocks": False}, server=judged.world.server)
    assert judged.world.champion() == "1"


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        ({**FAILING, "mode": "dry-run"}, "dry-run: the alias stays; enforce would have refused (verdict: fail)"),
        ({**PASSING, "mode": "dry-run"}, "dry-run: the alias stays; enforce would have promoted (verdict: pass)"),
        ({**FAILING, "mode": "off"}, "off: nothing was judged, nothing could block"),
        (PASSING, None),
    ],
    ids=["dry-run fail", "dry-run pass", "off", "enforce"],
)
def test_what_is_done_without_enforcing_is_said(
    judged: Any, caplog: pytest.LogCaptureFixture, policy: dict[str, Any], note: str | None
) -> None:
    """In the record, the hand-over, the tags and the log."""
    verdict = gate(judged.evidence, policy=policy, server=judged.world.server)
    with caplog.at_level("INFO", "mlflow_calib"):
        handed = promote(judged.candidate, verdict, server=judged.world.server)
    record = read_record(judged.world.server, handed["uri"])
    assert (record["verdict"]["status"], record["verdict"]["mode"]) == (verdict["status"], verdict["mode"])
    assert (record["note"], handed["note"]) == (note, note)
    assert (note or ": pass") in caplog.text
    moves = policy.get("mode") != "dry-run"
    assert (handed["promoted"], record["promoted"], judged.world.champion()) == (moves, moves, "2" if moves else "1")
    assert judged.world.tags("2").get("mlflow_calib.promotion.note") == ((note or "null") if moves else None)
    assert handed["previous_version"] == "1"


def test_another_gate_leaves_the_status_of_the_champion(judged: Any, passed: dict[str, Any]) -> None:
    """A stricter policy tried on the version in use takes nothing back that the promotion said of it."""
    promote(judged.candidate, passed, server=judged.world.server)
    assert gate(judged.evidence, policy=FAILING, server=judged.world.server)["status"] == "fail"
    assert judged.world.tags("2")["mlflow_calib.status"] == "champion"
    assert judged.world.tags("2")["mlflow_calib.gate.status"] == "fail"


def test_a_champion_that_changed_since_the_evidence_is_not_replaced(judged: Any, passed: dict[str, Any]) -> None:
    """Between gate and promotion somebody else has promoted: the comparison is with a model that is no longer there."""
    other = fit(judged.world.partitions, name="games", calibrator={"n_bins": 5}, server=judged.world.server)
    judged.world.client.set_registered_model_alias("games", "champion", other["version"])
    with pytest.raises(PromotionRefusedError, match=r"must still point at version 1.*points at version 3"):
        promote(judged.candidate, passed, server=judged.world.server)
    assert judged.world.champion() == "3"


def test_a_champion_that_is_gone_is_not_replaced_either(judged: Any, passed: dict[str, Any]) -> None:
    judged.world.client.delete_registered_model_alias("games", "champion")
    with pytest.raises(PromotionRefusedError, match="points at no version"):
        promote(judged.candidate, passed, server=judged.world.server)
    assert judged.world.champion() is None


def test_the_verdict_on_another_version_is_refused(judged: Any, passed: dict[str, Any]) -> None:
    other = fit(judged.world.partitions, name="games", calibrator={"n_bins": 5}, server=judged.world.server)
    with pytest.raises(PromotionRefusedError, match="the verdict must be on models:/games/3"):
        promote(other, passed, server=judged.world.server)
    assert judged.world.champion() == "1"


def test_a_verdict_that_was_changed_is_refused(judged: Any) -> None:
    """Tampered in place: the digest of the hand-over no longer fits; without one, its parts contradict each other."""
    blocked = gate(judged.evidence, policy=FAILING, server=judged.world.server)
    record = read_record(judged.world.server, blocked["uri"])
    forged = {**record, "status": "pass", "blocks": False}
    uri, _ = log_record(judged.world.server, blocked["run_id"], "mlflow_calib/verdict.json", forged)
    with pytest.raises(EvidenceError, match="it was changed after it was handed over"):
        promote(judged.candidate, blocked, server=judged.world.server)
    with pytest.raises(EvidenceError, match="contradicts"):
        promote(judged.candidate, uri, server=judged.world.server)
    assert judged.world.champion() == "1"


def test_an_edited_verdict_by_its_uri_is_refused(judged: Any, tmp_path: Path) -> None:
    """No hand-over says a digest, and its parts agree: the tag that the gate left on the version says what it is."""
    passing = {**PASSING, "mode": "dry-run"}
    record = read_record(judged.world.server, gate(judged.evidence, policy=passing, server=judged.world.server)["uri"])
    blocked = gate(judged.evidence, policy=FAILING, server=judged.world.server)
    edited = tmp_path / "verdict.json"
    edited.write_text(json.dumps({**record, "mode": "enforce"}))
    with pytest.raises(PromotionRefusedError, match="must be the one that the gate left last"):
        promote(judged.candidate, str(edited), server=judged.world.server)
    with pytest.raises(PromotionRefusedError, match="the verdict blocks"):
        promote(judged.candidate, blocked["uri"], server=judged.world.server)
    judged.world.client.delete_model_version_tag("games", "2", "mlflow_calib.gate.verdict_sha256")
    with pytest.raises(PromotionRefusedError, match=r"has no tag mlflow_calib\.gate\.verdict_sha256; run the gate"):
        promote(judged.candidate, str(edited), server=judged.world.server)
    assert judged.world.champion() == "1"


def test_a_verdict_that_names_another_run_is_refused(judged: Any, passed: dict[str, Any], tmp_path: Path) -> None:
    record = read_record(judged.world.server, passed["uri"])
    edited = tmp_path / "verdict.json"
    edited.write_text(json.dumps({**record, "run_id": "another"}))
    with pytest.raises(PromotionRefusedError, match="run_id 'another'"):
        promote(judged.candidate, str(edited), server=judged.world.server)


@pytest.mark.parametrize("part", ["base_model/MLmodel", "calibrator.json"])
def test_a_model_that_was_changed_after_its_evaluation_is_refused(
    judged: Any, passed: dict[str, Any], part: str
) -> None:
    location = judged.world.client.get_logged_model(judged.candidate["model_id"]).artifact_location
    path = Path(location.removeprefix("file://")) / "data/bundle" / part
    path.write_text(path.read_text() + "\n")
    with pytest.raises((EvidenceError, PromotionRefusedError), match="digest"):
        promote(judged.candidate["model_uri"], passed, server=judged.world.server)
    assert judged.world.champion() == "1"


def test_a_verdict_ages(judged: Any, passed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven days from the evaluation, not from the verdict; a promotion that was done before stays done."""
    judged_at = datetime.fromisoformat(read_record(judged.world.server, passed["uri"])["judged_at"])

    def at(days: float) -> None:
        monkeypatch.setattr(
            sys.modules["mlflow_calib.steps.given_verdict"], "_now", lambda: judged_at + timedelta(days)
        )

    for days in (7.0, 365.0, -1.0):
        at(days)
        with pytest.raises(PromotionRefusedError, match=r"evidence at most 7 days old asked.*evaluate again"):
            promote(judged.candidate, passed, server=judged.world.server)
    assert judged.world.champion() == "1"
    at(6.9)
    first = promote(judged.candidate, passed, server=judged.world.server)
    assert judged.world.champion() == "2"
    at(30)
    assert promote(judged.candidate, passed, server=judged.world.server) == first


def test_an_age_that_nobody_asked_about_does_not_count(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = {"requirements": {**PASSING["requirements"], "evidence_age_days": {"enabled": False}}}
    verdict = gate(judged.evidence, policy=policy, server=judged.world.server)
    later = datetime.now(timezone.utc) + timedelta(days=365)
    monkeypatch.setattr(sys.modules["mlflow_calib.steps.given_verdict"], "_now", lambda: later)
    assert promote(judged.candidate, verdict, server=judged.world.server)["promoted"] is True


def test_a_copied_version_shares_nothing_with_the_verdict(judged: Any, passed: dict[str, Any]) -> None:
    with connected(judged.world.server) as client:
        client.copy_model_version("models:/games/2", "prod")
    with pytest.raises(PromotionRefusedError, match="the verdict must be on models:/prod/1"):
        promote("models:/prod/1", passed, server=judged.world.server)


@pytest.mark.parametrize("alias", [" ", "a b", "latest", "v1", "x" * 256, None])
def test_an_alias_that_no_model_can_have_is_refused_first(judged: Any, passed: dict[str, Any], alias: Any) -> None:
    with pytest.raises(InvalidInputError, match="alias must be the name of an alias"):
        promote(judged.candidate, passed, alias=alias, server=judged.world.server)
    paths = [file.path for file in judged.world.client.list_artifacts(judged.candidate["run_id"], "mlflow_calib")]
    assert "mlflow_calib/promotion.json" not in paths


def test_evidence_that_was_changed_since_the_verdict_carries_it_no_longer(judged: Any, passed: dict[str, Any]) -> None:
    record = read_record(judged.world.server, judged.evidence["uri"])
    log_record(
        judged.world.server, judged.evidence["run_id"], "mlflow_calib/evidence.json", {**record, "reduction": "x"}
    )
    with pytest.raises(EvidenceError, match="must have digest"):
        promote(judged.candidate, passed, server=judged.world.server)
    assert judged.world.champion() == "1"


def test_the_alias_never_moves_where_the_record_cannot_be_written(
    judged: Any, passed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError("no space left on the artifact store")

    monkeypatch.setattr(sys.modules["mlflow_calib.steps.asked"], "log_record", full)
    with pytest.raises(OSError, match="no space left"):
        promote(judged.candidate, passed, server=judged.world.server)
    assert judged.world.champion() == "1"


def test_a_promotion_that_broke_after_the_move_is_finished_by_a_retry(
    judged: Any, passed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ConnectionError("the registry does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(sys.modules[promote.__module__], "tag_version", broken)
        with pytest.raises(ConnectionError):
            promote(judged.candidate, passed, server=judged.world.server)
    handed = promote(judged.candidate, passed, server=judged.world.server)
    assert (handed["promoted"], handed["previous_version"]) == (True, "1")
    assert judged.world.tags("2")["mlflow_calib.promotion.record"] == handed["uri"]


def test_a_promotion_that_broke_right_after_the_move_remembers_who_stood_there(
    judged: Any, passed: dict[str, Any]
) -> None:
    """The alias has moved and nothing is written yet: the retry writes the champion of the evidence as previous."""
    judged.world.client.set_registered_model_alias("games", "champion", "2")
    assert promote(judged.candidate, passed, server=judged.world.server)["previous_version"] == "1"


def test_another_alias_that_stands_nowhere_was_compared_with_nobody(judged: Any, passed: dict[str, Any]) -> None:
    """The evidence compared with version 1; an alias that points nowhere is not that."""
    with pytest.raises(PromotionRefusedError, match=r"'staging'.*must still point at version 1"):
        promote(judged.candidate, passed, alias="staging", server=judged.world.server)


def test_candidate_and_verdict_by_uri(judged: Any, passed: dict[str, Any]) -> None:
    handed = promote("models:/games/2", passed["uri"], server=judged.world.server)
    assert (handed["version"], judged.world.champion()) == ("2", "2")


def test_a_policy_without_comparison_needs_no_champion_in_the_evidence(
    judged: Any, games: Any, tmp_path: Any, steps_helpers: Any
) -> None:
    world = judged.world
    partitions = steps_helpers.scored_and_split(world.server, games, tmp_path, champion=None)
    candidate = fit(partitions, name="games", server=world.server)
    evidence = evaluate(partitions, candidate, server=world.server)
    assert gate(evidence, policy=PASSING, server=world.server)["status"] == "no verdict", "nobody was compared with"
    policy = {"requirements": {**PASSING["requirements"], "mse_increase_over_champion": {"enabled": False}}}
    verdict = gate(evidence, policy=policy, server=world.server)
    assert verdict["status"] == "pass"
    assert promote(candidate, verdict, server=world.server)["previous_version"] == "1"
