"""Where a model may be written and read: MLflow takes local paths for URIs, and reads some of them as other paths."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mlflow_calib.errors import InvalidInputError


def local_problem(path: Path) -> str | None:
    """Why MLflow cannot read a model, or open a store, at this path; None where it can.

    MLflow percent-decodes every local path, so ``a%20b`` is read as the folder ``a b``, and cuts it at ``#``.
    """
    text = str(path)
    if "#" in text:
        return 'MLflow reads a path as a URI, which ends at "#"; choose a path without one'
    if unquote(text) != text:
        return f"MLflow reads a path as a URI, this one as {unquote(text)}; choose a path without percent escapes"
    return None


def free_folder(path: Any) -> Path:
    """The folder to write a model to, looked at and not yet made.

    Raises
    ------
    InvalidInputError
        It is no path, one that MLflow cannot load from, or not an absent or empty folder.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise InvalidInputError(f"path must be a folder to write the model to, got {path!r}")
    folder = Path(os.fspath(path))
    if problem := local_problem(folder.absolute()):
        raise InvalidInputError(f"a model cannot be saved to {folder}: {problem}")
    with _writable(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidInputError(f"path must be an absent or empty folder, and {folder} is not; choose another")
    return folder


def make_folder(folder: Path) -> None:
    """Make the folder and see that it can be written.

    Raises
    ------
    InvalidInputError
        It cannot.
    """
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInputError(f"path must be a folder that can be written, got {folder}: {error}") from error
