"""Three classes and more through the steps: every reduction, on the real probabilities of a network for CIFAR-10."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score

import mlflow_calib as mc
from mlflow_calib.core.evidence import check_evidence
from mlflow_calib.core.ranking import tied_pairs
from mlflow_calib.errors import CalibrationWarning, InvalidInputError
from mlflow_calib.flavor.records import read_record, read_record_text
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import evaluate, fit, gate, score, split

WORDS = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
INPUTS = [f"log_p_{k}" for k in range(10)]
REDUCTIONS = ("marginal", "top-label", "top-label-per-class")


@dataclass(frozen=True)
class Pictures:
    """A store in which ``pictures`` version 1, a raw model, is champion; and half the pictures each for two splits."""

    server: MlflowServer
    folder: Path
    first: str
    second: str

    def scored(self, data: str, name: str, **options: Any) -> dict[str, Any]:
        """Score and split one half of the pictures."""
        predictions = score(
            "models:/pictures/1",
            str(self.folder / name / "predictions"),
            data_uri=data,
            key_columns=["row"],
            label_column="label",
            slice_columns=["camera"],
            server=self.server,
            **{"champion": "models:/pictures@champion", **options},
        )
        how = {"how": "hash", "evaluation_fraction": 0.6}
        return split(predictions, str(self.folder / name / "partitions"), split=how)


def softmax_model() -> LogisticRegression:
    """A classifier whose probabilities are the softmax of its inputs: of log probabilities themselves."""
    model = LogisticRegression().fit(pd.DataFrame(np.eye(10), columns=INPUTS), WORDS)
    model.coef_, model.intercept_ = np.eye(10), np.zeros(10)
    return model


def write_pictures(source: Path, folder: Path) -> tuple[str, str]:
    frame = pd.read_parquet(source)
    p = frame[[f"p_{k}" for k in range(10)]].to_numpy(np.float64)
    rows = pd.DataFrame(np.log(np.clip(p, 1e-12, None)), columns=INPUTS)
    rows["row"], rows["label"] = np.arange(len(rows)), np.array(WORDS)[frame["label"]]
    rows["camera"] = np.array(["a", "b", None], dtype=object)[np.arange(len(rows)) % 3]
    halves = rows.iloc[:6000], rows.iloc[6000:]
    paths = [folder / "first.parquet", folder / "second.parquet"]
    for half, path in zip(halves, paths, strict=True):
        half.to_parquet(path, index=False)
    return str(paths[0]), str(paths[1])


@pytest.fixture(scope="module")
def pictures(
    real_data: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory, steps_helpers: Any
) -> Pictures:
    folder = tmp_path_factory.mktemp("pictures")
    server = steps_helpers.new_store(folder / "store")
    signature = ModelSignature(Schema([ColSpec("double", name) for name in INPUTS]), Schema([ColSpec("string")]))
    with connected(server) as client:
        experiment_id = client.get_experiment_by_name("base models").experiment_id
        with mlflow.start_run(experiment_id=experiment_id):
            info = mlflow.sklearn.log_model(
                softmax_model(), name="base", signature=signature, pip_requirements=["scikit-learn"]
            )
        mlflow.register_model(info.model_uri, "pictures")
        client.set_registered_model_alias("pictures", "champion", "1")
    return Pictures(server, folder, *write_pictures(real_data("cifar10_vgg.parquet"), folder))


@pytest.fixture(scope="module")
def partitions(pictures: Pictures) -> dict[str, Any]:
    return pictures.scored(pictures.first, "first")


@pytest.fixture(scope="module", params=REDUCTIONS)
def judged(request: Any, pictures: Pictures, partitions: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A candidate of each reduction, and its evidence as it was handed over."""
    calibrator = {"reduction": request.param, "n_bins": 8}
    with few_rows_are_expected():
        candidate = fit(partitions, name="pictures", calibrator=calibrator, server=pictures.server)
    return candidate, evaluate(partitions, candidate, server=pictures.server)


