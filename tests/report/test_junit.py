"""JUnit XML: what a test page counts, and that a page is never green over a gate that blocks."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest

from mlflow_calib.core.policy import Policy
from mlflow_calib.core.requirement_record import RequirementVerdict
from mlflow_calib.core.verdict import Verdict, judge
from mlflow_calib.report.junit import error_junit, verdict_junit

#: Children and attributes that the schema of Jenkins knows.
SUITE_ATTRIBUTES = {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}
CASE_CHILDREN = {"skipped", "error", "failure", "system-out"}


def requirement(name: str, status: str, **values: Any) -> RequirementVerdict:
    figures = {"expected": "at most", "limit": 0.05, "actual": None, "lower": None, "upper": None, "n": None}
    return RequirementVerdict(**{"name": name, "status": status, "sentence": f"{name} {status}", **figures, **values})


def verdict(*requirements: RequirementVerdict, status: str, mode: str = "enforce", **values: Any) -> Verdict:
    own = {"requirements": requirements, "status": status, "mode": mode, **values}
    return replace(judge(None), **{"candidate": {"name": "churn", "version": "3"}, **own})


ALL = [requirement(f"r{place}", status) for place, status in enumerate(
    ("pass", "fail", "inconclusive", "no verdict", "not applicable", "off"))]  # fmt: skip


def read(text: str) -> ET.Element:
    root = ET.fromstring(text)  # noqa: S314 our own text
    assert root.tag == "testsuites"
    (suite,) = root
    assert set(suite.attrib) == SUITE_ATTRIBUTES
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == len(cases)
    for kind in ("failure", "error", "skipped"):
        count = sum(case.find(kind) is not None for case in cases)
        assert int(suite.attrib["skipped" if kind == "skipped" else f"{kind}s"]) == count
    for case in cases:
        assert {child.tag for child in case} <= CASE_CHILDREN
        assert {"classname", "name", "time"} == set(case.attrib)
    return suite


def outcomes(suite: ET.Element) -> dict[str, str]:
    kinds = ("failure", "error", "skipped")
    return {
        case.attrib["name"]: next((kind for kind in kinds if case.find(kind) is not None), "passed")
        for case in suite.findall("testcase")
    }


def test_a_case_a_requirement() -> None:
    suite = read(verdict_junit(verdict(*ALL, status="no verdict")))
    assert outcomes(suite) == {
        "r0": "passed", "r1": "failure", "r2": "failure", "r3": "error", "r4": "skipped", "r5": "skipped",
    }  # fmt: skip
    assert suite.attrib["name"] == "calibration gate: churn version 3"
    failure = suite.find("testcase[@name='r1']/failure")
    assert failure is not None
    assert (failure.attrib["message"], failure.attrib["type"]) == ("r1 fail", "fail")


@pytest.mark.parametrize("mode", ["dry-run", "off"])
def test_a_mode_that_blocks_nothing_fails_nothing(mode: str) -> None:
    suite = read(verdict_junit(verdict(*ALL, status="no verdict", mode=mode)))
    assert set(outcomes(suite).values()) == {"passed", "skipped"}
    skipped = suite.find("testcase[@name='r1']/skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == f"{mode}, blocks nothing; r1 fail"


def test_a_verdict_that_blocks_is_never_all_skipped() -> None:
    """Every requirement switched off decides nothing, and that blocks."""
    tables = {name: {"enabled": False} for name in Policy.default().requirements}
    found = judge(None, {"requirements": tables})
    assert (found.status, found.blocks) == ("no verdict", True)
    assert outcomes(read(verdict_junit(found)))["verdict"] == "error"


@pytest.mark.parametrize("name", ["<&>\"'", "bell\x07", "nul\x00", "\ud800", "😀", "a.b", "]]>"])
def test_any_name_is_valid_xml(name: str) -> None:
    one = requirement("r", "fail", parts=({"part": name, "status": "fail", "actual": 1, "n": 2},))
    text = verdict_junit(verdict(one, status="fail", candidate={"name": name, "version": "1"}, sentence=name))
    suite = read(text.encode("utf-8").decode("utf-8"))
    assert all(case.attrib["classname"].count(".") == 2 for case in suite.findall("testcase"))


def test_an_error_before_the_verdict() -> None:
    suite = read(error_junit("gate", "MLflow does not answer"))
    assert outcomes(suite) == {"gate": "error"}
