"""Every reduction served by MLflow: the packaged model says what the calibrator says."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import mlflow_calib as mc
from mlflow_calib.errors import CalibrationWarning, ModelError

NAMES = ["x0", "x1", "x2"]


def rows(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return pd.DataFrame(x, columns=NAMES), np.array(["a", "b", "c"])[(x + rng.gumbel(size=(n, 3))).argmax(axis=1)]


def fitted(scores: Any, labels: Any, **options: Any) -> mc.Calibrator:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return mc.fit_calibrator(scores, labels, n_bins=5, **options)


@pytest.mark.parametrize("reduction", ["marginal", "top-label", "top-label-per-class"])
def test_served_as_fitted(reduction: str, tmp_path: Path) -> None:
    """Bundled runtime; the label stays the base model's."""
    frame, labels = rows()
    base = LogisticRegression(C=0.1).fit(frame, labels)
    scores = base.predict_proba(frame)
    calibrator = fitted(scores, labels, reduction=reduction, classes=base.classes_)
    mc.save_model(base, calibrator, tmp_path / "model")
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    outputs = served.predict(frame)
    assert list(outputs.columns) == ["a", "b", "c"]
    assert outputs.to_numpy().tolist() == calibrator.predict(scores).tolist()
    assert served.predict(frame.head(1)).to_numpy().tolist() == calibrator.predict(scores[:1]).tolist()
    assert served.predict(frame, params={"output": "label"}).tolist() == base.predict(frame).tolist()
    both = served.predict(frame, params={"output": "both"})
    assert both["calibrated_b"].tolist() == outputs["b"].tolist()
    assert mc.load_model(str(tmp_path / "model")).calibrator.maps[0].to_dict() == calibrator.maps[0].to_dict()


def test_multi_label_model(tmp_path: Path) -> None:
    """Rows of scores do not sum to one, and there is no one label."""
    frame, labels = rows()
    marked = (labels[:, None] == np.array(["a", "b", "c"])) | (frame.to_numpy() > 1)
    base = OneVsRestClassifier(LogisticRegression()).fit(frame, marked.astype(int))
    scores = base.predict_proba(frame)
    calibrator = fitted(scores, marked, reduction="multi-label", classes=base.classes_)
    mc.save_model(base, calibrator, tmp_path / "model")
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert served.predict(frame).to_numpy().tolist() == calibrator.predict(scores).tolist()
    with pytest.raises(ValueError, match="no one label a row"):
        served.predict(frame, params={"output": "label"})


@pytest.mark.parametrize("method", ["scaling", "identity"])
def test_continuous_outputs_are_not_packaged(method: str, tmp_path: Path) -> None:
    frame, labels = rows()
    base = LogisticRegression().fit(frame, labels)
    calibrator = fitted(base.predict_proba(frame), labels, method=method, reduction="marginal", classes=base.classes_)
    with pytest.raises(ModelError, match="continuous outputs, whose calibration error cannot be verified"):
        mc.save_model(base, calibrator, tmp_path / "model")
    assert not (tmp_path / "model").exists()