@contextmanager
def few_rows_are_expected() -> Iterator[None]:
    """A class that is seldom predicted may lack bins, and the fit says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        yield


def evaluation_rows(partitions: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Base scores (n, 10), labels, and all columns."""
    folder = Path(partitions["uri"].removeprefix("file://")).parent
    rows = pq.read_table(folder / "evaluation.parquet").to_pandas()
    return rows[[f"score_{word}" for word in WORDS]].to_numpy(), rows["label"].to_numpy(), rows


def test_the_candidates_figures_are_those_of_the_public_estimator(
    pictures: Pictures, partitions: dict[str, Any], judged: Any
) -> None:
    """Another way to the same numbers: all rows at once, classes from the calibrator."""
    candidate, handed = judged
    record = read_record(pictures.server, handed["uri"], handed["sha256"])
    calibrator = mc.Calibrator.from_json(read_record_text(pictures.server, candidate["uri"]))
    scores, labels, _ = evaluation_rows(partitions)
    estimate = mc.estimate_calibration_error(scores, labels, reduction=candidate["reduction"], bins=calibrator)
    entry = record["estimates"]["candidate"]
    assert check_evidence(record) == []
    assert record["reduction"] == candidate["reduction"]
    assert entry["squared_debiased"] == pytest.approx(estimate.squared, abs=1e-15)
    assert entry["upper_bound"] == pytest.approx(estimate.upper_bound(0.95), abs=1e-12)
    assert entry["lower_bound"] == pytest.approx(estimate.lower_bound(0.95), abs=1e-12)
    assert entry["noise_floor"] == pytest.approx(estimate.noise_floor(0.95), abs=1e-12)
    assert (entry["bound_kind"], entry["status"], entry["n"]) == (estimate.bound_kind, estimate.status, len(labels))
    assert (handed["calibration_error"], handed["upper_bound"]) == (entry["root"], entry["upper_bound"])
    assert len(json.dumps(handed).encode()) < 1024
    if entry["classes"] is not None:
        assert [one["class"] for one in entry["classes"]] == WORDS


def test_losses_are_those_of_what_the_reduction_speaks_of(
    pictures: Pictures, partitions: dict[str, Any], judged: Any
) -> None:
    """Marginal: means over rows and classes. Top-label: of the confidence and whether the predicted class is right."""
    candidate, handed = judged
    record = read_record(pictures.server, handed["uri"])
    calibrator = mc.Calibrator.from_json(read_record_text(pictures.server, candidate["uri"]))
    scores, labels, _ = evaluation_rows(partitions)
    truths = labels[:, None] == np.array(WORDS)
    for name, outputs in {"candidate": calibrator.predict(scores), "base": scores}.items():
        p, y = outputs, truths
        if candidate["reduction"] != "marginal":
            top = scores.argmax(axis=1)[:, None]
            p, y = np.take_along_axis(outputs, top, axis=1), np.take_along_axis(truths, top, axis=1)
        entry = record["estimates"][name]
        assert entry["mse"] == pytest.approx(np.mean((p - y) ** 2), abs=1e-12)
        with np.errstate(divide="ignore"):
            log_loss = -np.where(y, np.log(p), np.log1p(-p)).mean()
        assert entry["log_loss"] == (pytest.approx(log_loss, rel=1e-9) if np.isfinite(log_loss) else None)
        assert entry["log_loss_infinite"] == bool(np.isinf(log_loss))
    comparisons = record["comparisons"]
    first, second = (record["estimates"][name] for name in ("candidate", "base"))
    increase = comparisons["calibration_error_increase_over_base"]
    assert increase["mean"] == pytest.approx(first["root"] - second["root"], abs=1e-9)
    assert increase["standard_error"] > 0
    assert comparisons["mse_increase_over_base"]["mean"] == pytest.approx(first["mse"] - second["mse"], abs=1e-12)


