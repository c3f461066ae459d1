"""Over HTTP, from a real ``mlflow models serve``, by every content type: the figures in memory to the bit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import requests
import uvicorn
from mlflow.pyfunc import scoring_server
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator

Rows = tuple[pd.DataFrame, np.ndarray]
JSON, CSV = {"Content-Type": "application/json"}, {"Content-Type": "text/csv"}


@pytest.fixture(scope="module")
def served(
    binary_model: Path, binary_calibrator: Calibrator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, str]]:
    """Folder of a binary model, and the address it is served at by a process of its own."""
    folder = tmp_path_factory.mktemp("served")
    mc.save_model(binary_model, binary_calibrator, folder / "m")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(folder / "m"), "--env-manager", "local"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-h", "127.0.0.1", "-p", str(port), "-w", "1"],
            stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            _await(f"{address}/ping", process, folder / "log")
            yield folder / "m", address
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(url, timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not come up: {log.read_text()[-2000:]}")


def bodies(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """One request a content type, as ``requests.post`` takes it."""
    records = frame.to_dict(orient="records")
    split = frame.to_dict(orient="split")
    turned = frame[frame.columns[::-1]].assign(unused=1)
    documents = {
        "dataframe_split": {"dataframe_split": {name: split[name] for name in ("columns", "data")}},
        "dataframe_records": {"dataframe_records": records},
        "reordered, one more": {"dataframe_records": turned.to_dict(orient="records")},
        "inputs": {"inputs": frame.to_dict(orient="list")},
        "instances": {"instances": records},
        "texts": {"dataframe_records": frame.map(repr).to_dict(orient="records")},
    }
    found: dict[str, dict[str, Any]] = {
        name: {"data": json.dumps(document), "headers": JSON} for name, document in documents.items()
    }
    return {**found, "csv": {"data": frame.to_csv(index=False), "headers": CSV}}


@pytest.fixture
def expected(binary_rows: Rows, binary_calibrator: Calibrator) -> np.ndarray:
    frame = binary_rows[0]
    return binary_calibrator.predict(LogisticRegression().fit(*binary_rows).predict_proba(frame)[:, 1])


def test_every_way_gives_the_same_bits(served: tuple[Path, str], binary_rows: Rows, expected: np.ndarray) -> None:
    """In memory, loaded natively, as pyfunc, and over HTTP by every content type."""
    folder, address = served
    frame = binary_rows[0]
    np.testing.assert_array_equal(mc.load_model(str(folder)).predict(frame), expected)
    np.testing.assert_array_equal(mlflow.pyfunc.load_model(str(folder)).predict(frame), expected)
    for name, body in bodies(frame).items():
        answer = requests.post(f"{address}/invocations", timeout=60, **body)
        assert answer.status_code == 200, (name, answer.text)
        np.testing.assert_array_equal(np.array(answer.json()["predictions"]), expected, err_msg=name)


@pytest.mark.parametrize("output", ["probability", "label", "base", "both"])
def test_outputs_by_parameter(served: tuple[Path, str], binary_rows: Rows, output: str) -> None:
    """JSON carries a float64 whole, base scores of 17 digits too."""
    folder, address = served
    frame = binary_rows[0]
    document = {"dataframe_records": frame.to_dict(orient="records"), "params": {"output": output}}
    answer = requests.post(f"{address}/invocations", data=json.dumps(document), headers=JSON, timeout=60)
    inside = mlflow.pyfunc.load_model(str(folder)).predict(frame, params={"output": output})
    found: Any = answer.json()["predictions"]
    if output == "both":
        pd.testing.assert_frame_equal(pd.DataFrame(found), inside, check_exact=True)
    else:
        np.testing.assert_array_equal(np.array(found), inside)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"dataframe_records": [{"x1": 1.0}]}, "missing inputs"),
        ({"dataframe_records": [{"x1": 1.0, "x2": "a"}]}, "x2"),
        ({"dataframe_records": [{"x1": 1.0, "x2": 2.0}], "params": {"output": "proba"}}, "output must be one of"),
        ({"dataframe_records": [{"x1": 1.0, "x2": None}]}, "NaN"),
        ([[1.0, 2.0]], "must be a JSON dictionary"),
    ],
)
def test_wrong_requests_are_the_callers(served: tuple[Path, str], document: Any, message: str) -> None:
    """400 with the reason, and the next request is served."""
    _, address = served
    answer = requests.post(f"{address}/invocations", data=json.dumps(document), headers=JSON, timeout=60)
    assert answer.status_code == 400, answer.text
    assert message.lower() in answer.text.lower()
    assert requests.get(f"{address}/ping", timeout=5).status_code == 200


def test_no_rows(served: tuple[Path, str]) -> None:
    _, address = served
    document = {"dataframe_split": {"columns": ["x1", "x2"], "data": []}}
    answer = requests.post(f"{address}/invocations", data=json.dumps(document), headers=JSON, timeout=60)
    assert (answer.status_code, answer.json()) == (200, {"predictions": []})


# ------------------------------------------------------------ MLflow's scoring application without a process of its own


@contextlib.contextmanager
def in_a_thread(model: Any) -> Iterator[str]:
    """Address of the scoring application of a loaded model."""
    config = uvicorn.Config(scoring_server.init(model), host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def test_three_classes_by_name(
    tmp_path: Path, three_class_model: Path, three_class_rows: Rows, three_class_calibrator: Calibrator
) -> None:
    mc.save_model(three_class_model, three_class_calibrator, tmp_path / "m")
    frame = three_class_rows[0].head(50)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    with in_a_thread(loaded) as address:
        for name, body in bodies(frame).items():
            answer = requests.post(f"{address}/invocations", timeout=60, **body)
            assert answer.status_code == 200, (name, answer.text)
            found = pd.DataFrame(answer.json()["predictions"])
            pd.testing.assert_frame_equal(found, loaded.predict(frame), check_exact=True)


@pytest.mark.parametrize("key", ["inputs", "instances"])
def test_an_array_signature_takes_matrices(
    tmp_path: Path, binary_rows: Rows, binary_calibrator: Calibrator, key: str
) -> None:
    frame, labels = binary_rows
    array = frame.to_numpy()
    model = LogisticRegression().fit(array, labels)
    signature = mlflow.models.infer_signature(array, labels)
    mc.save_model(model, binary_calibrator, tmp_path / "m", signature=signature)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    body = json.dumps({key: array.tolist()})
    with in_a_thread(loaded) as address:
        answer = requests.post(f"{address}/invocations", data=body, headers=JSON, timeout=60)
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(np.array(answer.json()["predictions"]), loaded.predict(array))
