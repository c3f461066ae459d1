"""The guarded store in this process: without keys or policies, beside an older registry, in its log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlflow_calib.core.signing import Keyring, sign
from mlflow_calib.guard.build import GuardedStore

from .conftest import fresh_client
from .registry import KEYRING, POLICY, Registry, refusal

Open = Callable[..., Registry]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"MLFLOW_CALIB_KEYS": ""}, "there is no key"),
        ({"MLFLOW_CALIB_GUARD_POLICIES": ""}, "no policy is listed"),
        ({"MLFLOW_CALIB_KEYS": "a:short"}, "the keys cannot be used"),
        ({"MLFLOW_CALIB_GUARD_POLICIES": "/nonexistent.toml"}, "cannot be used"),
    ],
    ids=["no key", "no policy", "a bad key", "a bad policy"],
)
def test_without_keys_or_policies_everything_guarded_is_refused(
    local: Open, settings: dict[str, str], said: str, guarded_log: pytest.LogCaptureFixture
) -> None:
    proven = local()
    proven.model("m")
    version = proven.promoted("m")
    second = proven.version("m", 2.0)
    proven.put(proven.statement(second))
    proven.put(proven.override(version, "delete-alias", expected_version=version.version))
    guarded_log.clear()
    registry = local(**settings)
    client = registry.client
    for call in (
        lambda: client.set_registered_model_alias("m", "champion", second.version),
        lambda: client.delete_registered_model_alias("m", "champion"),
        lambda: client.delete_model_version("m", version.version),
        lambda: client.delete_registered_model("m"),
        lambda: client.rename_registered_model("m", "n"),
        lambda: client.copy_model_version(version.uri, "prod.m"),
    ):
        assert said in refusal(call)
    lines = [record for record in guarded_log.records if record.getMessage().startswith("registry guard:")]
    assert {record.levelno for record in lines} == {logging.WARNING}
    assert said in lines[0].getMessage()
    client.set_registered_model_alias("m", "challenger", second.version)
    client.set_model_version_tag("m", second.version, "team", "risk")
    client.register_prompt("p", "Hello")
    client.set_prompt_alias("p", "champion", "1")
    assert registry.champion("m") == version.version


def test_signed_tags_without_a_key(local: Open) -> None:
    registry = local(MLFLOW_CALIB_KEYS="")
    registry.model("m")
    version = registry.version("m")
    assert "there is no key" in refusal(registry.put, registry.statement(version))


def test_every_decision_is_logged(local: Open, guarded_log: pytest.LogCaptureFixture) -> None:
    registry = local()
    registry.model("m")
    version = registry.version("m")
    refusal(registry.client.set_registered_model_alias, "m", "champion", version.version)
    registry.put(registry.statement(version))
    registry.client.set_registered_model_alias("m", "champion", version.version)
    said = [record.getMessage() for record in guarded_log.records]
    assert any(line.startswith("refused: point alias 'champion' of 'm' at version 1: it carries no") for line in said)
    assert any(line.startswith("allowed: point alias 'champion' of 'm' at version 1; signed verdict") for line in said)


def test_a_reason_of_several_lines_is_one_line_of_the_log(local: Open, guarded_log: pytest.LogCaptureFixture) -> None:
    registry = local()
    registry.model("m")
    version = registry.version("m")
    registry.put(registry.override(version, reason="fire\n2026 INFO mlflow_calib.guard: allowed: everything"))
    registry.client.set_registered_model_alias("m", "champion", version.version)
    (said,) = [one.getMessage() for one in guarded_log.records if one.getMessage().startswith("allowed: ")]
    assert "because fire 2026 INFO" in said
    assert "\n" not in said


def test_a_champion_from_before_the_guard(local: Open) -> None:
    """It stays where it is, the evidence compares with it, and a rollback to it is a rollback."""
    registry = local()
    registry.model("m")
    first, second = registry.version("m", 1.0), registry.version("m", 2.0)
    _unguarded(registry).set_registered_model_alias("m", "champion", first.version)
    registry.put(registry.statement(second, expected_version=None))
    message = refusal(registry.client.set_registered_model_alias, "m", "champion", second.version)
    assert "only while nobody holds 'champion', and version 1 does" in message
    registry.put(registry.statement(second))
    registry.client.set_registered_model_alias("m", "champion", second.version)
    registry.put(registry.override(first, kind="rollback"))
    registry.client.set_registered_model_alias("m", "champion", first.version)


def test_the_database_itself_is_open(local: Open) -> None:
    """Documented: whoever holds its credentials needs no server; the same address through the plugin is guarded."""
    registry = local()
    registry.model("m")
    version = registry.version("m")
    refusal(registry.client.set_registered_model_alias, "m", "champion", version.version)
    _unguarded(registry).set_registered_model_alias("m", "champion", version.version)
    assert registry.champion("m") == version.version


def _unguarded(registry: Registry) -> MlflowClient:
    uri = registry.client.tracking_uri
    return fresh_client(uri, uri)


def test_a_key_that_was_taken_away_verifies_nothing_more(local: Open) -> None:
    registry = local()
    registry.model("m")
    version = registry.version("m")
    registry.put(registry.statement(version))
    later = local(MLFLOW_CALIB_KEYS=f"2027a:{'c3' * 32}")
    message = refusal(later.client.set_registered_model_alias, "m", "champion", version.version)
    assert "signed with key '2026b', and the keys at hand are 2027a" in message
    new = Keyring.from_environment({"MLFLOW_CALIB_KEYS": f"2027a:{'c3' * 32}"})
    later.put(later.statement(version), new)
    later.client.set_registered_model_alias("m", "champion", version.version)


def test_several_guarded_aliases(local: Open) -> None:
    registry = local(MLFLOW_CALIB_GUARD_ALIASES="champion,live")
    registry.model("m")
    version = registry.promoted("m")
    assert "it opens alias 'champion'" in refusal(
        registry.client.set_registered_model_alias, "m", "live", version.version
    )
    registry.put(registry.statement(version, alias="live", expected_version=None))
    registry.client.set_registered_model_alias("m", "live", version.version)
    refusal(registry.client.delete_registered_model_alias, "m", "live")


def test_a_policy_given_as_a_file(local: Open, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[requirements.calibration_error_upper_bound]\nlimit = 0.10\n")
    registry = local(MLFLOW_CALIB_GUARD_POLICIES=str(tmp_path / "policy.toml"))
    registry.model("m")
    assert registry.statement(registry.promoted("m")).policy_sha256 == POLICY.digest


def test_the_model_that_was_promoted_is_the_one_that_loads(local: Open) -> None:
    registry = local()
    registry.model("m")
    version = registry.promoted("m")
    location = registry.client.get_model_version_download_uri("m", version.version)
    assert (Path(mlflow.artifacts.download_artifacts(location)) / "code/rt.py").read_text() == "ANSWER = 42\n"


def test_alias_and_record_are_written_together_or_not_at_all(local: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = local()
    registry.model("m")
    first, second = registry.promoted("m", 1.0), registry.version("m", 2.0)
    registry.put(registry.statement(second))

    def fails(*arguments: object) -> None:
        raise MlflowException("the database is full")

    with monkeypatch.context() as patch:
        patch.setattr(GuardedStore, "record_move", fails)
        with pytest.raises(MlflowException, match="full"):
            registry.client.set_registered_model_alias("m", "champion", second.version)
    assert registry.champion("m") == first.version
    registry.client.set_registered_model_alias("m", "champion", second.version)
    assert registry.champion("m") == second.version


def test_a_statement_moves_an_alias_once_whatever_the_clocks_say(local: Open) -> None:
    """Signed by a worker whose clock runs ahead, a rollback would stand again as soon as its holder is back."""
    registry = local()
    registry.model("m")
    first, second = registry.promoted("m"), registry.promoted("m", 2.0)
    ahead = (datetime.now(timezone.utc) + timedelta(minutes=2)).isoformat()
    registry.put(registry.override(first, kind="rollback", issued_at=ahead))
    registry.client.set_registered_model_alias("m", "champion", first.version)
    registry.put(registry.statement(second))
    registry.client.set_registered_model_alias("m", "champion", second.version)
    again = refusal(lambda: registry.client.set_registered_model_alias("m", "champion", first.version))
    assert "it has moved the alias before, and moves it once" in again
    assert registry.champion("m") == second.version


def test_a_statement_moves_an_alias_once_for_all_copies_and_after_other_moves(local: Open) -> None:
    """What was used for a copy does not open the original, nor after somebody else's moves in between."""
    registry = local()
    registry.model("m")
    first, second = registry.promoted("m"), registry.version("m", 2.0)
    ahead = (datetime.now(timezone.utc) + timedelta(minutes=2)).isoformat()
    registry.put(registry.statement(second, issued_at=ahead))
    copy = registry.client.copy_model_version(second.uri, "m")
    registry.client.set_registered_model_alias("m", "champion", copy.version)
    for version in (first, second, first):
        registry.put(registry.override(version))
        registry.client.set_registered_model_alias("m", "champion", version.version)
    for version in (copy.version, second.version):
        again = refusal(registry.client.set_registered_model_alias, "m", "champion", version)
        assert "signed verdict: it has moved the alias before, and moves it once" in again
    assert registry.champion("m") == first.version


