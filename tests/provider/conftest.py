"""An Airflow of its own for these tests: a fresh home, migrated once; what it sets leaves with the last of them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

#: Airflow reads its home once, at import, and test files import it while pytest collects them.
HOME = tempfile.TemporaryDirectory(prefix="mlflow-calib-airflow-")
SETTINGS = {
    "AIRFLOW_HOME": HOME.name,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": f"{HOME.name}/dags",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME.name}/airflow.db",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{HOME.name}/logs",
}
BEFORE = {name: os.environ.get(name) for name in SETTINGS}
os.environ.update(SETTINGS)
Path(HOME.name, "dags").mkdir()


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[Path]:
    """Home of Airflow for this session; environment, working folder and log handlers are put back at its end."""
    root = logging.getLogger()
    handlers, level, folder, environment = list(root.handlers), root.level, Path.cwd(), dict(os.environ)
    yield Path(HOME.name)
    root.handlers[:] = handlers
    root.setLevel(level)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update({name: value for name, value in environment.items() if name not in SETTINGS})
    os.environ.update({name: value for name, value in BEFORE.items() if value is not None})
    HOME.cleanup()


@pytest.fixture(scope="session")
def airflow_database(airflow_home: Path) -> Path:
    """Airflow's metadata database, migrated."""
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    return airflow_home / "airflow.db"


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
    with connected(MlflowServer(uri)) as client:
        client.create_experiment("games", artifact_location=(folder / "artifacts").as_uri())
        mlflow.set_experiment("games")
        signature = infer_signature(trained[["p"]], model.predict(trained[["p"]]))
        known = {"signature": signature, "pip_requirements": ["scikit-learn"]}  # inferring them takes long
        mlflow.sklearn.log_model(model, name="base", registered_model_name="games-base", **known)
    return Games(folder, uri)


@pytest.fixture
def mlflow_connection(games: Games, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``mlflow_default`` name the store of the games."""
    text = json.dumps({"conn_type": "mlflow", "host": games.tracking_uri})
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", text)
