"""The commands for real, on real predictions: what they print, and the exit code that a script reads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mlflow_calib.cli import main
from mlflow_calib.cli.commands import RUN
from mlflow_calib.steps import fit

Command = Callable[..., int]
PASSING = "[requirements.calibration_error_upper_bound]\nlimit = 0.10\n"
UNDECIDED = "[requirements.calibration_error_upper_bound]\nlimit = 0.015\n"
FAILING = PASSING + "[requirements.mse_increase_over_champion]\nlimit = -0.9\n"


@pytest.fixture
def policy(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return str(path)

    return write


def told(result: dict[str, Any], tmp_path: Path, name: str) -> str:
    """The hand-over as a file, the way a shell keeps it."""
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(result))
    return f"@{path}"


def test_the_whole_route_from_a_shell(world: Any, games: Path, tmp_path: Path, policy: Callable[[str], str]) -> None:
    """Six commands, each reading what the one before printed; the environment names the server."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": world.server.tracking_uri}

    def command(*arguments: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "mlflow_calib.cli", *arguments, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        (line,) = done.stdout.splitlines()
        (tmp_path / f"{arguments[0]}.json").write_text(line)
        return json.loads(line)

    def at(name: str) -> str:
        return f"@{tmp_path / name}.json"

    columns = ("--key", "row", "--label", "label", "--time", "date")
    where = ("--data", str(games), "--output", str(tmp_path / "predictions"))
    command("score", "models:/games/1", *where, *columns, "--champion", "models:/games@champion")
    periods = ("--recalibration-period", "2015-10-01/2018-07-01", "--evaluation-period", "2018-07-01/2022-07-01")
    command("split", at("score"), "--output", str(tmp_path / "partitions"), "--how", "time", *periods)
    command("fit", at("split"), "--name", "games", "--n-bins", "5", "--tag", "team=a")
    command("evaluate", at("split"), at("fit"))
    verdict = command("gate", at("evaluate"), "--policy", policy(PASSING))
    assert verdict["status"] == "pass"
    assert world.champion() == "1"
    promoted = command("promote", at("fit"), at("gate"), "--promoted-by", "anna")
    assert (promoted["version"], world.champion()) == ("2", "2")


@pytest.mark.parametrize(
    ("rules", "code", "word"),
    [
        (PASSING, 0, "pass"),
        (FAILING, 1, "fail"),
        (UNDECIDED, 3, "inconclusive"),
        (f'mode = "dry-run"\n{FAILING}', 0, "dry run: recorded, nothing is blocked"),
        (f'mode = "off"\n{FAILING}', 0, "nothing is blocked"),
        ('mode = "on"\n', 2, ""),
        ("[requirements.evidence_age_days]\nlimit = 0\n", 2, "no verdict"),
    ],
    ids=["pass", "fail", "inconclusive", "dry-run", "off", "wrong policy", "stale"],
)
def test_the_exit_code_of_the_gate(
    judged: Any,
    tmp_path: Path,
    policy: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    rules: str,
    code: int,
    word: str,
) -> None:
    evidence = told(judged.evidence, tmp_path, "evidence")
    server = ("--tracking-uri", judged.world.server.tracking_uri)
    assert main(["gate", evidence, "--policy", policy(rules), *server]) == code
    printed = capsys.readouterr()
    assert word in printed.out
    assert "Traceback" not in printed.err
    if code == 0 or word:
        assert "calibration error (root)" in printed.out or "off" in rules
        assert "limit" in printed.out


def test_json_is_one_object_and_nothing_else(judged: Any, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--tracking-uri", judged.world.server.tracking_uri)
    assert main(["gate", json.dumps(judged.evidence), "--json", *server]) in (0, 1, 3)
    assert json.loads(capsys.readouterr().out)["schema"] == "mlflow_calib.gate/1"


def test_a_refused_promotion_is_one_line_and_code_2(
    judged: Any, tmp_path: Path, policy: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--tracking-uri", judged.world.server.tracking_uri)
    main(["gate", json.dumps(judged.evidence), "--policy", policy(FAILING), "--json", *server])
    verdict = told(json.loads(capsys.readouterr().out), tmp_path, "verdict")
    assert main(["promote", judged.candidate["model_uri"], verdict, *server]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("mlflow-calib promote: the verdict blocks the promotion: games version 2: fail")
    assert judged.world.champion() == "1"


def test_a_dry_run_moves_nothing_and_says_what_enforce_would_have_done(
    judged: Any, tmp_path: Path, policy: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--tracking-uri", judged.world.server.tracking_uri)
    evidence, rules = json.dumps(judged.evidence), policy(f'mode = "dry-run"\n{FAILING}')
    assert main(["gate", evidence, "--policy", rules, "--json", *server]) == 0
    verdict = told(json.loads(capsys.readouterr().out), tmp_path, "verdict")
    assert main(["promote", judged.candidate["model_uri"], verdict, *server]) == 0
    first, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "alias champion of games does not move to version 2 "
        "(dry-run: the alias stays; enforce would have refused (verdict: fail))"
    )


def test_the_champion_is_evaluated_by_its_alias(
    judged: Any, games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On rows that nobody has seen; the candidate said twice, or not at all, is wrong use."""
    server = ("--tracking-uri", judged.world.server.tracking_uri)
    judged.world.client.set_registered_model_alias("games", "champion", "2")
    frame = pd.read_parquet(games)
    frame.assign(row=frame["row"] + 1_000_000).to_parquet(tmp_path / "newer.parquet", index=False)
    where = ("--data", str(tmp_path / "newer.parquet"), "--output", str(tmp_path / "predictions"))
    assert main(["score", "models:/games/1", *where, "--key", "row", "--label", "label", "--json", *server]) == 0
    scored = told(json.loads(capsys.readouterr().out), tmp_path, "scored")
    assert main(["split", scored, "--how", "hash", "--output", str(tmp_path / "split"), "--json", *server]) == 0
    partitions = told(json.loads(capsys.readouterr().out), tmp_path, "split")
    champion = ("--candidate", "models:/games@champion")
    assert main(["evaluate", partitions, *champion, "--json", *server]) == 0
    handed = json.loads(capsys.readouterr().out)
    assert (handed["role"], handed["model_uri"]) == ("champion", "models:/games/2")
    assert main(["gate", told(handed, tmp_path, "evidence"), "--json", *server]) in (0, 1, 3)
    assert main(["evaluate", partitions, *server]) == 2
    assert main(["evaluate", partitions, "models:/games/2", *champion, *server]) == 2
    assert capsys.readouterr().err.count("the candidate must be said once") == 2


def test_a_store_that_does_not_exist_is_wrong_use(
    judged: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--tracking-uri", f"sqlite:///{tmp_path}/nope.db")
    assert main(["gate", json.dumps(judged.evidence), *server]) == 2
    assert main(["evaluate", json.dumps(judged.world.partitions), json.dumps(judged.candidate), *server]) == 2
    assert "mlflow db upgrade" in capsys.readouterr().err
    assert not (tmp_path / "nope.db").exists()


def test_a_wrong_argument_is_one_line_and_code_2(world: Any, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--tracking-uri", world.server.tracking_uri)
    wrong = ("--method", "isotonic", "--n-bins", "0")
    assert main(["fit", json.dumps(world.partitions), "--name", "games", *wrong, *server]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mlflow-calib")]
    assert "isotonic" in line
    assert world.versions() == ["1"]


def test_no_server_is_wrong_use_with_both_remedies(judged: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """P13: no connection named is a clear error, and nothing is written to a local file."""
    assert main(["gate", json.dumps(judged.evidence)]) == 2
    assert "MLFLOW_TRACKING_URI must name the MLflow server" in capsys.readouterr().err


def test_an_error_nobody_foresaw_is_code_1_but_never_a_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 1 of the gate says fail; what broke on the way is no verdict, hence 2."""

    def breaks(_: Any) -> Any:
        raise RuntimeError("a bug")

    for command in ("gate", "fit"):
        monkeypatch.setitem(RUN, command, breaks)
    assert main(["gate", "runs:/1/evidence.json"]) == 2
    assert main(["fit", "partitions.json", "--name", "games"]) == 1
    error = capsys.readouterr().err
    assert "a bug" in error
    assert "Traceback" not in error
    assert main(["fit", "partitions.json", "--name", "games", "--traceback"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_environment_and_options_name_the_server(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", judged.world.server.tracking_uri)
    assert main(["gate", json.dumps(judged.evidence)]) in (0, 1, 3)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////nowhere/mlflow.db")
    uri = judged.world.server.tracking_uri
    assert main(["gate", json.dumps(judged.evidence), "--tracking-uri", uri, "--registry-uri", uri]) in (0, 1, 3)


def test_a_terminated_command_leaves_a_killed_run(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """P10: SIGTERM during the work ends the MLflow run as KILLED, and the command with the shell's code."""

    def terminated(*_: object, **__: object) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "unreachable"

    monkeypatch.setattr(sys.modules[fit.__module__], "register_candidate", terminated)
    with pytest.raises(SystemExit) as stopped:
        main(["fit", json.dumps(world.partitions), "--name", "games", "--tracking-uri", world.server.tracking_uri])
    assert stopped.value.code == 143
    assert [run.info.status for run in world.runs()] == ["KILLED"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "the handler is gone afterwards"
