"""A base model that is named in place of being copied, and runtimes of several releases side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor import artifact
from mlflow_calib.flavor.tracking import MlflowServer, connected

Rows = tuple[pd.DataFrame, np.ndarray]

PREDICT = """
import os, sys, mlflow, pandas as pd, numpy as np
uri, model, frame, out = sys.argv[1:]
mlflow.set_tracking_uri(uri)
np.save(out, mlflow.pyfunc.load_model(model, suppress_warnings=True).predict(pd.read_parquet(frame)))
"""


@pytest.fixture
def registered(mlflow_server: MlflowServer, binary_model: Path) -> MlflowServer:
    """A server with the base model as version 1 of "base", alias "champion"."""
    with connected(mlflow_server) as client, mlflow.start_run():
        model = mlflow.sklearn.load_model(str(binary_model))
        signature = mlflow.models.get_model_info(str(binary_model)).signature
        mlflow.sklearn.log_model(
            model, name="base", signature=signature, pip_requirements=["scikit-learn"], registered_model_name="base"
        )
        client.set_registered_model_alias("base", "champion", "1")
    return mlflow_server


def test_a_base_model_named_by_its_version(
    registered: MlflowServer, binary_rows: Rows, binary_calibrator: Calibrator, tmp_path: Path,
    fresh_process: Callable[..., str],
) -> None:  # fmt: skip
    """The alias is pinned when the model is saved; the artifact holds no copy, and predicts the same."""
    frame = binary_rows[0]
    with connected(registered), mlflow.start_run():
        whole = mc.log_model("models:/base@champion", binary_calibrator, "whole")
        info = mc.log_model(
            "models:/base@champion", binary_calibrator, "named", embed=False,
            registered_model_name="named",
        )  # fmt: skip
        folder = Path(mlflow.artifacts.download_artifacts(info.model_uri, dst_path=str(tmp_path / "copy")))
        expected = mlflow.pyfunc.load_model(whole.model_uri).predict(frame)
        np.testing.assert_array_equal(mlflow.pyfunc.load_model(info.model_uri).predict(frame), expected)
        np.testing.assert_array_equal(mc.load_model("models:/named/1").predict(frame), expected)
        found = mc.describe("models:/named/1")
        again = mc.recalibrate("models:/named/1", *binary_rows, n_bins=3)
        kept = ("uri", "model_id", "digest", "embedded", "flavors")
        assert all(mc.describe(again.model_uri)["base_model"][name] == found["base_model"][name] for name in kept)
    assert not (folder / "data/bundle/base_model").exists()
    assert (found["base_model"]["uri"], found["base_model"]["embedded"]) == ("models:/base/1", False)
    frame.to_parquet(tmp_path / "frame.parquet")
    arguments = (registered.tracking_uri, "models:/named/1", tmp_path / "frame.parquet", tmp_path / "out.npy")
    fresh_process(PREDICT, *arguments)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)


def test_another_base_model_in_its_place_is_refused(registered: MlflowServer, binary_calibrator: Calibrator) -> None:
    """At load, with both digests; no prediction is made."""
    with connected(registered), mlflow.start_run():
        info = mc.log_model("models:/base/1", binary_calibrator, "named", embed=False)
        base = Path(mlflow.artifacts.download_artifacts("models:/base/1"))
        (base / "extra.txt").write_text("later")
        with pytest.raises(
            ValueError, match=r"models:/base/1 must have digest sha256:\w+, found sha256:\w+: it is not"
        ):
            mlflow.pyfunc.load_model(info.model_uri)
        with pytest.raises(ModelError, match="it is not the one that was calibrated"):
            mc.load_model(info.model_uri)
        (base / "extra.txt").unlink()
        mlflow.pyfunc.load_model(info.model_uri)


def test_a_named_base_model_that_was_deleted(registered: MlflowServer, binary_calibrator: Calibrator) -> None:
    scores = np.random.default_rng(0).uniform(size=600)
    labels = (np.random.default_rng(1).uniform(size=600) < scores).astype(int)
    with connected(registered) as client, mlflow.start_run():
        info = mc.log_model("models:/base/1", binary_calibrator, "named", embed=False)
        client.delete_model_version("base", "1")
        for use in (mc.load_model, lambda uri: mc.recalibrate(uri, scores=scores, labels=labels)):
            with pytest.raises(ModelError, match=r"the base model of .* cannot be read"):
                use(info.model_uri)


def test_what_has_no_lasting_name_must_be_embedded(
    binary_model: Path, binary_calibrator: Calibrator, binary_rows: Rows, tmp_path: Path
) -> None:
    model = mlflow.sklearn.load_model(str(binary_model))
    for base in (binary_model, model):
        with pytest.raises(ModelError, match="must be named for good, by models:/m-"):
            mc.save_model(base, binary_calibrator, tmp_path / "m", embed=False)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("uri", ["models:/base@champion", "models:/base/latest", "file:///base", None])
def test_an_alias_written_in_by_hand_is_refused(
    tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator, uri: str | None
) -> None:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m")
    path = tmp_path / "m/data/bundle/calibrator.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "base_model": {**document["base_model"], "uri": uri, "embedded": False}}))
    with pytest.raises(ValueError, match=r"its base model is not embedded, and .* names no model for good"):
        mlflow.pyfunc.load_model(str(tmp_path / "m"))


def test_a_lost_base_model_is_damage(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m")
    shutil.rmtree(tmp_path / "m/data/bundle/base_model")
    with pytest.raises(ValueError, match="its base_model folder is missing"):
        mlflow.pyfunc.load_model(str(tmp_path / "m"))
    with pytest.raises(ModelError, match="its base_model folder is missing"):
        mc.load_model(str(tmp_path / "m"))


def test_an_old_artifact_never_shadows_the_installed_package(
    tmp_path: Path,
    binary_model: Path,
    binary_rows: Rows,
    binary_calibrator: Calibrator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An artifact of an earlier release, its bundled code another, is loaded first; the package stays the package."""
    source = artifact.runtime_source()
    old = source.replace(b"return values[bin_index(scores, edges)]", b"return 0 * values[bin_index(scores, edges)]")
    assert old != source
    with monkeypatch.context() as patch:
        patch.setattr(artifact, "runtime_source", lambda: old)
        mc.save_model(binary_model, binary_calibrator, tmp_path / "old")
    mc.save_model(binary_model, binary_calibrator, tmp_path / "new")
    mc.save_model(binary_model, binary_calibrator, tmp_path / "installed", bundle_runtime=False)
    script = """
import sys, json, mlflow.pyfunc, pandas as pd
frame = pd.read_parquet(sys.argv[1])
found = [mlflow.pyfunc.load_model(path, suppress_warnings=True).predict(frame).sum() for path in sys.argv[2:]]
import mlflow_calib, mlflow_calib.runtime
bundled = [name for name in sys.modules if "_rt_" in name]
print(json.dumps([found, mlflow_calib.__file__, mlflow_calib.runtime.__file__, bundled]))
"""
    frame = binary_rows[0]
    frame.to_parquet(tmp_path / "frame.parquet")
    output = run_with_the_package(
        script, tmp_path / "frame.parquet", *(tmp_path / n for n in ("old", "new", "installed"))
    )
    sums, package, runtime_file, bundled = json.loads(output)
    assert sums[0] == 0
    assert sums[1] == sums[2] > 0
    assert (Path(package).parent, Path(runtime_file).parent) == (Path(mc.__file__).parent,) * 2
    assert len(bundled) == 2


def run_with_the_package(script: str, *arguments: Any) -> str:
    import subprocess
    import sys

    command = [sys.executable, "-c", script, *map(str, arguments)]
    root = Path(mc.__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("signature", "checks"), [(None, False), (False, True), ("wider", True)])
def test_equal_signatures_check_the_input_once(
    tmp_path: Path, binary_model: Path, binary_rows: Rows, binary_calibrator: Calibrator, signature: Any, checks: bool
) -> None:
    """Where the calibrated model declares other inputs than its base model, or none, both check."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    if signature == "wider":
        columns = [ColSpec("double", "x1"), ColSpec("double", "x2"), ColSpec("string", "note", required=False)]
        signature = ModelSignature(inputs=Schema(columns))
    folder = tmp_path / "größe %"
    mc.save_model(binary_model, binary_calibrator, folder, signature=signature)
    loaded, frame = mlflow.pyfunc.load_model(str(folder)), binary_rows[0]
    inner = loaded.get_raw_model().base_model.metadata.signature
    assert (inner is not None and inner.inputs is not None) == checks
    np.testing.assert_array_equal(loaded.predict(frame), mc.load_model(str(folder)).predict(frame))
