"""A calibrated model whose files were edited, cut or swapped: refused when it is loaded, never at a prediction."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
from mlflow.models import Model
from sklearn.linear_model import LinearRegression, LogisticRegression

import mlflow_calib as mc
from mlflow_calib import runtime
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import score_source
from mlflow_calib.flavor.tracking import MlflowServer, connected
from tests.flavor.conftest import save_sklearn

Rows = tuple[pd.DataFrame, np.ndarray]
SOURCE = {"score": "auto", "call": "predict_proba", "classes": [0, 1]}


@pytest.fixture
def binary(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> Path:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def marginal(tmp_path: Path, three_class_model: Path, three_class_calibrator: Calibrator) -> Path:
    mc.save_model(three_class_model, three_class_calibrator, tmp_path / "m3")
    return tmp_path / "m3"


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "data/bundle/calibrator.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["maps"][0].update(counts=[1]), "counts must be 5 whole numbers"),
        (lambda d: d["maps"][0]["values"].reverse(), "values of map 0 must not fall"),
        (lambda d: d.update(positive_class=0), "map 0 must be that of class 0, and is that of 1"),
        (lambda d: d.update(reduction="top-label"), "positive_class must be null"),
        (lambda d: d.update(classes=[1]), "must have two classes"),
        (lambda d: d.update(classes=[1, 1]), "classes must be distinct"),
        (lambda d: d.update(classes=[1, [0]]), "classes must be distinct"),
        (lambda d: d.update(classes=[1, 7]), "score_source.classes must be the calibrator's"),
        (lambda d: d.update(base_model=[1]), "base_model must be a table"),
    ],
)
def test_edited_by_hand(binary: Path, change: Callable[[dict[str, Any]], Any], message: str) -> None:
    edit(binary, change)
    with pytest.raises(ValueError, match=message):
        mlflow.pyfunc.load_model(str(binary))


def test_classes_in_another_order_than_their_maps(marginal: Path) -> None:
    edit(marginal, lambda document: document["classes"].reverse())
    with pytest.raises(ValueError, match="map 0 must be that of class 'cat', and is that of 'ant'"):
        mlflow.pyfunc.load_model(str(marginal))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": [0, 7]}, "classes must be the calibrator's"),
        ({"classes": "01"}, "classes must be the calibrator's"),
        ({"classes": [0, 0]}, "classes must be the calibrator's"),
        ({"classes": [0, [1]]}, "classes must be the calibrator's"),
        ({"classes": [1, 0]}, r"its classes are \[0, 1\], and were \[1, 0\]"),
        ({"call": "run"}, "column must name the output"),
        ({"call": "run", "column": "p"}, "is a LogisticRegression, which has no run"),
        ({"call": "decision_function"}, "link does not fit the call 'decision_function'"),
        ({"link": "logit"}, "link does not fit the call 'predict_proba'"),
        ({"score": {"logit": "z"}, "call": "predict"}, "link does not fit"),
        ({"links": "logit"}, r"has the fields \['links'\]"),
        ({"column": 1}, "column must name a part"),
        ({"call": "predict", "column": [1]}, "column must name a part"),
        ({"column_class": 9}, "column_class must be one of two classes"),
    ],
)
def test_a_score_source_that_does_not_fit(binary: Path, change: dict[str, Any], message: str) -> None:
    edit(binary, lambda document: document["base_model"]["score_source"].update(change))
    for load in (mlflow.pyfunc.load_model, mc.load_model):
        with pytest.raises(ValueError, match=message):
            load(str(binary))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("words", r"its classes are \['no', 'yes'\]"),
        ("regression", "is a LinearRegression"),
        ("own", "CalibratedPyfunc"),
    ],
)
def test_another_base_model_in_the_artifact(
    binary: Path, binary_rows: Rows, tmp_path: Path, kind: str, message: str
) -> None:
    """Words in another order would swap the columns in silence."""
    frame, labels = binary_rows
    if kind == "own":
        other = shutil.copytree(binary, tmp_path / "other")
    else:
        model = LinearRegression() if kind == "regression" else LogisticRegression()
        words = labels if kind == "regression" else np.where(labels, "no", "yes")
        other = save_sklearn(model.fit(frame, words), frame, tmp_path / "other")
    shutil.rmtree(binary / "data/bundle/base_model")
    shutil.copytree(other, binary / "data/bundle/base_model")
    with pytest.raises(ValueError, match=f"base model is not the one that was calibrated: .*{message}"):
        mlflow.pyfunc.load_model(str(binary))


@pytest.mark.parametrize("content", [None, b"\xff\xfe{"])
def test_no_text_at_all(binary: Path, content: bytes | None) -> None:
    path = binary / "data/bundle/calibrator.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"calibrator\.json is missing or damaged"):
        mlflow.pyfunc.load_model(str(binary))


class Other:
    """A loaded model whose ``predict`` returns this."""

    def __init__(self, output: Any) -> None:
        self.output = output

    def predict(self, data: Any, params: Any = None) -> Any:  # noqa: ARG002
        return self.output


def pyfunc_of(calibrator: Calibrator, output: Any, classes: list[Any]) -> runtime.CalibratedPyfunc:
    source = {"score": "probability", "call": "predict", "classes": classes}
    return runtime.CalibratedPyfunc(Other(output), {**calibrator.to_dict(), "base_model": {"score_source": source}})


def test_another_number_of_rows_is_no_answer(binary_calibrator: Calibrator) -> None:
    with pytest.raises(ValueError, match="one row of scores a row, got 1 for 3 rows"):
        pyfunc_of(binary_calibrator, np.array([0.5]), [0, 1]).predict(np.zeros((3, 2)))
    for output in (0.5, None, np.zeros((3, 2, 2))):
        with pytest.raises(ValueError, match="one row of scores a row, got an array of shape"):
            pyfunc_of(binary_calibrator, output, [0, 1]).predict(np.zeros((3, 2)))


def test_of_equal_probabilities_the_label_is_the_models_first_class(binary_calibrator: Calibrator) -> None:
    """In the base model's own order of classes, whichever of them is the positive one."""
    for classes in ([0, 1], [1, 0]):
        model = pyfunc_of(binary_calibrator, np.full((1, 2), 0.5), classes)
        assert model.predict(np.zeros((1, 2)), {"output": "label"}).tolist() == [classes[0]]


