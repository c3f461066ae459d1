"""What a model says of the rows that MLflow hands over, whatever kind of model it is.

Kinds: a calibrated model of this package (its base scores and its calibrator), a model whose raw object has
``predict_proba``, any other model or function whose output is declared to be probabilities, and no model at all, only
a column of predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib import runtime
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.evaluator.settings import Settings
from mlflow_calib.flavor.base_model import FLAVOR_NAME, score_source
from mlflow_calib.runtime import Floats


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model says.

    Attributes
    ----------
    scores : array, shape (n,) or (n, K)
        Of a calibrated model its base scores, else the probabilities as they are; unchecked.
    classes : tuple or None
        In the order of the columns; None where nobody says them.
    positive_class
    calibrator : Calibrator or None
        Of a calibrated model.
    """

    scores: Floats
    classes: tuple[Any, ...] | None
    positive_class: Any = None
    calibrator: Calibrator | None = None


def outputs_of(model: Any, features: Any, predictions: Any, column: str | None, settings: Settings) -> Outputs:
    """Ask the model, or take the predictions.

    Parameters
    ----------
    model
        As MLflow hands it over; None: ``predictions``, shape (n,), or ``settings.probability_columns`` of the features.
    features
        The model's input: a frame or an array.
    column
        The column of the model's output that ``evaluate(predictions=)`` names.

    Raises
    ------
    ModelError
        The model gives no probabilities, with what to do.
    DataError
        Columns are missing from output or data, with those there are.
    """
    if model is None:
        return _of_data(features, predictions, settings)
    if _is_calibrated(model):
        return _of_calibrated(model, features, settings)
    named = settings.probability_columns or (None if column is None else (column,))
    if named is None and hasattr(model, "metadata") and settings.score == "auto":
        return _of_classifier(model, features, settings)
    return _as_declared(model.predict(features), named, settings)


def _is_calibrated(model: Any) -> bool:
    """Whether it is a model of this package in this process; one served by another process gives outputs alone."""
    meta = getattr(model, "metadata", None)
    return meta is not None and FLAVOR_NAME in meta.flavors and hasattr(_raw(model), "document")


def _raw(model: Any) -> Any:
    try:
        return model.get_raw_model()
    except NotImplementedError:
        return None


def _of_calibrated(model: Any, features: Any, settings: Settings) -> Outputs:
    """Base scores by the model's own code; its outputs are the calibrator's, to the bit."""
    calibrator = Calibrator.from_dict(dict(_raw(model).document))
    problems = []
    if calibrator.reduction == "multi-label":
        problems.append("a multi-label model has no one label a row; judge it with estimate_calibration_error")
    if settings.reduction not in (None, calibrator.reduction):
        problems.append(f"reduction must be the model's own, {calibrator.reduction!r}, got {settings.reduction!r}")
    if settings.bins is not None:
        problems.append(f"bins are the model's own {calibrator.n_bins_requested}; leave bins and n_bins out")
    if settings.positive_class not in (None, calibrator.positive_class):
        own = calibrator.positive_class
        problems.append(f"positive_class must be the model's own, {own!r}, got {settings.positive_class!r}")
    if problems:
        raise InvalidInputError("; ".join(problems))
    output = model.predict(features, params={"output": "base"})
    scores = np.asarray(output, dtype=np.float64)
    return Outputs(scores, tuple(calibrator.classes), calibrator.positive_class, calibrator)


def _of_classifier(model: Any, features: Any, settings: Settings) -> Outputs:
    """``predict_proba`` of the raw model, behind the signature of its meta data."""
    from mlflow.pyfunc import PyFuncModel

    try:
        source = score_source(model, "auto", settings.classes)
    except ModelError as error:
        raise ModelError(f"{error}. In mlflow.models.evaluate these stand in evaluator_config") from error
    behind = PyFuncModel(model_meta=model.metadata, model_impl=runtime.BaseScores(model, source))
    try:
        scores = np.asarray(behind.predict(features), dtype=np.float64)
    except ValueError as error:
        raise ModelError(f"the model gives no scores that can be judged: {error}") from error
    return Outputs(scores, tuple(source["classes"]), settings.positive_class)


def _of_data(features: Any, predictions: Any, settings: Settings) -> Outputs:
    if settings.probability_columns is not None:
        return _as_declared(features, settings.probability_columns, settings)
    if predictions is None:
        raise DataError(
            "without a model the probabilities must stand in the data: give predictions=<column of P(positive)>, or "
            'evaluator_config={"probability_columns": [...], "classes": [...]}, one column a class'
        )
    return _as_declared(predictions, None, settings)


def _as_declared(output: Any, columns: Sequence[str] | None, settings: Settings) -> Outputs:
    """Numbers that are probabilities because the caller says so."""
    if columns is not None:
        output = _chosen(output, columns)
    n_columns = np.shape(output)[1] if len(np.shape(output)) == 2 else 1
    classes = settings.classes
    if n_columns > 1 and classes is None:
        raise InvalidInputError(
            f"the probabilities have {n_columns} columns, and nobody says of which classes; give "
            'evaluator_config={"classes": [...]}, in the order of the columns'
        )
    if classes is not None and n_columns == 1 and len(classes) > 2:
        raise InvalidInputError(f"one probability a row is given for {len(classes)} classes; give one column a class")
    if columns is not None:
        output = np.asarray(output)  # chosen by name already, in the order of the classes
    try:
        scores = runtime.probability_array(output, classes or (0, 1))
    except ValueError as error:
        raise ModelError(str(error).replace("the base model", "the model")) from error
    return Outputs(scores, classes, settings.positive_class)


def _chosen(output: Any, columns: Sequence[str]) -> Any:
    known = getattr(output, "columns", None)
    if known is None:
        raise DataError(f"the columns {list(columns)} are asked for, and what holds the probabilities has no columns")
    missing = [column for column in columns if column not in known]
    if missing:
        raise DataError(
            f"the probabilities must stand in the columns {list(columns)}; missing: {missing}; "
            f"there are {[str(column) for column in known][:40]}"
        )
    return output[list(columns)]
