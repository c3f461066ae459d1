"""Every base flavor: saved and loaded natively and as pyfunc, its signature, example, params, requirements, URIs."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.models import Model, infer_signature

import mlflow_calib as mc
from mlflow_calib.flavor.base_model import load_scorer, resolve_model
from mlflow_calib.flavor.tracking import MlflowServer, connected
from tests.flavor.bases import MAKERS, ONE_OF_EACH, Base, N, base, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:Operation with range is deprecated:DeprecationWarning"),  # MLflow on pandas 3
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning:onnx"),
]


def frame_of(one: Base) -> pd.DataFrame:
    return rows(2 if one.scores.ndim == 1 else 3)[0]


def column(one: Base, output: Any) -> np.ndarray:
    """What a calibrated model returned, as the scores of the base stand."""
    return np.asarray(output)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a calibrated model made of a fitted object, with an input example; each is made once."""
    root, made = tmp_path_factory.mktemp("packaged"), {}

    def folder(name: str) -> Path:
        if name not in made:
            one = base(name)
            path = root / str(len(made))
            signature = infer_signature(frame_of(one))
            options = {"signature": signature, "input_example": frame_of(one)[:20], **one.options}
            mc.save_model(one.model, one.calibrator, path, score=one.score, **options)
            made[name] = path
        return made[name]

    return folder


@pytest.mark.parametrize("name", MAKERS)
def test_round_trip_to_the_bit(packaged: Callable[[str], Path], name: str) -> None:
    one, path = base(name), packaged(name)
    loaded = mlflow.pyfunc.load_model(str(path))
    source = json.loads((path / "data/bundle/calibrator.json").read_text())["base_model"]["score_source"]
    assert source == {"score": one.score, **one.source}
    scores = column(one, loaded.predict(frame_of(one), params={"output": "base"}))
    np.testing.assert_allclose(scores, one.scores, rtol=1e-12 if one.source.get("link") else 0)
    expected = one.calibrator.predict(scores)
    np.testing.assert_array_equal(column(one, loaded.predict(frame_of(one))), expected)
    np.testing.assert_array_equal(column(one, mc.load_model(str(path)).predict(frame_of(one))), expected)


@pytest.mark.parametrize("name", MAKERS)
def test_outputs(packaged: Callable[[str], Path], name: str) -> None:
    one = base(name)
    loaded, frame = mlflow.pyfunc.load_model(str(packaged(name))), frame_of(one)
    labels = loaded.predict(frame, params={"output": "label"})
    classes = np.asarray(one.source["classes"])
    columns = one.scores if one.scores.ndim == 2 else np.column_stack([1 - one.scores, one.scores])
    clear = np.ptp(np.sort(columns)[:, -2:], axis=1) > 1e-6
    np.testing.assert_array_equal(labels[clear], classes[columns.argmax(axis=1)][clear])
    both = loaded.predict(frame, params={"output": "both"})
    assert both.shape == (N, 2 if one.scores.ndim == 1 else 6)
    assert len(loaded.predict(frame[:0])) == 0


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_signature_example_and_requirements(packaged: Callable[[str], Path], name: str) -> None:
    one, path = base(name), packaged(name)
    meta = Model.load(str(path))
    assert meta.signature.inputs.to_dict() == infer_signature(frame_of(one)).inputs.to_dict()
    assert [spec.type.name for spec in meta.signature.outputs] == ["double"]
    assert [param.name for param in meta.signature.params] == ["output"]
    pd.testing.assert_frame_equal(meta.load_input_example(str(path)), frame_of(one)[:20])
    lines = (path / "requirements.txt").read_text().splitlines()
    for package in (*one.packages, "mlflow", "numpy"):
        assert any(line.split("==")[0] == package for line in lines), (package, lines)
    assert meta.flavors["mlflow_calib"]["base_model"]["flavors"] == sorted(["python_function", one.flavor[7:]])


