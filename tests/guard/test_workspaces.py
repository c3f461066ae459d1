"""A server with workspaces: every workspace is guarded, and none sees the others' champions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from mlflow import MlflowClient

from .conftest import Served
from .registry import SETTINGS, Registry, refusal
from .servers import mlflow_server


@pytest.fixture(scope="module")
def served(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("workspaces")
    database = f"sqlite:///{folder}/mlflow.db"
    (folder / "mlflow.db").write_bytes(empty_database.read_bytes())
    with mlflow_server(database, folder, SETTINGS, "--enable-workspaces", workers=1) as server:
        for name in ("team-a", "team-b"):
            made = requests.post(f"{server.url}/api/3.0/mlflow/workspaces", json={"name": name}, timeout=60)
            assert made.status_code in (200, 201), made.text
        yield Served(server, Registry(MlflowClient(server.url), folder / "scratch"))


def test_each_workspace_has_its_own_guarded_champion(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for position, workspace in enumerate(("team-a", "team-b")):
        monkeypatch.setenv("MLFLOW_WORKSPACE", workspace)
        experiment = served.client.create_experiment("e")
        registry = Registry(served.client, served.registry.scratch / workspace, experiment)
        registry.model("m")
        unproven = registry.version("m", 9.0 + position)
        refusal(served.client.set_registered_model_alias, "m", "champion", unproven.version)
        version = registry.promoted("m", float(position), logged=bool(position))
        location = served.client.get_model_version_download_uri("m", version.version)
        assert f"/workspaces/{workspace}/" in location
        refusal(served.client.delete_registered_model, "m")
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
    assert Registry(served.client, served.registry.scratch).champion("m") == "2"


def test_files_of_another_workspace_are_not_followed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_WORKSPACE", "team-a")
    registry = Registry(served.client, served.registry.scratch / "c", served.client.create_experiment("c"))
    registry.model("c")
    version = registry.version("c")
    elsewhere = f"mlflow-artifacts:/workspaces/team-b/{version.run_id}/evidence.json"
    registry.put(registry.statement(version, evidence_uri=elsewhere))
    message = refusal(served.client.set_registered_model_alias, "c", "champion", version.version)
    assert "lies in another workspace than 'team-a'" in message
