"""``mlflow-calib policy``: the completed policy and its digest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlflow_calib.cli import main
from mlflow_calib.core.policy import Policy

TOML = "[requirements.calibration_error_upper_bound]\nlimit = 0.1\n"


def test_the_digest_is_that_of_the_completed_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.toml"
    digests = set()
    for text in (TOML, TOML.replace("0.1", "0.10"), f'mode = "enforce"\n{TOML}'):
        file.write_text(text)
        assert main(["policy", str(file)]) == 0
        first, _, rest = capsys.readouterr().out.partition("\n")
        assert Policy.from_dict(json.loads(rest)).digest == first
        assert main(["policy", str(file), "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result == {"sha256": first, "policy": json.loads(rest)}
        digests.add(first)
    assert len(digests) == 1


@pytest.mark.parametrize(("text", "said"), [("limit = [", "must be TOML"), ("[requirements.unknown]\n", "unknown")])
def test_a_wrong_policy_is_said(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.toml").write_text(text)
    assert main(["policy", str(tmp_path / "policy.toml")]) == 2
    assert said in capsys.readouterr().err


def test_it_asks_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.toml").write_text(TOML)
    with pytest.raises(SystemExit):
        main(["policy", str(tmp_path / "policy.toml"), "--tracking-uri", "http://127.0.0.1:9"])
    assert "--tracking-uri" in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "/nonexistent.toml"]) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["[" * 5000, "a\x00b", "\x1b[2Jx", "\udcff"])
def test_what_is_no_path_at_all(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", name]) == 2
    said = capsys.readouterr().err
    assert said.removesuffix("\n").isprintable()
    assert "Error" not in said.partition("(")[0]
