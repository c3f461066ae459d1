"""evaluate: figures on rows that nobody has seen, from the logged calibrator, and evidence that says on what."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

import mlflow_calib as mc
from mlflow_calib.core.binning import uniform_mass
from mlflow_calib.core.evidence import check_evidence
from mlflow_calib.core.ranking import tied_pairs
from mlflow_calib.data.paths import local_path
from mlflow_calib.data.records import sha256_of_file
from mlflow_calib.errors import DataError, EvidenceError, InvalidInputError, ModelError
from mlflow_calib.flavor.records import log_record, read_record, read_record_text
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import evaluate, fit, gate, promote, score, split
from mlflow_calib.steps.contenders import Batch, base_model, calibrated
from mlflow_calib.steps.evaluation_rows import DataDigest
from mlflow_calib.steps.evaluation_sums import add_up


def rows_of(judged: Any, role: str = "evaluation") -> pd.DataFrame:
    folder = Path(judged.world.partitions["uri"].removeprefix("file://")).parent
    return pq.read_table(folder / f"{role}.parquet").to_pandas()


def calibrator_of(judged: Any) -> mc.Calibrator:
    return mc.Calibrator.from_json(read_record_text(judged.world.server, judged.candidate["uri"]))


@pytest.fixture
def record(judged: Any) -> dict[str, Any]:
    return read_record(judged.world.server, judged.evidence["uri"], judged.evidence["sha256"])


def test_the_candidates_figures_are_those_of_its_calibrator_on_the_evaluation_rows(judged: Any, record: Any) -> None:
    """Another way to the same numbers: the public estimator on the base scores, all rows at once."""
    rows, calibrator = rows_of(judged), calibrator_of(judged)
    estimate = mc.estimate_calibration_error(rows["score_1"], rows["label"], bins=calibrator)
    entry = record["estimates"]["candidate"]
    assert entry["squared_debiased"] == pytest.approx(estimate.squared, abs=1e-15)
    assert entry["upper_bound"] == pytest.approx(estimate.upper_bound(0.95), abs=1e-12)
    assert entry["mse"] == pytest.approx(np.mean((calibrator.predict(rows["score_1"]) - rows["label"]) ** 2), abs=1e-12)
    assert judged.evidence["calibration_error"] == entry["root"]
    assert judged.evidence["upper_bound"] == entry["upper_bound"]


def test_the_base_model_is_binned_by_the_candidates_edges_and_is_a_lower_bound(judged: Any, record: Any) -> None:
    rows, calibrator = rows_of(judged), calibrator_of(judged)
    base = record["estimates"]["base"]
    index = calibrator.bin_index(rows["score_1"])
    assert base["statistics"]["n"] == np.bincount(index).tolist()
    assert base["statistics"]["u"] == pytest.approx(rows["score_1"].groupby(index).mean().tolist(), abs=1e-12)
    assert base["lower_bound_of_calibration_error"] is True
    assert record["estimates"]["candidate"]["lower_bound_of_calibration_error"] is False


def test_a_champion_that_is_the_base_model_has_the_base_models_figures(record: Any) -> None:
    assert record["estimates"]["champion"] == record["estimates"]["base"]
    assert record["comparisons"]["mse_increase_over_champion"] == record["comparisons"]["mse_increase_over_base"]
    assert record["champion"] | {"digest": "", "model_id": ""} == {
        "alias": "champion",
        "name": "games",
        "version": "1",
        "model_uri": "models:/games/1",
        "model_id": "",
        "digest": "",
        "kind": "raw",
        "n_evaluation_rows_in_its_recalibration_data": 0,
    }


def test_the_comparison_is_the_difference_of_the_squared_errors_row_by_row(judged: Any, record: Any) -> None:
    rows, calibrator = rows_of(judged), calibrator_of(judged)
    y, z = rows["label"].to_numpy(), rows["score_1"].to_numpy()
    difference = (y - calibrator.predict(z)) ** 2 - (y - z) ** 2
    comparison = record["comparisons"]["mse_increase_over_base"]
    assert comparison["mean"] == pytest.approx(difference.mean(), abs=1e-15)
    assert comparison["standard_error"] == pytest.approx(difference.std(ddof=1) / math.sqrt(len(y)), rel=1e-12)


def test_the_record_says_who_on_what_and_when(judged: Any, record: Any) -> None:
    rows = rows_of(judged)
    assert check_evidence(record) == []
    assert record["candidate"]["model_uri"] == "models:/games/2"
    assert record["candidate"]["model_id"] == judged.candidate["model_id"]
    assert record["candidate"]["calibrator_sha256"] == judged.candidate["sha256"]
    assert record["run_id"] == judged.candidate["run_id"]
    assert record["overlap"] == {"recalibration": 0, "base_training": None, "champion_recalibration": 0}
    assert record["data"]["n"] == len(rows) == judged.world.partitions["n_evaluation"]
    assert record["data"]["manifest_sha256"] == judged.world.partitions["sha256"]
    scores = hashlib.sha256(rows["score_1"].to_numpy("<f8").tobytes()).digest()
    labels = hashlib.sha256(rows["label"].to_numpy(np.uint8).tobytes()).digest()
    assert record["data"]["sha256"] == f"sha256:{hashlib.sha256(scores + labels).hexdigest()}"


def test_metrics_stand_on_the_logged_model_and_are_finite(judged: Any, record: Any) -> None:
    """A metric without a model would be copied onto the next one; a NaN would read 0.0, a perfect calibration error."""
    logged = judged.world.client.get_logged_model(judged.candidate["model_id"])
    metrics = {metric.key: metric.value for metric in logged.metrics}
    assert metrics["calibration_error"] == record["estimates"]["candidate"]["root"]
    assert metrics["calibration_error_upper_bound"] == record["estimates"]["candidate"]["upper_bound"]
    for model in ("base", "rival", "champion"):
        assert metrics[f"{model}_mse"] == record["estimates"][model]["mse"]
    assert "mse_increase_over_rival" in metrics
    assert all(math.isfinite(value) for value in metrics.values())
    run = judged.world.client.get_run(judged.candidate["run_id"])
    assert set(run.data.metrics) == set(metrics)


def test_auc_before_and_after_is_logged_and_ties_are_named(judged: Any, record: Any) -> None:
    """N16: the bins tie rows that were apart. Base model and champion are one model here."""
    rows, calibrator = rows_of(judged), calibrator_of(judged)
    y, found = rows["label"].to_numpy(), record["ranking"]
    outputs = {"candidate": calibrator.predict(rows["score_1"]), "base": rows["score_1"].to_numpy()}
    logged = judged.world.client.get_logged_model(judged.candidate["model_id"])
    metrics = {metric.key: metric.value for metric in logged.metrics}
    for (name, own), prefix in zip(outputs.items(), ("", "base_"), strict=True):
        assert found[name]["accuracy"] == accuracy_score(y, own > 0.5)
        assert found[name]["auc"] == pytest.approx(roc_auc_score(y, own), abs=1e-12)
        assert found[name]["tied_pairs"] == pytest.approx(tied_pairs(own, y), abs=1e-12)
        assert {f"{prefix}{key}": value for key, value in found[name].items()}.items() <= metrics.items()
    assert found["candidate"]["tied_pairs"] > 0.05 > found["base"]["tied_pairs"]
    assert found["champion"] == found["base"]


def test_one_outcome_alone_has_no_auc(judged: Any, tmp_path: Path) -> None:
    """Nothing to rank: null in the record, no metric, and never 0 or NaN."""
    folder = tmp_path / "copy"
    shutil.copytree(Path(judged.world.partitions["uri"].removeprefix("file://")).parent, folder)
    rows = pq.read_table(folder / "evaluation.parquet")
    pq.write_table(rows.filter(pc.equal(rows["label"], 1)), folder / "evaluation.parquet")
    document = json.loads((folder / "manifest.json").read_text())
    own = {"sha256": sha256_of_file(str(folder / "evaluation.parquet")), "n": pc.sum(rows["label"]).as_py()}
    document["files"]["evaluation"] |= {**own, "positives": own["n"]}
    (folder / "manifest.json").write_text(json.dumps(document))
    run = judged.world.client.get_run(judged.candidate["run_id"])
    evidence = evaluate(str(folder / "manifest.json"), judged.candidate, server=judged.world.server)
    found = read_record(judged.world.server, evidence["uri"])["ranking"]["candidate"]
    p = calibrator_of(judged).predict(rows.filter(pc.equal(rows["label"], 1))["score_1"].to_numpy())
    assert found == {"accuracy": np.mean(p > 0.5), "auc": None, "tied_pairs": None}
    again = judged.world.client.get_run(judged.candidate["run_id"]).data.metrics
    assert again["accuracy"] == found["accuracy"] != run.data.metrics["accuracy"]
    assert again["auc"] == run.data.metrics["auc"], "of the evaluation before"


def test_figure_and_tags_stand_beside_the_evidence(judged: Any) -> None:
    client = judged.world.client
    (figure,) = client.list_artifacts(judged.candidate["run_id"], "figures")
    assert figure.path == "figures/reliability.png"
    assert figure.file_size > 10_000
    tags = judged.world.tags("2")
    assert tags["mlflow_calib.evidence"] == judged.evidence["uri"]
    assert tags["mlflow_calib.evidence_sha256"] == judged.evidence["sha256"]
    assert tags["mlflow_calib.status"] == "candidate"


def test_nothing_is_scored_again(world: Any, tmp_path: Path, games: Path, steps_helpers: Any) -> None:
    """The data that were scored may be gone: candidate = base column x calibrator."""
    data = tmp_path / "games.parquet"
    shutil.copyfile(games, data)
    partitions = steps_helpers.scored_and_split(world.server, data, tmp_path)
    candidate = fit(partitions, name="games", server=world.server)
    data.unlink()
    assert evaluate(partitions, candidate, server=world.server)["status"] == "ok"


def test_a_candidate_by_its_version_or_its_record_is_the_same(judged: Any) -> None:
    server = judged.world.server
    for handed in ("models:/games/2", judged.candidate["uri"], json.dumps(judged.candidate)):
        again = evaluate(judged.world.partitions, handed, server=server)
        assert again["model_uri"] == "models:/games/2"
        assert again["upper_bound"] == judged.evidence["upper_bound"]


def test_the_bounds_shown_are_of_the_policys_level(judged: Any, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[requirements.calibration_error_upper_bound]\nlimit = 0.1\nconfidence_level = 0.99\n")
    wider = evaluate(judged.world.partitions, judged.candidate, policy=str(policy), server=judged.world.server)
    assert wider["upper_bound"] > judged.evidence["upper_bound"]
    with pytest.raises(InvalidInputError, match="confidence_level"):
        evaluate(
            judged.world.partitions,
            judged.candidate,
            policy={"requirements": {"calibration_error_upper_bound": {"confidence_level": 95}}},
            server=judged.world.server,
        )


def test_run_tags_stand_on_the_run(judged: Any) -> None:
    tags = {"airflow.dag_id": "flights", "mlflow_calib.model": "another"}
    evaluate(judged.world.partitions, judged.candidate, run_tags=tags, server=judged.world.server)
    found = judged.world.client.get_run(judged.candidate["run_id"]).data.tags
    assert found["airflow.dag_id"] == "flights"
    assert found["mlflow_calib.model"] == "games", "what the fit has set stays"


def test_other_partitions_with_rows_of_the_fit_are_refused_with_their_number(
    judged: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    """N19: evaluation rows of another split are recalibration rows of this candidate; one would do."""
    how = {"how": "hash", "evaluation_fraction": 0.5, "seed": 1}
    others = steps_helpers.scored_and_split(judged.world.server, games, tmp_path, how)
    learnt, asked = rows_of(judged, "recalibration"), pq.read_table(tmp_path / "partitions/evaluation.parquet")
    shared = len({*learnt["row"]} & {*asked["row"].to_pylist()})
    with pytest.raises(EvidenceError, match=f"was recalibrated on {shared} of the {len(asked)} evaluation rows"):
        evaluate(others, judged.candidate, server=judged.world.server)


def test_a_model_is_never_compared_with_itself(judged: Any, tmp_path: Path) -> None:
    """N20: the champion of the partitions is the candidate."""
    folder = Path(judged.world.partitions["uri"].removeprefix("file://")).parent
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "manifest.json"
    document = json.loads(path.read_text())
    document["champion"] = {**document["champion"], "version": "3"}
    path.write_text(json.dumps(document))
    candidate = fit(str(path), name="games", server=judged.world.server)
    assert candidate["version"] == "3"
    with pytest.raises(EvidenceError, match="the champion must be another model version than the candidate"):
        evaluate(str(path), candidate, server=judged.world.server)


def test_a_calibrator_that_was_changed_in_the_store_is_refused(world: Any) -> None:
    candidate = fit(world.partitions, name="games", server=world.server)
    location = world.client.get_logged_model(candidate["model_id"]).artifact_location.removeprefix("file://")
    path = Path(location) / "data/bundle/calibrator.json"
    path.write_text(path.read_text().replace('"method"', '"method" '))
    with pytest.raises(EvidenceError, match="it is not the one that was handed over"):
        evaluate(world.partitions, candidate, server=world.server)


def test_a_base_model_that_was_changed_in_the_store_is_refused(world: Any) -> None:
    candidate = fit(world.partitions, name="games", server=world.server)
    location = world.client.get_logged_model(candidate["model_id"]).artifact_location.removeprefix("file://")
    path = Path(location) / "data/bundle/base_model/MLmodel"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(EvidenceError, match=r"the base model inside models:/games/2 must have digest"):
        evaluate(world.partitions, candidate, server=world.server)


def test_a_candidate_that_is_none_says_what_to_do(world: Any) -> None:
    with pytest.raises(ModelError, match="must be a calibrated model of mlflow-calib"):
        evaluate(world.partitions, "models:/games/1", server=world.server)
    with pytest.raises(ModelError, match="does not exist"):
        evaluate(world.partitions, "models:/games/9", server=world.server)
    with pytest.raises(InvalidInputError, match="a candidate must be"):
        evaluate(world.partitions, "games", server=world.server)


HASH = re.compile("sha256:[0-9a-f]{64}")


def digests(document: Any) -> Iterator[str]:
    """Every text of a record that begins like a digest."""
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        for item in document:
            yield from digests(item)
    elif isinstance(document, str) and document.startswith("sha256:"):
        yield document


def test_every_digest_has_its_prefix_once(judged: Any, record: dict[str, Any]) -> None:
    facts = calibrator_of(judged).facts
    assert record["data"]["manifest_sha256"] == facts["partitions"]["sha256"] == judged.world.partitions["sha256"]
    for document in (record, facts, read_record(judged.world.server, judged.candidate["uri"]), judged.evidence):
        found = list(digests(document))
        assert found
        assert all(HASH.fullmatch(digest) for digest in found)
    assert all(HASH.fullmatch(value) for name, value in judged.world.tags("2").items() if name.endswith("sha256"))


def changed_partitions(judged: Any, folder: Path, change: Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]) -> str:
    """Partitions whose evaluation rows a function of both files has made, the manifest's digest of them renewed."""
    shutil.copytree(Path(judged.world.partitions["uri"].removeprefix("file://")).parent, folder)
    rows = change(rows_of(judged), rows_of(judged, "recalibration").drop(columns="part"))
    rows.sort_values("key_hash").to_parquet(folder / "evaluation.parquet", index=False)
    document = json.loads((folder / "manifest.json").read_text())
    document["files"]["evaluation"]["sha256"] = sha256_of_file(folder / "evaluation.parquet")
    (folder / "manifest.json").write_text(json.dumps(document))
    return str(folder / "manifest.json")


