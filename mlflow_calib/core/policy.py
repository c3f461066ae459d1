"""The policy: which requirements a candidate must meet, and what the verdict then does.

A policy document has a ``mode`` and a table a requirement; the name of the table is the name of the requirement. A
requirement that is named replaces its default, one that is left out keeps it, ``enabled = false`` switches it off.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlflow_calib.core.records import (
    CONFIDENCE_LEVEL,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE_COUNT,
    TRUTH,
    Kind,
    digest,
    is_number,
    one_of,
    shown,
)
from mlflow_calib.errors import raise_problems

POLICY_SCHEMA = "mlflow_calib.policy/1"
MODES = ("enforce", "dry-run", "off")
REDUCTIONS = ("binary", "marginal", "top-label", "top-label-per-class")
CALIBRATION_ERROR = "calibration_error_upper_bound"
MSE_INCREASE = "mse_increase_over_champion"
N_EVALUATION = "n_evaluation"
EVIDENCE_AGE = "evidence_age_days"

_MARGIN = Kind("a number from -1 to 1", lambda value: is_number(value) and -1 <= value <= 1)
_BY_GROUP = Kind("true, false, or null (true when the evidence has groups)", TRUTH.or_null().test)

#: Every requirement, its settings in order, and of each the kind and the default.
SETTINGS: Mapping[str, Mapping[str, tuple[Kind, Any]]] = {
    CALIBRATION_ERROR: {
        "limit": (FRACTION, 0.05),
        "confidence_level": (CONFIDENCE_LEVEL, 0.95),
        "squared": (TRUTH, False),
        "by_group": (_BY_GROUP, None),
        "reduction": (one_of(*REDUCTIONS), "binary"),
    },
    MSE_INCREASE: {"limit": (_MARGIN, 0.002), "confidence_level": (CONFIDENCE_LEVEL, 0.95)},
    N_EVALUATION: {"limit": (POSITIVE_COUNT, 1000)},
    EVIDENCE_AGE: {"limit": (NOT_NEGATIVE, 7.0)},
}


@dataclass(frozen=True)
class Requirement:
    """One requirement of a policy; settings that it does not have are None.

    ``limit`` is a root unless ``squared``; a margin for an increase of the mean squared error; rows; or days.
    ``by_group`` None means: by group when the evidence has groups.
    """

    name: str
    limit: float
    enabled: bool = True
    confidence_level: float | None = None
    squared: bool | None = None
    by_group: bool | None = None
    reduction: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The completed table of this requirement."""
        return {"enabled": self.enabled, **{name: getattr(self, name) for name in SETTINGS[self.name]}}


@dataclass(frozen=True)
class Policy:
    """A checked, completed policy.

    Attributes
    ----------
    requirements
        By name, all of them, those that are switched off included.
    mode
        ``enforce``; ``dry-run``: judged and recorded, blocks nothing; ``off``: not judged, blocks nothing.

    Examples
    --------
    >>> policy = Policy.from_dict({"requirements": {"calibration_error_upper_bound": {"limit": 0.10}}})
    >>> policy.requirements["calibration_error_upper_bound"].confidence_level
    0.95
    >>> policy.requirements["n_evaluation"].limit
    1000
    """

    requirements: Mapping[str, Requirement]
    mode: str = "enforce"

    @classmethod
    def default(cls) -> Policy:
        """Enforce every requirement at its default: what holds where nobody wrote a policy."""
        return cls.from_dict({})

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Policy:
        """Check a document, as read from TOML or JSON, and complete it with the defaults.

        Raises
        ------
        InvalidInputError
            With every mistake of the document at once.
        """
        problems = policy_problems(document)
        if problems:
            raise_problems(problems)
        tables = document.get("requirements", {})
        requirements = {name: _completed(name, tables.get(name, {})) for name in SETTINGS}
        return cls(requirements, document.get("mode", "enforce"))

    def to_dict(self) -> dict[str, Any]:
        """The completed document; ``from_dict`` reads it back to an equal policy."""
        tables = {name: requirement.to_dict() for name, requirement in self.requirements.items()}
        return {"schema": POLICY_SCHEMA, "mode": self.mode, "requirements": tables}

    @cached_property
    def digest(self) -> str:
        """``sha256:`` of the canonical JSON of the completed policy."""
        return digest(self.to_dict())


def policy_problems(document: Any) -> list[str]:
    """Every mistake of a policy document, each with what must hold and what was given."""
    if not isinstance(document, Mapping):
        return [f"a policy must be a table with mode and requirements, got {shown(document)}"]
    problems = [_unknown("policy key", key, ("mode", "requirements")) for key in document if key not in _TOP_LEVEL]
    problems += [kind.problem(key, document[key]) or "" for key, kind in _TOP_LEVEL.items() if key in document]
    tables = document.get("requirements", {})
    if isinstance(tables, Mapping):
        for name, table in tables.items():
            problems += _table_problems(name, table)
    return [problem for problem in problems if problem]


_TOP_LEVEL = {
    "schema": one_of(POLICY_SCHEMA),
    "mode": one_of(*MODES),
    "requirements": Kind("a table of requirements", lambda value: isinstance(value, Mapping)),
}


def _table_problems(name: Any, table: Any) -> list[str]:
    if name not in SETTINGS:
        return [_unknown("requirement", name, tuple(SETTINGS))]
    where = f"requirements.{name}"
    if not isinstance(table, Mapping):
        return [f"{where} must be a table such as {{limit = {SETTINGS[name]['limit'][1]}}}, got {shown(table)}"]
    kinds = {"enabled": TRUTH, **{key: kind for key, (kind, _) in SETTINGS[name].items()}}
    problems = [_unknown(f"key of {where}", key, tuple(kinds)) for key in table if key not in kinds]
    wrong = (kind.problem(f"{where}.{key}", table[key]) for key, kind in kinds.items() if key in table)
    return problems + [problem for problem in wrong if problem]


def _unknown(what: str, name: Any, known: tuple[str, ...]) -> str:
    nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.4)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return f"unknown {what} {shown(name)}: {hint}known are {', '.join(known)}"


def _completed(name: str, table: Mapping[str, Any]) -> Requirement:
    settings = {key: _alike(table.get(key, default), default) for key, (_, default) in SETTINGS[name].items()}
    return Requirement(name=name, enabled=table.get("enabled", True), **settings)


def _alike(value: Any, default: Any) -> Any:
    """``limit = 7`` and ``limit = 7.0`` are one policy and have one digest."""
    return float(value) if isinstance(default, float) else value
