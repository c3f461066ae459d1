"""Connecting leaves nothing behind: MLflow's global URIs and the environment are what they were."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import mlflow
import pytest

from mlflow_calib.errors import InvalidInputError
from mlflow_calib.flavor.tracking import MlflowServer, connected

OF_HERE, AMBIENT = "word-of-here", "word-of-the-environment"
HERE = MlflowServer("http://here.example", environment={"MLFLOW_TRACKING_TOKEN": OF_HERE})
THERE = MlflowServer("http://there.example", "http://registry.example", {"MLFLOW_TRACKING_INSECURE_TLS": "true"})


@pytest.fixture(autouse=True)
def clean_mlflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    named = [name for name in os.environ if name.startswith("MLFLOW_TRACKING")]
    for name in {*named, "MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"}:  # MLflow's own setters leave the latter set
        monkeypatch.setenv(name, "")  # so that what a test sets is undone even where nothing was set before
        monkeypatch.delenv(name)


def test_inside_the_block_mlflow_speaks_to_the_server() -> None:
    with connected(THERE) as client:
        assert mlflow.get_tracking_uri() == "http://there.example"
        assert mlflow.get_registry_uri() == "http://registry.example"
        assert os.environ["MLFLOW_TRACKING_URI"] == "http://there.example"
        assert os.environ["MLFLOW_TRACKING_INSECURE_TLS"] == "true"
        assert client.tracking_uri == "http://there.example"


def test_unset_stays_unset() -> None:
    before = dict(os.environ)
    with connected(HERE):
        assert os.environ["MLFLOW_TRACKING_TOKEN"] == OF_HERE
    assert dict(os.environ) == before
    assert not mlflow.is_tracking_uri_set()
    os.environ["MLFLOW_TRACKING_URI"] = "http://later.example"  # an unpinned URI still follows the environment
    assert mlflow.get_tracking_uri() == mlflow.get_registry_uri() == "http://later.example"


def test_pinned_uris_and_a_differing_environment_are_both_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.set_tracking_uri("http://pinned.example")
    mlflow.set_registry_uri("http://pinned-registry.example")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://of-the-environment.example")
    try:
        before = dict(os.environ)
        with connected(HERE):
            assert mlflow.get_registry_uri() == mlflow.get_tracking_uri() == "http://here.example"
        assert mlflow.get_tracking_uri() == "http://pinned.example"
        assert mlflow.get_registry_uri() == "http://pinned-registry.example"
        assert dict(os.environ) == before
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]
        mlflow.set_registry_uri(None)  # type: ignore[arg-type]


def test_an_error_inside_restores_too() -> None:
    before = dict(os.environ)

    def fail() -> None:
        with connected(HERE):
            mlflow.set_tracking_uri("http://set-by-the-block.example")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert dict(os.environ) == before
    assert not mlflow.is_tracking_uri_set()


def test_blocks_nest_and_credentials_do_not_leak_inwards() -> None:
    with connected(HERE):
        with connected(THERE):
            assert mlflow.get_tracking_uri() == "http://there.example"
            assert "MLFLOW_TRACKING_TOKEN" not in os.environ
            with connected(HERE):
                assert os.environ["MLFLOW_TRACKING_TOKEN"] == OF_HERE
        assert mlflow.get_tracking_uri() == mlflow.get_registry_uri() == "http://here.example"
        assert os.environ["MLFLOW_TRACKING_TOKEN"] == OF_HERE
        assert "MLFLOW_TRACKING_INSECURE_TLS" not in os.environ


def test_credentials_of_the_environment_hold_for_a_server_without_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", AMBIENT)
    with connected(HERE), connected(THERE):
        assert os.environ["MLFLOW_TRACKING_TOKEN"] == AMBIENT
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == AMBIENT


def test_mlflow_prints_nothing_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output belongs to ``--json``; MLflow would print links and draw bars."""
    bars, links = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"
    with connected(HERE), connected(THERE):
        assert (os.environ[bars], os.environ[links]) == ("false", "true")
    monkeypatch.setenv(bars, "true")
    with connected(HERE), connected(THERE):
        assert os.environ[bars] == "true"
    assert links not in os.environ


def test_threads_take_turns() -> None:
    wrong: list[str] = []

    def look(server: MlflowServer) -> None:
        for _ in range(30):
            with connected(server):
                if mlflow.get_tracking_uri() != server.tracking_uri:
                    wrong.append(mlflow.get_tracking_uri())

    threads = [threading.Thread(target=look, args=(server,)) for server in (HERE, THERE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_server_is_an_error_never_a_local_file(tmp_path: Path) -> None:
    """P13: nothing is logged to a local ./mlruns or SQLite file."""
    with pytest.raises(InvalidInputError, match=r"MLFLOW_TRACKING_URI.*not set.*MlflowServer\(tracking_uri="):
        MlflowServer.from_environment()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("driver", ["sqlite", "sqlite+pysqlite"])
def test_a_store_that_does_not_exist_is_refused_and_not_made(tmp_path: Path, driver: str) -> None:
    """A misspelt path is no empty store."""
    uri, there = f"{driver}:///{tmp_path}/nope.db", f"sqlite:///{tmp_path}/there.db"
    (tmp_path / "there.db").touch()
    for server in (MlflowServer(uri), MlflowServer("http://here.example", uri), MlflowServer(there, uri)):
        with (
            pytest.raises(InvalidInputError, match=r"there is no file .*nope\.db; .*mlflow db upgrade"),
            connected(server),
        ):
            pass
    assert not (tmp_path / "nope.db").exists()
    with connected(MlflowServer(there)):
        assert mlflow.get_tracking_uri() == there
    with connected(MlflowServer("sqlite:///:memory:")):
        pass


@pytest.mark.parametrize("name", ["a%20b", "a#b"])
def test_a_store_whose_path_is_read_as_another_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "mlflow.db").touch()
    server = MlflowServer(f"sqlite:///{tmp_path}/{name}/mlflow.db")
    with pytest.raises(InvalidInputError, match=r"cannot be opened: .*choose a path without"), connected(server):
        pass


def test_from_environment_takes_both_uris(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://here.example")
    assert MlflowServer.from_environment() == MlflowServer("http://here.example")
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", "http://registry.example")
    assert MlflowServer.from_environment() == MlflowServer("http://here.example", "http://registry.example")


def test_every_problem_is_said_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        MlflowServer(" ", "", {"MLFLOW_TRACKING_URI": "x", "A=B": "y", "C": 1})  # type: ignore[dict-item]
    for part in ("5 problems", "tracking_uri must", "registry_uri must", "give it as tracking_uri", "'A=B'", "['C']"):
        assert part in str(caught.value)


def test_no_secret_is_shown() -> None:
    server = MlflowServer(
        "https://me:hunter2@a.example", "postgresql://me:hunter2@b/x?password=hunter2", {"T": "hunter2"}
    )
    assert "hunter2" not in repr(server)
    assert "a.example" in repr(server)
    with pytest.raises(InvalidInputError) as caught:
        MlflowServer(" https://me:hunter2@a.example")
    assert "hunter2" not in str(caught.value)


def test_the_environment_is_a_copy() -> None:
    given = {"A": "1"}
    server = MlflowServer("http://here.example", environment=given)
    given["A"] = "2"
    assert server.environment == {"A": "1"}
    assert hash(server) == hash(MlflowServer("http://here.example"))
