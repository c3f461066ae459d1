"""A calibrator.json edited by hand, cut short or made up: refused with every problem, by errors that are ours."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest

from mlflow_calib import runtime
from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.errors import InvalidInputError

RNG = np.random.default_rng(0)
SCORES = RNG.uniform(size=900)
LABELS = RNG.uniform(size=900) < SCORES
CALIBRATOR = fit_calibrator(SCORES, LABELS, n_bins=3)
VALUES = CALIBRATOR.maps[0].values.tolist()
EDGES = CALIBRATOR.maps[0].edges.tolist()
GONE = object()


def edited(path: tuple[Any, ...], value: Any, calibrator: Calibrator = CALIBRATOR) -> str:
    document = copy.deepcopy(calibrator.to_dict())
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


def refused(text: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        Calibrator.from_json(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("edges", EDGES[::-1]),
        ("edges", [EDGES[0], EDGES[0]]),
        ("edges", [EDGES[0], math.inf]),
        ("edges", [str(edge) for edge in EDGES]),
        ("edges", [False, 0.5]),
        ("edges", [EDGES]),
        ("edges", 0.5),
        ("edges", None),
        ("edges", [10**400, 1]),
        ("values", [1.5, *VALUES[1:]]),
        ("values", [math.nan, *VALUES[1:]]),
        ("values", [str(value) for value in VALUES]),
        ("values", VALUES[::-1]),
        ("values", []),
        ("counts", GONE),
        ("counts", [1]),
        ("counts", [-1, 1, 1]),
        ("counts", [1.5, 1, 1]),
        ("counts", [10**30, 1, 1]),
        ("counts", ["1", 1, 1]),
        ("flags", "fewer-bins"),
        ("flags", [1]),
        ("class", 0),
        ("scaling", {"family": "isotonic"}),
        ("scaling", 5),
    ],
)
def test_a_damaged_map_is_refused(field: str, value: Any) -> None:
    assert "calibrator.json is damaged" in refused(edited(("maps", 0, field), value))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "isotonic"),
        ("method", None),
        ("method", "identity"),
        ("binning", "quantile"),
        ("score_kind", "odds"),
        ("scaling", "isotonic"),
        ("loss", "l1"),
        ("classes", [0, 1, 2]),
        ("classes", [1, 1]),
        ("classes", [0.5, True]),
        ("classes", "01"),
        ("classes", {"0": 0, "1": 1}),
        ("classes", 2),
        ("positive_class", 7),
        ("positive_class", None),
        ("reduction", "marginal"),
        ("reduction", "top-label"),
        ("n_bins_requested", -4),
        ("parts", "thirds"),
        ("seed", "x"),
        ("facts", None),
        ("base_model", "x"),
        ("maps", {}),
        ("maps", [None]),
    ],
)
def test_a_damaged_field_is_refused(field: str, value: Any) -> None:
    assert "calibrator.json is damaged" in refused(edited((field,), value))


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2])
def test_other_schemas_are_refused_even_where_they_equal_one(version: Any) -> None:
    assert "this release reads 1" in refused(edited(("schema_version",), version))


def test_all_problems_are_said_at_once() -> None:
    document = {**CALIBRATOR.to_dict(), "seed": -1, "parts": "x", "facts": 5}
    said = refused(json.dumps(document))
    for name in ("seed must be", "parts must be", "facts must be"):
        assert name in said


@pytest.mark.parametrize("text", ["", "[]", "5", "null", None, 5, "[" * 100_000, CALIBRATOR.to_json()[:100]])
def test_what_is_no_document_is_refused(text: Any) -> None:
    assert "calibrator.json is damaged" in refused(text)


def test_a_key_that_stands_twice_is_refused() -> None:
    """JSON keeps the last in silence."""
    text = CALIBRATOR.to_json()
    assert "'edges' stands twice" in refused(text.replace('"edges":', '"edges": [0.1, 0.2], "edges":'))


@pytest.mark.parametrize(
    ("field", "value"), [("a", math.nan), ("a", "x"), ("a", -1.0), ("boundary", 0.7), ("family", "isotonic")]
)
def test_a_damaged_scaling_function_is_refused(field: str, value: Any) -> None:
    """Its outputs would be NaN, fall, or be made up."""
    smooth = fit_calibrator(SCORES, LABELS, method="scaling")
    assert "calibrator.json is damaged" in refused(edited(("maps", 0, "scaling", field), value, smooth))


def test_a_scaling_function_that_is_gone_is_not_the_identity() -> None:
    smooth = fit_calibrator(SCORES, LABELS, method="scaling")
    assert "scaling must be there" in refused(edited(("maps", 0, "scaling"), None, smooth))


def test_values_of_histogram_binning_may_fall() -> None:
    plain = fit_calibrator(SCORES, LABELS, method="histogram-binning", n_bins=3)
    assert Calibrator.from_json(edited(("maps", 0, "values"), VALUES[::-1], plain)).predict([0.0]) == VALUES[-1]


def test_a_packaged_model_never_guesses_its_positive_class_or_kind_of_score() -> None:
    with pytest.raises(ValueError, match="positive_class must be one of classes"):
        runtime.read_calibrator(edited(("positive_class",), None))
    source = {"score_source": {"call": "predict", "classes": [False, True]}}
    document = {**CALIBRATOR.to_dict(), "base_model": source, "score_kind": "logit"}
    with pytest.raises(ValueError, match="score_kind is 'logit', and base scores are probabilities"):
        runtime.CalibratedPyfunc(None, document)
