"""From the fields of a connection to one server (P13, P14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mlflow_calib.errors import InvalidInputError
from mlflow_calib.provider.hooks.connection import ConnectionFields, server_of


def fields(**given: Any) -> ConnectionFields:
    extra = given.pop("extra", None)
    text = extra if extra is None or isinstance(extra, str) else json.dumps(extra)
    return ConnectionFields("mlflow_default", **{"conn_type": "mlflow", "extra": text, **given})


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ({"host": "mlflow"}, "http://mlflow"),
        ({"host": "mlflow", "port": 5000}, "http://mlflow:5000"),
        ({"host": "mlflow:5000"}, "http://mlflow:5000"),
        ({"host": " mlflow:5000/ "}, "http://mlflow:5000"),
        ({"host": "mlflow:5000/base/"}, "http://mlflow:5000/base"),
        ({"host": "mlflow", "schema": "https"}, "https://mlflow"),
        ({"host": "mlflow", "schema": "base"}, "http://mlflow/base"),
        ({"host": "mlflow", "port": 5000, "schema": "/base/"}, "http://mlflow:5000/base"),
        ({"host": "mlflow", "conn_type": "https"}, "https://mlflow"),
        ({"host": "http://mlflow"}, "http://mlflow"),
        ({"host": "https://mlflow/"}, "https://mlflow"),
        ({"host": "https://mlflow/base/"}, "https://mlflow/base"),
        ({"host": "https://mlflow/base", "port": 8443}, "https://mlflow:8443/base"),
        ({"host": "https://mlflow:8443", "port": 8443}, "https://mlflow:8443"),
        ({"host": "https://mlflow/a", "schema": "b"}, "https://mlflow/a/b"),
        ({"host": "https://mlflow", "schema": "https"}, "https://mlflow"),
        ({"host": "https://ann:secret@mlflow/a"}, "https://mlflow/a"),
        ({"host": "::1", "port": 5000}, "http://[::1]:5000"),
        ({"host": "http://[::1]:5000"}, "http://[::1]:5000"),
        ({"host": "sqlite:////srv/mlflow.db"}, "sqlite:////srv/mlflow.db"),
        (
            {"host": "postgresql://u:p@db:5432/mlflow?sslmode=require"},
            "postgresql://u:p@db:5432/mlflow?sslmode=require",
        ),
        ({"host": "file:///srv/mlruns"}, "file:///srv/mlruns"),
        ({"host": "databricks"}, "databricks"),
        ({"host": "databricks://profile"}, "databricks://profile"),
    ],
)
def test_every_spelling_has_one_uri(given: dict[str, Any], uri: str) -> None:
    """P14."""
    assert server_of(fields(**given)).tracking_uri == uri


@pytest.mark.parametrize(
    ("given", "environment"),
    [
        ({}, {}),
        ({"login": "ann", "password": "p@ss"}, {"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "p@ss"}),
        (
            {"host": "https://ann:p%40ss@mlflow"},
            {"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "p@ss"},
        ),
        ({"extra": {"token": "t"}}, {"MLFLOW_TRACKING_TOKEN": "t"}),
        ({"extra": {"token": "", "verify": None}}, {}),
        ({"extra": {"verify": True}}, {}),
        ({"extra": {"verify": "true"}}, {}),
        ({"extra": {"verify": False}}, {"MLFLOW_TRACKING_INSECURE_TLS": "true"}),
        ({"extra": {"verify": "False"}}, {"MLFLOW_TRACKING_INSECURE_TLS": "true"}),
        ({"extra": {"verify": "/etc/ca.pem"}}, {"MLFLOW_TRACKING_SERVER_CERT_PATH": "/etc/ca.pem"}),
    ],
)
def test_credentials_are_mlflow_variables(given: dict[str, Any], environment: dict[str, str]) -> None:
    assert dict(server_of(fields(**{"host": "https://mlflow", **given})).environment) == environment


def test_registry_may_be_another_server() -> None:
    assert server_of(fields(host="https://mlflow", extra={"registry_uri": "https://reg"})).registry_uri == "https://reg"
    assert server_of(fields(host="https://mlflow", extra={"registry_uri": ""})).registry_uri is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "host must name the MLflow tracking server"),
        ({"host": "  "}, "host must name the MLflow tracking server"),
        ({"schema": "base", "port": 5000}, "host must name the MLflow tracking server"),
        ({"host": "https://"}, "host must be a host name"),
        ({"host": "https://mlflow?x=1"}, "without query"),
        ({"host": "https://mlflow:80", "port": 81}, "two ports, 80 and 81"),
        ({"host": "https://mlflow:eighty"}, "number from 0 to 65535"),
        ({"host": "sqlite:////a.db", "port": 80}, "port and schema must be empty"),
        ({"host": "mlflow", "extra": "token=t"}, "extra must be a JSON object"),
        ({"host": "mlflow", "extra": "[1]"}, "extra must be a JSON object"),
        ({"host": "mlflow", "login": "ann"}, "login and password must be given together"),
        ({"host": "mlflow", "login": "a", "password": "b", "extra": {"token": "t"}}, "not both"),
    ],
)
def test_what_names_no_server_is_refused(given: dict[str, Any], words: str) -> None:
    """P13."""
    with pytest.raises(InvalidInputError, match="mlflow_default") as caught:
        server_of(fields(**given))
    assert words in str(caught.value)


def test_all_problems_at_once_and_no_secret_in_them() -> None:
    wrong = fields(password="hunter2", extra="token=hunter3")  # noqa: S106
    with pytest.raises(InvalidInputError) as caught:
        server_of(wrong)
    assert "3 problems" in str(caught.value)
    assert "hunter" not in str(caught.value) + repr(wrong)
