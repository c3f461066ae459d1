"""The artifact in environments of its own, made from its ``requirements.txt`` alone: mlflow-calib is not there."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import requests

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator

Rows = tuple[pd.DataFrame, np.ndarray]

LOAD = """
import importlib.util, sys
import mlflow.pyfunc, numpy as np, pandas as pd
assert importlib.util.find_spec("mlflow_calib") is None
folder = sys.argv[1]
model = mlflow.pyfunc.load_model(folder + "/m", suppress_warnings=True)
np.save(folder + "/out.npy", model.predict(pd.read_csv(folder + "/frame.csv")))
"""


@functools.cache
def no_index() -> str | None:
    """Why no package can be installed; None where the package index answers."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    index = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or "https://pypi.org/simple"
    if os.environ.get("PIP_NO_INDEX"):
        return "PIP_NO_INDEX is set"
    try:
        with urllib.request.urlopen(f"{index.rstrip('/')}/numpy/", timeout=20):  # noqa: S310 - an index of packages
            return None
    except (urllib.error.URLError, OSError) as error:
        return f"the package index {index} does not answer ({error})"


@pytest.fixture(scope="module")
def folder(
    binary_model: Path, binary_rows: Rows, binary_calibrator: Calibrator, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A calibrated model ``m`` and its input ``frame.csv``."""
    if reason := no_index():
        pytest.skip(f"an environment cannot be made: {reason}")
    folder = tmp_path_factory.mktemp("clean")
    mc.save_model(binary_model, binary_calibrator, folder / "m")
    binary_rows[0].to_csv(folder / "frame.csv", index=False)
    return folder


def test_its_requirements_load_and_serve_it(folder: Path, binary_rows: Rows) -> None:
    python = _environment(folder)
    expected = mlflow.pyfunc.load_model(str(folder / "m")).predict(binary_rows[0])
    loaded = subprocess.run([python, "-I", "-c", LOAD, folder], capture_output=True, text=True, cwd=folder, check=False)
    assert loaded.returncode == 0, loaded.stderr[-3000:]
    np.testing.assert_array_equal(np.load(folder / "out.npy"), expected)
    served = np.array(_served(python, folder, binary_rows[0]))
    np.testing.assert_array_equal(served, expected)


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed")
def test_mlflow_makes_an_environment_with_uv(folder: Path, binary_rows: Rows) -> None:
    out = folder / "uv.json"
    mlflow.models.predict(
        str(folder / "m"),
        input_path=str(folder / "frame.csv"),
        content_type="csv",
        output_path=str(out),
        env_manager="uv",
    )
    expected = mlflow.pyfunc.load_model(str(folder / "m")).predict(binary_rows[0])
    np.testing.assert_array_equal(np.array(json.loads(out.read_text())["predictions"]), expected)


def _environment(folder: Path) -> Path:
    """A fresh virtual environment with what the artifact asks for; the path of its Python."""
    venv, requirements = folder / "venv", folder / "m" / "requirements.txt"
    python = venv / "bin" / "python"
    # MLflow 3.10 serves with no newer Starlette, and its own requirements let one in.
    limits = ["starlette<1"] if mlflow.__version__.startswith("3.10.") else []
    if uv := shutil.which("uv"):
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, venv], check=True)
        command = [uv, "pip", "install", "-q", "--python", python, "-r", requirements, *limits]
    else:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        command = [python, "-m", "pip", "install", "-q", "-r", requirements, *limits]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return python


def _served(python: Path, folder: Path, frame: pd.DataFrame) -> list[float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        python,
        "-m",
        "mlflow",
        "models",
        "serve",
        "-m",
        folder / "m",
        "--env-manager",
        "local",
        "-h",
        "127.0.0.1",
    ]
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-p", str(port)], stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True
        )
        try:
            body = {"dataframe_records": frame.to_dict(orient="records")}
            deadline = time.monotonic() + 180
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    answer = requests.post(f"http://127.0.0.1:{port}/invocations", json=body, timeout=60)
                except requests.ConnectionError:  # noqa: PERF203 - waiting for it
                    time.sleep(0.3)
                else:
                    assert answer.status_code == 200, answer.text
                    return list(answer.json()["predictions"])
            return pytest.fail((folder / "log").read_text()[-3000:])
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
