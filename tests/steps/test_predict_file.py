"""A table through a calibrated model: the figures of the model in memory, whatever the batches and the format."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.cli.main import main
from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.steps.predict_file import predict_file


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {"id": [f"{k:04d}" for k in range(500)], "x1": rng.normal(size=500), "x2": rng.normal(size=500)}
    )


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a calibrated logistic regression, its classes "no" and "yes"."""
    return calibrated(frame, np.where(noisy(frame) > 0.3, "yes", "no"), tmp_path_factory.mktemp("model"))


def noisy(frame: pd.DataFrame) -> Any:
    return frame["x1"] + np.random.default_rng(6).normal(size=len(frame))


def calibrated(frame: pd.DataFrame, labels: Any, folder: Path) -> Path:
    inputs = frame[["x1", "x2"]]
    base = LogisticRegression().fit(inputs, labels)
    signature = ModelSignature(inputs=Schema([ColSpec("double", "x1"), ColSpec("double", "x2")]))
    mlflow.sklearn.save_model(base, str(folder / "base"), signature=signature, pip_requirements=["scikit-learn"])
    scores = base.predict_proba(inputs)
    words = {"positive_class": "yes"} if scores.shape[1] == 2 else {"reduction": "marginal"}
    words["classes"] = base.classes_.tolist()
    mc.save_model(folder / "base", mc.fit_calibrator(scores, labels, n_bins=5, **words), folder / "m")
    return folder / "m"


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.mark.parametrize("source", ["parquet", "csv", "folder"])
@pytest.mark.parametrize("target", ["out.parquet", "out.csv"])
def test_formats_and_batches(model: Path, frame: pd.DataFrame, tmp_path: Path, source: str, target: str) -> None:
    table = tmp_path / f"in.{source}"
    if source == "csv":
        frame.to_csv(table, index=False)
    elif source == "parquet":
        frame.to_parquet(table)
    else:
        table.mkdir()
        frame[:200].to_parquet(table / "a.parquet")
        frame[200:].to_parquet(table / "b.parquet")
    done = predict_file(str(model), str(table), str(tmp_path / target), keep_columns=["id"], batch_rows=64)
    assert (done["schema"], done["n"], done["uri"]) == ("mlflow_calib.predict/1", 500, (tmp_path / target).as_uri())
    if target.endswith("csv"):
        found = pyarrow.csv.read_csv(tmp_path / target).to_pandas()  # pandas 2 rounds
    else:
        found = pd.read_parquet(tmp_path / target)
    assert list(found.columns) == ["id", "probability"]
    expected = mlflow.pyfunc.load_model(str(model)).predict(frame[["x1", "x2"]])
    np.testing.assert_array_equal(found["probability"], expected)
    if source != "csv":  # ids that look like numbers are texts only where the table says so
        assert found["id"].astype(str).str.zfill(4).tolist() == frame["id"].tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([table.name, target])


@pytest.mark.parametrize(
    ("output", "columns"),
    [("label", ["label"]), ("base", ["base"]), ("both", ["base", "calibrated"]), ("probability", ["probability"])],
)
def test_outputs(model: Path, frame: pd.DataFrame, tmp_path: Path, output: str, columns: list[str]) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    predict_file(str(model), str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), output=output)
    found = pq.read_table(tmp_path / "out.parquet").to_pandas()
    assert list(found.columns) == columns
    expected = mlflow.pyfunc.load_model(str(model)).predict(frame[["x1", "x2"]], params={"output": output})
    np.testing.assert_array_equal(found[columns], np.asarray(expected).reshape(500, len(columns)))


def test_a_column_a_class(frame: pd.DataFrame, tmp_path: Path) -> None:
    folder = calibrated(frame, np.digitize(noisy(frame), [-0.7, 0.7]), tmp_path)
    frame.to_parquet(tmp_path / "in.parquet")
    predict_file(str(folder), str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), keep_columns=["id"])
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found.columns) == ["id", "0", "1", "2"]
    expected = mlflow.pyfunc.load_model(str(folder)).predict(frame[["x1", "x2"]])
    np.testing.assert_array_equal(found[["0", "1", "2"]], expected)


