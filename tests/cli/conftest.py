"""The store of the steps' tests, for the commands that run them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _steps_conftest() -> ModuleType:
    name = "mlflow_calib_steps_conftest"
    path = Path(__file__).parents[1] / "steps" / "conftest.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_steps = _steps_conftest()
games, session_world, session_judged = _steps.games, _steps.session_world, _steps.session_judged
empty_cwd, world, judged = _steps.empty_cwd, _steps.world, _steps.judged


@pytest.fixture(scope="session")
def steps_helpers() -> ModuleType:
    """The functions that the fixtures are made of."""
    return _steps
