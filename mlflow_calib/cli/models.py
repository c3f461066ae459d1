"""The commands on one calibrated model: what it says of itself, and a table through it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mlflow_calib.cli import values

if TYPE_CHECKING:
    from mlflow_calib.flavor.tracking import MlflowServer

#: Command: (what it does, an example).
COMMANDS = {
    "describe": (
        "Say what a calibrated model is: base model, data, bins, figures, versions. Loads no model.",
        "mlflow-calib describe models:/churn@champion --json",
    ),
    "predict": (
        "Score a table (Parquet or CSV, by path or URI) with a calibrated model, batch by batch.",
        """mlflow-calib predict models:/churn@champion s3://lake/customers.parquet s3://lake/scored.parquet \\
    --keep customer""",
    ),
}


def _describe_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("model_uri", metavar="MODEL_URI", help="models:/NAME/N, models:/NAME@ALIAS, or a folder")


def _predict_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("model_uri", metavar="MODEL_URI", help="calibrated model; an alias is resolved once, here")
    command.add_argument("input_uri", metavar="INPUT", help="Parquet file, folder of them, or CSV file")
    command.add_argument("output_uri", metavar="OUTPUT", help="file to write; .csv makes CSV, else Parquet")
    outputs = "probability (default), label, base or both"
    command.add_argument("--output", default="probability", metavar="KIND", help=outputs)
    command.add_argument(
        "--keep",
        dest="keep_columns",
        action="extend",
        type=values.columns,
        metavar="COLUMN",
        help="columns of INPUT to keep beside the output, repeated or with commas",
    )


def _describe(arguments: argparse.Namespace) -> dict[str, Any]:
    from mlflow_calib.flavor.describe import describe

    return describe(arguments.model_uri, _server_if_named(arguments))


def _predict(arguments: argparse.Namespace) -> dict[str, Any]:
    from mlflow_calib.steps.predict_file import predict_file

    return predict_file(
        arguments.model_uri,
        arguments.input_uri,
        arguments.output_uri,
        output=arguments.output,
        keep_columns=arguments.keep_columns or (),
        server=_server_if_named(arguments),
        progress=not arguments.quiet and sys.stderr.isatty(),
    )


def _server_if_named(arguments: argparse.Namespace) -> MlflowServer | None:
    """The server of the options and the environment; None where neither names one, as a local folder needs none."""
    if not arguments.tracking_uri and not os.environ.get("MLFLOW_TRACKING_URI", "").strip():
        return None
    from mlflow_calib.cli.server import server_of

    return server_of(arguments)


def text_of(command: str, result: Mapping[str, Any]) -> str:
    """What these commands print for people."""
    if command == "describe":
        from mlflow_calib.flavor.describe import description_text

        return description_text(result)
    return f"scored {result['n']:,} rows with {result['model_uri']} into {result['uri']}"


OPTIONS = {"describe": _describe_options, "predict": _predict_options}
RUN: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"describe": _describe, "predict": _predict}
