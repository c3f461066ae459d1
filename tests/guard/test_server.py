"""Every way around the gate, tried on real servers through the SDK, the REST API and the endpoints of the UI."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
import requests
from mlflow.server import handlers

from mlflow_calib.core.signing import Keyring, sign

from .conftest import Served
from .registry import KEYRING, OTHER_POLICY, SIGNED, Version, refusal, write_model

#: Everything that changes the registry over HTTP; the tests below try each that touches what is guarded.
CHANGES = {
    ("registered-models/create", "POST"),
    ("registered-models/rename", "POST"),
    ("registered-models/update", "PATCH"),
    ("registered-models/delete", "DELETE"),
    ("registered-models/set-tag", "POST"),
    ("registered-models/delete-tag", "DELETE"),
    ("registered-models/alias", "POST"),
    ("registered-models/alias", "DELETE"),
    ("model-versions/create", "POST"),
    ("model-versions/update", "PATCH"),
    ("model-versions/transition-stage", "POST"),
    ("model-versions/delete", "DELETE"),
    ("model-versions/set-tag", "POST"),
    ("model-versions/delete-tag", "DELETE"),
}


def test_no_endpoint_changes_the_registry_unknown_to_these_tests() -> None:
    found = set()
    for path, _, methods in handlers.get_endpoints():
        _, _, rest = path.partition("/mlflow/")
        if rest.startswith(("registered-models/", "model-versions/")) and "GET" not in methods:
            assert path.startswith(("/api/2.0/", "/ajax-api/2.0/")), f"{path}: another base to try"
            found |= {(rest, method) for method in methods}
    assert found - {("registered-models/get-latest-versions", "POST")} == CHANGES


def test_an_unproven_version_gets_no_guarded_alias(served: Served, name: str) -> None:
    served.registry.model(name)
    version = served.registry.version(name).version
    message = refusal(served.client.set_registered_model_alias, name, "champion", version)
    assert "no signed verdict" in message
    assert "Run the gate with a key" in message
    for rest in served.endpoints:
        for alias in ("champion", "Champion", "CHAMPION"):
            rest.refused("POST", "registered-models/alias", name=name, alias=alias, version=version)
    assert served.client.get_registered_model(name).aliases == {}


def test_unguarded_aliases_tags_and_texts_pass_untouched(served: Served, name: str) -> None:
    served.registry.model(name)
    version = served.registry.version(name).version
    served.client.set_registered_model_alias(name, "challenger", version)
    served.client.set_model_version_tag(name, version, "mlflow_calib.gate.status", "pass")
    served.client.set_registered_model_tag(name, "team", "risk")
    served.client.update_model_version(name, version, "text")
    served.client.update_registered_model(name, "text")
    for stage in ("Staging", "Archived"):
        _stage(served, name, version, stage)
    served.client.delete_registered_model_alias(name, "challenger")
    served.client.delete_model_version(name, version)
    served.client.rename_registered_model(name, f"{name}-renamed")
    served.client.delete_registered_model(f"{name}-renamed")


@pytest.mark.parametrize("logged", [False, True], ids=["runs", "logged-model"])
def test_a_proven_version_gets_it(served: Served, name: str, logged: bool) -> None:
    registry = served.registry
    registry.model(name)
    first = registry.promoted(name, 1.0, logged=logged)
    second = registry.promoted(name, 2.0, logged=logged)
    served.client.set_registered_model_alias(name, "champion", second.version)  # again: nothing to do
    tag = served.client.get_model_version(name, second.version).tags["mlflow_calib.guard.held.champion"]
    assert json.loads(tag).items() >= {"from": first.version, "to": second.version, "kind": "verdict"}.items()
    assert f"allowed: point alias 'champion' of {name!r} at version {second.version}" in served.server.log.read_text()


def test_what_looks_like_evidence_proves_nothing(served: Served, name: str) -> None:
    """A metric of 0.0, a NaN that MLflow reads back as 0.0 from a logged model, tags written by hand."""
    registry, client = served.registry, served.client
    registry.model(name)
    version = registry.version(name, logged=True)
    model_id = client.get_model_version(name, version.version).source.removeprefix("models:/")
    client.log_metric(version.run_id, "calibration_error", float("nan"), model_id=model_id)
    assert [metric.value for metric in client.get_logged_model(model_id).metrics] == [0.0]
    client.log_metric(version.run_id, "calibration_error_upper_bound", 0.0, model_id=model_id)
    for key, value in {
        "status": "pass",
        "mode": "enforce",
        "policy": registry.statement(version).policy_sha256,
    }.items():
        client.set_model_version_tag(name, version.version, f"mlflow_calib.gate.{key}", value)
    client.set_model_version_tag(name, version.version, "mlflow_calib.status", "champion")
    refusal(client.set_registered_model_alias, name, "champion", version.version)
    assert registry.champion(name) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "fail"}, "its status is 'fail'"),
        ({"status": "inconclusive"}, "its status is 'inconclusive'"),
        ({"mode": "dry-run"}, "mode 'dry-run'"),
        ({"policy_sha256": OTHER_POLICY.digest}, "is not one that this server lists"),
        (
            {"issued_at": "2026-01-01T00:00:00+00:00", "expires_at": "2026-01-08T00:00:00+00:00"},
            "it stood until 2026-01",
        ),
        ({"expected_version": "7"}, "only while version 7 of"),
        ({"alias": "shadow"}, "it opens alias 'shadow'"),
        ({"model_sha256": f"sha256:{'0' * 64}"}, "the model's files at"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_signed_verdict_that_does_not_fit(served: Served, name: str, change: dict[str, Any], reason: str) -> None:
    registry = served.registry
    registry.model(name)
    version = registry.version(name)
    registry.put(registry.statement(version, **change))
    for rest in served.endpoints:
        message = rest.refused("POST", "registered-models/alias", name=name, alias="champion", version=version.version)
        assert reason in message


def test_statements_that_were_not_signed_for_this_version_are_not_even_taken(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    first, second = registry.version(name, 1.0), registry.version(name, 2.0)
    good = registry.statement(first)
    stranger = Keyring({"2026b": bytes(32)})
    unknown = Keyring({"1999": bytes(32)})
    texts = {
        "speaks of another version": sign(good, KEYRING),
        "of another model": sign(replace(good, name="other", version=second.version), KEYRING),
        "signed with another secret": sign(replace(good, version=second.version), stranger),
        "signed with an unknown key": sign(replace(good, version=second.version), unknown),
        "changed": sign(replace(good, version=second.version), KEYRING).replace('"pass"', '"fail"'),
        "written by hand": json.dumps({"status": "pass"}),
        "no JSON": "pass",
    }
    for what, text in texts.items():
        for rest in served.endpoints:
            message = rest.refused(
                "POST", "model-versions/set-tag", name=name, version=second.version, key=f"{SIGNED}verdict", value=text
            )
            assert f"write tag '{SIGNED}verdict'" in message, what
    assert served.client.get_model_version(name, second.version).tags == {}


def test_the_guards_own_tags_are_nobodys(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    version = registry.promoted(name)
    own, signed = "mlflow_calib.guard.held.champion", f"{SIGNED}verdict"
    refusal(served.client.set_model_version_tag, name, version.version, own, "{}")
    refusal(served.client.set_registered_model_tag, name, "mlflow_calib.guard.moved.champion", "{}")
    for rest in served.endpoints:
        of_version = {"name": name, "version": version.version}
        rest.refused("POST", "model-versions/set-tag", **of_version, key=own, value="{}")
        rest.refused("DELETE", "model-versions/delete-tag", **of_version, key=own)
        rest.refused("DELETE", "model-versions/delete-tag", **of_version, key=signed)
        rest.refused("POST", "registered-models/set-tag", name=name, key=own, value="{}")
        rest.refused("DELETE", "registered-models/delete-tag", name=name, key="mlflow_calib.guard.moved.champion")
        tags = [{"key": own, "value": "{}"}]
        rest.refused("POST", "registered-models/create", name=f"{name}-other", tags=tags)
    tags = [{"key": own, "value": "{}"}, {"key": signed, "value": "{}"}, {"key": "team", "value": "risk"}]
    for rest in served.endpoints:
        source = served.client.get_model_version(name, version.version).source
        made = rest("POST", "model-versions/create", name=name, source=source, run_id=version.run_id, tags=tags)
        assert [tag["key"] for tag in made.json()["model_version"]["tags"]] == ["team"]


def test_an_older_verdict_never_takes_the_place_of_a_newer_one(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    version = registry.version(name)
    passed = registry.statement(version, issued_at="2026-11-01T00:00:00+00:00")
    registry.put(passed)
    registry.put(registry.statement(version, status="fail"))
    assert "before the one that stands" in refusal(registry.put, passed)
    refusal(served.client.set_registered_model_alias, name, "champion", version.version)


def test_the_stage_production(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    version = registry.version(name)
    body = {"name": name, "version": version.version, "archive_existing_versions": False}
    for stage in ("Production", "production", "PRODUCTION"):
        for rest in served.endpoints:
            rest.refused("POST", "model-versions/transition-stage", **body, stage=stage)
    with pytest.warns(FutureWarning, match="stages"):
        refusal(client.transition_model_version_stage, name, version.version, "Production")
    registry.put(registry.statement(version))
    _stage(served, name, version.version, "Production")
    other = {**body, "version": registry.version(name, 2.0).version, "archive_existing_versions": True}
    for rest in served.endpoints:
        rest.refused("POST", "model-versions/transition-stage", **other, stage="Production")
        for stage in ("Archived", "None", "Staging"):
            rest.refused("POST", "model-versions/transition-stage", **body, stage=stage)
    refusal(client.delete_model_version, name, version.version)
    registry.put(registry.override(version, "delete-alias", alias="Production"))
    _stage(served, name, version.version, "Archived")
    assert client.get_model_version(name, version.version).current_stage == "Archived"


def test_a_champion_may_enter_production_and_leaves_it_by_override(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    version = registry.promoted(name)
    _stage(served, name, version.version, "Production")
    body = {"name": name, "version": version.version, "stage": "None", "archive_existing_versions": False}
    served.endpoints[1].refused("POST", "model-versions/transition-stage", **body)
    registry.put(registry.override(version, "delete-version"))
    _stage(served, name, version.version, "None")
    assert registry.champion(name) == version.version


def test_copies_into_a_guarded_name(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    guarded = registry.model(f"prod.{name}")
    bad, good = registry.version(name, 1.0), registry.version(name, 2.0)
    registry.put(registry.statement(good))
    assert "no signed verdict" in refusal(client.copy_model_version, bad.uri, guarded)
    for rest in served.endpoints:
        of_run = {"source": client.get_model_version(name, good.version).source, "run_id": good.run_id}
        assert "must be a version" in rest.refused("POST", "model-versions/create", name=guarded, **of_run)
        rest.refused("POST", "model-versions/create", name=guarded, source=bad.uri, run_id=bad.run_id)
    copy = client.copy_model_version(good.uri, guarded)
    assert not [key for key in copy.tags if key.startswith("mlflow_calib.")]
    client.set_registered_model_alias(guarded, "champion", copy.version)  # the same files, proven under their own name
    assert registry.champion(guarded) == str(copy.version)
    refusal(registry.client.copy_model_version, f"models:/{name}/{bad.version}", guarded)


def test_a_copy_within_its_name_is_as_unproven_as_its_origin(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    bad = registry.version(name)
    copy = client.copy_model_version(bad.uri, f"{name}-copy")
    refusal(client.set_registered_model_alias, f"{name}-copy", "champion", copy.version)


def test_an_override_copies(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    guarded = registry.model(f"prod.{name}")
    version = registry.version(name)
    registry.put(registry.override(version, "copy", target=f"prod.{name}-other"))
    assert "it names the target" in refusal(client.copy_model_version, version.uri, guarded)
    registry.put(registry.override(version, "copy", target=guarded))
    assert client.copy_model_version(version.uri, guarded).name == guarded


def test_renaming(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    registry.version(name)
    for rest in served.endpoints:
        rest.refused("POST", "registered-models/rename", name=name, new_name=f"prod.{name}")
        rest.refused("POST", "registered-models/rename", name=name, new_name=f"PROD.{name}")
    registry.promoted(name, 2.0)
    assert "no signed override" in refusal(client.rename_registered_model, name, f"{name}-new")
    version = registry.version(name)
    permission = registry.override(version, "rename", version=None, alias=None, model_sha256=None, target=f"{name}-b")
    registry.put(permission)
    refusal(client.rename_registered_model, name, f"{name}-new")
    client.rename_registered_model(name, f"{name}-b")
    assert registry.champion(f"{name}-b") == "2"


def test_deleting_what_is_guarded(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    version = registry.promoted(name)
    calls = {
        "registered-models/alias": {"name": name, "alias": "champion"},
        "model-versions/delete": {"name": name, "version": version.version},
        "registered-models/delete": {"name": name},
    }
    refusal(client.delete_registered_model_alias, name, "champion")
    refusal(client.delete_model_version, name, version.version)
    refusal(client.delete_registered_model, name)
    for path, body in calls.items():
        for rest in served.endpoints:
            assert "no signed override" in rest.refused("DELETE", path, **body)
    holder = {"expected_version": version.version}
    registry.put(registry.override(version, "delete-alias", **holder))
    refusal(client.delete_model_version, name, version.version)  # it permits to delete the alias, and no more
    client.delete_registered_model_alias(name, "champion")
    assert registry.champion(name) is None
    assert "was moved at" in refusal(client.set_registered_model_alias, name, "champion", version.version)


def test_overrides_to_delete(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    version = registry.promoted(name)
    registry.put(registry.override(version, "delete-version", alias=None))
    client.delete_model_version(name, version.version)
    second = registry.promoted(name, 2.0)
    registry.put(registry.override(second, "delete-model", version=None, alias=None, model_sha256=None))
    client.delete_registered_model(name)


def test_a_rollback_goes_to_a_version_that_held_the_alias(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    never = registry.version(name, 9.0)
    first, second = registry.promoted(name, 1.0), registry.version(name, 2.0)
    registry.put(registry.statement(second))
    client.set_registered_model_alias(name, "champion", second.version)
    time.sleep(1.1)  # moves are told apart by the second
    for to in (never, first):
        registry.put(registry.override(to, kind="rollback", reason="complaints"))
    assert "never held" in refusal(client.set_registered_model_alias, name, "champion", never.version)
    client.set_registered_model_alias(name, "champion", first.version)
    message = refusal(client.set_registered_model_alias, name, "champion", second.version)
    assert "after it was signed" in message


def test_an_override_promotes_what_the_gate_blocks(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    registry.model(name)
    version = registry.version(name)
    registry.put(registry.statement(version, status="fail"))
    registry.put(registry.override(version, alias="other"))
    refusal(client.set_registered_model_alias, name, "champion", version.version)
    registry.put(registry.override(version))
    client.set_registered_model_alias(name, "champion", version.version)
    assert "signed override by Ada, because the old model is down" in served.server.log.read_text()


def test_keys_are_rotated_one_beside_the_other(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    for weight, signing in enumerate(("2026a", "2026b")):
        version = registry.version(name, float(weight))
        keys = Keyring({key: KEYRING.secret(key) for key in KEYRING.ids}, signing)
        registry.put(registry.statement(version), keys)
        served.client.set_registered_model_alias(name, "champion", version.version)


def test_prompts_pass_and_hide_nothing(served: Served, name: str) -> None:
    registry, client = served.registry, served.client
    client.register_prompt(name, "Hello {{who}}")
    client.register_prompt(name, "Good day {{who}}")
    for version in ("1", "2", "1"):
        client.set_prompt_alias(name, "champion", version)
    client.delete_prompt_alias(name, "champion")
    client.set_prompt_alias(name, "champion", "2")
    disguised = registry.version(name)  # a model among the versions of a prompt
    for rest in served.endpoints:
        rest.refused("POST", "registered-models/alias", name=name, alias="champion", version=disguised.version)
    model = registry.model(f"{name}-model")
    proven = registry.promoted(model)
    tags = [{"key": "mlflow.prompt.is_prompt", "value": "true"}]
    made = served.endpoints[0]("POST", "model-versions/create", name=model, source="dummy-source", tags=tags)
    version = made.json()["model_version"]["version"]
    for rest in served.endpoints:
        tag = {"name": model, "key": "mlflow.prompt.is_prompt", "value": "true"}
        assert "hide a model" in rest.refused("POST", "registered-models/set-tag", **tag)
        rest.refused("POST", "registered-models/alias", name=model, alias="champion", version=version)
        rest.refused("DELETE", "registered-models/delete", name=model)
    assert registry.champion(model) == proven.version


@pytest.mark.parametrize("path", ["data/bundle/calibrator.json", "data/bundle/base_model/weights.json", "code/rt.py"])
def test_files_changed_between_verdict_and_promotion(served: Served, name: str, path: str) -> None:
    registry = served.registry
    registry.model(name)
    version = registry.version(name)
    registry.put(registry.statement(version))
    _upload(served, version, f"model/{path}", b"changed")
    message = refusal(served.client.set_registered_model_alias, name, "champion", version.version)
    assert f"{path} was changed" in message
    _upload(served, version, f"model/{path}", (write_model(registry.scratch / "again") / path).read_bytes())
    _upload(served, version, "model/sitecustomize.py", b"import os")
    message = refusal(served.client.set_registered_model_alias, name, "champion", version.version)
    assert "sitecustomize.py was added" in message


def test_records_changed_or_gone(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    for what in ("evidence", "verdict"):
        version = registry.version(name)
        registry.put(registry.statement(version))
        _upload(served, version, f"mlflow_calib/{what}.json", b"{}")
        message = refusal(served.client.set_registered_model_alias, name, "champion", version.version)
        assert f"the {what} record runs:/{version.run_id}/mlflow_calib/{what}.json must have digest" in message
    gone = registry.version(name)
    registry.put(registry.statement(gone, evidence_uri=f"runs:/{'0' * 32}/evidence.json"))
    message = refusal(served.client.set_registered_model_alias, name, "champion", gone.version)
    assert "cannot be read" in message


def test_an_artifact_store_that_cannot_be_read(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    version = registry.version(name)
    registry.put(registry.statement(version))
    folder = served.server.artifacts / "0" / version.run_id
    away = folder.with_name(f"{version.run_id}-away")
    folder.rename(away)
    for rest in served.endpoints:
        message = rest.refused("POST", "registered-models/alias", name=name, alias="champion", version=version.version)
        assert "are missing" in message
    away.rename(folder)
    served.client.set_registered_model_alias(name, "champion", version.version)


def test_what_remains_open(served: Served, name: str) -> None:
    """Documented as open: files changed after the promotion, and readers that name no alias."""
    registry = served.registry
    registry.model(name)
    version = registry.promoted(name)
    _upload(served, version, "model/code/rt.py", b"changed")
    assert registry.champion(name) == version.version
    unproven = registry.version(name, 2.0)
    assert served.client.get_model_version_download_uri(name, unproven.version)


def test_wrong_calls_stay_wrong_calls(served: Served, name: str) -> None:
    served.registry.model(name)
    rest = served.endpoints[0]
    alias = {"alias": "champion", "version": "9"}
    assert rest("POST", "registered-models/alias", name=name, **alias).status_code == 404
    assert rest("POST", "registered-models/alias", name=f"{name}-none", **alias).status_code == 404
    assert rest("POST", "registered-models/alias", name=name, alias="champion", version="x").status_code == 400
    assert rest("DELETE", "registered-models/delete", name=f"{name}-none").status_code == 404
    assert rest("DELETE", "model-versions/delete", name=name, version="9").status_code == 404
    assert (
        rest("POST", "model-versions/transition-stage", name=name, version="9", stage="Production").status_code == 404
    )


def test_the_log_says_what_is_guarded_and_shows_no_secret(served: Served) -> None:
    log = served.server.log.read_text()
    assert (
        "registry guard: aliases champion; stage Production; names prod.*; keys 2026a, 2026b; policies sha256:" in log
    )
    assert "a1a1a1" not in log
    assert "b2b2b2" not in log


def _stage(served: Served, name: str, version: str, stage: str) -> None:
    body = {"name": name, "version": version, "stage": stage, "archive_existing_versions": False}
    answer = served.endpoints[0]("POST", "model-versions/transition-stage", **body)
    assert answer.status_code == 200, answer.text


def _upload(served: Served, version: Version, path: str, content: bytes) -> None:
    url = f"{served.server.url}/api/2.0/mlflow-artifacts/artifacts/0/{version.run_id}/artifacts/{path}"
    requests.put(url, data=content, timeout=60).raise_for_status()
