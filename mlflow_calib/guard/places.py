"""Where the server itself finds what a URI names: runs, logged models, and artifacts it hands out by proxy."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlflow_calib.errors import EvidenceError

_MODEL = re.compile(r"models:/(?P<model_id>m-[0-9a-f]{32})(?:/(?P<path>.+))?$")
_RUN = re.compile(r"runs:/(?P<run_id>[^/]+)/(?P<path>.+)$")
#: In an address these would name another file for the client than for the server.
_DOUBTFUL = re.compile(r"[%?#;\\]|(^|/)\.\.?(/|$)")


class Places:
    """URIs of a registry to places this process can read.

    Parameters
    ----------
    tracking_uri
        Where runs and logged models are looked up outside a server.
    """

    def __init__(self, tracking_uri: str | None = None) -> None:
        self._tracking_uri = tracking_uri
        self._runs = threading.local()

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """Look each run up once until the block ends: a statement names several records of one run."""
        self._runs.found = {}
        try:
            yield
        finally:
            self._runs.found = None

    def of(self, uri: str) -> str:
        """A local path, or a URI that MLflow downloads from here.

        Raises
        ------
        EvidenceError
            The URI cannot be followed from this server.
        """
        if found := _MODEL.match(uri):
            return self.of(_joined(self._tracking().get_logged_model(found["model_id"]).artifact_location, found))
        if found := _RUN.match(uri):
            return self.of(_joined(self._artifact_uri(found["run_id"]), found))
        scheme = urlsplit(uri).scheme.lower()
        if scheme == "mlflow-artifacts":
            return _behind_proxy(uri)
        if scheme in ("", "file"):
            return _local(uri)
        if scheme in ("http", "https", "models", "runs"):
            raise EvidenceError(f"{uri} cannot be followed from this server; log the model and its records to a run")
        return uri

    def _artifact_uri(self, run_id: str) -> str:
        known: dict[str, str] | None = getattr(self._runs, "found", None)
        if known is None:
            return str(self._tracking().get_run(run_id).info.artifact_uri)
        if run_id not in known:
            known[run_id] = str(self._tracking().get_run(run_id).info.artifact_uri)
        return known[run_id]

    def _tracking(self) -> Any:
        """The server's own tracking store; outside a server a client."""
        from mlflow.server import BACKEND_STORE_URI_ENV_VAR

        if os.environ.get(BACKEND_STORE_URI_ENV_VAR):
            from mlflow.server import handlers

            store: Callable[[], Any] = handlers._get_tracking_store  # noqa: SLF001 - MLflow gives it no public name
            return store()
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self._tracking_uri)


def _joined(location: str, found: re.Match[str]) -> str:
    path = found["path"]
    if not path:
        return location
    if _DOUBTFUL.search(path):
        raise EvidenceError(f"the path {path!r} below {location} must be plain: no '..', '%', '?', '#' or ';'")
    return f"{location.rstrip('/')}/{path}"


def _behind_proxy(uri: str) -> str:
    """The place behind the server's artifact proxy, which is what it hands out for this URI."""
    from mlflow.server import ARTIFACTS_DESTINATION_ENV_VAR

    parts = urlsplit(uri)
    path = uri.partition(":")[2]
    if parts.netloc:
        raise EvidenceError(f"{uri} names a server, which need not be this one; use mlflow-artifacts:/ without a host")
    if _DOUBTFUL.search(path):
        raise EvidenceError(f"{uri} must be plain: no '..', '%', '?', '#' or ';' in its path")
    destination = os.environ.get(ARTIFACTS_DESTINATION_ENV_VAR)
    if not destination:
        raise EvidenceError(f"{uri} is handed out by a server with --serve-artifacts, and this process is none")
    place = f"{destination.rstrip('/')}/{_of_workspace(path.strip('/'))}"
    return _local(place) if urlsplit(place).scheme.lower() in ("", "file") else place


def _of_workspace(path: str) -> str:
    """The path as the proxy takes it: one of another workspace is refused, one of none is of the active one."""
    from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES

    if not MLFLOW_ENABLE_WORKSPACES.get():
        return path
    from mlflow.utils.workspace_context import get_request_workspace
    from mlflow.utils.workspace_utils import DEFAULT_WORKSPACE_NAME

    active, parts = get_request_workspace(), path.split("/")
    if parts[0] == "workspaces":
        if parts[1:2] != [active]:
            raise EvidenceError(f"{path} lies in another workspace than {active!r}")
        return path
    return path if active == DEFAULT_WORKSPACE_NAME else f"workspaces/{active}/{path}"


def _local(uri: str) -> str:
    from mlflow.utils.file_utils import local_file_uri_to_path

    if urlsplit(uri).netloc not in ("", "localhost"):
        raise EvidenceError(f"{uri} lies on another host; log the model and its records where the server reads them")
    return str(Path(local_file_uri_to_path(uri)).absolute())
