"""Airflow without a server: a fresh metadata database, the shipped DAG from its file, and one `dag.test()` a run.

Airflow is imported inside the functions only: it reads its settings at import, and the demo sets them first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG


@contextlib.contextmanager
def database_in_the_making() -> Iterator[Callable[[], None]]:
    """Create Airflow's metadata database in a process beside this one; yield the function that waits for it."""
    with subprocess.Popen([sys.executable, "-m", "airflow", "db", "migrate"]) as migration:

        def wait() -> None:
            if migration.wait() != 0:
                raise RuntimeError(f"airflow db migrate must succeed, it ended with {migration.returncode}")

        yield wait


def load_dag(path: Path) -> DAG:
    """Load the one DAG of a file."""
    from airflow.sdk import DAG

    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} must be a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    (dag,) = (value for value in vars(module).values() if isinstance(value, DAG))
    return dag


def run_once(dag: DAG, conf: dict[str, Any]) -> str:
    """Run the DAG in this process with the given run conf, as an asset or the API would start it; return its state."""
    run = dag.test(logical_date=None, run_conf=conf)
    return str(run.state)