def test_rows_of_both_files_are_counted_whatever_the_manifest_says(judged: Any, tmp_path: Path) -> None:
    """The manifest says 0: 40 recalibration rows stand among the evaluation rows."""

    def leaked(evaluation: pd.DataFrame, recalibration: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([evaluation, recalibration.tail(40)])

    partitions = changed_partitions(judged, tmp_path / "leaked", leaked)
    candidate = fit(partitions, name="games", server=judged.world.server)
    with pytest.raises(EvidenceError, match=r"no evaluation row may be among the recalibration rows, and 40 of 4492"):
        evaluate(partitions, candidate, server=judged.world.server)
    assert "mlflow_calib.evidence" not in judged.world.tags(candidate["version"])


def test_rows_are_counted_in_the_file(judged: Any, tmp_path: Path) -> None:
    partitions = changed_partitions(judged, tmp_path / "fewer", lambda evaluation, _: evaluation.head(2000))
    candidate = fit(partitions, name="games", server=judged.world.server)
    handed = evaluate(partitions, candidate, server=judged.world.server)
    assert handed["n"] == read_record(judged.world.server, handed["uri"])["data"]["n"] == 2000
    twice = changed_partitions(judged, tmp_path / "twice", lambda evaluation, _: pd.concat([evaluation, evaluation]))
    candidate = fit(twice, name="games", server=judged.world.server)
    with pytest.raises(DataError, match=r"evaluation\.parquet must be sorted by distinct key hashes"):
        evaluate(twice, candidate, server=judged.world.server)


def test_a_copied_version_does_not_overwrite_the_evidence_of_its_original(judged: Any) -> None:
    """The copy shares run and tags of the version it was made from."""
    before = read_record_text(judged.world.server, judged.evidence["uri"])
    with connected(judged.world.server) as client:
        client.copy_model_version("models:/games/2", "prod")
        client.copy_model_version("models:/prod/1", "prod")
        mlflow.register_model(f"models:/{judged.candidate['model_id']}", "again")
    for version, message in (
        ("prod/1", "is a copy of models:/games/2.*evaluate, judge and promote models:/games/2"),
        ("prod/2", "is a copy of models:/prod/1"),
        ("again/1", "must name the run it was fitted in, and names none; register it by fit"),
    ):
        with pytest.raises(EvidenceError, match=message):
            evaluate(judged.world.partitions, f"models:/{version}", server=judged.world.server)
    assert read_record_text(judged.world.server, judged.evidence["uri"]) == before


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 1}', "[]", "null"])
@pytest.mark.parametrize("name", ["calibrator.json", "rival.json"])
def test_a_damaged_calibrator_or_rival_says_what_to_do(world: Any, name: str, text: str) -> None:
    candidate = fit(world.partitions, name="games", server=world.server)
    if name == "rival.json":
        log_record(world.server, candidate["run_id"], "mlflow_calib/rival.json", text)
    else:
        location = world.client.get_logged_model(candidate["model_id"]).artifact_location.removeprefix("file://")
        (Path(location) / "data/bundle/calibrator.json").write_text(text)
    with pytest.raises(ModelError, match=r"the calibrator of .* cannot be read.*(fetch|log|fit)"):
        evaluate(world.partitions, "models:/games/2", server=world.server)


