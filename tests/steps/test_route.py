"""The whole route for real: score -> split -> fit -> evaluate -> gate -> promote, on real predictions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

from mlflow_calib.data.paths import safe_segment
from mlflow_calib.errors import PromotionRefusedError
from mlflow_calib.flavor.records import read_record
from mlflow_calib.flavor.tracking import connected
from mlflow_calib.steps import evaluate, fit, gate, promote, score, split


def run(world: Any, policy: dict[str, Any], partitions: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """fit, evaluate and gate; every hand-over goes through JSON as an orchestrator would pass it."""

    def handed(result: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(result, allow_nan=False)
        assert len(text.encode()) < 1024
        assert json.loads(text) == result
        return json.loads(text)

    partitions = handed(partitions or world.partitions)
    candidate = handed(fit(partitions, name="games", server=world.server))
    evidence = handed(evaluate(partitions, candidate, policy=policy, server=world.server))
    verdict = handed(gate(evidence, policy=policy, server=world.server))
    return {"candidate": candidate, "evidence": evidence, "verdict": verdict}


def test_a_pass_moves_the_alias(world: Any) -> None:
    policy = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
    done = run(world, policy)
    assert (done["verdict"]["status"], done["verdict"]["blocks"]) == ("pass", False)
    assert done["verdict"]["upper_bound"] <= 0.10
    assert world.champion() == "1", "nothing moves before the promotion"
    promotion = promote(done["candidate"], done["verdict"], server=world.server)
    assert world.champion() == "2" == promotion["version"]
    assert promotion["previous_version"] == "1"
    assert promotion["promoted"] is True
    record = read_record(world.server, promotion["uri"], promotion["sha256"])
    assert record["promoted"] is True
    assert record["verdict"]["sha256"] == done["verdict"]["sha256"]
    assert len(world.runs()) == 1, "one run a recalibration"


def test_the_promoted_model_predicts_the_calibrated_scores(world: Any, games: Path) -> None:
    """What serves is what was judged: base column x calibrator.json, to the bit."""
    done = run(world, {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}})
    promote(done["candidate"], done["verdict"], server=world.server)
    frame = pd.read_parquet(games, columns=["logit_p"]).head(100)
    with connected(world.server):
        served = mlflow.pyfunc.load_model("models:/games@champion").predict(frame)
    calibrator = read_record(world.server, done["candidate"]["uri"], done["candidate"]["sha256"])
    values = np.array(calibrator["maps"][0]["values"])
    assert np.isin(served, values).all()


@pytest.mark.parametrize("name", ["churn model", "größe", "m'q", "a%20b", "m-churn"])
def test_names_of_any_letters_go_the_whole_way(world: Any, name: str) -> None:
    """Model and experiment; the folder of the artifacts is a safe one, as MLflow decodes it again."""
    policy = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
    candidate = fit(world.partitions, name=name, server=world.server)
    verdict = gate(evaluate(world.partitions, candidate, server=world.server), policy=policy, server=world.server)
    assert verdict["status"] == "pass"
    world.client.delete_registered_model_alias("games", "champion")
    assert promote(candidate, verdict, server=world.server)["name"] == name
    assert world.champion(name) == "1"
    location = world.client.get_experiment_by_name(name).artifact_location
    assert location.endswith(f"/mlartifacts/{safe_segment(name)}")


def test_an_inconclusive_verdict_leaves_the_alias(world: Any) -> None:
    done = run(world, {"requirements": {"calibration_error_upper_bound": {"limit": 0.015}}})
    assert (done["verdict"]["status"], done["verdict"]["blocks"]) == ("inconclusive", True)
    with pytest.raises(PromotionRefusedError, match="inconclusive"):
        promote(done["candidate"], done["verdict"], server=world.server)
    assert world.champion() == "1"
    assert world.versions() == ["1", "2"], "a refused version stays, without an alias"
    assert world.tags("2")["mlflow_calib.status"] == "refused"


@pytest.mark.filterwarnings("ignore:fewer-bins:mlflow_calib.errors.CalibrationWarning")
def test_a_fail_leaves_the_alias(
    world: Any, real_data: Callable[[str], Path], tmp_path: Path, steps_helpers: Any
) -> None:
    """Platt scaling cannot follow confidences that people state in words: ten thousand rows show an error above .01."""
    rows = pd.read_parquet(real_data("llm_stated_confidence.parquet"), columns=["p", "label"])
    data = steps_helpers.write_rows(rows.sample(20_000, random_state=0), tmp_path / "llm.parquet")
    partitions = steps_helpers.scored_and_split(world.server, data, tmp_path / "llm")
    done = run(world, {"requirements": {"calibration_error_upper_bound": {"limit": 0.01}}}, partitions)
    assert (done["verdict"]["status"], done["verdict"]["blocks"]) == ("fail", True)
    with pytest.raises(PromotionRefusedError, match="fail"):
        promote(done["candidate"], done["verdict"], server=world.server)
    assert world.champion() == "1"


def test_the_next_recalibration_compares_with_the_calibrated_champion(
    world: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    """A champion of ours is judged by its own distinct outputs, and rows it was recalibrated on are counted."""
    policy = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
    first = run(world, policy)
    promote(first["candidate"], first["verdict"], server=world.server)
    how = {"how": "hash", "evaluation_fraction": 0.5, "seed": 1}
    second = run(world, policy, steps_helpers.scored_and_split(world.server, games, tmp_path / "again", how))
    record = read_record(world.server, second["evidence"]["uri"], second["evidence"]["sha256"])
    assert record["champion"]["version"] == "2"
    assert record["champion"]["kind"] == "calibrated"
    shared = record["champion"]["n_evaluation_rows_in_its_recalibration_data"]
    assert 0.4 * second["evidence"]["n"] < shared < 0.6 * second["evidence"]["n"], "half of either half"
    champion = record["estimates"]["champion"]
    assert champion["lower_bound_of_calibration_error"] is False
    assert champion["n_bins"] == first["candidate"]["n_bins"]
    assert second["verdict"]["status"] == "inconclusive", "compared on rows that the champion has seen"


def test_a_first_model_without_a_champion_passes_on_its_own(
    world: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    world.client.delete_registered_model_alias("games", "champion")
    policy = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
    done = run(world, policy, steps_helpers.scored_and_split(world.server, games, tmp_path / "first"))
    assert done["verdict"]["status"] == "pass"
    assert done["verdict"]["champion_status"] == "none"
    promotion = promote(done["candidate"], done["verdict"], server=world.server)
    assert (world.champion(), promotion["previous_version"]) == ("2", None)


def test_string_labels_and_groups_go_the_whole_way(world: Any, games: Path, tmp_path: Path, steps_helpers: Any) -> None:
    """N25: labels in the model's own words. Bounds go by group where a group column is named."""
    frame = pd.read_parquet(games)
    frame["label"] = np.where(frame["label"] == 1, "win", "loss")
    data = tmp_path / "words.parquet"
    frame.to_parquet(data, index=False)
    model = steps_helpers.identity_model()
    model.classes_ = np.array(["loss", "win"])
    version = steps_helpers.register_base(world.server, "games", "base models", model)
    predictions = score(
        f"models:/games/{version}",
        str(tmp_path / "predictions"),
        data_uri=str(data),
        key_columns=["row"],
        label_column="label",
        group_column="date",
        positive_class="win",
        champion=f"models:/games/{version}",
        server=world.server,
    )
    partitions = split(predictions, str(tmp_path / "partitions"), split={"how": "hash", "evaluation_fraction": 0.5})
    done = run(world, {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}, partitions)
    record = read_record(world.server, done["evidence"]["uri"])
    assert record["data"]["n_groups"] == record["estimates"]["candidate"]["statistics"]["groups"]["G"] > 900
    assert record["comparisons"]["mse_increase_over_champion"]["n_groups"] == record["data"]["n_groups"]
    assert record["estimates"]["candidate"]["bound_kind"] == "groups"
    calibrator = read_record(world.server, done["candidate"]["uri"])
    assert (calibrator["classes"], calibrator["positive_class"]) == (["loss", "win"], "win")


def test_partitions_that_are_gone_are_named(world: Any, tmp_path: Path) -> None:
    """Missing data: an error that says which file, no run and no version."""
    folder = tmp_path / "moved"
    shutil.copytree(Path(world.partitions["uri"].removeprefix("file://")).parent, folder)
    (folder / "recalibration.parquet").unlink()
    with pytest.raises(Exception, match=r"recalibration\.parquet.*does not exist"):
        fit(str(folder / "manifest.json"), name="games", server=world.server)
    assert world.versions() == ["1"]
