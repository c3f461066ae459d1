"""``main``: parse, call the step, print its result, answer with the exit code."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from mlflow_calib.cli.arguments import build_parser, command_parser
from mlflow_calib.cli.commands import RUN
from mlflow_calib.cli.reports import report_failure
from mlflow_calib.cli.server import server_if_named
from mlflow_calib.cli.spelling import with_options
from mlflow_calib.cli.summary import summary
from mlflow_calib.errors import MlflowCalibError
from mlflow_calib.flavor.reachable import unreachable, unsupported

WRONG_USE, INTERRUPTED = 2, 130
#: Exit code of a verdict that blocks.
VERDICT_CODES = {"fail": 1, "inconclusive": 3}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 where the command did its work (``gate``: the verdict blocks nothing), 2 where the input is wrong or MLflow does
    not answer, 1 for an error nobody foresaw. ``gate``: 1 fail, 3 inconclusive, 2 for whatever leaves no verdict.
    """
    parser = build_parser()
    arguments = parser.parse_args(argv)
    try:
        with _terminable(), contextlib.redirect_stdout(sys.stderr):
            result = RUN[arguments.command](arguments)
    except MlflowCalibError as error:
        message = with_options(str(error), command_parser(parser, arguments.command))
        return _failed(arguments, message, WRONG_USE)
    except KeyboardInterrupt:
        return _failed(arguments, "interrupted", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 a command line answers every error with a line and a code
        server = server_if_named(arguments)
        if said := unreachable(error, server) or unsupported(error, server):
            return _failed(arguments, said, WRONG_USE)
        unforeseen = WRONG_USE if arguments.command == "gate" else 1
        return _failed(arguments, f"{type(error).__name__}: {error}", unforeseen)
    print(json.dumps(result) if arguments.json else shown(summary(arguments.command, result)))
    return exit_code(arguments.command, result)


def exit_code(command: str, result: dict[str, Any]) -> int:
    """Code of a finished command; only a blocking verdict is not 0.

    >>> exit_code("gate", {"status": "inconclusive", "blocks": True})
    3
    >>> exit_code("gate", {"status": "fail", "blocks": False})  # dry-run
    0
    """
    if command != "gate" or result.get("blocks") is False:
        return 0
    return VERDICT_CODES.get(str(result.get("status")), WRONG_USE)


def shown(text: str) -> str:
    r"""A text without what a terminal would obey: names and reasons come from whoever could write them.

    >>> print(shown("churn\x1b[2J version 1"))
    churn�[2J version 1
    """
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _failed(arguments: argparse.Namespace, message: str, code: int) -> int:
    if arguments.traceback:
        traceback.print_exc()
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    print(shown(f"mlflow-calib {arguments.command}: {' '.join(lines)}"), file=sys.stderr)
    report_failure(arguments, " ".join(lines))
    return code


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM unwind the step, so that an open MLflow run ends as KILLED instead of running for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