def test_ranking_before_and_after_agrees_with_scikit_learn(
    pictures: Pictures, partitions: dict[str, Any], judged: Any
) -> None:
    """Marginal: largest of the row, and each class against the rest; top-label: the confidence in the same label."""
    candidate, handed = judged
    record = read_record(pictures.server, handed["uri"])
    calibrator = mc.Calibrator.from_json(read_record_text(pictures.server, candidate["uri"]))
    scores, labels, _ = evaluation_rows(partitions)
    truths, calibrated, words = labels[:, None] == np.array(WORDS), calibrator.predict(scores), np.array(WORDS)
    found, predicted = record["ranking"], scores.argmax(axis=1)
    assert found["base"]["accuracy"] == accuracy_score(labels, words[predicted])
    if candidate["reduction"] == "marginal":
        each = [roc_auc_score(truths[:, k], calibrated[:, k]) for k in range(10)]
        assert found["candidate"]["accuracy"] == accuracy_score(labels, words[calibrated.argmax(axis=1)])
        assert found["candidate"]["auc"] == pytest.approx(np.mean(each), abs=1e-12)
        assert found["base"]["auc"] is found["base"]["tied_pairs"] is None, "ten columns are not held"
    else:
        right, own = predicted == truths.argmax(axis=1), calibrated[np.arange(len(scores)), predicted]
        assert found["candidate"]["accuracy"] == found["base"]["accuracy"], "the label stays"
        assert found["candidate"]["auc"] == pytest.approx(roc_auc_score(right, own), abs=1e-12)
        assert found["base"]["auc"] == pytest.approx(roc_auc_score(right, scores.max(axis=1)), abs=1e-12)
        assert found["candidate"]["tied_pairs"] == pytest.approx(tied_pairs(own, right), abs=1e-12)
    assert found["champion"] == found["base"]
    metrics = {one.key: one.value for one in pictures.server.client().get_logged_model(candidate["model_id"]).metrics}
    assert metrics["tied_pairs"] == found["candidate"]["tied_pairs"] > 0
    assert ("base_auc" in metrics) == (candidate["reduction"] != "marginal")


def test_base_and_raw_champion_are_binned_by_the_candidates_edges(pictures: Pictures, judged: Any) -> None:
    """The champion is the base model: the same figures, and at most its own calibration error."""
    estimates = read_record(pictures.server, judged[1]["uri"])["estimates"]
    assert estimates["champion"] == estimates["base"]
    assert estimates["base"]["lower_bound_of_calibration_error"] is True
    assert estimates["candidate"]["lower_bound_of_calibration_error"] is False
    assert estimates["rival"]["n"] == estimates["candidate"]["n"]


def test_the_gate_judges_a_reduction_of_several_classes(pictures: Pictures, judged: Any) -> None:
    """The squared error is another matter: eight bins a class cost a sharp network some, and by default that fails."""
    tables: dict[str, Any] = {
        "calibration_error_upper_bound": {"limit": 0.15},
        "mse_increase_over_champion": {"enabled": False},
    }
    if judged[0]["reduction"] != "top-label":
        tables["worst_class_calibration_error_upper_bound"] = {"limit": 0.9}
    verdict = gate(judged[1], policy={"requirements": tables}, server=pictures.server)
    expected = "pass" if judged[1]["status"] == "ok" else "inconclusive"
    assert verdict["status"] == expected, verdict["reason"]
    strict = {"requirements": {"calibration_error_upper_bound": {"limit": 0.0001}}}
    assert gate(judged[1], policy=strict, server=pictures.server)["blocks"] is True


def test_the_packaged_model_says_what_was_evaluated(pictures: Pictures, judged: Any) -> None:
    frame = pd.read_parquet(pictures.first).head(50)
    calibrator = mc.Calibrator.from_json(read_record_text(pictures.server, judged[0]["uri"]))
    with connected(pictures.server):
        served = mlflow.pyfunc.load_model(judged[0]["model_uri"]).predict(frame[INPUTS])
    assert served.columns.tolist() == WORDS
    expected = calibrator.predict(softmax_model().predict_proba(frame[INPUTS]))
    np.testing.assert_array_equal(served.to_numpy(), expected)


