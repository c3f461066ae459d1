"""The registry: candidates without an alias, and an alias that moves only from where the evidence saw it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import mlflow.sklearn
import pytest

from mlflow_calib.errors import InvalidInputError, ModelError, PromotionRefusedError
from mlflow_calib.flavor.registry import (
    PROMOTION,
    STATUS,
    champion_version,
    promote_alias,
    read_promotion,
    register_candidate,
    registered_model_exists,
    registered_version,
    tag_version,
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


def test_the_first_and_the_second_promotion(client: Any, register: Callable[[str], str]) -> None:
    one, two = register("k1"), register("k2")
    at = datetime(2026, 3, 1, 13, tzinfo=timezone(timedelta(hours=1)))
    promote_alias(client, "m", "champion", one, None, promoted_by="dag", verdict_sha256="sha256:1", at=at)
    assert read_promotion(client, "m", one) == {
        "schema": "mlflow_calib.promotion/1",
        "alias": "champion",
        "version": one,
        "previous_version": None,
        "at": "2026-03-01T12:00:00+00:00",
        "by": "dag",
        "verdict_sha256": "sha256:1",
    }
    assert promote_alias(client, "m", "champion", two, one)["previous_version"] == one
    assert champion_version(client, "m", "champion") == two
    assert (tags(client, one)[STATUS], tags(client, two)[STATUS]) == ("former champion", "champion")
    assert read_promotion(client, "m", register("k3")) is None


def test_the_champion_is_no_longer_the_one_compared_with(client: Any, register: Callable[[str], str]) -> None:
    """N20: the evidence speaks of one champion, the alias stands at another."""
    one, two, three = register("k1"), register("k2"), register("k3")
    promote_alias(client, "m", "champion", one, None)
    promote_alias(client, "m", "champion", two, one)
    for expected, words in ((one, f"version {one}"), (None, "no version")):
        with pytest.raises(PromotionRefusedError, match=f"must still point at {words}.* points at version {two}"):
            promote_alias(client, "m", "champion", three, expected)
    assert champion_version(client, "m", "champion") == two
    assert PROMOTION not in tags(client, three)


def test_promoting_again_moves_nothing(client: Any, register: Callable[[str], str]) -> None:
    one = register("k1")
    record = promote_alias(client, "m", "champion", one, None, promoted_by="first")
    assert promote_alias(client, "m", "champion", one, None, promoted_by="second") == record


def test_an_interrupted_promotion_is_finished(client: Any, register: Callable[[str], str]) -> None:
    """The alias moved, then the process died: the retry writes the record."""
    one, two = register("k1"), register("k2")
    promote_alias(client, "m", "champion", one, None)
    client.set_registered_model_alias("m", "champion", two)
    assert promote_alias(client, "m", "champion", two, one)["previous_version"] == one
    assert read_promotion(client, "m", two) is not None
    # back to the first one, interrupted as well: its old record is not taken for the new one
    client.set_registered_model_alias("m", "champion", one)
    assert promote_alias(client, "m", "champion", one, two, promoted_by="me")["by"] == "me"
    assert tags(client, one)[STATUS] == "champion"


def test_a_writer_in_between_is_reported(client: Any, register: Callable[[str], str]) -> None:
    one, two = register("k1"), register("k2")

    class Contested:
        """A client beside which another writer moves the alias at once."""

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
            client.set_registered_model_alias(name, alias, version)
            client.set_registered_model_alias(name, alias, two)

    with pytest.raises(PromotionRefusedError, match=f"moved to version {two} by another writer"):
        promote_alias(Contested(), "m", "champion", one, None)
    assert PROMOTION not in tags(client, one)


def test_a_version_that_is_not_there(client: Any, register: Callable[[str], str]) -> None:
    register("k")
    for name, version in (("m", "7"), ("absent", "1")):
        with pytest.raises(ModelError, match=f"{name!r} must have a version {version}"):
            promote_alias(client, name, "champion", version, None)


def test_a_deleted_former_champion_does_not_block(client: Any, register: Callable[[str], str]) -> None:
    one, two = register("k1"), register("k2")
    promote_alias(client, "m", "champion", one, None)
    client.set_registered_model_alias("m", "champion", two)
    client.delete_model_version("m", one)
    assert promote_alias(client, "m", "champion", two, one)["previous_version"] == one


def test_a_model_of_another_tool_can_hold_the_alias(
    mlflow_server: MlflowServer, client: Any, binary_model: Path, register: Callable[[str], str]
) -> None:
    """Every adopter's first day: the champion is a raw model."""
    with connected(mlflow_server):
        version = mlflow.register_model(str(binary_model), "m").version
    client.set_registered_model_alias("m", "champion", version)
    candidate = register("k")
    assert promote_alias(client, "m", "champion", candidate, str(version))["previous_version"] == str(version)
