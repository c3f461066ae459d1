"""Let a candidate through only when the evidence meets the requirements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_calib.errors import InvalidInputError
from mlflow_calib.provider.compat import SkipMixin
from mlflow_calib.provider.fields import FieldReader
from mlflow_calib.provider.operators.base import CalibrationOperator, FinalTaskError

if TYPE_CHECKING:
    from airflow.sdk import Context

ON_FAILURE = ("fail", "skip")
VERDICT_KEY = "return_value"


class GateBlockedError(FinalTaskError):
    """The verdict blocks the candidate; new evidence is needed, not another try."""


class CalibrationGateOperator(CalibrationOperator, SkipMixin):  # type: ignore[misc]  # Airflow carries no types
    """Judge the evidence by the policy: pass, fail or inconclusive; all but a pass block.

    The verdict is the XCom of this task in every case: it is pushed before the task fails or skips. Where no verdict
    can be reached, the task fails whatever ``on_failure`` says.

    Parameters
    ----------
    evidence : dict or str or XComArg
        What :class:`CalibrationEvaluateOperator` returned, or the URI of an evidence record (templated).
    policy : dict or str, optional
        Policy as a mapping, JSON, or the URI of a TOML file; by default the package's (templated).
    on_failure : {"fail", "skip"}
        A verdict that blocks fails the task for good, or skips the tasks right after it: joins further down follow
        their own trigger rules, and teardown tasks run.
    **kwargs
        ``mlflow_conn_id`` and what every Airflow operator takes.
    """

    template_fields: Sequence[str] = ("evidence", "policy", "mlflow_conn_id")
    ui_color = "#f5e9cf"

    def __init__(
        self,
        *,
        evidence: Any,
        policy: Mapping[str, Any] | str | None = None,
        on_failure: str = "fail",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.evidence = evidence
        self.policy = policy
        self.on_failure = on_failure

    def run_step(self, context: Context) -> dict[str, Any]:
        """Call :func:`mlflow_calib.steps.gate`, and act on its verdict."""
        from mlflow_calib.steps import gate

        if self.on_failure not in ON_FAILURE:
            raise InvalidInputError(f'on_failure must be "fail" or "skip", got {self.on_failure!r}')
        fields = FieldReader(self)
        evidence, policy = fields.required_document("evidence"), fields.policy("policy")
        fields.check()
        verdict = gate(evidence, policy=policy, server=self.get_server())
        self._tell(verdict)
        if verdict["blocks"]:
            context["ti"].xcom_push(key=VERDICT_KEY, value=verdict)
            self._block(verdict, context)
        return verdict

    def _tell(self, verdict: Mapping[str, Any]) -> None:
        self.log.info("Verdict on %s: %s", verdict.get("model_uri"), verdict.get("reason") or verdict["status"])
        if str(verdict.get("champion_status")).startswith("past"):
            self.log.warning("The champion in use is itself past its limit on this data; see %s", verdict["uri"])

    def _block(self, verdict: Mapping[str, Any], context: Context) -> None:
        if self.on_failure == "fail" or verdict["status"] == "no verdict":
            raise GateBlockedError(
                f"The gate blocks {verdict.get('model_uri')}: {verdict.get('reason') or verdict['status']}\n"
                f"The verdict stands at {verdict['uri']}. A retry cannot help: it takes other data or another model."
            )
        following = [task for task in context["task"].get_direct_relatives(upstream=False) if not task.is_teardown]
        self.log.info("Skipping %s", [task.task_id for task in following])
        self.skip(ti=context["ti"], tasks=following)
