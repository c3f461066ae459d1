"""The record of the difference of two calibration errors on the same rows, as the evidence keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlflow_calib.errors import EvidenceError


@dataclass(frozen=True)
class JackknifeDifference:
    """First minus second model's calibration error, positive where the first is worse; roots, and squares beside.

    Attributes
    ----------
    mean, standard_error
        Of the difference of the roots.
    squared_mean, squared_standard_error
        Of the difference of the signed debiased squares.
    degrees_of_freedom
        Of the standard errors; 0, and they are None, where there are fewer than two blocks.
    n, n_groups, n_blocks
        Rows; groups, None where blocks are parts of the rows; blocks.
    """

    mean: float
    standard_error: float | None
    squared_mean: float
    squared_standard_error: float | None
    degrees_of_freedom: float
    n: int
    n_groups: int | None
    n_blocks: int

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the evidence."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> JackknifeDifference:
        """Read what ``to_dict`` wrote.

        Raises
        ------
        EvidenceError
            Where the document is damaged.
        """
        try:
            result = cls(**{name: document[name] for name in cls.__dataclass_fields__})
            figures = [result.mean, result.squared_mean, result.degrees_of_freedom, result.n, result.n_blocks]
            errors = [result.standard_error, result.squared_standard_error]
            known = [error for error in errors if error is not None]
            sound = bool(np.isfinite([*figures, *known]).all()) and min([*known, result.degrees_of_freedom]) >= 0
        except (KeyError, TypeError, ValueError) as damage:
            raise EvidenceError(f"jackknife comparison is damaged ({damage!r}); evaluate again") from damage
        if not sound or len(known) not in (0, 2) or (known != [] and result.degrees_of_freedom <= 0):
            raise EvidenceError(f"jackknife comparison is damaged ({result}); evaluate again")
        return result
