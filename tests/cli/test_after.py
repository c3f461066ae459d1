"""After the verdict, from a shell: override, rollback, history, and what each says when it is asked wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.cli import main
from mlflow_calib.core.signing import Keyring, verify

BLOCKING = {"requirements": {"calibration_error_upper_bound": {"limit": 0.015}}}


@pytest.fixture
def run(judged: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """A command on the world's server: exit code, output, and the line of the error."""

    def command(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--tracking-uri", judged.world.server.tracking_uri])
        printed = capsys.readouterr()
        lines = [line for line in printed.err.splitlines() if line.startswith("mlflow-calib")]
        return code, printed.out, lines[-1] if lines else ""

    return command


@pytest.fixture
def verdict(judged: Any, run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> str:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(BLOCKING))
    code, out, _ = run("gate", json.dumps(judged.evidence), "--policy", str(policy), "--json")
    assert code == 3
    return out


def test_override_rollback_and_history(judged: Any, run: Callable[..., tuple[int, str, str]], verdict: str) -> None:
    promote = ("promote", judged.candidate["model_uri"], verdict)
    code, _, error = run(*promote)
    assert (code, judged.world.champion()) == (2, "1")
    assert error.startswith("mlflow-calib promote: the verdict blocks the promotion")
    code, _, error = run(*promote, "--override-reason", "the season starts")
    assert (code, error) == (
        2,
        "mlflow-calib promote: --override-reason needs --by: an override has somebody's name on it",
    )
    code, out, _ = run(*promote, "--override-reason", "the season starts", "--by", "ann")
    assert (code, judged.world.champion()) == (0, "2")
    assert out.splitlines()[0] == (
        "alias champion of games stands on version 2 (override by ann (verdict: inconclusive): the season starts)"
    )
    code, out, _ = run("rollback", "games", "--reason", "complaints", "--by", "ben")
    assert (code, judged.world.champion()) == (0, "1")
    assert out.splitlines()[0] == "alias champion of games stands on version 1"
    assert run("rollback", "games", "--reason", "complaints", "--by", "ben")[1] == out
    code, out, _ = run("history", "games")
    first, *lines = out.splitlines()
    assert (code, first) == (0, "alias champion of games stands on version 1")
    assert [" ".join(line.split()[1:]) for line in lines] == [
        "override 1 -> 2 by ann: the season starts",
        "rollback 2 -> 1 by ben: complaints",
    ]
    document = json.loads(run("history", "games", "--json")[1])
    assert document["schema"] == "mlflow_calib.history/1"
    assert [(one["event"], one["from"], one["to"]) for one in document["events"]] == [
        ("override", "1", "2"),
        ("rollback", "2", "1"),
    ]


def test_an_override_for_the_guard(
    judged: Any, run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("override", "games", "delete-alias", "--alias", "champion", "--reason", "retired", "--by", "ann")
    assert "set MLFLOW_CALIB_KEYS" in run(*asked)[2]
    monkeypatch.setenv("MLFLOW_CALIB_KEYS", f"k:{'ab' * 32}")
    code, out, _ = run(*asked)
    assert (code, out.splitlines()[0]) == (
        0,
        "signed for delete-alias on games; do it within a day, with any client",
    )
    keyring = Keyring.from_environment()
    assert keyring is not None
    assert verify(judged.world.tags("1")["mlflow_calib.signed.override"], keyring).action == "delete-alias"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rollback", "gmes", "--reason", "r", "--by", "b"), "no registered model 'gmes'"),
        (("rollback", "games", "--reason", " ", "--by", "b"), "--reason must be a text of 1 to 500 characters"),
        (("rollback", "games", "--reason", "r", "--by", "b", "--to-version", "new"), "--to-version must be the number"),
        (("rollback", "games", "--reason", "r", "--by", "b", "--alias", "v1"), "--alias must be the name of an alias"),
        (("rollback", "games", "--reason", "r", "--by", "b"), "no record says how it came there"),
        (("rollback", "games", "--reason", "r", "--by", "b", "--to-version", "9"), "nothing says that version 9"),
        (("history", "gmes"), "no registered model 'gmes'"),
        (("promote", "models:/games/9", "runs:/a/verdict.json"), "models:/games/9 does not exist"),
        (("promote", "models:/games@nobody", "runs:/a/verdict.json"), "models:/games@nobody does not exist"),
        (("override", "games", "explode", "--reason", "r", "--by", "b"), "ACTION must be one of delete-alias"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    judged: Any, run: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], said: str
) -> None:
    code, out, error = run(*arguments)
    assert (code, out) == (2, "")
    assert said in error
    assert judged.world.champion() == "1"
