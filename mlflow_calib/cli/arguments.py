"""The parser: one command a step, its options named like the arguments of the step."""

from __future__ import annotations

import argparse
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.cli import after, judging, models, policies, values

#: Command: (what it does, an example).
COMMANDS = {
    "score": (
        "Run the base model over validation data; leave its scores and the labels as Parquet.",
        """mlflow-calib score models:/churn-base/3 --data s3://lake/churn.parquet --key customer --label churned \\
    --positive-class yes --champion models:/churn@champion --output s3://lake/scored --json > scored.json""",
    ),
    "split": (
        "Divide the predictions into recalibration data and evaluation data without a common row.",
        """mlflow-calib split @scored.json --how time --recalibration-period 2026-10-01/2026-11-01 \\
    --evaluation-period 2026-11-01/2026-12-01 --output s3://lake/partitions --json > split.json""",
    ),
    "fit": (
        "Fit the calibrator on the recalibration data and register base model and calibrator as one version.",
        "mlflow-calib fit @split.json --name churn --n-bins 10 --experiment churn --json > candidate.json",
    ),
    "evaluate": (
        "Estimate the calibration error on the evaluation data and store the evidence.",
        "mlflow-calib evaluate @split.json @candidate.json --policy policy.toml --json > evidence.json",
    ),
    "gate": (
        "Judge the evidence by a policy. Exit code: 0 pass, 1 fail, 3 inconclusive, 2 wrong use or no verdict.",
        "mlflow-calib gate @evidence.json --policy policy.toml --json > verdict.json",
    ),
    "promote": (
        "Move the alias to a version whose verdict lets it through.",
        "mlflow-calib promote @candidate.json @verdict.json --alias champion --by ann",
    ),
    "rollback": (
        "Give the alias back to a version that held it.",
        "mlflow-calib rollback churn --reason complaints --by ann",
    ),
    "override": (
        "Sign for an action that the registry guard refuses: deleting, renaming, copying.",
        "mlflow-calib override churn delete-alias --alias champion --reason retired --by ann",
    ),
    "history": (
        "List who held the alias, by whom and why.",
        "mlflow-calib history churn --json",
    ),
    "policy": (
        "Show a policy completed with the defaults, and its digest. Reads the file alone.",
        "mlflow-calib policy policy.toml",
    ),
    "plan": (
        "Say how many rows it takes to verify a calibration error, and to fit a calibrator. Reads no data.",
        "mlflow-calib plan --limit 0.05 --n-bins 10 --true-error 0.02 --pass-probability 0.9 --rows 5000",
    ),
    **models.COMMANDS,
}

