"""What a calibrated model says of itself, wherever it stands, and without its base model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

import mlflow_calib as mc
from mlflow_calib.cli.main import main
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import folder_digest
from mlflow_calib.flavor.describe import description_text
from mlflow_calib.flavor.runs import log_metrics, start_or_reuse_run
from mlflow_calib.flavor.tracking import MlflowServer, connected

Rows = tuple[pd.DataFrame, np.ndarray]


@pytest.fixture
def binary(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> Path:
    facts = {"data_uri": "s3://lake/november.parquet", "partitions": {"uri": "s3://lake/p", "sha256": "sha256:1"}}
    mc.save_model(binary_model, binary_calibrator.with_facts(**facts), tmp_path / "binary")
    return tmp_path / "binary"


def test_everything_an_auditor_asks(binary: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    found = mc.describe(binary)
    assert json.loads(json.dumps(found)) == found
    assert found["schema"] == "mlflow_calib.description/1"
    assert found["model"]["uri"] == binary.resolve().as_uri()
    base = found["base_model"]
    assert (base["uri"], base["digest"]) == (binary_model.resolve().as_uri(), folder_digest(binary_model))
    assert (base["flavors"], base["embedded"]) == (["python_function", "sklearn"], True)
    assert base["score_source"]["classes"] == [0, 1]
    calibrator, (one_map,) = found["calibrator"], binary_calibrator.maps
    assert (calibrator["method"], calibrator["reduction"], calibrator["seed"]) == ("scaling-binning", "binary", 0)
    assert (calibrator["n_bins_requested"], calibrator["n_bins_effective"]) == (5, 5)
    assert calibrator["maps"] == [one_map.to_dict()]
    data = found["data"]
    assert (data["n"], data["n_parts"], data["keys"]) == (600, binary_calibrator.facts["n_parts"], "unverified")
    assert (data["data_uri"], data["partitions"]["sha256"]) == ("s3://lake/november.parquet", "sha256:1")
    assert found["evaluation"] == {"metrics": {}, "tags": {}}
    assert [column["name"] for column in found["signature"]["inputs"]] == ["x1", "x2"]
    environment = found["environment"]
    assert environment["mlflow_calib_version"] == mc.__version__
    assert environment["mlflow_version"] == mlflow.__version__
    assert (environment["runtime"], environment["schema_version"]) == ("bundled", 1)
    assert environment["requirements"] == (binary / "requirements.txt").read_text().splitlines()
    assert environment["python"]


def test_the_text_says_the_same(binary: Path) -> None:
    text = description_text(mc.describe(binary))
    for part in ("model", "base model", "calibrator", "bins of class 1", "recalibration data", "recorded since"):
        assert part in text.splitlines()
    for fact in ("scaling-binning", "family platt", "s3://lake/november.parquet", "sha256:1", "value 0.", "rows 1"):
        assert fact in text


def test_rivals_and_many_classes(tmp_path: Path, three_class_model: Path, three_class_rows: Rows) -> None:
    frame, labels = three_class_rows
    scores = mlflow.sklearn.load_model(str(three_class_model)).predict_proba(frame)
    words = {"classes": ["ant", "bee", "cat"], "reduction": "marginal"}
    mc.save_model(three_class_model, mc.fit_calibrator(scores, labels, scaling="auto", **words), tmp_path / "m")
    found = mc.describe(tmp_path / "m")
    (chosen,) = (one for one in found["calibrator"]["maps"][0]["scaling"]["candidates"] if one["chosen"])
    assert chosen["family"] == found["calibrator"]["maps"][0]["scaling"]["family"]
    text = description_text(found)
    assert "chosen  " in text
    assert "rival   " in text
    assert "bins of class 'cat'" in text


def test_the_base_model_is_not_needed(tmp_path: Path, binary: Path) -> None:
    """An auditor has the small files alone."""
    shutil.rmtree(binary / "data/bundle/base_model")
    assert mc.describe(binary)["data"]["n"] == 600


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("data/bundle/calibrator.json", "{", "cannot be read: calibrator.json is damaged"),
        ("data/bundle/calibrator.json", None, "cannot be read: calibrator.json is damaged"),
        ("MLmodel", "[]", "MLmodel of .* is damaged"),
        ("MLmodel", ": :", "MLmodel of .* is damaged"),
    ],
)
def test_damaged_files_are_named(binary: Path, file: str, text: str | None, message: str) -> None:
    (binary / file).unlink() if text is None else (binary / file).write_text(text)
    with pytest.raises(ModelError, match=message):
        mc.describe(binary)


def test_what_is_no_calibrated_model(binary_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"must be a calibrated model, and its flavors are"):
        mc.describe(binary_model)
    with pytest.raises(ModelError, match="must hold the file MLmodel"):
        mc.describe(tmp_path)
    with pytest.raises(InvalidInputError, match="a model must be named by its URI or folder"):
        mc.describe("models:/")


def test_on_a_server(
    mlflow_server: MlflowServer, binary: Path, binary_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By version, alias, model id and run; a copy describes itself; figures logged later come along."""
    calibrator = mc.load_model(str(binary)).calibrator
    with start_or_reuse_run(mlflow_server, "e", "r", {}, "k") as run_id, connected(mlflow_server) as client:
        mlflow.register_model(str(binary_model), "base")
        info = mc.log_model("models:/base/1", calibrator, "m", run_id=run_id, registered_model_name="flights")
        log_metrics(mlflow_server, run_id, {"calibration_error_upper_bound": 0.04}, model_id=info.model_id)
        log_metrics(mlflow_server, run_id, {"calibration_error_upper_bound": 0.03}, model_id=info.model_id, step=1)
        client.set_registered_model_alias("flights", "champion", "1")
        client.set_model_version_tag("flights", "1", "mlflow_calib.upper_bound", "0.03")
        client.copy_model_version("models:/flights/1", "prod")
        client.set_registered_model_alias("prod", "live", "1")
        tags, version_tags = client.get_logged_model(info.model_id).tags, client.get_model_version("prod", "1").tags
    own = mc.describe("models:/flights@champion", mlflow_server)
    assert own["model"] == {
        "uri": "models:/flights/1",
        "name": "flights",
        "version": "1",
        "aliases": ["champion"],
        "model_id": info.model_id,
        "run_id": run_id,
        "created_at": own["model"]["created_at"],
        "description": None,
    }
    assert own["base_model"]["uri"] == "models:/base/1"
    assert own["evaluation"]["metrics"] == {"calibration_error_upper_bound": 0.03}
    assert own["evaluation"]["tags"]["mlflow_calib.upper_bound"] == "0.03"
    parts = ("base_model", "calibrator", "data", "signature", "environment")
    for uri in ("models:/prod@live", "models:/prod/1", f"models:/{info.model_id}", f"runs:/{run_id}/m"):
        other = mc.describe(uri, mlflow_server)
        assert {part: other[part] for part in parts} == {part: own[part] for part in parts}
        assert other["model"]["model_id"] == info.model_id
    with connected(mlflow_server):  # and through MLflow's own global URI
        assert mc.describe("models:/prod@live")["model"]["aliases"] == ["live"]
        assert mlflow.pyfunc.load_model("models:/prod@live").metadata.metadata["mlflow_calib"]["n"] == 600
    for shown in (tags, version_tags):
        assert shown["mlflow_calib.calibrator.method"] == "scaling-binning"
        assert shown["mlflow_calib.calibrator.base_digest"] == folder_digest(binary_model)
        assert shown["mlflow_calib.calibrator.families"] == '{"platt": 1}'
    with pytest.raises(ModelError, match="'flights' has no version '7'"):
        mc.describe("models:/flights/7", mlflow_server)
    with pytest.raises(ModelError, match="there is no model at models:/m-"):
        mc.describe("models:/m-0123456789abcdef0123456789abcdef", mlflow_server)


def test_the_facts_stand_in_the_meta_data(binary: Path) -> None:
    facts = mlflow.pyfunc.load_model(str(binary)).metadata.metadata["mlflow_calib"]
    assert (facts["method"], facts["n"], facts["n_bins"], facts["families"]) == (
        "scaling-binning",
        600,
        5,
        {"platt": 1},
    )
    assert facts["data"]["data_uri"] == "s3://lake/november.parquet"
    assert facts["base_model"]["digest"] == mc.describe(binary)["base_model"]["digest"]


def test_the_command(
    binary: Path, binary_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local folder needs no server."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert main(["describe", str(binary), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == mc.describe(binary)
    assert main(["describe", str(binary)]) == 0
    assert capsys.readouterr().out.rstrip("\n") == description_text(mc.describe(binary))
    assert main(["describe", str(binary_model)]) == 2
    assert "must be a calibrated model" in capsys.readouterr().err
    assert main(["describe", "models:/m/1"]) == 2
    assert "MLFLOW_TRACKING_URI" in capsys.readouterr().err
