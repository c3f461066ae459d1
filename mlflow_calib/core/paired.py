"""Paired comparison of two models on the same rows: mean difference of losses, by row or by group; mergeable.

By group the groups count by their effective number H = n^2 / sum_g n_g^2, as in the bounds on the calibration error.
"""

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
from mlflow_calib.core.levels import check_confidence_level
from mlflow_calib.errors import EvidenceError, InvalidInputError, raise_problems


@dataclass(frozen=True)
class PairedDifference:
    """Mean of first minus second loss, with its standard error; positive where the first model is worse.

    ``standard_error`` is None, and so are the bounds, where there are fewer than two rows or groups. ``skewness`` is
    that of the mean, its third cumulant over the cube of its standard error: bounds allow for it where it is not 0.

    Examples
    --------
    >>> difference = PairedDifference(0.001, 0.0005, 29, n=4000, n_groups=30)
    >>> round(difference.upper_bound(0.95), 6)  # .001 + 1.699 * .0005
    0.00185
    """

    mean: float
    standard_error: float | None
    degrees_of_freedom: float
    n: int
    n_groups: int | None = None
    skewness: float = 0.0

    def upper_bound(self, confidence_level: float = 0.95) -> float | None:
        """One-sided upper confidence bound on the mean difference (Student's t, transformed where it is skewed)."""
        return self._bound(confidence_level, -1)

    def lower_bound(self, confidence_level: float = 0.95) -> float | None:
        """One-sided lower confidence bound on the mean difference, as ``upper_bound``."""
        return self._bound(confidence_level, 1)

    def _bound(self, confidence_level: float, side: int) -> float | None:
        check_confidence_level(confidence_level)
        if self.standard_error is None:
            return None
        quantile = side * one_sided_quantile(confidence_level, self.degrees_of_freedom)
        return self.mean - float(unskewed(quantile, self.skewness)) * self.standard_error

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
            error, n_groups, skewness = document["standard_error"], document["n_groups"], document["skewness"]
            result = cls(
                float(document["mean"]),
                None if error is None else float(error),
                float(document["degrees_of_freedom"]),
                int(document["n"]),
                None if n_groups is None else int(n_groups),
                float(skewness),
            )
        except (KeyError, TypeError, ValueError) as damage:
            raise EvidenceError(f"paired comparison is damaged ({damage!r}); evaluate again") from damage
        figures = [result.mean, result.standard_error or 0.0, result.degrees_of_freedom, result.skewness]
        if not np.isfinite(figures).all() or figures[1] < 0 or (error is not None and result.degrees_of_freedom <= 0):
            raise EvidenceError(f"paired comparison is damaged ({result}); evaluate again")
        return result


@dataclass(frozen=True, eq=False)
class PairedSums:
    """Rows, mean, centred squares and cubes of the differences, and with groups their rows and sums a group.

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
    centred_cubes: float = 0.0

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
        centred = difference - mean
        squares, cubes = float((centred**2).sum()), float((centred**3).sum())
        if groups is None:
            return cls(len(difference), mean, squares, centred_cubes=cubes)
        ids, codes = group_codes(groups, len(difference))
        counts = np.bincount(codes, minlength=len(ids)).astype(np.int64)
        sums = np.bincount(codes, difference, minlength=len(ids)).astype(np.float64)
        return cls(len(difference), mean, squares, ids, counts, sums, cubes)

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
        own = np.array([part.centred_squares for part in parts])
        moved = means - mean
        squares = float(own.sum() + counts @ moved**2)
        cubes = sum(part.centred_cubes for part in parts) + float(3 * moved @ own + counts @ moved**3)
        return PairedSums(n, mean, squares, *_merged_groups(parts), cubes)

    def finish(self, *, skewed: bool = False) -> PairedDifference:
        """Mean and standard error: by row n - 1 degrees of freedom, by group H - 1.

        By group, with D_g the sum of the differences of n_g rows and H = n^2 / sum_g n_g^2: variance of the mean
        H / (H - 1) sum_g (D_g - n_g mean)^2 / n^2. ``skewed`` keeps the skewness too, for losses without a bound; not
        of groups of very unequal sizes.
        """
        if self.n == 0:
            raise InvalidInputError("a paired comparison needs at least one row, got none")
        if self.group_counts is None or self.group_sums is None:
            free = self.n - 1
            error = math.sqrt(self.centred_squares / free / self.n) if free else None
            skewness = _skewness(self.centred_squares, self.centred_cubes) if skewed and free else 0.0
            return PairedDifference(self.mean, error, float(free), self.n, skewness=skewness)
        n_groups = len(self.group_counts)
        if n_groups < 2:
            return PairedDifference(self.mean, None, 0.0, self.n, n_groups)
        effective = self.n**2 / float((self.group_counts.astype(np.float64) ** 2).sum())
        excess = self.group_sums - self.group_counts * self.mean
        error = math.sqrt(effective / (effective - 1) * float(excess @ excess)) / self.n
        # Where few groups hold most rows, what looks like skewness is theirs alone.
        alike = skewed and effective >= ALIKE_SHARE * n_groups
        skewness = _skewness(float(excess @ excess), float((excess**3).sum())) if alike else 0.0
        return PairedDifference(self.mean, error, effective - 1, self.n, n_groups, skewness)


def unskewed(quantile: Any, skewness: Any) -> Floats:
    """Standard errors that a skewed mean lies from the truth where a symmetric one lies ``quantile`` from it.

    The monotone transformation of the t statistic, solved for it: (3 / s) [(1 + s (q - s / 6))^(1/3) - 1]; q where the
    skewness s is 0.

    References
    ----------
    Hall, "On the removal of skewness by transformation", Journal of the Royal Statistical Society B 1992.

    Examples
    --------
    >>> float(unskewed(-1.645, 0.0)), unskewed([-1.645, 1.645], 0.2).round(3).tolist()
    (-1.645, [-1.912, 1.464])
    """
    q, s = np.asarray(quantile, dtype=np.float64), np.asarray(skewness, dtype=np.float64)
    known = np.where(np.abs(s) > SYMMETRIC, s, 1.0)
    moved = 3 / known * (np.cbrt(1 + known * (q - known / 6)) - 1)
    return np.asarray(np.where(np.abs(s) > SYMMETRIC, moved, q))


#: Groups whose effective number is less than this share of them are of very unequal sizes.
ALIKE_SHARE = 0.5
#: Of a smaller skewness nothing is left after rounding.
SYMMETRIC = 1e-9


def _skewness(squares: float, cubes: float) -> float:
    return cubes / squares**1.5 if squares > 0 else 0.0


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
