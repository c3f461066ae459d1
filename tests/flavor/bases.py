"""Base models of every flavor that installs on Linux, fitted once on the same rows, with the scores they must give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator

N, N_TREES = 600, 20


@dataclass(frozen=True)
class Base:
    """A fitted model, how MLflow saves it, how its scores are declared, and what these are."""

    name: str
    flavor: str
    model: Any
    scores: Any
    source: dict[str, Any]
    score: Any = "auto"
    options: dict[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ()

    @property
    def calibrator(self) -> Calibrator:
        """Fitted on the scores, of two classes or three."""
        return calibrator_of(self.name)


@cache
def rows(n_classes: int = 2) -> tuple[pd.DataFrame, np.ndarray]:
    """Two features and labels 0, 1 (and 2)."""
    rng = np.random.default_rng(n_classes)
    frame = pd.DataFrame({"x1": rng.normal(size=N), "x2": rng.normal(size=N)})
    noisy = frame["x1"] + 0.7 * rng.normal(size=N)
    return frame, np.digitize(noisy, [0.0] if n_classes == 2 else [-0.5, 0.5])


@cache
def calibrator_of(name: str) -> Calibrator:
    """The calibrator of a base model's scores."""
    scores = base(name).scores
    n_classes = 2 if scores.ndim == 1 else scores.shape[1]
    options: dict[str, Any] = (
        {} if n_classes == 2 else {"reduction": "marginal", "classes": base(name).source["classes"]}
    )
    labels = np.asarray(base(name).source["classes"], dtype=object)[rows(n_classes)[1]].tolist()
    return fit_calibrator(scores, labels, n_bins=3, **options)


def sigmoid(values: Any) -> Any:
    """As the textbook has it; values here are moderate."""
    return 1 / (1 + np.exp(-np.asarray(values, dtype=float)))


def softmax(values: Any) -> Any:
    """Rows of probabilities."""
    powers = np.exp(np.asarray(values, dtype=float))
    return powers / powers.sum(axis=1, keepdims=True)


@cache
def base(name: str) -> Base:
    """The base model of this name."""
    return MAKERS[name](name)


def _pipeline(name: str) -> Base:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame, labels = rows()
    model = make_pipeline(make_column_transformer((StandardScaler(), ["x1", "x2"])), LogisticRegression())
    model.fit(frame, labels)
    source = {"call": "predict_proba", "classes": [0, 1]}
    return Base(name, "mlflow.sklearn", model, model.predict_proba(frame)[:, 1], source, packages=("scikit-learn",))


def _decision(name: str) -> Base:
    from sklearn.svm import LinearSVC

    frame, labels = rows()
    model = LinearSVC().fit(frame, labels)
    source = {"call": "decision_function", "classes": [0, 1], "column_class": 1, "link": "logit"}
    scores = sigmoid(model.decision_function(frame))
    return Base(name, "mlflow.sklearn", model, scores, source, "logit", packages=("scikit-learn",))


def _decision_of_three(name: str) -> Base:
    from sklearn.svm import LinearSVC

    frame, labels = rows(3)
    model = LinearSVC().fit(frame, np.array(["ant", "bee", "cat"])[labels])
    source = {"call": "decision_function", "classes": ["ant", "bee", "cat"], "link": "logit"}
    return Base(name, "mlflow.sklearn", model, softmax(model.decision_function(frame)), source, "logit")


def _xgb_classifier(name: str) -> Base:
    import xgboost

    frame, labels = rows()
    model = xgboost.XGBClassifier(n_estimators=N_TREES, max_depth=2).fit(frame, labels)
    source = {"call": "predict_proba", "classes": [0, 1]}
    scores = model.predict_proba(frame)[:, 1]
    return Base(name, "mlflow.xgboost", model, scores, source, packages=("xgboost", "scikit-learn"))


def _xgb_booster(objective: str, n_classes: int = 2) -> Callable[[str], Base]:
    def make(name: str) -> Base:
        import xgboost

        frame, labels = rows(n_classes)
        matrix = xgboost.DMatrix(frame, labels)
        parameters = {"objective": objective, "max_depth": 2} | ({"num_class": 3} if n_classes == 3 else {})
        model = xgboost.train(parameters, matrix, N_TREES)
        source: dict[str, Any] = {"call": "predict", "classes": [*range(n_classes)], "objective": objective}
        source |= {"column_class": 1} if n_classes == 2 else {}
        scores = model.predict(matrix)
        if objective == "binary:logitraw":
            scores, source = sigmoid(scores), {**source, "link": "logit"}
        return Base(name, "mlflow.xgboost", model, scores, source, packages=("xgboost",))

    return make


def _lgb_classifier(name: str) -> Base:
    import lightgbm

    frame, labels = rows()
    model = lightgbm.LGBMClassifier(n_estimators=N_TREES, verbose=-1).fit(frame, labels)
    source = {"call": "predict_proba", "classes": [0, 1]}
    options = {"serialization_format": "cloudpickle"}
    scores = model.predict_proba(frame)[:, 1]
    packages = ("lightgbm", "scikit-learn", "cloudpickle")
    return Base(name, "mlflow.lightgbm", model, scores, source, options=options, packages=packages)


