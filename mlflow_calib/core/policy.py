"""The policy: which requirements a candidate must meet, and what the verdict then does.

A policy document has a ``mode`` and a table a requirement; the name of the table is the name of the requirement. A
requirement that is named replaces its default, one that is left out keeps it (some are off until they are named), and
``enabled = false`` switches it off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlflow_calib.core.policy_check import MODES, POLICY_SCHEMA, policy_problems
from mlflow_calib.core.policy_tables import (
    CALIBRATION_ERROR,
    EVIDENCE_AGE,
    MSE_INCREASE,
    N_EVALUATION,
    ON_BY_DEFAULT,
    ROWS_PER_BIN,
    SETTINGS,
    SLICES,
    WORST_CLASS,
)
from mlflow_calib.core.records import digest
from mlflow_calib.errors import raise_problems

__all__ = [
    "CALIBRATION_ERROR",
    "EVIDENCE_AGE",
    "MODES",
    "MSE_INCREASE",
    "N_EVALUATION",
    "POLICY_SCHEMA",
    "ROWS_PER_BIN",
    "SETTINGS",
    "SLICES",
    "WORST_CLASS",
    "Policy",
    "Requirement",
    "policy_problems",
]


@dataclass(frozen=True)
class Requirement:
    """One requirement of a policy; settings that it does not have are None.

    ``limit`` is a root unless ``squared``; a margin for an increase; rows; or days. ``by_group`` None means: by group
    when the evidence has groups; ``reduction`` None: that of the evidence.
    """

    name: str
    limit: float
    enabled: bool = True
    confidence_level: float | None = None
    squared: bool | None = None
    by_group: bool | None = None
    reduction: str | None = None
    bound: str | None = None
    columns: tuple[str, ...] | None = None
    slices: tuple[Mapping[str, Any], ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The completed table of this requirement."""
        settings = {name: getattr(self, name) for name in SETTINGS[self.name]}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return {"enabled": self.enabled, **plain}


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
    >>> policy.requirements["n_evaluation"].limit, policy.requirements["rows_per_bin"].enabled
    (1000, False)
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
        requirements = {name: _completed(name, tables.get(name)) for name in SETTINGS}
        return cls(requirements, document.get("mode", "enforce"))

    def to_dict(self) -> dict[str, Any]:
        """The completed document; ``from_dict`` reads it back to an equal policy."""
        tables = {name: requirement.to_dict() for name, requirement in self.requirements.items()}
        return {"schema": POLICY_SCHEMA, "mode": self.mode, "requirements": tables}

    @cached_property
    def digest(self) -> str:
        """``sha256:`` of the canonical JSON of the completed policy."""
        return digest(self.to_dict())

    def slice_columns(self) -> tuple[str, ...]:
        """Columns that the evaluation data must hold for the slices of this policy, sorted.

        Examples
        --------
        >>> table = {"columns": ["region"], "slices": [{"age": "old", "region": "EU"}]}
        >>> policy = Policy.from_dict({"requirements": {"slice_calibration_error_upper_bound": table}})
        >>> policy.slice_columns(), policy.whole_columns(), policy.named_slices()
        (('age', 'region'), ('region',), ({'age': 'old', 'region': 'EU'},))
        """
        named = {column for one in self.named_slices() for column in one}
        return tuple(sorted({*self.whole_columns(), *named}))

    def whole_columns(self) -> tuple[str, ...]:
        """Columns of which every slice is judged."""
        requirement = self.requirements[SLICES]
        return (requirement.columns or ()) if requirement.enabled else ()

    def named_slices(self) -> tuple[dict[str, Any], ...]:
        """Slices that are judged by name, each the values of one or more columns."""
        requirement = self.requirements[SLICES]
        return tuple(dict(one) for one in requirement.slices or ()) if requirement.enabled else ()


def _completed(name: str, table: Mapping[str, Any] | None) -> Requirement:
    given = {} if table is None else table
    settings = {key: _alike(given.get(key, default), default) for key, (_, default) in SETTINGS[name].items()}
    enabled = given.get("enabled", True) if table is not None else name in ON_BY_DEFAULT
    return Requirement(name=name, enabled=enabled, **settings)


def _alike(value: Any, default: Any) -> Any:
    """``limit = 7`` and ``limit = 7.0`` are one policy and have one digest; lists are kept as tuples."""
    if isinstance(default, tuple):
        return tuple(dict(one) if isinstance(one, Mapping) else one for one in value)
    return float(value) if isinstance(default, float) else value
