"""Divide predictions into recalibration and evaluation data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_calib.provider.fields import FieldReader
from mlflow_calib.provider.operators.base import CalibrationOperator, as_of, output_uri

if TYPE_CHECKING:
    from airflow.sdk import Context


class CalibrationSplitOperator(CalibrationOperator):
    """Divide predictions into recalibration data and evaluation data that share no row.

    Parameters
    ----------
    predictions : dict or str or XComArg, or a pair of them
        What :class:`ScoreModelOperator` returned, or the URI of its manifest; of a pair the first is recalibration
        data (templated).
    work_uri : str
        Folder all workers reach; this task writes below ``<dag_id>/<run_id>/<task_id>`` (templated).
    split : dict or str
        ``{"how": "hash", "evaluation_fraction": 0.5, "seed": 0}``; ``{"how": "time"}`` with
        ``recalibration_period`` and ``evaluation_period`` ("2013-10-01/2013-11-01", half-open), or with
        ``recalibration_days``, ``evaluation_days`` and ``label_delay_days``; ``{"how": "given"}`` where each has its
        own table (templated, also as JSON).
    as_of : str, optional
        Moment that days count back from, by default when the DAG run was due (templated).
    base_training_uri : str, optional
        Table with the keys of the base model's training rows; an overlap with evaluation data is refused (templated).
    seed : int
        Seed of a split by hash that names none (templated).
    **kwargs
        ``mlflow_conn_id`` and what every Airflow operator takes.
    """

    template_fields: Sequence[str] = (
        *("predictions", "work_uri", "split", "as_of", "base_training_uri", "seed", "mlflow_conn_id"),
    )

    def __init__(
        self,
        *,
        predictions: Any,
        work_uri: str,
        split: Mapping[str, Any] | str,
        as_of: str | None = None,
        base_training_uri: str | None = None,
        seed: int | str = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.predictions = predictions
        self.work_uri = work_uri
        self.split = split
        self.as_of = as_of
        self.base_training_uri = base_training_uri
        self.seed = seed

    def run_step(self, context: Context) -> dict[str, Any]:
        """Call :func:`mlflow_calib.steps.split`."""
        from mlflow_calib.steps import split

        fields = FieldReader(self)
        predictions, work_uri = fields.required_documents("predictions"), fields.required_text("work_uri")
        arguments: dict[str, Any] = {
            "split": fields.settings("split") or {},
            "as_of": as_of(fields.text("as_of"), context),
            "base_training_uri": fields.text("base_training_uri"),
            "seed": fields.whole_number("seed") or 0,
        }
        fields.check()
        result = split(predictions, output_uri(work_uri, context), **arguments)
        self.log.info(
            "Split into %s recalibration and %s evaluation rows: %s",
            *(result.get("n_recalibration"), result.get("n_evaluation"), result["uri"]),
        )
        return result
