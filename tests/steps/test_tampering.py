"""Every piece that a promotion rests on, changed by one byte: refused, and the refusal names the piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.errors import EvidenceError, ModelError, PromotionRefusedError
from mlflow_calib.flavor.records import log_record, read_record, read_record_text
from mlflow_calib.steps import evaluate, gate, promote

PASSING = {"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}}
WHO = {"promoted_by": "cleo", "override_reason": "it must go out"}


def model_folder(judged: Any) -> Path:
    location = judged.world.client.get_logged_model(judged.candidate["model_id"]).artifact_location
    return Path(location.removeprefix("file://"))


def run_file(judged: Any, name: str) -> Path:
    uri = judged.world.client.get_run(judged.candidate["run_id"]).info.artifact_uri
    return Path(uri.removeprefix("file://")) / "mlflow_calib" / name


def files_of(folder: Path) -> list[str]:
    """Without what MLflow adds where a registered model is read in place."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in names if "registered_model_meta" not in name and "__pycache__" not in name)


@pytest.fixture
def passed(judged: Any) -> dict[str, Any]:
    return gate(judged.evidence, policy=PASSING, server=judged.world.server)


def test_each_file_of_the_model(judged: Any, passed: dict[str, Any]) -> None:
    """MLmodel, environment, bundled runtime, calibrator, base model: one byte each, put back before the next."""
    folder = model_folder(judged)
    names = files_of(folder)
    assert {"MLmodel", "requirements.txt", "conda.yaml", "data/bundle/calibrator.json"} <= set(names)
    assert any(name.startswith("code/_mlflow_calib_rt_") for name in names)
    assert "data/bundle/base_model/MLmodel" in names
    for name in names:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole + b"\n")
        with pytest.raises((EvidenceError, PromotionRefusedError, ModelError)) as error:
            promote(judged.candidate["model_uri"], passed, server=judged.world.server, **WHO)
        if name == "data/bundle/calibrator.json":  # known before the files are read: it is who the candidate is
            assert "the verdict must be on" in str(error.value)
        else:
            assert f"{name} was changed" in str(error.value)
        (folder / name).write_bytes(whole)
        assert judged.world.champion() == "1"
    promote(judged.candidate["model_uri"], passed, server=judged.world.server)
    assert judged.world.champion() == "2"


