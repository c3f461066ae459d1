"""Every mistake of a policy document: unknown names, values out of their domain, wrong units, contradictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.policy_tables import (
    CALIBRATION_ERROR,
    ERROR_BOUNDS,
    MOST_SLICES,
    ON_BY_DEFAULT,
    SETTINGS,
    SLICES,
    WORST_CLASS,
)
from mlflow_calib.core.records import TRUTH, Kind, canonical_json, is_number, one_of, shown, unknown_name

POLICY_SCHEMA = "mlflow_calib.policy/1"
MODES = ("enforce", "dry-run", "off")
#: A squared limit over this, an error of over .14, is a limit on the root that was taken for a square.
MOST_SQUARED = 0.02

_TOP_LEVEL = {
    "schema": one_of(POLICY_SCHEMA),
    "mode": one_of(*MODES),
    "requirements": Kind("a table of requirements", lambda value: isinstance(value, Mapping)),
}


def policy_problems(document: Any) -> list[str]:
    """Every mistake of a policy document, each with what must hold and what was given."""
    if not isinstance(document, Mapping):
        return [f"a policy must be a table with mode and requirements, got {shown(document)}"]
    problems = [unknown_name("policy key", key, ("mode", "requirements")) for key in document if key not in _TOP_LEVEL]
    problems += [kind.problem(key, document[key]) or "" for key, kind in _TOP_LEVEL.items() if key in document]
    tables = document.get("requirements", {})
    if isinstance(tables, Mapping):
        found = {name: _table_problems(name, table) for name, table in tables.items()}
        problems += [problem for each in found.values() for problem in each]
        sound = {name: table if not found[name] else {"enabled": False} for name, table in tables.items()}
        problems += _contradictions({name: table for name, table in sound.items() if name in SETTINGS})
    return [problem for problem in problems if problem]


def _table_problems(name: Any, table: Any) -> list[str]:
    if name not in SETTINGS:
        return [unknown_name("requirement", name, tuple(SETTINGS))]
    where = f"requirements.{name}"
    if not isinstance(table, Mapping):
        return [f"{where} must be a table such as {{limit = {SETTINGS[name]['limit'][1]}}}, got {shown(table)}"]
    kinds = {"enabled": TRUTH, **{key: kind for key, (kind, _) in SETTINGS[name].items()}}
    problems = [unknown_name(f"key of {where}", key, tuple(kinds)) for key in table if key not in kinds]
    for key, kind in kinds.items():
        problem = kind.problem(f"{where}.{key}", table[key]) if key in table else None
        problems += [] if problem is None else [problem + _unit_hint(name, key, table[key])]
    return problems


def _unit_hint(name: str, key: str, value: Any) -> str:
    """What a number was meant to be that would be in its domain if it were no percentage."""
    percentage = is_number(value) and 1 < value <= 100
    if percentage and (key == "confidence_level" or (key == "limit" and name not in _PLAIN_NUMBERS)):
        return f"; write {value / 100:g} for {value:g} %"
    return ""


_PLAIN_NUMBERS = tuple(
    name for name in SETTINGS if name not in ERROR_BOUNDS and "confidence_level" not in SETTINGS[name]
)


def _contradictions(tables: Mapping[str, Any]) -> list[str]:
    """What single values cannot show: requirements that no evidence can meet, or that say nothing beside others."""
    on = {name: _settings(name, tables) for name in SETTINGS if _enabled(name, tables)}
    problems = []
    for name in ERROR_BOUNDS:
        if name in on:
            problems += _squared_problems(name, on[name], tables.get(name, {})) + _bound_problems(name, on[name])
    return problems + _order_problems(on, tables) + _slice_problems(on)


def _settings(name: str, tables: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tables.get(name, {}).get(key, default) for key, (_, default) in SETTINGS[name].items()}


def _enabled(name: str, tables: Mapping[str, Any]) -> bool:
    return bool(tables[name].get("enabled", True)) if name in tables else name in ON_BY_DEFAULT


def _squared_problems(name: str, settings: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    limit = settings["limit"]
    if not settings["squared"] or limit <= MOST_SQUARED:
        return []
    given = f"limit = {limit:g}" if "limit" in table else f"the default limit of {limit:g}"
    allowed = f"squared = true with {given} allows a calibration error of {math.sqrt(limit):.2g}"
    remedy = f"write limit = {limit**2:g} for an error of {limit:g}, or leave squared out"
    return [f"requirements.{name}: {allowed}; a limit on the square must be at most {MOST_SQUARED:g}: {remedy}"]


def _bound_problems(name: str, settings: Mapping[str, Any]) -> list[str]:
    if settings["bound"] != "finite-sample":
        return []
    problems = []
    if settings["limit"] == 0:
        problems.append(
            f'requirements.{name}.limit must be over 0 with bound = "finite-sample": no rows show an error of 0'
        )
    if settings["by_group"]:
        problems.append(
            f'requirements.{name}: bound = "finite-sample" needs independent rows, and by_group = true says that rows '
            'of one group move together; use bound = "asymptotic"'
        )
    return problems


def _order_problems(on: Mapping[str, Mapping[str, Any]], tables: Mapping[str, Any]) -> list[str]:
    """A part that must be better than the whole leaves the whole's limit without meaning."""
    if CALIBRATION_ERROR not in on:
        return []
    problems, whole = [], _root(on[CALIBRATION_ERROR])
    names = [WORST_CLASS, *([SLICES] if on.get(SLICES, {}).get("columns") else [])]
    for name in names:
        if name in on and _root(on[name]) < whole:
            part = "the worst class" if name == WORST_CLASS else "every slice of a column"
            default = "" if "limit" in tables[name] else ", the default"
            problems.append(
                f"requirements.{name}.limit must be at least that of {CALIBRATION_ERROR}, {whole:g}, got "
                f"{_root(on[name]):g}{default}: where {part} is within it, the whole is; lower that of the whole too"
            )
    return problems


def _root(settings: Mapping[str, Any]) -> float:
    return math.sqrt(settings["limit"]) if settings["squared"] else float(settings["limit"])


def _slice_problems(on: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if SLICES not in on:
        return []
    where, columns, slices = f"requirements.{SLICES}", on[SLICES]["columns"], on[SLICES]["slices"]
    if not columns and not slices:
        return [
            f'{where} must name its slices: columns = ["region"] for every slice of a column, or slices = [{{...}}]'
        ]
    problems = []
    texts = [canonical_json({column: _whole(value) for column, value in one.items()}) for one in slices]
    if len(set(texts)) != len(texts):
        problems.append(f"{where}.slices must name each slice once, got {shown(list(slices))}")
    if len(slices) > MOST_SLICES:
        problems.append(f"{where}.slices must be at most {MOST_SLICES}, got {len(slices)}")
    return problems


def _whole(value: Any) -> Any:
    """1.0 as 1, which it equals; true is neither."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
