"""Small records by URI: JSON read and written whole, their digests, and policy documents."""

from __future__ import annotations

import errno
import hashlib
import importlib
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_calib.core.records import from_json, json_text, shown
from mlflow_calib.data.paths import file_system, local_path
from mlflow_calib.errors import DataError

_toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

#: Too long, a circle of links, or signs that a path cannot hold.
_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
#: What editors of Windows write before a text in UTF-8.
_BYTE_ORDER_MARK = "\ufeff"


def sha256_of_text(text: str) -> str:
    """``sha256:`` and the hexadecimal SHA-256 of a text in UTF-8."""
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def same_sha256(first: str, second: str) -> bool:
    """Whether two digests agree, with or without their ``sha256:``."""
    return first.removeprefix("sha256:").lower() == second.removeprefix("sha256:").lower()


def sha256_of_file(uri: str | Path) -> str:
    """``sha256:`` and the hexadecimal SHA-256 of a file's bytes, read in blocks of 1 MiB.

    Raises
    ------
    DataError
        The file is missing or unreadable.
    """
    sha256 = hashlib.sha256()
    with _opened(uri) as file:
        while block := file.read(1 << 20):
            sha256.update(block)
    return "sha256:" + sha256.hexdigest()


def read_text(uri: str | Path) -> str:
    """A file's whole text, in UTF-8.

    Raises
    ------
    DataError
        The file is missing, unreadable, or not UTF-8.
    """
    with _opened(uri) as file:
        content: bytes = file.read()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{uri} must be a text in UTF-8, and is not ({error})") from error


def read_json(uri: str | Path) -> Any:
    """The document of a JSON file.

    Raises
    ------
    DataError
        The file is missing, unreadable, or not JSON.
    """
    text = read_text(uri)
    try:
        return from_json(text)
    except ValueError as error:
        raise DataError(f"{uri} must hold JSON, and does not ({error}); write it again") from error


def write_json(uri: str | Path, document: Any) -> str:
    """Write a document as JSON, whole or not at all, and return its `sha256_of_text`.

    On the local disk by a temporary sibling and a rename; elsewhere by the store's own put.

    Raises
    ------
    InvalidInputError
        The document is not JSON.
    DataError
        The place cannot be written.
    """
    text = json_text(document, indent=1) + "\n"
    write_text(uri, text)
    return sha256_of_text(text)


def write_text(uri: str | Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all; missing folders are made."""
    path = local_path(uri)
    if path is None:
        system, remote = file_system(uri)
        system.pipe_file(remote, text.encode())
        return
    temporary = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(text.encode())
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"{uri} cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_policy_document(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The document of a policy: a dict as it is, or a TOML or JSON file by URI.

    Raises
    ------
    DataError
        The file is missing, unreadable, or neither TOML nor JSON.
    """
    if isinstance(source, Mapping):
        return dict(source)
    where, text = f"policy {source}", read_text(source).removeprefix(_BYTE_ORDER_MARK)
    if not str(source).lower().endswith(".json"):
        return parse_toml(text, where)
    try:
        document = from_json(text)
    except ValueError as error:
        raise DataError(f"{where} must hold JSON, and does not ({error}); write it again") from error
    if not isinstance(document, dict):
        raise DataError(f"{where} must be a table of settings, got {type(document).__name__}")
    return document


def parse_toml(text: str, where: str = "the policy") -> dict[str, Any]:
    """The table of a TOML text; a JSON object is taken too.

    Raises
    ------
    DataError
        It is neither.
    """
    is_json = text.lstrip().startswith("{")
    try:
        return dict(from_json(text) if is_json else _toml_loads(text))
    except ValueError as error:
        kind = "JSON" if is_json else "TOML"
        raise DataError(f"{where} must be TOML or a JSON object, and is no {kind} ({error})") from error


def _toml_loads(text: str) -> Any:
    try:
        return _toml.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _opened(uri: str | Path) -> Any:
    """An open binary file; a place that is not there or may not be read is the caller's mistake, so it is final."""
    system, path = file_system(uri)
    try:
        return system.open(path, "rb")
    except FileNotFoundError as error:
        remote = " or cannot be reached" if local_path(uri) is None else ""
        raise DataError(f"{uri} does not exist{remote}; check the URI, or run the step that writes it") from error
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise DataError(f"{uri} cannot be read: {error}") from error
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_PATH:
            raise
        raise DataError(f"a URI or path that can be opened must be given, got {shown(uri)} ({error})") from error
