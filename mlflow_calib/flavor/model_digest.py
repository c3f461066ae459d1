"""The digest over every file of a model's folder, and what else Python would run there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.file_listing import file_digests, listing_digest

#: PEP 552: magic number, flags (0: the cache is bound to the time and size of its source), time, size.
_HEADER = 16


def model_files_digest(folder: str | os.PathLike[str]) -> str:
    """``sha256:`` over the names and contents of all files of a model folder, read in blocks of 1 MiB.

    What reading a model adds (``registered_model_meta``, caches of compiled code) is no part of it, so the digest is
    the same wherever the model is copied and loaded.

    Raises
    ------
    ModelError
        The folder is missing or empty, or holds something that the digest cannot vouch for, see `hidden_content`.
    """
    root = Path(folder)
    if hidden := ", ".join(hidden_content(root)):
        raise ModelError(f"{root} holds {hidden}; remove it, or log the model again")
    digests = file_digests(root)
    if not digests:
        raise ModelError(f"{root} must be a folder with the files of a model, and holds none")
    return listing_digest(digests)


def hidden_content(root: Path) -> Iterator[str]:
    """What a digest over files does not cover and loading a model would use, in words.

    A link to a folder leads out of the model. A compiled file in a cache may be used in place of its source. Those that
    Python writes of itself are bound to the time of the source. One bound to the hash of the source, which anybody can
    compute, runs whatever it holds, and so does one bound to a time at which the source may yet be downloaded.
    """
    for place, folders, files in os.walk(root):
        here = Path(place)
        yield from (f"the link {(here / name).relative_to(root)}" for name in folders if (here / name).is_symlink())
        if here.name == "__pycache__":
            paths = (here / name for name in files if name.endswith(".pyc"))
            yield from (f"the unchecked code {path.relative_to(root)}" for path in paths if _unchecked(path))


def _unchecked(path: Path) -> bool:
    with path.open("rb") as stream:
        header = stream.read(_HEADER)
    flags, of_source = int.from_bytes(header[4:8], "little"), int.from_bytes(header[8:12], "little")
    return len(header) < _HEADER or flags != 0 or of_source > time.time()
