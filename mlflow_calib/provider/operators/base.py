"""What the six operators share: the server, where they write, who ran them, and which failures are final."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from mlflow_calib.errors import MlflowCalibError
from mlflow_calib.provider.compat import AirflowFailException
from mlflow_calib.provider.hooks.mlflow import MlflowHook

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from mlflow_calib.flavor.tracking import MlflowServer


class FinalTaskError(AirflowFailException):  # type: ignore[misc]  # Airflow carries no complete types
    """A task that fails for good: the same input fails again, so Airflow does not retry it."""


class CalibrationOperator(BaseOperator):  # type: ignore[misc]  # Airflow carries no complete types
    """Run one step of mlflow-calib against the MLflow server of a connection.

    Templates are rendered as texts here, whatever the DAG says of native objects: a run id such as 1234e5678 or the
    version "007" must not turn into a number.

    Parameters
    ----------
    mlflow_conn_id : str
        Airflow connection of type ``mlflow`` (templated).
    **kwargs
        What every Airflow operator takes.
    """

    template_fields: Sequence[str] = ("mlflow_conn_id",)
    ui_color = "#dfe9f5"

    def __init__(self, *, mlflow_conn_id: str = MlflowHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mlflow_conn_id = mlflow_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the step; its errors are final, all others may be retried."""
        try:
            return self.run_step(context)
        except MlflowCalibError as error:
            raise FinalTaskError(f"{error}\nA retry cannot help: the same input fails again.") from error

    def run_step(self, context: Context) -> dict[str, Any]:
        """Read the fields, call the step, log its outcome, return its record."""
        raise NotImplementedError

    def get_server(self) -> MlflowServer:
        """MLflow server of the connection."""
        return MlflowHook(self.mlflow_conn_id).get_server()

    def render_template(
        self,
        content: Any,
        context: Context,
        jinja_env: jinja2.Environment | None = None,
        seen_oids: set[int] | None = None,
    ) -> Any:
        """Render as Airflow does, but texts to texts."""
        if isinstance(content, str) and self.has_dag():
            return self.dag.get_template_env(force_sandboxed=True).from_string(content).render(context)
        return super().render_template(content, context, jinja_env, seen_oids)


def run_tags(context: Context) -> dict[str, str]:
    """Who ran this, as tags of an MLflow run."""
    task_instance = context["ti"]
    names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
    return {f"airflow.{name}": str(getattr(task_instance, name)) for name in names}


def output_uri(work_uri: str, context: Context) -> str:
    """Folder of this task below the work folder: the same for every try, another for every task and run."""
    from mlflow_calib.data.paths import join_uri, safe_segment

    task_instance = context["ti"]
    segments = [task_instance.dag_id, task_instance.run_id, task_instance.task_id]
    if task_instance.map_index >= 0:
        segments.append(str(task_instance.map_index))
    uri = work_uri
    for segment in segments:
        uri = join_uri(uri, safe_segment(segment))
    return uri


def as_of(given: str | None, context: Context) -> str:
    """Moment that days are counted back from: the one given, else when the DAG run was due."""
    return given or str(context["dag_run"].run_after.isoformat())


def shown(figure: Any) -> str:
    """Format a figure for the log: four decimals are plenty of a calibration error."""
    return f"{figure:.4f}" if isinstance(figure, float) else str(figure)
