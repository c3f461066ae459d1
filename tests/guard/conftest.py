"""One guarded server a database for the whole session, and a guarded store in this process for all that needs none."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow import MlflowClient

from mlflow_calib.flavor.tracking import MlflowServer, connected

from .registry import SETTINGS, Registry, Rest
from .servers import RunningServer, mlflow_server, postgres_cluster

_NAMES = itertools.count(1)


@dataclass(frozen=True)
class Served:
    """A running server, a registry on it and its endpoints."""

    server: RunningServer
    registry: Registry

    @property
    def client(self) -> MlflowClient:
        return self.registry.client

    @property
    def endpoints(self) -> list[Rest]:
        return [Rest(self.server.url, base) for base in ("api/2.0", "ajax-api/2.0")]


@pytest.fixture(scope="session")
def starting(
    empty_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], RunningServer]]:
    """Both servers start at the same time; whoever needs one waits for that one."""
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        folder = tmp_path_factory.mktemp("guarded")

        def sqlite() -> RunningServer:
            database = _copied(empty_database, folder / "mlflow.db", "mlflow-artifacts:/0")
            return stack.enter_context(mlflow_server(database, folder / "sqlite", SETTINGS))

        def postgresql() -> RunningServer:
            # a folder of its own outside pytest's, which only root may enter
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mlflow-calib-pg-")))
            database = stack.enter_context(postgres_cluster(home))
            return stack.enter_context(mlflow_server(database, folder / "postgresql", SETTINGS))

        futures: dict[str, Future[RunningServer]] = {
            "sqlite": pool.submit(sqlite),
            "postgresql": pool.submit(postgresql),
        }
        yield lambda name: futures[name].result()


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def served(
    request: pytest.FixtureRequest, starting: Callable[[str], RunningServer], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """A guarded server with four workers on one of the two databases."""
    server = starting(request.param)
    return Served(server, Registry(MlflowClient(server.url), tmp_path_factory.mktemp("scratch")))


@pytest.fixture
def name() -> str:
    """A registered model's name that no other test uses."""
    return f"m{next(_NAMES)}"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated store: the migrations take seconds."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "mlflow.db").touch()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with connected(MlflowServer(f"sqlite:///{folder}/mlflow.db")) as client:
            client.search_registered_models()
            client.search_experiments()
    finally:
        os.chdir(before)
    return folder / "mlflow.db"


def _copied(template: Path, database: Path, artifacts: str) -> str:
    """A store of its own, with its artifacts elsewhere; its URI."""
    shutil.copyfile(template, database)
    with closing(sqlite3.connect(database)) as raw, raw:
        raw.execute("UPDATE experiments SET artifact_location = ?", (artifacts,))
    return f"sqlite:///{database}"


@pytest.fixture
def local(empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registry]:
    """Opens a guarded store in this process, with settings of the test's choosing."""
    monkeypatch.chdir(tmp_path)
    uri = _copied(empty_database, tmp_path / "mlflow.db", (tmp_path / "artifacts").as_uri())

    def opened(**settings: str) -> Registry:
        for key, value in {**SETTINGS, **settings}.items():
            monkeypatch.setenv(key, value)
        return Registry(fresh_client(uri, f"calib-gate+{uri}"), tmp_path / "scratch")

    return opened


def fresh_client(tracking_uri: str, registry_uri: str) -> MlflowClient:
    """A client whose store is new: MLflow keeps stores by URI, and with them the settings they were made with."""
    from mlflow.tracking._model_registry import utils

    utils._model_registry_store_registry._get_store_with_resolved_uri.cache_clear()
    return MlflowClient(tracking_uri, registry_uri)


@pytest.fixture
def guarded_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the guard logs in this process."""
    caplog.set_level("INFO", "mlflow_calib.guard")
    return caplog
