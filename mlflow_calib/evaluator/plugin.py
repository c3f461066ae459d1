"""``mlflow.models.evaluate(..., evaluators=["calibration"])``: the calibration error with its bounds, logged once."""

from __future__ import annotations

import logging
from typing import Any

from mlflow.models.evaluation import ModelEvaluator

from mlflow_calib.errors import DataError, InvalidInputError, MlflowCalibError
from mlflow_calib.evaluator.estimated import estimated
from mlflow_calib.evaluator.logged import log_once
from mlflow_calib.evaluator.outputs import outputs_of
from mlflow_calib.evaluator.rows import judged_rows
from mlflow_calib.evaluator.settings import Settings

CLASSIFIER = "classifier"
log = logging.getLogger(__name__)


class CalibrationEvaluator(ModelEvaluator):  # type: ignore[misc]  # MLflow has no complete types
    """Estimates the calibration error of a classifier on labelled rows, with confidence bounds.

    Works for models of this package, for any model whose raw object has ``predict_proba``, for models and functions
    that return probabilities, and for a column of predictions without a model. ``evaluator_config`` is described by
    `mlflow_calib.evaluator.settings.Settings`.

    Metrics: ``calibration_error`` (root), ``calibration_error_upper_bound``, ``_lower_bound`` and ``_noise_floor``
    (roots), ``calibration_error_squared_debiased`` (signed) and ``_squared_plugin``, ``mse``, ``log_loss``,
    ``n_evaluation``; of a calibrated model also ``base_...`` of the base model behind it and the paired increases over
    it. ``calibration_error_is_lower_bound`` is 1 for continuous outputs, whose binned error is at most their own;
    ``calibration_error_status_is_ok`` is 0 where the data are too few to say. No metric is ever NaN or infinite.

    Where nobody named an evaluator, MLflow asks every one that is installed: a classifier is then judged where that is
    possible, and where it is not a warning says why.
    """

    def __init__(self) -> None:
        self._times_asked = 0

    def can_evaluate(self, *, model_type: str | None, evaluator_config: Any = None, **_: Any) -> bool:
        """Whether to take part: always where it was named, else for classifiers.

        MLflow asks each instance once where evaluators are named, and twice where it tries all that are installed. A
        named evaluator that declines would leave MLflow to say that nothing fits, without the reason.
        """
        del evaluator_config
        self._times_asked += 1
        return self._times_asked == 1 or model_type == CLASSIFIER

    def evaluate(
        self,
        *,
        model_type: str | None,
        dataset: Any,
        run_id: str,
        evaluator_config: Any,
        model: Any = None,
        extra_metrics: Any = None,
        custom_artifacts: Any = None,
        predictions: str | None = None,
        model_id: str | None = None,
        **_: Any,
    ) -> Any:
        """Estimate, log and return MLflow's ``EvaluationResult``; called by MLflow.

        Raises
        ------
        InvalidInputError
            No targets, a model type that is no classifier, wrong settings, scores that are no probabilities, labels
            unknown to the model.
        ModelError
            The model gives no probabilities.
        """
        named = self._times_asked < 2
        if named and (extra_metrics or custom_artifacts):
            log.info('extra_metrics and custom_artifacts are computed by the evaluator "default"; name it as well')
        try:
            settings = Settings.read(evaluator_config, strict=named)
            _check_request(model_type, dataset)
            features, groups = _features_and_groups(dataset, model, settings)
            outputs = outputs_of(model, features, dataset.predictions_data, predictions, settings)
            rows = judged_rows(outputs, dataset.labels_data, groups, settings)
        except MlflowCalibError as error:
            if named:
                raise
            log.warning("the evaluator calibration, which nobody named, could not judge this model: %s", error)
            return None
        return log_once(estimated(rows, settings.confidence_level), settings, model, model_id, dataset, run_id)


def _check_request(model_type: str | None, dataset: Any) -> None:
    if model_type not in (None, CLASSIFIER):
        raise InvalidInputError(
            f"model_type must be {CLASSIFIER!r}, got {model_type!r}: a calibration error is that of probabilities of "
            "classes; a model that returns probabilities is a classifier here, whatever its flavor calls it"
        )
    if not dataset.has_targets:
        raise DataError("targets must name the labels: mlflow.models.evaluate(..., targets=<column or array>)")


def _features_and_groups(dataset: Any, model: Any, settings: Settings) -> tuple[Any, Any]:
    """The model's input, without the column of groups where its signature does not name that."""
    features, column = dataset.features_data, settings.group_column
    if column is None:
        return features, settings.groups
    known = [str(name) for name in getattr(features, "columns", ())]
    if column not in known:
        raise DataError(
            f"group_column {column!r} must be a column of the data, and these are {known[:40]}; with feature_names it "
            'must be among them; or give the ids themselves: evaluator_config={"groups": array}'
        )
    groups = features[column].to_numpy()
    return (features if _names(model, column) else features.drop(columns=column)), groups


def _names(model: Any, column: str) -> bool:
    """Whether the model's signature has the column among its inputs."""
    signature = getattr(getattr(model, "metadata", None), "signature", None)
    schema = None if signature is None else signature.inputs
    return schema is not None and schema.has_input_names() and column in schema.input_names()
