"""The flavor: one model of base and calibrator, which predicts to the bit the same wherever it runs."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor import artifact
from mlflow_calib.flavor.base_model import folder_digest, resolve_model
from mlflow_calib.flavor.runs import log_metrics, start_or_reuse_run
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.runtime import model_files

Rows = tuple[pd.DataFrame, np.ndarray]
MLFLOW = tuple(map(int, mlflow.__version__.split(".")[:2]))

PREDICT = """
import sys, mlflow.pyfunc, numpy as np, pandas as pd
model, frame, out = sys.argv[1:]
predicted = mlflow.pyfunc.load_model(model, suppress_warnings=True).predict(pd.read_parquet(frame))
np.save(out, np.asarray(predicted))
"""


@pytest.fixture
def binary(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> Path:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "binary")
    return tmp_path / "binary"


@pytest.fixture
def marginal(tmp_path: Path, three_class_model: Path, three_class_calibrator: Calibrator) -> Path:
    mc.save_model(three_class_model, three_class_calibrator, tmp_path / "marginal")
    return tmp_path / "marginal"


def load(path: Path) -> Any:
    return mlflow.pyfunc.load_model(str(path))


def base_scores(rows: Rows) -> np.ndarray:
    scores: np.ndarray = LogisticRegression().fit(*rows).predict_proba(rows[0])
    return scores


# ------------------------------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize("bundled", [True, False])
def test_binary_round_trip_to_the_bit(
    tmp_path: Path,
    binary_model: Path,
    binary_rows: Rows,
    binary_calibrator: Calibrator,
    fresh_process: Callable[..., str],
    bundled: bool,
) -> None:
    """N1: memory = native = pyfunc in a new process; bundled, that process cannot import mlflow_calib."""
    frame = binary_rows[0]
    expected = binary_calibrator.predict(base_scores(binary_rows)[:, 1])
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m", bundle_runtime=bundled)
    frame.to_parquet(tmp_path / "frame.parquet")
    fresh_process(PREDICT, tmp_path / "m", tmp_path / "frame.parquet", tmp_path / "out.npy", blocked=bundled)
    fresh = np.load(tmp_path / "out.npy")
    assert fresh.dtype == np.float64
    assert fresh.shape == (600,)
    np.testing.assert_array_equal(fresh, expected)
    native = mc.load_model(str(tmp_path / "m"))
    np.testing.assert_array_equal(native.predict(frame), expected)
    np.testing.assert_array_equal(
        native.predict(frame.astype("float32")), load(tmp_path / "m").predict(frame.astype("float32"))
    )
    assert native.calibrator.with_base_model(None) == binary_calibrator
    np.testing.assert_array_equal(native.base_model.get_raw_model().predict_proba(frame), base_scores(binary_rows))


def test_three_string_classes_round_trip_to_the_bit(
    tmp_path: Path,
    marginal: Path,
    three_class_rows: Rows,
    three_class_calibrator: Calibrator,
    fresh_process: Callable[..., str],
) -> None:
    """N3: a column a class, not renormalised, and the meta data says so."""
    frame = three_class_rows[0]
    expected = three_class_calibrator.predict(base_scores(three_class_rows))
    frame.to_parquet(tmp_path / "frame.parquet")
    fresh_process(PREDICT, marginal, tmp_path / "frame.parquet", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    predicted = load(marginal).predict(frame)
    assert list(predicted.columns) == ["ant", "bee", "cat"]
    assert (predicted.dtypes == "float64").all()
    np.testing.assert_array_equal(mc.load_model(str(marginal)).predict(frame), predicted)
    assert not np.allclose(predicted.sum(axis=1), 1)
    assert Model.load(str(marginal)).metadata["mlflow_calib"]["rows_sum_to_one"] is False


def test_the_bundled_runtime_needs_neither_the_package_nor_pandas_to_import(
    binary: Path, fresh_process: Callable[..., str]
) -> None:
    script = (
        "import importlib.util\n"
        "spec = importlib.util.spec_from_file_location('rt', sys.argv[1])\n"
        "rt = importlib.util.module_from_spec(spec); spec.loader.exec_module(rt)\n"
        "assert not {'mlflow', 'pandas', 'scipy', 'mlflow_calib'} & set(sys.modules)\n"
        "import numpy as np\n"
        "print(rt.look_up(np.array([.1, .3, .31]), np.array([.3]), np.array([.2, .8])).tolist())\n"
    )
    file = next((binary / "code").glob("_mlflow_calib_rt_*.py"))
    assert json.loads(fresh_process(script, file)) == [0.2, 0.2, 0.8]


def test_two_runtimes_in_one_process(
    tmp_path: Path,
    binary_model: Path,
    binary_rows: Rows,
    binary_calibrator: Calibrator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bundled modules of one name would shadow each other: the second artifact would run the first one's code."""
    mc.save_model(binary_model, binary_calibrator, tmp_path / "now")
    source = artifact.runtime_source()
    later = source.replace(b"return values[bin_index(scores, edges)]", b"return 1 - values[bin_index(scores, edges)]")
    assert later != source
    monkeypatch.setattr(artifact, "runtime_source", lambda: later)
    mc.save_model(binary_model, binary_calibrator, tmp_path / "later")
    frame = binary_rows[0]
    now, then = load(tmp_path / "now"), load(tmp_path / "later")
    np.testing.assert_array_equal(then.predict(frame), 1 - now.predict(frame))


