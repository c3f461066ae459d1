"""Scoring real tables with real MLflow models: what is written, what is counted, what is refused, what is left."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from mlflow.models import infer_signature
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.data.keys import key_hashes
from mlflow_calib.data.predictions import PredictionsManifest, read_predictions
from mlflow_calib.data.row_problems import RowProblems, check_scores
from mlflow_calib.errors import CalibrationWarning, DataError, InvalidInputError, ModelError
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import score
from mlflow_calib.steps.score_classes import require_distinct_words

COLUMNS: dict[str, Any] = {"key_columns": ["game"], "label_column": "label"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """A SQLite store with a registered base model, ``games-base``: version 1, and version 2 with alias ``live``."""
    folder = tmp_path_factory.mktemp("mlflow")
    before = Path.cwd()
    os.chdir(folder)
    try:
        (folder / "mlflow.db").touch()
        server = MlflowServer(f"sqlite:///{folder}/mlflow.db")
        with connected(server) as client:
            for strength in (1.0, 0.1):
                mlflow.sklearn.log_model(
                    classifier(strength),
                    name="base",
                    registered_model_name="games-base",
                    signature=infer_signature(games(5)[["a", "b"]]),
                    pip_requirements=["scikit-learn"],
                )
            client.set_registered_model_alias("games-base", "live", "2")
        yield server
    finally:
        os.chdir(before)


def games(n: int, seed: int = 0) -> pd.DataFrame:
    """Games with two features, a day of November or December 2013, a court, and who won."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"game": np.arange(n), "a": rng.normal(size=n), "b": rng.normal(size=n)})
    frame["day"] = pd.Timestamp("2013-11-01") + pd.to_timedelta(np.arange(n) * 60 // n, unit="D")
    frame["court"] = np.where(rng.random(n) < 0.5, "home", "away")
    frame["label"] = (rng.random(n) < 1 / (1 + np.exp(-frame["a"] - frame["b"]))).astype(int)
    return frame


def classifier(strength: float = 1.0, labels: Callable[[pd.Series], Any] = lambda column: column) -> LogisticRegression:
    rows = games(400, seed=1)
    return LogisticRegression(C=strength).fit(rows[["a", "b"]], labels(rows["label"]))


def table(folder: Path, frame: pd.DataFrame, name: str = "games.parquet") -> str:
    frame.to_parquet(folder / name)
    return str(folder / name)


def local_model(folder: Path, model: Any) -> str:
    signature = infer_signature(games(5)[["a", "b"]])
    mlflow.sklearn.save_model(model, folder / "model", signature=signature, pip_requirements=["scikit-learn"])
    return str(folder / "model")


def read(result: dict[str, Any]) -> tuple[PredictionsManifest, pd.DataFrame]:
    manifest = read_predictions(result["uri"], result["sha256"])
    return manifest, manifest.read_rows("data").to_pandas()


def nothing_beside(folder: Path, *names: str) -> None:
    """Nothing half-written, hidden files included, stands in the folder."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


def test_scores_stand_beside_keys_labels_and_columns(server: MlflowServer, tmp_path: Path) -> None:
    frame = games(1000)
    uri = table(tmp_path, frame)
    result = score(
        "models:/games-base@live", str(tmp_path / "out"), data_uri=uri, server=server, group_column="day",
        time_column="day", slice_columns=["court"], **COLUMNS,
    )  # fmt: skip
    assert result["model_uri"] == "models:/games-base/2", "an alias is resolved once"
    assert (result["n"], result["version"], result["champion_version"]) == (1000, "2", None)
    assert len(json.dumps(result).encode()) < 1024, "P1"
    manifest, rows = read(result)
    assert rows.columns.tolist() == ["game", "label", "time", "group", "court", "key_hash", "score_1"]
    expected = classifier(0.1).predict_proba(frame[["a", "b"]])[:, 1]
    np.testing.assert_array_equal(rows["score_1"], expected)
    np.testing.assert_array_equal(rows["key_hash"], key_hashes(frame, ["game"]))
    for name, source in {"game": "game", "label": "label", "time": "day", "group": "day", "court": "court"}.items():
        assert rows[name].tolist() == frame[source].tolist()
    assert (manifest.classes, manifest.positive_class, manifest.score_columns) == ([0, 1], 1, ["score_1"])
    assert manifest.base_model["version"] == "2"
    assert manifest.base_model["digest"].startswith("sha256:")
    assert manifest.source["n_read"] == manifest.files["data"]["n"] == 1000
    assert manifest.champion is None
    assert PredictionsManifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest


def test_a_champion_that_is_not_set_is_recorded(server: MlflowServer, tmp_path: Path) -> None:
    arguments = {"data_uri": table(tmp_path, games(50)), "server": server, **COLUMNS}
    result = score("models:/games-base/1", str(tmp_path / "out"), champion="models:/games@champion", **arguments)
    manifest, rows = read(result)
    assert manifest.champion == {"alias": "champion", "name": "games", "version": None}
    assert not [name for name in rows.columns if name.startswith("champion_")]


def test_a_raw_champion_is_scored_as_a_base_model(server: MlflowServer, tmp_path: Path) -> None:
    """Every adopter's first day: the champion is not one of ours."""
    frame = games(200)
    result = score(
        "models:/games-base/1", str(tmp_path / "out"), data_uri=table(tmp_path, frame), server=server,
        champion="models:/games-base@live", **COLUMNS,
    )  # fmt: skip
    manifest, rows = read(result)
    np.testing.assert_array_equal(rows["champion_score_1"], classifier(0.1).predict_proba(frame[["a", "b"]])[:, 1])
    assert (rows["champion_score_1"] != rows["score_1"]).any()
    assert (manifest.champion["kind"], manifest.champion["version"], manifest.champion["alias"]) == ("raw", "2", "live")
    assert manifest.champion["output_columns"] == manifest.champion["score_columns"] == ["champion_score_1"]
    assert result["champion_version"] == "2"


@pytest.mark.parametrize("where", ["a folder", "a logged model"])
def test_a_champion_without_version_is_refused(server: MlflowServer, tmp_path: Path, where: str) -> None:
    """Its manifest would read as one of a first day, and what it was compared with could not be set back."""
    data, base = table(tmp_path, games(50)), local_model(tmp_path, classifier())
    with connected(server) as client:
        logged = client.get_model_version("games-base", "2").source
    champion = base if where == "a folder" else logged
    assert where == "a folder" or champion.startswith("models:/m-")
    message = f"champion must be a version or an alias of a registered model.* got {champion}, which has no version"
    with pytest.raises(InvalidInputError, match=message):
        score(base, str(tmp_path / "out"), data_uri=data, server=server, champion=champion, **COLUMNS)
    nothing_beside(tmp_path, "games.parquet", "model")
    manifest, _ = read(score(base, str(tmp_path / "out"), data_uri=data, server=server, **COLUMNS))
    forged = manifest.to_dict() | {"champion": {"alias": None, "name": None, "version": None, "uri": champion}}
    with pytest.raises(
        DataError, match=r"champion\.version must name the registered version that was scored, got None"
    ):
        PredictionsManifest.from_dict(forged)


def test_the_base_model_as_champion_is_not_run_twice(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    predict = LogisticRegression.predict_proba
    monkeypatch.setattr(LogisticRegression, "predict_proba", lambda self, x: calls.append(len(x)) or predict(self, x))
    result = score(
        "models:/games-base/2", str(tmp_path / "out"), data_uri=table(tmp_path, games(70)), server=server,
        champion="models:/games-base@live", **COLUMNS,
    )  # fmt: skip
    manifest, rows = read(result)
    assert calls == [70]
    assert rows["champion_score_1"].tolist() == rows["score_1"].tolist()
    assert manifest.champion["digest"] == manifest.base_model["digest"]


def test_a_champion_of_ours_gives_its_base_scores_and_its_own_output(server: MlflowServer, tmp_path: Path) -> None:
    frame = games(300)
    base = classifier(0.1)
    calibrator = mc.fit_calibrator(base.predict_proba(frame[["a", "b"]])[:, 1], frame["label"], n_bins=5)
    calibrator = calibrator.with_facts(recalibration_keys={"uri": "file:///k", "sha256": "sha256:0", "n": 300})
    with connected(server) as client:
        mc.log_model("models:/games-base/2", calibrator, name="calibrated", registered_model_name="ours")
        client.set_registered_model_alias("ours", "champion", "1")
    result = score(
        "models:/games-base/1", str(tmp_path / "out"), data_uri=table(tmp_path, frame), server=server,
        champion="models:/ours@champion", **COLUMNS,
    )  # fmt: skip
    manifest, rows = read(result)
    scores = base.predict_proba(frame[["a", "b"]])[:, 1]
    np.testing.assert_array_equal(rows["champion_score_1"], scores)
    np.testing.assert_array_equal(rows["champion_output_1"], calibrator.predict(scores))
    assert (manifest.champion["kind"], manifest.champion["version"]) == ("calibrated", "1")
    assert manifest.champion["recalibration_keys"] == {"uri": "file:///k", "sha256": "sha256:0", "n": 300}
    with pytest.raises(ModelError, match="is calibrated already; give the base model"):
        score(
            "models:/ours/1", str(tmp_path / "no"), data_uri=str(tmp_path / "games.parquet"), server=server, **COLUMNS
        )


def test_a_missing_model_or_server_is_refused(
    server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    uri = table(tmp_path, games(5))
    with pytest.raises(ModelError, match="games-base"):
        score("models:/games-base/9", str(tmp_path / "out"), data_uri=uri, server=server, **COLUMNS)
    with pytest.raises(InvalidInputError, match="MLFLOW_TRACKING_URI"):
        score("models:/games-base/1", str(tmp_path / "out"), data_uri=uri, **COLUMNS)
    nothing_beside(tmp_path, "games.parquet")


# -------------------------------------------------------------------------------------------- periods and two tables


def test_rows_outside_the_periods_are_dropped_and_counted(tmp_path: Path) -> None:
    model = local_model(tmp_path, classifier())
    frame = games(600)
    split = {
        "how": "time",
        "recalibration_period": "2013-11-11/2013-11-21",
        "evaluation_period": "2013-12-01/2013-12-11",
    }
    arguments = {"data_uri": table(tmp_path, frame), "time_column": "day", **COLUMNS}
    result = score(model, str(tmp_path / "out"), split=split, **arguments)
    manifest, rows = read(result)
    assert result["n"] == len(rows) == 200
    assert manifest.source["n_outside_periods"] == 400
    assert manifest.source["time_covers"] == ["2013-11-01T00:00:00", "2013-12-30T00:00:00"]
    assert manifest.source["periods"]["evaluation"] == "2013-12-01T00:00:00/2013-12-11T00:00:00"
    days = {"how": "time", "recalibration_days": "10", "evaluation_days": 10, "label_delay_days": 5}
    again = score(model, str(tmp_path / "days"), split=days, as_of="2013-12-16T00:00:00+00:00", **arguments)
    assert read(again)[1]["time"].min() == pd.Timestamp("2013-11-21")
    late = {**split, "recalibration_period": "2015-01-01/2015-02-01", "evaluation_period": "2015-02-01/2015-03-01"}
    with pytest.raises(DataError, match=r"2015-02-01.*the data covers 2013-11-01T00:00:00 to 2013-12-30"):
        score(model, str(tmp_path / "late"), split=late, **arguments)
    nothing_beside(tmp_path, "games.parquet", "model", "out", "days")


def test_two_tables_become_two_files(tmp_path: Path) -> None:
    model, frame = local_model(tmp_path, classifier()), games(100)
    older, newer = table(tmp_path, frame[:60], "a.parquet"), table(tmp_path, frame[60:], "b.parquet")
    result = score(model, str(tmp_path / "out"), recalibration_uri=older, evaluation_uri=newer, **COLUMNS)
    manifest = read_predictions(result["uri"])
    assert {role: file["n"] for role, file in manifest.files.items()} == {"recalibration": 60, "evaluation": 40}
    nothing_beside(tmp_path / "out", "manifest.json", "recalibration.parquet", "evaluation.parquet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "got none"),
        ({"recalibration_uri": "a"}, "got recalibration_uri"),
        ({"data_uri": "a", "evaluation_uri": "b"}, "got data_uri, evaluation_uri"),
        ({"data_uri": "a", "split": {"how": "given"}}, 'how="given" needs recalibration_uri'),
        ({"recalibration_uri": "a", "evaluation_uri": "b", "split": {"how": "hash"}}, 'how="hash" needs data_uri'),
        (
            {
                "data_uri": "a",
                "split": {"how": "time", "recalibration_days": 1, "evaluation_days": 1},
                "as_of": "2013-01-01",
            },
            "time_column must be given",
        ),
        ({"data_uri": "a", "slice_columns": ["time"], "time_column": "day"}, "'time' cannot be stored.*'day'; rename"),
        ({"data_uri": "a", "slice_columns": ["score_1", "key_hash"]}, r"(?s)2 problems.*'score_1'.*'key_hash'"),
    ],
)
def test_contradicting_arguments_are_refused_before_anything_is_read(
    arguments: dict, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        score("nowhere", str(tmp_path / "out"), **COLUMNS, **arguments)


# ------------------------------------------------------------------------------------------------ labels and columns


def test_missing_labels_are_an_error_or_dropped_and_counted(tmp_path: Path) -> None:
    model, frame = local_model(tmp_path, classifier()), games(100)
    frame["label"] = frame["label"].astype(float)
    frame.loc[[3, 50], "label"] = np.nan
    uri = table(tmp_path, frame)
    with pytest.raises(DataError, match=r"labels must not be missing.*2 rows of .*games\.parquet.*row 3; row 50"):
        score(model, str(tmp_path / "out"), data_uri=uri, **COLUMNS)
    manifest, rows = read(score(model, str(tmp_path / "out"), data_uri=uri, drop_unlabelled=True, **COLUMNS))
    assert manifest.source["n_unlabelled_dropped"] == 2
    assert len(rows) == 98
    assert rows["label"].isin([0.0, 1.0]).all(), "labels 0.0 and 1.0 are the classes 0 and 1 (N25)"


def test_labels_unknown_to_the_model_are_listed_with_their_rows(tmp_path: Path) -> None:
    """N26: .5 for a tie; N7: labels the model has never seen; all at once, and nothing is left."""
    model, frame = local_model(tmp_path, classifier()), games(100)
    frame["label"] = frame["label"].astype(float)
    frame.loc[[7, 9], "label"] = 0.5
    frame.loc[11, "label"] = 2.0
    with pytest.raises(DataError, match=r"0\.5 \(2 rows, first 7, 9\), 2\.0 \(1 rows, first 11\)"):
        score(model, str(tmp_path / "out"), data_uri=table(tmp_path, frame), **COLUMNS)
    nothing_beside(tmp_path, "games.parquet", "model")


def test_labels_in_the_models_own_words_need_a_positive_class(tmp_path: Path) -> None:
    """N25: never guessed from order."""
    words = lambda column: np.where(column == 1, "won", "lost")  # noqa: E731
    model, frame = local_model(tmp_path, classifier(labels=words)), games(60)
    arguments = {"data_uri": table(tmp_path, frame.assign(label=words(frame["label"]))), **COLUMNS}
    with pytest.raises(InvalidInputError, match=r"positive_class must be stated for the classes \['lost', 'won'\]"):
        score(model, str(tmp_path / "out"), **arguments)
    manifest, rows = read(score(model, str(tmp_path / "out"), positive_class="lost", **arguments))
    expected = classifier(labels=words).predict_proba(frame[["a", "b"]])[:, 0]
    np.testing.assert_array_equal(rows["score_lost"], expected)
    assert (manifest.positive_class, manifest.score_columns) == ("lost", ["score_lost"])
    with pytest.raises(DataError, match=r"classes of the model, \['lost', 'won'\].*unknown to it: .*1 \("):
        score(model, str(tmp_path / "no"), data_uri=table(tmp_path, frame), positive_class="won", **COLUMNS)


def test_a_class_of_another_type_is_named(tmp_path: Path) -> None:
    model = local_model(tmp_path, classifier())
    with pytest.raises(InvalidInputError, match=r"one of \[0, 1\], got '1'; the model spells it 1"):
        score(model, str(tmp_path / "out"), data_uri=table(tmp_path, games(5)), positive_class="1", **COLUMNS)


def three_words(column: pd.Series) -> Any:
    return np.where(np.arange(len(column)) % 3 == 2, "tie", np.where(column == 1, "won", "lost"))


def test_every_one_of_three_classes_gets_its_own_scores(tmp_path: Path) -> None:
    """Columns in the model's order and words; no class is the positive one."""
    model, frame = local_model(tmp_path, classifier(labels=three_words)), games(60)
    frame["label"] = three_words(frame["label"])
    arguments = {"data_uri": table(tmp_path, frame), **COLUMNS}
    manifest, rows = read(score(model, str(tmp_path / "out"), **arguments))
    columns = ["score_lost", "score_tie", "score_won"]
    assert (manifest.classes, manifest.positive_class) == (["lost", "tie", "won"], None)
    assert manifest.score_columns == columns
    np.testing.assert_array_equal(rows[columns], classifier(labels=three_words).predict_proba(frame[["a", "b"]]))
    with pytest.raises(InvalidInputError, match="positive_class belongs to a model of two classes, and this one has 3"):
        score(model, str(tmp_path / "out"), positive_class="won", **arguments)


def test_a_champion_in_another_order_of_classes_is_put_into_the_base_models(
    server: MlflowServer, tmp_path: Path
) -> None:
    """Order is the model's own affair; a column is the class that its name says."""
    frame = games(300)
    frame["label"] = three_words(frame["label"])
    base = classifier(labels=three_words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator = mc.fit_calibrator(
            base.predict_proba(frame[["a", "b"]])[:, [2, 0, 1]],
            frame["label"],
            classes=["won", "lost", "tie"],
            reduction="marginal",
            n_bins=3,
        )
    model = local_model(tmp_path, base)
    with connected(server):
        mc.log_model(model, calibrator, name="calibrated", registered_model_name="words")
    result = score(
        model, str(tmp_path / "out"), data_uri=table(tmp_path, frame), server=server, champion="models:/words/1",
        **COLUMNS,
    )  # fmt: skip
    manifest, rows = read(result)
    names = ["lost", "tie", "won"]
    assert manifest.champion["score_columns"] == [f"champion_score_{name}" for name in names]
    assert manifest.champion["output_columns"] == [f"champion_output_{name}" for name in names]
    for name in names:
        np.testing.assert_array_equal(rows[f"champion_score_{name}"], rows[f"score_{name}"])
    outputs = pd.DataFrame(calibrator.predict(rows[["score_won", "score_lost", "score_tie"]].to_numpy()))
    outputs.columns = ["won", "lost", "tie"]
    for name in names:
        assert rows[f"champion_output_{name}"].tolist() == outputs[name].tolist()


def test_classes_that_look_alike_are_refused(tmp_path: Path) -> None:
    """1 and "1" would share the column score_1."""
    mixed = np.array([1, "1", 2], dtype=object)
    model = local_model(tmp_path, classifier(labels=lambda column: column + (np.arange(len(column)) % 2)))
    with pytest.raises(ModelError, match=r"must differ as texts, which name their columns, and 1 stands for several"):
        require_distinct_words(mixed.tolist())
    unknown = games(5).assign(label=[0, 1, 2, 3, 3])
    with pytest.raises(DataError, match=r"classes of the model, \[0, 1, 2\]"):
        score(model, str(tmp_path / "out"), data_uri=table(tmp_path, unknown), **COLUMNS)


def test_a_bad_row_of_several_scores_is_counted_once() -> None:
    problems = RowProblems("the table")
    scores = np.array([[0.2, 0.3, 0.5], [np.nan, np.nan, np.nan], [0.0, -1e-9, 1.0]])
    clean, n_clipped = check_scores(scores, np.array([10, 11, 12]), problems, "the model")
    assert problems.counts == {"scores of the model must be finite numbers; drop or repair the rows": 1}
    assert "row 11: [nan, nan, nan]" in problems.sentences()[0]
    assert (clean[2].tolist(), n_clipped) == ([0.0, 0.0, 1.0], 1)


def test_missing_columns_are_listed(tmp_path: Path) -> None:
    model = local_model(tmp_path, classifier())
    uri = table(tmp_path, games(5)[["game", "a", "label"]])
    with pytest.raises(DataError, match=r"must have the columns 'day', 'hall'; it has 'game', 'a', 'label'"):
        score(model, str(tmp_path / "out"), data_uri=uri, group_column="day", slice_columns=["hall"], **COLUMNS)
    with pytest.raises(DataError, match="must have the columns 'b'"):
        score(model, str(tmp_path / "out"), data_uri=uri, **COLUMNS)
    nothing_beside(tmp_path, "games.parquet", "model")


def test_a_model_without_a_signature_needs_its_columns(tmp_path: Path) -> None:
    mlflow.sklearn.save_model(
        LogisticRegression().fit(games(99)[["a", "b"]].to_numpy(), games(99)["label"]),
        tmp_path / "m",
        pip_requirements=["scikit-learn"],
    )
    frame = games(40)
    arguments = {"data_uri": table(tmp_path, frame), **COLUMNS}
    with pytest.raises(InvalidInputError, match="feature_columns must be given"):
        score(str(tmp_path / "m"), str(tmp_path / "out"), **arguments)


def test_missing_and_repeated_keys_groups_and_times_are_refused(tmp_path: Path) -> None:
    model, frame = local_model(tmp_path, classifier()), games(50)
    frame.loc[4, "court"] = None
    frame.loc[6, "day"] = pd.NaT
    frame["game"] = frame["game"].astype(float)
    frame.loc[[20, 21], "game"] = np.nan
    arguments = {"group_column": "court", "time_column": "day", **COLUMNS}
    with pytest.raises(DataError) as raised:
        score(model, str(tmp_path / "out"), data_uri=table(tmp_path, frame), **arguments)
    for part in (
        "3 problems",
        "'court' must not be missing",
        "row 4",
        "'day' must not",
        "row 6",
        "'game' must not",
        "row 20; row 21",
    ):
        assert part in str(raised.value)
    frame = games(50)
    frame.loc[10, "game"] = 3
    with pytest.raises(DataError, match=r"keys \(game\) must name one row each, and 2 of 50 rows.*game=3"):
        score(model, str(tmp_path / "out"), data_uri=table(tmp_path, frame), **COLUMNS)
    nothing_beside(tmp_path, "games.parquet", "model")


# ------------------------------------------------------------------------------------------------------------ scores


class Column(mlflow.pyfunc.PythonModel):
    """A model that says what stands in its first column."""

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict | None = None) -> Any:  # noqa: ARG002
        return model_input.iloc[:, 0].to_numpy()


class Failing(mlflow.pyfunc.PythonModel):
    """A model that fails where its input says so."""

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict | None = None) -> Any:  # noqa: ARG002
        if (model_input.iloc[:, 0] > 1).any():
            raise RuntimeError("out of memory")
        return np.full(len(model_input), 0.5)


def column_model(folder: Path, model: Any = None) -> str:
    mlflow.pyfunc.save_model(folder / "column", python_model=model or Column(), pip_requirements=["mlflow"])
    return str(folder / "column")


@pytest.mark.filterwarnings("ignore:Add type hints to the `predict` method:UserWarning")
def test_forecasts_that_are_none_are_refused_with_rows_and_count(
    real_data: Callable[[str], Path], tmp_path: Path
) -> None:
    """N24 on solar_flare_c1: NaN where there is no forecast, -0.01 as a sentinel, 0 and 1 as they should be."""
    model = column_model(tmp_path)
    path = real_data("solar_flare_c1.csv")
    frame = pd.read_csv(path)
    arguments = {"data_uri": str(path), "key_columns": ["date"], "label_column": "label", "base_score": "probability"}
    missing = frame["ASAP"].isna()
    assert missing.any()
    with pytest.raises((DataError, ModelError), match="finite") as raised:
        score(model, str(tmp_path / "out"), classes=[0, 1], feature_columns=["ASAP"], **arguments)
    assert f"{missing.sum()} " in str(raised.value)
    assert f"row {missing.idxmax()}" in str(raised.value)
    sentinel = next(name for name in frame.columns[1:-1] if (frame[name] == -0.01).any() and frame[name].notna().all())
    with pytest.raises((DataError, ModelError), match=r"\[0, 1\]") as raised:
        score(model, str(tmp_path / "out"), classes=[0, 1], feature_columns=[sentinel], **arguments)
    assert f"{(frame[sentinel] == -0.01).sum()} " in str(raised.value)
    nothing_beside(tmp_path, "column")
    result = score(model, str(tmp_path / "out"), classes=[0, 1], feature_columns=["NOAA"], **arguments)
    assert read(result)[1]["score_1"].tolist() == frame["NOAA"].tolist()


def test_scores_are_clipped_for_rounding_alone_and_counted() -> None:
    """N24: 1.0000001 is 1; 1.5, -0.01, NaN and infinity are named with their rows in the whole table."""
    problems = RowProblems("t.csv")
    numbers = np.arange(100, 106)
    clean, n_clipped = check_scores(np.array([0, 1, 1.0000001, -1e-7, 0.3, 1 + 1e-6]), numbers, problems, "m")
    assert clean.tolist() == [0, 1, 1, 0, 0.3, 1]
    assert n_clipped == 3
    assert problems.sentences() == []
    check_scores(np.array([np.nan, 1.5, -0.01, np.inf, 0.5, -np.inf]), numbers, problems, "m")
    check_scores(np.full(10, np.nan), np.arange(200, 210), problems, "m")
    finite, inside = problems.sentences()
    assert "13 rows of t.csv" in finite
    assert "row 100: nan; row 103: inf; row 105: -inf" in finite
    assert "2 rows of t.csv do not hold it: row 101: 1.5; row 102: -0.01" in inside


@pytest.mark.filterwarnings("ignore:Add type hints to the `predict` method:UserWarning")
def test_an_error_on_the_third_batch_leaves_the_old_result_and_nothing_half_written(tmp_path: Path) -> None:
    """P12, P17: write beside, then rename; a retry replaces."""
    n = 200_000
    frame = pd.DataFrame({"game": range(n), "x": 0.0, "label": np.arange(n) % 2})
    arguments = {"base_score": "probability", "classes": [0, 1], "feature_columns": ["x"], **COLUMNS}
    model, out = column_model(tmp_path, Failing()), str(tmp_path / "out")
    first = score(model, out, data_uri=table(tmp_path, frame), **arguments)
    frame.loc[150_000, "x"] = 2.0
    with pytest.raises(RuntimeError, match="out of memory"):
        score(model, out, data_uri=table(tmp_path, frame), **arguments)
    nothing_beside(tmp_path, "column", "games.parquet", "out")
    assert read(first)[0].files["data"]["n"] == n, "the result of the run before still stands"
    second = score(model, out, data_uri=table(tmp_path, frame[:1000]), **arguments)
    nothing_beside(tmp_path, "column", "games.parquet", "out")
    nothing_beside(tmp_path / "out", "manifest.json", "predictions.parquet")
    assert second["uri"] == first["uri"]
    assert read(second)[0].files["data"]["n"] == 1000
    with pytest.raises(DataError, match="it changed since"):
        read(first)


def test_a_folder_of_somebody_else_is_never_replaced(tmp_path: Path) -> None:
    model, uri = local_model(tmp_path, classifier()), table(tmp_path, games(30))
    with pytest.raises(DataError, match="must be a new or empty folder"):
        score(model, str(tmp_path / "model"), data_uri=uri, **COLUMNS)
    with pytest.raises(DataError, match="must be a folder, and is a file"):
        score(model, uri, data_uri=uri, **COLUMNS)
    assert (tmp_path / "model" / "MLmodel").exists()


def test_folders_named_after_run_ids_and_remote_stores_work(tmp_path: Path) -> None:
    """P17: ':' and '+' in a path; and a store of another scheme."""
    model, uri = local_model(tmp_path, classifier()), table(tmp_path, games(30))
    for out in (str(tmp_path / "manual__2026-01-01T00:00:00+00:00"), "memory://scores/run"):
        for _ in range(2):
            result = score(model, out, data_uri=uri, progress=True, **COLUMNS)
        assert read(result)[0].files["data"]["n"] == 30
    assert "hostname" not in result


def test_batches_bound_memory_and_order_is_kept(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """NBA games in small row groups: as many batches, the same scores in the same order."""
    frame = pd.read_csv(real_data("nba_games.csv")).reset_index(names="game").assign(a=lambda f: f["p"], b=0.0)
    frame.to_parquet(tmp_path / "nba.parquet", row_group_size=500)
    model = local_model(tmp_path, classifier())
    seasons = {"recalibration_period": "2019-10-01/2020-10-01", "evaluation_period": "2020-10-01/2021-10-01"}
    arguments = {"data_uri": str(tmp_path / "nba.parquet"), "time_column": "date", **COLUMNS}
    result = score(model, str(tmp_path / "out"), split={"how": "time", **seasons}, **arguments)
    manifest, rows = read(result)
    inside = frame[(frame["date"] >= "2019-10-01") & (frame["date"] < "2021-10-01")]
    assert rows["game"].tolist() == inside["game"].tolist()
    np.testing.assert_allclose(rows["score_1"], classifier().predict_proba(inside[["a", "b"]])[:, 1], rtol=1e-15)
    assert manifest.source["n_outside_periods"] == len(frame) - len(inside)
    assert pq.ParquetFile(tmp_path / "out" / "predictions.parquet").num_row_groups > 1


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("part", r"'part' cannot be stored as 'part', which holds the step's own figures"),
        ("group", r"'group' cannot be stored as 'group', which holds the group column, if any"),
        ("time", r"'time' cannot be stored as 'time', which holds the time column, if any"),
    ],
)
def test_columns_named_like_the_steps_own_are_refused(column: str, message: str, tmp_path: Path) -> None:
    """They would be taken for the group, the time, or the part of the fit, after all the work."""
    with pytest.raises(InvalidInputError, match=message):
        score("m", str(tmp_path / "out"), data_uri="d", key_columns=["game", column], label_column="label")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key_columns": None}, "key_columns must be a list of column names, got None"),
        ({"key_columns": "game"}, "key_columns must be a list of column names, got 'game'"),
        ({"key_columns": ["game", "game"]}, "each once"),
        ({"key_columns": ["game"], "drop_unlabelled": "false"}, "drop_unlabelled must be True or False, got 'false'"),
    ],
)
def test_arguments_of_a_wrong_kind_are_named(arguments: dict, message: str, tmp_path: Path) -> None:
    uri = table(tmp_path, games(20))
    with pytest.raises(InvalidInputError, match=message):
        score("m", str(tmp_path / "out"), data_uri=uri, label_column="label", **arguments)


