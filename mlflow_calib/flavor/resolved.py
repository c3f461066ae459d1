"""Any MLflow model by its URI, pinned to what it is now."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mlflow_calib import runtime
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.places import local_problem
from mlflow_calib.flavor.records import is_missing
from mlflow_calib.flavor.runs import quoted
from mlflow_calib.flavor.tracking import MlflowServer, connected, require_tracking_uri
from mlflow_calib.runtime import folder_digest

FLAVOR_NAME = "mlflow_calib"
#: Where a calibrated model keeps its parts, below the folder of the model.
BUNDLE = "data/bundle"
_VERSION = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^/]+)|/(?P<version>[^/]+))/?$")
_MODEL_ID = re.compile(r"models:/(?P<model_id>m-[^/@]+)/?$")
_OF_A_SERVER = ("models:", "runs:", "mlflow-artifacts:")
#: The least that a URI of MLflow's own schemes must hold.
_SHAPES = {"models": re.compile(r"models:/+[^/]+"), "runs": re.compile(r"runs:/[^/]+/.+")}


@dataclass(frozen=True)
class ResolvedModel:
    """A model as it was when it was asked for: an alias or ``latest`` stands for one version for good.

    ``uri`` is the pinned URI; ``local_path`` the folder with its files (a download lives as long as MLflow's
    temporary folder); ``digest`` the sha256 over them; ``kind`` "calibrated" for a model of this package, whose
    ``calibrator`` is the document of its ``calibrator.json``, else "raw".
    """

    uri: str
    name: str | None
    version: str | None
    model_id: str | None
    local_path: str
    digest: str
    flavors: tuple[str, ...]
    calibrator: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """Whether this is a calibrated model of this package, or another one."""
        return "raw" if self.calibrator is None else "calibrated"

    @property
    def recalibration_keys(self) -> Any:
        """What the calibrator says of the keys of its recalibration data; None where it says nothing."""
        return None if self.calibrator is None else self.calibrator.get("facts", {}).get("recalibration_keys")


def resolve_model(
    server: MlflowServer | None, uri: str | os.PathLike[str], dst_path: str | None = None
) -> ResolvedModel:
    """Find a model by ``models:/name/1``, ``models:/name@alias``, ``models:/m-...``, ``runs:/...`` or a local folder.

    ``server`` may be None for a local folder, and where MLflow's global URIs are to hold. ``dst_path`` receives the
    download; without it a model that lies on this machine is read in place.

    Raises
    ------
    ModelError
        Where the model, its version or its alias does not exist; the message lists what does.
    InvalidInputError
        Where ``uri`` is no URI of a model, and where no server is named although one is needed.
    """
    require_model_uri(uri)
    local = local_folder(uri)
    if local is not None:
        return _describe(local.as_uri(), None, None, None, local)
    if server is None:
        return _resolve_remote(global_client(str(uri)), str(uri), dst_path)
    with connected(server) as client:
        return _resolve_remote(client, str(uri), dst_path)


def require_model_uri(uri: Any) -> None:
    """InvalidInputError where this names no model."""
    remedy = "give models:/<name>/<version>, models:/<name>@<alias>, runs:/<run id>/<model name>, or a folder"
    if not isinstance(uri, (str, os.PathLike)) or not (text := os.fspath(uri)) or not isinstance(text, str):
        raise InvalidInputError(f"a model must be named by its URI or folder, got {uri!r}; {remedy}")
    scheme = text.partition(":")[0].lower()
    incomplete = scheme in _SHAPES and not _SHAPES[scheme].match(text)
    if scheme in ("http", "https") or incomplete:
        raise InvalidInputError(f"a model must be named by its URI or folder, got {text!r}; {remedy}")


def local_folder(uri: str | os.PathLike[str]) -> Path | None:
    """The folder that a URI or a path names on this machine, a model in it; None where it names a model elsewhere."""
    text = os.fspath(uri)
    path = Path(text)
    if text.startswith("file:"):
        path = _path_on_this_host(text)
    elif re.match(r"[a-z][a-z0-9+-]+:/", text):
        return None
    try:
        problem, found = local_problem(path.resolve()), (path / "MLmodel").is_file()
    except (OSError, ValueError) as error:  # a name too long, a NUL
        raise ModelError(f"a model cannot be loaded from {str(path)[:80]!r}: {str(error)[:80]}") from error
    if problem:
        raise ModelError(f"a model cannot be loaded from {path}: {problem}")
    if not found:
        raise ModelError(
            f"a model folder must hold the file MLmodel, and {path} does not; give a folder or a model URI"
        )
    return path.resolve()


def _path_on_this_host(uri: str) -> Path:
    host, here = urlsplit(uri).netloc, socket.gethostname()
    if host not in ("", "localhost", here):
        raise ModelError(f"{uri} lies on host {host!r}, and this is {here!r}; use a URI that both reach")
    return Path(unquote(urlsplit(uri).path))


def global_client(uri: str) -> Any:
    """A client of MLflow's global URIs; None for a model in plain storage, which needs no server."""
    import mlflow

    if not uri.startswith(_OF_A_SERVER):
        return None
    require_tracking_uri()
    return mlflow.MlflowClient()


