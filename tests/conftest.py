"""What every test shares: no telemetry, and the real data by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "1"
os.environ["GIT_PYTHON_REFRESH"] = "quiet"

ROOT = Path(__file__).resolve().parents[1]


def real_data_folder() -> Path:
    """Folder of the real predictions; relative paths count from the project's root."""
    return (ROOT / os.environ.get("MLFLOW_CALIB_DATA", "../shared/data")).resolve()


@pytest.fixture(autouse=True)
def mlflow_is_left_as_found() -> Iterator[None]:
    """A test that leaves MLflow pointing at its own server or experiment would send all later ones there."""
    names = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI", "MLFLOW_EXPERIMENT_ID")
    before = {name: os.environ.get(name) for name in names}
    yield
    left = {name: os.environ.get(name) for name in names}
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    assert left == before, "the test left MLflow's server or experiment set in the environment"
    fluent = sys.modules.get("mlflow.tracking.fluent")
    assert getattr(fluent, "_active_experiment_id", None) is None, "the test left MLflow's experiment set"


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """Path of one real data set by name; absent, the test skips, or fails under REQUIRE_SERVICES=1."""

    def find(name: str) -> Path:
        path = real_data_folder() / name
        if not path.exists():
            message = f"real data {name} is not in {real_data_folder()} (set MLFLOW_CALIB_DATA)"
            if os.environ.get("REQUIRE_SERVICES") == "1":
                pytest.fail(message)
            pytest.skip(message)
        return path

    return find
