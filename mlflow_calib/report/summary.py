"""The verdict as Markdown for the page of a CI job: one sentence, the requirements, the models side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.core.policy import CALIBRATION_ERROR, EVIDENCE_AGE, N_EVALUATION, ROWS_PER_BIN
from mlflow_calib.core.requirement_record import RequirementVerdict
from mlflow_calib.core.verdict import Verdict
from mlflow_calib.core.wording import age_words, count, figure
from mlflow_calib.report.markdown import number, plain_text, table

_MODELS = ("candidate", "champion", "base", "rival")
_FIGURES = {
    "root": "calibration error (root)",
    "upper_bound": "its upper bound (root)",
    "lower_bound": "its lower bound (root)",
    "noise_floor": "least bound (root) that these rows can show",
    "mse": "mean squared error",
    "log_loss": "log loss",
    "n": "rows",
}
#: Classes or slices of one requirement; a page stays readable, the record holds all.
_MOST_PARTS = 50


def verdict_markdown(
    verdict: Verdict, evidence: Mapping[str, Any] | None = None, places: Mapping[str, str] | None = None
) -> str:
    """The page: Markdown as GitHub, GitLab and most others read it, ending in a newline.

    Parameters
    ----------
    verdict
        What was judged.
    evidence
        The record it rests on, for the figures of all models; None leaves them out.
    places
        Name to URI of records, shown below.

    Returns
    -------
    str
        Every text in it is escaped: a model's name can neither break a table nor bring markup along.
    """
    lines = [f"## Calibration gate: {_headline(verdict)}", "", plain_text(verdict.sentence)]
    lines += [*_mode(verdict), "", *_requirements(verdict)]
    if len(verdict.reasons) > 1:
        lines += ["", "Against a pass:", "", *(f"- {plain_text(reason)}" for reason in verdict.reasons)]
    lines += [line for requirement in verdict.requirements for line in _parts(requirement)]
    lines += _models(verdict, evidence)
    lines += ["", f"Champion {verdict.champion_status}: {plain_text(verdict.champion_sentence)}"]
    shown = {**(places or {}), "policy": verdict.policy_digest, "judged at": verdict.judged_at}
    shown["mlflow-calib"] = __version__
    lines += ["", " · ".join(f"{name}: {plain_text(text)}" for name, text in shown.items())]
    return "\n".join(lines) + "\n"


def _headline(verdict: Verdict) -> str:
    who = verdict.candidate or {}
    named = f", {plain_text(who.get('name'))} version {plain_text(who.get('version'))}" if who.get("name") else ""
    alone = " (the champion alone)" if verdict.role == "champion" else ""
    return f"{verdict.status}{named}{alone}"


def _mode(verdict: Verdict) -> list[str]:
    said = {"dry-run": "Dry run: recorded, nothing is blocked.", "off": "The policy is off: nothing is blocked."}
    return ["", said[verdict.mode]] if verdict.mode in said else []


def _requirements(verdict: Verdict) -> list[str]:
    """A table of those that were asked for, and the names of the others."""
    asked = [requirement for requirement in verdict.requirements if requirement.status != "off"]
    off = [f"`{requirement.name}`" for requirement in verdict.requirements if requirement.status == "off"]
    lines = table(["requirement", "expected", "actual", "bounds", "n", "status"], map(_row, asked)) if asked else []
    return lines + (["", f"Off: {', '.join(off)}"] if off else [])


def _row(requirement: RequirementVerdict) -> list[str]:
    limit = requirement.limit
    return [
        f"`{requirement.name}`",
        plain_text(requirement.expected),
        _actual(requirement),
        _bounds(requirement.lower, requirement.upper, limit),
        number(requirement.n),
        _status(requirement.status),
    ]


def _actual(requirement: RequirementVerdict) -> str:
    """Rows as rows, days as a time span, everything else as a figure beside its limit."""
    if requirement.actual is None:
        return ""
    if requirement.name in (N_EVALUATION, ROWS_PER_BIN):
        return count(requirement.actual)
    if requirement.name == EVIDENCE_AGE:
        return age_words(requirement.actual, requirement.limit)
    return figure(requirement.actual, requirement.limit)


def _beside(value: float | None, limit: float) -> str:
    """The figure, never rounded to the other side of the limit."""
    return "" if value is None else figure(value, limit)


def _bounds(lower: float | None, upper: float | None, limit: float) -> str:
    if lower is None and upper is None:
        return ""
    return f"{_beside(lower, limit) or '-'} to {_beside(upper, limit) or '-'}"


def _status(status: str) -> str:
    return status if status in ("pass", "not applicable") else f"**{status}**"


def _parts(requirement: RequirementVerdict) -> Iterator[str]:
    """Classes or slices, those first that stand against a pass."""
    if not requirement.parts:
        return
    parts = sorted(requirement.parts, key=lambda part: part["status"] == "pass")
    rows = [_part_row(part, requirement.limit) for part in parts[:_MOST_PARTS]]
    yield from ("", f"Parts of `{requirement.name}`:", "")
    yield from table(["part", "actual", "bounds", "n", "status"], rows)
    if len(parts) > _MOST_PARTS:
        yield f"\nand {len(parts) - _MOST_PARTS} more in the record"


def _part_row(part: Mapping[str, Any], limit: float) -> list[str]:
    bounds = _bounds(part["lower"], part["upper"], limit)
    return [
        plain_text(part["part"]),
        _beside(part["actual"], limit),
        bounds,
        number(part["n"]),
        _status(part["status"]),
    ]


def _models(verdict: Verdict, evidence: Mapping[str, Any] | None) -> list[str]:
    """Figures of every model on the same rows beside the limit; bounds at the level of the evaluation."""
    entries = _entries(evidence)
    if not entries:
        return []
    limit = _limit_on_roots(verdict)
    rows = []
    for field, label in _FIGURES.items():
        cells = [number(entry.get(field)) for entry in entries.values()]
        if any(cells):
            rows.append([label, *cells, limit if field == "root" else ""])
    level = next(iter(entries.values())).get("confidence_level")
    note = f"Bounds in this table: one-sided, at the level of the evaluation, {number(level)}." if level else ""
    return ["", *table(["", *entries, "limit"], rows), *(["", note] if note else [])]


def _limit_on_roots(verdict: Verdict) -> str:
    """The limit on the calibration error; empty where there is none, or it is on the square."""
    asked = [one for one in verdict.requirements if one.name == CALIBRATION_ERROR and one.status != "off"]
    return "".join(number(one.limit) for one in asked if not one.expected.startswith("squared"))


def _entries(evidence: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """The estimates by model, of a record that may be damaged."""
    estimates = evidence.get("estimates") if isinstance(evidence, Mapping) else None
    if not isinstance(estimates, Mapping):
        return {}
    return {name: estimates[name] for name in _MODELS if isinstance(estimates.get(name), Mapping)}
