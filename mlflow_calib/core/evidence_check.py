"""What an evidence record must be, and every place where one is not.

A record that has a problem gives no verdict: a damaged record says nothing about a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.comparison_check import AGAINST, COMPARED, comparisons_problems, means_problems
from mlflow_calib.core.estimate_check import REDUCTIONS, estimates_problems
from mlflow_calib.core.ranking_check import ranking_problems
from mlflow_calib.core.records import (
    COUNT,
    LIST,
    POSITIVE_COUNT,
    TABLE,
    TEXT,
    TIME,
    Kind,
    field_problems,
    non_finite_paths,
    one_of,
    shown,
)
from mlflow_calib.core.slice_check import slices_problems
from mlflow_calib.core.statistics_check import Rows

EVIDENCE_SCHEMA = "mlflow_calib.evidence/1"
#: Whom a record is about: a candidate for promotion, or the champion on its own.
ROLES = ("candidate", "champion")
_SHOWN_PATHS = 5

_RECORD = {
    "schema": one_of(EVIDENCE_SCHEMA),
    "mlflow_calib_version": TEXT,
    "evaluated_at": TIME,
    "candidate": TABLE,
    "champion": TABLE.or_null(),
    "data": TABLE,
    "overlap": TABLE,
    "reduction": one_of(*REDUCTIONS),
    "estimates": TABLE,
    "comparisons": TABLE,
    "slices": LIST.or_null(),
    "role": one_of(*ROLES),
    "run_id": TEXT.or_null(),
}
_CANDIDATE = {
    "model_uri": TEXT,
    "name": TEXT,
    "version": TEXT,
    "model_id": TEXT.or_null(),
    "digest": TEXT,
    "base_model_uri": TEXT.or_null(),
    "base_model_id": TEXT.or_null(),
    "calibrator_sha256": TEXT,
}
_NO_CHAMPION = {"alias": TEXT, "name": TEXT, "version": TEXT.or_null()}
_CHAMPION = {
    **_NO_CHAMPION,
    "model_uri": TEXT,
    "model_id": TEXT.or_null(),
    "digest": TEXT.or_null(),
    "kind": one_of("calibrated", "raw"),
    "n_evaluation_rows_in_its_recalibration_data": COUNT.or_null(),
}
_DATA = {
    "partitions_uri": TEXT,
    "manifest_sha256": TEXT,
    "source_uris": Kind(
        "a list of URIs", lambda value: LIST.test(value) and all(map(TEXT.test, value)) and value != []
    ),
    "sha256": TEXT,
    "n": POSITIVE_COUNT,
    "n_groups": POSITIVE_COUNT.or_null(),
    "group_column": TEXT.or_null(),
    "evaluation_period": TEXT.or_null(),
    "recalibration_period": TEXT.or_null(),
}
_NONE_SHARED = Kind("0: evaluation rows must not be among them", lambda value: value == 0 and COUNT.test(value))
_OVERLAP = {
    "recalibration": _NONE_SHARED,
    "base_training": _NONE_SHARED.or_null(),
    "champion_recalibration": COUNT.or_null(),
}


_OVER_CHAMPION = [f"{what}_increase_over_{AGAINST[0]}" for what in COMPARED]


def check_evidence(document: Any) -> list[str]:
    """Every problem of an evidence record, as sentences; an empty list says it can be judged.

    Looks for missing and mistyped fields, numbers that are not finite, counts that cannot be, estimates of different
    rows, evaluation rows that the candidate was fitted on, a champion that is the candidate itself, and figures that
    the record's own statistics contradict.
    """
    problems = _not_json(document)
    if problems or not isinstance(document, Mapping):
        return problems or field_problems(document, _RECORD)
    problems = _non_finite(document) + field_problems(document, _RECORD)
    problems += _part(document, "candidate", _CANDIDATE) + _part(document, "data", _DATA)
    own = {"recalibration": _NONE_SHARED.or_null()} if document.get("role") == "champion" else {}
    problems += _part(document, "overlap", {**_OVERLAP, **own}) + _champion_problems(document)
    rows = Rows(_value(document, "data", "n"), _value(document, "data", "n_groups"))
    reduction = document.get("reduction")
    problems += estimates_problems(document.get("estimates"), rows, reduction)
    problems += slices_problems(document.get("slices"), rows, reduction)
    problems += comparisons_problems(document.get("comparisons"), rows)
    problems += means_problems(document.get("comparisons"), document.get("estimates"))
    problems += ranking_problems(document)
    return list(dict.fromkeys(problems))


def _not_json(document: Any) -> list[str]:
    try:
        json.dumps(document)
    except (TypeError, ValueError, RecursionError) as error:
        return [f"the record must be plain JSON: {error}; read the evidence again from its URI"]
    return []


def _non_finite(document: Any) -> list[str]:
    paths = sorted(non_finite_paths(document))
    more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    return [f"numbers must be finite, and these are not: {', '.join(paths[:_SHOWN_PATHS])}{more}"] if paths else []


def _part(document: Mapping[str, Any], name: str, fields: Mapping[str, Kind]) -> list[str]:
    """Problems of one table of the record; where it is no table the record's own fields have said so."""
    part = document.get(name)
    return field_problems(part, fields, name) if isinstance(part, Mapping) else []


