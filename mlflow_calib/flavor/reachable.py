"""Whether an error says that MLflow does not answer, which passes by itself, or that something else is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from mlflow_calib.flavor.tracking import MlflowServer, without_secrets

_FAILURES = {
    "requests.exceptions": ("ConnectionError", "ConnectTimeout", "ReadTimeout", "Timeout", "RetryError", "SSLError"),
    "urllib3.exceptions": ("MaxRetryError", "NewConnectionError", "ProtocolError", "ReadTimeoutError"),
    "sqlalchemy.exc": ("OperationalError", "InterfaceError"),
}


def unreachable(error: BaseException, server: MlflowServer | None = None) -> str | None:
    """One sentence where MLflow did not answer; None for every other error.

    Examples
    --------
    >>> unreachable(ConnectionRefusedError(111, "Connection refused"))
    'MLflow does not answer (Connection refused); once it does, the same command finishes what was begun'
    >>> unreachable(ValueError("n_bins")) is None
    True
    """
    chain = list(_chain(error))
    if not any(_is_failure(one) for one in chain):
        return None
    where = "" if server is None else f" at {without_secrets(server.registry_uri or server.tracking_uri)}"
    return f"MLflow{where} does not answer ({_cause(chain)}); once it does, the same command finishes what was begun"


def unsupported(error: BaseException, server: MlflowServer | None = None) -> str | None:
    """One sentence where MLflow knows no store for the address of its server; None for every other error."""
    said = [str(one) for one in _chain(error) if type(one).__module__.startswith("mlflow.")]
    if not any("unsupported URI" in text or "not supported by the store with URI" in text for text in said):
        return None
    where = "" if server is None else f", got {without_secrets(server.registry_uri or server.tracking_uri)}"
    return f"the address of MLflow must be one that it knows, such as http://host:5000 or sqlite:///mlflow.db{where}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised from, or in the handling of, down to the first one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_failure(error: BaseException) -> bool:
    kind = type(error)
    if isinstance(error, (ConnectionError, TimeoutError)) and kind.__module__ == "builtins":
        return True
    if kind.__name__ in _FAILURES.get(kind.__module__, ()):
        return True
    return getattr(error, "error_code", None) == "TEMPORARILY_UNAVAILABLE"


def _cause(chain: list[BaseException]) -> str:
    """The words of the operating system where it has some, else the kind of the failure."""
    for error in reversed(chain):
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
    return next(type(error).__name__ for error in chain if _is_failure(error))
