"""An alias that moves only from where it is expected, and events that tell of it exactly once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

from mlflow_calib.errors import ModelError, PromotionRefusedError
from mlflow_calib.flavor.events import PROMOTE, ROLLBACK, Event, append_event, new_event, read_event, read_events
from mlflow_calib.flavor.moves import MOVE, PROMOTION, move_alias, record_move, settle
from mlflow_calib.flavor.registry import STATUS, champion_version, register_candidate
from mlflow_calib.flavor.tracking import MlflowServer, connected


@pytest.fixture
def register(mlflow_server: MlflowServer) -> Callable[[str], str]:
    """Register a new version under the name "m", by its run key."""

    def one(run_key: str) -> str:
        with connected(mlflow_server) as client:
            model = client.create_logged_model("0", "m")
        return register_candidate(mlflow_server, "m", f"models:/{model.model_id}", run_key=run_key)

    return one


@pytest.fixture
def client(mlflow_server: MlflowServer) -> Any:
    return mlflow_server.client()


def tags(client: Any, version: str) -> dict[str, str]:
    return dict(client.get_model_version("m", version).tags)


def event(before: str | None, to: str, **values: Any) -> Event:
    return new_event(**{"event": PROMOTE, "name": "m", "alias": "champion", "before": before, "to": to, **values})


def test_the_first_and_the_second_move(client: Any, register: Callable[[str], str]) -> None:
    one, two = register("k1"), register("k2")
    first = move_alias(client, event(None, one, by="dag"))
    second = move_alias(client, event(one, two))
    assert champion_version(client, "m", "champion") == two
    assert (tags(client, one)[STATUS], tags(client, two)[STATUS]) == ("former champion", "champion")
    assert read_event(tags(client, one)[PROMOTION]) == first
    assert settle(client, "m", "champion") == (two, [first, second])
    (key,) = [key for key in tags(client, two) if key.startswith("mlflow_calib.history.")]
    assert key.endswith(".2")


def test_the_alias_is_no_longer_where_it_was(client: Any, register: Callable[[str], str]) -> None:
    """N20: the evidence speaks of one champion, the alias stands at another."""
    one, two, three = register("k1"), register("k2"), register("k3")
    move_alias(client, event(None, one))
    move_alias(client, event(one, two))
    for expected, words in ((one, f"version {one}"), (None, "no version")):
        with pytest.raises(PromotionRefusedError, match=f"must still point at {words}.* points at version {two}"):
            move_alias(client, event(expected, three))
    assert champion_version(client, "m", "champion") == two
    assert PROMOTION not in tags(client, three)


def test_a_move_that_broke_off_is_finished_in_its_own_words(client: Any, register: Callable[[str], str]) -> None:
    one, two = register("k1"), register("k2")
    move_alias(client, event(None, one))
    begun = event(one, two, by="ann", reason="r")
    client.set_model_version_tag("m", two, f"{MOVE}.champion", begun.to_json())
    assert len(settle(client, "m", "champion")[1]) == 1, "the alias has not moved: nothing happened"
    client.set_registered_model_alias("m", "champion", two)
    current, events = settle(client, "m", "champion")
    assert (current, events[-1]) == (two, begun)
    assert settle(client, "m", "champion")[1] == events, "finished once"
    assert (tags(client, one)[STATUS], tags(client, two)[STATUS]) == ("former champion", "champion")


def test_back_and_forth_between_two(client: Any, register: Callable[[str], str]) -> None:
    """An old event of the same version is not taken for the move that is under way."""
    one, two = register("k1"), register("k2")
    move_alias(client, event(None, one))
    move_alias(client, event(one, two))
    move_alias(client, event(two, one, event=ROLLBACK, by="b", reason="r"))
    again = event(one, two, by="c")
    client.set_model_version_tag("m", two, f"{MOVE}.champion", again.to_json())
    client.set_registered_model_alias("m", "champion", two)
    assert [one.by for one in settle(client, "m", "champion")[1]] == [None, None, "b", "c"]


def test_an_event_is_appended_once_and_never_changed(client: Any, register: Callable[[str], str]) -> None:
    one = event(None, register("k"))
    append_event(client, one)
    append_event(client, one)
    append_event(client, replace(one, by="somebody else"))
    assert read_events(client, "m", "champion") == [one]


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
        move_alias(Contested(), event(None, one))
    assert PROMOTION not in tags(client, one)
    client.set_registered_model_alias("m", "champion", one)
    assert settle(client, "m", "champion") == (one, []), "a move by hand afterwards is not the one that failed"


def test_a_refusal_of_the_server_is_ours_with_its_sentence(client: Any, register: Callable[[str], str]) -> None:
    version = register("k")

    class Guarded:
        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

        def set_registered_model_alias(self, *_: Any) -> None:
            raise MlflowException("the registry guard refuses: its status is 'fail'", error_code=PERMISSION_DENIED)

    with pytest.raises(PromotionRefusedError, match=r"the server refuses alias .*: the registry guard refuses: its"):
        move_alias(Guarded(), event(None, version))
    assert champion_version(client, "m", "champion") is None
    assert tags(client, version)[f"{MOVE}.champion"] == "null"

    class Broken(Guarded):
        def set_registered_model_alias(self, *_: Any) -> None:
            raise MlflowException("disk full")

    with pytest.raises(MlflowException, match="disk full"):
        move_alias(Broken(), event(None, version))


def test_a_version_that_is_not_there(client: Any, register: Callable[[str], str]) -> None:
    register("k")
    with pytest.raises(ModelError, match="'m' must have a version 7"):
        move_alias(client, event(None, "7"))


def test_a_deleted_former_champion_does_not_block(client: Any, register: Callable[[str], str]) -> None:
    one, two = register("k1"), register("k2")
    move_alias(client, event(None, one))
    client.set_registered_model_alias("m", "champion", two)
    client.delete_model_version("m", one)
    record_move(client, event(one, two))
    assert [one.before for one in settle(client, "m", "champion")[1]] == [one], "its own event went with it"


def test_a_model_of_another_tool_can_hold_the_alias(
    mlflow_server: MlflowServer, client: Any, binary_model: Path, register: Callable[[str], str]
) -> None:
    """Every adopter's first day: the champion is a raw model."""
    with connected(mlflow_server):
        version = str(mlflow.register_model(str(binary_model), "m").version)
    client.set_registered_model_alias("m", "champion", version)
    candidate = register("k")
    assert move_alias(client, event(version, candidate)).before == version
    assert tags(client, version)[STATUS] == "former champion"


def test_a_renamed_model_keeps_its_history(client: Any, register: Callable[[str], str]) -> None:
    move_alias(client, event(None, register("k")))
    client.rename_registered_model("m", "n")
    assert len(read_events(client, "n", "champion")) == 1


@pytest.mark.parametrize("text", [None, "", "null", "[]", "{}", '{"schema": "mlflow_calib.event/2"}', "{" * 9])
def test_what_is_no_event_is_none(text: str | None) -> None:
    assert read_event(text) is None


def test_an_event_reads_back(register: Callable[[str], str]) -> None:
    one = event(None, register("k"), by="Ünal 😀", reason="a | b\n")
    assert read_event(one.to_json()) == one
    assert read_event(json.dumps({**one.to_dict(), "at": "yesterday"})) is None
