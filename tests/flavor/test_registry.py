"""The registry: candidates without an alias, their tags, and what exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.registry import (
    STATUS,
    champion_version,
    register_candidate,
    registered_model_exists,
    registered_version,
    require_version,
    tag_version,
    version_exists,
)
from mlflow_calib.flavor.tracking import MlflowServer, connected


@pytest.fixture
def register(mlflow_server: MlflowServer) -> Callable[[str], str]:
    """Register a new version under the name "m", by its run key."""

    def one(run_key: str) -> str:
        with connected(mlflow_server) as client:
            model = client.create_logged_model("0", "m")
        return register_candidate(mlflow_server, "m", f"models:/{model.model_id}", run_key=run_key, run_id="r1")

    return one


@pytest.fixture
def client(mlflow_server: MlflowServer) -> Any:
    return mlflow_server.client()


def tags(client: Any, version: str) -> dict[str, str]:
    return dict(client.get_model_version("m", version).tags)


def test_no_champion_yet(client: Any, register: Callable[[str], str]) -> None:
    assert champion_version(client, "m", "champion") is None  # no registered model
    register("k")
    assert champion_version(client, "m", "champion") is None  # no alias


def test_whether_a_registered_model_exists(client: Any, register: Callable[[str], str]) -> None:
    assert registered_model_exists(client, "m") is False
    register("k")
    assert registered_model_exists(client, "m") is True


def test_a_name_that_no_model_can_have(mlflow_server: MlflowServer) -> None:
    with pytest.raises(InvalidInputError, match=r"without any of / : @ # [?], got 'a/b'"):
        register_candidate(mlflow_server, "a/b", "models:/m-0")


def test_a_candidate_has_tags_and_no_alias(client: Any, register: Callable[[str], str]) -> None:
    version = register("k1")
    assert tags(client, version).items() >= {STATUS: "candidate", "mlflow_calib.run_id": "r1"}.items()
    assert client.get_registered_model("m").aliases == {}


def test_registering_again_adds_no_version(
    mlflow_server: MlflowServer, client: Any, register: Callable[[str], str]
) -> None:
    """P11: a retry of the fit registers one version."""
    assert registered_version(client, "m", "k1") is None
    first = register("k1")
    assert register("k1") == first == registered_version(client, "m", "k1")
    assert register("k2") != first
    assert len(client.search_model_versions("name = 'm'")) == 2


def test_tags_and_text(client: Any, register: Callable[[str], str]) -> None:
    version = register("k")
    tag_version(client, "m", version, {"mlflow_calib.verdict": "pass"}, "calibration error at most .04")
    assert tags(client, version)["mlflow_calib.verdict"] == "pass"
    assert client.get_model_version("m", version).description == "calibration error at most .04"


def test_a_version_that_is_not_there(client: Any, register: Callable[[str], str]) -> None:
    version = register("k")
    assert version_exists(client, "m", version)
    for name, number in (("m", "7"), ("absent", "1")):
        assert not version_exists(client, name, number)
        with pytest.raises(ModelError, match=f"{name!r} must have a version {number}"):
            require_version(client, name, number)
