"""One MLflow server as a value, and the one place that sets MLflow's global URIs.

Logging, registering and loading a model read MLflow's process-wide tracking and registry URI. `connected` sets them
for the length of a ``with`` block and puts back exactly what was there; nothing else in the package touches them.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_calib.errors import InvalidInputError, raise_problems
from mlflow_calib.flavor.places import local_problem

TRACKING = "MLFLOW_TRACKING_URI"
REGISTRY = "MLFLOW_REGISTRY_URI"
#: MLflow draws bars and prints links to standard output, which belongs to ``--json``; whoever sets these keeps them.
_QUIET = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}

_LOCK = threading.RLock()
#: What the environment held outside every ``connected`` block, for the variables that open blocks have set.
_AMBIENT: list[dict[str, str | None]] = []


@dataclass(frozen=True, repr=False)
class MlflowServer:
    """Where models, runs and the registry live, with the credentials that reach them.

    Parameters
    ----------
    tracking_uri
        URI of the tracking server, or of a store such as ``sqlite:////path/mlflow.db``.
    registry_uri
        URI of the model registry where it is another one.
    environment
        Environment variables that hold while this server is connected, such as ``MLFLOW_TRACKING_TOKEN``.

    Raises
    ------
    InvalidInputError
        For an empty URI and for names or values that no environment can hold; all of them at once.

    Examples
    --------
    >>> MlflowServer("https://user:secret@mlflow.example", environment={"MLFLOW_TRACKING_TOKEN": "secret"})
    MlflowServer(tracking_uri='https://***@mlflow.example', registry_uri=None, environment=['MLFLOW_TRACKING_TOKEN'])
    """

    tracking_uri: str
    registry_uri: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        problems = [*_uri_problems("tracking_uri", self.tracking_uri)]
        if self.registry_uri is not None:
            problems += _uri_problems("registry_uri", self.registry_uri)
        problems += _environment_problems(self.environment)
        if problems:
            raise_problems(problems)
        object.__setattr__(self, "environment", dict(self.environment))

    def __repr__(self) -> str:
        registry = None if self.registry_uri is None else without_secrets(self.registry_uri)
        return (
            f"MlflowServer(tracking_uri={without_secrets(self.tracking_uri)!r}, registry_uri={registry!r}, "
            f"environment={sorted(self.environment)})"
        )

    @classmethod
    def from_environment(cls) -> MlflowServer:
        """The server that ``MLFLOW_TRACKING_URI`` and ``MLFLOW_REGISTRY_URI`` name.

        Raises InvalidInputError where the first is unset: MLflow would write to a new file in the working folder.
        """
        tracking_uri = os.environ.get(TRACKING, "").strip()
        if not tracking_uri:
            raise InvalidInputError(
                f"{TRACKING} must name the MLflow server, and it is not set; set it in the environment, or pass "
                "server=MlflowServer(tracking_uri=...). Nothing is written to a local file in its place"
            )
        return cls(tracking_uri, os.environ.get(REGISTRY, "").strip() or None)

    def client(self) -> Any:
        """An ``MlflowClient`` of this server; where ``environment`` holds credentials, use it inside `connected`."""
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.tracking_uri, registry_uri=self.registry_uri or self.tracking_uri)

    def variables(self) -> dict[str, str]:
        """Every environment variable that holds while this server is connected."""
        uris = {TRACKING: self.tracking_uri, REGISTRY: self.registry_uri or self.tracking_uri}
        return {**self.environment, **uris}


def sqlite_file(tracking_uri: str) -> Path | None:
    """The file of a SQLite store; None for any other store, and for one in memory."""
    found = re.match(r"sqlite(\+\w+)?:///(?P<path>[^?]+)", tracking_uri)
    return None if found is None or found["path"] == ":memory:" else Path(found["path"]).absolute()


def require_tracking_uri() -> None:
    """Refuse to work with MLflow's global URIs where nobody has set one: MLflow would make ``./mlflow.db``.

    ``mlflow.set_tracking_uri``, ``MLFLOW_TRACKING_URI`` and an active run all name a server.

    Raises
    ------
    InvalidInputError
        With the remedy.
    """
    import mlflow

    if mlflow.is_tracking_uri_set() or mlflow.active_run() is not None:
        return
    raise InvalidInputError(
        f"{TRACKING} must name the MLflow server, and it is not set; set it in the environment, or call "
        "mlflow.set_tracking_uri(...) first. Nothing is written to a local file in its place"
    )


def _require_store(uri: str) -> None:
    """Refuse a SQLite file that is not there, which MLflow would make: it is almost always misspelt."""
    file = sqlite_file(uri)
    if file is not None and (problem := local_problem(file)):
        raise InvalidInputError(f"the MLflow store {without_secrets(uri)} cannot be opened: {problem}")
    if file is not None and not file.is_file():
        raise InvalidInputError(
            f"the MLflow store {without_secrets(uri)} must exist, and there is no file {file}; name the one you mean, "
            f"or make a new one with: mlflow db upgrade {without_secrets(uri)}"
        )


@contextmanager
def connected(server: MlflowServer) -> Iterator[Any]:
    """Set MLflow's global tracking and registry URI to ``server``, and restore both; yields an ``MlflowClient``.

    Holds one lock of the process, so work that needs no MLflow belongs outside the block; a thread that calls MLflow
    without this function sees the URIs of whoever holds it. Blocks nest in one thread, and an inner server never sees
    the credentials of an outer one. Afterwards the URIs, pinned or unset, and the
    environment are what they were, whatever happened inside.

    Raises
    ------
    InvalidInputError
        The server is a SQLite file that does not exist; none is made.
    """
    import mlflow

    with _LOCK:
        variables = server.variables()
        for uri in dict.fromkeys((variables[TRACKING], variables[REGISTRY])):
            _require_store(uri)
        before = _environment({*_QUIET, *variables, *_ambient()})
        pinned = _pinned_uris(mlflow)
        ambient = {name: _ambient().get(name, value) for name, value in before.items()}
        quiet = {name: value for name, value in _QUIET.items() if ambient[name] is None}
        _AMBIENT.append(ambient)
        try:
            _assign(ambient)
            mlflow.set_tracking_uri(variables[TRACKING])
            mlflow.set_registry_uri(variables[REGISTRY])
            _assign({**quiet, **variables})
            yield server.client()
        finally:
            _AMBIENT.pop()
            mlflow.set_tracking_uri(pinned[TRACKING])
            mlflow.set_registry_uri(pinned[REGISTRY])
            _assign(before)


def _ambient() -> dict[str, str | None]:
    return _AMBIENT[-1] if _AMBIENT else {}


def _pinned_uris(mlflow: Any) -> dict[str, str | None]:
    """What ``set_tracking_uri`` and ``set_registry_uri`` were given in this process; None where never called.

    MLflow prefers a pinned URI to the environment and does not say which of the two it answers with, so the
    environment holds a mark while it is asked.
    """
    mark = "mlflow-calib-probe"
    before = _environment([TRACKING, REGISTRY])
    try:
        _assign({TRACKING: mark, REGISTRY: mark})
        answers = {TRACKING: mlflow.get_tracking_uri(), REGISTRY: mlflow.get_registry_uri()}
    finally:
        _assign(before)
    return {name: None if answer == mark else answer for name, answer in answers.items()}


def _environment(names: Iterable[str]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def _assign(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _uri_problems(name: str, uri: Any) -> list[str]:
    if isinstance(uri, str) and uri.strip() and uri == uri.strip() and "\0" not in uri:
        return []
    given = without_secrets(uri) if isinstance(uri, str) else uri
    return [f"{name} must be a URI such as 'http://127.0.0.1:5000' or 'sqlite:////path/mlflow.db', got {given!r}"]


def _environment_problems(environment: Any) -> list[str]:
    if not isinstance(environment, Mapping):
        return [f"environment must map names to strings, got {type(environment).__name__}"]
    problems = [
        f"environment must not hold {name}; give it as {argument}"
        for name, argument in ((TRACKING, "tracking_uri"), (REGISTRY, "registry_uri"))
        if name in environment
    ]
    for name, value in environment.items():
        if not (isinstance(name, str) and name and "=" not in name and "\0" not in name):
            problems.append(f"environment must map names of variables, got the name {name!r}")
        elif not isinstance(value, str) or "\0" in value:
            problems.append(f"environment[{name!r}] must be a string, got {type(value).__name__}")
    return problems


def without_secrets(uri: str) -> str:
    """The URI without user, password and query, for messages."""
    return re.sub(r"\?.*$", "?***", re.sub(r"//[^/@]*@", "//***@", uri))
