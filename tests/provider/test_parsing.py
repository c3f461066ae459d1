"""DAGs parse cheaply, whatever their templates will hold."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Param

from mlflow_calib.provider.operators.base import CalibrationOperator
from mlflow_calib.provider.operators.evaluate import CalibrationEvaluateOperator
from mlflow_calib.provider.operators.fit import CalibrationFitOperator
from mlflow_calib.provider.operators.gate import CalibrationGateOperator
from mlflow_calib.provider.operators.promote import PromoteModelOperator
from mlflow_calib.provider.operators.score import ScoreModelOperator
from mlflow_calib.provider.operators.split import CalibrationSplitOperator

ROOT = Path(__file__).resolve().parents[2]
DAG_FILE = ROOT / "dags" / "calibrate_and_promote.py"
OPERATORS: list[type[CalibrationOperator]] = [
    *(ScoreModelOperator, CalibrationSplitOperator, CalibrationFitOperator),
    *(CalibrationEvaluateOperator, CalibrationGateOperator, PromoteModelOperator),
]
HEAVY = ("mlflow", "numpy", "pandas", "sklearn", "scipy", "matplotlib", "pyarrow")


def parameters(operator: type[CalibrationOperator]) -> list[inspect.Parameter]:
    found = inspect.signature(inspect.unwrap(operator.__init__)).parameters.values()
    return [one for one in found if one.name not in ("self", "kwargs")]


def test_parsing_the_shipped_dag_imports_nothing_heavy() -> None:
    """Of what the operators add: Airflow itself is imported first."""
    code = (
        "import sys, airflow.sdk, airflow.sdk.bases.operator, runpy\n"
        f"before = {{name for name in {HEAVY!r} if name in sys.modules}}\n"
        f"dag = runpy.run_path({str(DAG_FILE)!r})['dag']\n"
        f"print(len(dag.tasks), sorted({{name for name in {HEAVY!r} if name in sys.modules}}))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert output.splitlines()[-1] == "6 []"


def test_shipped_dag_loads_without_errors() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(DAG_FILE))
    assert bag.import_errors == {}
    dag = bag.dags["calibrate_and_promote"]
    assert [task.task_id for task in dag.topological_sort()] == [
        *("score", "split", "fit", "evaluate", "gate", "promote"),
    ]
    assert (dag.max_active_runs, dag.catchup, dag.timetable.can_be_scheduled) == (1, False, False)


def test_every_param_is_explained() -> None:
    for name, param in runpy.run_path(str(DAG_FILE))["PARAMS"].items():
        assert param.description, name
        assert param.schema.get("title"), name
        assert param.schema.get("type"), name


def test_examples_of_the_documentation_hold() -> None:
    """The params it shows are accepted, all that are required among them, and its DAG of a model parses."""
    names = runpy.run_path(str(DAG_FILE))
    blocks = dict(re.findall(r"```(json|python)\n(.*?)```", names["DOC"], flags=re.DOTALL))
    shown = json.loads(blocks["json"])
    for name, value in shown.items():
        names["PARAMS"][name].resolve(value)
    required = {name for name, param in names["PARAMS"].items() if "null" not in param.schema["type"]}
    assert {name for name in required if not names["PARAMS"][name].has_value} == set()
    for split in re.findall(r'`(\{"how".*?\})`', names["DOC"]):
        names["PARAMS"]["split"].resolve(json.loads(split))
    code: dict[str, Any] = {}
    exec(blocks["python"], code)  # noqa: S102  # our own text
    assert code["DAG"] is DAG


@pytest.mark.parametrize("operator", OPERATORS)
def test_arguments_are_keywords_and_templates(operator: type[CalibrationOperator]) -> None:
    names = {one.name for one in parameters(operator)} | {"mlflow_conn_id"}
    assert all(one.kind is inspect.Parameter.KEYWORD_ONLY for one in parameters(operator))
    assert set(operator.template_fields) == names - {"on_failure"}


@pytest.mark.parametrize("operator", OPERATORS)
def test_init_only_assigns(operator: type[CalibrationOperator]) -> None:
    """P4: any template parses, in any field; nothing is looked at before it is rendered."""
    given: dict[str, Any] = {one.name: f"{{{{ params.{one.name} }}}}" for one in parameters(operator)}
    task = operator(task_id="task", mlflow_conn_id="{{ var.value.m }}", **given)
    assert {name: getattr(task, name) for name in given} == given
    assert task.mlflow_conn_id == "{{ var.value.m }}"


def test_ids_are_texts_even_where_the_dag_renders_native_objects() -> None:
    """P5."""
    run_id = "1234e567890123456789012345678901"
    params = {"run": Param(run_id), "version": Param("007"), "limit": Param(0.1), "name": Param("123")}
    with DAG("native", schedule=None, params=params, render_template_as_native_obj=True):
        fit = CalibrationFitOperator(
            task_id="fit", partitions="runs:/{{ params.run }}", model_name="{{ params.name }}", calibrator="{{ {} }}"
        )
        gate = CalibrationGateOperator(
            task_id="gate",
            evidence={"run_id": "{{ params.run }}", "version": "{{ params.version }}"},
            policy={"requirements": {"calibration_error_upper_bound": {"limit": "{{ params.limit }}"}}},
        )
    context: Any = {"params": {"run": run_id, "version": "007", "limit": 0.1, "name": "123"}}
    fit.render_template_fields(context)
    gate.render_template_fields(context)
    assert (fit.partitions, fit.model_name, fit.calibrator) == (f"runs:/{run_id}", "123", "{}")
    assert gate.evidence == {"run_id": run_id, "version": "007"}


def test_undefined_variables_still_fail() -> None:
    import jinja2

    with DAG("undefined", schedule=None):
        task = CalibrationFitOperator(task_id="fit", partitions="{{ logical_date_of_nothing }}", model_name="m")
    with pytest.raises(jinja2.UndefinedError):
        task.render_template_fields({})
