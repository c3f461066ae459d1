"""The gate in DAGs of other shapes: skipping, retries, reports, one run of MLflow a recalibration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, task

from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.provider.operators.fit import CalibrationFitOperator
from mlflow_calib.provider.operators.gate import CalibrationGateOperator
from mlflow_calib.provider.operators.promote import PromoteModelOperator

pytestmark = pytest.mark.usefixtures("mlflow_connection")
STRICT = {"requirements": {"calibration_error_upper_bound": {"limit": "{{ params.limit }}"}}}


@pytest.fixture(scope="session")
def partitions(games: Any) -> dict[str, Any]:
    """Half of the games for recalibration, half for evaluation."""
    from mlflow_calib.steps import score, split

    server = MlflowServer(games.tracking_uri)
    predictions = score(
        "models:/games-base/1",
        str(games.folder / "gate" / "score"),
        data_uri=games.table("games"),
        key_columns=["game"],
        label_column="label",
        champion="models:/gated@champion",
        server=server,
    )
    return split(predictions, str(games.folder / "gate" / "split"), split={"how": "hash", "evaluation_fraction": 0.5})


@pytest.fixture(scope="session")
def candidate(games: Any, partitions: dict[str, Any]) -> dict[str, Any]:
    from mlflow_calib.steps import fit

    return fit(partitions, name="gated", server=MlflowServer(games.tracking_uri))


@pytest.fixture(scope="session")
def evidence(games: Any, partitions: dict[str, Any], candidate: dict[str, Any]) -> dict[str, Any]:
    from mlflow_calib.steps import evaluate

    return evaluate(partitions, candidate, server=MlflowServer(games.tracking_uri))


def states(run: Any) -> dict[str, str | None]:
    return {ti.task_id: None if ti.state is None else str(ti.state) for ti in run.get_task_instances()}


def test_skip_reaches_direct_relatives_alone(evidence: dict[str, Any], run_dag: Callable[..., Any]) -> None:
    """P7, P8: a join and a teardown run, and the verdict is there for a report."""
    with DAG("skips", schedule=None, params={"limit": 0.0001}) as dag:
        gate = CalibrationGateOperator(task_id="gate", evidence=evidence, policy=STRICT, on_failure="skip")
        promote = EmptyOperator(task_id="promote")
        other = EmptyOperator(task_id="other")
        join = EmptyOperator(task_id="join", trigger_rule="none_failed")
        clean = EmptyOperator(task_id="clean").as_teardown()

        @task(trigger_rule="all_done")
        def report(verdict: dict[str, Any]) -> str:
            return str(verdict["status"])

        gate >> promote >> [join, report(gate.output)]
        other >> join
        gate >> clean
    run = run_dag(dag)
    assert states(run) == {
        "gate": "success",
        "promote": "skipped",
        "report": "skipped",  # it takes the verdict, so it stands right after the gate
        "other": "success",
        "join": "success",
        "clean": "success",
    }
    verdict = run.get_task_instance("gate").xcom_pull(task_ids="gate")
    assert verdict["blocks"] is True
    assert verdict["status"] in ("fail", "inconclusive")


def test_report_further_down_reads_the_verdict(evidence: dict[str, Any], run_dag: Callable[..., Any]) -> None:
    """P8."""
    with DAG("reports", schedule=None, params={"limit": 0.0001}) as dag:
        gate = CalibrationGateOperator(task_id="gate", evidence=evidence, policy=STRICT, on_failure="skip")

        @task(trigger_rule="none_failed")
        def report(**context: Any) -> str:
            return str(context["ti"].xcom_pull(task_ids="gate")["status"])

        gate >> EmptyOperator(task_id="promote") >> report()
    run = run_dag(dag)
    assert states(run)["report"] == "success"
    assert run.get_task_instance("report").xcom_pull(task_ids="report") in ("fail", "inconclusive")


def test_gate_fails_once_whatever_the_retries(evidence: dict[str, Any], run_dag: Callable[..., Any]) -> None:
    """P9; and P4: the limit is a template inside the policy."""
    with DAG("fails", schedule=None, params={"limit": 0.0001}, default_args={"retries": 3}) as dag:
        CalibrationGateOperator(task_id="gate", evidence=evidence, policy=STRICT)
    run = run_dag(dag)
    gate = run.get_task_instance("gate")
    assert (str(gate.state), gate.try_number) == ("failed", 1)
    assert gate.xcom_pull(task_ids="gate")["blocks"] is True
    assert states(run_dag(dag, limit=0.2)) == {"gate": "success"}


@pytest.mark.parametrize("on_failure", ["fail", "skip"])
def test_no_verdict_fails_closed(games: Any, run_dag: Callable[..., Any], on_failure: str, tmp_path: Path) -> None:
    damaged = tmp_path / "evidence.json"
    damaged.write_text('{"schema": "mlflow_calib.evidence/1"}')
    with DAG(f"closed_{on_failure}", schedule=None, default_args={"retries": 3}) as dag:
        gate = CalibrationGateOperator(task_id="gate", evidence=str(damaged), on_failure=on_failure)
        gate >> EmptyOperator(task_id="promote")
    run = run_dag(dag)
    assert states(run) == {"gate": "failed", "promote": "upstream_failed"}
    assert run.get_task_instance("gate").try_number == 1


def test_unknown_reaction_is_refused(evidence: dict[str, Any], run_dag: Callable[..., Any]) -> None:
    with DAG("unknown", schedule=None) as dag:
        CalibrationGateOperator(task_id="gate", evidence=evidence, on_failure="shrug")
    assert states(run_dag(dag)) == {"gate": "failed"}


def retried(partitions: dict[str, Any], operator: type[CalibrationFitOperator], name: str) -> DAG:
    with DAG(name, schedule=None) as dag:
        operator(
            task_id="fit",
            partitions=partitions,
            model_name=name,
            retries=1,
            retry_delay=timedelta(0),
        )
    return dag


def one_finished_run(games: Any, name: str) -> bool:
    """Whether the experiment holds one run, finished, and the registered model one version."""
    experiment = games.client.get_experiment_by_name(name)
    runs = games.client.search_runs([experiment.experiment_id])
    versions = games.client.search_model_versions(f"name='{name}'")
    return [run.info.status for run in runs] == ["FINISHED"] and len(versions) == 1


def test_retry_finds_the_run_it_had_opened(
    games: Any, partitions: dict[str, Any], run_dag: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P11: the server goes away after the run was created, before the version is registered."""
    step = sys.modules["mlflow_calib.steps.fit"]
    register, calls = step.register_candidate, []

    def interrupted(*given: Any, **more: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise ConnectionError("the server went away")
        return register(*given, **more)

    monkeypatch.setattr(step, "register_candidate", interrupted)
    run = run_dag(retried(partitions, CalibrationFitOperator, "opened"))
    fit = run.get_task_instance("fit")
    assert (str(fit.state), fit.try_number, len(calls)) == ("success", 2, 2)
    assert one_finished_run(games, "opened")


def test_retry_finds_the_version_it_had_registered(
    games: Any, partitions: dict[str, Any], run_dag: Callable[..., Any]
) -> None:
    """P11: the worker dies after the step is done."""

    class Interrupted(CalibrationFitOperator):
        def run_step(self, context: Any) -> dict[str, Any]:
            result = super().run_step(context)
            if context["ti"].try_number == 1:
                raise ConnectionError("the worker went away")
            return result

    run = run_dag(retried(partitions, Interrupted, "registered"))
    fit = run.get_task_instance("fit")
    assert (str(fit.state), fit.try_number) == ("success", 2)
    assert one_finished_run(games, "registered")


def test_asset_outlet_carries_version_and_figures(
    evidence: dict[str, Any], candidate: dict[str, Any], run_dag: Callable[..., Any]
) -> None:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    lenient = {"requirements": {"calibration_error_upper_bound": {"limit": 0.2}}}
    with DAG("outlet", schedule=None) as dag:
        gate = CalibrationGateOperator(task_id="gate", evidence=evidence, policy=lenient)
        PromoteModelOperator(
            task_id="promote", candidate=candidate, verdict=gate.output, outlets=[Asset("models:/gated@champion")]
        )
    assert states(run_dag(dag)) == {"gate": "success", "promote": "success"}
    with create_session() as session:
        asset = session.scalar(select(AssetModel).where(AssetModel.uri == "models:/gated@champion"))
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.asset_id == asset.id)).all()
        extra = event.extra
    assert (extra["name"], extra["alias"], extra["version"]) == ("gated", "champion", candidate["version"])
    assert extra["calibration_error"] <= extra["upper_bound"] <= extra["limit"] == 0.2
