"""From parsed options to the call of a step. Heavy libraries come in with the step, so that --help stays quick."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from mlflow_calib.cli import after, judging, models, policies, values
from mlflow_calib.cli.server import progress_of, server_of
from mlflow_calib.errors import InvalidInputError, raise_problems

PLAN_SCHEMA = "mlflow_calib.plan/1"
CALIBRATOR_OPTIONS = ("method", "reduction", "n_bins", "binning", "scaling", "parts", "score_kind", "seed")
_SCORE_OPTIONS = (
    "data_uri", "recalibration_uri", "evaluation_uri", "key_columns", "label_column", "group_column", "time_column",
    "feature_columns", "positive_class", "classes", "base_score", "champion", "as_of", "drop_unlabelled",
)  # fmt: skip


def _score(arguments: argparse.Namespace) -> dict[str, Any]:
    from mlflow_calib.steps import score

    given = {name: getattr(arguments, name) for name in _SCORE_OPTIONS}
    return score(
        arguments.model_uri,
        arguments.output_uri,
        **given,
        slice_columns=arguments.slice_columns or (),
        split=values.split_document(arguments),
        server=server_of(arguments),
        progress=progress_of(arguments),
    )


def _split(arguments: argparse.Namespace) -> dict[str, Any]:
    from mlflow_calib.steps import split

    how = values.split_document(arguments)
    if how is None:
        raise InvalidInputError("the way to split must be said: add --how hash, --how time or --how given")
    return split(
        arguments.predictions,
        arguments.output_uri,
        split=how,
        as_of=arguments.as_of,
        base_training_uri=arguments.base_training_uri,
    )


def _fit(arguments: argparse.Namespace) -> dict[str, Any]:
    from mlflow_calib.steps import fit

    given = {name: getattr(arguments, name) for name in CALIBRATOR_OPTIONS}
    return fit(
        arguments.partitions,
        name=arguments.name,
        calibrator={name: value for name, value in given.items() if value is not None},
        experiment=arguments.experiment,
        run_tags=dict(arguments.run_tags or ()),
        server=server_of(arguments),
    )


def _plan(arguments: argparse.Namespace) -> dict[str, Any]:
    from mlflow_calib.core import planning
    from mlflow_calib.core.theory import rows_for_balance

    limit, n_bins, level, rates = arguments.limit, arguments.n_bins, arguments.confidence_level, arguments.rates
    model = {"true_error": arguments.true_error or 0.0, "pass_probability": arguments.pass_probability}
    error = arguments.true_error or limit / 2
    calls: dict[str, Callable[[], Any]] = {
        "rows_to_verify": lambda: planning.rows_to_verify(limit, n_bins, level, rates=rates, **model),
        "noise_floor": lambda: (
            None if arguments.n is None else planning.noise_floor_of(arguments.n, n_bins, level, rates)
        ),
    }
    found = _answers(calls)
    return {
        "schema": PLAN_SCHEMA,
        "limit": limit,
        "n_bins": n_bins,
        "confidence_level": level,
        **model,
        "rows_to_verify": found["rows_to_verify"],
        "fitted_error": error,
        "rows_to_fit": planning.rows_to_fit(error, n_bins),
        "rows_to_fit_histogram_binning": planning.rows_to_fit(error, n_bins, "histogram-binning"),
        "rows_for_balance": rows_for_balance(n_bins, level),
        "n": arguments.n,
        "noise_floor": found["noise_floor"],
    }


def _answers(calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """What each call returns, or one error with the problems of them all."""
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, call in calls.items():
        try:
            found[name] = call()
        except InvalidInputError as error:  # noqa: PERF203 - two calls
            problems += error.problems or (str(error),)
    if problems:
        raise_problems(list(dict.fromkeys(problems)))
    return found


RUN: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "score": _score,
    "split": _split,
    "fit": _fit,
    "evaluate": judging.run_evaluate,
    "gate": judging.run_gate,
    "promote": after.run_promote,
    "rollback": after.run_rollback,
    "override": after.run_override,
    "history": after.run_history,
    "policy": policies.run_policy,
    "plan": _plan,
    **models.RUN,
}
