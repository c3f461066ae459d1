"""PyTorch, Keras and Spark ML: large packages, so these run in an environment of their own, by ``make flavors``."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow.models import infer_signature

import mlflow_calib as mc
from mlflow_calib.errors import ModelError
from tests.flavor.bases import rows, sigmoid, softmax

pytestmark = pytest.mark.filterwarnings("default")  # of these packages, none of ours


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip, with the reason, where one of these is missing; ``make flavors`` has them all."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed; run `make flavors`")


def arrays() -> np.ndarray:
    return rows()[0].to_numpy(dtype="float32").copy()


def drawn(scores: Any) -> np.ndarray:
    """Labels that the scores tell something of: nothing here is trained for long."""
    ranks = np.argsort(np.argsort(scores)) / len(scores)
    return (np.random.default_rng(0).uniform(size=len(scores)) < ranks).astype(int)


def check(model: Any, path: Path, scores: Any, data: Any, source: dict[str, Any], **options: Any) -> None:
    """Saved with the calibrator of its scores, the model gives them back, and the calibrated ones to the bit."""
    scores = np.asarray(scores, dtype=float)
    calibrator = mc.fit_calibrator(scores, drawn(scores), n_bins=3)
    mc.save_model(model, calibrator, path, **options)
    record = json.loads((path / "data/bundle/calibrator.json").read_text())["base_model"]
    assert record["score_source"] == {"call": "predict", "classes": [0, 1], **source}
    loaded = mlflow.pyfunc.load_model(str(path))
    base = loaded.predict(data, params={"output": "base"})
    np.testing.assert_allclose(base, scores, rtol=1e-5)
    np.testing.assert_array_equal(loaded.predict(data), calibrator.predict(base))
    assert len(np.unique(calibrator.predict(base))) == 3
    np.testing.assert_array_equal(mc.load_model(str(path)).predict(data), calibrator.predict(base))
    assert loaded.predict(data[:0]).shape == (0,)


# ---------------------------------------------------------------------------------------------------------- PyTorch


def network(n_outputs: int, *last: Any) -> Any:
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, n_outputs), *last).eval()


def outputs_of(net: Any) -> Any:
    import torch

    with torch.no_grad():
        return net(torch.from_numpy(arrays())).numpy().astype(float)


@needs("torch")
@pytest.mark.parametrize("serialization_format", ["pt2", "pickle"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_pytorch_logits(tmp_path: Path, n_outputs: int, serialization_format: str) -> None:
    """One logit goes through the sigmoid, one a class through the softmax."""
    net = network(n_outputs)
    logits = outputs_of(net)
    scores = sigmoid(logits[:, 0]) if n_outputs == 1 else softmax(logits)[:, 1]
    check(
        net,
        tmp_path / "m",
        scores,
        arrays(),
        {"score": "logit", "link": "logit"},
        score="logit",
        signature=infer_signature(arrays()),
        input_example=arrays()[:20],
        serialization_format=serialization_format,
    )


@needs("torch")
def test_pytorch_probabilities_of_a_frame(tmp_path: Path) -> None:
    import torch

    net, frame = network(1, torch.nn.Sigmoid()), rows()[0]
    options = {"score": "probability", "signature": infer_signature(frame), "serialization_format": "pickle"}
    check(net, tmp_path / "m", outputs_of(net)[:, 0], frame, {"score": "probability"}, **options)


@needs("torch")
def test_pytorch_by_the_uri_of_its_own_log(tmp_path: Path) -> None:
    import mlflow.pytorch

    net = network(2)
    options = {"signature": infer_signature(arrays()), "input_example": arrays()[:20]}
    mlflow.pytorch.save_model(net, str(tmp_path / "base"), pip_requirements=["torch"], **options)
    scores = softmax(outputs_of(net))[:, 1]
    check(tmp_path / "base", tmp_path / "m", scores, arrays(), {"score": "logit", "link": "logit"}, score="logit")


@needs("torch")
def test_pytorch_says_nothing_of_itself(tmp_path: Path) -> None:
    scores = sigmoid(outputs_of(network(1))[:, 0])
    calibrator = mc.fit_calibrator(scores, drawn(scores), n_bins=3)
    options = {"signature": infer_signature(arrays()), "input_example": arrays()[:20]}
    with pytest.raises(ModelError, match=r'has no predict_proba.*as networks do, score="logit"'):
        mc.save_model(network(1), calibrator, tmp_path / "a", **options)
    with pytest.raises(ModelError, match=r"must lie in \[0, 1\]"):
        mc.save_model(network(1), calibrator, tmp_path / "b", score="probability", **options)
    with pytest.raises(ModelError, match="pass input_example, an array"):
        mc.save_model(network(1), calibrator, tmp_path / "c", score="logit")


# ------------------------------------------------------------------------------------------------------------ Keras


@needs("keras", "torch")
@pytest.mark.parametrize(("activation", "score"), [("sigmoid", "probability"), (None, "logit")])
@pytest.mark.parametrize("as_object", [True, False])
def test_keras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, activation: str | None, score: str, as_object: bool
) -> None:
    """Keras 3 on PyTorch, saved by ``mlflow.keras``; the last layer decides what it returns, and the caller says it."""
    monkeypatch.setenv("KERAS_BACKEND", os.environ.get("KERAS_BACKEND", "torch"))
    import keras
    import mlflow.keras

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Input((2,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1, activation)]
    model = keras.Sequential(layers)
    outputs = model.predict(arrays(), verbose=0)[:, 0]
    options: dict[str, Any] = {"signature": infer_signature(arrays())}
    base: Any = model
    if not as_object:
        base = tmp_path / "base"
        mlflow.keras.save_model(model, str(base), pip_requirements=["keras"], **options)
        options = {}
    source = {"score": score} | ({"link": "logit"} if score == "logit" else {})
    scores = outputs if score == "probability" else sigmoid(outputs)
    check(base, tmp_path / "m", scores, arrays(), source, score=score, input_example=arrays()[:20], **options)


# ------------------------------------------------------------------------------------------------------------ Spark


@needs("pyspark")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_ml(tmp_path: Path) -> None:
    """Logged with ``probabilityCol="prediction"``, so that MLflow's pyfunc returns the probabilities."""
    import mlflow.spark
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession

    frame, labels = rows()
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        stages = [
            VectorAssembler(inputCols=["x1", "x2"], outputCol="features"),
            LogisticRegression(probabilityCol="prediction", predictionCol="label_predicted"),
        ]
        model = Pipeline(stages=stages).fit(spark.createDataFrame(frame.assign(label=labels.astype(float))))
        found = model.transform(spark.createDataFrame(frame)).select("prediction").toPandas()["prediction"]
        scores = np.array([row[1] for row in found])
        mlflow.spark.save_model(model, str(tmp_path / "base"), pip_requirements=["pyspark"])
        example = {"score": "probability", "input_example": frame[:20]}
        check(tmp_path / "base", tmp_path / "m", scores, frame, {"score": "probability"}, **example)
    finally:
        spark.stop()
