"""Paired comparison of two models on the same rows: mean difference of losses, by row or by group; mergeable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.bound_terms import one_sided_quantile
from mlflow_calib.core.columns import numbers
from mlflow_calib.core.error_statistics import Floats, Integers
from mlflow_calib.core.group_ids import common_ids, group_codes
from mlflow_calib.core.intervals import check_confidence_level
from mlflow_calib.errors import EvidenceError, InvalidInputError, raise_problems


@dataclass(frozen=True)
class PairedDifference:
    """Mean of first minus second loss, with its standard error; positive where the first model is worse.

    ``standard_error`` is None, and so are the bounds, where there are fewer than two rows or groups.

    Examples
    --------
    >>> difference = PairedDifference(0.001, 0.0005, 29, n=4000, n_groups=30)
    >>> round(difference.upper_bound(0.95), 6)  # .001 + 1.699 * .0005
    0.00185
    """

    mean: float
    standard_error: float | None
    degrees_of_freedom: int
    n: int
    n_groups: int | None = None

    def upper_bound(self, confidence_level: float = 0.95) -> float | None:
        """One-sided upper confidence bound on the mean difference (Student's t)."""
        return self._bound(confidence_level, 1)

    def lower_bound(self, confidence_level: float = 0.95) -> float | None:
        """One-sided lower confidence bound on the mean difference (Student's t)."""
        return self._bound(confidence_level, -1)

    def _bound(self, confidence_level: float, side: int) -> float | None:
        check_confidence_level(confidence_level)
        if self.standard_error is None:
            return None
        quantile = one_sided_quantile(confidence_level, self.degrees_of_freedom)
        return self.mean + side * quantile * self.standard_error

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the evidence."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PairedDifference:
        """Read what ``to_dict`` wrote.

        Raises
        ------
        EvidenceError
            Where the document is damaged.
        """
        try:
            error, n_groups = document["standard_error"], document["n_groups"]
            result = cls(
                float(document["mean"]),
                None if error is None else float(error),
                int(document["degrees_of_freedom"]),
                int(document["n"]),
                None if n_groups is None else int(n_groups),
            )
        except (KeyError, TypeError, ValueError) as damage:
            raise EvidenceError(f"paired comparison is damaged ({damage!r}); evaluate again") from damage
        figures = [result.mean, result.standard_error or 0.0]
        if not np.isfinite(figures).all() or figures[1] < 0 or (error is not None and result.degrees_of_freedom < 1):
            raise EvidenceError(f"paired comparison is damaged ({result}); evaluate again")
        return result


@dataclass(frozen=True, eq=False)
class PairedSums:
    """Rows, mean and centred squares of the differences, and with groups their rows and sums a group.

    Examples
    --------
    >>> sums = PairedSums.from_rows([0.25, 0.16, 0.09], [0.16, 0.16, 0.04])
    >>> round(sums.finish().mean, 6)  # (.09 + 0 + .05) / 3
    0.046667
    """

    n: int
    mean: float
    centred_squares: float
    group_ids: tuple[str, ...] | None = None
    group_counts: Integers | None = None
    group_sums: Floats | None = None

    @classmethod
    def from_rows(cls, first_losses: Any, second_losses: Any, groups: Any = None) -> PairedSums:
        """Sum up rows; both losses have shape (n,) and stand for the same rows in the same order.

        Raises
        ------
        InvalidInputError
            Where shapes differ or a loss is not finite.
        """
        problems: list[str] = []
        first, second = (numbers(x, "paired losses", problems) for x in (first_losses, second_losses))
        if first is None or second is None:
            raise_problems(problems)
        if first.ndim != 1 or first.shape != second.shape:
            raise InvalidInputError(f"paired losses must have one shape (n,), got {first.shape} and {second.shape}")
        _refuse_non_finite(first, second)
        difference = first - second
        mean = float(difference.mean()) if len(difference) else 0.0
        squares = float(np.square(difference - mean).sum())
        if groups is None:
            return cls(len(difference), mean, squares)
        ids, codes = group_codes(groups, len(difference))
        counts = np.bincount(codes, minlength=len(ids)).astype(np.int64)
        sums = np.bincount(codes, difference, minlength=len(ids)).astype(np.float64)
        return cls(len(difference), mean, squares, ids, counts, sums)

    def merge(self, *others: PairedSums) -> PairedSums:
        """Sums of all rows together, in any order; groups are matched by id.

        Raises
        ------
        InvalidInputError
            Where some parts have groups and some have none.
        """
        parts = (self, *others)
        if len({part.group_ids is None for part in parts}) > 1:
            raise InvalidInputError("either all parts have groups or none has")
        counts = np.array([part.n for part in parts], dtype=np.float64)
        means = np.array([part.mean for part in parts])
        n = int(counts.sum())
        mean = float(counts @ means) / max(n, 1)
        # Squares about the parts' means, plus those of the means about the whole: no cancellation.
        squares = sum(part.centred_squares for part in parts) + float(counts @ (means - mean) ** 2)
        return PairedSums(n, mean, squares, *_merged_groups(parts))

    def finish(self) -> PairedDifference:
        """Mean and standard error: by row n - 1 degrees of freedom, by group G - 1.

        By group, with D_g the sum of the differences of n_g rows: variance of the mean
        G / (G - 1) sum_g (D_g - n_g mean)^2 / n^2.
        """
        if self.n == 0:
            raise InvalidInputError("a paired comparison needs at least one row, got none")
        if self.group_counts is None or self.group_sums is None:
            free = self.n - 1
            error = math.sqrt(self.centred_squares / free / self.n) if free else None
            return PairedDifference(self.mean, error, free, self.n)
        n_groups = len(self.group_counts)
        free = n_groups - 1
        excess = self.group_sums - self.group_counts * self.mean
        error = math.sqrt(n_groups / free * float(excess @ excess)) / self.n if free else None
        return PairedDifference(self.mean, error, free, self.n, n_groups)


def _merged_groups(parts: tuple[PairedSums, ...]) -> tuple[Any, Any, Any]:
    if parts[0].group_ids is None:
        return None, None, None
    ids, positions = common_ids([part.group_ids or () for part in parts])
    counts, sums = np.zeros(len(ids), dtype=np.int64), np.zeros(len(ids))
    for part, position in zip(parts, positions, strict=True):
        if part.group_counts is not None and part.group_sums is not None:
            counts[position] += part.group_counts
            sums[position] += part.group_sums
    return ids, counts, sums


def _refuse_non_finite(first: Floats, second: Floats) -> None:
    problems = [
        f"{name} losses must be finite, {int((~np.isfinite(losses)).sum())} of {len(losses)} are not"
        for name, losses in (("first", first), ("second", second))
        if not np.isfinite(losses).all()
    ]
    if problems:
        raise_problems(problems)
