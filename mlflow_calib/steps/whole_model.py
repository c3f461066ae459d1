"""Every file of a candidate's model: recorded when it is evaluated, held against that record ever after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlflow_calib.errors import EvidenceError, MlflowCalibError
from mlflow_calib.flavor.file_listing import (
    LISTING,
    differing_files,
    file_digests,
    listed_files,
    listing,
    listing_digest,
)
from mlflow_calib.flavor.model_digest import hidden_content
from mlflow_calib.flavor.records import log_record, read_record
from mlflow_calib.flavor.resolved import resolve_model
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import RUN_ID, Candidate

PATH = f"mlflow_calib/{LISTING}"
#: Tag of a version: the digest over every file of its model, as ``fit`` logged it.
MODEL_SHA256 = "mlflow_calib.model_sha256"


def list_model_files(server: MlflowServer, run_id: str, model_uri: str) -> str:
    """List the files of a model beside its run; returns the digest over all of them."""
    files = file_digests(resolve_model(server, model_uri).local_path)
    log_record(server, run_id, PATH, listing(files))
    return listing_digest(files)


def with_model_files(server: MlflowServer, candidate: Candidate, run_id: str) -> Candidate:
    """The candidate with the digest of all its files, which are those that ``fit`` logged.

    Raises
    ------
    EvidenceError
        A file was changed, added or removed since, and the message names it.
    """
    with connected(server) as client:
        recorded = client.get_model_version(candidate.name, candidate.version).tags.get(MODEL_SHA256)
    if recorded:
        return replace(candidate, model_sha256=require_model_files(server, candidate.model_uri, recorded))
    return replace(candidate, model_sha256=list_model_files(server, run_id, candidate.model_uri))


def require_model_files(server: MlflowServer, model_uri: str, recorded: str | None) -> str:
    """The digest of all files of a version, which is the recorded one: MLmodel, code and environment included.

    Raises
    ------
    EvidenceError
        No digest was recorded; or a file was changed, added or removed since, and the message names it.
    ModelError
        The version or its files are gone.
    """
    if not recorded:
        raise EvidenceError(f"nothing says which files {model_uri} had when it was evaluated; evaluate it again")
    folder = resolve_model(server, model_uri).local_path
    if hidden := ", ".join(hidden_content(Path(folder))):
        raise EvidenceError(f"the model of {model_uri} holds {hidden}, which no digest covers; fit again")
    found = file_digests(folder)
    if listing_digest(found) == recorded:
        return recorded
    before = _files_before(server, model_uri, recorded)
    what = "" if before is None else f": {differing_files(before, found)}"
    raise EvidenceError(
        f"the files of {model_uri} must have digest {recorded}, found {listing_digest(found)}{what}; the model was "
        "changed after it was logged: fit again"
    )


def _files_before(server: MlflowServer, model_uri: str, recorded: str) -> dict[str, str] | None:
    """The files as they were listed; None where no list says so any more, and then only digests can be told."""
    name, version = model_uri.removeprefix("models:/").rsplit("/", 1)
    with connected(server) as client:
        run_id = client.get_model_version(name, version).tags.get(RUN_ID)
    if run_id is None:
        return None
    try:
        return listed_files(read_record(server, f"runs:/{run_id}/{PATH}"), recorded)
    except MlflowCalibError:
        return None
