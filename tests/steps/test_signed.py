"""What is signed where the environment holds keys, and that nothing unsigned or changed gets through then."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from mlflow.exceptions import MlflowException

from mlflow_calib.core.policy import Policy
from mlflow_calib.core.signing import Keyring, Statement, sign, verify
from mlflow_calib.errors import (
    EvidenceError,
    InvalidInputError,
    ModelError,
    PromotionRefusedError,
    SignatureError,
)
from mlflow_calib.flavor.records import read_record
from mlflow_calib.flavor.registry import champion_version
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import gate, history, override, promote, rollback

PASSING = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
FAILING = {"requirements": {**PASSING["requirements"], "mse_increase_over_champion": {"limit": -0.9}}}
SIGNED = "mlflow_calib.signed.verdict"
SECRET = "ab" * 32


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> Keyring:
    monkeypatch.setenv("MLFLOW_CALIB_KEYS", f"2026a:{SECRET}")
    found = Keyring.from_environment()
    assert found is not None
    return found


def test_the_gate_signs_what_was_judged(judged: Any, keyring: Keyring) -> None:
    handed = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    statement = verify(judged.world.tags("2")[SIGNED], keyring)
    evidence = read_record(judged.world.server, judged.evidence["uri"])
    record = read_record(judged.world.server, handed["uri"])
    assert (statement.kind, statement.action, statement.name, statement.version) == ("verdict", "promote", "games", "2")
    assert (statement.alias, statement.expected_version, statement.expected_name) == ("champion", "1", None)
    assert (statement.status, statement.mode) == ("pass", "enforce")
    assert statement.model_sha256 == evidence["candidate"]["model_sha256"]
    assert (statement.evidence_uri, statement.evidence_sha256) == (judged.evidence["uri"], judged.evidence["sha256"])
    assert (statement.verdict_uri, statement.verdict_sha256) == (handed["uri"], handed["sha256"])
    assert statement.policy_sha256 == record["policy_digest"]
    assert statement.expires == datetime.fromisoformat(evidence["evaluated_at"]) + timedelta(days=7)
    assert SECRET not in json.dumps(judged.world.tags("2"))


def test_a_verdict_that_blocks_takes_the_place_of_one_that_passed(judged: Any, keyring: Keyring) -> None:
    gate(judged.evidence, policy=PASSING, server=judged.world.server)
    gate(judged.evidence, policy=FAILING, server=judged.world.server)
    assert verify(judged.world.tags("2")[SIGNED], keyring).status == "fail"


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("mode", ["dry-run", "off"])
def test_what_is_not_enforced_is_not_signed(judged: Any, mode: str) -> None:
    gate(judged.evidence, policy={**PASSING, "mode": mode}, server=judged.world.server)
    assert SIGNED not in judged.world.tags("2")


def test_without_a_key_nothing_is_signed_and_promotion_goes_as_before(judged: Any) -> None:
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    assert SIGNED not in judged.world.tags("2")
    assert promote(judged.candidate, verdict, server=judged.world.server)["promoted"] is True


@pytest.mark.usefixtures("keyring")
def test_a_signed_verdict_promotes(judged: Any) -> None:
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    assert promote(judged.candidate, verdict, server=judged.world.server)["version"] == "2"


def test_where_keys_are_an_unsigned_verdict_promotes_nothing(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    monkeypatch.setenv("MLFLOW_CALIB_KEYS", f"2026a:{SECRET}")
    with pytest.raises(
        PromotionRefusedError, match=r"must carry a signed verdict, and has no tag .*run the gate again"
    ):
        promote(judged.candidate, verdict, server=judged.world.server)
    assert judged.world.champion() == "1"


def _changed(text: str) -> str:
    document = json.loads(text)
    document["statement"]["status"] = "pass" if document["statement"]["status"] != "pass" else "fail"
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _digit(text: str) -> str:
    document = json.loads(text)
    first = document["signature"][0]
    document["signature"] = ("0" if first != "0" else "1") + document["signature"][1:]
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_changed, "signature does not match its content"),
        (_digit, "signature does not match its content"),
        (lambda text: text[:-1], "it is damaged"),
        (lambda text: text.replace("2026a", "2026b"), "signed with key '2026b'"),
    ],
    ids=["content", "signature", "cut off", "key id"],
)
def test_a_signature_that_was_changed_is_refused(judged: Any, change: Any, said: str) -> None:
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    text = judged.world.tags("2")[SIGNED]
    judged.world.client.set_model_version_tag("games", "2", SIGNED, change(text))
    with pytest.raises(SignatureError, match="the signature of the verdict on models:/games/2 does not hold") as error:
        promote(judged.candidate, verdict, server=judged.world.server)
    assert said in str(error.value)
    assert judged.world.champion() == "1"


def test_the_signature_of_another_verdict_is_refused(judged: Any, keyring: Keyring) -> None:
    gate(judged.evidence, policy=PASSING, server=judged.world.server)
    earlier = judged.world.tags("2")[SIGNED]
    policy = {"requirements": {"calibration_error_upper_bound": {"limit": 0.09}}}
    verdict = gate(judged.evidence, policy=policy, server=judged.world.server)
    judged.world.client.set_model_version_tag("games", "2", SIGNED, earlier)
    assert verify(earlier, keyring).verdict_sha256 != verdict["sha256"]
    with pytest.raises(PromotionRefusedError, match="the signature on models:/games/2 is of verdict sha256:"):
        promote(judged.candidate, verdict, server=judged.world.server)


def test_another_key_does_not_verify(judged: Any, monkeypatch: pytest.MonkeyPatch, keyring: Keyring) -> None:
    """A rotated key still verifies while it is listed; one that is gone does not."""
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    monkeypatch.setenv("MLFLOW_CALIB_KEYS", f"2026b:{'cd' * 32}")
    with pytest.raises(SignatureError, match=r"signed with key '2026a', and the keys at hand are 2026b"):
        promote(judged.candidate, verdict, server=judged.world.server)
    monkeypatch.setenv("MLFLOW_CALIB_KEYS", f"2026a:{SECRET},2026b:{'cd' * 32}")
    assert promote(judged.candidate, verdict, server=judged.world.server)["promoted"] is True
    assert keyring.signing_id == "2026a"


def test_an_override_is_signed_for_this_move_alone(judged: Any, keyring: Keyring) -> None:
    verdict = gate(judged.evidence, policy=FAILING, server=judged.world.server)
    why = {"promoted_by": "cleo", "override_reason": "the season starts today"}
    promote(judged.candidate, verdict, **why, server=judged.world.server)
    statement = verify(judged.world.tags("2")["mlflow_calib.signed.override"], keyring)
    assert (statement.kind, statement.action, statement.alias) == ("override", "promote", "champion")
    assert (statement.version, statement.expected_version) == ("2", "1")
    assert (statement.by, statement.reason, statement.status) == ("cleo", "the season starts today", "fail")
    assert statement.expires - statement.issued == timedelta(days=1)
    assert statement.verdict_sha256 == verdict["sha256"]


def test_a_rollback_is_signed(judged: Any, keyring: Keyring) -> None:
    """Version 1 held the alias before there was a guard, which has seen nothing: an override opens it there."""
    world = judged.world
    promote(judged.candidate, gate(judged.evidence, policy=PASSING, server=world.server), server=world.server)
    rollback("games", reason="complaints", by="ben", server=world.server)
    statement = verify(world.tags("1")["mlflow_calib.signed.override"], keyring)
    assert (statement.version, statement.expected_version, statement.by) == ("1", "2", "ben")
    world.client.set_model_version_tag("games", "2", "mlflow_calib.guard.held.champion", "{}")
    rollback("games", to_version=2, reason="it was not the model", by="ben", server=world.server)
    statement = verify(world.tags("2")["mlflow_calib.signed.rollback"], keyring)
    assert (statement.kind, statement.version, statement.expected_version) == ("rollback", "2", "1")
    assert statement.model_sha256 == read_record(world.server, judged.evidence["uri"])["candidate"]["model_sha256"]


@pytest.mark.parametrize(
    ("action", "parts", "version"),
    [
        ("delete-alias", {"alias": "champion"}, "1"),
        ("delete-version", {"version": 1}, "1"),
        ("copy", {"version": "2", "target": "prod"}, "2"),
    ],
)
def test_an_override_for_the_guard_stands_on_the_version(
    judged: Any, keyring: Keyring, action: str, parts: dict[str, Any], version: str
) -> None:
    handed = override("games", action, **parts, reason="retired", by="ada", server=judged.world.server)
    assert (handed["action"], handed["version"], handed["tag"]) == (action, version, "mlflow_calib.signed.override")
    statement = verify(judged.world.tags(version)[handed["tag"]], keyring)
    assert (statement.action, statement.by, statement.reason) == (action, "ada", "retired")
    assert (statement.alias, statement.target) == (parts.get("alias"), parts.get("target"))


@pytest.mark.parametrize(("action", "parts"), [("delete-model", {}), ("rename", {"target": "old games"})])
def test_an_override_for_the_guard_stands_on_the_model(
    judged: Any, keyring: Keyring, action: str, parts: dict[str, Any]
) -> None:
    handed = override("games", action, **parts, reason="retired", by="ada", server=judged.world.server)
    text = judged.world.client.get_registered_model("games").tags[handed["tag"]]
    assert (verify(text, keyring).action, handed["uri"]) == (action, "models:/games")


@pytest.mark.usefixtures("keyring")
def test_an_override_that_lacks_something_says_everything(judged: Any) -> None:
    server = judged.world.server
    with pytest.raises(InvalidInputError) as error:
        override("games", "delete-alias", version=3, target="a/b", reason="", by="ada", server=server)
    said = str(error.value)
    parts = ("reason must be a text", "alias must be given", "version must not be given", "target must be")
    assert all(part in said for part in parts)
    with pytest.raises(InvalidInputError, match=r"action must be one of .*promote has an override of its own"):
        override("games", "promote", reason="r", by="b", server=server)
    with pytest.raises(ModelError, match="must have a version 9"):
        override("games", "delete-version", version=9, reason="r", by="b", server=server)
    with pytest.raises(ModelError, match="no registered model 'gmes'"):
        override("gmes", "delete-model", reason="r", by="b", server=server)
    with pytest.raises(ModelError, match="stands nowhere"):
        override("games", "delete-alias", alias="canary", reason="r", by="b", server=server)


def test_an_override_without_a_key_is_wrong_use(judged: Any) -> None:
    with pytest.raises(InvalidInputError, match="the environment holds no key; set MLFLOW_CALIB_KEYS"):
        override("games", "delete-model", reason="r", by="b", server=judged.world.server)


def test_a_forged_override_of_a_mismatching_model_is_not_what_promote_reads(judged: Any, keyring: Keyring) -> None:
    """Whatever is signed, promote holds the model's files against the evidence."""
    statement = Statement(
        kind="override", action="promote", name="games", version="2", alias="champion", expected_version="1",
        model_sha256="sha256:other", reason="r", by="b",
    )  # fmt: skip
    judged.world.client.set_model_version_tag("games", "2", "mlflow_calib.signed.override", sign(statement, keyring))
    blocked = gate(judged.evidence, policy=FAILING, server=judged.world.server)
    with pytest.raises(PromotionRefusedError, match="the verdict blocks"):
        promote(judged.candidate, blocked, server=judged.world.server)
    assert champion_version(judged.world.client, "games") == "1"
    assert issubclass(SignatureError, EvidenceError)


