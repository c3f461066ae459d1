"""The hook: from an Airflow connection of type ``mlflow`` to a server and a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from mlflow_calib.errors import InvalidInputError, MlflowCalibError
from mlflow_calib.provider.compat import AirflowNotFoundException
from mlflow_calib.provider.hooks.connection import ConnectionFields, server_of

if TYPE_CHECKING:
    from mlflow_calib.flavor.tracking import MlflowServer

#: MLflow otherwise retries for minutes.
IMPATIENT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


class MlflowHook(BaseHook):  # type: ignore[misc]  # Airflow carries no complete types
    """Reach the MLflow server that an Airflow connection names.

    Parameters
    ----------
    mlflow_conn_id : str
        Id of a connection of type ``mlflow``. ``host`` is the tracking server (a host name, a URL, or any tracking
        URI of MLflow), ``port`` and ``schema`` (a path) complete it; ``login`` and ``password``, or ``token`` in
        extra, sign in; extra may also hold ``registry_uri`` and ``verify``.
    """

    conn_name_attr = "mlflow_conn_id"
    default_conn_name = "mlflow_default"
    conn_type = "mlflow"
    hook_name = "MLflow"

    def __init__(self, mlflow_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mlflow_conn_id = mlflow_conn_id

    def get_server(self) -> MlflowServer:
        """Server of the connection; an error where the connection is missing or names none, never a local store."""
        try:
            connection = self.get_connection(self.mlflow_conn_id)
        except AirflowNotFoundException as error:
            raise InvalidInputError(
                f"connection {self.mlflow_conn_id!r} must exist in Airflow, and it does not; add it with: airflow "
                f"connections add {self.mlflow_conn_id} --conn-type mlflow --conn-host https://mlflow.example.com"
            ) from error
        return server_of(ConnectionFields.of(connection))

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Yield an ``MlflowClient`` that is signed in, with MLflow's own functions at the same server meanwhile."""
        from mlflow_calib.flavor.tracking import connected

        with connected(self.get_server()) as client:
            yield client

    def get_conn(self) -> Any:
        """Return an ``MlflowClient`` of the server; where the connection holds credentials, use :meth:`connect`."""
        return self.get_server().client()

    def test_connection(self) -> tuple[bool, str]:
        """Ask the server for one experiment, and do not ask long; what Airflow's connection form shows."""
        from mlflow_calib.flavor.tracking import connected

        try:
            server = self.get_server()
            with connected(replace(server, environment={**server.environment, **IMPATIENT})) as client:
                client.search_experiments(max_results=1)
        except MlflowCalibError as error:
            return False, str(error)
        except Exception as error:  # noqa: BLE001  # the form shows whatever went wrong
            return False, f"{type(error).__name__}: {error}"
        return True, "MLflow answers"
