"""Folders that appear whole: written beside their place, then renamed; nothing half-written ever stands there."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mlflow_calib.data.paths import absolute_uri, file_system, join_uri, local_path, this_host
from mlflow_calib.data.records import read_json
from mlflow_calib.errors import DataError

MANIFEST = "manifest.json"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
#: The place cannot be written, whoever tries again: no room, no permission, read-only, a file in the way.
_PLACE_ERRORS = _NO_ROOM | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG}
_SWAPS, _LOOKS = 100, 20


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
    _sweep(place)
    staged = _sibling(place, "tmp")
    try:
        with _place_errors(uri, _PLACE_ERRORS):
            staged.mkdir(parents=True)
        with _place_errors(uri, _NO_ROOM):
            yield staged
        with _place_errors(uri, _PLACE_ERRORS):
            _swap(staged, place)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def _place_errors(uri: str, numbers: frozenset[int]) -> Iterator[None]:
    """What the place is to blame for as a DataError; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise
        raise DataError(f"{uri} cannot be written: {error}; make room, or give another place to write to") from error


def _refuse_foreign(uri: str, schema: str) -> None:
    place, system, path = local_path(uri), *file_system(uri)
    if place is not None and Path.cwd().is_relative_to(place.resolve()):
        raise DataError(f"{uri} must not be the working folder or a folder above it; name a folder of its own")
    names: set[str] = set()
    for _ in range(_LOOKS):  # another writer may take the folder away between two looks
        if not system.isdir(path):
            if system.isfile(path):
                raise DataError(f"{uri} must be a folder, and is a file; give another place to write to")
            return
        with suppress(FileNotFoundError):
            names = {Path(name).name for name in system.ls(path, detail=False)}
        found = _schema(join_uri(uri, MANIFEST)) if MANIFEST in names else None
        if not names or found == schema:
            return
        if found is not None or MANIFEST not in names:
            break
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
    """Put the new folder in the place of the old one; of two writers at once the later one stands."""
    for _ in range(_SWAPS):
        older = _sibling(place, "old")
        with suppress(FileNotFoundError):
            place.rename(older)
        try:
            staged.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                if older.exists():
                    older.rename(place)
                raise
        else:
            return
        finally:
            shutil.rmtree(older, ignore_errors=True)
    raise DataError(f"{place} is written by others all the time; give each writer a place of its own")


def _sibling(place: Path, what: str) -> Path:
    """A name beside the place that says which process made it, so that a later one knows what was left behind."""
    return place.with_name(f".{place.name}.{what}-{this_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


def _sweep(place: Path) -> None:
    """Remove what killed processes of this host left beside the place; an older folder left moved away comes back."""
    pattern = re.compile(rf"\.{re.escape(place.name)}\.(tmp|old)-{re.escape(this_host())}-(\d+)-[0-9a-f]{{8}}$")
    for name in list(place.parent.iterdir()) if place.parent.is_dir() else []:
        found = pattern.match(name.name)
        if found is None or _alive(int(found[2])):
            continue
        if found[1] == "old" and not place.exists():
            name.rename(place)
        shutil.rmtree(name, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _upload(folder: Path, uri: str) -> None:
    system, target = file_system(absolute_uri(uri))
    manifest = f"{target}/{MANIFEST}"
    if system.exists(manifest):
        system.rm_file(manifest)
    system.makedirs(target, exist_ok=True)
    for file in sorted(folder.iterdir(), key=lambda file: file.name == MANIFEST):
        system.put_file(str(file), f"{target}/{file.name}")