@pytest.mark.filterwarnings("ignore:.*An input example was not provided:UserWarning")  # MLflow's advice
def test_csv_columns_have_the_types_of_the_signature(tmp_path: Path) -> None:
    """Digits that are a text stay one; float32 and int32 are read as such, which MLflow would refuse else."""
    (tmp_path / "code.py").write_text(
        "import mlflow, numpy as np, pandas as pd\n"
        "class Model(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input: pd.DataFrame, params=None):\n"
        "        good = model_input['code'].str.startswith('0').to_numpy()\n"
        "        types = model_input[['small', 'count']].dtypes.astype(str).tolist() == ['float32', 'int32']\n"
        "        return np.where(good & types, 0.9, 0.1)\n"
        "mlflow.models.set_model(Model())\n"
    )
    columns = [ColSpec("string", "code"), ColSpec("float", "small"), ColSpec("integer", "count")]
    mlflow.pyfunc.save_model(
        str(tmp_path / "base"),
        python_model=str(tmp_path / "code.py"),
        signature=ModelSignature(inputs=Schema(columns)),
        pip_requirements=["numpy"],
    )
    scores = np.tile([0.1, 0.9], 100)
    calibrator = mc.fit_calibrator(scores, scores > 0.5, n_bins=2, method="histogram-binning")
    mc.save_model(tmp_path / "base", calibrator, tmp_path / "m", score="probability")
    (tmp_path / "in.csv").write_text("code,small,count\n007,0.1,3\n107,0.2,4\n")
    predict_file(str(tmp_path / "m"), str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), output="base")
    assert (tmp_path / "out.csv").read_text().split() == ['"base"', "0.9", "0.1"]


def test_what_is_wrong_is_said_and_leaves_the_old_file(model: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    table, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    frame.assign(x1=frame["x1"].where(frame.index != 321)).to_parquet(table)
    out.write_text("older")
    for arguments, error, message in (
        ({}, ModelError, r"cannot score rows 320 to 383"),
        ({"output": "proba"}, InvalidInputError, "output must be one of"),
        ({"keep_columns": ["nix"]}, DataError, "must have the columns 'nix'"),
    ):
        with pytest.raises(error, match=message):
            predict_file(str(model), str(table), str(out), batch_rows=64, **arguments)
    frame[["id", "x1"]].to_parquet(table)
    with pytest.raises(DataError, match="must have the columns 'x2'"):
        predict_file(str(model), str(table), str(out))
    frame.assign(x1="a").to_parquet(table)
    with pytest.raises(DataError, match=r"refuses rows 0 to 499.*x1"):
        predict_file(str(model), str(table), str(out))
    frame.rename(columns={"id": "probability"}).to_parquet(table)
    with pytest.raises(InvalidInputError, match="must not name the outputs"):
        predict_file(str(model), str(table), str(out), keep_columns=["probability"])
    with pytest.raises(DataError, match="must be the name of a file, and is a folder"):
        predict_file(str(model), str(table), str(tmp_path))
    with pytest.raises(ModelError, match="must be a calibrated model"):
        predict_file(str(model.parent / "base"), str(table), str(out))
    assert out.read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_the_input_is_never_written_over(model: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    """Nor its folder, which the next run would read, nor what is no plain file."""
    folder, table, link = tmp_path / "table", tmp_path / "table/in.parquet", tmp_path / "link.parquet"
    folder.mkdir()
    frame.to_parquet(table)
    link.symlink_to(table)
    before = table.read_bytes()
    for source, target in ((table, table), (link, table), (table, link), (folder, folder / "out.parquet")):
        with pytest.raises(DataError, match="must not be the input or lie in its folder"):
            predict_file(str(model), str(source), str(target))
    calibrator = model / "data/bundle/calibrator.json"
    with pytest.raises(DataError, match="must not lie in the folder of the model"):
        predict_file(str(model), str(table), str(calibrator))
    assert mc.load_model(str(model)).calibrator.classes
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is a device or pipe"):
        predict_file(str(model), str(table), str(tmp_path / "pipe"))
    with pytest.raises(InvalidInputError, match="never compressed CSV"):
        predict_file(str(model), str(table), str(tmp_path / "out.csv.gz"))
    assert table.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["in.parquet"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_column_is_kept_once(model: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    predict_file(str(model), str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), keep_columns=["id", "id"])
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["id", "probability"]


def test_another_file_system(model: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    import fsspec

    frame.to_parquet(tmp_path / "in.parquet")
    predict_file(str(model), str(tmp_path / "in.parquet"), "memory://predict/out.parquet")
    with fsspec.open("memory://predict/out.parquet", "rb") as file:
        assert len(pd.read_parquet(file)) == 500


def test_the_command(model: Path, frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")
    frame.to_parquet(table)
    assert main(["predict", str(model), table, out, "--output", "both", "--keep", "id,x1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 500
    assert list(pd.read_parquet(out).columns) == ["id", "x1", "base", "calibrated"]
    assert main(["predict", str(model), table, out]) == 0
    assert capsys.readouterr().out.startswith("scored 500 rows with file:///")
    assert main(["predict", str(model), str(tmp_path / "nix"), out]) == 2
    assert "does not exist" in capsys.readouterr().err
