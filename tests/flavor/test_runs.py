"""Runs: found again by their key, ended as they ended, metrics finite and bound to their model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mlflow
import pytest

from mlflow_calib.data.paths import safe_segment
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.runs import RUN_KEY, experiment_id_of, log_metrics, require_run, start_or_reuse_run
from mlflow_calib.flavor.tracking import MlflowServer, connected


def open_run(server: MlflowServer, key: str | None = "dag/1", **tags: str) -> str:
    with start_or_reuse_run(server, "recalibration", "monthly", tags, key) as run_id:
        assert server.client().get_run(run_id).info.status == "RUNNING"
        assert mlflow.active_run() is None
    return run_id


def test_a_retry_finds_its_run_again(mlflow_server: MlflowServer) -> None:
    """P11: a task that failed after it created its run and is retried has one run."""
    first = open_run(mlflow_server, try_number="1")
    assert open_run(mlflow_server, try_number="2") == first
    run = mlflow_server.client().get_run(first)
    assert run.info.status == "FINISHED"
    assert run.data.tags["try_number"] == "2"
    assert run.data.tags[RUN_KEY] == "dag/1"
    assert run.info.run_name == "monthly"


def test_another_key_no_key_and_a_deleted_run_are_new_runs(mlflow_server: MlflowServer) -> None:
    """P12: a cleared task over changed data has another key, hence new figures in a new run."""
    first = open_run(mlflow_server)
    others = [open_run(mlflow_server, "dag/2"), open_run(mlflow_server, None), open_run(mlflow_server, None)]
    mlflow_server.client().delete_run(first)
    assert len({first, *others, open_run(mlflow_server)}) == 5


def test_a_key_with_quotes(mlflow_server: MlflowServer) -> None:
    for key in ("it's", 'say "x"', "manual__2026-01-01T00:00:00+00:00"):
        assert open_run(mlflow_server, key) == open_run(mlflow_server, key)
    with pytest.raises(InvalidInputError, match="both kinds of quotes"):
        open_run(mlflow_server, "'\"")


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED"), (SystemExit, "KILLED")]
)
def test_how_it_ended(mlflow_server: MlflowServer, error: type[BaseException], status: str) -> None:
    """P10: a run whose process was told to stop is KILLED."""
    opened: list[str] = []

    def stop() -> None:
        with start_or_reuse_run(mlflow_server, "e", None, None, "k") as run_id:
            opened.append(run_id)
            raise error

    with pytest.raises(error):
        stop()
    client = mlflow_server.client()
    assert client.get_run(opened[0]).info.status == status
    assert mlflow.active_run() is None
    with start_or_reuse_run(mlflow_server, "e", None, None, "k") as again:
        assert [again] == opened
    assert client.get_run(again).info.status == "FINISHED"


def test_a_new_experiment_keeps_its_artifacts_beside_the_database(mlflow_server: MlflowServer, tmp_path: Path) -> None:
    run_id = open_run(mlflow_server)
    with connected(mlflow_server) as client:
        client.log_text(run_id, "x", "x.txt")
        location = client.get_experiment_by_name("recalibration").artifact_location
    assert location == (tmp_path / "store/mlartifacts/recalibration").as_uri()


@pytest.mark.parametrize("name", ["churn model", "größe", "m'q", "a%20b", "a/b"])
def test_artifacts_of_an_experiment_of_any_name_are_found_again(
    mlflow_server: MlflowServer, tmp_path: Path, name: str
) -> None:
    with start_or_reuse_run(mlflow_server, name) as run_id, connected(mlflow_server) as client:
        client.log_text(run_id, "x", "x.txt")
        assert mlflow.artifacts.load_text(f"runs:/{run_id}/x.txt") == "x"
        location = client.get_experiment_by_name(name).artifact_location
    assert location == (tmp_path / "store/mlartifacts" / safe_segment(name)).as_uri()


def test_a_run_that_was_deleted_or_never_was(mlflow_server: MlflowServer) -> None:
    client, run_id = mlflow_server.client(), open_run(mlflow_server)
    require_run(client, run_id)
    client.delete_run(run_id)
    with pytest.raises(ModelError, match=f"run {run_id} .* was deleted; restore it, or fit again"):
        require_run(client, run_id)
    with pytest.raises(ModelError, match="is gone; fit again"):
        require_run(client, "0" * 32)


def test_an_experiment_that_another_process_creates_meanwhile(mlflow_server: MlflowServer) -> None:
    class Late:
        """A client that sees the experiment only after it failed to create it."""

        def __init__(self, client: Any) -> None:
            self.client, self.asked = client, 0

        def get_experiment_by_name(self, name: str) -> Any:
            self.asked += 1
            return None if self.asked == 1 else self.client.get_experiment_by_name(name)

        def create_experiment(self, name: str, artifact_location: str) -> Any:
            return self.client.create_experiment(name, artifact_location)

    with connected(mlflow_server) as client:
        made = experiment_id_of(client, mlflow_server, "e")
        assert experiment_id_of(Late(client), mlflow_server, "e") == made


def test_a_deleted_experiment_is_named(mlflow_server: MlflowServer) -> None:
    with connected(mlflow_server) as client:
        client.delete_experiment(experiment_id_of(client, mlflow_server, "old"))
        with pytest.raises(InvalidInputError, match="experiment 'old' must not be deleted; restore it"):
            experiment_id_of(client, mlflow_server, "old")


def logged_model(server: MlflowServer, run_id: str) -> str:
    with connected(server) as client:
        experiment = client.get_run(run_id).info.experiment_id
        return str(client.create_logged_model(experiment, "m", source_run_id=run_id).model_id)


def test_metrics_stand_on_run_and_model(mlflow_server: MlflowServer) -> None:
    run_id = open_run(mlflow_server)
    model_id, other = logged_model(mlflow_server, run_id), logged_model(mlflow_server, run_id)
    log_metrics(mlflow_server, run_id, {"calibration_error": 0.0125, "n": 1000, "absent": None}, model_id=model_id)
    log_metrics(mlflow_server, run_id, {"seconds": 1.5}, model_id=None)
    client = mlflow_server.client()
    of_model = {metric.key: metric.value for metric in client.get_logged_model(model_id).metrics}
    assert of_model == {"calibration_error": 0.0125, "n": 1000.0}
    assert not client.get_logged_model(other).metrics
    assert client.get_run(run_id).data.metrics == {"calibration_error": 0.0125, "n": 1000.0, "seconds": 1.5}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_not_finite_is_refused(mlflow_server: MlflowServer, value: float) -> None:
    """MLflow would store NaN on a logged model as 0.0, and it would pass a gate."""
    run_id = open_run(mlflow_server)
    model_id = logged_model(mlflow_server, run_id)
    with pytest.raises(InvalidInputError, match="2 problems"):
        log_metrics(mlflow_server, run_id, {"fine": 0.5, "a": value, "b": value}, model_id=model_id)
    assert mlflow_server.client().get_run(run_id).data.metrics == {}
