"""The arguments that MLflow's own flavors have: what each does to the artifact and to the logged model."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import mlflow.catboost
import mlflow.lightgbm
import mlflow.onnx
import mlflow.pyfunc
import mlflow.sklearn
import mlflow.xgboost
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.models import Model
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.tracking import MlflowServer, connected

Rows = tuple[pd.DataFrame, np.ndarray]
#: Arguments of one library's own, what goes on to its saving, and MLflow's deprecated name of ``name``; our base model
#: takes the place of theirs.
THEIRS_ALONE = {
    "artifact_path", "kwargs", "sk_model", "xgb_model", "lgb_model", "cb_model", "onnx_model", "pyfunc_predict_fn",
    "skops_trusted_types", "model_format", "onnx_execution_providers", "onnx_session_options", "save_as_external_data",
}  # fmt: skip


@pytest.mark.parametrize("verb", ["save_model", "log_model"])
@pytest.mark.parametrize("flavor", ["sklearn", "xgboost", "lightgbm", "catboost", "onnx"])
def test_every_argument_of_mlflows_own_flavors_is_there(flavor: str, verb: str) -> None:
    theirs = inspect.signature(getattr(getattr(mlflow, flavor), verb)).parameters
    ours = inspect.signature(getattr(mc, verb)).parameters
    assert set(theirs) - THEIRS_ALONE <= set(ours)


def test_code_and_files_that_travel(
    tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator, binary_rows: Rows
) -> None:
    code, notes = tmp_path / "helper_of_mine.py", tmp_path / "notes größe.txt"
    code.write_text("ANSWER = 42\n")
    notes.write_text("of the fit\n")
    path = tmp_path / "m"
    mc.save_model(binary_model, binary_calibrator, path, code_paths=[str(code)], extra_files=[str(notes)])
    assert (path / "code/helper_of_mine.py").read_text() == "ANSWER = 42\n"
    assert (path / "extra_files/notes größe.txt").read_text() == "of the fit\n"
    assert Model.load(str(path)).flavors["mlflow_calib"]["extra_files"] == [{"path": "extra_files/notes größe.txt"}]
    assert mlflow.pyfunc.load_model(str(path)).predict(binary_rows[0]).shape == (600,)
    sys.modules.pop("helper_of_mine", None)


def test_code_without_a_bundled_runtime(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    (tmp_path / "mine.py").write_text("")
    options: dict[str, Any] = {"code_paths": [str(tmp_path / "mine.py")], "bundle_runtime": False}
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m", **options)
    assert [path.name for path in (tmp_path / "m/code").iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["absent.txt"], "there is no file 'absent.txt'"),
        (["a/x.txt", "b/x.txt"], "must have distinct names, got 'b/x.txt'"),
        ("notes.txt", "must be a list of paths or URIs, got 'notes.txt'"),
    ],
)
def test_files_that_cannot_travel(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    binary_model: Path,
    binary_calibrator: Calibrator,
    files: Any,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        mc.save_model(binary_model, binary_calibrator, tmp_path / "m", extra_files=files)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("as_file", [True, False])
def test_a_conda_environment_of_ones_own(
    tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator, as_file: bool
) -> None:
    conda = {"name": "mine", "dependencies": ["python=3.11", "pip", {"pip": ["scikit-learn", "numpy"]}]}
    (tmp_path / "conda.yaml").write_text(yaml.safe_dump(conda))
    given: Any = str(tmp_path / "conda.yaml") if as_file else conda
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m", conda_env=given)
    written = yaml.safe_load((tmp_path / "m/conda.yaml").read_text())
    assert written["name"] == "mine"
    assert {"scikit-learn", "numpy"} <= set(written["dependencies"][-1]["pip"])
    with pytest.raises(InvalidInputError, match="give one of them"):
        mc.save_model(binary_model, binary_calibrator, tmp_path / "n", conda_env=conda, pip_requirements=["numpy"])


@pytest.fixture
def logging(mlflow_server: MlflowServer) -> Iterator[Any]:
    with connected(mlflow_server) as client:
        yield client


def test_what_logging_records(
    logging: Any, tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator, binary_rows: Rows
) -> None:
    (tmp_path / "card.md").write_text("# A card\n")
    with mlflow.start_run() as run:
        mlflow.log_metric("loss", 0.5, step=3)
        info = mc.log_model(
            binary_model,
            binary_calibrator,
            name="flights",
            params={"n_bins": 5},
            tags={"team": "delay"},
            model_type="classifier",
            step=3,
            registered_model_name="flights",
            await_registration_for=10,
            metadata={"owner": "me"},
            extra_files=[str(tmp_path / "card.md")],
            extra_pip_requirements=["requests"],
        )
    logged = logging.get_logged_model(info.model_id)
    assert (logged.name, logged.model_type, logged.params["n_bins"]) == ("flights", "classifier", "5")
    assert logged.tags["team"] == "delay"
    assert logged.source_run_id == run.info.run_id
    assert [(metric.key, metric.step) for metric in logged.metrics] == [("loss", 3)]
    outputs = logging.get_run(run.info.run_id).outputs.model_outputs
    assert [(output.model_id, output.step) for output in outputs] == [(info.model_id, 3)]
    assert logging.get_model_version("flights", "1").status == "READY"
    folder = Path(mlflow.artifacts.download_artifacts(info.model_uri))
    assert (folder / "extra_files/card.md").is_file()
    assert "requests" in (folder / "requirements.txt").read_text().splitlines()
    assert info.metadata["owner"] == "me"


def test_into_a_model_that_is_there_already(
    logging: Any, binary_model: Path, binary_calibrator: Calibrator, binary_rows: Rows
) -> None:
    """``model_id`` of `mlflow.initialize_logged_model`, which a pipeline may have made before it fits."""
    made = mlflow.initialize_logged_model(name="early")
    info = mc.log_model(binary_model, binary_calibrator, name="early", model_id=made.model_id)
    assert info.model_id == made.model_id
    assert str(logging.get_logged_model(made.model_id).status) == "READY"
    assert mlflow.pyfunc.load_model(info.model_uri).predict(binary_rows[0]).shape == (600,)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda path: mlflow.pyfunc.load_model(str(path)), ModelError, "MLflow's own PyFuncModel.*give the URI"),
        (
            lambda _: object(),
            ModelError,
            "must be a fitted model of .*catboost.*, a model URI or a folder, got object",
        ),
    ],
)
def test_objects_that_are_no_base_model(
    tmp_path: Path,
    binary_model: Path,
    binary_calibrator: Calibrator,
    make: Callable[[Path], Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        mc.save_model(make(binary_model), binary_calibrator, tmp_path / "m")


def test_a_format_the_library_does_not_have(tmp_path: Path, binary_rows: Rows, binary_calibrator: Calibrator) -> None:
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=2).fit(*binary_rows)
    with pytest.raises(InvalidInputError, match=r"serialization_format is for .*sklearn.* goes to mlflow\.xgboost"):
        mc.save_model(model, binary_calibrator, tmp_path / "m", serialization_format="skops")


@pytest.mark.parametrize("given", [None, "skops", "cloudpickle"])
def test_the_package_of_the_format_is_listed(
    tmp_path: Path, binary_rows: Rows, binary_calibrator: Calibrator, given: str | None
) -> None:
    """It is needed where the model is loaded; MLflow's default format is skops since 3.14."""
    model = LogisticRegression().fit(*binary_rows)
    mc.save_model(model, binary_calibrator, tmp_path / "m", serialization_format=given)
    written = Model.load(str(tmp_path / "m/data/bundle/base_model")).flavors["sklearn"]["serialization_format"]
    assert given in (written, None)
    lines = [line.split("==")[0] for line in (tmp_path / "m/requirements.txt").read_text().splitlines()]
    assert {written, "scikit-learn"} <= set(lines)
