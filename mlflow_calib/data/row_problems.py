"""What is wrong with rows of a streamed table: the first rows and the count of each rule, all rules at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.errors import DataError, raise_problems

_SHOWN = 3
_LABELS_SHOWN = 10
Floats = npt.NDArray[np.float64]


@dataclass
class RowProblems:
    """Gathers the rows that break a rule over the batches of one table; rows count from 0 in the whole table."""

    where: str
    rules: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, rule: str, rows: npt.NDArray[np.intp], values: Sequence[Any] | None = None) -> None:
        """Rows that break a rule, with the values to show."""
        if not len(rows):
            return
        self.counts[rule] = self.counts.get(rule, 0) + len(rows)
        shown = self.rules.setdefault(rule, [])
        for place in range(min(len(rows), _SHOWN - len(shown))):
            shown.append(f"row {rows[place]}" + ("" if values is None else f": {values[place]}"))

    def sentences(self) -> list[str]:
        """One sentence a rule."""
        return [
            f"{rule}. {self.counts[rule]} rows of {self.where} do not hold it: {'; '.join(shown)}"
            for rule, shown in self.rules.items()
        ]

    def raise_all(self, further: Sequence[str] = ()) -> None:
        """Raise everything that was found, if anything was."""
        problems = [*self.sentences(), *further]
        if problems:
            _refuse(problems)


@dataclass
class UnknownLabels:
    """Labels that are no class of the model, each with its rows."""

    classes: Sequence[Any]
    rows: dict[Any, list[int]] = field(default_factory=dict)
    counts: dict[Any, int] = field(default_factory=dict)
    n_further: int = 0

    def add(self, distinct: Sequence[Any], codes: npt.NDArray[np.intp], numbers: npt.NDArray[np.intp]) -> None:
        """Labels of a batch as their distinct values, each row's position among them, and its row number."""
        for position, value in enumerate(distinct):
            if value is None or value in self.classes:
                continue
            own = numbers[codes == position]
            if value not in self.counts and len(self.counts) == _LABELS_SHOWN:
                self.n_further += len(own)
                continue
            self.counts[value] = self.counts.get(value, 0) + len(own)
            shown = self.rows.setdefault(value, [])
            shown.extend(own[: _SHOWN - len(shown)].tolist())

    def sentences(self) -> list[str]:
        """One sentence where there are such labels."""
        if not self.counts:
            return []
        each = [f"{v!r} ({n} rows, first {', '.join(map(str, self.rows[v]))})" for v, n in self.counts.items()]
        rest = f" and {self.n_further} rows of further labels" if self.n_further else ""
        sentence = (
            f"labels must be classes of the model, {list(self.classes)}, in its own words; unknown to it: "
            f"{', '.join(each)}{rest}; repair or drop these rows"
        )
        return [sentence]


def check_scores(
    scores: Floats, numbers: npt.NDArray[np.intp], problems: RowProblems, model: str
) -> tuple[Floats, int]:
    """Probabilities clipped to [0, 1] for rounding, and how many were; others are gathered as problems.

    Shapes: ``scores`` (n,) or (n, K), ``numbers`` (n,) the rows' numbers in the table. A row of several scores is
    counted once as a problem.
    """
    finite = np.isfinite(scores)
    outside = finite & ((scores < -runtime.ROUNDING) | (scores > 1 + runtime.ROUNDING))
    for rule, bad in (
        (f"scores of {model} must be finite numbers; drop or repair the rows", ~finite),
        (f"scores of {model} must lie in [0, 1]; a sentinel is no probability, and logits are none either", outside),
    ):
        rows = bad if bad.ndim == 1 else bad.any(axis=1)
        problems.add(rule, numbers[rows], scores[rows][:_SHOWN].tolist())
    clipped = np.clip(scores, 0.0, 1.0)
    return clipped, int(np.count_nonzero(finite & ~outside & (clipped != scores)))


def _refuse(problems: Sequence[str]) -> NoReturn:
    raise_problems(problems, DataError)
