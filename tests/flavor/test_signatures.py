"""What the signature does to data of other types, beside what the base model's own pyfunc does with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import mlflow_calib as mc
from tests.flavor.bases import base

N = 300
NUMBERS = ["whole", "real", "single", "flag", "maybe"]
Change = Callable[[pd.DataFrame], Any]

#: MLflow 3.17 with pandas 3 refuses it, MLflow 3.10 with pandas 2 converts it.
DEPENDS = "depends"
#: What is done to the frame, and what becomes of it: "same" as of the frame itself, "differs" (another value, the
#: base model's own), or the words of the refusal.
CHANGES: dict[str, tuple[Change, str]] = {
    "as it was": (lambda frame: frame, "same"),
    "one row": (lambda frame: frame[:1], "same"),
    "columns in another order": (lambda frame: frame[frame.columns[::-1]], "same"),
    "an extra column": (lambda frame: frame.assign(extra="text"), "same"),
    "a missing column": (lambda frame: frame.drop(columns="real"), "missing inputs"),
    "a missing optional column": (lambda frame: frame.drop(columns="maybe"), "missing"),
    "another index": (lambda frame: frame.set_axis([f"r{n}" for n in range(len(frame))]), "same"),
    "long as int32": (lambda frame: frame.astype({"whole": "int32"}), "same"),
    "long as Int64": (lambda frame: frame.astype({"whole": "Int64"}), "same"),
    "long as Int64 with a gap": (
        lambda frame: with_gap(frame.astype({"whole": "Int64"}), "whole"),
        "cannot convert NA",
    ),
    "long as whole float64": (lambda frame: frame.astype({"whole": "float64"}), "Incompatible input types"),
    "long as float64 with a gap": (lambda frame: with_gap(frame.astype({"whole": "float64"}), "whole"), "Incompatible"),
    "double as float32": (lambda frame: frame.assign(real=frame["real"].astype("float32")), "differs"),
    "double as int32": (lambda frame: frame.assign(real=frame["real"].round().astype("int32")), "differs"),
    "double as int64": (lambda frame: frame.assign(real=frame["real"].round().astype("int64")), "Incompatible"),
    "double as Float64 with a gap": (lambda frame: with_gap(frame.astype({"real": "Float64"}), "real"), "differs"),
    "double with NaN": (lambda frame: with_gap(frame, "real"), "differs"),
    "double as text": (lambda frame: frame.astype({"real": "str"}), DEPENDS),
    "float as float64": (lambda frame: frame.astype({"single": "float64"}), "Incompatible input types"),
    "float with NaN": (lambda frame: with_gap(frame, "single"), "differs"),
    "boolean as boolean": (lambda frame: frame.astype({"flag": "boolean"}), "same"),
    "boolean as boolean with a gap": (
        lambda frame: with_gap(frame.astype({"flag": "boolean"}), "flag"),
        "NaN to bool",
    ),
    "boolean as int64": (lambda frame: frame.astype({"flag": "int64"}), "Incompatible input types"),
    "string as object": (lambda frame: frame.astype({"word": "object"}), "same"),
    "string as string": (lambda frame: frame.astype({"word": "string"}), "same"),
    "string as category": (lambda frame: frame.astype({"word": "category"}), "Incompatible input types"),
    "string with a gap": (lambda frame: with_gap(frame.astype({"word": "object"}), "word"), "differs"),
    "an unseen string": (lambda frame: frame.assign(word="unseen"), "differs"),
    "records of Python floats": (lambda frame: frame.to_dict(orient="records"), "Incompatible input types"),
    "an array": (lambda frame: frame.to_numpy(), "missing inputs"),
}


def with_gap(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[3, column] = None if changed[column].dtype == object else np.nan
    return changed


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "whole": rng.integers(0, 9, size=N),
            "real": rng.normal(size=N),
            "single": rng.normal(size=N).astype("float32"),
            "flag": rng.uniform(size=N) < 0.5,
            "maybe": rng.normal(size=N),
            "word": rng.choice(["ant", "bee"], size=N),
        }
    )


@pytest.fixture(scope="module")
def both(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The base model as pyfunc, which returns its probabilities, and the calibrated one."""
    folder = tmp_path_factory.mktemp("signatures")
    labels = (frame["real"] + 0.2 * frame["whole"] + np.random.default_rng(6).normal(size=N) > 0.8).astype(int)
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True))
    model = make_pipeline(
        make_column_transformer((numbers, NUMBERS), (OneHotEncoder(handle_unknown="ignore"), ["word"])),
        LogisticRegression(max_iter=2000),
    ).fit(frame, labels)
    columns = [("long", "whole"), ("double", "real"), ("float", "single"), ("boolean", "flag")]
    schema = Schema(
        [
            *(ColSpec(kind, name) for kind, name in columns),
            ColSpec("double", "maybe", required=False),
            ColSpec("string", "word"),
        ]
    )
    mlflow.sklearn.save_model(
        model,
        str(folder / "base"),
        signature=ModelSignature(inputs=schema),
        pip_requirements=["scikit-learn"],
        pyfunc_predict_fn="predict_proba",
        serialization_format="cloudpickle",
    )
    calibrator = mc.fit_calibrator(model.predict_proba(frame)[:, 1], labels, n_bins=4)
    mc.save_model(folder / "base", calibrator, folder / "m")
    return tuple(mlflow.pyfunc.load_model(str(folder / name), suppress_warnings=True) for name in ("base", "m"))