def test_the_first_day_under_the_guard(judged: Any, keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1 was champion before there was a guard: past it by a pass, back to it, and forward by an override."""
    plain = judged.world.server
    monkeypatch.setenv("MLFLOW_CALIB_GUARD_POLICIES", Policy.from_dict(PASSING).digest)
    guarded = MlflowServer(plain.tracking_uri, registry_uri=f"calib-gate+{plain.tracking_uri}")
    dry = gate(judged.evidence, policy={**PASSING, "mode": "dry-run"}, server=guarded)
    with connected(guarded) as client, pytest.raises(MlflowException, match="the registry guard refuses"):
        client.set_registered_model_alias("games", "champion", "2")
    assert promote(judged.candidate, dry, server=guarded)["promoted"] is False
    verdict = gate(judged.evidence, policy=PASSING, server=guarded)
    assert promote(judged.candidate, verdict, server=guarded)["previous_version"] == "1"
    assert rollback("games", reason="complaints", by="ben", server=guarded)["version"] == "1"
    assert judged.world.champion() == "1"
    blocked = gate(judged.evidence, policy=FAILING, server=guarded)
    with pytest.raises(PromotionRefusedError, match="the verdict blocks"):
        promote(judged.candidate, blocked, server=guarded)
    why = {"promoted_by": "cleo", "override_reason": "the season starts today"}
    assert promote(judged.candidate, blocked, **why, server=guarded)["overridden"] is True
    assert [(one["event"], one["to"]) for one in history("games", server=guarded)] == [
        ("promote", "2"),
        ("rollback", "1"),
        ("override", "2"),
    ]
    monkeypatch.delenv("MLFLOW_CALIB_KEYS")
    with pytest.raises(PromotionRefusedError, match="the server refuses alias 'champion'"):
        rollback("games", reason="unsigned", by="ben", server=guarded)
    assert judged.world.champion() == "2"
    assert keyring.ids == ["2026a"]
