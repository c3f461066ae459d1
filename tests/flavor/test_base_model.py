"""Base scores: probabilities of any model that has them, the same as those of the packaged model, or a refusal."""

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
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import Scorer, load_scorer, resolve_model
from mlflow_calib.flavor.model import save_model

# MLflow's advice to the author of the small models from code below
pytestmark = pytest.mark.filterwarnings("ignore:.*An input example was not provided:UserWarning")
Rows = tuple[pd.DataFrame, np.ndarray]


def scorer_of(path: Path, score: str = "auto", classes: Any = None, feature_columns: Any = None) -> Scorer:
    return load_scorer(resolve_model(None, path), score, classes, feature_columns)


@pytest.fixture
def save(tmp_path: Path, binary_rows: Rows) -> Callable[..., Path]:
    """Save a scikit-learn model with the signature of `binary_rows`."""

    def one(model: Any, **options: Any) -> Path:
        schema = Schema([ColSpec("double", "x1"), ColSpec("double", "x2")])
        signature = options.pop("signature", ModelSignature(inputs=schema, outputs=Schema([ColSpec("long")])))
        requirements = ["scikit-learn"]
        mlflow.sklearn.save_model(
            model, str(tmp_path / "saved"), signature=signature, pip_requirements=requirements, **options
        )
        return tmp_path / "saved"

    return one


def save_code(folder: Path, body: str) -> Path:
    """A model from code whose ``predict`` has this body; ``p`` is sigma(x1)."""
    code = folder / "model.py"
    code.write_text(
        "import mlflow, numpy as np, pandas as pd\n"
        "from mlflow.pyfunc import PythonModel\n"
        "class FromCode(PythonModel):\n"
        "    def predict(self, context, model_input: pd.DataFrame, params=None):\n"
        "        p = 1 / (1 + np.exp(-model_input['x1'].to_numpy()))\n"
        f"        {body}\n"
        "mlflow.models.set_model(FromCode())\n"
    )
    signature = ModelSignature(inputs=Schema([ColSpec("double", "x1")]))
    mlflow.pyfunc.save_model(
        str(folder / "coded"), python_model=str(code), signature=signature, pip_requirements=["numpy", "pandas"]
    )
    return folder / "coded"


def test_a_classifier(binary_model: Path, binary_rows: Rows) -> None:
    frame, labels = binary_rows
    scorer = scorer_of(binary_model)
    expected = LogisticRegression().fit(frame, labels).predict_proba(frame)
    assert scorer.classes == (0, 1)
    assert scorer.score_source == {"score": "auto", "call": "predict_proba", "classes": [0, 1]}
    np.testing.assert_array_equal(scorer.base_scores(frame), expected)
    np.testing.assert_array_equal(scorer.positive_scores(frame, 1), expected[:, 1])
    np.testing.assert_array_equal(scorer.positive_scores(frame, 0), expected[:, 0])