def _lgb_booster(objective: str, n_classes: int = 2) -> Callable[[str], Base]:
    def make(name: str) -> Base:
        import lightgbm

        frame, labels = rows(n_classes)
        parameters = {"objective": objective, "verbose": -1} | ({"num_class": 3} if n_classes == 3 else {})
        model = lightgbm.train(parameters, lightgbm.Dataset(frame, labels), N_TREES)
        source: dict[str, Any] = {"call": "predict", "classes": [*range(n_classes)], "objective": objective}
        source |= {"column_class": 1} if n_classes == 2 else {}
        return Base(name, "mlflow.lightgbm", model, model.predict(frame), source, packages=("lightgbm",))

    return make


def _lgb_own_objective(name: str) -> Base:
    import lightgbm

    def log_loss(margins: Any, data: Any) -> tuple[Any, Any]:
        p = sigmoid(margins)
        return p - data.get_label(), p * (1 - p)

    frame, labels = rows()
    model = lightgbm.train({"objective": log_loss, "verbose": -1}, lightgbm.Dataset(frame, labels), N_TREES)
    source = {"call": "predict", "classes": [0, 1], "link": "logit"}
    return Base(name, "mlflow.lightgbm", model, sigmoid(model.predict(frame)), source, "logit")


def _catboost_classifier(name: str) -> Base:
    import catboost

    frame, labels = rows()
    model = catboost.CatBoostClassifier(iterations=N_TREES, verbose=0, allow_writing_files=False).fit(frame, labels)
    source = {"call": "predict_proba", "classes": [0, 1]}
    return Base(name, "mlflow.catboost", model, model.predict_proba(frame)[:, 1], source, packages=("catboost",))


def _catboost_raw(loss: str, n_classes: int = 2) -> Callable[[str], Base]:
    def make(name: str) -> Base:
        import catboost

        frame, labels = rows(n_classes)
        named = labels if n_classes == 2 else np.array(["ant", "bee", "cat"])[labels]
        parameters = {"loss_function": loss, "iterations": N_TREES, "verbose": 0, "allow_writing_files": False}
        model = catboost.CatBoost(parameters).fit(frame, named)
        scores = model.predict(frame, prediction_type="Probability")
        source = {"call": "predict_probability", "classes": [0, 1] if n_classes == 2 else ["ant", "bee", "cat"]}
        source |= {"objective": loss} | ({"column_class": 1} if n_classes == 2 else {})
        scores = scores[:, 1] if n_classes == 2 else scores
        return Base(name, "mlflow.catboost", model, scores, source, packages=("catboost",))

    return make


def _onnx(zipmap: bool, score: Any, n_classes: int = 2) -> Callable[[str], Base]:
    def make(name: str) -> Base:
        import onnxruntime
        from skl2onnx import to_onnx
        from sklearn.linear_model import LogisticRegression

        frame, labels = rows(n_classes)
        classes: list[Any] = [0, 1] if n_classes == 2 else ["ant", "bee", "cat"]
        fitted = LogisticRegression().fit(frame.to_numpy(), np.array(classes)[labels])
        inputs = frame.to_numpy().astype("float32")
        model = to_onnx(fitted, inputs[:1], options={id(fitted): {"zipmap": zipmap}})
        column = [output.name for output in model.graph.output][1]
        outputs = onnxruntime.InferenceSession(model.SerializeToString()).run([column], {"X": inputs})[0]
        scores = np.array([[row[one] for one in classes] for row in outputs] if zipmap else outputs)
        source = {"call": "run", "classes": classes, "column": column}
        scores = scores[:, 1] if n_classes == 2 else scores
        return Base(name, "mlflow.onnx", model, scores, source, score, packages=("onnx", "onnxruntime"))

    return make


def _statsmodels(name: str) -> Base:
    import statsmodels.api

    frame, labels = rows()
    model = statsmodels.api.Logit(labels, frame).fit(disp=0)
    source = {"call": "predict", "classes": [0, 1]}
    scores = np.asarray(model.predict(frame))
    return Base(name, "mlflow.statsmodels", model, scores, source, "probability", packages=("statsmodels",))


MAKERS: dict[str, Callable[[str], Base]] = {
    "sklearn pipeline": _pipeline,
    "sklearn decision_function": _decision,
    "sklearn decision_function of three": _decision_of_three,
    "xgboost classifier": _xgb_classifier,
    "xgboost binary:logistic": _xgb_booster("binary:logistic"),
    "xgboost binary:logitraw": _xgb_booster("binary:logitraw"),
    "xgboost multi:softprob": _xgb_booster("multi:softprob", 3),
    "lightgbm classifier": _lgb_classifier,
    "lightgbm binary": _lgb_booster("binary"),
    "lightgbm cross_entropy": _lgb_booster("cross_entropy"),
    "lightgbm multiclass": _lgb_booster("multiclass", 3),
    "lightgbm own objective": _lgb_own_objective,
    "catboost classifier": _catboost_classifier,
    "catboost Logloss": _catboost_raw("Logloss"),
    "catboost MultiClass": _catboost_raw("MultiClass", 3),
    "onnx zipmap": _onnx(True, "output_probability"),
    "onnx tensor": _onnx(False, "probability"),
    "onnx zipmap of three": _onnx(True, 1, 3),
    "statsmodels Logit": _statsmodels,
}
#: One of each flavor, for what does not depend on the objective.
ONE_OF_EACH = (
    "sklearn pipeline", "xgboost classifier", "xgboost binary:logistic", "lightgbm classifier", "lightgbm binary",
    "catboost classifier", "catboost Logloss", "onnx zipmap", "onnx tensor", "statsmodels Logit",
)  # fmt: skip