def _champion_problems(document: Mapping[str, Any]) -> list[str]:
    champion = document.get("champion")
    if document.get("role") == "champion" and champion is not None:
        return ["champion must be null in a record about the champion itself; evaluate again"]
    if not isinstance(champion, Mapping):
        return _leftovers(document, "was not looked up") if champion is None else []
    if champion.get("version") is None:
        problems = field_problems(champion, _NO_CHAMPION, "champion") + _leftovers(document, "has no version")
        told = [name for name in _CHAMPION if name not in _NO_CHAMPION and champion.get(name) is not None]
        if told:  # else it would pass for a first day, without a champion
            beside = ", ".join(told)
            problems.append(f"champion.version must be there beside {beside}, got None; score with champion= a version")
        return problems
    problems = field_problems(champion, _CHAMPION, "champion")
    shared = champion.get("n_evaluation_rows_in_its_recalibration_data")
    overlap = _value(document, "overlap", "champion_recalibration")
    if shared != overlap:
        problems.append(f"champion and overlap must count the same shared rows, got {shown(shared)}, {shown(overlap)}")
    if _value(document, "estimates", "champion") is None:
        problems.append("estimates.champion must be there where a champion with a version is recorded, got None")
    return problems + _itself(document, champion)


def _leftovers(document: Mapping[str, Any], why: str) -> list[str]:
    """Figures of a champion that, says the record, is not there."""
    found = {
        "estimates.champion": _value(document, "estimates", "champion"),
        **{f"comparisons.{name}": _value(document, "comparisons", name) for name in _OVER_CHAMPION},
        "overlap.champion_recalibration": _value(document, "overlap", "champion_recalibration"),
    }
    return [
        f"{where} must be null where the champion {why}; evaluate again"
        for where, value in found.items()
        if value is not None
    ]


def _itself(document: Mapping[str, Any], champion: Mapping[str, Any]) -> list[str]:
    names = ("name", "version")
    same_version = all(_value(document, "candidate", name) == champion.get(name) for name in names)
    model_id = champion.get("model_id")
    if same_version or (model_id is not None and model_id == _value(document, "candidate", "model_id")):
        got = f"{shown(champion.get('name'))} version {shown(champion.get('version'))}"
        return [f"the champion must be another model version than the candidate, got {got} for both; score again"]
    return []


def _value(document: Mapping[str, Any], table: str, name: str) -> Any:
    part = document.get(table)
    return part.get(name) if isinstance(part, Mapping) else None
