"""A store with a base model and real partitions, built once a session; every test works on a copy of its database."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import ModelSignature
from mlflow.tracking._tracking_service.utils import _artifact_repos_cache
from mlflow.types import ColSpec, Schema
from sklearn.linear_model import LogisticRegression

from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import evaluate, fit, score, split

#: Requirements that the real games can meet, and that they cannot: 4,443 rows say neither yes nor no to .015.
LENIENT = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
STRICT = {"requirements": {"calibration_error_upper_bound": {"limit": 0.015}}}


@dataclass(frozen=True)
class World:
    """A registry in which ``games`` version 1, a raw model, is champion, and partitions scored with both."""

    server: MlflowServer
    folder: Path
    partitions: dict[str, Any]

    @property
    def client(self) -> Any:
        return self.server.client()

    def champion(self, name: str = "games", alias: str = "champion") -> str | None:
        version = self.client.get_registered_model(name).aliases.get(alias)
        return None if version is None else str(version)

    def versions(self, name: str = "games") -> list[str]:
        return sorted(str(found.version) for found in self.client.search_model_versions(f"name = '{name}'"))

    def tags(self, version: str, name: str = "games") -> dict[str, str]:
        return dict(self.client.get_model_version(name, version).tags)

    def runs(self, experiment: str = "games") -> list[Any]:
        found = self.client.get_experiment_by_name(experiment)
        return [] if found is None else self.client.search_runs([found.experiment_id])


@dataclass(frozen=True)
class Judged:
    """A world with one candidate that was fitted and evaluated."""

    world: World
    candidate: dict[str, Any]
    evidence: dict[str, Any]


def identity_model() -> LogisticRegression:
    """A classifier whose probability is the sigmoid of its one feature, to rounding."""
    model = LogisticRegression().fit(pd.DataFrame({"logit_p": [-1.0, 1.0, -2.0, 2.0]}), [0, 1, 0, 1])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([0.0])
    return model


def write_rows(source: pd.DataFrame, path: Path) -> Path:
    """Real probabilities as a table: a key, the log odds as the one feature, the label."""
    p = source["p"].clip(1e-9, 1 - 1e-9)
    columns = {"row": np.arange(len(source)), "logit_p": np.log(p / (1 - p)), "label": source["label"].to_numpy()}
    extra = {name: source[name] for name in ("date", "season") if name in source}
    pd.DataFrame({**columns, **extra}).to_parquet(path, index=False)
    return path


def register_base(server: MlflowServer, name: str, experiment: str, model: LogisticRegression | None = None) -> str:
    """Log and register a raw model; returns its version."""
    signature = ModelSignature(Schema([ColSpec("double", "logit_p")]), Schema([ColSpec("long")]))
    with connected(server) as client:
        experiment_id = client.get_experiment_by_name(experiment).experiment_id
        with mlflow.start_run(experiment_id=experiment_id):
            info = mlflow.sklearn.log_model(
                model or identity_model(), name="base", signature=signature, pip_requirements=["scikit-learn"]
            )
        return str(mlflow.register_model(info.model_uri, name).version)


def new_store(folder: Path) -> MlflowServer:
    """A migrated SQLite store with its artifacts beside it."""
    folder.mkdir(parents=True)
    (folder / "mlflow.db").touch()
    server = MlflowServer(f"sqlite:///{folder}/mlflow.db")
    before = Path.cwd()
    os.chdir(folder)
    try:
        with connected(server) as client:
            client.create_experiment("base models", artifact_location=(folder / "base").as_uri())
            client.search_registered_models()
    finally:
        os.chdir(before)
    return server


def copy_of(world: World, folder: Path) -> World:
    """The same world with a database and artifacts of its own: what a test breaks stays broken for nobody else."""
    folder.mkdir(parents=True, exist_ok=True)
    database = Path(world.server.tracking_uri.removeprefix("sqlite:///"))
    shutil.copytree(database.parent, folder, dirs_exist_ok=True)
    columns = {
        "experiments": "artifact_location",
        "runs": "artifact_uri",
        "logged_models": "artifact_location",
        "model_versions": "storage_location",
    }
    with closing(sqlite3.connect(folder / "mlflow.db")) as copy, copy:
        for table, column in columns.items():
            moved = (database.parent.as_uri(), folder.as_uri())
            copy.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", moved)  # noqa: S608
    # MLflow remembers where the artifacts of a run id lie, for the whole process and whatever the store.
    _artifact_repos_cache.clear()
    return World(MlflowServer(f"sqlite:///{folder}/mlflow.db"), folder, world.partitions)


def scored_and_split(
    server: MlflowServer, data: Path, folder: Path, how: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    predictions = score(
        "models:/games/1",
        str(folder / "predictions"),
        data_uri=str(data),
        key_columns=["row"],
        label_column="label",
        server=server,
        **{"champion": "models:/games@champion", **options},
    )
    return split(predictions, str(folder / "partitions"), split=how or {"how": "hash", "evaluation_fraction": 0.5})


@pytest.fixture(scope="session")
def games(real_data: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8,886 real games as a table."""
    return write_rows(pd.read_csv(real_data("nba_games.csv")), tmp_path_factory.mktemp("games") / "games.parquet")


@pytest.fixture(scope="session")
def session_world(games: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    server = new_store(folder / "store")
    register_base(server, "games", "base models")
    server.client().set_registered_model_alias("games", "champion", "1")
    return World(server, folder, scored_and_split(server, games, folder))


@pytest.fixture(scope="session")
def session_judged(session_world: World, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    world = copy_of(session_world, tmp_path_factory.mktemp("judged") / "store")
    candidate = fit(world.partitions, name="games", calibrator={"n_bins": 10}, server=world.server)
    return Judged(world, candidate, evaluate(world.partitions, candidate, server=world.server))


@pytest.fixture
def empty_cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder into which nothing may be written."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    yield folder
    assert list(folder.iterdir()) == [], "something was written into the working folder"


@pytest.fixture
def world(session_world: World, tmp_path: Path, empty_cwd: Path) -> World:
    return copy_of(session_world, tmp_path / "store")


@pytest.fixture
def judged(session_judged: Judged, tmp_path: Path, empty_cwd: Path) -> Judged:
    copy = copy_of(session_judged.world, tmp_path / "store")
    return Judged(copy, dict(session_judged.candidate), dict(session_judged.evidence))


@pytest.fixture(scope="session")
def steps_helpers() -> Any:
    """The functions of this file, for tests that make a world of their own."""
    return sys.modules[__name__]
