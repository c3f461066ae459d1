"""What steps hand each other: a dict, its JSON or a URI; small, plain, and of the right step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlflow_calib.data.paths import this_host
from mlflow_calib.errors import DataError, InvalidInputError
from mlflow_calib.steps.hand_over import give, take

SCHEMA = "mlflow_calib.split/1"


def result(**figures: Any) -> dict[str, Any]:
    return give("split", uri="s3://bucket/run/manifest.json", sha256="sha256:0", **figures)


def test_dict_json_and_uri_are_taken() -> None:
    given = result(n_evaluation=10, note=None, ok=True, share=0.5)
    assert take(given, SCHEMA) == take(json.dumps(given), SCHEMA) == given
    by_uri = take(" runs:/abc/x.json ", SCHEMA)
    assert by_uri == {"schema": SCHEMA, "uri": "runs:/abc/x.json", "sha256": None}
    assert take({"uri": "partitions/manifest.json"}, SCHEMA)["schema"] == SCHEMA


@pytest.mark.parametrize("nothing", [None, "", "None", "null"])
def test_nothing_names_parameter_and_remedy(nothing: Any) -> None:
    """P8: the task before was skipped."""
    with pytest.raises(InvalidInputError, match=r"partitions must be the result of step 'split', got nothing.*skipped"):
        take(nothing, SCHEMA, "partitions")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"schema": "mlflow_calib.score/1", "uri": "x"}, r'must have schema "mlflow_calib\.split/1", got'),
        ({"schema": SCHEMA}, "must name its uri, got None"),
        ({"uri": 3}, "must name its uri, got 3"),
        ("{'uri': 'x'}", "must be the JSON"),
        (3, "must be a dict, its JSON or a URI, got int"),
    ],
)
def test_other_things_are_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        take(value, SCHEMA, "partitions")


def test_a_local_file_of_another_host_names_both(tmp_path: Path) -> None:
    """P16."""
    given = give("split", uri=(tmp_path / "manifest.json").as_uri(), sha256=None)
    assert given["hostname"] == this_host()
    assert take(given, SCHEMA) == given, "whether it is there is for its reader to say"
    with pytest.raises(DataError, match="worker-7") as raised:
        take({**given, "hostname": "worker-7"}, SCHEMA)
    assert this_host() in str(raised.value)
    (tmp_path / "manifest.json").touch()
    take({**given, "hostname": "worker-7"}, SCHEMA)


@pytest.mark.parametrize("value", [np.float32(0.5), np.int64(1), float("nan"), float("inf"), [1], {"a": 1}])
def test_figures_are_plain_and_finite(value: Any) -> None:
    """P2, P3."""
    with pytest.raises(InvalidInputError, match="plain finite values alone, got n="):
        result(n=value)


def test_bulk_never_travels() -> None:
    """P1."""
    with pytest.raises(InvalidInputError, match="under 1024 bytes"):
        result(ids=",".join(map(str, range(5000))))
    assert len(json.dumps(result(reason="x" * 500)).encode()) < 1024