def outcome(predict: Callable[[], Any]) -> tuple[str, Any]:
    """What came back, or the kind and words of the refusal."""
    try:
        return "scores", np.asarray(predict())
    except (MlflowException, ValueError, TypeError) as error:
        return type(error).__name__, str(error)


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", CHANGES)
def test_as_the_base_model_does(frame: pd.DataFrame, both: tuple[Any, Any], name: str) -> None:
    change, expected = CHANGES[name]
    plain, calibrated = both
    data = change(frame.copy())
    kind, found = outcome(lambda: plain.predict(data)[:, 1])
    kind_of_ours, ours = outcome(lambda: calibrated.predict(data, params={"output": "base"}))
    assert kind_of_ours == kind
    if kind == "scores":
        np.testing.assert_array_equal(ours, found)
        same = np.array_equal(found, plain.predict(frame[: len(found)])[:, 1])
        assert expected in (("same" if same else "differs"), DEPENDS)
        out = calibrated.predict(data)
        assert out.dtype == np.float64
        assert out.shape == (len(found),)
    elif kind == "MlflowException":
        assert ours == found
        assert expected == DEPENDS or expected in found
    else:
        assert expected in found


def test_no_rows_give_no_rows(frame: pd.DataFrame, both: tuple[Any, Any]) -> None:
    """Better than the base model, which raises."""
    plain, calibrated = both
    assert outcome(lambda: plain.predict(frame[:0]))[0] == "ValueError"
    assert calibrated.predict(frame[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (lambda array: array, "scores"),
        (lambda array: array.astype("float64"), "MlflowException"),
        (lambda array: array[:, :1], "MlflowException"),
        (lambda array: array[0], "MlflowException"),
    ],
    ids=["float32", "float64", "one column", "one row as a vector"],
)
def test_an_array_signature(tmp_path: Path, data: Callable[[Any], Any], expected: str) -> None:
    """A tensor of float32 (-1, 2): arrays of another type or shape are refused, as by the base model."""
    one = base("onnx zipmap")
    from tests.flavor.bases import rows

    array = rows()[0].to_numpy(dtype="float32")
    signature = mlflow.models.infer_signature(array)
    mlflow.onnx.save_model(one.model, str(tmp_path / "base"), signature=signature, pip_requirements=["onnxruntime"])
    mc.save_model(tmp_path / "base", one.calibrator, tmp_path / "m", score=one.score)
    plain, ours = (mlflow.pyfunc.load_model(str(tmp_path / name)) for name in ("base", "m"))
    kinds = [outcome(lambda model=model: list(model.predict(data(array))))[0] for model in (plain, ours)]
    assert kinds == [expected, expected]


def test_params_of_the_base_model_stay(tmp_path: Path) -> None:
    """Its own params with their defaults, and ours beside them; an unknown one is dropped, as MLflow does."""
    code = tmp_path / "model.py"
    code.write_text(
        "import mlflow, numpy as np, pandas as pd\n"
        "class Shifted(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input: pd.DataFrame, params=None):\n"
        "        return 1 / (1 + np.exp(-model_input['x1'].to_numpy() - params['shift']))\n"
        "mlflow.models.set_model(Shifted())\n"
    )
    signature = ModelSignature(
        inputs=Schema([ColSpec("double", "x1")]), params=ParamSchema([ParamSpec("shift", "double", 0.0)])
    )
    with pytest.warns(UserWarning, match="input example was not provided"):
        mlflow.pyfunc.save_model(
            str(tmp_path / "base"), python_model=str(code), signature=signature, pip_requirements=["numpy"]
        )
    x1 = np.random.default_rng(7).normal(size=N)
    labels = (x1 + np.random.default_rng(8).normal(size=N) > 0).astype(int)
    calibrator = mc.fit_calibrator(1 / (1 + np.exp(-x1)), labels, n_bins=3)
    mc.save_model(tmp_path / "base", calibrator, tmp_path / "m", score="probability")
    model = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    frame = pd.DataFrame({"x1": x1})
    assert [param.name for param in model.metadata.signature.params] == ["shift", "output"]
    plain = model.predict(frame, params={"output": "base"})
    np.testing.assert_allclose(plain, 1 / (1 + np.exp(-x1)), rtol=1e-12)
    shifted = model.predict(frame, params={"output": "base", "shift": 2.0, "unknown": 3})
    np.testing.assert_allclose(shifted, 1 / (1 + np.exp(-x1 - 2.0)), rtol=1e-12)
