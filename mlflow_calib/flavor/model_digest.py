"""The digest over every file of a model's folder, and what else Python would run there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.file_listing import file_digests, listing_digest

#: PEP 552: the second word of a compiled file; 1 says that Python runs it without a look at its source.
_UNCHECKED = 1
_HEADER = 8


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

    A link to a folder leads out of the model. A compiled file in a cache is used in place of its source; where it is
    bound to the time or hash of the source (PEP 552) Python looks first, otherwise it runs whatever it holds.
    """
    for place, folders, files in os.walk(root):
        here = Path(place)
        yield from (f"the link {(here / name).relative_to(root)}" for name in folders if (here / name).is_symlink())
        if "__pycache__" in here.relative_to(root).parts:
            paths = (here / name for name in files)
            yield from (f"the unchecked code {path.relative_to(root)}" for path in paths if _unchecked(path))


def _unchecked(path: Path) -> bool:
    with path.open("rb") as stream:
        header = stream.read(_HEADER)
    return len(header) == _HEADER and int.from_bytes(header[4:8], "little") == _UNCHECKED
