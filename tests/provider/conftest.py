"""An Airflow of its own for these tests: a fresh home, migrated once; what it sets leaves with the last of them."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Airflow reads its home once, at import, and test files import it while pytest collects them.
HOME = Path(tempfile.mkdtemp(prefix="mlflow-calib-airflow-"))
SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(HOME / "logs"),
}
ROOT_LOG = logging.getLogger()
BEFORE = {name: os.environ.get(name) for name in SETTINGS}
BEFORE_LOG = (list(ROOT_LOG.handlers), ROOT_LOG.level)
AIRFLOW_LOG: list[logging.Handler] = []

(HOME / "dags").mkdir()
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update(SETTINGS)


def pytest_collection_finish() -> None:
    """Airflow is imported by now: leave the process to the other tests as it was."""
    AIRFLOW_LOG.extend(handler for handler in ROOT_LOG.handlers if handler not in BEFORE_LOG[0])
    ROOT_LOG.handlers[:], level = list(BEFORE_LOG[0]), BEFORE_LOG[1]
    ROOT_LOG.setLevel(level)
    for name, value in BEFORE.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


@pytest.fixture(autouse=True)
def airflow_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Airflow's environment and log for the length of one test."""
    handlers, level, folder = list(ROOT_LOG.handlers), ROOT_LOG.level, Path.cwd()
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    ROOT_LOG.handlers += [handler for handler in AIRFLOW_LOG if handler not in handlers]
    ROOT_LOG.setLevel(logging.INFO)
    yield
    ROOT_LOG.handlers[:] = handlers
    ROOT_LOG.setLevel(level)
    os.chdir(folder)


@pytest.fixture(scope="session")
def airflow_database() -> Path:
    """Airflow's metadata database, migrated."""
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **SETTINGS})
    return HOME / "airflow.db"


@pytest.fixture
def run_dag(airflow_database: Path) -> Callable[..., Any]:
    """Run a DAG in this process, as ``airflow dags test`` does, and return its DAG run."""

    def run(dag: Any, **conf: Any) -> Any:
        from airflow.dag_processing.bundles.manager import DagBundlesManager
        from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

        bag = DagBag(dag_folder=os.devnull)
        bag.bag_dag(dag)
        DagBundlesManager().sync_bundles_to_db()
        sync_bag_to_db(bag, "dags-folder", None)
        return dag.test(logical_date=None, run_conf=conf)

    return run


@dataclass(frozen=True)
class Games:
    """A real MLflow store with a base model on real basketball games, and tables to calibrate it on."""

    folder: Path
    tracking_uri: str

    @property
    def client(self) -> Any:
        from mlflow import MlflowClient

        return MlflowClient(self.tracking_uri, self.tracking_uri)

    def table(self, name: str) -> str:
        """URI of one of the tables."""
        return str(self.folder / f"{name}.parquet")

    def alias(self, model_name: str) -> str | None:
        """Version that the champion alias points at."""
        from mlflow_calib.flavor.registry import champion_version

        return champion_version(self.client, model_name)

    def conf(self, model_name: str, **changes: Any) -> dict[str, Any]:
        """Params of a run that passes: a limit that half of the games can settle."""
        return {
            "model_name": model_name,
            "base_model_uri": "models:/games-base/1",
            "data_uri": self.table("games"),
            "work_uri": str(self.folder / "work"),
            "key_columns": ["game"],
            "label_column": "label",
            "policy": {"requirements": {"calibration_error_upper_bound": {"limit": 0.1}}},
            **changes,
        }


@pytest.fixture(scope="session")
def games(real_data: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Games:
    """Games of 2016 train the base model; the later ones are tables: all, the first 300, and with swapped winners."""
    import mlflow.sklearn
    import pandas as pd
    from mlflow.models import infer_signature
    from sklearn.linear_model import LogisticRegression

    from mlflow_calib.flavor.tracking import MlflowServer, connected

    folder = tmp_path_factory.mktemp("games")
    rows = pd.read_csv(real_data("nba_games.csv"), parse_dates=["date"]).rename_axis("game").reset_index()
    trained, later = rows[rows.season == 2016], rows[rows.season > 2016]
    model = LogisticRegression().fit(trained[["p"]], trained.label)
    later.to_parquet(folder / "games.parquet")
    later.head(300).to_parquet(folder / "few.parquet")
    later[later.game % 2 == 0].to_parquet(folder / "even.parquet")
    later[later.game % 2 == 1].assign(label=1 - later.label).to_parquet(folder / "odd_swapped.parquet")
    uri = f"sqlite:///{folder}/mlflow.db"
    (folder / "mlflow.db").touch()
    with connected(MlflowServer(uri)) as client:
        experiment = client.create_experiment("games", artifact_location=(folder / "artifacts").as_uri())
        signature = infer_signature(trained[["p"]], model.predict(trained[["p"]]))
        known = {"signature": signature, "pip_requirements": ["scikit-learn"]}  # inferring them takes long
        with mlflow.start_run(experiment_id=experiment):  # set_experiment would outlive this store
            mlflow.sklearn.log_model(model, name="base", registered_model_name="games-base", **known)
            known |= {"pyfunc_predict_fn": "predict_proba"}
            mlflow.sklearn.log_model(model, name="pyfunc", registered_model_name="games-pyfunc", **known)
    return Games(folder, uri)


@pytest.fixture
def mlflow_connection(games: Games, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``mlflow_default`` name the store of the games."""
    text = json.dumps({"conn_type": "mlflow", "host": games.tracking_uri})
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", text)
