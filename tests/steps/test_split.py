"""Splitting real predictions: disjoint, sorted, counted, the same on every try, and refused where it must be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.models import infer_signature
from sklearn.linear_model import LogisticRegression

from mlflow_calib.core.split import hash_split, thirds
from mlflow_calib.data.keys import key_hashes, sorted_digest
from mlflow_calib.data.partitions import PartitionsManifest, read_partitions
from mlflow_calib.data.paths import join_uri, parent_uri, this_host
from mlflow_calib.data.predictions import read_predictions
from mlflow_calib.data.records import sha256_of_file
from mlflow_calib.errors import DataError, InvalidInputError
from mlflow_calib.steps import score, split

KEYS = ["date", "game"]
SEASONS = {"recalibration_period": "2018-10-01/2020-10-01", "evaluation_period": "2020-10-01/2021-10-01"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A base model of one feature, the probability itself."""
    folder = tmp_path_factory.mktemp("models")
    frame = pd.DataFrame({"p": np.linspace(0, 1, 100)})
    classifier = LogisticRegression(C=100).fit(frame, np.arange(100) % 100 > 45)
    classifier.classes_ = np.array([0, 1])
    mlflow.sklearn.save_model(
        classifier, folder / "base", signature=infer_signature(frame), pip_requirements=["scikit-learn"]
    )
    return str(folder / "base")


@pytest.fixture(scope="module")
def frame(real_data: Callable[[str], Path]) -> pd.DataFrame:
    """The NBA games, each with a number, the newest last."""
    return pd.read_csv(real_data("nba_games.csv"), parse_dates=["date"]).reset_index(names="game")


