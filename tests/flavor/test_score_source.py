"""Where scores come from: what boosters say of themselves, what is declared, and what is refused with its remedy."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import mlflow.lightgbm
import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import ModelSignature, infer_signature
from mlflow.types import ColSpec, Schema
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib import runtime
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.base_model import load_scorer, resolve_model
from tests.flavor.bases import base, rows, sigmoid, softmax

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*An input example was not provided:UserWarning"),
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated:DeprecationWarning"),  # MLflow on pandas 3
]


def calibrator(scores: Any, n_classes: int = 2, **options: Any) -> mc.Calibrator:
    return mc.fit_calibrator(np.asarray(scores, dtype=float), rows(n_classes)[1], n_bins=3, **options)


def save_code(folder: Path, body: str) -> Path:
    """A model from code whose ``predict`` has this body; ``z`` is x1, ``p`` its sigmoid."""
    (folder / "model.py").write_text(
        "import mlflow, numpy as np, pandas as pd\n"
        "from mlflow.pyfunc import PythonModel\n"
        "class FromCode(PythonModel):\n"
        "    def predict(self, context, model_input: pd.DataFrame, params=None):\n"
        "        z = model_input['x1'].to_numpy()\n"
        "        p = 1 / (1 + np.exp(-z))\n"
        f"        {body}\n"
        "mlflow.models.set_model(FromCode())\n"
    )
    signature = ModelSignature(inputs=Schema([ColSpec("double", "x1"), ColSpec("double", "x2")]))
    mlflow.pyfunc.save_model(
        str(folder / "coded"), python_model=str(folder / "model.py"), signature=signature, pip_requirements=["numpy"]
    )
    return folder / "coded"


P = sigmoid(rows()[0]["x1"])
DECLARED: dict[str, tuple[str, Any, Any]] = {
    "probability": ("return p", "probability", P),
    "a named column, as H2O returns": (
        "return pd.DataFrame({'predict': (p > .5).astype(int), 'p0': 1 - p, 'p1': p})",
        "p1",
        P,
    ),
    "a numbered column": ("return np.column_stack([p > .5, 1 - p, p])", 2, P),
    "a numbered column of a frame": ("return pd.DataFrame({'label': p > .5, 'score': p})", 1, P),
    "an entry of a dict": ("return {'label': p > .5, 'score': p}", "score", P),
    "a numbered entry of a dict": ("return {'label': p > .5, 'score': p}", 1, P),
    "the only entry of a dict": ("return {'score': p[:, None]}", "probability", P),
    "a column of dicts": (
        "return pd.DataFrame({'all': [{'1': one, '0': 1 - one} for one in p]})",
        "all",
        P,
    ),
    "a column of lists": ("return pd.DataFrame({'all': [[1 - one, one] for one in p]})", "all", P),
    "a list of dicts": ("return [{1: one, 0: 1 - one} for one in p]", "probability", P),
    "a list of lists": ("return [[1 - one, one] for one in p]", "probability", P),
    "a logit": ("return z", "logit", P),
    "two logits": (
        "return np.column_stack([z * 0, z])",
        "logit",
        softmax(np.column_stack([0 * P, rows()[0]["x1"]]))[:, 1],
    ),
    "logits in a named column": ("return pd.DataFrame({'label': z > 0, 'logits': z})", {"logit": "logits"}, P),
    "a declared part": ("return {'label': z > 0, 'score': p}", {"probability": "score"}, P),
}


@pytest.mark.parametrize("name", DECLARED)
def test_declared(tmp_path: Path, name: str) -> None:
    body, score, expected = DECLARED[name]
    path = save_code(tmp_path, body)
    frame = rows()[0]
    mc.save_model(path, calibrator(expected), tmp_path / "m", score=score, input_example=frame[:20])
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_allclose(loaded.predict(frame, params={"output": "base"}), expected, rtol=1e-12)
    source = json.loads((tmp_path / "m/data/bundle/calibrator.json").read_text())["base_model"]["score_source"]
    assert source["score"] == score
    assert source["call"] == "predict"


REFUSED: dict[str, tuple[str, Any, str]] = {
    "labels": ("return (p > .5).astype(int)", "probability", "it returned labels or counts"),
    "labels as floats": (
        "return (p > .5).astype(float)",
        "probability",
        "nothing but 0 and 1 .* which are class labels",
    ),
    "another number of rows": ("return p[:-1]", "probability", "19 scores for 20 rows"),
    "gaps": ("return np.where(p > .5, np.nan, p)", "probability", "finite numbers"),
    "a logit that is not declared": ("return z", "probability", r"must lie in \[0, 1\]; if these are logits"),
    "an infinite logit": ("return np.where(p > .5, np.inf, z)", "logit", "finite numbers"),
    "a probability declared a logit": ("return p", "logit", r'as probabilities do; say score="probability"'),
    "two probabilities declared logits": (
        "return np.column_stack([1 - p, p])",
        "logit",
        'as probabilities do; say score="probability"',
    ),
    "no such column": (
        "return pd.DataFrame({'p0': 1 - p, 'p1': p})",
        "p2",
        r"no column 'p2'; it has \['p0', 'p1'\]",
    ),
    "no such position": ("return np.column_stack([1 - p, p])", 2, r"no column 2; it is an array of shape \(20, 2\)"),
    "a name of an array": ("return np.column_stack([1 - p, p])", "p1", "no column 'p1'; it is an array"),
    "several outputs": ("return {'a': p, 'b': p}", "probability", r"several outputs, \['a', 'b'\]; name the one"),
    "dicts of other classes": (
        "return [{2: one, 3: 1 - one} for one in p]",
        "probability",
        r"one score a class \['0', '1'\]",
    ),
    "an error of its own": (
        "raise RuntimeError('no weights')",
        "probability",
        "does not take the input example: no weights",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_declared_and_refused(tmp_path: Path, name: str) -> None:
    """On the rows of the input example, when the model is saved, and not at a later prediction."""
    body, score, message = REFUSED[name]
    path = save_code(tmp_path, body)
    with pytest.raises(ModelError, match=message):
        mc.save_model(path, calibrator(P), tmp_path / "m", score=score, input_example=rows()[0][:20])
    assert not (tmp_path / "m").exists()


def test_a_column_nobody_has_seen(tmp_path: Path) -> None:
    path = save_code(tmp_path, "return pd.DataFrame({'p0': 1 - p, 'p1': p})")
    with pytest.raises(ModelError, match=r"no rows show that .* has a column 'p1'; pass input_example"):
        mc.save_model(path, calibrator(P), tmp_path / "m", score="p1")
    # as the steps do, which have scored all rows before
    mc.save_model(resolve_model(None, path), calibrator(P), tmp_path / "m", score="p1")
    np.testing.assert_allclose(
        mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(rows()[0], params={"output": "base"}), P, rtol=1e-12
    )


def test_a_package_that_is_missing(tmp_path: Path) -> None:
    path = save_code(tmp_path, "return p")
    code = next(path.glob("*.py"))
    code.write_text("import absent_package\n" + code.read_text())
    message = r"needs a package that cannot be imported here: .*absent_package.*install the lines of its requirements"
    with pytest.raises(ModelError, match=message):
        mc.save_model(path, calibrator(P), tmp_path / "m", score="probability")
    with pytest.raises(ModelError, match=message):
        load_scorer(resolve_model(None, path), "probability", [0, 1])


def test_a_library_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = base("lightgbm binary")
    mlflow.lightgbm.save_model(one.model, str(tmp_path / "base"), pip_requirements=["lightgbm"])
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ModelError, match=r"needs a package that cannot be imported here: .*lightgbm"):
        mc.save_model(tmp_path / "base", one.calibrator, tmp_path / "m")


def test_several_label_logits_have_a_sigmoid_each(tmp_path: Path) -> None:
    body = "return np.column_stack([z, -2 * z, z / 2])"
    x1 = rows()[0]["x1"].to_numpy()
    scores = sigmoid(np.column_stack([x1, -2 * x1, x1 / 2]))
    labels = (np.random.default_rng(0).uniform(size=scores.shape) < scores).astype(int)
    fitted = mc.fit_calibrator(scores, labels, reduction="multi-label", classes=["a", "b", "c"], n_bins=3)
    frame = rows()[0]
    mc.save_model(save_code(tmp_path, body), fitted, tmp_path / "m", score="logit", input_example=frame[:20])
    base_scores = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(frame, params={"output": "base"})
    np.testing.assert_allclose(base_scores.to_numpy(), scores, rtol=1e-12)


# --------------------------------------------------------------------------------------------------- what models say


def refused_boosters() -> dict[str, tuple[Callable[[], Any], str]]:
    import catboost
    import lightgbm
    import xgboost

    frame, labels = rows()

    def xgb(objective: str, **more: Any) -> Callable[[], Any]:
        matrix = xgboost.DMatrix(frame, labels)
        return lambda: xgboost.train({"objective": objective, **more}, matrix, 3)

    def lgb(objective: str, **more: Any) -> Callable[[], Any]:
        data = lightgbm.Dataset(frame, labels)
        return lambda: lightgbm.train({"objective": objective, "verbose": -1, **more}, data, 3)

    quiet = {"iterations": 3, "verbose": 0, "allow_writing_files": False}
    unknown = 'not known to be a probability; if it is one, say score="probability", if it is log odds, score="logit"'
    return {
        "softmax": (xgb("multi:softmax", num_class=2), 'multi:softmax, which predicts labels.*"multi:softprob"'),
        "hinge": (xgb("binary:hinge"), 'binary:hinge, which predicts labels.*"binary:logistic"'),
        "xgboost regression": (xgb("reg:squarederror"), f"reg:squarederror, and what it predicts is {unknown}"),
        "xgboost ranking": (lambda: xgboost.XGBRegressor(n_estimators=3).fit(frame, labels), unknown),
        "one against all": (lgb("multiclassova", num_class=2), "multiclassova, whose classes do not exclude"),
        "lambda": (lgb("cross_entropy_lambda"), unknown),
        "lightgbm regression": (lambda: lightgbm.LGBMRegressor(n_estimators=3, verbose=-1).fit(frame, labels), unknown),
        "catboost regression": (lambda: catboost.CatBoostRegressor(**quiet).fit(frame, labels), unknown),
    }


@pytest.mark.parametrize(
    "name",
    [
        "softmax", "hinge", "xgboost regression", "xgboost ranking", "one against all", "lambda", "lightgbm regression",
        "catboost regression",
    ],
)  # fmt: skip
def test_boosters_without_a_probability(tmp_path: Path, name: str) -> None:
    make, message = refused_boosters()[name]
    options = {"serialization_format": "cloudpickle"} if name == "lightgbm regression" else {}
    with pytest.raises(ModelError, match=message):
        mc.save_model(make(), calibrator(P), tmp_path / "m", **options)


def test_labels_stay_labels_whatever_is_declared(tmp_path: Path) -> None:
    make, message = refused_boosters()["softmax"]
    with pytest.raises(ModelError, match=message):
        mc.save_model(make(), calibrator(P), tmp_path / "m", score="probability")


def test_a_booster_numbers_its_classes(tmp_path: Path) -> None:
    """Names are given in the order of the numbers; the calibrator's own order is no answer."""
    booster = base("xgboost binary:logistic")
    names = np.array(["no", "yes"])[rows()[1]]
    fitted = mc.fit_calibrator(booster.scores, names, n_bins=3, positive_class="yes")
    with pytest.raises(ModelError, match=r"numbers its classes \[0, 1\].*give classes=\[...\] in the order of these"):
        mc.save_model(booster.model, fitted, tmp_path / "a")
    with pytest.raises(ModelError, match=r"has 2 classes, got classes=\['a', 'b', 'c'\]"):
        mc.save_model(booster.model, fitted, tmp_path / "b", classes=["a", "b", "c"])
    mc.save_model(booster.model, fitted, tmp_path / "m", classes=["no", "yes"])
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(rows()[0]), fitted.predict(booster.scores))


