"""What the registry guard costs: a guarded alias change beside an unguarded one; writes docs/guard_cost.md.

Real servers with four workers on SQLite and PostgreSQL; run it with ``python -m tests.bench.guard``.
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import requests
from mlflow import MlflowClient

from mlflow_calib.flavor.file_listing import file_digests
from tests.guard.registry import SETTINGS, Registry, Version, write_model
from tests.guard.servers import mlflow_server, postgres_cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guard_cost.md"
#: Megabytes of the model, and how often its alias is moved.
SIZES = {1: 60, 30: 30, 300: 12}
#: Milliseconds a guarded change of a 1 MB model may add, hashing apart.
LIMIT = 50.0
COLUMNS = ("database", "model", "unguarded", "guarded", "hashing", "added beyond hashing", "target", "met")

INTRODUCTION = """# What the registry guard costs

Medians in milliseconds of one request after another to `mlflow server` with four workers on one machine, artifacts in
a local folder behind the server's proxy. **Unguarded** moves an alias that is not guarded, **guarded** moves
`champion` with signed evidence: the server verifies the signature, reads evidence and verdict records, hashes every
file of the model and writes in one transaction. **Hashing** is the time that the digest over the model's files takes
by itself. The moves alternate, between two versions of each model.

`python -m tests.bench.guard` measures this and writes the page. {machine}

"""


def sized_model(folder: Path, megabytes: int, seed: int) -> Path:
    """A model folder of about this size: one big file of weights among the small ones."""
    write_model(folder, float(seed))
    block = bytes(range(256)) * 4096
    with (folder / "data/bundle/base_model/weights.bin").open("wb") as stream:
        for number in range(megabytes):
            stream.write(seed.to_bytes(8, "little") + number.to_bytes(8, "little") + block[16:])
    return folder


def milliseconds(action: Callable[[], Any]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def moves(registry: Registry, url: str, versions: list[Version], repeats: int) -> tuple[float, float]:
    """Medians of unguarded and guarded changes, alternating; each guarded one has a statement of its own."""
    plain, guarded = [], []
    with requests.Session() as session:

        def move(alias: str, version: Version) -> None:
            body = {"name": version.name, "alias": alias, "version": version.version}
            answer = session.post(f"{url}/api/2.0/mlflow/registered-models/alias", json=body, timeout=120)
            answer.raise_for_status()

        for number in range(repeats + 2):
            version = versions[number % 2]
            registry.put(registry.statement(version))
            plain.append(milliseconds(lambda one=version: move("challenger", one)))
            guarded.append(milliseconds(lambda one=version: move("champion", one)))
    return statistics.median(plain[2:]), statistics.median(guarded[2:])


def lines(database: str, url: str, scratch: Path) -> Iterator[tuple[str, ...]]:
    """One line a size of the model."""
    registry = Registry(MlflowClient(url), scratch)
    for megabytes, repeats in SIZES.items():
        name = registry.model(f"m{megabytes}")
        folders = [sized_model(scratch / f"{megabytes}-{seed}", megabytes, seed) for seed in (1, 2)]
        versions = [registry.version(name, files=folder) for folder in folders]
        plain, guarded = moves(registry, url, versions, repeats)
        hashing = statistics.median(milliseconds(lambda one=folders[0]: file_digests(one)) for _ in range(9))
        added = guarded - plain - hashing
        target = (f"under {LIMIT:.0f}", "yes" if added < LIMIT else "NO") if megabytes == 1 else ("", "")
        figures = (f"{figure:,.1f}" for figure in (plain, guarded, hashing, added))
        yield (database, f"{megabytes} MB", *figures, *target)


def measured() -> Iterator[tuple[str, ...]]:
    """Every line, on SQLite and then on PostgreSQL."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(mlflow_server(f"sqlite:///{folder}/mlflow.db", folder / "sqlite", SETTINGS))
        yield from lines("SQLite", server.url, folder / "scratch-sqlite")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mlflow-calib-pg-")))
        uri = stack.enter_context(postgres_cluster(home))
        server = stack.enter_context(mlflow_server(uri, folder / "postgresql", SETTINGS))
        yield from lines("PostgreSQL", server.url, folder / "scratch-postgresql")


def main() -> None:
    """Measure, print and write the page."""
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}."
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for row in measured():
        print(" | ".join(row), flush=True)
        rows.append(row)
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    PAGE.write_text(f"{INTRODUCTION.format(machine=machine)}{table}\n")
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