def test_boosted_trees_that_need_cloudpickle(tmp_path: Path, binary_rows: Rows) -> None:
    frame, labels = binary_rows
    model = HistGradientBoostingClassifier(max_iter=5).fit(frame, labels)
    calibrator = fit_calibrator(model.predict_proba(frame)[:, 1], labels, n_bins=5)
    if MLFLOW >= (3, 14):  # since then skops is MLflow's default
        with pytest.raises(ModelError, match='pass serialization_format="cloudpickle"'):
            mc.save_model(model, calibrator, tmp_path / "refused")
    mc.save_model(model, calibrator, tmp_path / "m", serialization_format="cloudpickle")
    expected = calibrator.predict(model.predict_proba(frame)[:, 1])
    np.testing.assert_array_equal(load(tmp_path / "m").predict(frame), expected)


@pytest.mark.filterwarnings("ignore:.*An input example was not provided:UserWarning")  # MLflow's advice
def test_any_pyfunc_that_declares_probabilities(tmp_path: Path, fresh_process: Callable[..., str]) -> None:
    """The base takes a parameter of its own, which stays in the signature beside ours."""
    (tmp_path / "code.py").write_text(
        "import mlflow, numpy as np, pandas as pd\n"
        "class Sigmoid(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input: pd.DataFrame, params=None):\n"
        "        return 1 / (1 + np.exp(-(params or {}).get('slope', 1.0) * model_input['x'].to_numpy()))\n"
        "mlflow.models.set_model(Sigmoid())\n"
    )
    signature = ModelSignature(
        inputs=Schema([ColSpec("double", "x")]), params=ParamSchema([ParamSpec("slope", "double", 1.0)])
    )
    mlflow.pyfunc.save_model(
        str(tmp_path / "base"), python_model=str(tmp_path / "code.py"), signature=signature, pip_requirements=["numpy"]
    )
    frame = pd.DataFrame({"x": np.linspace(-3, 3, 200)})
    scores = 1 / (1 + np.exp(-frame["x"].to_numpy()))
    calibrator = fit_calibrator(scores, np.arange(200) % 7 > 2, n_bins=4)
    mc.save_model(tmp_path / "base", calibrator, tmp_path / "m", score="probability")
    model = load(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(frame), calibrator.predict(scores))
    steeper = model.predict(frame, params={"output": "base", "slope": 2.0})
    np.testing.assert_allclose(steeper, 1 / (1 + np.exp(-2 * frame["x"])))
    assert [param.name for param in model.metadata.signature.params.params] == ["slope", "output"]
    frame.to_parquet(tmp_path / "frame.parquet")
    fresh_process(PREDICT, tmp_path / "m", tmp_path / "frame.parquet", tmp_path / "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), calibrator.predict(scores))


def test_an_array_signature(tmp_path: Path, binary_rows: Rows, binary_calibrator: Calibrator) -> None:
    frame, labels = binary_rows
    array = frame.to_numpy()
    signature = mlflow.models.infer_signature(array, labels)
    model = LogisticRegression().fit(array, labels)
    mc.save_model(model, binary_calibrator, tmp_path / "m", signature=signature)
    expected = binary_calibrator.predict(model.predict_proba(array)[:, 1])
    np.testing.assert_array_equal(load(tmp_path / "m").predict(array), expected)
    assert load(tmp_path / "m").predict(array[:0]).shape == (0,)


# ------------------------------------------------------------------------------------------------------------ outputs


def test_outputs_of_a_binary_model(binary: Path, binary_rows: Rows, binary_calibrator: Calibrator) -> None:
    model, frame = load(binary), binary_rows[0]
    base = base_scores(binary_rows)[:, 1]
    np.testing.assert_array_equal(model.predict(frame, params={"output": "base"}), base)
    labels = model.predict(frame, params={"output": "label"})
    np.testing.assert_array_equal(labels, LogisticRegression().fit(*binary_rows).predict(frame))
    both = model.predict(frame.set_index(frame.index + 7), params={"output": "both"})
    assert list(both.index) == list(range(7, 607))
    np.testing.assert_array_equal(both["base"], base)
    np.testing.assert_array_equal(both["calibrated"], binary_calibrator.predict(base))
    with pytest.raises(ValueError, match=r"output must be one of \['probability', 'label', 'base', 'both'\]"):
        model.predict(frame, params={"output": "proba"})


def test_outputs_of_three_classes(marginal: Path, three_class_rows: Rows) -> None:
    model, frame = load(marginal), three_class_rows[0]
    base = model.predict(frame, params={"output": "base"})
    np.testing.assert_array_equal(base, base_scores(three_class_rows))
    labels = model.predict(frame, params={"output": "label"})
    np.testing.assert_array_equal(labels, LogisticRegression().fit(*three_class_rows).predict(frame))
    both = model.predict(frame, params={"output": "both"})
    names = [f"{kind}_{label}" for kind in ("base", "calibrated") for label in ("ant", "bee", "cat")]
    assert list(both.columns) == names
    np.testing.assert_array_equal(both[names[3:]], model.predict(frame))


@pytest.mark.parametrize("output", ["probability", "label", "base", "both"])
def test_no_rows_give_no_rows(binary: Path, marginal: Path, binary_rows: Rows, output: str) -> None:
    none = binary_rows[0].iloc[:0]
    one, three = (load(path).predict(none, params={"output": output}) for path in (binary, marginal))
    assert one.shape == ((0, 2) if output == "both" else (0,))
    assert three.shape == {"label": (0,), "both": (0, 6)}.get(output, (0, 3))


def test_a_row_without_a_score_is_an_error(binary: Path, binary_rows: Rows) -> None:
    with pytest.raises(ValueError, match="NaN"):
        load(binary).predict(binary_rows[0].assign(x1=np.nan))


def test_the_raw_model_is_never_the_uncalibrated_one(binary: Path, binary_rows: Rows) -> None:
    raw = load(binary).get_raw_model()
    assert not hasattr(raw, "predict_proba")
    np.testing.assert_array_equal(raw.predict(binary_rows[0]), load(binary).predict(binary_rows[0]))


def test_the_positive_class_may_be_any(tmp_path: Path, binary_rows: Rows) -> None:
    """N25: labels in the model's own words, the positive class stated, here the first of the two."""
    frame, numbers = binary_rows
    labels = np.where(numbers == 1, "late", "on time")
    model = LogisticRegression().fit(frame, labels)
    scores = model.predict_proba(frame)[:, 0]
    calibrator = fit_calibrator(scores, labels, n_bins=5, classes=["late", "on time"], positive_class="late")
    mc.save_model(model, calibrator, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(frame), calibrator.predict(scores))
    np.testing.assert_array_equal(load(tmp_path / "m").predict(frame, params={"output": "label"}), model.predict(frame))


def test_a_calibrator_may_hold_the_classes_in_another_order(
    tmp_path: Path, three_class_model: Path, three_class_rows: Rows
) -> None:
    frame, labels = three_class_rows
    scores = base_scores(three_class_rows)[:, [2, 0, 1]]
    calibrator = fit_calibrator(scores, labels, reduction="marginal", classes=["cat", "ant", "bee"], n_bins=4)
    mc.save_model(three_class_model, calibrator, tmp_path / "m")
    predicted = load(tmp_path / "m").predict(frame)
    assert list(predicted.columns) == ["cat", "ant", "bee"]
    np.testing.assert_array_equal(predicted, calibrator.predict(scores))


# ------------------------------------------------------------------------------------------------------- the artifact


def test_the_layout(binary: Path, binary_model: Path) -> None:
    files = {path.relative_to(binary).as_posix() for path in binary.rglob("*") if path.is_file()}
    (runtime,) = (binary / "code").iterdir()
    base = {f"data/bundle/base_model/{path.name}" for path in model_files(binary_model)}
    assert files == base | {
        "MLmodel",
        "requirements.txt",
        "conda.yaml",
        "python_env.yaml",
        f"code/{runtime.name}",
        "data/bundle/calibrator.json",
    }
    conf = Model.load(str(binary)).flavors
    assert set(conf) == {"mlflow_calib", "python_function"}
    assert conf["python_function"]["loader_module"] == runtime.stem
    assert folder_digest(binary / "data/bundle/base_model") == folder_digest(binary_model)


def test_the_facts_of_the_base_model(binary: Path, binary_model: Path) -> None:
    facts = json.loads((binary / "data/bundle/calibrator.json").read_text())["base_model"]
    assert facts == {
        "uri": binary_model.resolve().as_uri(),
        "model_id": None,
        "digest": folder_digest(binary_model),
        "flavors": ["python_function", "sklearn"],
        "score_source": {"score": "auto", "call": "predict_proba", "classes": [0, 1]},
    }


def test_the_signature(binary: Path, marginal: Path, binary_model: Path) -> None:
    base, ours = (Model.load(str(path)).signature for path in (binary_model, binary))
    assert ours.inputs == base.inputs
    assert ours.outputs == Schema([ColSpec("double")])
    assert ours.params == ParamSchema([ParamSpec("output", "string", "probability")])
    names = ("ant", "bee", "cat")
    assert Model.load(str(marginal)).signature.outputs == Schema([ColSpec("double", name) for name in names])


def test_signatures_given_and_refused(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    given = ModelSignature(inputs=Schema([ColSpec("float", "x1"), ColSpec("double", "x2")]))
    for name, signature, inputs in (("given", given, given.inputs), ("none", False, None)):
        mc.save_model(binary_model, binary_calibrator, tmp_path / name, signature=signature)
        saved = Model.load(str(tmp_path / name)).signature
        assert (saved.inputs, saved.outputs) == (inputs, Schema([ColSpec("double")]))


def test_requirement_lines_are_the_base_models(
    tmp_path: Path, binary_rows: Rows, binary_calibrator: Calibrator
) -> None:
    """Local versions, index options and constraints stay as they were; nothing is inferred, numpy is added."""
    lines = [
        "--extra-index-url https://wheels.example/cpu",
        "mlflow>=3",
        "scikit-learn==1.9.1+cpu",
        "-c constraints.txt",
    ]
    base = tmp_path / "base"
    mlflow.sklearn.save_model(LogisticRegression().fit(*binary_rows), str(base), pip_requirements=["scikit-learn"])
    (base / "requirements.txt").write_text("\n".join(lines))
    (base / "constraints.txt").write_text("scipy<2")
    conda = yaml.safe_load((base / "conda.yaml").read_text())
    conda["dependencies"] = ["python=3.10.4", "libgomp", "pip", {"pip": lines}]
    (base / "conda.yaml").write_text(yaml.safe_dump(conda))
    (base / "python_env.yaml").write_text(
        "python: 3.10.4\nbuild_dependencies: []\ndependencies: [-r requirements.txt]\n"
    )
    mc.save_model(base, binary_calibrator, tmp_path / "m", extra_pip_requirements=["shap"])
    saved = (tmp_path / "m/requirements.txt").read_text().splitlines()
    assert saved == [*lines[:3], "numpy", "shap", "-c constraints.txt"]
    assert (tmp_path / "m/constraints.txt").read_text() == "scipy<2"
    dependencies = yaml.safe_load((tmp_path / "m/conda.yaml").read_text())["dependencies"]
    assert dependencies == ["python=3.10.4", "libgomp", "pip", {"pip": saved}]
    assert "3.10.4" in (tmp_path / "m/python_env.yaml").read_text()


def test_requirements_replaced_or_installed(tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator) -> None:
    mc.save_model(binary_model, binary_calibrator, tmp_path / "own", pip_requirements=["mlflow", "numpy<3"])
    assert (tmp_path / "own/requirements.txt").read_text().splitlines() == ["mlflow", "numpy<3"]
    mc.save_model(binary_model, binary_calibrator, tmp_path / "installed", bundle_runtime=False)
    assert f"mlflow-calib=={mc.__version__}" in (tmp_path / "installed/requirements.txt").read_text().splitlines()
    assert not (tmp_path / "installed/code").exists()
    with pytest.raises(InvalidInputError, match="give one of them"):
        mc.save_model(
            binary_model, binary_calibrator, tmp_path / "x", pip_requirements=[], extra_pip_requirements=["a"]
        )


def test_a_uv_project_in_the_working_folder_is_not_the_models(
    tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "uv.lock").write_text("version = 1\n")
    (project / "pyproject.toml").write_text('[project]\nname = "worker"\nversion = "0"\n')
    monkeypatch.chdir(project)
    mc.save_model(binary_model, binary_calibrator, tmp_path / "m")
    assert not (tmp_path / "m/uv.lock").exists()
    assert not (tmp_path / "m/pyproject.toml").exists()
    assert "worker" not in (tmp_path / "m/requirements.txt").read_text()


def test_defaults_list_what_loading_needs() -> None:
    assert mc.get_default_pip_requirements() == ["numpy"]
    conda = mc.get_default_conda_env()
    assert conda["dependencies"][-1]["pip"] == [f"mlflow=={mlflow.__version__}", "numpy"]


# -------------------------------------------------------------------------------------------------------- base models


def test_of_a_calibrated_base_its_own_base_is_taken(
    tmp_path: Path, binary: Path, binary_rows: Rows, binary_model: Path
) -> None:
    """A champion of ours is recalibrated: calibrators never pile up."""
    frame, labels = binary_rows
    again = fit_calibrator(base_scores(binary_rows)[:, 1], labels, n_bins=3)
    mc.save_model(binary, again, tmp_path / "again")
    document = json.loads((tmp_path / "again/data/bundle/calibrator.json").read_text())
    first = json.loads((binary / "data/bundle/calibrator.json").read_text())
    assert document["base_model"] == first["base_model"]
    assert not (tmp_path / "again/data/bundle/base_model/data").exists()
    expected = again.predict(base_scores(binary_rows)[:, 1])
    np.testing.assert_array_equal(load(tmp_path / "again").predict(frame), expected)


def test_classes_must_agree(tmp_path: Path, binary_model: Path, three_class_calibrator: Calibrator) -> None:
    with pytest.raises(ModelError, match=r"the calibrator has \['ant', 'bee', 'cat'\], the base model \[0, 1\]"):
        mc.save_model(binary_model, three_class_calibrator, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_every_mismatch_is_said_at_once(tmp_path: Path, binary_rows: Rows) -> None:
    signature = ModelSignature(
        inputs=Schema([ColSpec("double", "x1"), ColSpec("double", "x2")]),
        params=ParamSchema([ParamSpec("output", "string", "x")]),
    )
    mlflow.sklearn.save_model(
        LogisticRegression().fit(*binary_rows), str(tmp_path / "b"), signature=signature, pip_requirements=["numpy"]
    )
    frame, labels = binary_rows
    calibrator = fit_calibrator(frame["x1"], labels, n_bins=4, score_kind="logit")
    with pytest.raises(ModelError, match=r"2 problems:\n.*fitted on logits.*\n.*parameter \"output\" of its own"):
        mc.save_model(tmp_path / "b", calibrator, tmp_path / "m")


def test_what_is_no_base_model(tmp_path: Path, binary_calibrator: Calibrator) -> None:
    for base, message in ((object(), "must be a fitted model of .*sklearn.* got object"), ("absent", "MLmodel")):
        with pytest.raises(ModelError, match=message):
            mc.save_model(base, binary_calibrator, tmp_path / "m")


def test_what_is_no_calibrated_model(binary_model: Path) -> None:
    with pytest.raises(
        ModelError, match=r"its flavors are \['python_function', 'sklearn'\]; load it with mlflow.pyfunc"
    ):
        mc.load_model(str(binary_model))


def test_an_older_artifact_without_a_score_source_is_damaged(binary: Path) -> None:
    path = binary / "data/bundle/calibrator.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model": None}))
    with pytest.raises(ValueError, match="must say how the base model gives scores"):
        load(binary)