@pytest.mark.parametrize("name", ["xgboost binary:logistic", "lightgbm binary", "sklearn decision_function"])
def test_one_score_a_row_is_that_of_the_second_class(tmp_path: Path, name: str) -> None:
    """The calibrator may speak of the other one; its base score is then 1 - p."""
    one = base(name)
    fitted = calibrator(1.0 - one.scores.astype(float), positive_class=0)
    mc.save_model(one.model, fitted, tmp_path / "m", score=one.score)
    base_scores = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(rows()[0], params={"output": "base"})
    np.testing.assert_allclose(base_scores, 1.0 - one.scores.astype(float), rtol=1e-9)


class LogProbabilities(ClassifierMixin, BaseEstimator):
    """A classifier that has log probabilities alone."""

    def fit(self, frame: Any, labels: Any) -> LogProbabilities:
        self.inner_ = LogisticRegression().fit(frame, labels)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, frame: Any) -> Any:
        return self.inner_.predict(frame)

    def predict_log_proba(self, frame: Any) -> Any:
        return self.inner_.predict_log_proba(frame)


class Swapped(LogProbabilities):
    """A classifier whose columns stand the other way round."""

    def predict_proba(self, frame: Any) -> Any:
        return self.inner_.predict_proba(frame)[:, ::-1]


