"""Files that travel with a model, as MLflow's own flavors take them."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlflow_calib.errors import InvalidInputError, raise_problems

#: Where MLflow's flavors put them, below the folder of the model.
FOLDER = "extra_files"


def extra_file_names(extra_files: Sequence[str | os.PathLike[str]] | None) -> list[dict[str, str]]:
    """What the flavor's entry in MLmodel says of them: one ``{"path": "extra_files/<name>"}`` each.

    Raises InvalidInputError where two have one name, or a local one does not exist.
    """
    if isinstance(extra_files, (str, os.PathLike)):
        raise InvalidInputError(f"extra_files must be a list of paths or URIs, got {os.fspath(extra_files)!r}")
    names: list[str] = []
    problems = []
    for given in [os.fspath(one) for one in extra_files or []]:
        name = _name(given)
        if not name or name in names:
            problems.append(f"extra_files must have distinct names, got {given!r} beside {names}; rename it")
        elif "://" not in given and ":/" not in given and not Path(given).is_file():
            problems.append(f"extra_files must exist, and there is no file {given!r}")
        names.append(name)
    if problems:
        raise_problems(problems)
    return [{"path": f"{FOLDER}/{name}"} for name in names]


def _name(given: str) -> str:
    return posixpath.basename(unquote(urlsplit(given).path)) if ":/" in given else Path(given).name


def copy_extra_files(extra_files: Sequence[str | os.PathLike[str]] | None, folder: Path) -> None:
    """Fetch them to the folder of the model."""
    import mlflow.artifacts

    if not extra_files:
        return
    (folder / FOLDER).mkdir(exist_ok=True)
    for given in extra_files:
        mlflow.artifacts.download_artifacts(artifact_uri=os.fspath(given), dst_path=str(folder / FOLDER))
