"""``calibrator.json``: its published schema, the golden files of every release, and how an old one is read."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from mlflow_calib import runtime
from mlflow_calib.core.calibrator import METHODS, Calibrator
from mlflow_calib.errors import InvalidInputError

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "docs/calibrator.schema.json").read_text(encoding="utf-8"))
GOLDEN = sorted(path for path in (ROOT / "tests/golden").glob("schema-*/*.json") if path.stem != "expected")


def problems(document: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def binary() -> dict[str, Any]:
    return dict(json.loads((ROOT / "tests/golden/schema-1/binary_packaged.json").read_text(encoding="utf-8")))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema_version"] == {"const": runtime.SCHEMA_VERSION}


def test_every_reduction_and_method_has_a_golden_file() -> None:
    names = {path.stem for path in GOLDEN}
    assert {f"{reduction}_{method}" for reduction in runtime.REDUCTIONS for method in METHODS} <= names


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_golden_files(path: Path) -> None:
    """Valid by the schema; read, they answer as on the day they were written; written again, the bytes are the same."""
    text = path.read_text(encoding="utf-8")
    assert problems(json.loads(text)) == []
    calibrator = Calibrator.from_json(text)
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    outputs = calibrator.predict(np.array(expected["scores"]))
    np.testing.assert_allclose(outputs, expected["outputs"], rtol=0, atol=1e-15)
    if path.parent.name == f"schema-{runtime.SCHEMA_VERSION}":
        assert calibrator.to_json() == text


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_runtime_answers_golden_files_alike(path: Path) -> None:
    """The bundled code alone, as in an artifact: binned outputs are equal to the bit."""
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    if document["method"] in runtime.CONTINUOUS_METHODS:
        with pytest.raises(ValueError, match="continuous outputs"):
            runtime.read_calibrator(text)
        return
    document = runtime.read_calibrator(text)
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    steps = runtime.StepMaps([runtime.map_arrays(one_map) for one_map in document["maps"]])
    outputs = runtime.predict_reduced(np.array(expected["scores"]), steps, document["reduction"])
    np.testing.assert_array_equal(outputs, expected["outputs"])


def _set(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("schema_version", value=2),
        _set("method", value="isotonic"),
        _set("positive_class", value=None),
        _set("classes", value=["no", "yes", "perhaps"]),
        _set("maps", value=[]),
        _set("maps", 0, "values", 1, value=1.5),
        _set("maps", 0, "counts", 1, value=-3),
        _set("maps", 0, "edges", 1, value="0.5"),
        _set("maps", 0, "scaling", "family", value="spline"),
        _set("base_model", "digest", value="md5:0"),
        _set("base_model", "embedded", value=True),
        _set("extra", value=1),
    ],
)
def test_the_schema_refuses(change: Callable[[dict[str, Any]], None]) -> None:
    document = binary()
    assert problems(document) == []
    change(document)
    assert problems(document)


# --------------------------------------------------------------------------------------------------------- old and new


@pytest.mark.parametrize("version", [0, 2, -1, 1.0, True, "1", None])
def test_unknown_versions_are_refused(version: Any) -> None:
    document = {**binary(), "schema_version": version}
    with pytest.raises(ValueError, match=r"this release reads 1; install the mlflow-calib release that wrote it"):
        runtime.migrate(document)
    with pytest.raises(InvalidInputError, match="this release reads 1"):
        Calibrator.from_json(json.dumps(document))


def test_the_present_version_stays_as_it_is() -> None:
    document = binary()
    before = copy.deepcopy(document)
    assert runtime.migrate(document) == before == document
    assert runtime.migrate(document) is not document


def test_an_old_version_goes_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two made-up steps: version 1 called values "outputs"; version 2 counted bins in another unit."""

    def first(document: dict[str, Any]) -> dict[str, Any]:
        maps = [{**one_map, "values": one_map["outputs"]} for one_map in document["maps"]]
        return {**document, "maps": [{k: v for k, v in one.items() if k != "outputs"} for one in maps]}

    def second(document: dict[str, Any]) -> dict[str, Any]:
        assert document["schema_version"] == 2
        return {**document, "n_bins_requested": document["n_bins_requested"] * 2}

    new = binary()
    old = {**new, "n_bins_requested": 2, "maps": [dict(one_map) for one_map in new["maps"]]}
    for one_map in old["maps"]:
        one_map["outputs"] = one_map.pop("values")
    monkeypatch.setattr(runtime, "SCHEMA_VERSION", 3)
    monkeypatch.setattr(runtime, "MIGRATIONS", {1: first, 2: second})
    before = copy.deepcopy(old)
    assert runtime.migrate(old) == {**new, "schema_version": 3}
    assert old == before
    assert Calibrator.from_json(json.dumps(old)).to_dict() == {**new, "schema_version": 3}
    monkeypatch.setattr(runtime, "MIGRATIONS", {2: second})
    with pytest.raises(ValueError, match="schema_version 1, and this release reads 3"):
        runtime.migrate(old)