# ------------------------------------------------------------------------------------------------------------ logging


def test_logging_from_a_registered_alias(
    mlflow_server: MlflowServer, binary_rows: Rows, binary_model: Path, binary_calibrator: Calibrator
) -> None:
    """The alias is resolved once; the model lands in the run's own experiment and is registered."""
    with connected(mlflow_server) as client:
        mlflow.register_model(str(binary_model), "base")
        client.set_registered_model_alias("base", "champion", "1")
    with start_or_reuse_run(mlflow_server, "calibration", "r", {}, "k") as run_id, connected(mlflow_server):
        info = mc.log_model(
            "models:/base@champion",
            binary_calibrator,
            "flights",
            run_id=run_id,
            registered_model_name="flights",
            params={"n_bins": 5},
            tags={"team": "delay"},
            metadata={"owner": "me"},
        )
    client = mlflow_server.client()
    logged = client.get_logged_model(info.model_id)
    assert logged.experiment_id == client.get_run(run_id).info.experiment_id
    assert (logged.name, logged.source_run_id, logged.params["n_bins"]) == ("flights", run_id, "5")
    assert str(logged.status) == "READY"
    assert logged.tags["team"] == "delay"
    assert info.registered_model_version == 1
    assert info.metadata["owner"] == "me"
    resolved = resolve_model(mlflow_server, "models:/flights/1")
    assert resolved.model_id == info.model_id
    assert resolved.calibrator is not None
    assert resolved.calibrator["base_model"]["uri"] == "models:/base/1"
    with connected(mlflow_server):
        expected = binary_calibrator.predict(base_scores(binary_rows)[:, 1])
        np.testing.assert_array_equal(mlflow.pyfunc.load_model("models:/flights/1").predict(binary_rows[0]), expected)
        np.testing.assert_array_equal(mc.load_model("models:/flights/1").predict(binary_rows[0]), expected)


