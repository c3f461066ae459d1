"""The rows of one period, and what a model is shown to do on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.evidence import estimate_entry
from mlflow_calib.steps.contenders import Batch, Contender
from mlflow_calib.steps.evaluation_sums import Sums, add_up

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Period:
    """Rows in order of time: base scores (n,), labels 0 and 1 (n,), day of each row as ISO text (n,)."""

    name: str
    scores: Floats
    labels: npt.NDArray[Any]
    days: npt.NDArray[Any]

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.labels)

    @property
    def n_days(self) -> int:
        """Days that have rows."""
        return len(np.unique(self.days))

    @property
    def rate(self) -> float:
        """Share of positives."""
        return float(self.labels.mean())

    @property
    def batch(self) -> Batch:
        """As the sums of an evaluation take it: one batch, days as groups."""
        _, days = np.unique(self.days, return_inverse=True)
        return Batch(self.scores, self.labels, groups=days, key_hashes=np.arange(self.n, dtype=np.uint64))

    def between(self, first: str, last: str) -> Period:
        """The rows from one day to another, both included."""
        rows = (self.days >= first) & (self.days <= last)
        return Period(f"{first} to {last}", self.scores[rows], self.labels[rows], self.days[rows])


def joined(periods: Sequence[Period]) -> Period:
    """Several periods as one."""
    names = [period.name for period in periods]
    columns = (np.concatenate([getattr(one, name) for one in periods]) for name in ("scores", "labels", "days"))
    return Period(" to ".join(dict.fromkeys((names[0], names[-1]))), *columns)


@dataclass(frozen=True)
class Shown:
    """One model's calibration error on one period, by day: roots, with one-sided 95 % bounds; and its MSE.

    ``at_least``: of continuous outputs, whose binned error is at most their own. ``mean_output`` is what it says on
    average, to hold against ``rate``, the share of positives.
    """

    period: str
    error: float
    lower: float
    upper: float
    mse: float
    at_least: bool
    mean_output: float
    rate: float

    @property
    def gap(self) -> float:
        """What it says on average minus what happened."""
        return self.mean_output - self.rate

    def reading(self, limit: float) -> str:
        """As the gate reads a bound: within the limit where the upper is, past it where the lower is, else neither."""
        if self.upper <= limit:
            return "within the limit"
        return "past the limit" if self.lower > limit else "not shown within"

    def text(self) -> str:
        """Estimate and bounds.

        >>> Shown("May", 0.0661, 0.021, 0.102, 0.17, True, 0.2, 0.2).text()
        '>= .066 [.021, .102]'
        """
        error, lower, upper = (f"{value:.3f}".lstrip("0") for value in (self.error, self.lower, self.upper))
        return f"{'>= ' * self.at_least}{error} [{lower}, {upper}]"


def shown_of(contenders: Mapping[str, Contender], period: Period) -> dict[str, Shown]:
    """What the models are shown to do on a period; one of them is the ``candidate``."""
    sums = add_up(contenders, [period.batch])
    return {name: _shown(one, sums, name, period) for name, one in contenders.items()}


def entry_of(contender: Contender, sums: Sums, name: str) -> dict[str, Any]:
    """One model's entry of the evidence."""
    own = sums.models[name]
    return estimate_entry(
        own.statistics.finish(),
        own.statistics.mse,
        lower_bound_of_calibration_error=contender.is_lower_bound,
        log_loss=own.log_losses.mean,
    )


def _shown(contender: Contender, sums: Sums, name: str, period: Period) -> Shown:
    entry = entry_of(contender, sums, name)
    return Shown(
        period=period.name,
        error=entry["root"],
        lower=entry["lower_bound"],
        upper=entry["upper_bound"],
        mse=entry["mse"],
        at_least=entry["lower_bound_of_calibration_error"],
        mean_output=float(contender.judged(period.batch).outputs.mean()),
        rate=period.rate,
    )