def test_metrics_figure_and_params_are_logged(pictures: Pictures, judged: Any) -> None:
    candidate, handed = judged
    client = pictures.server.client()
    logged = client.get_logged_model(candidate["model_id"])
    metrics = {metric.key: metric.value for metric in logged.metrics}
    assert metrics["calibration_error"] == handed["calibration_error"]
    assert metrics["recalibration_n"] == candidate["n"]
    assert {"log_loss", "base_mse", "calibration_error_increase_over_base"} <= set(metrics)
    assert all(np.isfinite(value) for value in metrics.values())
    run = client.get_run(candidate["run_id"])
    assert run.data.params["reduction"] == candidate["reduction"]
    assert [file.path for file in client.list_artifacts(candidate["run_id"], "figures")] == ["figures/reliability.png"]


@pytest.mark.parametrize("calibrator", [None, {}, {"n_bins": 8}, {"reduction": "binary"}])
def test_the_reduction_of_several_classes_is_asked_never_guessed(
    pictures: Pictures, partitions: dict[str, Any], calibrator: Any
) -> None:
    message = (
        r"(?s)reduction must be said for a model of 10 classes.*\"marginal\".*\"top-label\".*\"top-label-per-class\""
    )
    with pytest.raises(InvalidInputError, match=message):
        fit(partitions, name="pictures", calibrator=calibrator, server=pictures.server)


def test_multi_label_has_no_evidence(pictures: Pictures, partitions: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="reduction must be one of 'binary', 'marginal'"):
        fit(partitions, name="pictures", calibrator={"reduction": "multi-label"}, server=pictures.server)


def test_the_manifest_counts_every_class(partitions: dict[str, Any]) -> None:
    document = json.loads(Path(partitions["uri"].removeprefix("file://")).read_text())
    _, labels, _ = evaluation_rows(partitions)
    entry = document["files"]["evaluation"]
    assert entry["class_counts"] == [int((labels == word).sum()) for word in WORDS]
    assert entry["positives"] is None
    assert (document["classes"], document["positive_class"]) == (WORDS, None)


