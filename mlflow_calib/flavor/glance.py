"""A few files of a model, without the others: what it says of itself costs no download of its base model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.records import is_missing
from mlflow_calib.flavor.resolved import global_client, local_folder, pin, require_model_uri, resolve_model
from mlflow_calib.flavor.tracking import MlflowServer, connected


@dataclass(frozen=True)
class Glance:
    """Where a model is, pinned, and the texts of the files that were asked for; None for one that it does not have."""

    uri: str
    name: str | None
    version: str | None
    model_id: str | None
    texts: dict[str, str | None]
    registered: dict[str, Any] = field(default_factory=dict)


def glance_at(server: MlflowServer | None, uri: str | os.PathLike[str], files: Sequence[str]) -> Glance:
    """Read some files of a model by any URI that `resolve_model` takes; the errors are those of `resolve_model`.

    ``registered`` holds what the server says: aliases, tags and description of the version, run, figures and tags of
    the logged model. A local folder has none of it.
    """
    require_model_uri(uri)
    folder = local_folder(uri)
    if folder is not None:
        return Glance(folder.as_uri(), None, None, None, {name: _text(folder / name) for name in files})
    with nullcontext(global_client(os.fspath(uri))) if server is None else connected(server) as client:
        return _remote(client, os.fspath(uri), files)


def _remote(client: Any, uri: str, files: Sequence[str]) -> Glance:
    name, version, model_id = pin(client, uri)
    pinned = f"models:/{name}/{version}" if name else uri
    if not name and not model_id:  # of a run, or of plain storage: MLflow finds it as a whole alone
        found = resolve_model(None, uri)
        texts = {file: _text(Path(found.local_path) / file) for file in files}
        said = {} if client is None else _said_by_server(client, None, None, found.model_id)
        return Glance(found.uri, None, None, found.model_id, texts, said)
    # MLflow resolves files below models:/<name>/<version>, and not below models:/m-...
    place = pinned if name else getattr(_logged_model(client, str(model_id)), "artifact_location", None)
    texts = {file: None if place is None else _fetched(place, file) for file in files}
    if texts[files[0]] is None:
        raise ModelError(f"there is no model at {uri}, or it lacks the file {files[0]}; check the id and the server")
    return Glance(pinned, name, version, model_id, texts, _said_by_server(client, name, version, model_id))


def _fetched(uri: str, file: str) -> str | None:
    import mlflow
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as scratch:
        try:
            return _text(Path(mlflow.artifacts.download_artifacts(f"{uri.rstrip('/')}/{file}", dst_path=scratch)))
        except (MlflowException, OSError) as error:
            if not is_missing(error):
                raise
            return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except UnicodeDecodeError as error:
        raise ModelError(
            f"the file {path.name} of the model is damaged ({error}); fetch or log the model again"
        ) from error


def _said_by_server(client: Any, name: str | None, version: str | None, model_id: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if name is not None:
        entity = client.get_model_version(name, version)
        found |= {"run_id": entity.run_id or None, "aliases": sorted(entity.aliases or ()), "tags": dict(entity.tags)}
        found["description"] = entity.description or None
    if model_id is not None and (logged := _logged_model(client, model_id)) is not None:
        found = {"run_id": logged.source_run_id, **found}
        found["metrics"], found["model_tags"] = _latest(logged.metrics or ()), dict(logged.tags or {})
    return found


def _logged_model(client: Any, model_id: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_logged_model(model_id)
    except MlflowException as error:
        if not is_missing(error):
            raise
        return None


def _latest(metrics: Sequence[Any]) -> dict[str, float]:
    """The newest value of each metric: a logged model keeps them all."""
    newest: dict[str, Any] = {}
    for metric in sorted(metrics, key=lambda one: (one.step, one.timestamp)):
        newest[metric.key] = metric
    return {name: float(newest[name].value) for name in sorted(newest)}
