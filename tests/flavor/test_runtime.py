"""The runtime: the look-up, clean scores, and documents that are refused. Plain ValueError throughout."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlflow_calib import runtime

DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "reduction": "binary",
    "classes": [0, 1],
    "positive_class": 1,
    "maps": [{"class": 1, "edges": [0.25, 0.5], "values": [0.1, 0.4, 0.8]}],
}


def read(**changes: Any) -> dict[str, Any]:
    return runtime.read_calibrator(json.dumps({**DOCUMENT, **changes}))


def test_a_bin_is_open_below_and_closed_above() -> None:
    edges, values = runtime.map_arrays(DOCUMENT["maps"][0])
    scores = np.array([0.0, 0.25, np.nextafter(0.25, 1), 0.5, 1.0])
    assert runtime.look_up(scores, edges, values).tolist() == [0.1, 0.1, 0.4, 0.4, 0.8]


def test_it_imports_numpy_and_the_standard_library_alone() -> None:
    tree = ast.parse(Path(runtime.__file__).read_text(encoding="utf-8"))
    top = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    top |= {str(node.module) for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in top} == {
        "__future__",
        "collections",
        "hashlib",
        "json",
        "numpy",
        "pathlib",
        "re",
        "typing",
    }
    everywhere = {
        str(node.module if isinstance(node, ast.ImportFrom) else node.names[0].name)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    assert not any(name.startswith("mlflow_calib") for name in everywhere)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "damaged"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"schema_version": 2}', "schema_version 2, and this release reads 1; install the mlflow-calib release"),
    ],
)
def test_text_that_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        runtime.read_calibrator(text)


@pytest.mark.parametrize(
    "maps",
    [
        [],
        None,
        DOCUMENT["maps"] * 2,
        [{"edges": [0.25]}],
        [{"edges": [0.5, 0.25], "values": [0.1, 0.4, 0.8]}],
        [{"edges": [0.25, 0.5], "values": [0.1, 0.4]}],
        [{"edges": [0.25, 0.5], "values": [0.1, 0.4, 1.2]}],
        [{"edges": [0.25, 0.5], "values": ["a", 0.4, 0.8]}],
        [{"edges": [float("nan"), 0.5], "values": [0.1, 0.4, 0.8]}],
    ],
)
def test_maps_that_are_refused(maps: Any) -> None:
    with pytest.raises(ValueError, match=r"calibrator\.json is damaged"):
        read(maps=maps)


def test_marginal_needs_a_map_a_class() -> None:
    maps = [{**DOCUMENT["maps"][0], "class": one_class} for one_class in (0, 1)]
    assert len(read(reduction="marginal", maps=maps, positive_class=None)["maps"]) == 2
    with pytest.raises(ValueError, match="it must hold 2 maps"):
        read(reduction="marginal")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.2, np.nan, np.inf], r"finite numbers.*2 of 3 rows.*row 1: nan; row 2: inf"),
        ([0.2, -0.01, 1.5], r"\[0, 1\].*2 of 3 rows.*row 1: -0.01; row 2: 1.5"),
        ([[0.2, 0.8]], r"shape \(n,\), got \(1, 2\)"),
    ],
)
def test_scores_that_are_refused(scores: Any, message: str) -> None:
    """N24: -0.01 as "no forecast", NaN, inf, 1.5."""
    with pytest.raises(ValueError, match=message):
        runtime.clean_scores(scores)


def test_rounding_is_clipped_and_counted() -> None:
    """N24: p = 1.0000001 is 1."""
    cleaned, n_clipped = runtime.clean_scores([1.0000001, -1e-7, 0.5])
    assert cleaned.tolist() == [1.0, 0.0, 0.5]
    assert n_clipped == 2