@pytest.mark.parametrize("how", ["added", "is missing"])
def test_a_file_more_or_less(judged: Any, passed: dict[str, Any], how: str) -> None:
    folder = model_folder(judged)
    if how == "added":
        (folder / "code" / "sitecustomize.py").write_text("print('hello')\n")
        named = "code/sitecustomize.py was added"
    else:
        (folder / "conda.yaml").unlink()
        named = "conda.yaml is missing"
    with pytest.raises(EvidenceError, match=named):
        promote(judged.candidate["model_uri"], passed, server=judged.world.server)
    verdict = gate(judged.evidence, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    assert named in read_record(judged.world.server, verdict["uri"])["sentence"]


def test_the_listing_of_the_files_cannot_be_bent_with_them(judged: Any, passed: dict[str, Any]) -> None:
    """The list only names; the digest decides."""
    folder = model_folder(judged)
    (folder / "requirements.txt").write_text("evil\n")
    listing = json.loads(run_file(judged, "model_files.json").read_text())
    listing["files"]["requirements.txt"] = "0" * 64
    run_file(judged, "model_files.json").write_text(json.dumps(listing))
    with pytest.raises(EvidenceError, match=r"the files of models:/games/2 must have digest sha256:\w+, found sha256:"):
        promote(judged.candidate["model_uri"], passed, server=judged.world.server)


def test_a_model_that_was_changed_between_fit_and_evaluation(judged: Any) -> None:
    (code,) = (model_folder(judged) / "code").glob("*.py")
    code.write_text(code.read_text() + "\n")
    with pytest.raises(EvidenceError, match=rf"code/{code.name} was changed.*fit again"):
        evaluate(judged.world.partitions, judged.candidate, server=judged.world.server)


@pytest.mark.parametrize("name", ["evidence.json", "verdict.json"])
def test_the_records(judged: Any, passed: dict[str, Any], name: str) -> None:
    path = run_file(judged, name)
    path.write_text(path.read_text() + " ")
    with pytest.raises(EvidenceError, match=rf"{name} must have digest .*it was changed"):
        promote(judged.candidate, passed, server=judged.world.server, **WHO)
    if name == "verdict.json":
        with pytest.raises(PromotionRefusedError, match="must be the one that the gate left last"):
            promote(judged.candidate, passed["uri"], server=judged.world.server, **WHO)
    assert judged.world.champion() == "1"


def with_evidence(judged: Any, change: dict[str, Any]) -> dict[str, Any]:
    """Evidence with a change, tagged as if ``evaluate`` had left it."""
    record = {**read_record(judged.world.server, judged.evidence["uri"]), **change}
    uri, sha256 = log_record(judged.world.server, judged.evidence["run_id"], "mlflow_calib/evidence.json", record)
    judged.world.client.set_model_version_tag("games", "2", "mlflow_calib.evidence_sha256", sha256)
    return {**judged.evidence, "uri": uri, "sha256": sha256}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "mlflow_calib.evidence/2"}, "mlflow_calib.evidence/2"),
        ({"estimates": {}}, "estimates"),
        ({"data": None}, "data"),
    ],
    ids=["future schema", "no estimates", "no data"],
)
def test_damaged_and_future_evidence_is_never_overridden(judged: Any, change: dict[str, Any], said: str) -> None:
    verdict = gate(with_evidence(judged, change), policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    assert said in read_record(judged.world.server, verdict["uri"])["sentence"]
    with pytest.raises(EvidenceError, match=said):
        promote(judged.candidate, verdict, server=judged.world.server, **WHO)
    assert judged.world.champion() == "1"


def test_evidence_of_another_model_is_never_overridden(judged: Any) -> None:
    record = read_record(judged.world.server, judged.evidence["uri"])
    other = with_evidence(judged, {"candidate": {**record["candidate"], "digest": "sha256:other"}})
    verdict = gate(other, policy=PASSING, server=judged.world.server)
    with pytest.raises((EvidenceError, PromotionRefusedError), match="sha256:other"):
        promote(judged.candidate, verdict, server=judged.world.server, **WHO)
    assert judged.world.champion() == "1"


def test_evidence_without_a_digest_of_the_files_gives_no_verdict(judged: Any) -> None:
    record = read_record(judged.world.server, judged.evidence["uri"])
    candidate = {name: value for name, value in record["candidate"].items() if name != "model_sha256"}
    verdict = gate(with_evidence(judged, {"candidate": candidate}), policy=PASSING, server=judged.world.server)
    assert verdict["status"] == "no verdict"
    assert "nothing says which files models:/games/2 had" in verdict["reason"]


def test_stale_evidence_is_overridden_by_a_name_and_a_reason(judged: Any) -> None:
    """Its age is a requirement as others are: the record is whole, and of this model."""
    old = with_evidence(judged, {"evaluated_at": "2020-01-01T00:00:00+00:00"})
    verdict = gate(old, policy=PASSING, server=judged.world.server)
    assert (verdict["status"], verdict["blocks"]) == ("no verdict", True)
    with pytest.raises(PromotionRefusedError, match="the verdict blocks"):
        promote(judged.candidate, verdict, server=judged.world.server)
    handed = promote(judged.candidate, verdict, server=judged.world.server, **WHO)
    assert (handed["overridden"], judged.world.champion()) == (True, "2")


def test_a_metric_of_nan_reads_back_as_zero_and_passes_nothing(judged: Any) -> None:
    """MLflow keeps NaN of a logged model as 0.0; no figure of a metric is ever read."""
    client, model_id = judged.world.client, judged.candidate["model_id"]
    client.log_metric(judged.candidate["run_id"], "calibration_error", float("nan"), model_id=model_id)
    zero = [one.value for one in client.get_logged_model(model_id).metrics if one.key == "calibration_error"]
    assert 0.0 in zero, "MLflow has changed: it no longer reads NaN back as 0.0"
    strict = {"requirements": {"calibration_error_upper_bound": {"limit": 0.001}}}
    verdict = gate(judged.evidence, policy=strict, server=judged.world.server)
    assert verdict["blocks"] is True
    assert verdict["calibration_error"] == judged.evidence["calibration_error"] > 0


def test_gate_without_a_record_writes_nothing(judged: Any) -> None:
    before = (judged.world.tags("2"), judged.world.client.get_model_version("games", "2").description)
    result = gate(judged.evidence, policy=PASSING, record=False, server=judged.world.server)
    assert (result["schema"], result["status"], result["uri"]) == (
        "mlflow_calib.judgement/1",
        "pass",
        judged.evidence["uri"],
    )
    assert (judged.world.tags("2"), judged.world.client.get_model_version("games", "2").description) == before
    assert not run_file(judged, "verdict.json").exists()
    with pytest.raises(ValueError, match="hand over step 'gate'"):
        promote(judged.candidate, result, server=judged.world.server)
    assert read_record_text(judged.world.server, result["uri"], result["sha256"])
