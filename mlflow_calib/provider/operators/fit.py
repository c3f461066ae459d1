"""Fit a calibrator and register the calibrated model as a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_calib.provider.fields import FieldReader
from mlflow_calib.provider.operators.base import CalibrationOperator, run_tags

if TYPE_CHECKING:
    from airflow.sdk import Context


class CalibrationFitOperator(CalibrationOperator):
    """Fit a calibrator on the recalibration data, and register base model and calibrator as one version.

    Parameters
    ----------
    partitions : dict or str or XComArg
        What :class:`CalibrationSplitOperator` returned, or the URI of its manifest (templated).
    model_name : str
        Registered model that gets the new version (templated).
    calibrator : dict or str, optional
        Arguments of :func:`mlflow_calib.fit_calibrator`: ``method``, ``n_bins``, ``parts``, ... (templated, also as
        JSON). Of three classes and more ``reduction`` must be among them.
    experiment : str, optional
        MLflow experiment of the run (templated).
    **kwargs
        ``mlflow_conn_id`` and what every Airflow operator takes.
    """

    template_fields: Sequence[str] = ("partitions", "model_name", "calibrator", "experiment", "mlflow_conn_id")

    def __init__(
        self,
        *,
        partitions: Any,
        model_name: str,
        calibrator: Mapping[str, Any] | str | None = None,
        experiment: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.model_name = model_name
        self.calibrator = calibrator
        self.experiment = experiment

    def run_step(self, context: Context) -> dict[str, Any]:
        """Call :func:`mlflow_calib.steps.fit`."""
        from mlflow_calib.steps import fit

        fields = FieldReader(self)
        partitions, name = fields.required_document("partitions"), fields.required_text("model_name")
        calibrator, experiment = fields.settings("calibrator"), fields.text("experiment")
        fields.check()
        result = fit(
            partitions,
            name=name,
            calibrator=calibrator,
            experiment=experiment,
            run_tags=run_tags(context),
            server=self.get_server(),
        )
        self.log.info("Registered candidate %s, run %s", result["model_uri"], result["run_id"])
        return result
