"""fit: one run, one version, and everything the artifact must remember of the data it was fitted on."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import mlflow_calib as mc
from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import resolve_model
from mlflow_calib.flavor.records import read_record, read_record_text
from mlflow_calib.steps import fit

AIRFLOW = {"airflow.dag_id": "flights", "airflow.run_id": "manual__2026-11-30T00:00:00+00:00", "airflow.task_id": "fit"}


def folder_of(partitions: dict[str, Any]) -> Path:
    return Path(partitions["uri"].removeprefix("file://")).parent


def moved(partitions: dict[str, Any], folder: Path) -> str:
    """A copy of partitions, to be damaged; returns the URI of its manifest."""
    shutil.copytree(folder_of(partitions), folder)
    return str(folder / "manifest.json")


def test_the_hand_over_names_run_version_and_record(judged: Any) -> None:
    handed = judged.candidate
    assert handed["schema"] == "mlflow_calib.fit/1"
    assert (handed["name"], handed["version"], handed["model_uri"]) == ("games", "2", "models:/games/2")
    assert handed["uri"] == f"runs:/{handed['run_id']}/mlflow_calib/calibrator.json"
    assert handed["n"] == judged.world.partitions["n_recalibration"]
    assert handed["n_bins"] == 10
    assert len(json.dumps(handed).encode()) < 1024


def test_the_version_is_a_candidate_without_an_alias(judged: Any) -> None:
    version = judged.world.client.get_model_version("games", "2")
    assert version.tags["mlflow_calib.status"] == "candidate"
    assert version.tags["mlflow_calib.run_id"] == judged.candidate["run_id"]
    assert version.tags["mlflow_calib.calibrator.method"] == "scaling-binning"
    assert version.tags["mlflow_calib.calibrator.base_model_id"]
    assert not version.aliases
    assert judged.world.champion() == "1"


def test_the_artifact_remembers_its_data(judged: Any) -> None:
    manifest = json.loads(Path(judged.world.partitions["uri"].removeprefix("file://")).read_text())
    facts = read_record(judged.world.server, judged.candidate["uri"], judged.candidate["sha256"])["facts"]
    assert facts["partitions"]["sha256"] == judged.world.partitions["sha256"]
    own = {**facts["recalibration_keys"], "uri": manifest["recalibration_keys"]["uri"]}
    assert own == manifest["recalibration_keys"]
    assert facts["recalibration_keys"]["uri"].endswith("/mlflow_calib/recalibration_keys.parquet")
    assert set(facts["recalibration_keys"]) >= {"uri", "sha256", "n"}
    assert facts["keys"] == "verified"
    assert facts["scored_base_model"]["uri"] == "models:/games/1"
    assert facts["data_uri"].endswith("recalibration.parquet")
    assert facts["n"] == judged.candidate["n"]


def test_the_logged_model_holds_the_same_calibrator(judged: Any) -> None:
    server = judged.world.server
    recorded = read_record_text(server, judged.candidate["uri"])
    inside = read_record_text(server, "models:/games/2/data/bundle/calibrator.json")
    assert inside == recorded
    document = json.loads(inside)
    assert document["base_model"]["digest"] == resolve_model(server, "models:/games/1").digest


def test_disjoint_parts_are_those_of_the_part_column(judged: Any) -> None:
    """Parts by sorted keys and the column of the file are the same: refitting with the column changes nothing."""
    rows = pq.read_table(folder_of(judged.world.partitions) / "recalibration.parquet").to_pandas()
    document = read_record(judged.world.server, judged.candidate["uri"])
    assert (document["parts_requested"], document["parts"]) == ("auto", "disjoint")
    again = mc.fit_calibrator(rows["score_1"], rows["label"], parts=rows["part"].to_numpy(), n_bins=10)
    assert again.to_dict()["maps"] == document["maps"]
    assert document["facts"]["n_parts"] == rows["part"].value_counts().sort_index().tolist()


def test_the_rival_has_as_many_bins_and_is_histogram_binning(judged: Any) -> None:
    server = judged.world.server
    rival = read_record(server, f"runs:/{judged.candidate['run_id']}/mlflow_calib/rival.json")
    assert (rival["method"], rival["n_bins_requested"]) == ("histogram-binning", 10)
    assert rival["facts"]["partitions"] == read_record(server, judged.candidate["uri"])["facts"]["partitions"]


def test_metrics_name_their_model_and_are_finite(judged: Any) -> None:
    client, handed = judged.world.client, judged.candidate
    run = client.get_run(handed["run_id"])
    assert run.info.status == "FINISHED"
    metrics = {metric.key: metric for metric in client.get_logged_model(handed["model_id"]).metrics}
    assert set(run.data.metrics) == set(metrics), "every metric of the run names the model"
    assert all(math.isfinite(metric.value) for metric in metrics.values())
    assert metrics["recalibration_n"].value == handed["n"]
    assert run.data.params["parts"] == "disjoint"


def test_a_retry_finds_its_run_and_its_version(world: Any) -> None:
    """P11: the same task on the same data, whatever the number of the try, is one run and one version."""
    first = fit(world.partitions, name="games", run_tags={**AIRFLOW, "airflow.try_number": "1"}, server=world.server)
    second = fit(world.partitions, name="games", run_tags={**AIRFLOW, "airflow.try_number": "2"}, server=world.server)
    assert second == first
    assert len(world.runs()) == 1
    assert world.versions() == ["1", "2"]


def test_a_try_that_failed_leaves_no_version_and_its_run_is_taken_up(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11: the first try dies just before it registers; the second one finishes the same run."""

    def gone(*_: object, **__: object) -> str:
        raise ConnectionError("the registry does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(sys.modules[fit.__module__], "register_candidate", gone)
        with pytest.raises(ConnectionError):
            fit(world.partitions, name="games", run_tags=AIRFLOW, server=world.server)
    (failed,) = world.runs()
    assert failed.info.status == "FAILED"
    assert world.versions() == ["1"]
    done = fit(world.partitions, name="games", run_tags=AIRFLOW, server=world.server)
    (run,) = world.runs()
    assert (run.info.run_id, run.info.status) == (failed.info.run_id, "FINISHED")
    assert done["run_id"] == run.info.run_id
    assert world.versions() == ["1", "2"]


def test_changed_input_is_a_new_run(world: Any, games: Path, tmp_path: Path, steps_helpers: Any) -> None:
    """P12: the task is cleared after the data changed: new run, new version, new figures."""
    first = fit(world.partitions, name="games", run_tags=AIRFLOW, server=world.server)
    frame = pd.read_parquet(games)
    frame.loc[::5, "label"] = 1 - frame.loc[::5, "label"]
    changed = tmp_path / "changed.parquet"
    frame.to_parquet(changed, index=False)
    partitions = steps_helpers.scored_and_split(world.server, changed, tmp_path / "changed")
    second = fit(partitions, name="games", run_tags=AIRFLOW, server=world.server)
    assert second["run_id"] != first["run_id"]
    assert second["version"] != first["version"]
    assert second["sha256"] != first["sha256"]


def test_other_arguments_are_a_new_run(world: Any) -> None:
    first = fit(world.partitions, name="games", run_tags=AIRFLOW, server=world.server)
    second = fit(world.partitions, name="games", calibrator={"n_bins": 5}, run_tags=AIRFLOW, server=world.server)
    assert (second["n_bins"], second["run_id"] != first["run_id"]) == (5, True)


def test_without_tags_of_a_task_each_call_is_a_run(world: Any) -> None:
    first = fit(world.partitions, name="games", server=world.server)
    second = fit(world.partitions, name="games", run_tags={"team": "a"}, server=world.server)
    assert first["run_id"] != second["run_id"]
    assert (first["version"], second["version"]) == ("2", "3")


def test_a_stopped_process_leaves_a_killed_run(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """P10: what stops the process is no error of the work; the run says so, and nothing is registered."""

    def stopped(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[fit.__module__], "register_candidate", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit(world.partitions, name="games", server=world.server)
    (run,) = world.runs()
    assert run.info.status == "KILLED"
    assert world.versions() == ["1"]


def test_changed_rows_are_refused(world: Any, tmp_path: Path) -> None:
    """A partition that is not the one its manifest speaks of is not fitted on."""
    uri = moved(world.partitions, tmp_path / "changed")
    path = tmp_path / "changed" / "recalibration.parquet"
    rows = pq.read_table(path).to_pandas()
    rows.loc[0, "label"] = 1 - rows.loc[0, "label"]
    rows.to_parquet(path, index=False)
    with pytest.raises(DataError, match=r"recalibration\.parquet must have digest"):
        fit(uri, name="games", server=world.server)
    assert [run.info.status for run in world.runs()] == ["FAILED"]
    assert world.versions() == ["1"]


def test_a_changed_manifest_is_refused_before_any_run(world: Any, tmp_path: Path) -> None:
    uri = moved(world.partitions, tmp_path / "changed")
    Path(uri).write_text(Path(uri).read_text() + " ")
    with pytest.raises(DataError, match="must have digest"):
        fit({**world.partitions, "uri": uri}, name="games", server=world.server)
    assert world.runs() == []


def test_a_base_model_that_is_not_the_scored_one_is_refused(world: Any, tmp_path: Path) -> None:
    uri = moved(world.partitions, tmp_path / "changed")
    document = json.loads(Path(uri).read_text())
    document["base_model"]["digest"] = "sha256:0"
    Path(uri).write_text(json.dumps(document))
    with pytest.raises(ModelError, match="not the one that was scored"):
        fit(uri, name="games", server=world.server)
    assert [run.info.status for run in world.runs()] == ["FAILED"]
    assert world.versions() == ["1"]


def test_wrong_arguments_are_named_all_at_once(world: Any) -> None:
    wrong = {"bins": 10, "reduction": "marginal", "parts": [1, 2, 3]}
    with pytest.raises(InvalidInputError) as error:
        fit(world.partitions, name="", calibrator=wrong, server=world.server)
    message = str(error.value)
    assert message.startswith("4 problems")
    assert all(part in message for part in ("'bins'", 'reduction must be "binary"', "parts must be", "name must be"))
    assert world.runs() == []


@pytest.mark.parametrize("name", ["a/b", "a:b", "a@b", "x" * 300, "é#?x", "é" * 40, " x", "..", "a\nb", "'\"", 5, None])
def test_a_name_that_no_model_can_have_is_refused_before_anything_is_logged(world: Any, name: Any) -> None:
    before = [found.name for found in world.client.search_experiments()]
    with pytest.raises(InvalidInputError, match="name must be that of a registered model"):
        fit(world.partitions, name=name, server=world.server)
    assert [found.name for found in world.client.search_experiments()] == before


def test_an_experiment_name_that_mlflow_refuses_is_refused_first(world: Any) -> None:
    with pytest.raises(InvalidInputError, match="experiment must be a name of 1 to 500 characters"):
        fit(world.partitions, name="games", experiment="x" * 501, server=world.server)


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        ("x", "calibrator must be a table of arguments"),
        (["n_bins"], "calibrator must be a table of arguments"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": [1]}, "seed must be a whole number"),
        ({"n_bins": "x"}, "n_bins"),
        ({"method": ["a"]}, "method"),
    ],
)
def test_arguments_of_another_kind_are_named(world: Any, calibrator: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        fit(world.partitions, name="games", calibrator=calibrator, server=world.server)
    assert world.versions() == ["1"]


@pytest.mark.parametrize("value", [None, "", "None"])
def test_nothing_handed_over_says_so(world: Any, value: Any) -> None:
    with pytest.raises(InvalidInputError, match="partitions must be the result of step 'split', got nothing"):
        fit(value, name="games", server=world.server)


def test_partitions_by_uri_and_by_json_give_the_same_calibrator(world: Any) -> None:
    by_uri = fit(world.partitions["uri"], name="games", server=world.server)
    by_json = fit(json.dumps(world.partitions), name="games", server=world.server)
    values = [np.array(read_record(world.server, handed["uri"])["maps"][0]["values"]) for handed in (by_uri, by_json)]
    assert np.array_equal(*values)


def test_no_server_named_is_an_error_and_writes_nothing(world: Any) -> None:
    """P13: nothing is logged to a local file in place of the server that nobody named."""
    with pytest.raises(InvalidInputError, match="MLFLOW_TRACKING_URI must name the MLflow server"):
        fit(world.partitions, name="games")
