"""The command line before any step runs: options, values, exit codes, help."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.cli import main, values
from mlflow_calib.cli.arguments import COMMANDS, build_parser
from mlflow_calib.cli.commands import RUN
from mlflow_calib.cli.main import exit_code
from mlflow_calib.cli.summary import summary


def parse(*argv: str) -> argparse.Namespace:
    return build_parser().parse_args(argv)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert f"example:\n  mlflow-calib {command} " in shown


def test_every_example_is_a_command_that_parses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of --help are real: each parses once the files it names are there."""
    monkeypatch.chdir(tmp_path)
    for name in ("scored", "split", "candidate", "evidence", "verdict"):
        Path(f"{name}.json").write_text("{}")
    for command, (_, example) in COMMANDS.items():
        words = example.replace("\\\n", " ").split(" > ")[0].split()
        assert words[:2] == ["mlflow-calib", command]
        assert parse(*words[1:]).command == command


def test_every_command_has_a_step() -> None:
    assert set(COMMANDS) == set(RUN)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom mlflow_calib.cli.arguments import build_parser\nbuild_parser().format_help()\n"
        "print(*sorted({'mlflow', 'pandas', 'pyarrow', 'airflow', 'matplotlib'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert output.stdout.strip() == ""


def test_key_columns_repeated_or_with_commas() -> None:
    score = ("score", "models:/m/1", "--data", "d.parquet", "--output", "o", "--label", "y")
    expected = ["date", "game"]
    assert parse(*score, "--key", "date,game").key_columns == expected
    assert parse(*score, "--key", "date", "--key", "game").key_columns == expected


@pytest.mark.parametrize(
    ("options", "document"),
    [
        ((), None),
        (("--how", "given"), {"how": "given"}),
        (("--evaluation-fraction", "0.3"), {"how": "hash", "evaluation_fraction": 0.3}),
        (("--how", "hash", "--seed", "7"), {"how": "hash", "seed": 7}),
        (
            ("--recalibration-period", "2016-01-01/2016-07-01", "--evaluation-period", "2016-07-01/2017-01-01"),
            {
                "how": "time",
                "recalibration_period": "2016-01-01/2016-07-01",
                "evaluation_period": "2016-07-01/2017-01-01",
            },
        ),
        (
            ("--recalibration-days", "30", "--evaluation-days", "14", "--label-delay-days", "2"),
            {"how": "time", "recalibration_days": 30, "evaluation_days": 14, "label_delay_days": 2},
        ),
    ],
)
def test_split_options_become_the_split_dict(options: tuple[str, ...], document: dict[str, Any] | None) -> None:
    assert values.split_document(parse("split", "p.json", "--output", "o", *options)) == document


def test_earlier_result_as_uri_json_or_file(tmp_path: Path) -> None:
    document = {"uri": "runs:/a/mlflow_calib/evidence.json", "version": "007"}
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(document))
    assert parse("gate", f"@{path}").evidence == document
    assert parse("gate", json.dumps(document)).evidence == document
    assert parse("gate", document["uri"]).evidence == document["uri"]


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("@absent.json", "cannot be read"),
        ('{"uri": ', "must hold the JSON"),
        (" ", "a URI, a JSON object or @file.json is due"),
    ],
)
def test_a_damaged_earlier_result_is_wrong_use(
    argument: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["gate", argument])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "blocks", "code"),
    [
        ("pass", False, 0),
        ("fail", True, 1),
        ("inconclusive", True, 3),
        ("no verdict", True, 2),
        ("fail", False, 0),
        ("inconclusive", False, 0),
    ],
)
def test_exit_codes_of_the_gate(status: str, blocks: bool, code: int) -> None:
    assert exit_code("gate", {"status": status, "blocks": blocks}) == code


def test_a_gate_without_a_clear_answer_never_exits_0() -> None:
    """The gate fails closed: a result that does not say it blocks nothing is no pass."""
    assert exit_code("gate", {"status": "passed"}) == 2
    assert exit_code("gate", {"status": "pass", "blocks": None}) == 2
    assert exit_code("gate", {}) == 2


def test_a_dry_run_says_so() -> None:
    words = summary("gate", {"status": "fail", "reason": "games version 2: fail", "mode": "dry-run", "blocks": False})
    assert words == "games version 2: fail (dry run: recorded, nothing is blocked)\n  status  fail"
    assert "mode is off" in summary("gate", {"status": "pass", "mode": "off", "blocks": False})


def test_summary_lines_figures_up() -> None:
    words = summary("evaluate", {"n": 20000, "calibration_error": 0.0432, "upper_bound": None, "mse": 0.21})
    assert words.splitlines() == [
        "evaluated the candidate",
        "  rows                      20,000",
        "  calibration error (root)  0.0432",
        "  MSE                       0.21",
    ]


def test_a_squared_limit_is_said_as_such() -> None:
    result = {"status": "pass", "reason": "passed", "calibration_error": 0.0004, "limit": 0.0025, "squared": True}
    assert summary("gate", result).splitlines()[1] == "  squared calibration error  0.0004"
    assert "calibration error (root)" in summary("gate", {**result, "squared": False})


def test_splitting_without_saying_how_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["split", "predictions/manifest.json", "--output", "o"]) == 2
    error = capsys.readouterr().err
    assert error == ("mlflow-calib split: the way to split must be said: add --how hash, --how time or --how given\n")


def test_module_runs_as_the_command() -> None:
    output = subprocess.run(
        [sys.executable, "-m", "mlflow_calib.cli", "--version"], check=True, capture_output=True, text=True
    )
    assert output.stdout.startswith("mlflow-calib ")