def test_a_champion_of_ours_is_judged_by_its_own_values(pictures: Pictures, judged: Any) -> None:
    """Scored on newer rows: base scores and its own output stand beside the new candidate's, for the same rows."""
    champion, _ = judged
    reduction = champion["reduction"]
    partitions = pictures.scored(pictures.second, f"second-{reduction}", champion=champion["model_uri"])
    calibrator = {"reduction": reduction, "n_bins": 5, "method": "histogram-binning", "parts": "shared"}
    with few_rows_are_expected():
        candidate = fit(partitions, name="pictures", calibrator=calibrator, server=pictures.server)
    record = read_record(pictures.server, evaluate(partitions, candidate, server=pictures.server)["uri"])
    own = mc.Calibrator.from_json(read_record_text(pictures.server, champion["uri"]))
    scores, labels, rows = evaluation_rows(partitions)
    outputs = rows[[f"champion_output_{word}" for word in WORDS]].to_numpy()
    np.testing.assert_array_equal(outputs, own.predict(scores))
    entry = record["estimates"]["champion"]
    estimate = mc.estimate_calibration_error(scores, labels, reduction=reduction, bins=own)
    assert entry["squared_debiased"] == pytest.approx(estimate.squared, abs=1e-12)
    assert entry["lower_bound_of_calibration_error"] is False
    assert record["champion"]["kind"] == "calibrated"
    assert record["overlap"]["champion_recalibration"] == 0
    assert record["comparisons"]["calibration_error_increase_over_champion"]["n"] == len(labels)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_raw_champion_of_its_own_is_binned_by_uniform_mass(pictures: Pictures, reduction: str) -> None:
    """Another model with other scores: bins of what it says, and its own predicted class."""
    sharper = softmax_model()
    sharper.coef_ = sharper.coef_ * 3
    sharper.intercept_ = np.linspace(0, 4, 10)
    signature = ModelSignature(Schema([ColSpec("double", name) for name in INPUTS]), Schema([ColSpec("string")]))
    with connected(pictures.server) as client:
        experiment_id = client.get_experiment_by_name("base models").experiment_id
        with mlflow.start_run(experiment_id=experiment_id):
            info = mlflow.sklearn.log_model(
                sharper, name="sharper", signature=signature, pip_requirements=["scikit-learn"]
            )
        version = mlflow.register_model(info.model_uri, "sharper").version
    partitions = pictures.scored(pictures.second, f"raw-{reduction}", champion=f"models:/sharper/{version}")
    with few_rows_are_expected():
        calibrator = {"reduction": reduction, "n_bins": 6}
        candidate = fit(partitions, name="pictures", calibrator=calibrator, server=pictures.server)
    record = read_record(pictures.server, evaluate(partitions, candidate, server=pictures.server)["uri"])
    entry = record["estimates"]["champion"]
    _, labels, rows = evaluation_rows(partitions)
    outputs = rows[[f"champion_score_{word}" for word in WORDS]].to_numpy()
    estimate = mc.estimate_calibration_error(outputs, labels, reduction=reduction, classes=WORDS, bins=6)
    assert entry["squared_debiased"] == pytest.approx(estimate.squared, abs=1e-12)
    assert entry["lower_bound_of_calibration_error"] is True
    found, y = record["ranking"]["champion"], labels[:, None] == np.array(WORDS)
    assert found["accuracy"] == accuracy_score(labels, np.array(WORDS)[outputs.argmax(axis=1)])
    expected = (
        None
        if reduction == "marginal"
        else roc_auc_score(y[np.arange(len(y)), outputs.argmax(axis=1)], outputs.max(axis=1))
    )
    assert found["auc"] == (expected and pytest.approx(expected, abs=1e-12))
    if reduction == "top-label-per-class":
        assert [one["class"] for one in entry["classes"]] == [
            one for one in WORDS if one in {*np.array(WORDS)[outputs.argmax(axis=1)]}
        ]


@pytest.mark.parametrize(("n_bins", "kind"), [(8, "cross-class counts"), (25, "comonotone")])
def test_slices_of_several_classes(pictures: Pictures, partitions: dict[str, Any], n_bins: int, kind: str) -> None:
    """Figures as of the rows alone; over 200 bins of all classes the bounds hold whatever the classes do."""
    calibrator = {"reduction": "marginal", "n_bins": n_bins, "parts": "shared"}
    with few_rows_are_expected():
        candidate = fit(partitions, name="pictures", calibrator=calibrator, server=pictures.server)
    rules = {"requirements": {"slice_calibration_error_upper_bound": {"columns": ["camera"]}}}
    record = read_record(pictures.server, evaluate(partitions, candidate, policy=rules, server=pictures.server)["uri"])
    assert check_evidence(record) == []
    own = mc.Calibrator.from_json(read_record_text(pictures.server, candidate["uri"]))
    scores, labels, rows = evaluation_rows(partitions)
    assert [one["slice"]["camera"] for one in record["slices"]] == ["a", "b", None]
    for one in record["slices"]:
        value = one["slice"]["camera"]
        chosen = (rows["camera"].isna() if value is None else rows["camera"] == value).to_numpy()
        estimate = mc.estimate_calibration_error(scores[chosen], labels[chosen], reduction="marginal", bins=own)
        entry = one["estimates"]["candidate"]
        assert entry["squared_debiased"] == pytest.approx(estimate.squared, abs=1e-15)
        assert (entry["bound_kind"], entry["n"]) == (kind, chosen.sum())
        if kind == "cross-class counts":
            assert entry["upper_bound"] == pytest.approx(estimate.upper_bound(0.95), abs=1e-12)
        elif entry["upper_bound"] is not None:
            assert entry["upper_bound"] > estimate.upper_bound(0.95)
