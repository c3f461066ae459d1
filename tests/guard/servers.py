"""Real servers of the tests: ``mlflow server`` and PostgreSQL, on loopback, in process groups of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

MLFLOW = Path(sys.executable).with_name("mlflow")
#: The user that Debian's package makes; PostgreSQL refuses to run as root.
POSTGRES_USER = "postgres"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def absent(reason: str) -> None:
    """Skip with the reason; under REQUIRE_SERVICES=1 fail."""
    if os.environ.get("REQUIRE_SERVICES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(frozen=True)
class RunningServer:
    """A ``mlflow server`` that answers; ``log`` is what it printed, ``artifacts`` the folder behind its proxy."""

    url: str
    log: Path
    artifacts: Path
    database: str


@contextmanager
def mlflow_server(
    database: str, folder: Path, settings: Mapping[str, str], *options: str, workers: int = 4
) -> Iterator[RunningServer]:
    """Start a server whose registry is guarded; killed by its group at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [str(MLFLOW), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", str(workers)]
    command += ["--backend-store-uri", database, "--registry-store-uri", f"calib-gate+{database}"]
    command += ["--artifacts-destination", str(folder / "artifacts"), *options]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **quiet, "OMP_NUM_THREADS": "1", **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_it_answers(f"http://127.0.0.1:{port}/health", process, folder / "server.log")
            yield RunningServer(f"http://127.0.0.1:{port}", folder / "server.log", folder / "artifacts", database)
        finally:
            _end_group(process)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
            if answer.status == 200:
                return
        time.sleep(0.2)
    pytest.fail(f"the server did not answer:\n{log.read_text()}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=3)  # open connections of clients would hold it longer
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def postgres_programs() -> Path | None:
    """The folder with ``initdb`` and ``pg_ctl``: Debian keeps them off PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


@contextmanager
def postgres_cluster(folder: Path) -> Iterator[str]:
    """A cluster of its own in an empty folder, on loopback; yields the URI of its database ``mlflow``."""
    programs = postgres_programs()
    if programs is None:
        absent("PostgreSQL is not installed: apt-get install postgresql")
    assert programs is not None
    as_user = _unprivileged(folder)
    port = free_port()
    data, options = folder / "data", f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -k {folder}"
    _run(folder, *as_user, programs / "initdb", "-D", data, "-A", "trust", "-U", "mlflow", "-N")
    _run(folder, *as_user, programs / "pg_ctl", "-D", data, "-o", options, "-l", folder / "postgres.log", "-w", "start")
    try:
        _run(folder, programs / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "mlflow", "mlflow")
        yield f"postgresql+psycopg://mlflow@127.0.0.1:{port}/mlflow"
    finally:
        _run(folder, *as_user, programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _run(folder: Path, *command: str | Path) -> None:
    with (folder / "commands.log").open("a") as log:  # a pipe would stay open as long as the cluster runs
        subprocess.run(command, check=True, stdout=log, stderr=log, cwd=folder, timeout=120)


def _unprivileged(folder: Path) -> list[str]:
    """What comes before a command of PostgreSQL: nothing, or for root the change to another user."""
    if os.geteuid() != 0:
        return []
    tool = shutil.which("setpriv") or shutil.which("runuser")
    try:
        shutil.chown(folder, POSTGRES_USER, POSTGRES_USER)
    except LookupError:
        absent(f"the tests run as root and there is no user {POSTGRES_USER!r} to run PostgreSQL as")
    if tool is None:
        absent("the tests run as root and neither setpriv nor runuser is installed to leave it")
    if str(tool).endswith("setpriv"):
        return [str(tool), f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--clear-groups"]
    return [str(tool), "-u", POSTGRES_USER, "--"]
