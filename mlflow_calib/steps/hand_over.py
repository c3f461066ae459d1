"""What one step hands the next: a flat dict under 1 KB, its JSON text, or the URI of what the step left."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, overload

from mlflow_calib.core.records import from_json
from mlflow_calib.data.paths import local_path, require_file, this_host
from mlflow_calib.errors import InvalidInputError

#: An XCom and a log line hold it with ease; bulk data goes by URI.
LARGEST_BYTES = 1024
#: Bytes of JSON of one sentence: a result stays under 1 KB in any alphabet.
_LONGEST_SENTENCE = 300
#: Texts for people, the most dispensable first: the records have them whole. Where names leave no room they shrink,
#: since a step that has done its work must not fail over its own report.
_SENTENCES = ("note", "reason", "sentence", "champion_sentence", "by")
_SHORTEST_SENTENCE = 8


def take(value: Any, expected_schema: str, parameter: str | None = None) -> dict[str, Any]:
    """The result of an earlier step, however it was handed over.

    Parameters
    ----------
    value : dict, str
        The dict a step returned, its JSON text, or a URI; of a URI the dict holds ``schema``, ``uri`` and
        ``sha256`` None.
    expected_schema : str
        Such as ``mlflow_calib.split/1``. A dict without a schema is taken at its word.
    parameter : str, optional
        Name for messages, by default the step's name.

    Raises
    ------
    InvalidInputError
        Nothing was handed over (the earlier task was skipped), or the result of another step.
    DataError
        It names a local file that is not here, and another host wrote it: both hosts.
    """
    name = parameter or expected_schema.partition("/")[0].rpartition(".")[2]
    step = expected_schema.partition("/")[0].rpartition(".")[2]
    if value is None or (isinstance(value, str) and value.strip() in {"", "None", "null"}):
        raise InvalidInputError(
            f"{name} must be the result of step {step!r}, got nothing; the task before was skipped or returned none: "
            "run it, or hand over the URI of what it left"
        )
    document = _document(value, name, step)
    schema = document.setdefault("schema", expected_schema)
    if schema != expected_schema:
        raise InvalidInputError(f'{name} must have schema "{expected_schema}", got {schema!r}; hand over step {step!r}')
    if not isinstance(document.get("uri"), str) or not document["uri"].strip():
        raise InvalidInputError(f"{name} must name its uri, got {document.get('uri')!r}; hand over step {step!r} whole")
    _refuse_other_host(document, name)
    return document


def give(
    step: str,
    *,
    uri: str,
    sha256: str | None,
    run_id: str | None = None,
    model_uri: str | None = None,
    version: str | None = None,
    **figures: Any,
) -> dict[str, Any]:
    """The dict a step returns; where ``uri`` is local the host that wrote it comes with it.

    Raises
    ------
    InvalidInputError
        A figure is no plain finite number, text, truth or None, or the dict is over 1 KB.
    """
    own = {"schema": f"mlflow_calib.{step}/1", "uri": uri, "sha256": sha256, "run_id": run_id, "model_uri": model_uri}
    result = {**own, "version": version, **figures}
    if not uri.startswith(("runs:/", "models:/")) and local_path(uri) is not None:
        result["hostname"] = this_host()
    wrong = [f"{name}={value!r}" for name, value in result.items() if not _is_plain(value)]
    if wrong:
        raise InvalidInputError(f"a result must hold plain finite values alone, got {', '.join(wrong)}")
    for name in _SENTENCES:
        if (over := len(json.dumps(result)) - LARGEST_BYTES + 1) > 0 and isinstance(text := result.get(name), str):
            result[name] = shortened(text, max(len(json.dumps(text)) - over, _SHORTEST_SENTENCE))
    if (size := len(json.dumps(result).encode())) >= LARGEST_BYTES:
        raise InvalidInputError(
            f"the result of {step!r} must stay under {LARGEST_BYTES} bytes, got {size}; shorten URIs"
        )
    return result


@overload
def shortened(sentence: str, longest: int = ...) -> str: ...
@overload
def shortened(sentence: None, longest: int = ...) -> None: ...
def shortened(sentence: str | None, longest: int = _LONGEST_SENTENCE) -> str | None:
    """As much of a sentence as a result has room for: so many bytes of JSON."""
    if sentence is None or len(json.dumps(sentence)) <= longest:
        return sentence
    kept = sentence
    while len(json.dumps(kept)) > longest - len("..."):
        kept = kept[:-1]
    return f"{kept}..."


def _document(value: Any, name: str, step: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a dict, its JSON or a URI, got {type(value).__name__}")
    if not value.lstrip().startswith("{"):
        return {"uri": value.strip(), "sha256": None}
    try:
        return dict(from_json(value))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{name} must be the JSON that step {step!r} returned, and is none ({error})"
        ) from error


def _refuse_other_host(document: Mapping[str, Any], name: str) -> None:
    uri, host = document["uri"], document.get("hostname")
    is_local = not uri.startswith(("runs:/", "models:/")) and local_path(uri) is not None
    if host and host != this_host() and is_local:
        require_file(uri, name, host)


def _is_plain(value: Any) -> bool:
    if isinstance(value, float):
        return type(value) is float and math.isfinite(value)
    return value is None or type(value) in (bool, int, str)
