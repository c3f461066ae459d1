"""A registry of the tests: models with files and records as the steps leave them, and statements about them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import requests
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from mlflow_calib.core.policy import Policy
from mlflow_calib.core.records import canonical_json
from mlflow_calib.core.signing import Keyring, Statement, sign
from mlflow_calib.data.records import sha256_of_text
from mlflow_calib.flavor.file_listing import file_digests, listing
from mlflow_calib.flavor.model_digest import model_files_digest

logging.getLogger("mlflow.store.model_registry").setLevel(logging.WARNING)
KEYS = f"2026a:{'a1' * 32},2026b:{'b2' * 32}"
KEYRING = Keyring.from_environment({"MLFLOW_CALIB_KEYS": KEYS})
assert KEYRING is not None
POLICY = Policy.from_dict({"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}})
OTHER_POLICY = Policy.from_dict({"requirements": {"calibration_error_upper_bound": {"limit": 0.20}}})
SETTINGS = {
    "MLFLOW_CALIB_KEYS": KEYS,
    "MLFLOW_CALIB_GUARD_POLICIES": POLICY.digest,
    "MLFLOW_CALIB_GUARD_NAMES": "prod.*",
}
SIGNED = "mlflow_calib.signed."


@dataclass(frozen=True)
class Version:
    """A registered version, and what a verdict on it would name."""

    name: str
    version: str
    run_id: str
    model_sha256: str
    records: Mapping[str, str] = field(repr=False)

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


def write_model(folder: Path, weight: float = 1.0) -> Path:
    """A folder as a calibrated model has it: every kind of file, small."""
    files = {
        "MLmodel": "flavors:\n  python_function:\n    loader_module: mlflow_calib.runtime\n",
        "requirements.txt": "numpy\n",
        "code/rt.py": "ANSWER = 42\n",
        "data/bundle/calibrator.json": json.dumps({"values": [0.1, 0.5, 0.9]}),
        "data/bundle/base_model/MLmodel": "flavors: {}\n",
        "data/bundle/base_model/weights.json": json.dumps({"weight": weight}),
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@dataclass(frozen=True)
class Registry:
    """A client of one guarded server or store, and a folder for scratch files."""

    client: MlflowClient
    scratch: Path
    experiment_id: str = "0"

    def model(self, name: str) -> str:
        self.client.create_registered_model(name)
        return name

    def version(self, name: str, weight: float = 1.0, *, logged: bool = False, files: Path | None = None) -> Version:
        """Log model and records to a run and register the model; no statement yet."""
        folder = files or write_model(self.scratch / f"{name}-{weight}-{logged}", weight)
        run = self.client.create_run(self.experiment_id)
        run_id = run.info.run_id
        records = {}
        for what in ("evidence", "verdict"):
            text = canonical_json({"schema": f"mlflow_calib.{what}/1", "name": name, "weight": weight})
            self.client.log_text(run_id, text, f"mlflow_calib/{what}.json")
            records[f"{what}_uri"] = f"runs:/{run_id}/mlflow_calib/{what}.json"
            records[f"{what}_sha256"] = sha256_of_text(text)
        self.client.log_text(run_id, canonical_json(listing(file_digests(folder))), "mlflow_calib/model_files.json")
        source, model_id = f"{run.info.artifact_uri}/model", None
        if logged:
            model = self.client.create_logged_model(self.experiment_id, source_run_id=run_id)
            self.client.log_model_artifacts(model.model_id, str(folder))
            source, model_id = f"models:/{model.model_id}", model.model_id
        else:
            self.client.log_artifacts(run_id, str(folder), "model")
        made = self.client.create_model_version(name, source, run_id, model_id=model_id)
        return Version(name, str(made.version), run_id, model_files_digest(folder), records)

    def statement(self, version: Version, /, **changes: Any) -> Statement:
        """The verdict that passed on this version; ``changes`` make it another one."""
        now = datetime.now(timezone.utc)
        verdict = Statement(
            kind="verdict",
            action="promote",
            name=version.name,
            version=version.version,
            alias="champion",
            expected_version=self.champion(version.name),
            model_sha256=version.model_sha256,
            status="pass",
            mode="enforce",
            policy_sha256=POLICY.digest,
            issued_at=now.isoformat(timespec="microseconds"),
            expires_at=(now + timedelta(days=7)).isoformat(timespec="seconds"),
            **version.records,
        )
        return replace(verdict, **changes)

    def override(self, version: Version, action: str = "promote", /, **changes: Any) -> Statement:
        """An override, as a person signs it."""
        nothing = dict.fromkeys(("evidence_uri", "evidence_sha256", "verdict_uri", "verdict_sha256"))
        given = {"kind": "override", "status": None, "mode": None, "policy_sha256": None, "expires_at": None, **nothing}
        given |= {"action": action, "reason": "the old model is down", "by": "Ada"}
        return replace(self.statement(version), **{**given, **changes})

    def put(self, statement: Statement, keyring: Keyring | None = KEYRING) -> None:
        """Sign the statement and write it where it belongs."""
        assert keyring is not None
        key, text = f"{SIGNED}{statement.kind}", sign(statement, keyring)
        if statement.action in ("delete-model", "rename"):
            self.client.set_registered_model_tag(statement.name, key, text)
        else:
            self.client.set_model_version_tag(statement.name, statement.version, key, text)

    def champion(self, name: str, alias: str = "champion") -> str | None:
        held = self.client.get_registered_model(name).aliases.get(alias)
        return None if held is None else str(held)

    def promoted(self, name: str, weight: float = 1.0, **options: Any) -> Version:
        """A version that came to the alias through the gate."""
        version = self.version(name, weight, **options)
        self.put(self.statement(version))
        self.client.set_registered_model_alias(name, "champion", version.version)
        assert self.champion(name) == version.version
        return version


def refusal(call: Any, *arguments: Any, **options: Any) -> str:
    """The message of the guard's refusal; anything else fails the test."""
    try:
        call(*arguments, **options)
    except MlflowException as error:
        message = str(error)
        assert "the registry guard refuses to" in message, message
        return message
    raise AssertionError("it was not refused")


class Rest:
    """The server's own endpoints, below ``/api/2.0`` for programs and ``/ajax-api/2.0`` for the pages of the UI."""

    def __init__(self, url: str, base: str) -> None:
        self._root = f"{url}/{base}/mlflow"

    def __call__(self, method: str, path: str, **body: Any) -> requests.Response:
        return requests.request(method, f"{self._root}/{path}", json=body, timeout=60)

    def refused(self, method: str, path: str, **body: Any) -> str:
        """The message of a refusal, which is 403."""
        answer = self(method, path, **body)
        assert answer.status_code == 403, (answer.status_code, answer.text)
        assert answer.json()["error_code"] == "PERMISSION_DENIED"
        assert "the registry guard refuses to" in answer.json()["message"]
        return str(answer.json()["message"])
