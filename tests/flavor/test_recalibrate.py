"""A new calibrator for the same base model, which is never trained again."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import resolve_model
from mlflow_calib.flavor.tracking import MlflowServer, connected

Rows = tuple[pd.DataFrame, np.ndarray]


def new_rows(seed: int = 11, n: int = 900) -> Rows:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x1": rng.normal(size=n), "x2": rng.normal(size=n)})
    return frame, (frame["x1"] + 1 + rng.normal(size=n) > 0).to_numpy().astype(int)


def scores_of(rows: Rows, frame: pd.DataFrame) -> np.ndarray:
    found: np.ndarray = LogisticRegression().fit(*rows).predict_proba(frame)[:, 1]
    return found


def test_a_new_version_of_the_same_base(mlflow_server: MlflowServer, binary_rows: Rows, binary_model: Path) -> None:
    old = mc.fit_calibrator(
        scores_of(binary_rows, binary_rows[0]), binary_rows[1], n_bins=6, scaling="beta", parts="shared", seed=3
    )
    frame, labels = new_rows()
    with connected(mlflow_server) as client, mlflow.start_run():
        mlflow.register_model(str(binary_model), "base")
        first = mc.log_model(
            "models:/base/1", old, registered_model_name="m", metadata={"a": 1}, extra_pip_requirements=["tqdm"]
        )
        client.set_registered_model_alias("m", "champion", "1")
        info = mc.recalibrate(
            "models:/m@champion", frame.assign(y=labels), "y", registered_model_name="m", tags={"month": "11"}
        )
        assert info.registered_model_version == 2
        assert str(client.get_model_version_by_alias("m", "champion").version) == "1"
        assert client.get_logged_model(info.model_id).tags["month"] == "11"
        expected = mc.fit_calibrator(
            scores_of(binary_rows, frame), labels, n_bins=6, scaling="beta", parts="shared", seed=3, positive_class=1
        )
        served = mlflow.pyfunc.load_model("models:/m/2")
        np.testing.assert_array_equal(served.predict(frame), expected.predict(scores_of(binary_rows, frame)))
        np.testing.assert_array_equal(
            mlflow.pyfunc.load_model("models:/m/1").predict(frame), old.predict(scores_of(binary_rows, frame))
        )
    one, two = (resolve_model(mlflow_server, f"models:/m/{version}") for version in (1, 2))
    assert one.calibrator is not None
    assert two.calibrator is not None
    assert two.calibrator["base_model"] == one.calibrator["base_model"]
    facts = two.calibrator["facts"]
    assert facts["recalibrated_from"] == {"uri": "models:/m/1", "model_id": first.model_id, "digest": one.digest}
    assert facts["data_sha256"].startswith("sha256:")
    assert "tqdm" in (Path(two.local_path) / "requirements.txt").read_text().splitlines()


def test_scores_in_place_of_inputs_and_other_arguments(
    mlflow_server: MlflowServer, binary_rows: Rows, binary_model: Path, binary_calibrator: Calibrator, tmp_path: Path
) -> None:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m", bundle_runtime=False)
    frame, labels = new_rows()
    scores = scores_of(binary_rows, frame)
    with connected(mlflow_server):
        by_rows = mc.recalibrate(tmp_path / "m", frame, labels, n_bins=12, method="histogram-binning")
        by_scores = mc.recalibrate(tmp_path / "m", scores=scores, labels=labels, n_bins=12, method="histogram-binning")
        one, two = (mc.load_model(info.model_uri).calibrator for info in (by_rows, by_scores))
        assert mlflow.models.Model.load(by_rows.model_uri).flavors["mlflow_calib"]["bundled_runtime"] is False
    assert one == two
    assert (one.method, one.n_bins_requested, one.classes) == ("histogram-binning", 12, (0, 1))
    assert one.facts["data_sha256"] != mc.fit_calibrator(scores, labels).facts.get("data_sha256")


def test_classes_that_the_new_rows_lack_stay(
    mlflow_server: MlflowServer, three_class_rows: Rows, three_class_model: Path, three_class_calibrator: Calibrator,
    tmp_path: Path,
) -> None:  # fmt: skip
    mc.save_model(three_class_model, three_class_calibrator, tmp_path / "m")
    frame, labels = three_class_rows
    kept = labels != "cat"
    with connected(mlflow_server), pytest.warns(UserWarning, match="class"):
        info = mc.recalibrate(tmp_path / "m", frame[kept], labels[kept])
    with connected(mlflow_server):
        loaded = mc.load_model(info.model_uri)
    assert loaded.calibrator.classes == ("ant", "bee", "cat")
    assert loaded.calibrator.maps[2].flags == ("class-absent",)


def test_a_base_that_is_calibrated_by_scikit_learn(
    mlflow_server: MlflowServer, binary_rows: Rows, tmp_path: Path
) -> None:
    """It works as any other base model: its own calibration is part of it."""
    frame, labels = binary_rows
    base = CalibratedClassifierCV(LogisticRegression(), cv=3).fit(frame, labels)
    calibrator = mc.fit_calibrator(base.predict_proba(frame)[:, 1], labels, n_bins=5)
    mc.save_model(base, calibrator, tmp_path / "m", serialization_format="cloudpickle")
    other, outcomes = new_rows()
    with connected(mlflow_server):
        info = mc.recalibrate(tmp_path / "m", other, outcomes)
        served = mlflow.pyfunc.load_model(info.model_uri)
    expected = mc.fit_calibrator(base.predict_proba(other)[:, 1], outcomes, n_bins=5)
    np.testing.assert_array_equal(served.predict(other), expected.predict(base.predict_proba(other)[:, 1]))


def test_what_is_wrong_is_said_at_once(
    mlflow_server: MlflowServer, binary_model: Path, binary_calibrator: Calibrator, tmp_path: Path
) -> None:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m")
    frame, labels = new_rows()
    with connected(mlflow_server) as client:
        with pytest.raises(InvalidInputError, match=r"3 problems:\n- give the rows once.*\n- labels must.*\n.*'bins'"):
            mc.recalibrate(tmp_path / "m", bins=3)
        with pytest.raises(InvalidInputError, match="give the rows once"):
            mc.recalibrate(tmp_path / "m", frame, labels, scores=labels)
        with pytest.raises(InvalidInputError, match="labels must be an outcome a row where scores are given"):
            mc.recalibrate(tmp_path / "m", scores=labels, labels="y")
        with pytest.raises(InvalidInputError, match="it has no column 'y'"):
            mc.recalibrate(tmp_path / "m", frame, "y")
        with pytest.raises(InvalidInputError, match=r"missing: \['x2'\]"):
            mc.recalibrate(tmp_path / "m", frame[["x1"]], labels)
        with pytest.raises(ModelError, match="calibrate it with fit_calibrator and log_model"):
            mc.recalibrate(binary_model, frame, labels)
        assert client.search_logged_models(["0"]) == []


def test_the_old_calibrators_arguments() -> None:
    from mlflow_calib.flavor.recalibrate import arguments_of

    rng = np.random.default_rng(0)
    scores = rng.uniform(size=300)
    given = {
        "n_bins": "auto",
        "scaling": "temperature",
        "loss": "squared",
        "targets": "platt",
        "binning": "equal-width",
    }
    fitted = mc.fit_calibrator(scores, rng.uniform(size=300) < scores, **given)
    kept = arguments_of(Calibrator.from_json(fitted.to_json()))
    assert {name: kept[name] for name in given} == given
    array = mc.fit_calibrator(scores, rng.uniform(size=300) < scores, parts=np.arange(300) % 3 + 1)
    assert arguments_of(array)["parts"] == "auto"
    assert json.dumps(kept)
