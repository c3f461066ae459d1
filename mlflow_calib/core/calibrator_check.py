"""What a calibrator read from JSON must hold, beyond the edges and values that prediction needs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.binning import BINNINGS
from mlflow_calib.core.class_fit import METHODS
from mlflow_calib.core.records import COUNT, LIST, NUMBER, POSITIVE_COUNT, TABLE, Kind, field_problems, one_of, shown
from mlflow_calib.core.scaling import LOSSES, SCALINGS
from mlflow_calib.core.scaling_families import FAMILIES
from mlflow_calib.runtime import CONTINUOUS_METHODS, ONE_A_CLASS

_LABEL = Kind(
    "a text, a whole number or a boolean",
    lambda value: isinstance(value, (str, int)) or (isinstance(value, float) and value.is_integer()),
)
_FIELDS = {
    "method": one_of(*METHODS),
    "binning": one_of(*BINNINGS),
    "scaling": one_of(*SCALINGS).or_null(),
    "loss": one_of(*LOSSES).or_null(),
    "score_kind": one_of("probability", "logit"),
    "positive_class": _LABEL.or_null(),
    "n_bins_requested": POSITIVE_COUNT,
    "parts_requested": one_of("auto", "disjoint", "shared", "array"),
    "parts": one_of("disjoint", "shared"),
    "seed": Kind("a whole number of at least 0", lambda value: type(value) is int and value >= 0),
    "facts": TABLE,
    "base_model": TABLE.or_null(),
}
_MAP = {
    "class": _LABEL.or_null(),
    "edges": LIST,
    "values": LIST,
    "counts": LIST,
    "flags": LIST,
    "scaling": TABLE.or_null(),
}
_FITTED = {"a": NUMBER, "b": NUMBER, "c": NUMBER, "lower": NUMBER.or_null(), "upper": NUMBER.or_null()}
#: Coefficients that must not be negative, or g falls somewhere.
_RISING = {"platt": ("a",), "temperature": ("a",), "beta": ("a", "b"), "quadratic": (), "identity": ()}
#: Values of scaling-binning rise from bin to bin; sums in another order move them by no more than this.
_ROUNDING = 1e-9
#: Flags of a class that had nothing to learn from, and so has no scaling function.
_UNTAUGHT = {"class-absent", "class-only"}


def document_problems(document: Mapping[str, Any]) -> list[str]:
    """Every problem of a document whose schema, reduction, edges and values have been checked."""
    problems = field_problems(document, _FIELDS)
    classes, binary = document["classes"], document["reduction"] == "binary"
    if not all(_LABEL.test(label) for label in classes) or len({*classes}) != len(classes):
        problems.append(f"classes must be distinct texts, whole numbers or booleans, got {shown(classes)}")
    elif binary and not (len(classes) == 2 and document.get("positive_class") in classes):
        positive = shown(document.get("positive_class"))
        problems.append(
            f"a binary calibrator must have two classes, one of them positive, got {classes} and {positive}"
        )
    elif not binary and document.get("positive_class") is not None:
        problems.append("positive_class must be null where the reduction is not binary")
    one = document.get("positive_class") if binary else None
    names = classes if document["reduction"] in ONE_A_CLASS else [one]
    for position, (one_map, name) in enumerate(zip(document["maps"], names, strict=True)):
        problems += _map_problems(one_map, name, document.get("method"), f"maps[{position}]")
    return problems


def _map_problems(one_map: Any, name: Any, method: Any, where: str) -> list[str]:
    problems = field_problems(one_map, _MAP, where)
    if problems:
        return problems
    if one_map["class"] != name:
        problems.append(f"{where}.class must be {shown(name)}, got {shown(one_map['class'])}")
    values, counts = one_map["values"], one_map["counts"]
    if len(counts) != len(values) or not all(COUNT.test(count) for count in counts):
        problems.append(f"{where}.counts must be {len(values)} whole numbers of at least 0, got {shown(counts)}")
    if not all(isinstance(flag, str) for flag in one_map["flags"]):
        problems.append(f"{where}.flags must be texts, got {shown(one_map['flags'])}")
    elif method == "scaling" and one_map["scaling"] is None and not _UNTAUGHT & {*one_map["flags"]}:
        problems.append(f"{where}.scaling must be there, as the outputs are its own")
    if method in CONTINUOUS_METHODS and values:
        problems.append(f"{where}.values must be empty where method is {shown(method)}")
    falls = any(after < before - _ROUNDING for before, after in itertools.pairwise(values))
    if falls and str(method).startswith("scaling-binning"):
        problems.append(f"{where}.values must not fall from bin to bin")
    return problems + ([] if one_map["scaling"] is None else _scaling_problems(one_map["scaling"], f"{where}.scaling"))


def _scaling_problems(scaling: Mapping[str, Any], where: str) -> list[str]:
    family = scaling.get("family")
    if family not in _RISING:
        return [f"{where}.family must be one of {', '.join([*FAMILIES, 'identity'])}, got {shown(family)}"]
    present = {name: kind for name, kind in _FITTED.items() if name in scaling or name in ("a", "b")}
    problems = field_problems(scaling, present, where)
    boundary = scaling.get("boundary")
    if boundary is not None and not (NUMBER.test(boundary) and 0 <= boundary < 0.5):
        problems.append(f"{where}.boundary must be null or in [0, 0.5), got {shown(boundary)}")
    if not problems:
        problems += [f"{where}.{k} must be at least 0, got {scaling[k]}" for k in _RISING[family] if scaling[k] < 0]
    return problems
