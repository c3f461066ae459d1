"""JSON records beside an MLflow run: written in one form, read back with their digest checked."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_calib.core.records import canonical_json, from_json
from mlflow_calib.data.records import read_text, same_sha256
from mlflow_calib.data.records import sha256_of_text as text_sha256
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.tracking import MlflowServer, connected

_MLFLOW_SCHEMES = ("runs:/", "models:/", "mlflow-artifacts:/")
__all__ = ["is_missing", "log_record", "read_record", "read_record_text", "text_sha256"]

#: An id of 32 hexadecimal digits: "m-churn" is the name of a registered model.
_FILE_OF_MODEL = re.compile(r"models:/(?P<model_id>m-[0-9a-f]{32})/(?P<path>.+)$")


def log_record(server: MlflowServer, run_id: str, path: str, document: Mapping[str, Any] | str) -> tuple[str, str]:
    """Write a document, or text as it stands, to ``path`` among the artifacts of a run; returns URI and sha256.

    A document is written as canonical JSON, so the sha256 is also its digest. Raises InvalidInputError for NaN and
    infinity, for which JSON has no word.
    """
    text = document if isinstance(document, str) else canonical_json(document)
    with connected(server) as client:
        client.log_text(run_id, text, path)
    return f"runs:/{run_id}/{path}", text_sha256(text)


def read_record(server: MlflowServer, uri: str, sha256: str | None = None) -> dict[str, Any]:
    """The JSON document at a URI: ``runs:/``, ``models:/``, or anything the data floor reads.

    Raises
    ------
    EvidenceError
        Where the record is missing, is not a JSON object, or has another digest than ``sha256``.
    """
    text = read_record_text(server, uri, sha256)
    try:
        document = from_json(text)
    except ValueError as error:
        raise EvidenceError(f"the record {uri} must hold JSON ({error}); run the step that writes it again") from error
    if not isinstance(document, dict):
        raise EvidenceError(f"the record {uri} must hold a JSON object, got {type(document).__name__}")
    return document


def read_record_text(server: MlflowServer, uri: str, sha256: str | None = None) -> str:
    """The text at a URI, its digest checked where ``sha256`` is given (with or without the prefix ``sha256:``)."""
    text = _download_text(server, uri) if uri.startswith(_MLFLOW_SCHEMES) else read_text(uri)
    found = text_sha256(text)
    if sha256 is not None and not same_sha256(found, sha256):
        raise EvidenceError(
            f"the record {uri} must have digest {sha256}, found {found}: it was changed after it was handed over; "
            "run the step that writes it again"
        )
    return text


def _download_text(server: MlflowServer, uri: str) -> str:
    import mlflow
    from mlflow.exceptions import MlflowException

    with connected(server) as client, tempfile.TemporaryDirectory() as folder:
        try:
            if found := _FILE_OF_MODEL.match(uri):  # which MLflow takes for a registered model's name
                uri = f"{client.get_logged_model(found['model_id']).artifact_location}/{found['path']}"
            path = mlflow.artifacts.download_artifacts(uri, dst_path=folder)
        except (MlflowException, OSError) as error:
            if not is_missing(error):
                raise
            raise EvidenceError(f"no record at {uri} ({error}); run the step that writes it") from error
        try:
            return Path(path).read_text(encoding="utf-8")
        except (IsADirectoryError, UnicodeDecodeError) as error:
            raise EvidenceError(f"{uri} must be the file of a record in UTF-8, and is none; name one") from error


def is_missing(error: Exception) -> bool:
    """Whether MLflow says that a thing does not exist, rather than that it could not be reached."""
    if "404 Client Error" in str(error):  # a file among artifacts that a server hands out
        return True
    codes = ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND", "INVALID_PARAMETER_VALUE")
    return isinstance(error, FileNotFoundError) or getattr(error, "error_code", None) in codes
