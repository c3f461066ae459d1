"""Any model URI stands for one model, pinned when it was asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlflow
import mlflow.sklearn
import pytest
from mlflow.models import Model

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.base_model import folder_digest, model_id_of_version, resolve_model
from mlflow_calib.flavor.model import log_model, save_model
from mlflow_calib.flavor.runs import experiment_id_of
from mlflow_calib.flavor.tracking import MlflowServer, connected


@pytest.fixture
def model_id(mlflow_server: MlflowServer, binary_model: Path, binary_calibrator: Calibrator) -> str:
    """A calibrated model, logged and registered twice as "m"; the alias "champion" is at version 1."""
    with connected(mlflow_server) as client:
        run = client.create_run(experiment_id_of(client, mlflow_server, "e"))
        info = log_model(str(binary_model), binary_calibrator, run_id=run.info.run_id)
        for _ in range(2):
            mlflow.register_model(info.model_uri, "m")
        client.set_registered_model_alias("m", "champion", "1")
    return str(info.model_id)


def test_an_alias_stands_for_its_version(mlflow_server: MlflowServer, model_id: str) -> None:
    resolved = resolve_model(mlflow_server, "models:/m@champion")
    assert (resolved.uri, resolved.name, resolved.version) == ("models:/m/1", "m", "1")
    assert resolved.model_id == model_id
    assert resolve_model(mlflow_server, "models:/m/latest").uri == "models:/m/2"


def test_the_same_model_by_every_uri(mlflow_server: MlflowServer, model_id: str) -> None:
    by_version = resolve_model(mlflow_server, "models:/m/2")
    by_id = resolve_model(mlflow_server, f"models:/{model_id}")
    run_id = mlflow_server.client().get_logged_model(model_id).source_run_id
    by_run = resolve_model(mlflow_server, f"runs:/{run_id}/model")
    in_place = resolve_model(None, by_version.local_path)
    assert by_id.uri == by_run.uri == f"models:/{model_id}"
    assert in_place.uri == Path(by_version.local_path).as_uri()
    assert {model.digest for model in (by_version, by_id, by_run, in_place)} == {by_version.digest}
    assert {model.model_id for model in (by_version, by_id, by_run, in_place)} == {model_id}
    assert {model.kind for model in (by_version, by_id, by_run, in_place)} == {"calibrated"}


def test_a_raw_and_a_calibrated_model(mlflow_server: MlflowServer, model_id: str, binary_model: Path) -> None:
    raw = resolve_model(mlflow_server, str(binary_model))
    assert (raw.kind, raw.calibrator, raw.recalibration_keys) == ("raw", None, None)
    assert raw.flavors == ("python_function", "sklearn")
    ours = resolve_model(mlflow_server, "models:/m/1")
    assert ours.flavors == ("mlflow_calib", "python_function")
    assert ours.calibrator is not None
    assert ours.calibrator["base_model"]["digest"] == raw.digest


def test_recalibration_keys_are_read_back(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    keys = {"uri": "s3://bucket/key_hash.parquet", "sha256": "sha256:ab"}
    save_model(binary_model, binary_calibrator.with_facts(recalibration_keys=keys), tmp_path / "model")
    assert resolve_model(None, tmp_path / "model").recalibration_keys == keys


def test_the_model_id_of_copies_of_copies(mlflow_server: MlflowServer, model_id: str) -> None:
    """The open-source registry keeps no model id; a copied version names the version it came from."""
    with connected(mlflow_server) as client:
        client.copy_model_version("models:/m/1", "staging")
        client.copy_model_version("models:/staging/1", "prod")
        copy = client.get_model_version("prod", "1")
        assert copy.source == "models:/staging/1"
        assert model_id_of_version(client, copy) == model_id
        client.delete_model_version("staging", "1")
        assert model_id_of_version(client, copy) is None
    assert resolve_model(mlflow_server, "models:/prod/1").model_id == model_id  # as its MLmodel says


def test_reading_and_copying_keep_the_digest(mlflow_server: MlflowServer, model_id: str, tmp_path: Path) -> None:
    before = resolve_model(mlflow_server, f"models:/{model_id}")
    folder = Path(before.local_path)
    with connected(mlflow_server):
        mlflow.pyfunc.load_model("models:/m/1")  # MLflow writes registered_model_meta beside a local model
    assert (folder / "registered_model_meta").exists()
    shutil.copytree(folder, tmp_path / "copy")
    assert folder_digest(tmp_path / "copy") == folder_digest(folder) == before.digest
    (tmp_path / "copy/requirements.txt").write_text("other\n")
    assert folder_digest(tmp_path / "copy") != before.digest


def test_a_download_goes_where_it_is_asked(mlflow_server: MlflowServer, model_id: str, tmp_path: Path) -> None:
    resolved = resolve_model(mlflow_server, "models:/m/1", dst_path=str(tmp_path / "here"))
    assert Path(resolved.local_path).is_relative_to(tmp_path / "here")
    assert Model.load(resolved.local_path).model_id == model_id


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("models:/absent/1", r"'absent' has no version '1'; no such registered model; there are \['m'\]"),
        ("models:/absent@champion", r"'absent' has no alias 'champion'; .* there are \['m'\]"),
        ("models:/m/9", r"'m' has no version '9'; its versions are \[1, 2\] and its aliases {'champion': "),
        ("models:/m@challenger", r"'m' has no alias 'challenger'; its versions are \[1, 2\]"),
        ("models:/m/Production", r"'m' has no version 'Production'; its versions are \[1, 2\]"),
        ("models:/absent/latest", r"'absent' has no version 'latest'"),
        ("models:/m-0123456789abcdef0123456789abcdef", "there is no model at models:/m-0123"),
        ("runs:/0123456789abcdef0123456789abcdef/model", "there is no model at runs:/0123"),
        ("nowhere/model", "must hold the file MLmodel, and nowhere/model does not"),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(
    mlflow_server: MlflowServer, model_id: str, uri: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        resolve_model(mlflow_server, uri)


def test_an_empty_registry(mlflow_server: MlflowServer) -> None:
    with pytest.raises(ModelError, match="no model is registered on this server"):
        resolve_model(mlflow_server, "models:/m/1")


def test_a_file_uri_of_another_host() -> None:
    """P16: the error names both hosts."""
    with pytest.raises(ModelError, match=r"lies on host 'worker-7', and this is '.+'"):
        resolve_model(None, "file://worker-7/models/m")


def test_a_damaged_calibrator_is_refused(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    save_model(binary_model, binary_calibrator, tmp_path / "model")
    path = tmp_path / "model/data/bundle/calibrator.json"
    for text, reason in (
        ("{", "damaged"),
        (path.read_text().replace('"schema_version": 1', '"schema_version": 99'), "99"),
    ):
        path.write_text(text)
        with pytest.raises(ModelError, match=reason):
            resolve_model(None, tmp_path / "model")