@pytest.mark.parametrize("alias", ["Champion", "CHÂMPION", "\N{FULLWIDTH LATIN SMALL LETTER C}hampion", "champion\n"])
def test_an_alias_that_some_database_takes_for_the_guarded_one(local: Open, alias: str) -> None:
    registry = local()
    registry.model("m")
    version = registry.version("m")
    refusal(registry.client.set_registered_model_alias, "m", alias, version.version)
    assert registry.client.get_registered_model("m").aliases == {}


def test_a_source_of_several_lines_is_one_line_of_the_log(local: Open, guarded_log: pytest.LogCaptureFixture) -> None:
    registry = local()
    registry.model("prod.m")
    source = "s3://a/b\n2026 INFO mlflow_calib.guard: allowed: everything\x1b[2J"
    refusal(registry.client.create_model_version, "prod.m", source)
    (said,) = [one.getMessage() for one in guarded_log.records if one.getMessage().startswith("refused: ")]
    assert said.isprintable()


def test_tags_of_the_guard_in_other_cases_come_with_no_version(local: Open) -> None:
    registry = local()
    registry.model("m")
    tags = {"MLflow_Calib.Guard.held.champion": "{}", "mlflow_calib.SIGNED.verdict": "x", "team": "risk"}
    made = registry.client.create_model_version("m", "s3://a/b", tags=tags)
    assert made.tags == {"team": "risk"}


def test_a_statement_from_a_clock_far_ahead_does_not_stay_for_good(local: Open) -> None:
    registry = local()
    registry.model("m")
    version = registry.version("m")
    ahead = registry.statement(version, issued_at="2999-01-01T00:00:00+00:00")
    assert "still to come" in refusal(registry.put, ahead)
    assert KEYRING is not None
    tag = ("m", version.version, "mlflow_calib.signed.verdict", sign(ahead, KEYRING))
    _unguarded(registry).set_model_version_tag(*tag)  # as an earlier release took it
    registry.put(registry.statement(version))
    registry.client.set_registered_model_alias("m", "champion", version.version)
    assert registry.champion("m") == version.version


def test_a_champion_is_not_hidden_as_a_prompt(local: Open) -> None:
    registry = local()
    registry.model("m")
    version = registry.promoted("m")
    said = refusal(registry.client.set_registered_model_tag, "m", "mlflow.prompt.is_prompt", "true")
    assert "hide a model that holds a guarded alias" in said
    assert registry.champion("m") == version.version
    registry.client.register_prompt("p", "Hello")
    registry.client.set_prompt_alias("p", "champion", 1)
    registry.client.set_prompt_tag("p", "team", "risk")