def _resolve_remote(client: Any, uri: str, dst_path: str | None) -> ResolvedModel:
    import mlflow
    from mlflow.exceptions import MlflowException

    name, version, model_id = pin(client, uri)
    pinned = f"models:/{name}/{version}" if name else uri
    try:
        local = Path(mlflow.artifacts.download_artifacts(pinned, dst_path=dst_path))
    except (MlflowException, OSError) as error:
        if not is_missing(error):
            raise
        raise ModelError(f"there is no model at {uri} ({error}); check the id and the server") from error
    except ImportError as error:
        raise ModelError(f"{uri} cannot be read here: {error}; install the package of this storage") from error
    if not (local / "MLmodel").is_file():
        raise ModelError(f"{uri} must be a model with the file MLmodel, and it holds none; log the model again")
    return _describe(pinned, name, version, model_id, local)


def _describe(uri: str, name: str | None, version: str | None, model_id: str | None, local: Path) -> ResolvedModel:
    meta = model_meta_of(local)
    model_id = model_id or meta.model_id
    if uri.startswith("runs:/") and model_id:
        uri = f"models:/{model_id}"
    calibrator = read_local_calibrator(local) if FLAVOR_NAME in meta.flavors else None
    flavors = tuple(sorted(meta.flavors))
    return ResolvedModel(uri, name, version, model_id, str(local), folder_digest(local), flavors, calibrator)


def model_meta_of(folder: str | os.PathLike[str]) -> Any:
    """MLflow's ``Model`` of a local folder; ``Model.load`` would take the path for a URI and decode it."""
    import yaml  # type: ignore[import-untyped]  # MLflow's own dependency; it ships without types
    from mlflow.models import Model

    try:
        return Model.from_dict(yaml.safe_load((Path(folder) / "MLmodel").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise ModelError(f"the file MLmodel of {folder} is damaged ({error}); fetch or log the model again") from error


def base_folder(resolved: ResolvedModel) -> Path:
    """Folder of the base model of a calibrated one; ModelError where it is gone or another one now."""
    if resolved.calibrator is None:
        raise ModelError(f"{resolved.uri} is no calibrated model, so it has no base model")
    from mlflow.exceptions import MlflowException

    try:
        return runtime.base_model_folder(Path(resolved.local_path) / BUNDLE, dict(resolved.calibrator))
    except (ValueError, OSError, MlflowException) as error:
        if isinstance(error, MlflowException) and not is_missing(error):
            raise
        raise ModelError(f"the base model of {resolved.uri} cannot be read: {error}") from error


def read_local_calibrator(folder: Path) -> dict[str, Any]:
    """The document of the ``calibrator.json`` in the folder of a calibrated model."""
    path = folder / BUNDLE / "calibrator.json"
    try:
        return runtime.read_calibrator(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"the calibrated model at {folder} cannot be read: {error}") from error


def pin(client: Any, uri: str) -> tuple[str | None, str | None, str | None]:
    """Name, version and model id that the URI stands for now."""
    if found := _MODEL_ID.match(uri):
        return None, None, found["model_id"]
    found = _VERSION.match(uri)
    if not found:
        return None, None, None
    version = _version_entity(client, found["name"], found["alias"], found["version"])
    return str(version.name), str(version.version), model_id_of_version(client, version)


def _version_entity(client: Any, name: str, alias: str | None, version: str | None) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        if alias is not None:
            return client.get_model_version_by_alias(name, alias)
        if version == "latest":
            return max(client.search_model_versions(f"name = {quoted(name)}"), key=lambda found: int(found.version))
        return client.get_model_version(name, version)
    except (MlflowException, ValueError) as error:
        if not is_missing(error) and isinstance(error, MlflowException):
            raise
        wanted = f"alias {alias!r}" if alias is not None else f"version {version!r}"
        raise ModelError(f"{name!r} has no {wanted}; {_what_exists(client, name)}") from error


def _what_exists(client: Any, name: str) -> str:
    from mlflow.exceptions import MlflowException

    try:
        model = client.get_registered_model(name)
    except MlflowException:
        names = sorted(found.name for found in client.search_registered_models(max_results=20))
        return f"no such registered model; there are {names}" if names else "no model is registered on this server"
    versions = sorted(int(found.version) for found in client.search_model_versions(f"name = {quoted(name)}"))
    return f"its versions are {versions[-20:]} and its aliases {dict(sorted(model.aliases.items()))}"


def model_id_of_version(client: Any, version: Any) -> str | None:
    """Id of the logged model behind a version: the open-source registry keeps it in the version's source alone.

    A copied version names the version it was copied from, so sources are followed. None where no logged model stands
    at the end.
    """
    seen: set[str] = set()
    while (source := str(version.source or "")) not in seen:
        seen.add(source)
        if found := _MODEL_ID.match(source):
            return found["model_id"]
        if not ((found := _VERSION.match(source)) and found["version"]):
            break
        try:
            version = client.get_model_version(found["name"], found["version"])
        except Exception as error:
            if not is_missing(error):
                raise
            break  # the version it was copied from is gone; the copy still loads
    return None
