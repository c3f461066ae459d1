"""Where the demo lives: one folder with an MLflow store, an Airflow home and the data, and no server anywhere.

The environment is set before Airflow is imported, because Airflow reads its configuration at import.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

REPOSITORY = Path(__file__).resolve().parents[2]
MARKER = ".made-by-the-flights-demo"
OWN_ENTRIES = (
    *("airflow", "artifacts", "matplotlib", "work"),
    *("mlflow.db", "flights.parquet", "training.parquet", "demo.log", "months.json", "table.txt"),
    *("errors.png", "reliability.png"),
)


@dataclass(frozen=True)
class DemoFolder:
    """Everything the demo writes, under one folder."""

    root: Path

    @property
    def tracking_uri(self) -> str:
        """URI of the MLflow store."""
        return f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def artifacts(self) -> str:
        """URI of the folder of models and records."""
        return (self.root / "artifacts").as_uri()

    @property
    def flights(self) -> Path:
        """All flights with a label."""
        return self.root / "flights.parquet"

    @property
    def training(self) -> Path:
        """Keys of the flights that the base model was trained on."""
        return self.root / "training.parquet"

    @property
    def log(self) -> Path:
        """What Airflow, MLflow and the DAG say."""
        return self.root / "demo.log"

    def start_afresh(self) -> None:
        """Remove what an earlier demo left here, and nothing else.

        Raises
        ------
        SystemExit
            The folder holds files and is not an earlier demo's.
        """
        if self.root.exists() and any(self.root.iterdir()) and not (self.root / MARKER).exists():
            raise SystemExit(f"--folder must be new, empty or an earlier demo's; {self.root} holds other files")
        for entry in (self.root / name for name in OWN_ENTRIES):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / MARKER).touch()
        (self.root / "mlflow.db").touch()  # an empty store, which MLflow fills; one that is not there is refused


def environment(folder: DemoFolder) -> dict[str, str]:
    """Build the settings of Airflow and MLflow: SQLite, the shipped DAGs, one connection, nothing sent anywhere."""
    connection = {"conn_type": "mlflow", "host": folder.tracking_uri}
    home = folder.root / "airflow"
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_MLFLOW_DEFAULT": json.dumps(connection),
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "MPLCONFIGDIR": str(folder.root / "matplotlib"),
        "GIT_PYTHON_REFRESH": "quiet",  # MLflow looks for git and warns where there is none
    }


def set_environment(folder: DemoFolder) -> None:
    """Replace every Airflow and MLflow setting of the caller's shell by the demo's own."""
    for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "MLFLOW_"))]:
        del os.environ[name]
    os.environ.update(environment(folder))


@contextlib.contextmanager
def libraries_write_to(log: Path) -> Iterator[TextIO]:
    """Send standard output and error of this process and its children to a file; yield the terminal.

    On an error the end of the file is shown, since the cause stands there.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    encoding = sys.stdout.encoding or "utf-8"
    with (
        log.open("ab") as file,
        os.fdopen(os.dup(1), "w", encoding=encoding, errors="replace", buffering=1) as terminal,
    ):
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield terminal
        except Exception:
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
            terminal.write("\n".join(["", *tail, "", f"The demo stopped; the whole log is {log}", ""]))
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in enumerate(saved, start=1):
                os.dup2(copy, number)
                os.close(copy)
