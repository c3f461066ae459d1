"""What a command prints for people: one sentence, then a short table of figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.cli import models
from mlflow_calib.cli.policies import policy_text

#: Hand-over key: what stands in the first column. The order is that of the table.
LABELS = {
    "model_uri": "model",
    "version": "version",
    "n": "rows",
    "n_recalibration": "recalibration rows",
    "n_evaluation": "evaluation rows",
    "n_bins": "bins",
    "calibration_error": "calibration error (root)",
    "upper_bound": "its upper bound",
    "noise_floor": "least bound (root) that these rows can show",
    "limit": "limit",
    "confidence_level": "confidence level",
    "true_error": "true error (root)",
    "pass_probability": "probability to pass",
    "rows_to_verify": "rows to verify",
    "fitted_error": "error to fit to (root)",
    "rows_to_fit": "rows to fit, scaling-binning",
    "rows_to_fit_histogram_binning": "rows to fit, histogram-binning",
    "rows_for_balance": "rows for well-balanced bins",
    "mse": "MSE",
    "status": "status",
    "champion_version": "champion version",
    "champion_status": "champion",
    "alias": "alias",
    "previous_version": "previous version",
    "at": "at",
    "by": "by",
    "reason": "reason",
    "tag": "tag",
    "run_id": "MLflow run",
    "uri": "record",
}


def summary(command: str, result: Mapping[str, Any]) -> str:
    """The sentence and the table; what the result does not hold is left out."""
    if command in models.RUN:
        return models.text_of(command, result)
    if command == "history":
        return _history(result)
    if command == "policy":
        return policy_text(result)
    spoken = {"reason"} if command == "gate" else set()  # it is the sentence above the table
    labels = {**LABELS, "calibration_error": "squared calibration error"} if result.get("squared") else LABELS
    shown = {key: label for key, label in labels.items() if key not in spoken and result.get(key) is not None}
    rows = [(label, _shown(result[key])) for key, label in shown.items()]
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join([_sentence(command, result), *(f"  {label:<{width}}  {value}" for label, value in rows)])


def _sentence(command: str, result: Mapping[str, Any]) -> str:
    if command == "gate":
        return _verdict_sentence(result)
    if command == "rollback":
        note = f" ({result['note']})" if result.get("note") else ""
        return f"alias {result.get('alias')} of {result.get('name')} stands on version {result.get('version')}{note}"
    if command == "override":
        return f"signed for {result.get('action')} on {result.get('name')}; do it within a day, with any client"
    if command == "promote":
        moved = "stands on" if result.get("promoted") else "does not move to"
        note = f" ({result['note']})" if result.get("note") else ""
        return f"alias {result.get('alias')} of {result.get('name')} {moved} version {result.get('version')}{note}"
    done = {
        "score": "scored the data",
        "split": "split the predictions",
        "fit": f"registered {result.get('name')} version {result.get('version')} as a candidate",
        "evaluate": "evaluated the candidate",
        "plan": _plan_sentence(result),
    }
    return done[command]


def _history(result: Mapping[str, Any]) -> str:
    """A line an event, the oldest first."""
    stands = "nowhere" if result["version"] is None else f"on version {result['version']}"
    lines = [f"alias {result['alias']} of {result['name']} stands {stands}"]
    for event in result["events"]:
        moved = f"{event['from'] or '-'} -> {event['to'] or '-'}"
        who = f"by {event['by']}" if event["by"] else ""
        why = f": {event['reason']}" if event["reason"] else ""
        lines.append(f"  {event['at'] or '(no record)':<25}  {event['event']:<10}  {moved:<9}  {who}{why}".rstrip())
    return "\n".join(lines)


def _plan_sentence(result: Mapping[str, Any]) -> str:
    if result.get("rows_to_verify") is None:
        return "no number of rows up to 1e12 shows a calibration error within this limit; raise it or take fewer bins"
    return "rows to verify are evaluation data; rows to fit are on average, with constants from synthetic data"


def _verdict_sentence(result: Mapping[str, Any]) -> str:
    """The verdict in words; where it blocks nothing although it is no pass, that is said."""
    mode, said = result.get("mode", "enforce"), result.get("reason") or str(result.get("status"))
    if mode == "off":
        return "not judged: the policy's mode is off, nothing is blocked"
    return f"{said} (dry run: recorded, nothing is blocked)" if mode == "dry-run" else str(said)


def _shown(value: Any) -> str:
    """A figure as people read it.

    >>> _shown(20000), _shown(.04321987), _shown("7")
    ('20,000', '0.04322', '7')
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
