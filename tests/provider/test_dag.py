"""The shipped DAG on real games: pass, fail, inconclusive, with and without a champion."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

DAG_FILE = Path(__file__).resolve().parents[2] / "dags" / "calibrate_and_promote.py"
TASKS = ("score", "split", "fit", "evaluate", "gate", "promote")

pytestmark = pytest.mark.usefixtures("mlflow_connection")


def load() -> DAG:
    """Define the DAG as a user's file does; a retry need not wait here."""
    found: DAG = runpy.run_path(str(DAG_FILE))["dag"]
    for task in found.tasks:
        task.retry_delay = timedelta(0)
    return found


@pytest.fixture
def dag() -> DAG:
    """The DAG as a user's file defines it."""
    return load()


def swapped(games: Any) -> dict[str, Any]:
    """Params by which the evaluation data has its winners swapped."""
    return {
        "data_uri": None,
        "recalibration_uri": games.table("even"),
        "evaluation_uri": games.table("odd_swapped"),
        "split": {"how": "given"},
    }


def states(run: Any) -> dict[str, str | None]:
    return {ti.task_id: None if ti.state is None else str(ti.state) for ti in run.get_task_instances()}


def tries(run: Any, task_id: str) -> int:
    return int(run.get_task_instance(task_id).try_number)


def xcom(run: Any, task_id: str, key: str = "return_value") -> Any:
    return run.get_task_instance(task_id).xcom_pull(task_ids=task_id, key=key)


