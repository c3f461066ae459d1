"""`mlflow-calib plan`: text for people, JSON for machines, the exit codes of the other commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_calib.cli import main
from mlflow_calib.core.planning import noise_floor_of, rows_to_fit, rows_to_verify
from mlflow_calib.core.theory import rows_for_balance


def test_json_holds_what_the_planner_says(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--n-bins", "20", "--true-error", "0.02", "--pass-probability", "0.9", "--rows", "5000", "--json"]
    assert main(["plan", "--limit", "0.05", *options]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "mlflow_calib.plan/1",
        "limit": 0.05,
        "n_bins": 20,
        "confidence_level": 0.95,
        "true_error": 0.02,
        "pass_probability": 0.9,
        "rows_to_verify": rows_to_verify(0.05, 20, true_error=0.02, pass_probability=0.9),
        "fitted_error": 0.02,
        "rows_to_fit": rows_to_fit(0.02, 20),
        "rows_to_fit_histogram_binning": rows_to_fit(0.02, 20, "histogram-binning"),
        "rows_for_balance": rows_for_balance(20, 0.95),
        "n": 5000,
        "noise_floor": noise_floor_of(5000, 20),
    }


def test_text_says_what_each_number_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--limit", "0.05"]) == 0
    shown = capsys.readouterr().out
    for words in ("rows to verify", "1,298", "rows to fit, scaling-binning", "error to fit to (root)", "0.025"):
        assert words in shown
    assert "least bound" not in shown, "only with --rows"


def test_rates_are_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--limit", "0.05", "--n-bins", "3", "--rates", "0.01,0.05,0.2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_to_verify"] == rows_to_verify(0.05, 3, rates=[0.01, 0.05, 0.2])


def test_what_cannot_be_shown_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--limit", "1e-9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_to_verify"] is None
    assert main(["plan", "--limit", "1e-9"]) == 0
    assert capsys.readouterr().out.startswith("no number of rows up to 1e12")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--limit", "0.05", "--true-error", "0.06"], "--limit must be a positive number above --true-error"),
        (["--limit", "0.05", "--confidence-level", "95"], "--confidence-level must lie in [0.5, 1), got 95"),
        (["--limit", "0.05", "--n-bins", "0"], "--n-bins must be an integer from 1 to 1000, got 0"),
        (["--limit", "0.05", "--rows", "3"], "--rows must be at least one row a bin, 10, got 3"),
        (["--limit", "0.05", "--rates", "0.1,0.2"], "--rates must be 10 numbers in [0, 1]"),
    ],
)
def test_wrong_use_is_2_with_one_line(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mlflow-calib plan: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "options", [[], ["--limit", "five"], ["--limit", "2"], ["--limit", "0"], ["--limit", "0.05", "--rates", "a,b"]]
)
def test_options_that_do_not_parse_are_2(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["plan", *options])
    assert stopped.value.code == 2
    assert "mlflow-calib plan" in capsys.readouterr().err


def test_planning_needs_neither_mlflow_nor_a_server(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom mlflow_calib.cli import main\nassert main(['plan', '--limit', '0.05']) == 0\n"
        "assert not {'mlflow', 'pandas', 'airflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []
