"""A real MLflow store with raw and calibrated models, built once; every test evaluates in runs of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.flavor.tracking import MlflowServer, connected

CLASSES = ["ant", "bee", "cat"]
FEATURES = ["x1", "x2"]


@dataclass(frozen=True)
class Store:
    """Models by name: their ``ModelInfo``, registered as version 1; frames with a label column ``y`` and a ``day``."""

    server: MlflowServer
    infos: dict[str, Any]
    binary: pd.DataFrame
    three: pd.DataFrame
    binary_base: LogisticRegression
    three_base: LogisticRegression

    def evaluate(self, model: Any, data: Any, **options: Any) -> Any:
        """One evaluation in a run of its own."""
        config = {"targets": "y", "model_type": "classifier", "evaluators": ["calibration"], **options}
        if isinstance(config.get("evaluator_config"), dict) and isinstance(config["evaluators"], list):
            config["evaluator_config"] = {"calibration": config["evaluator_config"]}
        with mlflow.start_run():
            return mlflow.models.evaluate(model, data, **config)

    def values_on_run(self, run_id: str, name: str) -> list[float]:
        return [metric.value for metric in mlflow.MlflowClient().get_metric_history(run_id, name)]

    def values_on_model(self, model_id: str, run_id: str, name: str) -> list[float]:
        metrics = mlflow.MlflowClient().get_logged_model(model_id).metrics or []
        return [metric.value for metric in metrics if metric.run_id == run_id and metric.key == name]


def rows(seed: int, n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x1": rng.normal(size=n), "x2": rng.normal(size=n), "day": np.arange(n) % 50})


def two_classes(frame: pd.DataFrame, seed: int) -> pd.Series:
    noise = np.random.default_rng(seed).normal(size=len(frame))
    return (frame["x1"] + noise > 0).astype(int)


def three_classes(frame: pd.DataFrame, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=len(frame))
    return np.array(CLASSES)[np.clip(np.round(frame["x1"] + noise + 1), 0, 2).astype(int)]


def log_base(model: LogisticRegression, name: str) -> Any:
    signature = ModelSignature(Schema([ColSpec("double", one) for one in FEATURES]), Schema([ColSpec("string")]))
    return mlflow.sklearn.log_model(
        model, name=name, signature=signature, pip_requirements=["scikit-learn"], registered_model_name=name
    )


@pytest.fixture(scope="session")
def session_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("evaluator")
    (folder / "mlflow.db").touch()
    server = MlflowServer(f"sqlite:///{folder}/mlflow.db")
    fitted, held_out = rows(1), rows(2)
    two, three = LogisticRegression(), LogisticRegression()
    two.fit(fitted[FEATURES], two_classes(fitted, 3))
    three.fit(fitted[FEATURES], three_classes(fitted, 4))
    again = rows(5)
    scores = three.predict_proba(again[FEATURES])
    words = {"classes": CLASSES, "n_bins": 4}
    labels = three_classes(again, 7)
    calibrators = {
        "binary": mc.fit_calibrator(two.predict_proba(again[FEATURES])[:, 1], two_classes(again, 6), n_bins=5),
        "marginal": mc.fit_calibrator(scores, labels, reduction="marginal", **words),
        "top": mc.fit_calibrator(scores, labels, reduction="top-label", scaling="platt", **words),
        "per-class": mc.fit_calibrator(
            scores, labels, reduction="top-label-per-class", method="histogram-binning", **words
        ),
    }
    infos = {}
    with pytest.MonkeyPatch.context() as patch, connected(server) as client:
        patch.chdir(folder)
        experiment = client.create_experiment("evaluations", artifact_location=(folder / "artifacts").as_uri())
        with mlflow.start_run(experiment_id=experiment):
            infos = {"two": log_base(two, "two"), "three": log_base(three, "three")}
            for name, calibrator in calibrators.items():
                base = infos["two" if name == "binary" else "three"].model_uri
                infos[name] = mc.log_model(base, calibrator, name=name, registered_model_name=name)
        for name in ("two", "binary"):
            client.set_registered_model_alias(name, "champion", "1")
    binary = held_out.assign(y=two_classes(held_out, 8))
    return Store(server, infos, binary, held_out.assign(y=three_classes(held_out, 9)), two, three)


@pytest.fixture
def store(session_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The store, connected; nothing may be written into the working folder."""
    monkeypatch.chdir(tmp_path)
    with connected(session_store.server) as client:
        # set_experiment would outlive this store
        monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", client.get_experiment_by_name("evaluations").experiment_id)
        yield session_store
        assert mlflow.active_run() is None
    assert list(tmp_path.iterdir()) == []
