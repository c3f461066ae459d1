"""Folders that appear whole: written beside their place, then renamed; nothing half-written ever stands there."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow_calib.data.paths import absolute_uri, file_system, join_uri, local_path
from mlflow_calib.data.records import read_json
from mlflow_calib.errors import DataError

MANIFEST = "manifest.json"


@contextmanager
def written_folder(uri: str, schema: str) -> Iterator[Path]:
    """A local folder to write into; when the block ends well its files stand at ``uri``, else nothing has changed.

    On the local disk it is a sibling that is renamed, an older folder of a step being renamed away first. Elsewhere
    the files are put one by one, the manifest last, after the older manifest is gone. Either way a second run over
    the same place replaces the first.

    Raises
    ------
    DataError
        ``uri`` is a file, or a folder with something in it other than what this step (its ``schema``) wrote.
    """
    place = local_path(uri)
    _refuse_foreign(uri, schema)
    if place is None:
        with tempfile.TemporaryDirectory(prefix="mlflow-calib-") as folder:
            yield Path(folder)
            _upload(Path(folder), uri)
        return
    staged = _sibling(place, "tmp")
    try:
        staged.mkdir(parents=True)
    except OSError as error:
        raise DataError(f"{uri} cannot be written: {error}") from error
    try:
        yield staged
        _swap(staged, place)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _refuse_foreign(uri: str, schema: str) -> None:
    system, path = file_system(uri)
    if not system.exists(path):
        return
    if not system.isdir(path):
        raise DataError(f"{uri} must be a folder, and is a file; give another place to write to")
    names = {Path(name).name for name in system.ls(path, detail=False)}
    if names and not (MANIFEST in names and _schema(join_uri(uri, MANIFEST)) == schema):
        raise DataError(
            f"{uri} must be a new or empty folder, or one whose {MANIFEST} has schema {schema!r}; it holds "
            f"{', '.join(sorted(names)[:3])}: give another place to write to"
        )


def _schema(uri: str) -> Any:
    try:
        document = read_json(uri)
    except DataError:
        return None
    return document.get("schema") if isinstance(document, dict) else None


def _swap(staged: Path, place: Path) -> None:
    older = _sibling(place, "old")
    if place.exists():
        place.rename(older)
    try:
        staged.rename(place)
    except OSError:
        if older.exists():
            older.rename(place)
        raise
    shutil.rmtree(older, ignore_errors=True)


def _sibling(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.{what}-{uuid.uuid4().hex[:8]}")


def _upload(folder: Path, uri: str) -> None:
    system, target = file_system(absolute_uri(uri))
    manifest = f"{target}/{MANIFEST}"
    if system.exists(manifest):
        system.rm_file(manifest)
    system.makedirs(target, exist_ok=True)
    for file in sorted(folder.iterdir(), key=lambda file: file.name == MANIFEST):
        system.put_file(str(file), f"{target}/{file.name}")
