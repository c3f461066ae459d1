"""The MLflow server of a command: its options, the environment filling what they leave open."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow_calib.flavor.tracking import MlflowServer

#: MLflow's bars for files of a few kilobytes say nothing, and break lines that other programs read.
_QUIET = {"MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
#: A server that is down is said within seconds; MLflow's own 7 retries take minutes. Whoever sets these keeps them.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1"}


def server_of(arguments: argparse.Namespace) -> MlflowServer:
    """The server that the command works on."""
    from mlflow_calib.flavor.tracking import MlflowServer

    given = MlflowServer(arguments.tracking_uri) if arguments.tracking_uri else MlflowServer.from_environment()
    patience = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    return replace(given, registry_uri=arguments.registry_uri or given.registry_uri, environment=_QUIET | patience)


def server_if_named(arguments: argparse.Namespace) -> MlflowServer | None:
    """The same for a message; None where none is named, or it has no such options."""
    try:
        return server_of(arguments)
    except (AttributeError, ValueError):
        return None


def progress_of(arguments: argparse.Namespace) -> bool:
    """Whether somebody looks on."""
    return not arguments.quiet and sys.stderr.isatty()
