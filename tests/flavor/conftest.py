"""A real MLflow store for every test: SQLite, migrated once a session and copied."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import infer_signature
from sklearn.linear_model import LogisticRegression

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.flavor.tracking import MlflowServer, connected

#: MLflow 3.10 opens a store in the working folder when any pyfunc model is loaded, for its tracing; 3.17 does not.
OF_MLFLOW_ITSELF = {"mlflow.db"} if tuple(map(int, mlflow.__version__.split(".")[:2])) < (3, 17) else set()


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store whose schema is up to date: the migrations of a fresh one take seconds."""
    folder = tmp_path_factory.mktemp("mlflow_template")
    before = Path.cwd()
    (folder / "mlflow.db").touch()
    os.chdir(folder)  # the experiment "Default" places its artifacts in the working folder
    try:
        with connected(MlflowServer(f"sqlite:///{folder}/mlflow.db")) as client:
            client.search_experiments()
            client.search_registered_models()
    finally:
        os.chdir(before)
    return folder / "mlflow.db"


@pytest.fixture
def mlflow_server(migrated_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowServer]:
    """A store of its own, artifacts below ``tmp_path``; the working folder is another one and must stay empty."""
    store = tmp_path / "store"
    store.mkdir()
    shutil.copyfile(migrated_database, store / "mlflow.db")
    database = sqlite3.connect(store / "mlflow.db")
    with database:
        database.execute("UPDATE experiments SET artifact_location = ?", ((store / "mlartifacts/0").as_uri(),))
    database.close()
    working_folder = tmp_path / "cwd"
    working_folder.mkdir()
    monkeypatch.chdir(working_folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    yield MlflowServer(f"sqlite:///{store}/mlflow.db")
    left = {path.name for path in working_folder.iterdir()}
    assert left <= OF_MLFLOW_ITSELF, "MLflow wrote into the working folder"


def run_fresh(script: str, *arguments: str | Path, blocked: bool = True) -> str:
    """Run a script in a new process, by default one in which mlflow_calib cannot be imported; returns its output."""
    block = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'mlflow_calib':\n"
        "            raise ModuleNotFoundError(f'no module {name}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    command = [sys.executable, "-I", "-c", (block if blocked else "") + script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def fresh_process() -> Callable[..., str]:
    """`run_fresh`: scripts in a process of their own."""
    return run_fresh


@pytest.fixture(scope="session")
def binary_rows() -> tuple[pd.DataFrame, np.ndarray]:
    """Six hundred rows of two features, labels 0 and 1."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x1": rng.normal(size=600), "x2": rng.normal(size=600)})
    return frame, (frame["x1"] + rng.normal(size=600) > 0).to_numpy().astype(int)


@pytest.fixture(scope="session")
def three_class_rows() -> tuple[pd.DataFrame, np.ndarray]:
    """Six hundred rows of two features, labels "ant", "bee" and "cat"."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x1": rng.normal(size=600), "x2": rng.normal(size=600)})
    index = np.clip(np.round(frame["x1"] + rng.normal(size=600) + 1), 0, 2).astype(int)
    return frame, np.array(["ant", "bee", "cat"])[index]


@pytest.fixture(scope="session")
def binary_model(binary_rows: tuple[pd.DataFrame, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a logistic regression with a signature."""
    return save_sklearn(LogisticRegression().fit(*binary_rows), binary_rows[0], tmp_path_factory.mktemp("base") / "m")


@pytest.fixture(scope="session")
def three_class_model(
    three_class_rows: tuple[pd.DataFrame, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder of a logistic regression of three classes with a signature."""
    model = LogisticRegression().fit(*three_class_rows)
    return save_sklearn(model, three_class_rows[0], tmp_path_factory.mktemp("base3") / "m")


def save_sklearn(model: object, frame: pd.DataFrame, path: Path, **options: object) -> Path:
    """Write a scikit-learn model as MLflow does, its requirements given, so that none are inferred."""
    signature = infer_signature(frame, model.predict(frame))  # type: ignore[attr-defined]
    mlflow.sklearn.save_model(model, str(path), signature=signature, pip_requirements=["scikit-learn"], **options)
    return path


@pytest.fixture(scope="session")
def binary_calibrator(binary_rows: tuple[pd.DataFrame, np.ndarray]) -> Calibrator:
    """Fitted on the scores of `binary_model`."""
    frame, labels = binary_rows
    return fit_calibrator(LogisticRegression().fit(frame, labels).predict_proba(frame)[:, 1], labels, n_bins=5)


@pytest.fixture(scope="session")
def three_class_calibrator(three_class_rows: tuple[pd.DataFrame, np.ndarray]) -> Calibrator:
    """Fitted on the scores of `three_class_model`, one map a class."""
    frame, labels = three_class_rows
    scores = LogisticRegression().fit(frame, labels).predict_proba(frame)
    return fit_calibrator(scores, labels, reduction="marginal", classes=["ant", "bee", "cat"], n_bins=4)