#: Commands that ask no server.
_WITHOUT_MLFLOW = ("policy", "plan")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="mlflow-calib",
        description="Recalibrate MLflow models, prove their calibration error on unseen data, gate promotion on it.",
    )
    parser.add_argument("--version", action="version", version=f"mlflow-calib {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, add_options in _OPTIONS.items():
        what, example = COMMANDS[name]
        command = commands.add_parser(
            name,
            help=what,
            description=what,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(command)
        _common(command, mlflow=name not in _WITHOUT_MLFLOW)
    return parser


def command_parser(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    found: argparse.ArgumentParser = commands.choices[name]
    return found


def _common(command: argparse.ArgumentParser, *, mlflow: bool) -> None:
    group = command.add_argument_group("MLflow and output" if mlflow else "output")
    if mlflow:
        group.add_argument("--tracking-uri", metavar="URI", help="tracking server; default MLFLOW_TRACKING_URI")
        group.add_argument("--registry-uri", metavar="URI", help="model registry; default MLFLOW_REGISTRY_URI")
        group.add_argument("--quiet", action="store_true", help="no progress bar")
    group.add_argument("--json", action="store_true", help="print the result as one JSON object, for machines")
    group.add_argument("--traceback", action="store_true", help="show where an error came from")


def _score(command: argparse.ArgumentParser) -> None:
    command.add_argument("model_uri", metavar="MODEL_URI", help="base model; an alias is resolved once, here")
    command.add_argument("--output", dest="output_uri", required=True, metavar="URI", help="folder of the predictions")
    data = command.add_argument_group("data")
    data.add_argument("--data", dest="data_uri", metavar="URI", help="one table, to be split later")
    data.add_argument("--recalibration-data", dest="recalibration_uri", metavar="URI", help="or two tables: this")
    data.add_argument("--evaluation-data", dest="evaluation_uri", metavar="URI", help="and this")
    _columns(data, "--key", "key_columns", "columns that name a row, repeated or with commas", required=True)
    data.add_argument("--label", dest="label_column", required=True, metavar="COLUMN", help="the outcome")
    data.add_argument("--group", dest="group_column", metavar="COLUMN", help="rows of one group move together")
    data.add_argument("--time", dest="time_column", metavar="COLUMN", help="when the row happened; periods read it")
    _columns(data, "--slice", "slice_columns", "columns to report by")
    _columns(data, "--feature", "feature_columns", "inputs of the model; default those of its signature")
    data.add_argument("--drop-unlabelled", action="store_true", help="drop and count rows without a label")
    model = command.add_argument_group("models")
    model.add_argument("--positive-class", type=values.label, metavar="LABEL", help="JSON, else the text itself")
    model.add_argument("--class", dest="classes", action="append", type=values.label, metavar="LABEL", help="repeated")
    kinds = 'auto (default), probability, logit, the name of an output, or {"logit": NAME}'
    model.add_argument("--base-score", default="auto", metavar="HOW", help=kinds)
    model.add_argument("--champion", metavar="MODEL_URI", help="score this model on the same rows, to compare with")
    _split_options(command)


def _split(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "predictions", type=values.earlier_result, metavar="PREDICTIONS", help=f"scored: {values.EARLIER}"
    )
    command.add_argument("--output", dest="output_uri", required=True, metavar="URI", help="folder of the partitions")
    command.add_argument(
        "--base-training", dest="base_training_uri", metavar="URI", help="keys of the base model's training rows"
    )
    _split_options(command)


def _split_options(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("how to split")
    group.add_argument("--how", choices=["hash", "time", "given"], help="by key hash, by period, or as the data came")
    group.add_argument("--evaluation-fraction", type=float, metavar="F", help="hash: share of the evaluation data")
    group.add_argument("--seed", type=int, metavar="N", help="hash: another seed, another split")
    group.add_argument("--recalibration-period", metavar="A/B", help="time: ISO 8601, half-open")
    group.add_argument("--evaluation-period", metavar="B/C", help="time: ISO 8601, half-open")
    group.add_argument("--recalibration-days", type=float, metavar="D", help="time: length, counted back from --as-of")
    group.add_argument("--evaluation-days", type=float, metavar="D", help="time: length, the newest rows")
    group.add_argument("--label-delay-days", type=float, metavar="D", help="time: labels are known this much later")
    group.add_argument("--as-of", metavar="TIME", help="the moment the days are counted back from")


def _fit(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "partitions", type=values.earlier_result, metavar="PARTITIONS", help=f"split: {values.EARLIER}"
    )
    command.add_argument("--name", required=True, help="registered model that gets the new version")
    command.add_argument("--experiment", metavar="NAME", help="experiment of the run; default the registered model's")
    values.add_tags(command)
    group = command.add_argument_group("calibrator")
    methods = "scaling-binning (default), scaling-binning-shrunk or histogram-binning"
    group.add_argument("--method", metavar="NAME", help=methods)
    reductions = "of more than two classes, to be said: marginal, top-label or top-label-per-class"
    group.add_argument("--reduction", metavar="NAME", help=reductions)
    group.add_argument("--n-bins", type=int, metavar="B", help="default 10")
    group.add_argument("--binning", metavar="NAME", help="uniform-mass (default) or equal-width")
    families = "platt (default), quadratic, beta, temperature, identity or auto"
    group.add_argument("--scaling", metavar="FAMILY", help=families)
    group.add_argument("--parts", metavar="HOW", help="auto (default), disjoint or shared")
    group.add_argument("--score-kind", metavar="KIND", help="probability (default) or logit")
    group.add_argument("--seed", type=int, metavar="N", help="default 0")


def _plan(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--limit", type=values.below_one, required=True, metavar="E", help="calibration error (root) to stay within"
    )
    command.add_argument("--n-bins", type=int, default=10, metavar="B", help="default 10")
    command.add_argument("--confidence-level", type=float, default=0.95, metavar="P", help="of the bound; default 0.95")
    command.add_argument("--rows", dest="n", type=int, metavar="N", help="also say what this many rows can show")
    model = command.add_argument_group("the model one has in mind")
    model.add_argument("--true-error", type=float, metavar="E", help="its calibration error (root), below the limit")
    model.add_argument(
        "--pass-probability", type=float, default=0.5, metavar="P", help="how likely to pass; default 0.5"
    )
    model.add_argument(
        "--rates",
        type=values.numbers,
        metavar="R",
        help="positive rate of each bin, with commas; default even over 0 to 1",
    )


def _columns(group: Any, option: str, dest: str, what: str, *, required: bool = False) -> None:
    group.add_argument(
        option, dest=dest, action="extend", type=values.columns, required=required, metavar="COLUMN", help=what
    )


_OPTIONS = {
    "score": _score,
    "split": _split,
    "fit": _fit,
    "evaluate": judging.evaluate_options,
    "gate": judging.gate_options,
    "promote": after.promote_options,
    "rollback": after.rollback_options,
    "override": after.override_options,
    "history": after.history_options,
    "policy": policies.policy_options,
    "plan": _plan,
    **models.OPTIONS,
}
