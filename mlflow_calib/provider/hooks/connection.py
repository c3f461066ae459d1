"""From the fields of an Airflow connection to one MLflow server: tracking URI, registry URI, credentials.

An Airflow connection spells a server in many ways. All of them end in one URI here, or in an error that says
what to write instead; nothing falls back to a local store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from mlflow_calib.errors import raise_problems

if TYPE_CHECKING:
    from mlflow_calib.flavor.tracking import MlflowServer

HTTP = ("http", "https")
EXAMPLE = '{"conn_type": "mlflow", "host": "https://mlflow.example.com"}'


@dataclass(frozen=True)
class ConnectionFields:
    """The parts of an Airflow connection that say where MLflow is and how to sign in."""

    conn_id: str
    conn_type: str | None = None
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    extra: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, connection: Any) -> ConnectionFields:
        """Copy them from an Airflow connection."""
        names = ("conn_type", "host", "port", "schema", "login", "password", "extra")
        return cls(connection.conn_id, **{name: getattr(connection, name) for name in names})


def server_of(fields: ConnectionFields) -> MlflowServer:
    """Build the one server a connection means.

    Parameters
    ----------
    fields : ConnectionFields
        What the connection says.

    Returns
    -------
    MlflowServer
        Tracking URI, registry URI and the environment MLflow reads credentials from.

    Raises
    ------
    InvalidInputError
        With every problem of the connection at once.
    """
    from mlflow_calib.flavor.tracking import MlflowServer

    problems: list[str] = []
    extra = _read_extra(fields, problems)
    tracking_uri = _tracking_uri(fields, problems)
    environment = _environment(fields, extra, problems)
    if problems:
        raise_problems([f"connection {fields.conn_id!r}: {problem}" for problem in problems])
    return MlflowServer(tracking_uri, _text(extra, "registry_uri"), environment)


def _read_extra(fields: ConnectionFields, problems: list[str]) -> dict[str, Any]:
    if not (fields.extra or "").strip():
        return {}
    try:
        extra = json.loads(fields.extra or "")
    except ValueError:
        extra = None
    if isinstance(extra, dict):
        return extra
    problems.append("extra must be a JSON object with registry_uri, token or verify, and it is none")
    return {}


def _text(extra: dict[str, Any], name: str) -> str | None:
    return str(extra[name]).strip() or None if extra.get(name) is not None else None


def _tracking_uri(fields: ConnectionFields, problems: list[str]) -> str:
    host = (fields.host or "").strip()
    if not host:
        problems.append(f"host must name the MLflow tracking server, and it is empty; for example {EXAMPLE}")
        return ""
    if "://" not in host and host != "databricks":
        return _http_uri(fields, urlsplit(f"{_scheme(fields)}://{_bracketed(host)}"), problems)
    parts = urlsplit(host)
    if parts.scheme in HTTP:
        return _http_uri(fields, parts, problems)
    if fields.port or fields.schema:
        problems.append(f"port and schema must be empty beside the tracking URI of scheme {parts.scheme!r} in host")
    return host


def _scheme(fields: ConnectionFields) -> str:
    """Scheme of a host without one: that of a URI-form connection, or Airflow's habit of naming it in schema."""
    return next((name for name in (fields.conn_type, fields.schema) if name in HTTP), "http")


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 and "[" not in host else host


def _http_uri(fields: ConnectionFields, parts: SplitResult, problems: list[str]) -> str:
    try:
        port = parts.port
    except ValueError:
        port = None
        problems.append("the port in host must be a number from 0 to 65535")
    if fields.port and port and fields.port != port:
        problems.append(f"host and port name two ports, {port} and {fields.port}; keep one")
    if not parts.hostname or parts.query or parts.fragment:
        problems.append("host must be a host name, or a URL without query and fragment; put options into extra")
    where = parts.netloc.rpartition("@")[2]
    if fields.port and not port:
        where = f"{where.rstrip(':')}:{fields.port}"
    below = "" if fields.schema in HTTP else fields.schema or ""
    path = "/".join(piece for piece in (parts.path.strip("/"), below.strip("/")) if piece)
    return f"{parts.scheme}://{where}/{path}".rstrip("/")


def _environment(fields: ConnectionFields, extra: dict[str, Any], problems: list[str]) -> dict[str, str]:
    """Name the credentials as MLflow's variables; they hold while the server is in use and never longer."""
    login, password = _credentials(fields)
    token = _text(extra, "token")
    if token and (login or password):
        problems.append("login with password or token in extra must sign in, not both; empty one of them")
    if bool(login) != bool(password):
        problems.append("login and password must be given together; a token goes into extra as token")
    named = {
        "MLFLOW_TRACKING_USERNAME": login,
        "MLFLOW_TRACKING_PASSWORD": password,
        "MLFLOW_TRACKING_TOKEN": token,
        **_tls(_text(extra, "verify")),
    }
    return {name: value for name, value in named.items() if value}


def _credentials(fields: ConnectionFields) -> tuple[str | None, str | None]:
    """Login and password, also where they stand inside a URL in host."""
    netloc = urlsplit(fields.host or "").netloc if "://" in (fields.host or "") else ""
    name, _, secret = netloc.rpartition("@")[0].partition(":")
    return fields.login or unquote(name) or None, fields.password or unquote(secret) or None


def _tls(verify: str | None) -> dict[str, str | None]:
    spoken = (verify or "true").lower()
    if spoken in ("true", "1", "yes"):
        return {}
    if spoken in ("false", "0", "no"):
        return {"MLFLOW_TRACKING_INSECURE_TLS": "true"}
    return {"MLFLOW_TRACKING_SERVER_CERT_PATH": verify}