def test_metrics_of_the_base_model_do_not_land_on_the_calibrated_one(
    mlflow_server: MlflowServer, binary_model: Path, binary_calibrator: Calibrator
) -> None:
    with start_or_reuse_run(mlflow_server, "e", "r", {}, "k") as run_id, connected(mlflow_server) as client:
        base = client.create_logged_model(client.get_run(run_id).info.experiment_id, "base", source_run_id=run_id)
        log_metrics(mlflow_server, run_id, {"calibration_error": 0.3}, model_id=base.model_id)
        info = mc.log_model(binary_model, binary_calibrator, run_id=run_id)
        assert not client.get_logged_model(info.model_id).metrics
        outputs = client.get_run(run_id).outputs.model_outputs
    assert [output.model_id for output in outputs] == [info.model_id]
    assert info.run_id == run_id


def test_a_base_that_does_not_fit_logs_nothing(
    mlflow_server: MlflowServer, binary_model: Path, three_class_calibrator: Calibrator
) -> None:
    with connected(mlflow_server) as client:
        with pytest.raises(ModelError, match="same classes"):
            mc.log_model(binary_model, three_class_calibrator)
        assert client.search_logged_models(["0"]) == []


@pytest.mark.filterwarnings("ignore:Operation with range is deprecated:DeprecationWarning")  # MLflow on pandas 3
def test_logging_in_the_fluent_way(
    mlflow_server: MlflowServer, binary_rows: Rows, binary_calibrator: Calibrator
) -> None:
    """A fitted object, inside ``mlflow.start_run``, with an example, as a notebook does it."""
    frame, labels = binary_rows
    model = LogisticRegression().fit(frame, labels)
    with connected(mlflow_server) as client, mlflow.start_run() as run:
        info = mc.log_model(model, binary_calibrator, "notebook", input_example=frame.head(3))
        assert client.get_logged_model(info.model_id).source_run_id == run.info.run_id
        loaded = mlflow.pyfunc.load_model(info.model_uri)
        assert loaded.input_example is not None
        assert info.signature.inputs.input_names() == ["x1", "x2"]
        np.testing.assert_array_equal(loaded.predict(frame), binary_calibrator.predict(base_scores(binary_rows)[:, 1]))