def test_a_run_that_is_gone_for_good_is_named(judged: Any) -> None:
    judged.world.client.set_model_version_tag("games", "2", "mlflow_calib.run_id", "0" * 32)
    with pytest.raises(ModelError, match="is gone; fit again"):
        evaluate(judged.world.partitions, judged.candidate, server=judged.world.server)


def test_a_store_that_does_not_exist_is_not_made(judged: Any, tmp_path: Path) -> None:
    nowhere = MlflowServer(f"sqlite:///{tmp_path}/nope.db")
    for step in (
        lambda: evaluate(judged.world.partitions, judged.candidate, server=nowhere),
        lambda: gate(judged.evidence, server=nowhere),
        lambda: promote(judged.candidate, judged.evidence | {"schema": "mlflow_calib.gate/1"}, server=nowhere),
        lambda: fit(judged.world.partitions, name="games", server=nowhere),
    ):
        with pytest.raises(InvalidInputError, match=r"there is no file .*nope\.db.*mlflow db upgrade sqlite:///"):
            step()
    assert not (tmp_path / "nope.db").exists()


def test_missing_evaluation_rows_are_named(judged: Any, tmp_path: Path) -> None:
    folder = Path(judged.world.partitions["uri"].removeprefix("file://")).parent
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "evaluation.parquet").unlink()
    handed = {**judged.world.partitions, "uri": str(tmp_path / "copy" / "manifest.json")}
    with pytest.raises(DataError, match=r"evaluation\.parquet does not exist"):
        evaluate(handed, judged.candidate, server=judged.world.server)