class Unnamed(LogProbabilities):
    """A classifier that does not say its classes."""

    def fit(self, frame: Any, labels: Any) -> Unnamed:
        super().fit(frame, labels)
        del self.classes_
        return self

    def predict_proba(self, frame: Any) -> Any:
        return self.inner_.predict_proba(frame)


def test_log_probabilities(tmp_path: Path) -> None:
    frame, labels = rows()
    model = LogProbabilities().fit(frame, labels)
    scores = np.exp(model.predict_log_proba(frame))[:, 1]
    options = {"serialization_format": "cloudpickle", "input_example": frame[:20]}
    mc.save_model(model, calibrator(scores), tmp_path / "m", **options)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(frame, params={"output": "base"}), scores)


def test_columns_in_another_order_than_the_classes(tmp_path: Path) -> None:
    frame, labels = rows()
    model = Swapped().fit(frame, labels)
    options = {"serialization_format": "cloudpickle", "input_example": frame[:20]}
    with pytest.raises(ModelError, match=r"order of its classes \[0, 1\]: rows it predicts as 0 score lower"):
        mc.save_model(model, calibrator(P), tmp_path / "m", **options)


def test_a_tuned_threshold_is_no_other_order(tmp_path: Path) -> None:
    """Labels that do not follow the larger column are no proof: here every row above .2 is a 1."""
    from sklearn.model_selection import FixedThresholdClassifier

    frame, labels = rows()
    model = FixedThresholdClassifier(LogisticRegression(), threshold=0.2).fit(frame, labels)
    scores = model.predict_proba(frame)[:, 1]
    options = {"serialization_format": "cloudpickle", "input_example": frame[:60]}
    mc.save_model(model, calibrator(scores), tmp_path / "m", **options)
    assert (tmp_path / "m/MLmodel").is_file()


