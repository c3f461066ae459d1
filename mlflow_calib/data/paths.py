"""Where a URI points: a file system and a path, on this host or another."""

from __future__ import annotations

import hashlib
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlflow_calib.errors import DataError

#: Extra packages that bring a scheme to fsspec.
SCHEME_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_SEGMENT_LENGTH = 100
_ONE_SLASH = re.compile(rf"({'|'.join(SCHEME_PACKAGES)}|https?|hdfs|memory):/(?!/)")


def this_host() -> str:
    """Name of this host, as records keep it."""
    return socket.gethostname()


def local_path(uri: str | Path) -> Path | None:
    """Absolute local path a URI names, or None for a URI of another scheme.

    A plain path is taken to the letter; the path of a ``file://`` URI is percent-decoded (RFC 8089), as
    ``Path.as_uri`` encodes it.

    Raises
    ------
    DataError
        A ``file://`` URI names another host, or a scheme is followed by one slash.

    Examples
    --------
    >>> str(local_path("file:///data/a%20b.parquet")), local_path("s3://bucket/a.parquet")
    ('/data/a b.parquet', None)
    """
    text = str(uri)
    if not text.strip():
        raise DataError("a URI or path must be given, got an empty text")
    if found := _ONE_SLASH.match(text):
        raise DataError(
            f"{text} must have two slashes after its scheme: {found[1]}://...; a local path begins with / or ./"
        )
    if not text.lower().startswith("file:"):
        return None if "://" in text else Path(text).expanduser().absolute()
    parts = urlsplit(text)
    if parts.netloc.lower() not in {"", "localhost", this_host().lower()}:
        raise DataError(other_host_message(text, parts.netloc))
    return Path(unquote(text[len("file:") :].removeprefix("//").removeprefix(parts.netloc))).absolute()


def absolute_uri(uri: str | Path) -> str:
    """The same place as a URI that another working directory understands."""
    path = local_path(uri)
    return str(uri).rstrip("/") if path is None else path.as_uri()


def join_uri(folder: str, name: str) -> str:
    """URI of a file in a folder given by URI or path."""
    path = local_path(folder)
    return f"{folder.rstrip('/')}/{name}" if path is None else (path / name).as_uri()


def parent_uri(uri: str) -> str:
    """URI of the folder that holds a file."""
    path = local_path(uri)
    return uri.rstrip("/").rpartition("/")[0] if path is None else path.parent.as_uri()


def file_system(uri: str | Path) -> tuple[Any, str]:
    """The fsspec file system of a URI and the path on it.

    Raises
    ------
    DataError
        The scheme is unknown, or its package is not installed.
    """
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    path = local_path(uri)
    if path is not None:
        return LocalFileSystem(), str(path)
    scheme = str(uri).partition("://")[0]
    try:
        file_system, remote = url_to_fs(str(uri))
    except ImportError as error:
        package = SCHEME_PACKAGES.get(scheme, "the fsspec package of this scheme")
        raise DataError(f"{uri} cannot be opened: {error}; install {package} next to mlflow-calib") from error
    except ValueError as error:
        raise DataError(f"{uri} cannot be opened: {error}; give a path, file:// or a scheme fsspec knows") from error
    return file_system, str(remote)


def other_host_message(uri: str, host: str) -> str:
    """What to say when a local file was written by another host."""
    return (
        f"{uri} was written on host {host!r} and is not on this host {this_host()!r}; "
        "give storage that both reach (s3://, gs://, a shared mount), or run both steps on one host"
    )


def require_file(uri: str, what: str, written_on: str | None = None) -> None:
    """Refuse a file that is not there; a local one of another host with both names."""
    system, path = file_system(uri)
    if system.exists(path):
        return
    if written_on and written_on != this_host() and local_path(uri) is not None:
        raise DataError(other_host_message(uri, written_on))
    raise DataError(f"{what} {uri} does not exist; check the URI, or run the step that writes it")


def safe_segment(text: str) -> str:
    """Text as one segment of a path, valid on every store, unique and stable.

    Letters, digits, ``.``, ``_`` and ``-`` stay; where anything else had to go, or the text is too long, eight
    hexadecimal digits of its SHA-256 follow, so that two texts never share a segment.

    Examples
    --------
    >>> safe_segment("2013-12-01"), safe_segment("manual__2013-12-01T00:00:00+00:00")
    ('2013-12-01', 'manual__2013-12-01T00-00-00-00-00-202bc849')
    """
    cleaned = _UNSAFE.sub("-", text)[:_SEGMENT_LENGTH]
    if cleaned == text and cleaned.strip("."):
        return text
    return f"{cleaned.strip('.')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