def test_first_promotion_needs_no_champion(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    """Also P6: a run started by hand has no logical date; and P1, P2: what passes between tasks is small and plain."""
    run = run_dag(dag, **games.conf("first"))
    assert run.logical_date is None
    assert states(run) == dict.fromkeys(TASKS, "success")
    assert games.alias("first") == "1"
    for task_id in TASKS:
        record = xcom(run, task_id)
        assert len(json.dumps(record)) < 1024, task_id
        assert {type(item) for item in record.values()} <= {str, int, float, bool, type(None)}, task_id
    assert xcom(run, "score")["champion_version"] is None
    assert xcom(run, "gate")["status"] == "pass"
    assert xcom(run, "promote")["previous_version"] is None
    assert xcom(run, "promote")["promoted"] is True


def test_a_model_that_says_its_classes_not_is_told_them(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    """A pyfunc model whose predict returns probabilities of declared classes."""
    declared = {"base_model_uri": "models:/games-pyfunc/1", "base_score": "probability", "classes": [0, 1]}
    run = run_dag(dag, **games.conf("pyfunc", **declared))
    assert states(run) == dict.fromkeys(TASKS, "success")
    assert games.alias("pyfunc") == "1"


def test_run_is_named_and_paths_are_stable(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    """P17: run ids hold ':' and '+', paths hold neither."""
    run = run_dag(dag, **games.conf("named"))
    tags = games.client.get_run(xcom(run, "fit")["run_id"]).data.tags
    assert tags["airflow.dag_id"] == "calibrate_and_promote"
    assert tags["airflow.run_id"] == run.run_id
    assert tags["airflow.map_index"] == "-1"
    assert tags["airflow.try_number"] == "1"
    assert ":" in run.run_id
    uris = [xcom(run, task_id)["uri"] for task_id in ("score", "split")]
    for task_id, uri in zip(("score", "split"), uris, strict=True):
        below = uri.partition("/work/")[2]
        assert below.startswith("calibrate_and_promote/")
        assert f"/{task_id}/" in below
        assert not set(below) & set(":+%")


def test_second_run_compares_with_the_champion(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    run_dag(dag, **games.conf("twice"))
    run = run_dag(dag, **games.conf("twice", n_bins=15))
    assert xcom(run, "score")["champion_version"] == "1"
    assert states(run) == dict.fromkeys(TASKS, "success")
    assert games.alias("twice") == "2"
    assert xcom(run, "promote")["previous_version"] == "1"


def test_raw_champion_is_compared_with(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    """Every adopter's first day: the champion is not one of ours."""
    import mlflow

    from mlflow_calib.flavor.tracking import MlflowServer, connected

    with connected(MlflowServer(games.tracking_uri)) as client:
        mlflow.register_model("models:/games-base/1", "raw")
        client.set_registered_model_alias("raw", "champion", "1")
    run = run_dag(dag, **games.conf("raw"))
    assert xcom(run, "score")["champion_version"] == "1"
    assert states(run) == dict.fromkeys(TASKS, "success")
    assert games.alias("raw") == "2"


def test_failing_candidate_is_not_promoted(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    """P9: task and run fail after the verdict is pushed, and nothing is tried again."""
    run_dag(dag, **games.conf("failing"))
    run = run_dag(dag, **games.conf("failing", **swapped(games)))
    assert str(run.state) == "failed"
    assert states(run) == {**dict.fromkeys(TASKS, "success"), "gate": "failed", "promote": "upstream_failed"}
    assert tries(run, "gate") == 1
    verdict = xcom(run, "gate")
    assert (verdict["status"], verdict["blocks"]) == ("fail", True)
    assert len(json.dumps(verdict)) < 1024
    assert games.alias("failing") == "1"


def test_champion_past_its_limit_is_told(
    games: Any, run_dag: Callable[..., Any], dag: DAG, capfd: pytest.CaptureFixture[str]
) -> None:
    run_dag(dag, **games.conf("drifted"))
    capfd.readouterr()
    run = run_dag(dag, **games.conf("drifted", **swapped(games)))
    assert str(xcom(run, "gate")["champion_status"]).startswith("past")
    assert "The champion in use is itself past its limit" in "".join(capfd.readouterr())


def test_inconclusive_blocks(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    run = run_dag(dag, **games.conf("few", data_uri=games.table("few")))
    assert states(run)["gate"] == "failed"
    assert xcom(run, "gate")["status"] == "inconclusive"
    assert games.alias("few") is None
    assert games.client.get_model_version("few", "1").version in ("1", 1)


def test_policy_may_be_a_file(games: Any, run_dag: Callable[..., Any], dag: DAG, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('mode = "dry-run"\n[requirements.calibration_error_upper_bound]\nlimit = 0.0001\n')
    run = run_dag(dag, **games.conf("dry", policy=str(policy)))
    assert (states(run)["gate"], states(run)["promote"]) == ("success", "skipped")
    verdict = xcom(run, "gate")
    assert verdict["status"] != "pass"
    assert verdict["blocks"] is False
    assert xcom(run, "promote")["promoted"] is False
    assert games.alias("dry") is None


def test_days_count_back_from_as_of(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    days = {"how": "time", "recalibration_days": 700, "evaluation_days": 500, "label_delay_days": 1}
    conf = games.conf("days", split=days, as_of="2020-03-01T00:00:00+00:00", time_column="date")
    run = run_dag(dag, **conf)
    assert states(run)["evaluate"] == "success"
    assert xcom(run, "split")["n_evaluation"] > 1000


def test_promotion_is_an_asset_event(games: Any, run_dag: Callable[..., Any], dag: DAG) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    run_dag(dag, **games.conf("told"))
    with create_session() as session:
        asset = session.scalar(select(AssetModel).where(AssetModel.uri == "models:/told@champion"))
        events = session.scalars(select(AssetEvent).where(AssetEvent.asset_id == asset.id)).all()
        extras = [event.extra for event in events]
    assert [(one["version"], one["previous_version"], one["status"]) for one in extras] == [("1", None, "pass")]
    assert type(extras[0]["upper_bound"]) is float


def test_command_line_says_failed(games: Any, airflow_database: Path) -> None:
    """P9: ``airflow dags test`` returns 1, and each task in its own words."""
    environment = {**os.environ, "AIRFLOW__CORE__DAGS_FOLDER": str(DAG_FILE.parent)}
    command = [sys.executable, "-m", "airflow", "dags", "test", "calibrate_and_promote"]
    conf = json.dumps(games.conf("command", **swapped(games)))
    run = subprocess.run([*command, "--conf", conf], check=False, capture_output=True, text=True, env=environment)
    assert run.returncode == 1, run.stderr[-2000:]
    assert "A retry cannot help" in run.stdout + run.stderr
    assert games.alias("command") is None
