"""What Airflow learns of the provider: valid by its own schemas, and every name leads somewhere."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.sdk import Connection

from mlflow_calib.provider.get_provider_info import get_provider_info
from mlflow_calib.provider.hooks.mlflow import MlflowHook

INFO = get_provider_info()
AIRFLOW = Path(airflow.__path__[0])


def schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((AIRFLOW / name).read_text())
    return document


def test_valid_by_the_runtime_schema() -> None:
    jsonschema.validate(INFO, schema("provider_info.schema.json"))


def test_connection_form_is_valid_by_the_full_schema() -> None:
    """The runtime schema lets anything pass in a form; keys with underscores would be ignored in silence."""
    properties = schema("provider.yaml.schema.json")["properties"]["connection-types"]
    if "ui-field-behaviour" not in properties["items"]["properties"]:
        pytest.skip(f"Airflow {airflow.__version__} takes forms from the hook alone")
    properties["items"]["additionalProperties"] = False
    jsonschema.validate(INFO["connection-types"], properties)


def test_every_module_and_class_exists() -> None:
    modules = [module for part in ("operators", "hooks") for entry in INFO[part] for module in entry["python-modules"]]
    assert len(modules) == 7
    for module in modules:
        importlib.import_module(module)
    module, _, name = INFO["connection-types"][0]["hook-class-name"].rpartition(".")
    assert getattr(importlib.import_module(module), name) is MlflowHook
    assert INFO["connection-types"][0]["connection-type"] == MlflowHook.conn_type
    assert INFO["connection-types"][0]["hook-name"] == MlflowHook.hook_name


def test_airflow_finds_the_hook_of_a_connection() -> None:
    hook = Connection(conn_id="here", conn_type="mlflow", host="mlflow").get_hook()
    assert isinstance(hook, MlflowHook)
    assert hook.mlflow_conn_id == "here"