def scored(model: str, rows: pd.DataFrame, folder: Path, name: str = "scored", **arguments: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    rows.to_parquet(folder / f"{name}.parquet")
    columns = {"key_columns": KEYS, "label_column": "label", "time_column": "date", "group_column": "date"}
    uri = str(folder / f"{name}.parquet")
    return score(model, str(folder / name), **{**columns, "data_uri": uri, "slice_columns": ["season"], **arguments})


@pytest.fixture(scope="module")
def predictions(model: str, frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return scored(model, frame, tmp_path_factory.mktemp("predictions"))


def read(result: dict[str, Any]) -> tuple[PartitionsManifest, pd.DataFrame, pd.DataFrame]:
    manifest = read_partitions(result["uri"], result["sha256"])
    return manifest, *(manifest.read_rows(role).to_pandas() for role in ("recalibration", "evaluation"))


def test_a_hash_split_is_disjoint_complete_and_sorted(
    predictions: dict[str, Any], frame: pd.DataFrame, tmp_path: Path
) -> None:
    how = {"how": "hash", "evaluation_fraction": "0.4", "seed": "3"}
    result = split(predictions, str(tmp_path / "out"), split=how)
    manifest, recalibration, evaluation = read(result)
    hashes = key_hashes(frame, KEYS)
    chosen = hash_split(hashes, 0.4, 3)
    assert sorted(evaluation["game"]) == frame["game"][chosen].tolist()
    assert sorted(recalibration["game"]) == frame["game"][~chosen].tolist()
    for role, rows in (("recalibration", recalibration), ("evaluation", evaluation)):
        assert rows["key_hash"].is_monotonic_increasing
        file = manifest.files[role]
        assert file["n"] == len(rows) == result[f"n_{role}"]
        assert file["positives"] == rows["label"].sum()
        assert file["n_groups"] == rows["group"].nunique()
        assert file["sha256"] == sha256_of_file(tmp_path / "out" / f"{role}.parquet")
        assert file["key_hashes_sha256"] == sorted_digest(manifest.key_hashes(role))
    assert recalibration["part"].tolist() == thirds(len(recalibration)).tolist()
    assert evaluation.columns.tolist() == recalibration.columns.drop("part").tolist()
    assert evaluation.columns.tolist() == ["date", "game", "label", "time", "group", "season", "key_hash", "score_1"]
    assert manifest.overlap == {"recalibration": 0, "base_training": None, "checked_by": "one hash split"}
    assert len(json.dumps(result).encode()) < 1024, "P1: no row ids, but URIs and figures"
    assert PartitionsManifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest


def test_the_manifest_carries_the_model_and_its_keys_on(predictions: dict[str, Any], tmp_path: Path) -> None:
    manifest, recalibration, _ = read(split(predictions, str(tmp_path / "out"), split={"how": "hash"}))
    before = read_predictions(predictions["uri"])
    for name in ("base_model", "champion", "classes", "positive_class", "score_columns", "key_kinds", "source"):
        assert getattr(manifest, name) == getattr(before, name)
    assert manifest.predictions == {"uris": [predictions["uri"]], "sha256": [predictions["sha256"]]}
    keys = manifest.recalibration_keys
    assert keys["uri"] == manifest.file_uri("recalibration")
    assert keys["n"] == len(recalibration)
    assert keys["sha256"] == sorted_digest(recalibration["key_hash"].to_numpy())


def test_a_retry_gives_the_same_bytes_and_replaces(predictions: dict[str, Any], tmp_path: Path) -> None:
    first = read(split(predictions, str(tmp_path / "out"), split={"how": "hash"}))[0]
    second = read(split(json.dumps(predictions), str(tmp_path / "out"), split={"how": "hash"}, seed=0))[0]
    third = read(split(predictions["uri"], str(tmp_path / "out"), split={"how": "hash", "seed": ""}, seed=1))[0]
    assert first.files == second.files != third.files
    assert third.split["seed"] == 1
    stated = read(split(predictions, str(tmp_path / "out"), split={"how": "hash", "seed": 0}, seed=1))[0]
    assert stated.files == first.files, "the split's own seed wins, 0 too"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["evaluation.parquet", "manifest.json", "recalibration.parquet"]


def test_a_time_split_takes_its_periods_and_counts_the_rest(
    predictions: dict[str, Any], frame: pd.DataFrame, tmp_path: Path
) -> None:
    manifest, recalibration, evaluation = read(
        split(predictions, str(tmp_path / "out"), split={"how": "time", **SEASONS, "recalibration_days": 30})
    )
    assert recalibration["time"].between("2018-10-01", "2020-09-30").all()
    assert evaluation["time"].between("2020-10-01", "2021-09-30").all()
    assert manifest.n_dropped == len(frame) - len(recalibration) - len(evaluation) > 0
    assert manifest.overlap == {"recalibration": 0, "base_training": None, "checked_by": "merge join of key hashes"}
    assert manifest.split["evaluation_period"] == "2020-10-01T00:00:00/2021-10-01T00:00:00"
    assert manifest.files["evaluation"]["time_covers"][0] == "2020-10-02T00:00:00"


def test_days_count_back_from_as_of_and_late_rows_are_dropped(
    predictions: dict[str, Any], frame: pd.DataFrame, tmp_path: Path
) -> None:
    days = {"how": "time", "recalibration_days": 60, "evaluation_days": 30, "label_delay_days": 7}
    result = split(predictions, str(tmp_path / "out"), split=days, as_of="2021-04-01T00:00:00+00:00")
    manifest, recalibration, evaluation = read(result)
    for rows, start, end in ((evaluation, "2021-02-23", "2021-03-25"), (recalibration, "2020-12-25", "2021-02-23")):
        assert sorted(rows["game"]) == frame["game"][(frame["date"] >= start) & (frame["date"] < end)].tolist()
    assert manifest.split["as_of"] == "2021-04-01T00:00:00+00:00"
    assert result["n_dropped"] == len(frame) - len(evaluation) - len(recalibration)


def test_scored_with_the_same_split_nothing_more_is_dropped(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    how = {"how": "time", **SEASONS}
    given = scored(model, frame, tmp_path, split=how)
    result = split(given, str(tmp_path / "out"), split=how)
    assert result["n_dropped"] == 0
    assert given["n"] == result["n_recalibration"] + result["n_evaluation"]
    wider = {"how": "time", **SEASONS, "evaluation_period": "2020-10-01/2021-10-02"}
    with pytest.raises(InvalidInputError, match=r"scoring kept only .*not all of .*2021-10-02.*score again"):
        split(given, str(tmp_path / "wider"), split=wider)


def test_an_empty_partition_names_the_periods_and_what_the_data_covers(
    predictions: dict[str, Any], tmp_path: Path
) -> None:
    periods = {"recalibration_period": "2013-01-01/2014-01-01", "evaluation_period": "2014-01-01/2015-01-01"}
    with pytest.raises(DataError) as raised:
        split(predictions, str(tmp_path / "out"), split={"how": "time", **periods})
    for part in ("2 problems", "2013-01-01T00:00:00/2014-01-01", "2014-01-01T00:00:00/2015-01-01", "covers 2015-10-27"):
        assert part in str(raised.value)
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------------- two tables


def test_two_tables_are_taken_as_given(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    one, other = frame[:3000], frame[3000:5000]
    other.to_parquet(tmp_path / "new.parquet")
    uris = {
        "data_uri": None,
        "recalibration_uri": str(tmp_path / "old.parquet"),
        "evaluation_uri": str(tmp_path / "new.parquet"),
    }
    one.to_parquet(tmp_path / "old.parquet")
    together = split(scored(model, one, tmp_path, **uris), str(tmp_path / "a"), split={"how": "given"})
    pair = [scored(model, one, tmp_path, "one"), scored(model, other, tmp_path, "other")]
    apart = split(pair, str(tmp_path / "b"), split={"how": "given"})
    (first, *rows), (second, *same_rows) = read(together), read(apart)
    assert (together["n_recalibration"], together["n_evaluation"]) == (3000, 2000)
    for left, right in zip(rows, same_rows, strict=True):
        pd.testing.assert_frame_equal(left, right)
    assert first.files == second.files
    assert first.source["n_read"] == second.source["n_read"] == 5000
    assert second.predictions["uris"] == [one["uri"] for one in pair]
    with pytest.raises(InvalidInputError, match='how="hash" needs one scored table'):
        split(pair, str(tmp_path / "c"), split={"how": "hash"})
    with pytest.raises(InvalidInputError, match='how="given" needs two scored tables'):
        split(pair[0], str(tmp_path / "c"), split={"how": "given"})


def test_shared_rows_are_counted_and_refused(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """N19: one row in both."""
    pair = [scored(model, frame[:500], tmp_path, "one"), scored(model, frame[499:900], tmp_path, "other")]
    with pytest.raises(DataError, match=r"share no row with the recalibration data, and 1 of 401 rows do"):
        split(pair, str(tmp_path / "out"), split={"how": "given"})
    assert not (tmp_path / "out").exists()


def test_two_manifests_must_agree(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    one = scored(model, frame[:500], tmp_path, "one")
    other = scored(model, frame[500:900], tmp_path, "other", key_columns=["game"], positive_class=0)
    with pytest.raises(DataError) as raised:
        split([one, other], str(tmp_path / "out"), split={"how": "given"})
    for part in ("must agree on key_columns", "must agree on positive_class", "['score_1'] and ['score_0']"):
        assert part in str(raised.value)


# ---------------------------------------------------------------------------------------------------- training rows


def test_evaluation_rows_of_the_base_models_training_data_are_refused(
    predictions: dict[str, Any], frame: pd.DataFrame, tmp_path: Path
) -> None:
    how = {"how": "time", **SEASONS}
    frame[frame["date"] < "2020-10-01"].to_csv(tmp_path / "before.csv", index=False)
    manifest = read(
        split(predictions, str(tmp_path / "out"), split=how, base_training_uri=str(tmp_path / "before.csv"))
    )[0]
    assert manifest.overlap["base_training"] == 0
    shared = frame[(frame["date"] >= "2020-09-01") & (frame["date"] < "2021-01-01")]
    n = int((shared["date"] >= "2020-10-01").sum())
    shared.to_parquet(tmp_path / "shared.parquet")
    with pytest.raises(DataError, match=rf"training data .*shared\.parquet, and {n} of"):
        split(predictions, str(tmp_path / "no"), split=how, base_training_uri=str(tmp_path / "shared.parquet"))


def test_training_keys_of_another_kind_are_refused(
    predictions: dict[str, Any], frame: pd.DataFrame, tmp_path: Path
) -> None:
    """Texts would never meet integers: an overlap would be counted as zero."""
    frame.astype({"game": str}).to_parquet(tmp_path / "texts.parquet")
    with pytest.raises(DataError, match=r"'game' of the training table .*must hold integer values.*got text"):
        split(
            predictions, str(tmp_path / "no"), split={"how": "hash"}, base_training_uri=str(tmp_path / "texts.parquet")
        )
    frame[["game"]].to_parquet(tmp_path / "half.parquet")
    with pytest.raises(DataError, match="must have the columns 'date'"):
        split(
            predictions, str(tmp_path / "no"), split={"how": "hash"}, base_training_uri=str(tmp_path / "half.parquet")
        )


# ------------------------------------------------------------------------------------------- one class, other hosts


def test_one_class_is_noted_in_evaluation_and_refused_in_recalibration(
    model: str, frame: pd.DataFrame, tmp_path: Path
) -> None:
    won = frame[frame["label"] == 1]
    both, alone = scored(model, frame[:400], tmp_path, "both"), scored(model, won[-300:], tmp_path, "alone")
    manifest = read(split([both, alone], str(tmp_path / "out"), split={"how": "given"}))[0]
    assert manifest.notes == ["evaluation data holds one class in 300 rows, and no row of 0"]
    with pytest.raises(DataError, match="must hold both classes, and all 300 rows are of class 1"):
        split([alone, both], str(tmp_path / "no"), split={"how": "given"})
    assert not (tmp_path / "no").exists()


def test_predictions_are_never_overwritten_by_partitions(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    given = scored(model, frame[:300], tmp_path)
    with pytest.raises(DataError, match="give another place to write to"):
        split(given, parent_uri(given["uri"]), split={"how": "hash"})
    assert read_predictions(given["uri"], given["sha256"]).read_rows("data").num_rows == 300


def test_files_of_another_host_name_both(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """P16: the manifest came over, the rows did not; or the manifest did not come either."""
    given = scored(model, frame[:300], tmp_path)
    manifest = replace(read_predictions(given["uri"]), hostname="worker-7")
    place = tmp_path / "copied"
    place.mkdir()
    manifest.write(place)
    with pytest.raises(DataError, match="'worker-7'") as raised:
        split(str(place), str(tmp_path / "out"), split={"how": "hash"})
    assert repr(this_host()) in str(raised.value)
    lost = {**given, "uri": join_uri(str(tmp_path / "lost"), "manifest.json"), "hostname": "worker-7"}
    with pytest.raises(DataError, match="'worker-7'"):
        split(lost, str(tmp_path / "out"), split={"how": "hash"})


def test_changed_files_are_refused(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """P12: figures belong to the rows they were made of."""
    given = scored(model, frame[:300], tmp_path)
    result = split(given, str(tmp_path / "out"), split={"how": "hash"})
    (tmp_path / "out" / "evaluation.parquet").write_bytes((tmp_path / "out" / "recalibration.parquet").read_bytes())
    with pytest.raises(DataError, match=r"evaluation\.parquet must have digest sha256:.*run its step again"):
        read(result)
    again = scored(model, frame[:200], tmp_path)
    assert again["uri"] == given["uri"]
    with pytest.raises(DataError, match="must have digest"):
        split(given, str(tmp_path / "other"), split={"how": "hash"})


@pytest.mark.parametrize("nothing", [None, "", []])
def test_nothing_is_refused(nothing: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="predictions must be"):
        split(nothing, str(tmp_path / "out"), split={"how": "hash"})


def test_a_result_of_another_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r'predictions must have schema "mlflow_calib\.score/1"'):
        split({"schema": "mlflow_calib.fit/1", "uri": "runs:/a/b"}, str(tmp_path / "out"), split={"how": "hash"})


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "mlflow_calib.partitions/1"}', '{"schema": "mlflow_calib.predictions/1"}']
)
def test_damaged_manifests_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json (must|lacks)|problems"):
        split(str(tmp_path), str(tmp_path / "out"), split={"how": "hash"})


def test_a_file_of_labels_true_and_false_counts_its_positives(model: str, frame: pd.DataFrame, tmp_path: Path) -> None:
    """N25: True is the model's 1."""
    rows = frame[:300].assign(label=frame["label"][:300] == 1)
    manifest, _, evaluation = read(split(scored(model, rows, tmp_path), str(tmp_path / "out"), split={"how": "hash"}))
    assert manifest.files["evaluation"]["positives"] == evaluation["label"].sum() > 0