@pytest.mark.parametrize("name", ["größe", "a b", "100%", "m'q"])
def test_a_folder_of_any_letters(tmp_path: Path, binary: Path, binary_rows: Rows, name: str) -> None:
    shutil.copytree(binary, tmp_path / "base" / name)
    calibrator = mc.load_model(str(binary)).calibrator
    mc.save_model(tmp_path / "base" / name, calibrator, tmp_path / name)
    np.testing.assert_array_equal(load(tmp_path / name).predict(binary_rows[0]), load(binary).predict(binary_rows[0]))
    mc.load_model(str(tmp_path / name))


@pytest.mark.parametrize("name", ["a%20b", "a#b"])
def test_a_folder_that_mlflow_would_read_as_another_is_refused(
    tmp_path: Path, binary: Path, binary_model: Path, binary_calibrator: Calibrator, name: str
) -> None:
    """MLflow decodes local paths: it would load the model of the folder ``a b`` in place of that of ``a%20b``."""
    with pytest.raises(InvalidInputError, match=r"cannot be saved to .*choose a path without"):
        mc.save_model(binary_model, binary_calibrator, tmp_path / name)
    assert not (tmp_path / name).exists()
    shutil.copytree(binary, tmp_path / name)
    with pytest.raises(ModelError, match=r"cannot be loaded from .*choose a path without"):
        mc.load_model(str(tmp_path / name))


