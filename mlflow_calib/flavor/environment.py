"""The environment of a calibrated model: the base model's requirement lines, verbatim, and ours where missing."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.errors import InvalidInputError

#: Files that MLflow copies from the working folder where that is a uv project, which is not the model's.
_UV_FILES = ("uv.lock", "pyproject.toml", ".python-version")


def get_default_pip_requirements(bundle_runtime: bool = True) -> list[str]:
    """Requirement lines a calibrated model adds to those of its base model."""
    return ["numpy"] if bundle_runtime else ["numpy", f"mlflow-calib=={__version__}"]


def get_default_conda_env(bundle_runtime: bool = True) -> dict[str, Any]:
    """Conda environment of a calibrated model whose base model brings none."""
    import mlflow

    pip = [f"mlflow=={mlflow.__version__}", *get_default_pip_requirements(bundle_runtime)]
    python = f"python={platform.python_version()}"
    return {"name": "mlflow-env", "channels": ["conda-forge"], "dependencies": [python, "pip", {"pip": pip}]}


def environment_arguments(
    base: Path,
    bundle_runtime: bool,
    pip_requirements: Sequence[str] | None,
    extra_pip_requirements: Sequence[str] | None,
    conda_env: Any = None,
) -> dict[str, Any]:
    """Arguments of ``mlflow.pyfunc.save_model`` for the environment; they are given, so nothing is inferred.

    Raises InvalidInputError where more than one of them is given.
    """
    if sum(given is not None for given in (pip_requirements, extra_pip_requirements, conda_env)) > 1:
        raise InvalidInputError(
            "pip_requirements and conda_env replace and extra_pip_requirements adds; give one of them"
        )
    if conda_env is not None:
        return {"conda_env": conda_env}
    if pip_requirements is not None:
        return {"pip_requirements": list(pip_requirements)}
    lines = requirement_lines(base)
    present = {_package(line) for line in lines}
    lines += [line for line in get_default_pip_requirements(bundle_runtime) if _package(line) not in present]
    lines += list(extra_pip_requirements or [])
    conda = _conda_environment(base, lines)
    return {"pip_requirements": lines} if conda is None else {"conda_env": conda}


def requirement_lines(base: Path) -> list[str]:
    """The lines of the base model's ``requirements.txt``, a constraints file named by its full path."""
    path = base / "requirements.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    constraints = f"-c {(base / 'constraints.txt').resolve()}"
    return [re.sub(r"^\s*-c\s+constraints\.txt\s*$", lambda _: constraints, line) for line in lines if line.strip()]


def _conda_environment(base: Path, lines: list[str]) -> dict[str, Any] | None:
    """The base model's conda environment with ``lines`` as its pip part."""
    import yaml  # type: ignore[import-untyped]  # MLflow's own dependency; it ships without types

    path = base / "conda.yaml"
    if not path.is_file():
        return None
    conda: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    others = [item for item in conda.get("dependencies", []) if not (isinstance(item, dict) and "pip" in item)]
    return {**conda, "dependencies": [*others, {"pip": lines}]}


def finish_environment(path: Path, base: Path) -> None:
    """Keep the base model's Python, and leave out a uv project that only happened to be the working folder."""
    for name in _UV_FILES:
        (path / name).unlink(missing_ok=True)
    if (base / "python_env.yaml").is_file():
        shutil.copyfile(base / "python_env.yaml", path / "python_env.yaml")


def _package(line: str) -> str:
    found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""
