"""Move the alias to a candidate that the gate let through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_calib.provider.compat import AirflowSkipException
from mlflow_calib.provider.fields import FieldReader
from mlflow_calib.provider.operators.base import CalibrationOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Figures of promotion and verdict that an asset event carries.
EVENT_FIGURES = ("name", "alias", "version", "previous_version", "promoted", "model_uri", "run_id")
VERDICT_FIGURES = ("status", "calibration_error", "upper_bound", "limit", "n")


class PromoteModelOperator(CalibrationOperator):
    """Move a registered model's alias to the candidate, if the verdict lets it and the champion is still the same.

    Under a policy in dry-run the alias stays, the record stands in XCom, and the task is skipped.

    With ``outlets`` an asset event tells consumers: the ``extra`` of an ``Asset`` carries version, previous version
    and the figures of the verdict; an ``AssetAlias`` gets the asset ``models:/<name>@<alias>`` with them.

    Parameters
    ----------
    candidate : dict or str or XComArg
        What :class:`CalibrationFitOperator` returned (templated).
    verdict : dict or str or XComArg
        What :class:`CalibrationGateOperator` returned, or the URI of a verdict (templated).
    alias : str
        Alias to move (templated).
    promoted_by : str, optional
        Who promotes, as the record keeps it; by default this DAG and run (templated).
    **kwargs
        ``mlflow_conn_id`` and what every Airflow operator takes.
    """

    template_fields: Sequence[str] = ("candidate", "verdict", "alias", "promoted_by", "mlflow_conn_id")
    ui_color = "#dff5e3"

    def __init__(
        self, *, candidate: Any, verdict: Any, alias: str = "champion", promoted_by: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.candidate = candidate
        self.verdict = verdict
        self.alias = alias
        self.promoted_by = promoted_by

    def run_step(self, context: Context) -> dict[str, Any]:
        """Call :func:`mlflow_calib.steps.promote`, and tell the assets."""
        from mlflow_calib.steps import promote

        fields = FieldReader(self)
        candidate, verdict = fields.required_document("candidate"), fields.required_document("verdict")
        alias, promoted_by = fields.required_text("alias"), fields.text("promoted_by")
        fields.check()
        result = promote(
            candidate,
            verdict,
            alias=alias,
            promoted_by=promoted_by or f"airflow {context['ti'].dag_id} {context['ti'].run_id}",
            server=self.get_server(),
        )
        self.log.info(
            "Alias %s of %s: version %s, before it %s (promoted: %s)",
            *(result.get(name) for name in ("alias", "name", "version", "previous_version", "promoted")),
        )
        if not result["promoted"]:
            context["ti"].xcom_push(key="return_value", value=result)
            raise AirflowSkipException(result.get("note"))  # a task that is skipped tells no asset of a promotion
        self._tell_assets(result, verdict, context)
        return result

    def _tell_assets(self, result: Mapping[str, Any], verdict: Mapping[str, Any] | str, context: Context) -> None:
        from airflow.sdk import Asset, AssetAlias

        figures = {} if isinstance(verdict, str) else {name: verdict.get(name) for name in VERDICT_FIGURES}
        extra = {**{name: result.get(name) for name in EVENT_FIGURES}, **figures}
        for outlet in self.outlets:
            event = context["outlet_events"][outlet]
            if isinstance(outlet, AssetAlias):
                event.add(Asset(f"models:/{result['name']}@{result['alias']}"), extra=extra)
            else:
                event.extra.update(extra)
