"""What stands behind an option: column lists, class labels, tags, results of earlier commands."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mlflow_calib.core.records import from_json

#: Options of the split, by the name they have in the split dict of the steps.
SPLIT_FIELDS = (
    "evaluation_fraction",
    "seed",
    "recalibration_period",
    "evaluation_period",
    "recalibration_days",
    "evaluation_days",
    "label_delay_days",
)
#: How results of earlier commands are handed over, in words.
EARLIER = "a URI, a JSON object, or @file.json with what an earlier command printed with --json"
_HASH_FIELDS = {"evaluation_fraction", "seed"}


def columns(text: str) -> list[str]:
    """Column names, separated by commas.

    >>> columns("date, game")
    ['date', 'game']
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"column names separated by commas are due, got {text!r}")
    return names


def numbers(text: str) -> list[float]:
    """Numbers separated by commas.

    >>> numbers("0.1, 0.25")
    [0.1, 0.25]
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"numbers separated by commas are due, got {text!r}") from error


def below_one(text: str) -> float:
    """A number above 0 and below 1, such as a limit on a calibration error.

    >>> below_one("0.05")
    0.05
    """
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"a number is due, got {text!r}") from error
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"a number above 0 and below 1 is due, got {text}")
    return value


def label(text: str) -> Any:
    """A class label: JSON where it is JSON, else the text itself.

    >>> label("1"), label("true"), label("yes"), label('"1"')
    (1, True, 'yes', '1')
    """
    try:
        value = from_json(text)
    except ValueError:
        return text
    return text if isinstance(value, (dict, list)) or value is None else value


def tag(text: str) -> tuple[str, str]:
    """One tag, written ``key=value``.

    >>> tag("airflow.dag_id=flights")
    ('airflow.dag_id', 'flights')
    """
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"a tag is written key=value, got {text!r}")
    return key, value


def add_tags(command: argparse.ArgumentParser) -> None:
    """The option ``--tag``."""
    command.add_argument(
        "--tag", dest="run_tags", action="append", type=tag, metavar="KEY=VALUE", help="on the run; repeated"
    )


def earlier_result(text: str) -> dict[str, Any] | str:
    """Result of an earlier command: ``@file.json`` and JSON become a dict, a URI stays as it is.

    >>> earlier_result('{"uri": "partitions/manifest.json"}')
    {'uri': 'partitions/manifest.json'}
    >>> earlier_result("models:/flights/2")
    'models:/flights/2'
    """
    if text.startswith("@"):
        return _document(_read(text[1:]), text)
    if text.lstrip().startswith("{"):
        return _document(text, "the argument")
    if not text.strip():
        raise argparse.ArgumentTypeError("a URI, a JSON object or @file.json is due, got an empty text")
    return text


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise argparse.ArgumentTypeError(
            f"{path} cannot be read ({reason}); write it with `mlflow-calib ... --json > {path}`"
        ) from error


def _document(text: str, where: str) -> dict[str, Any]:
    try:
        document = from_json(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{where} must hold the JSON that an earlier command printed with --json ({error})"
        ) from error
    if not isinstance(document, dict):
        raise argparse.ArgumentTypeError(f"{where} must hold one JSON object, got a {type(document).__name__}")
    return document


def split_document(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The split dict of the steps, of the options that were given; None where none was."""
    given = {name: getattr(arguments, name) for name in SPLIT_FIELDS if getattr(arguments, name) is not None}
    how = arguments.how
    if how is None and given:
        how = "hash" if set(given) <= _HASH_FIELDS else "time"
    return None if how is None else {"how": how, **given}
