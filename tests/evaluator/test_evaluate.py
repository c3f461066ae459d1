"""``mlflow.models.evaluate`` with the evaluator, on a real store: right figures, each logged once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.models import MetricThreshold

import mlflow_calib as mc

FEATURES = ["x1", "x2"]
UPPER = "calibration_error_upper_bound"


def test_a_calibrated_model_is_judged_in_its_own_bins(store: Any) -> None:
    result = store.evaluate(store.infos["binary"].model_uri, store.binary)
    calibrator = mc.load_model(store.infos["binary"].model_uri).calibrator
    scores = store.binary_base.predict_proba(store.binary[FEATURES])[:, 1]
    estimate = mc.estimate_calibration_error(scores, store.binary["y"], bins=calibrator)
    assert result.metrics["calibration_error"] == pytest.approx(estimate.root, rel=1e-9)
    assert result.metrics["calibration_error_squared_debiased"] == pytest.approx(estimate.squared, rel=1e-9)
    assert result.metrics[UPPER] == pytest.approx(estimate.upper_bound(0.95), rel=1e-9)
    assert result.metrics["mse"] == pytest.approx(((calibrator.predict(scores) - store.binary["y"]) ** 2).mean())
    assert result.metrics["base_mse"] == pytest.approx(((scores - store.binary["y"]) ** 2).mean())
    increase = result.metrics["mse"] - result.metrics["base_mse"]
    assert result.metrics["mse_increase_over_base"] == pytest.approx(increase)
    assert result.metrics["calibration_error_is_lower_bound"] == 0
    assert result.metrics["calibration_error_status_is_ok"] == 1
    assert result.metrics["n_evaluation"] == len(store.binary)


@pytest.mark.parametrize(
    ("name", "reduction"), [("marginal", "marginal"), ("top", "top-label"), ("per-class", "top-label-per-class")]
)
def test_calibrated_models_of_several_classes(store: Any, name: str, reduction: str) -> None:
    result = store.evaluate(store.infos[name].model_uri, store.three)
    calibrator = mc.load_model(store.infos[name].model_uri).calibrator
    scores = store.three_base.predict_proba(store.three[FEATURES])
    estimate = mc.estimate_calibration_error(scores, store.three["y"], bins=calibrator, reduction=reduction)
    assert result.metrics["calibration_error_squared_debiased"] == pytest.approx(estimate.squared, rel=1e-9)
    assert result.metrics[UPPER] == pytest.approx(estimate.upper_bound(0.95), rel=1e-6)
    record = result.artifacts["calibration_estimate"].content
    assert record["reduction"] == reduction
    assert record["classes"] == ["ant", "bee", "cat"]
    bins = result.artifacts["calibration_bins"].content
    classes = {"ant", "bee", "cat"} if name in ("marginal", "per-class") else {None}
    assert set(bins["class"].astype(object).where(bins["class"].notna(), None)) == classes
    assert bins["n"].sum() == len(store.three) * (3 if name == "marginal" else 1)


@pytest.mark.parametrize("how", ["models:/m-", "loaded", "models:/name/1", "models:/name@alias", "model_id="])
@pytest.mark.parametrize("name", ["binary", "two"])
def test_every_metric_stands_once_on_the_run_and_once_on_the_model(store: Any, name: str, how: str) -> None:
    info, options = store.infos[name], {}
    by_name = {"models:/name/1": f"models:/{name}/1", "models:/name@alias": f"models:/{name}@champion"}
    model: Any = {"models:/m-": info.model_uri, **by_name}.get(how)
    data = store.binary
    if how == "loaded":
        model = mlflow.pyfunc.load_model(info.model_uri)
    elif how == "model_id=":
        data = data.assign(p=store.binary_base.predict_proba(data[FEATURES])[:, 1])
        options = {"predictions": "p", "model_id": info.model_id}
    result = store.evaluate(model, data, **options)
    assert UPPER in result.metrics
    run_id = result.run_id
    for metric, value in result.metrics.items():
        assert store.values_on_run(run_id, metric) == [value], metric
        assert store.values_on_model(info.model_id, run_id, metric) == [value], metric
    run = mlflow.MlflowClient().get_run(run_id)
    assert {one.model_id for one in run.inputs.model_inputs} == {info.model_id}
    metrics = [metric for metric in mlflow.get_logged_model(info.model_id).metrics if metric.run_id == run_id]
    inputs = {(one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs}
    assert {(metric.dataset_name, metric.dataset_digest) for metric in metrics} == inputs


def test_without_a_logged_model_metrics_stand_on_the_run(store: Any) -> None:
    data = store.binary.assign(p=store.binary_base.predict_proba(store.binary[FEATURES])[:, 1])
    with mlflow.start_run() as run:
        result = mlflow.models.evaluate(
            data=data, targets="y", predictions="p", model_type="classifier", evaluators="calibration"
        )
    for metric, value in result.metrics.items():
        assert store.values_on_run(run.info.run_id, metric) == [value]
    assert mlflow.MlflowClient().get_run(run.info.run_id).inputs.model_inputs == []


def test_a_model_of_another_server_links_to_nothing_here(store: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    info = store.infos["two"]
    folder = Path(mlflow.artifacts.download_artifacts(info.model_uri, dst_path=str(tmp_path_factory.mktemp("model"))))
    text = (folder / "MLmodel").read_text(encoding="utf-8")
    (folder / "MLmodel").write_text(text.replace(info.model_id, f"m-{'0' * 32}"), encoding="utf-8")
    result = store.evaluate(str(folder), store.binary)
    assert store.values_on_run(result.run_id, UPPER) == [result.metrics[UPPER]]
    assert mlflow.MlflowClient().get_run(result.run_id).inputs.model_inputs == []


def test_a_raw_classifier_is_a_lower_bound(store: Any) -> None:
    """Continuous outputs are binned; the same as the estimate in uniform-mass bins of them."""
    result = store.evaluate(store.infos["two"].model_uri, store.binary, evaluator_config={"n_bins": 15})
    scores = store.binary_base.predict_proba(store.binary[FEATURES])[:, 1]
    estimate = mc.estimate_calibration_error(scores, store.binary["y"], bins=15)
    assert result.metrics["calibration_error_squared_debiased"] == pytest.approx(estimate.squared, rel=1e-9)
    assert result.metrics["calibration_error_is_lower_bound"] == 1
    assert "base_mse" not in result.metrics


def test_thresholds_read_the_bound(store: Any) -> None:
    result = store.evaluate(store.infos["binary"].model_uri, store.binary)
    bound = result.metrics[UPPER]
    kept = {
        UPPER: MetricThreshold(threshold=bound + 1e-6, greater_is_better=False),
        "calibration_error_is_lower_bound": MetricThreshold(threshold=0, greater_is_better=False),
        "calibration_error_status_is_ok": MetricThreshold(threshold=1, greater_is_better=True),
    }
    mlflow.validate_evaluation_results(kept, result)
    broken = {UPPER: MetricThreshold(threshold=bound - 1e-6, greater_is_better=False)}
    with pytest.raises(mlflow.MlflowException, match="threshold check failed"):
        mlflow.validate_evaluation_results(broken, result)
    raw = store.evaluate(store.infos["two"].model_uri, store.binary)
    with pytest.raises(mlflow.MlflowException, match="calibration_error_is_lower_bound"):
        mlflow.validate_evaluation_results({**kept, UPPER: MetricThreshold(1, greater_is_better=False)}, raw)


def test_an_unusable_figure_is_a_status_and_no_metric(store: Any) -> None:
    """Twenty rows in five bins are too few for bounds; an outcome that had probability 0 has an infinite log loss."""
    few = store.binary.head(20)
    result = store.evaluate(store.infos["binary"].model_uri, few)
    assert UPPER not in result.metrics
    assert result.metrics["calibration_error_status_is_ok"] == 0
    record = result.artifacts["calibration_estimate"].content["estimates"]["candidate"]
    assert record["upper_bound"] is None
    assert record["status"] == "unusable"
    missing = {UPPER: MetricThreshold(threshold=1, greater_is_better=False)}
    with pytest.raises(mlflow.MlflowException, match="missing"):
        mlflow.validate_evaluation_results(missing, result)
    with mlflow.start_run() as run:
        sure = pd.DataFrame({"y": [0, 1] * 200, "p": [0.0, 0.0] * 200})
        result = mlflow.models.evaluate(
            data=sure, targets="y", predictions="p", model_type="classifier", evaluators="calibration"
        )
    assert "log_loss" not in result.metrics
    assert result.artifacts["calibration_estimate"].content["estimates"]["candidate"]["log_loss_infinite"] is True
    metrics = mlflow.MlflowClient().get_run(run.info.run_id).data.metrics
    assert all(np.isfinite(value) for value in metrics.values())
    assert mlflow.MlflowClient().get_run(run.info.run_id).data.tags["mlflow_calib.evaluation.status"] == "ok"


def test_a_static_frame_of_few_values_is_the_whole_error(store: Any) -> None:
    p = np.tile([0.2, 0.7], 500)
    y = np.concatenate([np.tile([1, 1], 100), np.tile([0, 1], 200), np.tile([0, 0], 200)])
    result = store.evaluate(None, pd.DataFrame({"p": p, "y": y}), predictions="p")
    # of 500 rows each: .2 said and 100 of 500 positive; .7 said and 300 of 500 positive
    assert result.metrics["calibration_error_squared_plugin"] == pytest.approx(0.5 * (0.7 - 0.6) ** 2)
    assert result.metrics["calibration_error_is_lower_bound"] == 0
    bins = result.artifacts["calibration_bins"].content
    assert bins["output"].tolist() == [0.2, 0.7]
    assert bins["positives"].tolist() == [100, 300]


def test_a_dataset_of_mlflow_brings_its_targets_and_predictions(store: Any) -> None:
    table = pd.DataFrame({"p": [0.2, 0.7] * 300, "y": [0, 1] * 300})
    data = mlflow.data.from_pandas(table, targets="y", predictions="p")
    result = store.evaluate(None, data, targets=None)
    assert result.metrics["calibration_error_squared_plugin"] == pytest.approx((0.2**2 + 0.3**2) / 2)


def test_static_columns_a_class(store: Any) -> None:
    columns = ["p_ant", "p_bee", "p_cat"]
    scores = store.three_base.predict_proba(store.three[FEATURES])
    data = pd.DataFrame(scores, columns=columns).assign(y=store.three["y"].to_numpy())
    config = {"probability_columns": columns, "classes": ["ant", "bee", "cat"], "reduction": "marginal"}
    result = store.evaluate(None, data, evaluator_config=config)
    estimate = mc.estimate_calibration_error(
        scores, data["y"], bins=10, reduction="marginal", classes=config["classes"]
    )
    assert result.metrics["calibration_error_squared_debiased"] == pytest.approx(estimate.squared, rel=1e-9)


def test_calibrated_columns_need_not_sum_to_one(store: Any) -> None:
    model = mlflow.pyfunc.load_model(store.infos["marginal"].model_uri)
    data = model.predict(store.three[FEATURES]).assign(y=store.three["y"])
    config = {"probability_columns": ["ant", "bee", "cat"], "classes": ["ant", "bee", "cat"], "reduction": "marginal"}
    result = store.evaluate(None, data, evaluator_config=config)
    own = store.evaluate(model, store.three)
    assert result.metrics["calibration_error_squared_debiased"] == pytest.approx(
        own.metrics["calibration_error_squared_debiased"], rel=1e-9
    )
    assert result.metrics["calibration_error_is_lower_bound"] == 0


def test_a_function_and_a_named_output_column(store: Any) -> None:
    base = store.binary_base

    def alone(frame: pd.DataFrame) -> np.ndarray:
        return base.predict_proba(frame[FEATURES])[:, 1]

    def framed(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"label": base.predict(frame[FEATURES]), "p": alone(frame)})

    wanted = store.evaluate(store.infos["two"].model_uri, store.binary).metrics
    assert store.evaluate(alone, store.binary).metrics == pytest.approx(wanted)
    assert store.evaluate(framed, store.binary, predictions="p").metrics == pytest.approx(wanted)


def test_a_model_of_three_classes_is_judged_by_its_top_label(store: Any) -> None:
    result = store.evaluate(store.infos["three"].model_uri, store.three)
    scores = store.three_base.predict_proba(store.three[FEATURES])
    words = {"classes": ["ant", "bee", "cat"], "reduction": "top-label"}
    estimate = mc.estimate_calibration_error(scores, store.three["y"], bins=10, **words)
    assert result.metrics["calibration_error_squared_debiased"] == pytest.approx(estimate.squared, rel=1e-9)


def test_an_array_of_features(store: Any) -> None:
    base = store.binary_base
    result = store.evaluate(
        lambda x: base.predict_proba(pd.DataFrame(x, columns=FEATURES))[:, 1],
        store.binary[FEATURES].to_numpy(),
        targets=store.binary["y"].to_numpy(),
    )
    assert result.metrics == pytest.approx(store.evaluate(store.infos["two"].model_uri, store.binary).metrics)


def test_groups_widen_the_bound_and_are_no_feature(store: Any) -> None:
    data = store.binary.sort_values("x1").reset_index(drop=True)
    data["day"] = np.arange(len(data)) // 60
    seen = []

    def model(frame: pd.DataFrame) -> np.ndarray:
        seen.append(list(frame.columns))
        return store.binary_base.predict_proba(frame[FEATURES])[:, 1]

    by_row = store.evaluate(model, data)
    by_day = store.evaluate(model, data, evaluator_config={"group_column": "day"})
    given = store.evaluate(model, data, evaluator_config={"groups": data["day"].to_numpy()})
    assert seen == [["x1", "x2", "day"], FEATURES, ["x1", "x2", "day"]]
    scores = store.binary_base.predict_proba(data[FEATURES])[:, 1]
    estimate = mc.estimate_calibration_error(scores, data["y"], bins=10, groups=data["day"])
    assert by_day.metrics[UPPER] == pytest.approx(estimate.upper_bound(0.95), rel=1e-9)
    assert by_day.metrics[UPPER] != by_row.metrics[UPPER]
    assert given.metrics == by_day.metrics
    assert by_day.artifacts["calibration_estimate"].content["data"]["n_groups"] == 50


def test_settings_change_what_they_say(store: Any) -> None:
    uri = store.infos["binary"].model_uri
    usual = store.evaluate(uri, store.binary)
    config = {"confidence_level": 0.99, "figure": False, "metric_prefix": "held_out_"}
    other = store.evaluate(uri, store.binary, evaluator_config=config)
    assert other.metrics[f"held_out_{UPPER}"] > usual.metrics[UPPER]
    assert set(other.artifacts) == {"held_out_calibration_estimate", "held_out_calibration_bins"}
    assert set(usual.artifacts) == {"calibration_estimate", "calibration_bins", "reliability_diagram"}
    assert usual.artifacts["reliability_diagram"].content.size[0] > 500


def test_the_digest_is_of_all_rows(store: Any) -> None:
    """MLflow's own digest of data reads the first 10,000 rows."""
    p = np.tile([0.25, 0.75], 10_000)
    y = np.tile([0, 1], 10_000)
    other = np.concatenate([y[:-1], [0]])
    found = {
        store.evaluate(None, pd.DataFrame({"p": p, "y": labels}), predictions="p")
        .artifacts["calibration_estimate"]
        .content["data"]["sha256"]
        for labels in (y, other)
    }
    assert len(found) == 2
    scores = hashlib.sha256(p.astype("<f8").tobytes()).digest()
    labels = hashlib.sha256(y.astype(np.uint8).tobytes()).digest()
    assert f"sha256:{hashlib.sha256(scores + labels).hexdigest()}" in found


def test_a_result_survives_save_and_load(store: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("result")
    result = store.evaluate(store.infos["binary"].model_uri, store.binary)
    result.save(str(folder))
    again = type(result).load(str(folder))
    assert again.metrics == result.metrics
    assert again.artifacts["calibration_estimate"].content == result.artifacts["calibration_estimate"].content