def test_classes_that_nobody_says(tmp_path: Path) -> None:
    frame, labels = rows()
    model = Unnamed().fit(frame, labels)
    scores = model.predict_proba(frame)[:, 1]
    with pytest.raises(ModelError, match=r"does not say its classes \(classes_\); give classes="):
        mc.save_model(model, calibrator(scores), tmp_path / "a", serialization_format="cloudpickle")
    options = {"serialization_format": "cloudpickle", "classes": [0, 1]}
    mc.save_model(model, calibrator(scores), tmp_path / "m", **options)
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.predict(frame, params={"output": "base"}), scores)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("auto", r"does not say which of its outputs are probabilities; it has .*output_probability"),
        ("output_label", "no output of numbers named 'output_label'"),
        ("absent", "no output of numbers named 'absent'"),
        (2, "no output of numbers named 2"),
        (0, "no output of numbers named 'output_label'"),
    ],
)
def test_onnx_outputs_are_named(tmp_path: Path, score: Any, message: str) -> None:
    one = base("onnx zipmap")
    signature = infer_signature(rows()[0])
    with pytest.raises(ModelError, match=message):
        mc.save_model(one.model, one.calibrator, tmp_path / "m", score=score, signature=signature)


def test_an_onnx_model_of_several_inputs(tmp_path: Path) -> None:
    """A column an input, made a matrix of one column and cast to the input's precision."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline

    frame, labels = rows()
    model = make_pipeline(make_column_transformer(("passthrough", ["x1", "x2"])), LogisticRegression())
    model.fit(frame, labels)
    for kinds in ([FloatTensorType, FloatTensorType], [DoubleTensorType, DoubleTensorType]):
        types = [(name, kind([None, 1])) for name, kind in zip(["x1", "x2"], kinds, strict=True)]
        onnx = to_onnx(model, initial_types=types, options={"zipmap": False})
        path = tmp_path / kinds[0].__name__
        scores = model.predict_proba(frame)[:, 1]
        options = {"score": "probabilities", "signature": infer_signature(frame), "input_example": frame[:20]}
        mc.save_model(onnx, calibrator(scores), path, **options)
        found = mlflow.pyfunc.load_model(str(path)).predict(frame, params={"output": "base"})
        np.testing.assert_allclose(found, scores, atol=1e-6)


def test_an_example_that_the_base_refuses_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A saved frame with categories fails its own inferred signature; one that was given is an error."""
    frame, labels = rows()
    kinds = frame.assign(x2=pd.Categorical(np.where(frame["x2"] > 0, "a", "b")))
    model = LogisticRegression().fit(frame, labels)
    example, signature = kinds[:20], infer_signature(kinds)
    options = {"signature": signature, "pip_requirements": ["scikit-learn"]}
    mlflow.sklearn.save_model(model, str(tmp_path / "base"), **options)
    scores = model.predict_proba(frame)[:, 1]
    with pytest.raises(ModelError, match="does not take the input example: Failed to enforce schema"):
        mc.save_model(tmp_path / "base", calibrator(scores), tmp_path / "a", input_example=example)
    shutil.rmtree(tmp_path / "base")
    mlflow.sklearn.save_model(model, str(tmp_path / "base"), input_example=example, **options)
    mc.save_model(tmp_path / "base", calibrator(scores), tmp_path / "m")
    assert "does not take its own input example, so its scores are not looked at" in caplog.text