@pytest.mark.parametrize("role", ["label_column", "group_column"])
def test_a_column_of_lists_is_refused(role: str, tmp_path: Path) -> None:
    frame = games(20).assign(list=[[1, 2]] * 20)
    columns = {"key_columns": ["game"], "label_column": "label", role: "list"}
    with pytest.raises(DataError, match=r"'list' of .* must hold one plain value a row, got list"):
        score(local_model(tmp_path, classifier()), str(tmp_path / "out"), data_uri=table(tmp_path, frame), **columns)


def test_two_tables_of_which_one_alone_has_a_zone_are_refused(tmp_path: Path) -> None:
    first, second = games(20), games(20).assign(game=range(100, 120))
    second["day"] = second["day"].dt.tz_localize("UTC")
    with pytest.raises(DataError, match="must have a zone in all rows and tables, or in none"):
        score(
            local_model(tmp_path, classifier()), str(tmp_path / "out"), time_column="day", split={"how": "given"},
            recalibration_uri=table(tmp_path, first, "a.parquet"), evaluation_uri=table(tmp_path, second, "b.parquet"),
            **COLUMNS,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": None}, "files must be a table of files"),
        ({"base_model": {}}, "base_model must be a table that names"),
        ({"source": None}, "source must be a table"),
        ({"score_columns": ["label"]}, r"score_columns must be \['score_1'\], got \['label'\]"),
        ({"positive_class": 7}, r"positive_class must be one of \[0, 1\], got 7"),
        ({"files": {"data": {"path": "x"}}}, "files.data.n is missing"),
    ],
)
def test_a_manifest_edited_by_hand_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    result = score(
        local_model(tmp_path, classifier()), str(tmp_path / "out"), data_uri=table(tmp_path, games(20)), **COLUMNS
    )
    document = read_predictions(result["uri"]).to_dict()
    with pytest.raises(DataError, match=message):
        PredictionsManifest.from_dict({**document, **change})
