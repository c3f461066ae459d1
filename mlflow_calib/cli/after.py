"""Commands for what comes after a verdict: ``promote``, ``rollback``, ``override``, ``history``."""

from __future__ import annotations

import argparse
from typing import Any

from mlflow_calib.cli import values
from mlflow_calib.cli.server import server_of

HISTORY_SCHEMA = "mlflow_calib.history/1"


def promote_options(command: argparse.ArgumentParser) -> None:
    """Options of ``promote``."""
    command.add_argument("candidate", type=values.earlier_result, metavar="CANDIDATE", help="fit, or models:/NAME/N")
    command.add_argument("verdict", type=values.earlier_result, metavar="VERDICT", help=f"gate: {values.EARLIER}")
    command.add_argument("--alias", default="champion", help="default champion")
    command.add_argument("--by", "--promoted-by", dest="promoted_by", metavar="WHO", help="stands in the record")
    command.add_argument(
        "--override-reason",
        metavar="WHY",
        help="promote although the verdict blocks; needs --by. Never where evidence or model were changed",
    )


def rollback_options(command: argparse.ArgumentParser) -> None:
    """Options of ``rollback``."""
    command.add_argument("name", metavar="NAME", help="the registered model")
    command.add_argument("--alias", default="champion", help="default champion")
    command.add_argument("--to-version", metavar="N", help="a version that held the alias; default the one before")
    _who_and_why(command)


def override_options(command: argparse.ArgumentParser) -> None:
    """Options of ``override``."""
    command.add_argument("name", metavar="NAME", help="the registered model")
    command.add_argument(
        "action", metavar="ACTION", help="delete-alias, delete-version, delete-model, rename or copy; then do it"
    )
    command.add_argument("--model-version", dest="version", metavar="N", help="delete-version, copy: which one")
    command.add_argument("--alias", help="delete-alias: which one")
    command.add_argument("--target", metavar="NAME", help="rename, copy: the new name")
    _who_and_why(command)


def history_options(command: argparse.ArgumentParser) -> None:
    """Options of ``history``."""
    command.add_argument("name", metavar="NAME", help="the registered model")
    command.add_argument("--alias", default="champion", help="default champion")


def run_promote(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call the step."""
    from mlflow_calib.steps import promote

    return promote(
        arguments.candidate,
        arguments.verdict,
        alias=arguments.alias,
        promoted_by=arguments.promoted_by,
        override_reason=arguments.override_reason,
        server=server_of(arguments),
    )


def run_rollback(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call the step."""
    from mlflow_calib.steps import rollback

    options = {name: getattr(arguments, name) for name in ("alias", "to_version", "reason", "by")}
    return rollback(arguments.name, **options, server=server_of(arguments))


def run_override(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call the step."""
    from mlflow_calib.steps import override

    options = {name: getattr(arguments, name) for name in ("version", "alias", "target", "reason", "by")}
    return override(arguments.name, arguments.action, **options, server=server_of(arguments))


def run_history(arguments: argparse.Namespace) -> dict[str, Any]:
    """Call the step."""
    from mlflow_calib.steps import history

    events = history(arguments.name, arguments.alias, server=server_of(arguments))
    now = events[-1]["to"] if events else None
    return {
        "schema": HISTORY_SCHEMA,
        "name": arguments.name,
        "alias": arguments.alias,
        "version": now,
        "events": events,
    }


def _who_and_why(command: argparse.ArgumentParser) -> None:
    command.add_argument("--reason", required=True, metavar="WHY", help="stands in the record")
    command.add_argument("--by", required=True, metavar="WHO", help="who answers for it")
