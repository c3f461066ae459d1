"""The MLflow evaluator plugin ``calibration``: ``mlflow.models.evaluate(..., evaluators=["calibration"])``."""

from mlflow_calib.evaluator.plugin import CalibrationEvaluator

__all__ = ["CalibrationEvaluator"]
