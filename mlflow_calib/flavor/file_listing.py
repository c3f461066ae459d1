"""The files of a model one by one, so that a refusal can name the one that differs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_calib.runtime import model_files

LISTING_SCHEMA = "mlflow_calib.model_files/1"
#: Beside the records of a run: the files of its model, one by one.
LISTING = "model_files.json"
#: A message names this many files and counts the others.
_NAMED = 5


def file_digests(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Hexadecimal sha256 of every file that makes up a model, by its path below the folder, in the order of paths."""
    root = Path(folder)
    by_path = {path.relative_to(root).as_posix(): path for path in model_files(root)}
    digests = {}
    for name, path in sorted(by_path.items()):
        content = hashlib.sha256()
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                content.update(block)
        digests[name] = content.hexdigest()
    return digests


def listing_digest(digests: Mapping[str, str]) -> str:
    """The digest of the whole folder, as ``folder_digest`` gives it, from the digests of its files.

    >>> listing_digest({})
    'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    """
    total = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        total.update(json.dumps([name, digest]).encode())
    return f"sha256:{total.hexdigest()}"


def listing(digests: Mapping[str, str]) -> dict[str, Any]:
    """The record of a model's files."""
    return {"schema": LISTING_SCHEMA, "sha256": listing_digest(digests), "files": dict(digests)}


def listed_files(document: Any, sha256: str | None) -> dict[str, str] | None:
    """The files of a record, where it is one and its digest is ``sha256``; else None: it can name nothing."""
    files = document.get("files") if isinstance(document, Mapping) else None
    if not isinstance(files, Mapping) or not all(isinstance(digest, str) for digest in files.values()):
        return None
    return dict(files) if listing_digest(files) == sha256 else None


def differing_files(recorded: Mapping[str, str], found: Mapping[str, str]) -> str:
    """What differs, in words; the empty text where nothing does.

    >>> differing_files({"MLmodel": "a", "data/old": "b"}, {"MLmodel": "c", "data/new": "d"})
    'MLmodel was changed, data/new was added, data/old is missing'
    """
    parts = [f"{name} was changed" for name in recorded if name in found and recorded[name] != found[name]]
    parts += [f"{name} was added" for name in found if name not in recorded]
    parts += [f"{name} is missing" for name in recorded if name not in found]
    more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more
