"""The bins of an estimate as a table: how many rows, what the model says, what was seen, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.finite_sample import clopper_pearson
from mlflow_calib.core.levels import check_two_sided_level


@dataclass(frozen=True)
class BinRow:
    """One bin of the evaluation data.

    Attributes
    ----------
    label : str, int, float, bool or None
        The class it belongs to; None for binary and top-label.
    bin : int
        Position within the class, from 0.
    n, positives : int
        Rows, and positives among them.
    effective_n : float
        Rows that they are worth; ``n`` without weights.
    output : float
        What the model says there; of an empty bin 0 where the model has no fixed value for it.
    label_mean : float or None
        Share of positives, weighted where there are weights; None in an empty bin.
    low, high : float
        Clopper-Pearson interval for the rate of positives; 0 and 1 in an empty bin. With weights it is that of the
        effective number of rows.
    """

    label: Any
    bin: int
    n: int
    positives: int
    effective_n: float
    output: float
    label_mean: float | None
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON and data frames."""
        return asdict(self)


def bin_rows(s: ErrorStatistics, label: Any = None, confidence_level: float = 0.95) -> tuple[BinRow, ...]:
    """Table of the bins of sufficient statistics, in their order.

    Examples
    --------
    >>> first, empty = bin_rows(ErrorStatistics([20, 0], [5, 0], [0.3, 0.9]))
    >>> first.label_mean, round(first.low, 3), round(first.high, 3)
    (0.25, 0.087, 0.491)
    >>> empty.n, empty.label_mean, empty.low, empty.high
    (0, None, 0.0, 1.0)
    """
    check_two_sided_level(confidence_level)
    low, high = clopper_pearson(s.effective_counts, s.effective_positives, confidence_level)
    columns = (s.counts, s.positives, s.effective_counts, s.outputs, s.label_means, low, high)
    return tuple(
        BinRow(label, j, int(n), int(k), float(worth), float(u), float(mean) if n else None, float(lo), float(hi))
        for j, (n, k, worth, u, mean, lo, hi) in enumerate(zip(*columns, strict=True))
    )


def empty_bins(statistics: Sequence[ErrorStatistics], labels: Sequence[Any]) -> tuple[tuple[Any, int], ...]:
    """(class, bin) of every bin without rows."""
    pairs = zip(labels, statistics, strict=True)
    return tuple((label, j) for label, s in pairs for j, n in enumerate(s.counts.tolist()) if n == 0)
