"""Commands that judge: ``evaluate`` and ``gate``, with the pages that a CI job shows."""

from __future__ import annotations

import argparse
from typing import Any

from mlflow_calib.cli import values
from mlflow_calib.cli.reports import (
    add_report_options,
    report_judged,
    report_recorded,
    wants_reports,
    write_reports,
)
from mlflow_calib.cli.server import progress_of, server_of


def evaluate_options(command: argparse.ArgumentParser) -> None:
    """Options of ``evaluate``."""
    command.add_argument(
        "partitions", type=values.earlier_result, metavar="PARTITIONS", help=f"split: {values.EARLIER}"
    )
    command.add_argument(
        "given", nargs="?", type=values.earlier_result, metavar="CANDIDATE", help="fit, or models:/NAME/N"
    )
    command.add_argument(
        "--candidate",
        type=values.earlier_result,
        metavar="CANDIDATE",
        help="the same; models:/NAME@champion evaluates it",
    )
    command.add_argument("--policy", metavar="FILE", help="TOML or JSON: what to collect for, slices among it")
    command.add_argument("--role", choices=["candidate", "champion"], help="champion: the alias's holder on its own")
    values.add_tags(command)
    add_report_options(command)


def gate_options(command: argparse.ArgumentParser) -> None:
    """Options of ``gate``."""
    command.add_argument("evidence", type=values.earlier_result, metavar="EVIDENCE", help=f"evaluate: {values.EARLIER}")
    command.add_argument("--policy", metavar="FILE", help="TOML or JSON; default the built-in requirements")
    command.add_argument(
        "--no-record", dest="record", action="store_false", help="judge only: nothing is written to MLflow"
    )
    add_report_options(command)


def run_evaluate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call the step, and show what the policy would say."""
    from mlflow_calib.errors import InvalidInputError
    from mlflow_calib.steps import evaluate

    if (arguments.given is None) == (arguments.candidate is None):
        raise InvalidInputError(
            "the candidate must be said once: evaluate PARTITIONS CANDIDATE, or evaluate PARTITIONS --candidate "
            "models:/NAME@champion"
        )
    server = server_of(arguments)
    result = evaluate(
        arguments.partitions,
        arguments.given if arguments.candidate is None else arguments.candidate,
        policy=arguments.policy,
        role=arguments.role,
        run_tags=dict(arguments.run_tags or ()),
        server=server,
        progress=progress_of(arguments),
    )
    report_judged(arguments, result, server)
    return result


def run_gate(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call the step; with ``--no-record`` judge alone."""
    from mlflow_calib.steps import gate
    from mlflow_calib.steps.judgement import judgement_of

    server = server_of(arguments)
    if arguments.record:
        result = gate(arguments.evidence, policy=arguments.policy, server=server)
        report_recorded(arguments, result, server)
        return result
    judgement = judgement_of(server, arguments.evidence, arguments.policy)
    if wants_reports(arguments):
        places = {"not recorded, evidence": judgement.reference["uri"]}
        write_reports(arguments, judgement.verdict, judgement.document, places)
    return judgement.unrecorded()
