"""MLflow runs that a retry finds again, and the one way to log a metric."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mlflow_calib.data.paths import safe_segment
from mlflow_calib.errors import InvalidInputError, ModelError, raise_problems
from mlflow_calib.flavor.names import experiment_problems
from mlflow_calib.flavor.tracking import MlflowServer, connected, sqlite_file

#: Tag that holds the key by which a retry finds its run and its model version.
RUN_KEY = "mlflow_calib.run_key"
_EXISTS = ("RESOURCE_ALREADY_EXISTS", "ALREADY_EXISTS")

log = logging.getLogger(__name__)


@contextmanager
def start_or_reuse_run(
    server: MlflowServer,
    experiment: str | None = None,
    run_name: str | None = None,
    tags: Mapping[str, str] | None = None,
    run_key: str | None = None,
) -> Iterator[str]:
    """Open the run that carries ``run_key``, or a new one, and yield its id.

    The run ends FINISHED, FAILED where an error left the block, KILLED where the process was told to stop. MLflow's
    fluent active run is not used, so none is left behind. ``experiment`` is created where it is missing.

    Raises
    ------
    InvalidInputError
        For an experiment that was deleted, and for a key that holds both kinds of quotes.
    """
    with connected(server) as client:
        experiment_id = experiment_id_of(client, server, experiment)
        run_id = _open_run(client, experiment_id, run_name, dict(tags or {}), run_key)
    status = "KILLED"
    try:
        yield run_id
        status = "FINISHED"
    except Exception:
        status = "FAILED"
        raise
    finally:
        _end_run(server, run_id, status)


def _open_run(client: Any, experiment_id: str, run_name: str | None, tags: dict[str, str], run_key: str | None) -> str:
    found = find_run(client, experiment_id, run_key) if run_key else None
    if found is None:
        all_tags = tags | ({RUN_KEY: run_key} if run_key else {})
        return str(client.create_run(experiment_id, tags=all_tags, run_name=run_name).info.run_id)
    client.update_run(found, status="RUNNING")
    for name, value in tags.items():
        client.set_tag(found, name, value)
    return found


def find_run(client: Any, experiment_id: str, run_key: str) -> str | None:
    """Id of the newest run that carries the key and is not deleted; None where there is none."""
    runs = client.search_runs(
        [experiment_id], f"tags.`{RUN_KEY}` = {quoted(run_key)}", max_results=1, order_by=["attributes.start_time DESC"]
    )
    return str(runs[0].info.run_id) if runs else None


def require_run(client: Any, run_id: str) -> None:
    """Refuse to go on with a run that was deleted, to which nothing can be added.

    Raises
    ------
    ModelError
        The run is deleted, or gone for good.
    """
    from mlflow.exceptions import MlflowException

    try:
        stage = client.get_run(run_id).info.lifecycle_stage
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise ModelError(f"run {run_id} must hold the records of its model, and is gone; fit again") from error
    if stage == "deleted":
        raise ModelError(
            f"run {run_id} must hold the records of its model, and was deleted; restore it, or fit again "
            f"(MlflowClient().restore_run({run_id!r}))"
        )


def _end_run(server: MlflowServer, run_id: str, status: str) -> None:
    """End the run; after a failure of the block, a server that does not answer must not hide that failure."""
    try:
        with connected(server) as client:
            client.set_terminated(run_id, status)
    except Exception:
        if status == "FINISHED":
            raise
        log.warning("MLflow run %s could not be marked %s", run_id, status, exc_info=True)


def experiment_id_of(client: Any, server: MlflowServer, name: str | None) -> str:
    """Id of the experiment, created where it is missing; another process may create it at the same moment.

    In a bare SQLite store the artifacts of a new experiment lie beside the database file, not in whatever folder the
    process happens to work in.
    """
    from mlflow.exceptions import MlflowException

    if problems := experiment_problems(name):
        raise_problems(problems)
    name = name or "Default"
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location=_artifact_location(server, name)))
        except MlflowException as error:
            if error.error_code not in _EXISTS:
                raise
            experiment = client.get_experiment_by_name(name)
    if experiment is None or experiment.lifecycle_stage == "deleted":
        raise InvalidInputError(f"experiment {name!r} must not be deleted; restore it, or name another one")
    return str(experiment.experiment_id)


def _artifact_location(server: MlflowServer, name: str) -> str | None:
    database = sqlite_file(server.tracking_uri)
    if database is None:
        return None
    return (database.parent / "mlartifacts" / safe_segment(name)).as_uri()


def quoted(value: str) -> str:
    """The value as a literal of MLflow's filter language, which knows no escapes."""
    mark = '"' if "'" in value else "'"
    if mark in value:
        raise InvalidInputError(f"a run key or name must not hold both kinds of quotes, got {value!r}")
    return f"{mark}{value}{mark}"


def log_metrics(
    server: MlflowServer, run_id: str, metrics: Mapping[str, float | None], *, model_id: str | None, step: int = 0
) -> None:
    """Log finite metrics to a run, each bound to ``model_id``; entries of None are left out.

    MLflow stores a NaN metric of a logged model as 0.0, a perfect calibration error, so non-finite values are
    refused. ``model_id=None`` says that the metrics belong to the run alone.

    Raises
    ------
    InvalidInputError
        For values that are not finite numbers, all of them at once.
    """
    from mlflow.entities import Metric

    given = {name: value for name, value in metrics.items() if value is not None}
    bad = [name for name, value in given.items() if not math.isfinite(value)]
    if bad:
        raise_problems([f"metric {name!r} must be a finite number, got {given[name]}; log a status" for name in bad])
    now = int(time.time() * 1000)
    entities = [
        Metric(name, float(value), now, step, model_id=model_id, run_id=run_id if model_id else None)
        for name, value in given.items()
    ]
    if entities:
        with connected(server) as client:
            client.log_batch(run_id, metrics=entities)
