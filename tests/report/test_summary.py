"""The Markdown page: what was asked, what was found, and nothing that a name could break."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from mlflow_calib.core.requirement_record import RequirementVerdict
from mlflow_calib.core.verdict import Verdict, judge
from mlflow_calib.report.markdown import number, plain_text, table
from mlflow_calib.report.summary import verdict_markdown


def requirement(name: str = "calibration_error_upper_bound", status: str = "pass", **values: Any) -> RequirementVerdict:
    figures = {"actual": 0.031, "lower": 0.02, "upper": 0.0450004, "n": 12_345, "limit": 0.045}
    words = {"expected": f"{name} asked", "sentence": f"{name}: {status}"}
    return RequirementVerdict(**{"name": name, "status": status, **figures, **words, **values})


def verdict(*requirements: RequirementVerdict, **values: Any) -> Verdict:
    own = {"status": "fail", "requirements": requirements, "sentence": "churn version 3: fail: too high", **values}
    return replace(judge(None), **{"candidate": {"name": "churn", "version": "3"}, **own})


def rows_of(page: str) -> list[list[str]]:
    """Cells of the lines that are rows of a table, split at bars that are not escaped."""
    lines = [line for line in page.splitlines() if line.startswith("|") and not set(line) <= set("|-")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_requirements_with_what_was_expected_and_found() -> None:
    page = verdict_markdown(
        verdict(
            requirement(status="fail"),
            requirement("mse_increase_over_champion", "not applicable", actual=None, lower=None, upper=None, n=None),
            requirement("rows_per_bin", "off"),
        )
    )
    assert page.startswith("## Calibration gate: fail, churn version 3\n\nchurn version 3: fail: too high\n")
    header, first, second = rows_of(page)[:3]
    assert header == ["requirement", "expected", "actual", "bounds", "n", "status"]
    expected = r"calibration\_error\_upper\_bound asked"
    # the upper bound is over the limit, and is shown over it
    assert first == ["`calibration_error_upper_bound`", expected, "0.031", "0.02 to 0.0450004", "12,345", "**fail**"]
    assert second[2:] == ["-", "-", "-", "not applicable"]
    assert "Off: `rows_per_bin`" in page
    assert page.endswith("\n")


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "\ud800",
        "esc\x1b[2J\x9b",
        "<img src=x onerror=alert(1)>",
        "**bold**",
        "[x](http://y)",
        "`code`",
        "line\nbreak",
        "&lt;",
        "a_b_c",
    ],
)
def test_a_name_breaks_no_table_and_brings_no_markup(name: str) -> None:
    one = requirement(parts=({"part": name, "status": "fail", "actual": 0.2, "lower": 0.1, "upper": 0.3, "n": 50},))
    page = verdict_markdown(verdict(one, candidate={"name": name, "version": "1"}, sentence=f"{name} version 1: fail"))
    assert {len(row) for row in rows_of(page)} == {6, 5}
    assert not re.search(r"(?<!\\)[<>*\[\]]", page.replace("**fail**", ""))
    assert plain_text(name).isprintable()
    assert page.encode()


def test_parts_stand_with_those_first_that_do_not_pass() -> None:
    part = {"actual": 0.01, "lower": 0.0, "upper": 0.02, "n": 100}
    parts = tuple({"part": f"class {k}", "status": "fail" if k == 59 else "pass", **part} for k in range(60))
    page = verdict_markdown(verdict(requirement("worst_class_calibration_error_upper_bound", parts=parts)))
    shown = [row for row in rows_of(page) if row[0].startswith("class")]
    assert (shown[0][0], shown[0][4], len(shown)) == ("class 59", "**fail**", 50)
    assert "and 10 more in the record" in page


def test_the_models_side_by_side_with_the_limit() -> None:
    entry = {"root": 0.0311, "upper_bound": 0.04, "lower_bound": 0.01, "noise_floor": 0.02, "mse": 0.2, "n": 4000}
    champion = {**entry, "root": None, "mse": 0.21}
    evidence = {"estimates": {"candidate": {**entry, "confidence_level": 0.95}, "champion": champion, "base": None}}
    rows = rows_of(verdict_markdown(verdict(requirement(limit=0.05)), evidence))
    assert ["", "candidate", "champion", "limit"] in [[cell.strip("-") for cell in row] for row in rows]
    assert ["calibration error (root)", "0.0311", "-", "0.05"] in rows
    assert ["mean squared error", "0.2", "0.21", "-"] in rows
    assert ["least bound (root) that these rows can show", "0.02", "0.02", "-"] in rows


def test_a_limit_on_the_square_stands_beside_no_root() -> None:
    evidence = {"estimates": {"candidate": {"root": 0.0311, "n": 4000}}}
    squared = requirement(limit=0.0025, expected="squared calibration error at most 0.0025")
    assert ["calibration error (root)", "0.0311", "-"] in rows_of(verdict_markdown(verdict(squared), evidence))


@pytest.mark.parametrize(
    ("name", "limit", "actual", "shown"),
    [
        ("n_evaluation", 1000, 11_051.0, "11,051"),
        ("rows_per_bin", 20, 1_024.0, "1,024"),
        ("evidence_age_days", 7.0, 0.004, "6 minutes"),
        ("evidence_age_days", 7.0, 9.1, "9.10 days"),
    ],
)
def test_rows_and_days_are_said_as_such(name: str, limit: float, actual: float, shown: str) -> None:
    one = requirement(name, limit=limit, actual=actual, lower=None, upper=None)
    assert rows_of(verdict_markdown(verdict(one)))[1][2] == shown


@pytest.mark.parametrize("evidence", [None, {}, {"estimates": None}, {"estimates": {"candidate": 3}}, "text"])
def test_damaged_evidence_leaves_the_figures_out(evidence: Any) -> None:
    assert "candidate |" not in verdict_markdown(verdict(requirement()), evidence)


@pytest.mark.parametrize(("mode", "said"), [("dry-run", "Dry run: recorded, nothing"), ("off", "The policy is off")])
def test_a_mode_that_blocks_nothing_is_said(mode: str, said: str) -> None:
    assert said in verdict_markdown(verdict(requirement(), mode=mode))
    assert said not in verdict_markdown(verdict(requirement()))


def test_helpers() -> None:
    assert len(number(10**400)) < 50
    assert number(float("nan")) == "nan"
    assert (number(None), number(0.5), number(3.0), number(True), number(1e-9)) == ("", "0.5", "3", "True", "1e-09")
    assert table(["a", "b"], []) == ["| a | b |", "|---|---|"]