# ----------------------------------------------------------------------------------------------------------- runtime


def test_links() -> None:
    assert runtime.through_link(np.array([0.0, 800.0, -800.0]), "logit").tolist() == [0.5, 1.0, 0.0]
    assert runtime.through_link(np.array([-700.0]), "logit")[0] == np.exp(-700.0)
    assert runtime.through_link(np.array([[800.0, 0.0], [1.0, 1.0]]), "logit").tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert runtime.through_link(np.array([[0.0, 800.0]]), "sigmoid").tolist() == [[0.5, 1.0]]
    assert runtime.through_link(np.array([-np.inf, 0.0]), "log").tolist() == [0.0, 1.0]
    for link in ("logit", "sigmoid"):
        assert np.isnan(runtime.through_link(np.array([[np.inf, 0.0]]), link)[0, 0])
        assert np.isnan(runtime.through_link(np.array([np.inf, -np.inf, np.nan]), link)).all()


@pytest.mark.parametrize("change", [{"call": "predict_logit"}, {"link": "probit"}])
def test_a_source_of_a_later_release_is_refused(change: dict[str, str]) -> None:
    source = {"call": "predict", "classes": [0, 1], **change}
    with pytest.raises(ValueError, match="this release does not know these; install the mlflow-calib release"):
        runtime.BaseScores(None, source)