def test_a_raw_champion_of_its_own_is_binned_by_uniform_mass(
    world: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    """A champion that shares no scores with the base model gets bins of its own scores, as many as were asked for."""
    model = steps_helpers.identity_model()
    model.coef_ = np.array([[2.0]])
    version = steps_helpers.register_base(world.server, "games", "base models", model)
    options = {"champion": f"models:/games/{version}"}
    partitions = steps_helpers.scored_and_split(world.server, games, tmp_path, **options)
    candidate = fit(partitions, name="games", calibrator={"n_bins": 7}, server=world.server)
    handed = evaluate(partitions, candidate, server=world.server)
    champion = read_record(world.server, handed["uri"])["estimates"]["champion"]
    rows = pq.read_table(tmp_path / "partitions/evaluation.parquet").to_pandas()
    index = uniform_mass(rows["champion_score_1"], 7).index(rows["champion_score_1"])
    assert champion["statistics"]["n"] == np.bincount(index).tolist()
    assert champion["lower_bound_of_calibration_error"] is True
    assert not np.allclose(rows["champion_score_1"], rows["score_1"])


def test_too_few_rows_of_one_class_give_null_and_a_reason(world: Any, games: Path, tmp_path: Path) -> None:
    """P3, N21: three rows of one class in ten bins. No NaN anywhere: null, a status, and why."""
    frame = pd.read_parquet(games)
    few = frame[frame["label"] == 1].tail(3)
    frame.drop(few.index).to_parquet(tmp_path / "many.parquet", index=False)
    few.to_parquet(tmp_path / "few.parquet", index=False)
    predictions = score(
        "models:/games/1",
        str(tmp_path / "predictions"),
        recalibration_uri=str(tmp_path / "many.parquet"),
        evaluation_uri=str(tmp_path / "few.parquet"),
        key_columns=["row"],
        label_column="label",
        champion="models:/games@champion",
        server=world.server,
    )
    partitions = split(predictions, str(tmp_path / "partitions"), split={"how": "given"})
    candidate = fit(partitions, name="games", server=world.server)
    handed = evaluate(partitions, candidate, server=world.server)
    assert (handed["status"], handed["upper_bound"], handed["n"]) == ("unusable", None, 3)
    text = read_record_text(world.server, handed["uri"])
    assert "NaN" not in text
    assert json.loads(text)["estimates"]["candidate"]["reason"]
    logged = world.client.get_logged_model(candidate["model_id"])
    assert "calibration_error_upper_bound" not in {metric.key for metric in logged.metrics}
    assert world.tags("2")["mlflow_calib.upper_bound"] == "null"


def test_a_champion_whose_keys_are_gone_is_unverified(
    judged: Any, games: Path, tmp_path: Path, steps_helpers: Any
) -> None:
    """The keys stay with the champion's run when the work folder goes; gone there too they are null, not zero."""
    world = judged.world
    gone = tmp_path / "first"
    partitions = steps_helpers.scored_and_split(world.server, games, gone)
    champion = fit(partitions, name="games", server=world.server)
    world.client.set_registered_model_alias("games", "champion", champion["version"])
    how = {"how": "hash", "evaluation_fraction": 0.5, "seed": 1}
    second = steps_helpers.scored_and_split(world.server, games, tmp_path / "second", how)
    candidate = fit(second, name="games", server=world.server)
    known = read_record(world.server, evaluate(second, candidate, server=world.server)["uri"])
    assert known["overlap"]["champion_recalibration"] > 1000
    shutil.rmtree(gone)
    kept = read_record(world.server, evaluate(second, candidate, server=world.server)["uri"])
    assert kept["overlap"]["champion_recalibration"] == known["overlap"]["champion_recalibration"]
    artifacts = world.client.get_run(champion["run_id"]).info.artifact_uri
    (local_path(artifacts) / "mlflow_calib" / "recalibration_keys.parquet").unlink()
    unknown = read_record(world.server, evaluate(second, candidate, server=world.server)["uri"])
    assert unknown["overlap"]["champion_recalibration"] is None
    assert unknown["champion"]["n_evaluation_rows_in_its_recalibration_data"] is None


def test_sums_and_digest_do_not_depend_on_the_batches() -> None:
    """Streamed in any batches, the evidence is the same: counts exactly, sums to addition rounding."""
    rng = np.random.default_rng(0)
    z, groups = rng.uniform(size=1000), rng.integers(0, 40, 1000)
    y = (rng.uniform(size=1000) < z).astype(float)
    calibrator = mc.fit_calibrator(z, y, n_bins=5)
    contenders = {"candidate": calibrated(calibrator), "base": base_model(calibrator)}

    def summed(cuts: list[int]) -> tuple[Any, str]:
        digest, batches = DataDigest(), []
        for rows in np.split(np.arange(1000), cuts):
            digest.add(z[rows], y[rows])
            batches.append(Batch(z[rows], y[rows], groups=groups[rows]))
        return add_up(contenders, batches), digest.text()

    whole, one = summed([])
    parts, other = summed([1, 2, 500, 777])
    assert one == other
    for name in contenders:
        first, second = whole.statistics[name].finish(), parts.statistics[name].finish()
        assert first.counts.tolist() == second.counts.tolist()
        assert first.positives.tolist() == second.positives.tolist()
        assert np.allclose(first.group_moments.M, second.group_moments.M, rtol=1e-12, atol=1e-12)
    for comparison, first in whole.comparisons(40).items():
        second = parts.comparisons(40)[comparison]
        assert first.mean == pytest.approx(second.mean, abs=1e-14)
        assert first.standard_error == pytest.approx(second.standard_error, rel=1e-10)
    assert len(whole.comparisons(40)) == 3