def test_all_of_them_serve_without_the_package(
    packaged: Callable[[str], Path], fresh_process: Callable[..., str], tmp_path: Path
) -> None:
    """In one new process that cannot import mlflow_calib: nineteen artifacts, one bundled runtime."""
    script = (
        "import json, sys, mlflow.pyfunc, numpy as np, pandas as pd\n"
        "for path, frame in json.loads(sys.argv[1]):\n"
        "    out = mlflow.pyfunc.load_model(path, suppress_warnings=True).predict(pd.read_parquet(frame))\n"
        "    np.save(path + '/out.npy', np.asarray(out))\n"
    )
    for n_classes in (2, 3):
        rows(n_classes)[0].to_parquet(tmp_path / f"{n_classes}.parquet")
    paths = {name: shutil.copytree(packaged(name), tmp_path / f"m{n}") for n, name in enumerate(MAKERS)}
    frames = {name: tmp_path / f"{2 if base(name).scores.ndim == 1 else 3}.parquet" for name in MAKERS}
    fresh_process(script, json.dumps([[str(paths[name]), str(frames[name])] for name in MAKERS]))
    for name, path in paths.items():
        here = mlflow.pyfunc.load_model(str(packaged(name))).predict(frame_of(base(name)))
        np.testing.assert_array_equal(np.load(path / "out.npy"), np.asarray(here), err_msg=name)


# ------------------------------------------------------------------------------------------------------------- URIs


@pytest.fixture(scope="module")
def store(migrated_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    folder = tmp_path_factory.mktemp("store")
    shutil.copyfile(migrated_database, folder / "mlflow.db")
    database = sqlite3.connect(folder / "mlflow.db")
    with database:
        database.execute("UPDATE experiments SET artifact_location = ?", ((folder / "artifacts").as_uri(),))
    database.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("MLFLOW_REGISTRY_URI", raising=False)
        yield MlflowServer(f"sqlite:///{folder}/mlflow.db")


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_every_kind_of_uri(store: MlflowServer, name: str) -> None:
    """The base model from its flavor's own ``log_model``; the calibrated one registered, aliased and copied."""
    one, words = base(name), name.replace(" ", "-").replace(":", "-")
    flavor, expected = importlib.import_module(one.flavor), None
    with connected(store) as client, mlflow.start_run() as run:
        options = {"signature": infer_signature(frame_of(one)), "pip_requirements": ["numpy"], **one.options}
        logged = flavor.log_model(one.model, name="base", registered_model_name=f"base-{words}", **options)
        client.set_registered_model_alias(f"base-{words}", "champion", 1)
        pinned = f"models:/{logged.model_id}"
        kinds = {
            f"models:/base-{words}@champion": f"models:/base-{words}/1",
            f"models:/base-{words}/1": f"models:/base-{words}/1",
            f"runs:/{run.info.run_id}/base": pinned,
            pinned: pinned,
        }
        for asked, uri in kinds.items():
            path = Path.cwd() / f"{words}-{list(kinds).index(asked)}"
            mc.save_model(asked, one.calibrator, path, score=one.score)
            record = json.loads((path / "data/bundle/calibrator.json").read_text())["base_model"]
            assert (record["uri"], record["model_id"]) == (uri, logged.model_id)
            assert record.get("asked_for") == (asked if asked != uri else None)
            expected = mlflow.pyfunc.load_model(str(path)).predict(frame_of(one))
        info = mc.log_model(
            f"models:/base-{words}@champion", one.calibrator, score=one.score, registered_model_name=words
        )
        client.copy_model_version(f"models:/{words}/1", f"{words}-copy")
        client.set_registered_model_alias(f"{words}-copy", "champion", 1)
        for uri in (info.model_uri, f"models:/{words}/1", f"models:/{words}-copy@champion"):
            np.testing.assert_array_equal(mlflow.pyfunc.load_model(uri).predict(frame_of(one)), expected)
        np.testing.assert_array_equal(mc.load_model(f"models:/{words}-copy/1").predict(frame_of(one)), expected)


@pytest.mark.parametrize("name", MAKERS)
def test_the_steps_see_the_same_scores(packaged: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    """`load_scorer` on the bare base model gives the scores of the packaged one, to the bit."""
    one, path = base(name), packaged(name)
    classes = None if one.score == "auto" or one.source["call"] == "decision_function" else one.source["classes"]
    scorer = load_scorer(resolve_model(None, path / "data/bundle/base_model"), one.score, classes)
    scores = scorer.base_scores(frame_of(one))
    expected = mlflow.pyfunc.load_model(str(path)).predict(frame_of(one), params={"output": "base"})
    found = scores[:, 1] if scores.ndim == 2 and one.scores.ndim == 1 else scores
    np.testing.assert_array_equal(found, np.asarray(expected))
    assert dict(scorer.score_source) == {"score": one.score, **one.source}
