"""What a user gets wrong fails once, in one sentence that says what to do, and moves no alias."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DAG_FILE = Path(__file__).resolve().parents[2] / "dags" / "calibrate_and_promote.py"

pytestmark = pytest.mark.usefixtures("mlflow_connection")


@pytest.mark.parametrize(
    ("task_id", "changes", "words"),
    [
        ("score", {"data_uri": "/nowhere/games.parquet"}, ["/nowhere/games.parquet"]),
        ("score", {"data_uri": None}, ["data_uri"]),
        ("score", {"key_columns": ["match"]}, ["match", "game"]),
        ("score", {"label_column": "won"}, ["won", "label"]),
        ("score", {"label_column": "won", "key_columns": ["match"]}, ["won", "match"]),
        ("score", {"base_model_uri": "models:/no-such-model/1"}, ["no-such-model"]),
        ("score", {"base_model_uri": "models:/games-base/99"}, ["99"]),
        ("score", {"mlflow_conn_id": "missing"}, ["'missing'", "connections add"]),
        ("score", {"positive_class": "yes"}, ["yes"]),
        ("evaluate", {"policy": {"requirements": {"calibration_eror": {}}}}, ["calibration_eror"]),
        ("evaluate", {"policy": "/nowhere/policy.toml"}, ["/nowhere/policy.toml"]),
    ],
)
def test_fails_once_in_a_clear_sentence(
    games: Any,
    run_dag: Callable[..., Any],
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    task_id: str,
    changes: dict[str, Any],
    words: list[str],
) -> None:
    """P13 among others."""
    monkeypatch.chdir(tmp_path)
    whole = runpy.run_path(str(DAG_FILE))["dag"]
    dag = whole.partial_subset([task_id], include_upstream=True)
    run = run_dag(dag, **games.conf("refused", **changes))
    output = "".join(capfd.readouterr())
    failed = run.get_task_instance(task_id)
    assert (str(failed.state), failed.try_number) == ("failed", 1)
    assert "A retry cannot help" in output
    assert [word for word in words if word not in output] == []
    assert games.alias("refused") is None
    assert list(tmp_path.iterdir()) == []


def test_params_are_checked_before_anything_runs(games: Any, run_dag: Callable[..., Any]) -> None:
    conf = games.conf("refused", split={"how": "hash", "evaluation_fractoin": 0.5})
    with pytest.raises(ValueError, match="evaluation_fractoin"):
        run_dag(runpy.run_path(str(DAG_FILE))["dag"], **conf)