def test_what_cannot_be_saved_and_where_is_said(
    tmp_path: Path, binary_model: Path, binary_calibrator: Calibrator
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(InvalidInputError, match="calibrator must be what fit_calibrator returned, got NoneType"):
        mc.save_model(binary_model, None, tmp_path / "m")
    for path, message in (
        (tmp_path / "full", "must be an absent or empty folder"),
        (tmp_path / "full" / "file", "must be an absent or empty folder"),
        (tmp_path / "full" / "file" / "below", "must be a folder that can be written"),
        (None, "must be a folder to write the model to, got None"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            mc.save_model(binary_model, binary_calibrator, path)
    assert (tmp_path / "full" / "file").read_text() == "mine"


@pytest.mark.parametrize("uri", ["runs:/abc", "runs:/", "http://h/m", "models:/", "", None, 5, b"x"])
def test_what_is_no_model_uri_is_said(tmp_path: Path, uri: Any) -> None:
    with pytest.raises(InvalidInputError, match="a model must be named by its URI or folder, got"):
        mc.load_model(uri)
    with pytest.raises(InvalidInputError, match="a model must be named by its URI or folder, got"):
        resolve_model(None, uri)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that must stay empty, and no server named."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield folder
    old_mlflow = MLFLOW < (3, 17)  # it opens a store in the working folder when any pyfunc model is loaded
    assert {path.name for path in folder.iterdir()} <= ({"mlflow.db"} if old_mlflow else set())


def test_no_server_named_is_an_error_and_writes_nothing(
    nowhere: Path, binary: Path, binary_rows: Rows, binary_calibrator: Calibrator
) -> None:
    """P13: MLflow would make ./mlflow.db; local folders need no server."""
    for call in (
        lambda: mc.load_model("models:/m/1"),
        lambda: mc.load_model("runs:/0123456789abcdef0123456789abcdef/model"),
        lambda: mc.save_model("models:/m@champion", binary_calibrator, nowhere.parent / "x"),
        lambda: mc.log_model("models:/m/1", binary_calibrator),
        lambda: mc.log_model(binary, binary_calibrator),
    ):
        with pytest.raises(InvalidInputError, match=r"MLFLOW_TRACKING_URI.*not set.*mlflow\.set_tracking_uri"):
            call()
    mc.save_model(binary, binary_calibrator, nowhere.parent / "again")
    assert len(mc.load_model(str(nowhere.parent / "again")).predict(binary_rows[0])) == 600


def test_a_server_set_in_the_process_is_enough(
    mlflow_server: MlflowServer, binary: Path, binary_calibrator: Calibrator
) -> None:
    mlflow.set_tracking_uri(mlflow_server.tracking_uri)
    try:
        with mlflow.start_run():
            info = mc.log_model(binary, binary_calibrator, registered_model_name="set")
        assert mc.load_model("models:/set/1").calibrator == mc.load_model(info.model_uri).calibrator
        with pytest.raises(InvalidInputError, match="name must be that of a registered model"):
            mc.log_model(binary, binary_calibrator, registered_model_name="a/b")
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]
        os.environ.pop("MLFLOW_TRACKING_URI", None)


def test_mlflows_public_interface_alone() -> None:
    for path in Path(inspect.getfile(artifact)).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bmlflow(\.\w+)*\._(?!_version__)|from mlflow(\.\S+)? import .*\b_", text), path


def test_the_verbs_everyone_knows() -> None:
    """The package itself is the flavor module: MLflow's contract is met by ``mlflow_calib.<verb>``."""
    for verb in ("save_model", "log_model", "load_model", "get_default_pip_requirements", "get_default_conda_env"):
        assert callable(getattr(mc, verb))
    assert list(inspect.signature(mc._load_pyfunc).parameters) == ["data_path", "model_config"]
