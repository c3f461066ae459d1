"""Base models that declare their scores, and base models that lie elsewhere, through the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.svm import LinearSVC

import mlflow_calib as mc
from mlflow_calib.data.partitions import EVALUATION, read_partitions
from mlflow_calib.errors import EvidenceError, InvalidInputError
from mlflow_calib.flavor.tracking import connected
from mlflow_calib.steps import evaluate, fit, score, split
from mlflow_calib.steps.candidate import find_candidate, verify_base_model
from mlflow_calib.steps.predict_file import predict_file

SIGNATURE = ModelSignature(Schema([ColSpec("double", "logit_p")]))
#: A model that returns log odds and probabilities side by side, written as code.
SIDE_BY_SIDE = """import mlflow, numpy as np, pandas as pd


class SideBySide(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: pd.DataFrame, params=None):
        logit = model_input["logit_p"].to_numpy()
        return pd.DataFrame({"label": logit > 0, "logit": logit, "p": 1 / (1 + np.exp(-logit))})


mlflow.models.set_model(SideBySide())
"""


def vectors() -> LinearSVC:
    """A classifier without ``predict_proba`` whose decision value is its one feature."""
    model = LinearSVC().fit(pd.DataFrame({"logit_p": [-1.0, 1.0, -2.0, 2.0]}), [0, 1, 0, 1])
    model.coef_, model.intercept_ = np.array([[1.0]]), np.array([0.0])
    return model


def registered(world: Any, kind: str) -> str:
    """URI of a base model of this kind."""
    with connected(world.server) as client:
        experiment_id = client.get_experiment_by_name("base models").experiment_id
        with mlflow.start_run(experiment_id=experiment_id):
            if kind == "decision_function":
                info = mlflow.sklearn.log_model(
                    vectors(), name="base", signature=SIGNATURE, pip_requirements=["scikit-learn"]
                )
            else:
                code = world.folder / "side_by_side.py"
                code.write_text(SIDE_BY_SIDE)
                options = {"python_model": str(code), "signature": SIGNATURE, "pip_requirements": ["pandas"]}
                info = mlflow.pyfunc.log_model(name="base", **options)
        return f"models:/declared/{mlflow.register_model(info.model_uri, 'declared').version}"


def partitions_of(world: Any, games: Path, uri: str, **declared: Any) -> dict[str, Any]:
    arguments = {"data_uri": str(games), "key_columns": ["row"], "label_column": "label", "server": world.server}
    scored = score(uri, str(world.folder / "predictions"), **arguments, **declared)
    return split(scored, str(world.folder / "partitions"), split={"how": "hash", "evaluation_fraction": 0.5})


@pytest.mark.filterwarnings("ignore:.*An input example was not provided:UserWarning")
@pytest.mark.parametrize(
    ("kind", "given", "source"),
    [
        ("decision_function", "logit", {"score": "logit", "call": "decision_function", "link": "logit"}),
        ("side by side", "p", {"score": "p", "call": "predict", "column": "p"}),
        ("side by side", '{"logit": "logit"}', {"score": {"logit": "logit"}, "column": "logit", "link": "logit"}),
        ("side by side", '{"probability": 2}', {"score": {"probability": 2}, "column": 2}),
    ],
)
def test_a_declared_score_goes_through_every_step(
    world: Any, games: Path, kind: str, given: str, source: dict[str, Any]
) -> None:
    """Scored, packaged, evaluated and served are the same: probabilities, after the link."""
    partitions = partitions_of(world, games, registered(world, kind), base_score=given, classes=[0, 1])
    manifest = read_partitions(partitions["uri"])
    assert source.items() <= manifest.base_model["score_source"].items()
    rows = pd.concat([table.to_pandas() for table in manifest.iter_rows(EVALUATION, ["row", "score_1", "label"])])
    inputs = pd.read_parquet(games).set_index("row").loc[rows["row"], ["logit_p"]]
    np.testing.assert_allclose(rows["score_1"], 1 / (1 + np.exp(-inputs["logit_p"])), rtol=1e-12)
    candidate = fit(partitions, name="declared-calibrated", server=world.server)
    evidence = evaluate(partitions, candidate, server=world.server)
    with connected(world.server):
        packaged = mc.load_model(candidate["model_uri"])
        both = packaged.predict(inputs, {"output": "both"})
    assert source.items() <= packaged.calibrator.base_model["score_source"].items()
    np.testing.assert_array_equal(both["base"], rows["score_1"])
    np.testing.assert_array_equal(both["calibrated"], packaged.calibrator.predict(rows["score_1"].to_numpy()))
    brier = np.mean((both["calibrated"].to_numpy() - rows["label"].to_numpy()) ** 2)
    assert evidence["n"] == len(rows)
    assert evidence["mse"] == pytest.approx(brier, rel=1e-9)


@pytest.mark.parametrize("given", ['{"logit": ', '{"margin": "x"}', "{}"])
def test_a_declaration_that_is_none(world: Any, games: Path, given: str) -> None:
    with pytest.raises(InvalidInputError, match=r"score must be .*, got"):
        partitions_of(world, games, "models:/games/1", base_score=given, classes=[0, 1])


@pytest.fixture
def named(world: Any) -> str:
    """A version that names its base model, and holds no copy."""
    with connected(world.server):
        scores, draws = np.random.default_rng(0).uniform(size=(2, 2000))
        calibrator = mc.fit_calibrator(scores, (draws < scores).astype(int), classes=[0, 1], positive_class=1, n_bins=5)
        run_id = world.client.create_run(world.client.get_experiment_by_name("base models").experiment_id).info.run_id
        mc.log_model("models:/games/1", calibrator, run_id=run_id, embed=False, registered_model_name="named")
    return "models:/named/1"


def test_a_candidate_without_its_base_model_is_refused(world: Any, named: str) -> None:
    """``fit`` never makes one; of any other version that comes so far the base model may be gone tomorrow."""
    candidate = find_candidate(world.server, {"model_uri": named})
    with pytest.raises(
        EvidenceError, match=r"models:/named/1 must hold its base model, and only names models:/games/1"
    ):
        verify_base_model(world.server, candidate)


def test_a_base_model_elsewhere_is_fetched_from_the_server_that_was_named(world: Any, named: str, games: Path) -> None:
    """No environment names the server here: a champion, and a table through the model, ask the one that was given."""
    arguments = {"data_uri": str(games), "key_columns": ["row"], "label_column": "label", "server": world.server}
    scored = score("models:/games/1", str(world.folder / "again"), champion=named, **arguments)
    assert scored["champion_version"] == "1"
    result = predict_file(named, str(games), str(world.folder / "out.parquet"), server=world.server)
    assert result["n"] == len(pd.read_parquet(games))
