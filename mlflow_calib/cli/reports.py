"""What a CI job shows of a verdict: ``--summary FILE`` for its page, ``--junit FILE`` for its test page."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlflow_calib.errors import DataError

if TYPE_CHECKING:
    from mlflow_calib.core.verdict import Verdict
    from mlflow_calib.flavor.tracking import MlflowServer


def add_report_options(command: argparse.ArgumentParser) -> None:
    """``--summary`` and ``--junit``."""
    group = command.add_argument_group("for a CI job")
    group.add_argument(
        "--summary", metavar="FILE", help="append a Markdown page of the verdict, as GITHUB_STEP_SUMMARY wants it"
    )
    group.add_argument("--junit", metavar="FILE", help="write JUnit XML, a test case a requirement")


def wants_reports(arguments: argparse.Namespace) -> bool:
    """Whether a page was asked for."""
    return bool(arguments.summary or arguments.junit)


def write_reports(
    arguments: argparse.Namespace, verdict: Verdict, evidence: Mapping[str, Any], places: Mapping[str, str]
) -> None:
    """Write what was asked for; DataError where a file cannot be written."""
    from mlflow_calib.report.junit import verdict_junit
    from mlflow_calib.report.summary import verdict_markdown

    if arguments.junit:
        _write(arguments.junit, verdict_junit(verdict))
    if arguments.summary:
        _append(arguments.summary, verdict_markdown(verdict, evidence, places))


def report_recorded(arguments: argparse.Namespace, result: Mapping[str, Any], server: MlflowServer) -> None:
    """The pages of a verdict that the gate has left, from its record."""
    if not wants_reports(arguments):
        return
    from mlflow_calib.core.verdict import Verdict
    from mlflow_calib.flavor.records import read_record

    record = read_record(server, str(result["uri"]), result["sha256"])
    reference = record["evidence"]
    evidence = read_record(server, reference["uri"], reference["sha256"])
    places = {"verdict": str(result["uri"]), "evidence": str(reference["uri"])}
    write_reports(arguments, Verdict.from_dict(record), evidence, places)


def report_judged(arguments: argparse.Namespace, result: Mapping[str, Any], server: MlflowServer) -> None:
    """The pages of evidence that nobody has judged yet: what the policy would say of it."""
    if not wants_reports(arguments):
        return
    from mlflow_calib.core.verdict import judge
    from mlflow_calib.flavor.records import read_record
    from mlflow_calib.steps.opening import open_policy

    evidence = read_record(server, str(result["uri"]), result["sha256"])
    verdict = judge(evidence, open_policy(arguments.policy))
    write_reports(arguments, verdict, evidence, {"not recorded, evidence": str(result["uri"])})


def report_failure(arguments: argparse.Namespace, message: str) -> None:
    """The test page of a command that ended without a verdict; what cannot be written then is let go."""
    if not getattr(arguments, "junit", None):
        return
    from mlflow_calib.report.junit import error_junit

    with contextlib.suppress(DataError, OSError):
        _write(arguments.junit, error_junit(arguments.command, message))


def _write(path: str, text: str) -> None:
    from mlflow_calib.data.records import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise DataError(f"--junit {path} cannot be written: {error.strerror}; name another file") from error


def _append(path: str, text: str) -> None:
    from mlflow_calib.data.paths import local_path

    if (file := local_path(path)) is None:
        raise DataError(f"--summary {path} must be a file of this machine, which a page can be appended to")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as page:
            page.write(text)
    except OSError as error:
        raise DataError(f"--summary {path} cannot be written: {error.strerror}; name another file") from error
