"""The hook against Airflow's own connections and a real MLflow store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlflow_calib.errors import InvalidInputError
from mlflow_calib.provider.hooks.mlflow import MlflowHook


def store(folder: Path) -> str:
    return json.dumps({"conn_type": "mlflow", "host": f"sqlite:///{folder}/mlflow.db"})


@pytest.mark.parametrize(
    ("connection", "uri"),
    [
        ("mlflow://mlflow:5000", "http://mlflow:5000"),
        ("mlflow://mlflow:5000/base", "http://mlflow:5000/base"),
        ("mlflow://https://mlflow:8443/base", "https://mlflow:8443/base"),
        ("mlflow://https%3A%2F%2Fmlflow:8443/base", "https://mlflow:8443/base"),
        ("https://mlflow.example.com/base", "https://mlflow.example.com/base"),
        ("http://127.0.0.1:5055", "http://127.0.0.1:5055"),
        ('{"conn_type": "mlflow", "host": "https://mlflow/base/", "port": "8443"}', "https://mlflow:8443/base"),
        ('{"conn_type": "mlflow", "host": "sqlite:////srv/mlflow.db"}', "sqlite:////srv/mlflow.db"),
    ],
)
def test_connections_as_airflow_reads_them(monkeypatch: pytest.MonkeyPatch, connection: str, uri: str) -> None:
    """P14."""
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", connection)
    assert MlflowHook().get_server().tracking_uri == uri


def test_uri_form_carries_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "mlflow://ann:p%40ss@h:5000/?registry_uri=https%3A%2F%2Freg&verify=false")
    server = MlflowHook("other").get_server()
    assert (server.tracking_uri, server.registry_uri) == ("http://h:5000", "https://reg")
    assert server.environment == {
        "MLFLOW_TRACKING_USERNAME": "ann",
        "MLFLOW_TRACKING_PASSWORD": "p@ss",
        "MLFLOW_TRACKING_INSECURE_TLS": "true",
    }


@pytest.mark.parametrize("connection", [None, "mlflow://", '{"conn_type": "mlflow"}'])
def test_no_server_leaves_no_local_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, airflow_database: Path, connection: str | None
) -> None:
    """P13."""
    monkeypatch.chdir(tmp_path)
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", connection)
    hook = MlflowHook("nowhere")
    for call in (hook.get_server, hook.get_conn):
        with pytest.raises(InvalidInputError, match="'nowhere'"):
            call()
    answered, message = hook.test_connection()
    assert not answered
    assert "nowhere" in message
    assert list(tmp_path.iterdir()) == []


def test_a_real_store_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", store(tmp_path))
    hook = MlflowHook()
    answered, message = hook.test_connection()
    assert (answered, "there is no file" in message) == (False, True)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mlflow.db").touch()
    assert hook.test_connection() == (True, "MLflow answers")
    assert hook.get_conn().get_experiment_by_name("Default") is not None
    with hook.connect() as client:
        client.create_registered_model("flights")
    assert hook.get_conn().get_registered_model("flights").name == "flights"


def test_a_server_that_does_not_answer_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", "http://127.0.0.1:9")
    answered, message = MlflowHook().test_connection()
    assert not answered
    assert "127.0.0.1" in message
