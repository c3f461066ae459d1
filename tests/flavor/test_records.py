"""Records: what was logged is what is read, or an error that says which digest was due."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.records import digest
from mlflow_calib.errors import DataError, EvidenceError, InvalidInputError
from mlflow_calib.flavor.model import log_model
from mlflow_calib.flavor.records import log_record, read_record, read_record_text
from mlflow_calib.flavor.registry import register_candidate
from mlflow_calib.flavor.runs import start_or_reuse_run
from mlflow_calib.flavor.tracking import MlflowServer, connected

DOCUMENT = {"b": [1, 0.1 + 0.2, None], "a": "é"}


@pytest.fixture
def run_id(mlflow_server: MlflowServer) -> str:
    with start_or_reuse_run(mlflow_server, "e", "r", {}, None) as opened:
        return opened


def test_round_trip_beside_a_run(mlflow_server: MlflowServer, run_id: str) -> None:
    uri, sha256 = log_record(mlflow_server, run_id, "mlflow_calib/evidence.json", DOCUMENT)
    assert uri == f"runs:/{run_id}/mlflow_calib/evidence.json"
    assert sha256 == digest(DOCUMENT)
    assert read_record(mlflow_server, uri, sha256) == DOCUMENT
    assert read_record(mlflow_server, uri, sha256.removeprefix("sha256:")) == DOCUMENT


def test_text_is_logged_as_it_stands(mlflow_server: MlflowServer, run_id: str) -> None:
    uri, sha256 = log_record(mlflow_server, run_id, "a.json", '{ "a":1}')
    assert read_record_text(mlflow_server, uri, sha256) == '{ "a":1}'


def test_another_digest_is_refused(mlflow_server: MlflowServer, run_id: str) -> None:
    uri, sha256 = log_record(mlflow_server, run_id, "a.json", DOCUMENT)
    log_record(mlflow_server, run_id, "a.json", {**DOCUMENT, "a": "changed"})
    with pytest.raises(EvidenceError, match=f"must have digest {sha256}, found sha256:"):
        read_record(mlflow_server, uri, sha256)


def test_what_is_not_there(mlflow_server: MlflowServer, run_id: str, tmp_path: Path) -> None:
    for uri in (f"runs:/{run_id}/nothing.json", "runs:/absent/a.json", "models:/absent/1/a.json", "models:/m-0/a.json"):
        with pytest.raises(EvidenceError, match="no record at"):
            read_record(mlflow_server, uri)
    with pytest.raises(DataError, match="does not exist"):
        read_record(mlflow_server, str(tmp_path / "nothing.json"))


def test_what_is_no_record(mlflow_server: MlflowServer, run_id: str) -> None:
    for text, reason in (("not json", "must hold JSON"), ("[1]", "must hold a JSON object, got list")):
        uri, _ = log_record(mlflow_server, run_id, "a.json", text)
        with pytest.raises(EvidenceError, match=reason):
            read_record(mlflow_server, uri)
    with pytest.raises(InvalidInputError, match="finite numbers"):
        log_record(mlflow_server, run_id, "a.json", {"a": float("nan")})


def test_a_plain_file(mlflow_server: MlflowServer, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    assert read_record(mlflow_server, str(path)) == read_record(mlflow_server, path.as_uri()) == DOCUMENT


def test_a_file_of_a_model_by_version_and_by_id(
    mlflow_server: MlflowServer, run_id: str, binary_model: Path, binary_calibrator: Calibrator
) -> None:
    with connected(mlflow_server):
        info = log_model(str(binary_model), binary_calibrator, run_id=run_id)
    version = register_candidate(mlflow_server, "m", info.model_uri)
    for uri in (f"models:/m/{version}", info.model_uri):
        document = read_record(mlflow_server, f"{uri}/data/bundle/calibrator.json")
        assert document["maps"] == binary_calibrator.to_dict()["maps"]
