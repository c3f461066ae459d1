"""What cannot be judged is refused with what to do, and an evaluator that nobody named breaks nothing."""

from __future__ import annotations

import logging
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.evaluator.settings import Settings

FEATURES = ["x1", "x2"]


class Labels:
    """What a flavor loads: it returns labels, and has no probabilities."""

    def predict(self, frame: Any) -> Any:
        return np.zeros(len(frame), dtype=int)


@pytest.fixture
def labels_model() -> Any:
    from mlflow.pyfunc import PyFuncModel

    meta = mlflow.models.Model()
    meta.add_flavor("python_function", loader_module="none")
    return PyFuncModel(meta, Labels())


def static(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"p": [0.2, 0.7] * 200, "y": [0, 1] * 200, **columns})


def test_a_regressor_is_no_classifier(store: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"model_type must be 'classifier', got 'regressor'"):
        store.evaluate(store.infos["binary"].model_uri, store.binary, model_type="regressor")


def test_targets_are_needed(store: Any) -> None:
    mean = mlflow.models.make_metric(eval_fn=lambda *_: 0.0, greater_is_better=True, name="mean")
    with pytest.raises(DataError, match="targets must name the labels"):
        store.evaluate(None, static(), targets=None, predictions="p", model_type=None, extra_metrics=[mean])


def test_without_model_and_predictions(store: Any) -> None:
    with pytest.raises(DataError, match="probability_columns"):
        store.evaluate(None, static())


def test_a_missing_probability_column(store: Any) -> None:
    with pytest.raises(DataError, match=r"missing: \['q'\]; there are \['p'\]"):
        store.evaluate(None, static(), evaluator_config={"probability_columns": ["q"]})
    with pytest.raises(DataError, match=r"missing: \['q'\]"):
        store.evaluate(lambda frame: pd.DataFrame({"p": frame["p"]}), static(), predictions="q")


def test_labels_unknown_to_the_model(store: Any) -> None:
    odd = store.three.assign(y=store.three["y"].replace("cat", "dog"))
    with pytest.raises(InvalidInputError, match="'dog'"):
        store.evaluate(store.infos["marginal"].model_uri, odd)
    with pytest.raises(InvalidInputError, match="'dog'"):
        store.evaluate(store.infos["three"].model_uri, odd)


def test_a_positive_class_must_be_stated(store: Any) -> None:
    data = static(y=["no", "yes"] * 200)
    with pytest.raises(InvalidInputError, match="positive_class must be stated"):
        store.evaluate(None, data, predictions="p")
    named = store.evaluate(None, data, predictions="p", evaluator_config={"positive_class": "yes"})
    assert named.metrics["calibration_error_squared_plugin"] == pytest.approx((0.2**2 + 0.3**2) / 2)


def test_nan_predictions(store: Any) -> None:
    data = static()
    data.loc[[3, 7], "p"] = np.nan
    with pytest.raises(InvalidInputError, match=r"2 of 400 rows do not hold it: row 3"):
        store.evaluate(None, data, predictions="p")


def test_predictions_outside_0_and_1(store: Any) -> None:
    with pytest.raises(InvalidInputError, match="must lie in"):
        store.evaluate(None, static(p=[-2.0, 3.0] * 200), predictions="p")


def test_several_columns_without_classes(store: Any) -> None:
    with pytest.raises(InvalidInputError, match=r'3 columns, and nobody says of which classes; give.*"classes"'):
        store.evaluate(lambda frame: store.three_base.predict_proba(frame[FEATURES]), store.three)


def test_a_model_that_returns_labels(store: Any, labels_model: Any) -> None:
    with pytest.raises(ModelError, match=r"has no predict_proba.*evaluator_config"):
        store.evaluate(labels_model, store.binary)
    config = {"score": "probability", "classes": [0, 1]}
    with pytest.raises(ModelError, match="returned labels or counts"):
        store.evaluate(labels_model, store.binary, evaluator_config=config)
    with pytest.raises(ModelError, match="returned labels or counts"):
        store.evaluate(lambda frame: np.zeros(len(frame), dtype=int), store.binary)


def test_a_calibrated_model_keeps_its_reduction_and_bins(store: Any) -> None:
    config = {"reduction": "top-label", "n_bins": 20}
    with pytest.raises(
        InvalidInputError, match=r"reduction must be the model's own, 'binary'.*bins are the model's own"
    ):
        store.evaluate(store.infos["binary"].model_uri, store.binary, evaluator_config=config)


def test_settings_name_every_mistake(store: Any) -> None:
    config = {"n_bin": 3, "bins": "many", "confidence_level": 95, "reduction": "multi-label", "figure": "no"}
    with pytest.raises(InvalidInputError) as caught:
        store.evaluate(store.infos["two"].model_uri, store.binary, evaluator_config=config)
    for words in ("did you mean 'n_bins'", "'bins'", "'confidence_level'", "'reduction'", "'figure'"):
        assert words in str(caught.value)
    with pytest.raises(InvalidInputError, match="n_bins or bins, not both"):
        Settings.read({"n_bins": 3, "bins": 4})
    with pytest.raises(InvalidInputError, match="group_column or groups, not both"):
        Settings.read({"group_column": "day", "groups": [1, 2]})


def test_groups_that_are_not_there(store: Any) -> None:
    uri = store.infos["two"].model_uri
    with pytest.raises(DataError, match=r"group_column 'dya' must be a column of the data, and these are \['x1'"):
        store.evaluate(uri, store.binary, evaluator_config={"group_column": "dya"})
    with pytest.raises(InvalidInputError, match=r"groups must have shape \(3000,\)"):
        store.evaluate(uri, store.binary, evaluator_config={"groups": [1, 2, 3]})


def test_too_many_distinct_values(store: Any) -> None:
    with pytest.raises(InvalidInputError, match="at most 1000 values, and these have 3000"):
        store.evaluate(store.infos["two"].model_uri, store.binary, evaluator_config={"bins": "distinct"})


def test_a_failed_evaluation_logs_no_metric(store: Any) -> None:
    with pytest.raises(DataError), mlflow.start_run() as run:
        mlflow.models.evaluate(data=static(), targets="y", model_type="classifier", evaluators="calibration")
    found = mlflow.MlflowClient().get_run(run.info.run_id)
    assert found.info.status == "FAILED"
    assert found.data.metrics == {}


@pytest.mark.filterwarnings("ignore")  # MLflow's own evaluators
def test_unnamed_it_joins_where_it_can_and_warns_where_not(
    store: Any, labels_model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Other evaluators' settings are not ours to refuse, and a model without probabilities is theirs to judge."""
    options = {"evaluators": None, "evaluator_config": {"log_model_explainability": False, "pos_label": 1}}
    able = store.evaluate(store.infos["two"].model_uri, store.binary.drop(columns="day"), **options)
    assert {"accuracy_score", "calibration_error_upper_bound"} <= set(able.metrics)
    bound = able.metrics["calibration_error_upper_bound"]
    assert store.values_on_run(able.run_id, "calibration_error_upper_bound") == [bound]
    with caplog.at_level(logging.WARNING, logger="mlflow_calib.evaluator.plugin"):
        unable = store.evaluate(labels_model, store.binary, **options)
    assert "accuracy_score" in unable.metrics
    assert not any(name.startswith("calibration") for name in unable.metrics)
    assert "nobody named" in caplog.text
    regression = store.evaluate(labels_model, store.binary, model_type="regressor", **options)
    assert "mean_squared_error" in regression.metrics
    assert not any(name.startswith("calibration_error") for name in regression.metrics)
