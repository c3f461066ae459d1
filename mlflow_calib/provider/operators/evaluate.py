"""Estimate the calibration error of a candidate on data that it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_calib.provider.fields import FieldReader
from mlflow_calib.provider.operators.base import CalibrationOperator, run_tags, shown

if TYPE_CHECKING:
    from airflow.sdk import Context


class CalibrationEvaluateOperator(CalibrationOperator):
    """Estimate the calibration error of candidate, base model and champion, and leave the evidence.

    Parameters
    ----------
    partitions : dict or str or XComArg
        What :class:`CalibrationSplitOperator` returned, or the URI of its manifest (templated).
    candidate : dict or str or XComArg
        What :class:`CalibrationFitOperator` returned, or the URI of a calibrated model (templated). By the alias of the
        champion, ``models:/flights@champion``, that version is evaluated on its own.
    policy : dict or str, optional
        Policy as a mapping, JSON, or the URI of a TOML file; says what to collect (templated).
    **kwargs
        ``mlflow_conn_id`` and what every Airflow operator takes.
    """

    template_fields: Sequence[str] = ("partitions", "candidate", "policy", "mlflow_conn_id")

    def __init__(
        self, *, partitions: Any, candidate: Any, policy: Mapping[str, Any] | str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.candidate = candidate
        self.policy = policy

    def run_step(self, context: Context) -> dict[str, Any]:
        """Call :func:`mlflow_calib.steps.evaluate`."""
        from mlflow_calib.steps import evaluate

        fields = FieldReader(self)
        partitions, candidate = fields.required_document("partitions"), fields.required_document("candidate")
        policy = fields.policy("policy")
        fields.check()
        result = evaluate(partitions, candidate, policy=policy, run_tags=run_tags(context), server=self.get_server())
        self.log.info(
            "Calibration error %s, at most %s, on %s rows (%s): %s",
            *(shown(result.get(name)) for name in ("calibration_error", "upper_bound", "n", "status", "uri")),
        )
        return result
