"""A version on other rows than those of its fit: the champion evaluated on its own, and what is refused on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import mlflow_calib as mc
from mlflow_calib.core.evidence import check_evidence
from mlflow_calib.data.paths import local_path
from mlflow_calib.errors import EvidenceError, InvalidInputError
from mlflow_calib.flavor.records import read_record, read_record_text
from mlflow_calib.steps import evaluate, fit, gate, score, split

NEWER = 1_000_000


def newer_rows(games: Path, folder: Path, start: int = NEWER) -> Path:
    """The same games as rows that nobody has seen: keys from ``start`` on."""
    frame = pd.read_parquet(games)
    frame["row"] += start
    frame.to_parquet(folder / "newer.parquet", index=False)
    return folder / "newer.parquet"


@pytest.fixture
def serving(judged: Any) -> Any:
    """The judged candidate, version 2, is champion now."""
    judged.world.client.set_registered_model_alias("games", "champion", "2")
    return judged


@pytest.fixture
def newer(serving: Any, games: Path, tmp_path: Path, steps_helpers: Any) -> dict[str, Any]:
    """Newer rows, scored with the base model and the champion."""
    return dict(steps_helpers.scored_and_split(serving.world.server, newer_rows(games, tmp_path), tmp_path / "newer"))


def rows_of(partitions: dict[str, Any], role: str = "evaluation") -> pd.DataFrame:
    folder = Path(partitions["uri"].removeprefix("file://")).parent
    return pq.read_table(folder / f"{role}.parquet").to_pandas()


def test_the_champion_by_its_alias_is_evaluated_on_its_own(serving: Any, newer: dict[str, Any]) -> None:
    """The same record, on newer rows; the alias is resolved once and recorded, and nothing is compared with itself."""
    server = serving.world.server
    handed = evaluate(newer, "models:/games@champion", server=server)
    record = read_record(server, handed["uri"], handed["sha256"])
    assert check_evidence(record) == []
    assert (handed["role"], handed["model_uri"], record["role"]) == ("champion", "models:/games/2", "champion")
    assert (record["candidate"]["alias"], record["candidate"]["version"]) == ("champion", "2")
    assert record["champion"] is None
    assert record["estimates"]["champion"] is None
    assert record["overlap"]["recalibration"] == 0
    assert {name for name, one in record["comparisons"].items() if one is None} == {
        f"{what}_increase_over_champion" for what in ("mse", "log_loss", "calibration_error")
    }
    rows = rows_of(newer)
    calibrator = mc.Calibrator.from_json(read_record_text(server, serving.candidate["uri"]))
    estimate = mc.estimate_calibration_error(rows["score_1"], rows["label"], bins=calibrator)
    assert handed["upper_bound"] == pytest.approx(estimate.upper_bound(0.95), abs=1e-12)
    assert handed["calibration_error"] == pytest.approx(estimate.root, abs=1e-12)
    assert len(json.dumps(handed).encode()) < 1024


def test_the_evidence_it_was_promoted_by_stays(serving: Any, newer: dict[str, Any]) -> None:
    world, server = serving.world, serving.world.server
    before, tags = read_record_text(server, serving.evidence["uri"]), world.tags("2")
    handed = evaluate(newer, "models:/games@champion", server=server)
    assert read_record_text(server, serving.evidence["uri"]) == before
    after = world.tags("2")
    assert {name: value for name, value in after.items() if not name.startswith("mlflow_calib.champion.")} == tags
    assert after["mlflow_calib.champion.evidence_sha256"] == handed["sha256"]
    assert after["mlflow_calib.champion.upper_bound"] == str(handed["upper_bound"])
    logged = world.client.get_logged_model(serving.candidate["model_id"])
    metrics = {metric.key: metric.value for metric in logged.metrics}
    assert metrics["as_champion_calibration_error"] == handed["calibration_error"]
    assert metrics["calibration_error"] == serving.evidence["calibration_error"]


def test_the_gate_says_whether_the_champion_is_within(serving: Any, newer: dict[str, Any]) -> None:
    """What a promotion says of the version stands, whatever the verdict."""
    server = serving.world.server
    serving.world.client.set_model_version_tag("games", "2", "mlflow_calib.status", "champion")
    handed = evaluate(newer, "models:/games@champion", server=server)
    within = gate(handed, policy={"requirements": {"calibration_error_upper_bound": {"limit": 0.1}}}, server=server)
    assert within["status"] == "pass", within["reason"]
    past = gate(handed, policy={"requirements": {"calibration_error_upper_bound": {"limit": 1e-4}}}, server=server)
    assert past["blocks"] is True
    assert serving.world.tags("2")["mlflow_calib.status"] == "champion"


def test_a_version_is_the_champion_only_while_it_holds_the_alias(serving: Any, newer: dict[str, Any]) -> None:
    server = serving.world.server
    assert evaluate(newer, "models:/games/2", role="champion", server=server)["role"] == "champion"
    serving.world.client.set_registered_model_alias("games", "champion", "1")
    with pytest.raises(
        InvalidInputError, match=r"must hold alias 'champion'.*stands on version 1; name models:/games@"
    ):
        evaluate(newer, "models:/games/2", role="champion", server=server)
    with pytest.raises(InvalidInputError, match="role must be one of 'candidate', 'champion', or left out, got 'boss'"):
        evaluate(newer, "models:/games/2", role="boss", server=server)


def test_a_candidate_is_never_its_own_champion(serving: Any, newer: dict[str, Any]) -> None:
    """N20: the partitions were scored with it as the champion."""
    with pytest.raises(
        EvidenceError, match=r'another model version than the candidate.*or evaluate it with role="champ'
    ):
        evaluate(newer, "models:/games/2", server=serving.world.server)
    with pytest.raises(EvidenceError, match="another model version than the candidate"):
        evaluate(newer, "models:/games@champion", role="candidate", server=serving.world.server)


def test_a_candidate_may_be_evaluated_on_newer_rows(
    judged: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    """The champion is version 1 still: both on the same newer rows."""
    newer = steps_helpers.scored_and_split(judged.world.server, newer_rows(games, tmp_path), tmp_path / "newer")
    handed = evaluate(newer, "models:/games/2", server=judged.world.server)
    record = read_record(judged.world.server, handed["uri"])
    assert (record["role"], record["champion"]["version"], record["overlap"]["recalibration"]) == ("candidate", "1", 0)
    assert record["comparisons"]["mse_increase_over_champion"]["n"] == len(rows_of(newer))


def test_one_shared_row_is_refused_with_its_number(
    serving: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    """N19: by the key hashes that the fit left with its run."""
    world = serving.world
    path = newer_rows(games, tmp_path)
    frame = pd.read_parquet(path)
    learnt = rows_of(world.partitions, "recalibration")["row"]
    frame.loc[0, "row"] = learnt.iloc[0]
    frame.to_parquet(path, index=False)
    for fraction in (0.5, 0.999):
        how = {"how": "hash", "evaluation_fraction": fraction, "seed": 3}
        partitions = steps_helpers.scored_and_split(world.server, path, tmp_path / str(fraction), how)
        rows = rows_of(partitions)
        if learnt.iloc[0] in rows["row"].to_numpy():
            break
    with pytest.raises(EvidenceError, match=f"it was recalibrated on 1 of the {len(rows)} evaluation rows"):
        evaluate(partitions, "models:/games@champion", server=world.server)


def test_where_the_keys_are_gone_a_champion_is_unverified_and_a_candidate_refused(
    serving: Any, newer: dict[str, Any], games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    world = serving.world
    artifacts = local_path(world.client.get_run(serving.candidate["run_id"]).info.artifact_uri)
    (artifacts / "mlflow_calib" / "recalibration_keys.parquet").unlink()
    handed = evaluate(newer, "models:/games@champion", server=world.server)
    assert read_record(world.server, handed["uri"])["overlap"]["recalibration"] is None
    partitions = steps_helpers.scored_and_split(
        world.server, newer_rows(games, tmp_path), tmp_path / "raw", champion="models:/games/1"
    )
    with pytest.raises(EvidenceError, match="is not known: the key hashes that its fit left with its run are gone"):
        evaluate(partitions, "models:/games/2", server=world.server)


def test_keys_of_other_columns_show_nothing(serving: Any, games: Path, tmp_path: Path) -> None:
    """The hash of a text never meets that of a number: no shared row would be found among the very same rows."""
    frame = pd.read_parquet(games).assign(row=lambda rows: rows["row"].astype(str))
    frame.to_parquet(tmp_path / "texts.parquet", index=False)
    options: dict[str, Any] = {"key_columns": ["row"], "label_column": "label", "server": serving.world.server}
    uri = str(tmp_path / "texts.parquet")
    scored = score("models:/games/1", str(tmp_path / "predictions"), data_uri=uri, **options)
    partitions = split(scored, str(tmp_path / "partitions"), split={"how": "hash", "evaluation_fraction": 0.5})
    with pytest.raises(EvidenceError, match="or are of other key columns or kinds than these"):
        evaluate(partitions, "models:/games/2", server=serving.world.server)


def test_scores_of_another_base_model_are_refused(
    serving: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    model = steps_helpers.identity_model()
    model.coef_ = model.coef_ * 2
    version = steps_helpers.register_base(serving.world.server, "games", "base models", model)
    options: dict[str, Any] = {"key_columns": ["row"], "label_column": "label", "server": serving.world.server}
    uri = str(newer_rows(games, tmp_path))
    scored = score(f"models:/games/{version}", str(tmp_path / "predictions"), data_uri=uri, **options)
    partitions = split(scored, str(tmp_path / "partitions"), split={"how": "hash", "evaluation_fraction": 0.5})
    with pytest.raises(EvidenceError, match=r"must be evaluated on scores of its own base model, 'sha256:.*score the"):
        evaluate(partitions, "models:/games@champion", server=serving.world.server)


def test_a_raw_champion_has_no_calibrator_to_evaluate(judged: Any) -> None:
    with pytest.raises(mc.errors.ModelError, match="must be a calibrated model of mlflow-calib"):
        evaluate(judged.world.partitions, "models:/games@champion", server=judged.world.server)


def test_too_few_rows_of_one_class_block(world: Any, games: Path, tmp_path: Path) -> None:
    """P3: three rows of one class in fifteen bins: null and a reason in every hand-over, and the gate blocks."""
    frame = pd.read_parquet(games)
    few = frame[frame["label"] == 1].tail(3)
    frame.drop(few.index).to_parquet(tmp_path / "many.parquet", index=False)
    few.to_parquet(tmp_path / "few.parquet", index=False)
    tables = {"recalibration_uri": str(tmp_path / "many.parquet"), "evaluation_uri": str(tmp_path / "few.parquet")}
    options: dict[str, Any] = {"key_columns": ["row"], "label_column": "label", "server": world.server, **tables}
    predictions = score("models:/games/1", str(tmp_path / "scored"), champion="models:/games@champion", **options)
    partitions = split(predictions, str(tmp_path / "partitions"), split={"how": "given"})
    candidate = fit(partitions, name="games", calibrator={"n_bins": 15}, server=world.server)
    handed = evaluate(partitions, candidate, server=world.server)
    verdict = gate(handed, server=world.server)
    assert (handed["status"], handed["upper_bound"], verdict["upper_bound"]) == ("unusable", None, None)
    assert verdict["blocks"] is True
    record = read_record(world.server, verdict["uri"])
    (bound,) = [one for one in record["requirements"] if one["name"] == "calibration_error_upper_bound"]
    assert (bound["status"], bound["upper"]) == ("inconclusive", None)
    assert "NaN" not in json.dumps([partitions, candidate, handed, verdict])