@pytest.mark.parametrize("name", ["facts", "seed", "base_model"])
def test_describe_names_what_is_gone(binary: Path, name: str) -> None:
    edit(binary, lambda document: document.pop(name))
    with pytest.raises(ModelError, match=f"damaged .{name} is missing"):
        mc.describe(str(binary))


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("MLmodel", lambda text: text.replace("flavors:", "flavors: [mlflow_calib]\nothers:")),
        ("MLmodel", lambda text: text.replace("inputs: '[", "inputs: '[,")),
        ("python_env.yaml", lambda _: "a: ["),
        ("python_env.yaml", lambda _: "- a"),
    ],
)
def test_describe_names_the_damaged_file(binary: Path, file: str, change: Callable[[str], str]) -> None:
    path = binary / file
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before
    with pytest.raises(ModelError, match=f"the file {file} .*is damaged"):
        mc.describe(str(binary))


@pytest.mark.parametrize("uri", ["\x00", "a" * 5000])
def test_names_that_no_folder_has(uri: str) -> None:
    with pytest.raises(ModelError, match="a model cannot be loaded from"):
        mc.describe(uri)


@pytest.mark.parametrize("metadata", [{"a": object()}, {"a": {1, 2}}, [1], "x"])
def test_meta_data_that_is_no_json(
    tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator, metadata: Any
) -> None:
    with pytest.raises(InvalidInputError, match="metadata must"):
        mc.save_model(binary_model, binary_calibrator, tmp_path / "m", metadata=metadata)
    assert not (tmp_path / "m").exists()


def test_what_is_refused_leaves_no_logged_model(
    mlflow_server: MlflowServer, binary_model: Path, binary_calibrator: Calibrator
) -> None:
    """A model is logged before its files are written, so all that can be known is looked at before."""
    with connected(mlflow_server) as client:
        for options in ({"metadata": {"a": object()}}, {"embed": False}):
            with pytest.raises((InvalidInputError, ModelError)):
                mc.log_model(str(binary_model), binary_calibrator, **options)
        assert not client.search_logged_models(["0"])


def test_numbers_of_numpy_in_meta_data(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m", metadata={"auc": np.float64(0.5)})
    assert Model.load(str(tmp_path / "m")).metadata["auc"] == 0.5


@pytest.mark.parametrize("classes", [5, "01", [[0], [1]]])
def test_classes_that_are_no_list(classes: Any) -> None:
    with pytest.raises(InvalidInputError, match="classes must be a list"):
        score_source(Other(None), "probability", classes)
