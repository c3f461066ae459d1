"""Runs every code block of README.md and docs/: Python in one namespace a page, bash in one folder a page.

A block that cannot run in a test (it starts a server, or is the test command itself) carries the line
``# not run by the tests``. TOML blocks are read as policies.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

ROOT = Path(__file__).resolve().parent
MARKER = "# not run by the tests"
# Importing Airflow makes its home; the docstrings' tests import it.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="mlflow-calib-airflow-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)


class RunnablePython(CodeBlockParser):
    """Python blocks without the marker."""

    def __call__(self, document: Document) -> Iterable[Region]:
        return (region for region in super().__call__(document) if MARKER not in region.parsed)


class PythonBlocks(PythonCodeBlockParser):
    """Python blocks, but those that carry the marker."""

    codeblock_parser_class = RunnablePython


class BashBlocks(CodeBlockParser):
    """Bash blocks, run with the environment of the tests in the page's folder."""

    language = "bash"

    def evaluate(self, example: Example) -> str | None:
        if MARKER in example.parsed:
            return None
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
        result = subprocess.run(
            ["bash", "-eu", "-c", example.parsed],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return None if result.returncode == 0 else f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"


class PolicyBlocks(CodeBlockParser):
    """TOML blocks: each is a valid policy."""

    language = "toml"

    def evaluate(self, example: Example) -> str | None:
        if MARKER not in example.parsed:
            from mlflow_calib.core.policy import Policy
            from mlflow_calib.data.records import parse_toml

            Policy.from_dict(parse_toml(example.parsed))
        return None


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder of its own for each page, with an empty MLflow store named in the environment."""
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        yield folder


pytest_collect_file = Sybil(
    parsers=[PythonBlocks(), BashBlocks(), PolicyBlocks()],
    patterns=["README.md", "docs/*.md", "examples/**/*.md"],
    fixtures=["page_folder"],
).pytest()