@pytest.mark.parametrize("predict_fn", ["predict", "predict_proba"])
def test_a_logged_predict_function_does_not_matter(
    save: Callable[..., Path], binary_rows: Rows, predict_fn: str
) -> None:
    """``pyfunc_predict_fn`` of the base model: labels or probabilities, the scores are probabilities."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(*binary_rows)
    scorer = scorer_of(save(model, pyfunc_predict_fn=predict_fn))
    np.testing.assert_array_equal(scorer.base_scores(binary_rows[0]), model.predict_proba(binary_rows[0]))


def test_string_labels_keep_the_models_order(three_class_model: Path, three_class_rows: Rows) -> None:
    scorer = scorer_of(three_class_model)
    assert scorer.classes == ("ant", "bee", "cat")
    assert scorer.base_scores(three_class_rows[0]).shape == (600, 3)


def test_columns_are_taken_by_name(binary_model: Path, binary_rows: Rows) -> None:
    frame = binary_rows[0]
    scorer = scorer_of(binary_model)
    shuffled = frame.assign(label=1, x0="text")[["label", "x2", "x0", "x1"]]
    np.testing.assert_array_equal(scorer.base_scores(shuffled), scorer.base_scores(frame))
    with pytest.raises(DataError, match=r"missing: \['x2'\]; it has \['x1', 'day'\]"):
        scorer.base_scores(frame.rename(columns={"x2": "day"}))


def test_data_that_the_signature_refuses(binary_model: Path, binary_rows: Rows) -> None:
    with pytest.raises(DataError, match="signature refuses the data"):
        scorer_of(binary_model).base_scores(binary_rows[0].assign(x1="text"))


def test_scores_equal_those_of_the_packaged_model(
    tmp_path: Path, binary_model: Path, binary_rows: Rows, binary_calibrator: Calibrator
) -> None:
    """N9: float32 columns; the signature makes them float64 before the model sees them, here as when served."""
    save_model(binary_model, binary_calibrator, tmp_path / "packaged")
    frame = binary_rows[0].astype("float32")
    served = mlflow.pyfunc.load_model(str(tmp_path / "packaged")).predict(frame, params={"output": "base"})
    np.testing.assert_array_equal(scorer_of(binary_model).positive_scores(frame, 1), served)


def test_no_signature_takes_the_feature_columns(save: Callable[..., Path], binary_rows: Rows) -> None:
    frame, labels = binary_rows
    model = LogisticRegression().fit(frame, labels)
    scorer = scorer_of(save(model, signature=None), feature_columns=["x1", "x2"])
    np.testing.assert_array_equal(scorer.base_scores(frame.assign(day=3)), model.predict_proba(frame))
    with pytest.raises(DataError, match=r"missing: \['x1', 'x2'\]"):
        scorer.base_scores(frame[[]])


def test_an_array_signature(save: Callable[..., Path], binary_rows: Rows) -> None:
    frame, labels = binary_rows
    model = LogisticRegression().fit(frame.to_numpy(), labels)
    signature = mlflow.models.infer_signature(frame.to_numpy(), labels)
    scorer = scorer_of(save(model, signature=signature), feature_columns=["x1", "x2"])
    np.testing.assert_array_equal(scorer.base_scores(frame), model.predict_proba(frame.to_numpy()))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LinearSVC(), "LinearSVC has decision_function but no predict_proba.*CalibratedClassifierCV"),
        (LinearRegression(), 'LinearRegression has no predict_proba.*say score="probability"'),
    ],
)
def test_no_probabilities_are_refused_with_the_remedy(
    save: Callable[..., Path], binary_rows: Rows, model: Any, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        scorer_of(save(model.fit(*binary_rows)))


BODIES = {
    "one a row": "return p",
    "a list": "return list(p)",
    "a series": "return pd.Series(p)",
    "a column": "return p[:, None].astype('float32')",
    "two columns": "return np.column_stack([1 - p, p])",
    "a frame by class": "return pd.DataFrame({'yes': p, 'no': 1 - p})",
    "a frame without names": "return pd.DataFrame(np.column_stack([1 - p, p]))",
    "a frame of one": "return pd.DataFrame({'score': p})",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_declared_probabilities(tmp_path: Path, binary_rows: Rows, body: str) -> None:
    frame = binary_rows[0]
    scorer = scorer_of(save_code(tmp_path, body), "probability", ["no", "yes"])
    assert scorer.score_source == {"score": "probability", "call": "predict", "classes": ["no", "yes"]}
    expected = 1 / (1 + np.exp(-frame["x1"].to_numpy()))
    np.testing.assert_allclose(scorer.positive_scores(frame, "yes"), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return (p > .5).astype(int)",
            "it returned labels or counts.*log a model whose predict returns probabilities",
        ),
        ("return np.where(p > .5, 'yes', 'no')", "it returned labels"),
        ("return np.where(p > .5, np.nan, p)", "finite numbers.* of 600 rows"),
        ("return np.log(p / (1 - p))", r"must lie in \[0, 1\]; if these are logits"),
        (
            "return pd.DataFrame({'a': p, 'b': 1 - p})",
            r"one column a class \['no', 'yes'\], got the columns \['a', 'b'\]",
        ),
        ("return np.column_stack([p, p])", "must sum to 1"),
        ("return np.where(p > .5, pd.NA, p)", "without gaps"),
    ],
)
def test_what_is_declared_and_is_no_probability(tmp_path: Path, binary_rows: Rows, body: str, message: str) -> None:
    """N10, N11, N24: rows that do not sum to one, logits, NaN."""
    scorer = scorer_of(save_code(tmp_path, body), "probability", ["no", "yes"])
    with pytest.raises(ModelError, match=message):
        scorer.base_scores(binary_rows[0])


def test_one_score_a_row_cannot_be_three_classes(tmp_path: Path, binary_rows: Rows) -> None:
    scorer = scorer_of(save_code(tmp_path, "return p"), "probability", ["a", "b", "c"])
    with pytest.raises(ModelError, match="one probability a class"):
        scorer.base_scores(binary_rows[0])


def test_what_must_be_declared(tmp_path: Path, binary_model: Path) -> None:
    coded = save_code(tmp_path, "return p")
    with pytest.raises(ModelError, match=r"say score=\"probability\""):
        scorer_of(coded)
    with pytest.raises(ModelError, match="needs classes="):
        scorer_of(coded, "probability")
    with pytest.raises(ModelError, match=r'score="logit" needs classes='):
        scorer_of(coded, "logit")
    for wrong in ("", -1, True, 0.5, None, {"log": "p"}, {"logit": "a", "probability": "b"}):
        with pytest.raises(InvalidInputError, match='score must be "auto", "probability", "logit", the name'):
            scorer_of(coded, wrong)
    with pytest.raises(ModelError, match=r"own \[0, 1\], got \[1, 2\]"):
        scorer_of(binary_model, classes=[1, 2])


def test_a_calibrated_model_gives_both(
    tmp_path: Path, binary_model: Path, binary_rows: Rows, binary_calibrator: Calibrator
) -> None:
    frame = binary_rows[0]
    save_model(binary_model, binary_calibrator, tmp_path / "packaged")
    scorer = scorer_of(tmp_path / "packaged")
    base = scorer_of(binary_model).positive_scores(frame, 1)
    both = scorer.calibrated(frame)
    assert list(both.columns) == ["base", "calibrated"]
    np.testing.assert_array_equal(scorer.base_scores(frame), base)
    np.testing.assert_array_equal(both["calibrated"], binary_calibrator.predict(base))
    with pytest.raises(InvalidInputError, match="this is a raw one"):
        scorer_of(binary_model).calibrated(frame)


def test_a_calibrated_model_of_three_classes_gives_its_base_scores(
    tmp_path: Path, three_class_model: Path, three_class_rows: Rows, three_class_calibrator: Calibrator
) -> None:
    frame = three_class_rows[0]
    save_model(three_class_model, three_class_calibrator, tmp_path / "packaged")
    scores = scorer_of(tmp_path / "packaged").base_scores(frame)
    np.testing.assert_array_equal(scores, scorer_of(three_class_model).base_scores(frame))


def test_a_model_that_skops_refuses(save: Callable[..., Path], binary_rows: Rows) -> None:
    """MLflow's default format refuses this class; cloudpickle takes it."""
    model = HistGradientBoostingClassifier(max_iter=5).fit(*binary_rows)
    scorer = scorer_of(save(model, serialization_format="cloudpickle"))
    np.testing.assert_array_equal(scorer.base_scores(binary_rows[0]), model.predict_proba(binary_rows[0]))
