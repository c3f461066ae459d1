"""The files behind a version, and the records a statement rests on, as the server finds them now."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlflow_calib.core.signing import Statement
from mlflow_calib.data.records import sha256_of_file
from mlflow_calib.errors import MlflowCalibError
from mlflow_calib.flavor.file_listing import LISTING, differing_files, file_digests, listed_files, listing_digest
from mlflow_calib.flavor.model_digest import hidden_content
from mlflow_calib.guard.places import Places

log = logging.getLogger("mlflow_calib.guard")


class Artifacts:
    """Reads artifacts; whatever cannot be read is a sentence against the promotion, never an error of the server."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def problems(self, statement: Statement, location: str) -> list[str]:
        """What differs between what was signed and what lies there now: files of the model, evidence, verdict.

        A rollback rests on no record: the version was judged when it was promoted.
        """
        with self._places.remembered():
            return self._problems(statement, location)

    def _problems(self, statement: Statement, location: str) -> list[str]:
        found = [*self._model_problems(statement, location)]
        if statement.kind == "rollback":
            return found
        for what in ("evidence", "verdict"):
            uri, sha256 = getattr(statement, f"{what}_uri"), getattr(statement, f"{what}_sha256")
            if uri and sha256:
                found += self._record_problems(what, uri, sha256)
        return found

    def _model_problems(self, statement: Statement, location: str) -> Iterator[str]:
        where = f"the model's files at {location}"
        try:
            with self._fetched(location) as folder:
                hidden = list(hidden_content(folder)) if folder.is_dir() else []
                files = file_digests(folder) if folder.is_dir() else {}
        except Exception as error:  # noqa: BLE001 - every storage has errors of its own, and none of them may open
            yield _unreadable(where, error)
            return
        if not files:
            yield f"{where} are missing"
        elif (digest := listing_digest(files)) != statement.model_sha256:
            yield (
                f"{where} must have digest {statement.model_sha256}, as when they were judged, and have {digest}"
                f"{self._differences(statement, files)}"
            )
        if hidden:
            yield f"{where} hold {', '.join(hidden)}, which no digest covers"

    def _differences(self, statement: Statement, files: dict[str, str]) -> str:
        """Which files differ, where their list lies beside the evidence; without it the digests must do."""
        for uri in (statement.evidence_uri, statement.verdict_uri):
            if not uri or "/" not in uri:
                continue
            try:
                with self._fetched(f"{uri.rpartition('/')[0]}/{LISTING}") as file:
                    listed = listed_files(json.loads(file.read_bytes()), statement.model_sha256)
            except Exception as error:  # noqa: BLE001 - a list that cannot be read names nothing
                log.info("the files that differ cannot be named: %s", _short(error))
                continue
            if listed is not None:
                return f": {differing_files(listed, files)}"
        return ""

    def _record_problems(self, what: str, uri: str, sha256: str) -> Iterator[str]:
        try:
            with self._fetched(uri) as file:
                digest = sha256_of_file(file)
        except Exception as error:  # noqa: BLE001 - as above
            yield _unreadable(f"the {what} record {uri}", error)
            return
        if digest != f"sha256:{sha256.lower().removeprefix('sha256:')}":
            yield f"the {what} record {uri} must have digest {sha256}, as when it was signed, and has {digest}"

    @contextmanager
    def _fetched(self, uri: str) -> Iterator[Path]:
        """A file or folder where it lies, or a copy that goes afterwards."""
        place = self._places.of(uri)
        if urlsplit(place).scheme == "":
            yield Path(place)
            return
        import mlflow

        with tempfile.TemporaryDirectory(prefix="mlflow-calib-guard-") as folder:
            yield Path(mlflow.artifacts.download_artifacts(artifact_uri=place, dst_path=folder))


def _unreadable(what: str, error: Exception) -> str:
    log.warning("%s cannot be read: %s", what, error, exc_info=not isinstance(error, (OSError, MlflowCalibError)))
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{what} cannot be read ({type(error).__name__}: {_short(reason)})"


def _short(text: Any) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= 300 else f"{line[:297]}..."
