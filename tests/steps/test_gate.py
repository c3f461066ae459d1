"""gate: a verdict on the evidence that was handed over, of the version that is registered, or none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.core.verdict import Verdict
from mlflow_calib.errors import DataError, EvidenceError, InvalidInputError, ModelError, PromotionRefusedError
from mlflow_calib.flavor.records import log_record, read_record
from mlflow_calib.steps import evaluate, fit, gate, promote
from mlflow_calib.steps.hand_over import shortened

PASSING = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
UNDECIDED = {"requirements": {"calibration_error_upper_bound": {"limit": 0.015}}}
FAILING = {
    "requirements": {"calibration_error_upper_bound": {"limit": 0.10}, "mse_increase_over_champion": {"limit": -0.9}}
}


def evidence_with(judged: Any, change: dict[str, Any], *, tagged: bool = True) -> dict[str, Any]:
    """The hand-over of a record that differs in some fields, logged and tagged as if ``evaluate`` had left it."""
    record = read_record(judged.world.server, judged.evidence["uri"])
    changed = {
        **record,
        **{name: {**record[name], **value} if isinstance(value, dict) else value for name, value in change.items()},
    }
    uri, sha256 = log_record(judged.world.server, judged.evidence["run_id"], "mlflow_calib/other.json", changed)
    if tagged:
        judged.world.client.set_model_version_tag("games", "2", "mlflow_calib.evidence_sha256", sha256)
    return {**judged.evidence, "uri": uri, "sha256": sha256}


@pytest.mark.parametrize(
    ("policy", "status", "blocks", "version_status"),
    [
        (PASSING, "pass", False, "passed"),
        (UNDECIDED, "inconclusive", True, "refused"),
        (FAILING, "fail", True, "refused"),
        ({**FAILING, "mode": "dry-run"}, "fail", False, "candidate"),
        ({**PASSING, "mode": "dry-run"}, "pass", False, "passed"),
        ({**FAILING, "mode": "off"}, "no verdict", False, "candidate"),
    ],
    ids=["pass", "inconclusive", "fail", "dry-run fail", "dry-run pass", "off"],
)
def test_the_verdict_stands_on_run_and_version(
    judged: Any, policy: dict[str, Any], status: str, blocks: bool, version_status: str
) -> None:
    handed = gate(judged.evidence, policy=policy, server=judged.world.server)
    assert (handed["status"], handed["blocks"], handed["mode"]) == (status, blocks, policy.get("mode", "enforce"))
    tags = judged.world.tags("2")
    assert tags["mlflow_calib.status"] == version_status
    assert tags["mlflow_calib.gate.status"] == status
    assert tags["mlflow_calib.gate.mode"] == policy.get("mode", "enforce")
    record = read_record(judged.world.server, handed["uri"], handed["sha256"])
    assert Verdict.from_dict(record).blocks is blocks
    assert record["evidence"] == {"uri": judged.evidence["uri"], "sha256": judged.evidence["sha256"]}
    assert handed["reason"].removesuffix("...") in judged.world.client.get_model_version("games", "2").description
    assert judged.world.champion() == "1", "a gate moves nothing"


def test_the_tags_carry_the_figures(judged: Any) -> None:
    handed = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    tags = {
        name.removeprefix("mlflow_calib.gate."): value
        for name, value in judged.world.tags("2").items()
        if name.startswith("mlflow_calib.gate.")
    }
    assert set(tags) >= {
        "status",
        "policy",
        "evidence",
        "estimate",
        "upper_bound",
        "limit",
        "n",
        "evaluated_at",
        "reason",
    }
    assert float(tags["upper_bound"]) == handed["upper_bound"] == judged.evidence["upper_bound"]
    assert float(tags["estimate"]) == handed["calibration_error"] == judged.evidence["calibration_error"]
    assert (float(tags["limit"]), int(tags["n"])) == (0.10, judged.evidence["n"])
    assert tags["evidence"] == judged.evidence["uri"]
    assert tags["policy"].startswith("sha256:")


def test_figures_of_an_earlier_verdict_do_not_stay(judged: Any) -> None:
    gate(judged.evidence, policy=PASSING, server=judged.world.server)
    gate(judged.evidence, policy={"mode": "off"}, server=judged.world.server)
    assert judged.world.tags("2")["mlflow_calib.gate.upper_bound"] == "null"


def test_a_retry_adds_no_second_line(judged: Any) -> None:
    def description() -> str:
        return judged.world.client.get_model_version("games", "2").description

    judged.world.client.update_model_version("games", "2", description="Written by a person.")
    gate(judged.evidence, policy=PASSING, server=judged.world.server)
    once = description()
    gate(judged.evidence, policy=PASSING, server=judged.world.server)
    assert description() == once
    gate(judged.evidence, policy=UNDECIDED, server=judged.world.server)
    lines = description().splitlines()
    assert lines[0] == "Written by a person."
    assert ["pass" in lines[1], "inconclusive" in lines[2], len(lines)] == [True, True, 3]


def test_a_policy_as_toml_json_or_text(judged: Any, tmp_path: Path) -> None:
    toml = tmp_path / "policy.toml"
    toml.write_text("[requirements.calibration_error_upper_bound]\nlimit = 0.10\n")
    as_json = tmp_path / "policy.json"
    as_json.write_text(json.dumps(PASSING))
    for policy in (str(toml), as_json.as_uri(), json.dumps(PASSING)):
        assert gate(judged.evidence, policy=policy, server=judged.world.server)["limit"] == 0.10
    assert gate(judged.evidence, server=judged.world.server)["limit"] == 0.05, "the default"


def test_a_wrong_policy_is_named_with_all_its_mistakes(judged: Any, tmp_path: Path) -> None:
    wrong = {"mode": "on", "requirements": {"calibration_error": {"limit": 1}, "n_evaluation": {"limit": "many"}}}
    with pytest.raises(InvalidInputError) as error:
        gate(judged.evidence, policy=wrong, server=judged.world.server)
    assert all(part in str(error.value) for part in ("mode", "calibration_error", "n_evaluation"))
    with pytest.raises(DataError, match="does not exist"):
        gate(judged.evidence, policy=str(tmp_path / "absent.toml"), server=judged.world.server)
    assert "mlflow_calib.gate.status" not in judged.world.tags("2"), "no verdict was reached, and none stands there"


def test_evidence_that_was_changed_after_it_was_handed_over_is_refused(judged: Any) -> None:
    """Tampered: another digest than the hand-over says."""
    record = read_record(judged.world.server, judged.evidence["uri"])
    record["estimates"]["candidate"]["statistics"]["k"] = record["estimates"]["candidate"]["statistics"]["n"]
    uri, _ = log_record(judged.world.server, judged.evidence["run_id"], "mlflow_calib/forged.json", record)
    with pytest.raises(EvidenceError, match="it was changed after it was handed over"):
        gate({**judged.evidence, "uri": uri}, policy=PASSING, server=judged.world.server)
    assert "mlflow_calib.gate.status" not in judged.world.tags("2")


def test_evidence_that_is_not_there_is_refused(judged: Any) -> None:
    run_id = judged.evidence["run_id"]
    with pytest.raises(EvidenceError, match="no record at"):
        gate(f"runs:/{run_id}/mlflow_calib/absent.json", server=judged.world.server)
    with pytest.raises(InvalidInputError, match="evidence must be the result of step 'evaluate', got nothing"):
        gate(None, server=judged.world.server)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="hand over step 'evaluate'"):
        gate(judged.candidate, server=judged.world.server)


def test_evidence_of_another_version_gives_no_verdict(judged: Any) -> None:
    """Two candidates of one run of figures: the evidence of one says nothing about the other."""
    other = fit(judged.world.partitions, name="games", calibrator={"n_bins": 5}, server=judged.world.server)
    handed = {**judged.evidence, "model_uri": other["model_uri"], "version": other["version"]}
    verdict = gate(handed, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    assert "was handed over for models:/games/3" in verdict["reason"]
    assert "mlflow_calib.gate.status" not in judged.world.tags("3")


def test_evidence_of_another_model_under_the_same_version_gives_no_verdict(judged: Any) -> None:
    handed = evidence_with(judged, {"candidate": {"digest": "sha256:another"}})
    verdict = gate(handed, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    assert "speaks of a model with digest sha256:another" in verdict["reason"]
    assert judged.world.tags("2")["mlflow_calib.status"] == "refused"
    assert Verdict.from_dict(read_record(judged.world.server, verdict["uri"])).status == "no verdict"


def test_an_edited_record_by_its_uri_gives_no_verdict(judged: Any, tmp_path: Path) -> None:
    """No hand-over says a digest: the tag that evaluate left on the version does."""
    record = read_record(judged.world.server, judged.evidence["uri"])
    edited = tmp_path / "evidence.json"
    edited.write_text(json.dumps({**record, "evaluated_at": "2100-01-01T00:00:00+00:00"}))
    verdict = gate(str(edited), policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"], verdict["version"]) == ("no verdict", True, "2")
    assert "the evidence has digest sha256:" in verdict["reason"]
    assert judged.world.tags("2")["mlflow_calib.status"] == "refused"
    edited.write_text(json.dumps(record))
    assert gate(str(edited), policy=PASSING, server=judged.world.server)["status"] == "no verdict", "another text"
    assert gate(judged.evidence["uri"], policy=PASSING, server=judged.world.server)["status"] == "pass"


def test_older_evidence_of_the_same_version_gives_no_verdict(judged: Any) -> None:
    text = read_record(judged.world.server, judged.evidence["uri"])
    uri, _ = log_record(judged.world.server, judged.evidence["run_id"], "mlflow_calib/kept.json", text)
    assert gate(uri, policy=PASSING, server=judged.world.server)["status"] == "pass", "the same text elsewhere"
    policy = {"requirements": {"calibration_error_upper_bound": {"confidence_level": 0.9}}}
    evaluate(judged.world.partitions, judged.candidate, policy=policy, server=judged.world.server)
    verdict = gate(uri, policy=PASSING, server=judged.world.server)
    assert verdict["status"] == "no verdict"
    assert "or is older" in read_record(judged.world.server, verdict["uri"])["sentence"]


def test_a_version_that_was_never_evaluated_has_no_evidence(judged: Any) -> None:
    judged.world.client.delete_model_version_tag("games", "2", "mlflow_calib.evidence_sha256")
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    assert verdict["status"] == "no verdict"
    assert "has no tag mlflow_calib.evidence_sha256" in verdict["reason"]


@pytest.mark.parametrize("place", ["record", "hand-over"])
def test_a_verdict_is_never_logged_to_a_run_that_only_the_record_names(judged: Any, place: str) -> None:
    """Another run, of another model perhaps: its records stay as they are."""
    other = fit(judged.world.partitions, name="games", calibrator={"n_bins": 5}, server=judged.world.server)["run_id"]
    if place == "record":
        handed = {**evidence_with(judged, {"run_id": other}), "run_id": None}
    else:
        handed = {**judged.evidence, "run_id": other}
    verdict = gate(handed, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["run_id"]) == ("no verdict", judged.candidate["run_id"])
    assert f"names run {other}" in verdict["reason"]
    paths = [file.path for file in judged.world.client.list_artifacts(other, "mlflow_calib")]
    assert "mlflow_calib/verdict.json" not in paths


@pytest.mark.parametrize("part", ["base_model/MLmodel", "calibrator.json"])
def test_a_model_that_was_changed_after_its_evaluation_gives_no_verdict(judged: Any, part: str) -> None:
    location = judged.world.client.get_logged_model(judged.candidate["model_id"]).artifact_location
    path = Path(location.removeprefix("file://")) / "data/bundle" / part
    path.write_text(path.read_text() + "\n")
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    assert "digest" in verdict["reason"]


def test_a_deleted_run_is_named_with_the_remedy(judged: Any) -> None:
    judged.world.client.delete_run(judged.candidate["run_id"])
    for step in (
        lambda: gate(judged.evidence, server=judged.world.server),
        lambda: evaluate(judged.world.partitions, judged.candidate, server=judged.world.server),
    ):
        with pytest.raises(ModelError, match="was deleted; restore it"):
            step()


def test_evidence_of_a_version_that_is_gone_is_refused(judged: Any) -> None:
    handed = evidence_with(judged, {"candidate": {"model_uri": "models:/games/9", "version": "9"}})
    with pytest.raises(ModelError, match="models:/games/9 does not exist"):
        gate(handed, policy=PASSING, server=judged.world.server)


def test_stale_evidence_gives_no_verdict(judged: Any) -> None:
    old = evidence_with(judged, {"evaluated_at": "2020-01-01T00:00:00+00:00"})
    verdict = gate(old, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    assert "days" in verdict["reason"]


def test_damaged_evidence_gives_no_verdict(judged: Any) -> None:
    verdict = gate(evidence_with(judged, {"data": {"n": -1}}), policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)


def test_evidence_by_its_uri_alone(judged: Any) -> None:
    verdict = gate(judged.evidence["uri"], policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["version"]) == ("pass", "2")


def test_the_level_of_the_policy_decides_not_that_of_the_evaluation(judged: Any) -> None:
    """Bounds are recomputed from the statistics: evidence gathered at 95 % is judged at 99 %."""
    at_95 = evaluate(judged.world.partitions, judged.candidate, server=judged.world.server)
    policy = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10, "confidence_level": 0.99}}}
    verdict = gate(at_95, policy=policy, server=judged.world.server)
    assert verdict["upper_bound"] > at_95["upper_bound"]


def test_many_verdicts_keep_within_what_mlflow_stores(judged: Any) -> None:
    """A description holds 5,000 characters: the oldest verdicts make room, never what a person wrote."""
    server, client = judged.world.server, judged.world.client
    client.update_model_version("games", "2", description="Written by a person.\n" + "x" * 2000)
    limits = [0.010 + 0.0005 * step for step in range(12)]
    for limit in limits:
        gate(
            judged.evidence, policy={"requirements": {"calibration_error_upper_bound": {"limit": limit}}}, server=server
        )
    description = client.get_model_version("games", "2").description
    assert len(description) < 5000
    assert description.startswith("Written by a person.")
    assert "x" * 2000 in description
    assert description.count("Calibration gate") < len(limits)


@pytest.mark.parametrize("letter", ["a", "ж", "😀"])
def test_a_reason_fits_the_hand_over_in_any_alphabet(letter: str) -> None:
    assert shortened(letter * 10) == letter * 10
    cut = shortened(letter * 1000)
    assert len(json.dumps(cut)) <= 300
    assert cut.endswith(f"{letter}...")


def test_the_champion_alone_is_judged_and_nothing_of_its_promotion_changes(judged: Any) -> None:
    """An evaluate-only run of who serves: a verdict beside that evidence, under tags of its own."""
    world = judged.world
    promote(judged.candidate, gate(judged.evidence, policy=PASSING, server=world.server), server=world.server)
    before = {name: text for name, text in world.tags("2").items() if ".champion." not in name}
    alone = evaluate(world.partitions, "models:/games@champion", server=world.server)
    verdict = gate(alone, policy=UNDECIDED, server=world.server)
    assert (verdict["status"], verdict["blocks"]) == ("inconclusive", True)
    assert re.fullmatch(r"runs:/\w+/mlflow_calib/champion/\w+/verdict\.json", verdict["uri"])
    assert verdict["uri"].rpartition("/")[0] == alone["uri"].rpartition("/")[0]
    after = world.tags("2")
    assert {name: text for name, text in after.items() if ".champion." not in name} == before
    assert after["mlflow_calib.champion.gate.status"] == "inconclusive"
    with pytest.raises(PromotionRefusedError, match="is on the champion alone, and promotes nothing"):
        promote("models:/games/2", verdict, server=world.server)
