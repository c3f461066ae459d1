"""A registry that is down, from the start or in the middle: one sentence, code 2, nothing moved, soon."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mlflow_calib.cli import main
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps import gate, history, promote, rollback

RULES = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Running:
    """A real ``mlflow server`` on the world's database, ended with all its processes."""

    def __init__(self, store: str, folder: Path) -> None:
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", store, "--workers", "1"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--artifacts-destination", str(folder)]
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        self.log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True, env=environment, cwd=folder
        )

    def wait(self) -> None:
        while self.process.poll() is None:
            with contextlib.suppress(requests.ConnectionError):
                if requests.get(f"{self.uri}/health", timeout=5).ok:
                    return
            time.sleep(0.2)
        pytest.fail("the server ended before it answered")

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


@pytest.fixture
def running(judged: Any, tmp_path: Path) -> Iterator[Running]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = Running(judged.world.server.tracking_uri, folder)
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """One try: what is tested is the answer, not the waiting."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("command", ["gate", "evaluate", "promote", "rollback", "history", "fit"])
def test_a_server_that_is_not_there(judged: Any, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    verdict = gate(judged.evidence, policy=RULES, server=judged.world.server)
    earlier = {name: json.dumps(value) for name, value in vars(judged).items() if isinstance(value, dict)}
    partitions = json.dumps(judged.world.partitions)
    arguments = {
        "gate": (earlier["evidence"],),
        "evaluate": (partitions, earlier["candidate"]),
        "promote": (earlier["candidate"], json.dumps(verdict)),
        "rollback": ("games", "--reason", "r", "--by", "b"),
        "history": ("games",),
        "fit": (partitions, "--name", "games"),
    }
    uri = f"http://user:secret@127.0.0.1:{free_port()}"
    assert main([command, *arguments[command], "--tracking-uri", uri]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("mlflow-calib")]
    where = uri.replace("user:secret", "***")
    assert line == (
        f"mlflow-calib {command}: MLflow at {where} does not answer (Connection refused); once it does, the same "
        "command finishes what was begun"
    )


def test_the_command_line_does_not_wait_for_minutes(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's seven retries with doubling pauses take over four minutes; two are kept, unless somebody asks."""
    from mlflow_calib.cli.arguments import build_parser
    from mlflow_calib.cli.server import server_of

    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    arguments = build_parser().parse_args(["history", "games", "--tracking-uri", judged.world.server.tracking_uri])
    assert server_of(arguments).environment["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "2"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "5")
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in server_of(arguments).environment


@pytest.mark.usefixtures("patience")
def test_a_server_that_dies_in_the_middle(
    judged: Any, running: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed right after the alias has moved: code 2, one line; the same command on a server that is back finishes."""
    direct = judged.world.server
    verdict = gate(judged.evidence, policy=RULES, server=direct)
    original = MlflowServer.client

    def dying(self: MlflowServer) -> Any:
        client = original(self)
        if self.tracking_uri == running.uri:
            move = client.set_registered_model_alias

            def then_die(*arguments: Any) -> None:
                move(*arguments)
                running.kill()

            client.set_registered_model_alias = then_die
        return client

    monkeypatch.setattr(MlflowServer, "client", dying)
    command = ["promote", json.dumps(judged.candidate), json.dumps(verdict), "--by", "ann"]
    assert main([*command, "--tracking-uri", running.uri]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("mlflow-calib")]
    assert f"MLflow at {running.uri} does not answer" in line
    monkeypatch.setattr(MlflowServer, "client", original)
    assert (judged.world.champion(), history("games", server=direct)[-1]["event"]) == ("2", "unrecorded")
    assert promote(judged.candidate, verdict, promoted_by="ann", server=direct)["previous_version"] == "1"
    assert [(one["event"], one["by"]) for one in history("games", server=direct)] == [("promote", "ann")]


def test_the_whole_of_it_over_http(judged: Any, running: Running) -> None:
    """Not the database file but a server: the same steps, the same records."""
    server = MlflowServer(running.uri)
    verdict = gate(judged.evidence, policy=RULES, server=server)
    first = promote(judged.candidate, verdict, promoted_by="ann", server=server)
    assert promote(judged.candidate, verdict, promoted_by="ann", server=server) == first
    back = rollback("games", reason="complaints", by="ben", server=server)
    assert rollback("games", reason="complaints", by="ben", server=server) == back
    assert [(one["event"], one["to"]) for one in history("games", server=server)] == [
        ("promote", "2"),
        ("rollback", "1"),
    ]


@pytest.mark.parametrize("option", ["--tracking-uri", "--registry-uri"])
def test_an_address_that_mlflow_does_not_know(judged: Any, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    server = {"--tracking-uri": judged.world.server.tracking_uri, option: "nowhere://x"}
    assert main(["history", "games", *(word for pair in server.items() for word in pair)]) == 2
    assert "must be one that it knows, such as http://host:5000" in capsys.readouterr().err
