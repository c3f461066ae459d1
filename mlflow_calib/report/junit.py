"""The verdict as JUnit XML: one test case a requirement, for the test page that every CI system has."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from datetime import datetime, timezone

from mlflow_calib.core.records import parse_time
from mlflow_calib.core.requirement_record import RequirementVerdict
from mlflow_calib.core.verdict import Verdict

#: What XML 1.0 has no way to write; anything else is escaped where the text is serialised.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def verdict_junit(verdict: Verdict) -> str:
    """The whole document.

    Of an enforced policy a requirement that reads fail or inconclusive is a failure, "no verdict" an error, "not
    applicable" and "off" are skipped. Where the mode blocks nothing, what would block is skipped too, and says so.
    A verdict that blocks is never without a failure or an error.
    """
    cases = [_case(verdict, requirement) for requirement in verdict.requirements]
    if verdict.blocks and not any(one.find("failure") is not None or one.find("error") is not None for one in cases):
        case = _element("testcase", classname=_class_name(verdict), name="verdict", time="0")
        case.append(_element("error", type=verdict.status, message=verdict.sentence))
        cases.append(case)
    name = f"calibration gate: {_named(verdict)}"
    return _document(name, cases, parse_time(verdict.judged_at), {"status": verdict.status, **_properties(verdict)})


def error_junit(command: str, message: str) -> str:
    """The document where a command ended before there was a verdict: one error, so that the page is not green."""
    case = _element("testcase", classname="mlflow_calib.gate", name=command, time="0")
    case.append(_element("error", type="error", message=message))
    return _document(f"calibration gate: {command}", [case], None, {})


def _case(verdict: Verdict, requirement: RequirementVerdict) -> ET.Element:
    case = _element("testcase", classname=_class_name(verdict), name=requirement.name, time="0")
    status, said = requirement.status, requirement.sentence
    if status in ("off", "not applicable"):
        case.append(_element("skipped", message=said))
    elif status != "pass" and verdict.mode != "enforce":
        case.append(_element("skipped", message=f"{verdict.mode}, blocks nothing; {said}"))
    elif status == "no verdict":
        case.append(_element("error", type=status, message=said, text="\n".join(verdict.reasons)))
    elif status != "pass":
        case.append(_element("failure", type=status, message=said, text=_figures(requirement)))
    case.append(_element("system-out", text=f"{said}\n{_figures(requirement)}"))
    return case


def _figures(requirement: RequirementVerdict) -> str:
    names = ("expected", "limit", "actual", "lower", "upper", "n", "noise_floor", "more_rows")
    lines = [f"{name}: {value}" for name in names if (value := getattr(requirement, name)) is not None]
    parts = [f"{part['part']}: {part['status']}, actual {part['actual']}, n {part['n']}" for part in requirement.parts]
    return "\n".join([*lines, *parts])


def _properties(verdict: Verdict) -> dict[str, str]:
    return {
        "mode": verdict.mode,
        "policy": verdict.policy_digest,
        "evidence": verdict.evidence_digest or "none",
        "champion": f"{verdict.champion_status}: {verdict.champion_sentence}",
    }


def _named(verdict: Verdict) -> str:
    who = verdict.candidate or {}
    return f"{who.get('name')} version {who.get('version')}" if who.get("name") else "candidate"


def _class_name(verdict: Verdict) -> str:
    """Test pages take a dot for a package."""
    name = str((verdict.candidate or {}).get("name") or "candidate")
    return f"mlflow_calib.gate.{name.replace('.', '_')}"


def _document(name: str, cases: list[ET.Element], time: datetime | None, properties: dict[str, str]) -> str:
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
    }
    skipped = str(sum(case.find("skipped") is not None for case in cases))
    moment = (time or datetime.now(timezone.utc)).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    suite = _element("testsuite", name=name, **counts, skipped=skipped, time="0", timestamp=moment)
    if properties:
        kept = ET.SubElement(suite, "properties")
        kept.extend(_element("property", name=key, value=value) for key, value in properties.items())
    suite.extend(cases)
    root = _element("testsuites", name="mlflow-calib", **counts, time="0")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _element(tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.Element(tag, {name: _NOT_XML.sub("�", value) for name, value in attributes.items()})
    if text:
        element.text = _NOT_XML.sub("�", text)
    return element
