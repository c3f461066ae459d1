"""Sums a bin over evaluation rows: mergeable, so that streamed, mapped and whole data give the same figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.bin_statistics_check import merge_problems, row_problems, sums_problems, whole_numbers
from mlflow_calib.core.bin_statistics_json import ARRAYS, read, written
from mlflow_calib.core.bin_weights import BinWeights, check_weights
from mlflow_calib.core.columns import column, numbers
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats, Integers
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.squares import ENOUGH_ROWS, label_means_of
from mlflow_calib.errors import InvalidInputError, raise_problems


@dataclass(frozen=True, eq=False)
class BinStatistics:
    """Counts and sums of outputs u and outcomes y in each of B bins; all arrays have shape (B,).

    From this record alone, without rows, follow for a binary problem (and so for top-label, and for each class):

    - ``finish()``: the squared calibration error, plug-in and debiased, its bounds by row and by group, the
      finite-sample bound, the bootstrap, noise floor, status, rows that would settle a verdict, and the table of bins
      with their Clopper-Pearson intervals (``mlflow_calib.core.bin_table``);
    - ``mse``, and its decomposition into calibration, refinement and what varies within bins
      (``mlflow_calib.core.proper_losses.mse_decomposition``);
    - label mean and mean output overall.

    Not from this record: ECE of other bins, ECE-sweep, smECE, log loss and AUC of continuous outputs; paired
    comparisons (``mlflow_calib.core.paired``); of several classes only the bounds that hold however the classes depend
    on one another.

    Parameters
    ----------
    counts, positives : arrays of int
        n_j rows and k_j positives.
    output_sums, output_squares, output_positives : arrays of float
        Sums of u, u^2 and u y, weighted where rows have weights.
    values : array of float, optional
        The fixed u_j of a binned model; without them u_j is the mean output of the bin.
    group_table : GroupTable, optional
        Rows and positives a group and bin; it lives only while accumulating.
    weights : BinWeights, optional
        Sums of the weights, where rows count unequally.

    Examples
    --------
    >>> whole = BinStatistics.from_rows([0.2, 0.2, 0.7, 0.7], [0, 1, 1, 1], index=[0, 0, 1, 1], n_bins=2)
    >>> first = BinStatistics.from_rows([0.2, 0.7], [0, 1], index=[0, 1], n_bins=2)
    >>> second = BinStatistics.from_rows([0.2, 0.7], [1, 1], index=[0, 1], n_bins=2)
    >>> first.merge(second).finish().to_dict() == whole.finish().to_dict()
    True
    >>> round(whole.mse, 4)  # (.2^2 + .8^2 + .3^2 + .3^2) / 4
    0.215
    """

    counts: Integers
    positives: Integers
    output_sums: Floats
    output_squares: Floats
    output_positives: Floats
    values: Floats | None = None
    group_table: GroupTable | None = None
    weights: BinWeights | None = None

    @classmethod
    def from_rows(
        cls,
        outputs: Any,
        outcomes: Any,
        index: Any,
        n_bins: int,
        values: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> BinStatistics:
        """Sum up rows.

        Parameters
        ----------
        outputs : array of float, shape (n,)
            What the model says, in [0, 1].
        outcomes : array, shape (n,)
            0 or 1.
        index : array of int, shape (n,)
            Bin of each row, 0..n_bins - 1.
        n_bins : int
        values : array of float, shape (n_bins,), optional
            Fixed value of each bin.
        groups : array, shape (n,), optional
            Group id of each row: text, numbers or dates.
        sample_weight : array of float, shape (n,), optional
            Finite, not negative.

        Raises
        ------
        InvalidInputError
            Where these do not fit together; all problems at once.
        """
        problems: list[str] = []
        u, y = numbers(outputs, "outputs", problems), numbers(outcomes, "outcomes", problems)
        fixed = None if values is None else numbers(values, "values", problems)
        j = column(index, "index") if np.size(index) else np.zeros(0, dtype=np.intp)
        if u is not None and y is not None and not problems:
            problems += row_problems(u, y, j, n_bins, fixed)
        if u is None or y is None or problems:
            raise_problems(problems)
        weights = None if sample_weight is None or not len(u) else check_weights(sample_weight, len(u))
        weighted = u if weights is None else weights * u

        def total(summed: Floats | None = None) -> Any:
            return np.bincount(j, summed, minlength=n_bins)

        return cls(
            counts=total().astype(np.int64),
            positives=total(y).astype(np.int64),
            output_sums=total(weighted),
            output_squares=total(weighted * u),
            output_positives=total(weighted * y),
            values=fixed,
            group_table=None if groups is None else GroupTable.from_rows(groups, y, j, n_bins, weights),
            weights=None if sample_weight is None else BinWeights.from_rows(_or_ones(weights, u), y, j, n_bins),
        )

    @classmethod
    def from_counts(cls, counts: Any, positives: Any, values: Any) -> BinStatistics:
        """Statistics of a binned model, whose rows all say the value of their bin: counts and positives are enough.

        Examples
        --------
        >>> BinStatistics.from_counts([60, 40], [12, 30], [0.2, 0.7]).n
        100
        """
        problems: list[str] = []
        n, k = whole_numbers(counts, "counts", problems), whole_numbers(positives, "positives", problems)
        u = numbers(values, "values", problems)
        if u is not None and not problems:
            problems += sums_problems({"counts": n, "positives": k}, u, None)
        if u is None or problems:
            raise_problems(problems)
        return cls(n, k, n * u, n * u**2, k * u, values=u)

    def merge(self, *others: BinStatistics) -> BinStatistics:
        """Statistics of all rows together. Counts are exact, sums equal to addition rounding, in any order.

        Raises
        ------
        InvalidInputError
            Where bins, fixed values, or the presence of groups differ.
        """
        strangers = [type(other).__name__ for other in others if not isinstance(other, BinStatistics)]
        if strangers:
            raise InvalidInputError(f"parts must be BinStatistics, got {', '.join(strangers)}")
        parts = (self, *others)
        problems = [problem for other in others for problem in merge_problems(self, other)]
        if problems:
            raise_problems(list(dict.fromkeys(problems)))
        names = ("counts", "positives", "output_sums", "output_squares", "output_positives")
        sums = {name: np.sum([getattr(part, name) for part in parts], axis=0) for name in names}
        tables = [part.group_table for part in parts if part.group_table is not None]
        weights = [part.weights for part in parts if part.weights is not None]
        return BinStatistics(
            **sums,
            values=self.values,
            group_table=GroupTable.merge(tables) if tables else None,
            weights=weights[0].merge(*weights[1:]) if weights else None,
        )

    @property
    def n(self) -> int:
        """Rows."""
        return int(self.counts.sum())

    @property
    def n_bins(self) -> int:
        """Bins, empty ones included."""
        return len(self.counts)

    @property
    def mean_outputs(self) -> Floats:
        """u_j: the fixed value of each bin, else its mean output.

        A bin without rows and without a fixed value says 0, where an empty bin weighs most in the bounds.
        """
        if self.values is not None:
            return self.values
        # The mean of outputs in [0, 1] may round to 1 + 2e-16.
        masses = self.counts if self.weights is None else self.weights.sums
        return np.clip(self.output_sums / np.where(masses > 0, masses, 1), 0.0, 1.0)

    @property
    def label_means(self) -> Floats:
        """ybar_j, and 0 in a bin without rows."""
        return label_means_of(self.counts, self.positives) if self.weights is None else self.weights.label_means

    @property
    def mse(self) -> float:
        """Mean squared error of the outputs, binary convention: mean of (u - y)^2 over rows."""
        if self.n == 0:
            raise InvalidInputError("the mean squared error needs at least one row, got none")
        weights = self.weights
        positives, mass = (self.positives, self.n) if weights is None else (weights.positives, weights.sums.sum())
        squares = self.output_squares - 2 * self.output_positives + positives
        return max(0.0, float(squares.sum()) / float(mass))

    def finish(self) -> ErrorStatistics:
        """The sufficient statistics; group tables shrink to their moments."""
        outputs, table, weights = self.mean_outputs, self.group_table, self.weights
        moments = None
        if table is not None and weights is None:
            moments = table.moments(self.counts, self.positives, outputs)
        elif table is not None and weights is not None:
            enough = weights.effective_counts >= ENOUGH_ROWS
            moments = table.moments(weights.sums, weights.positives, outputs, enough)
        return ErrorStatistics(self.counts, self.positives, outputs, moments, weights)

    def to_json(self) -> str:
        """JSON text that :meth:`from_json` reads back to the bit: about 1 KB for 10 bins, 10 KB for 100.

        With groups it also holds their filled cells, as many as there are groups times the bins they touch.
        """
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return written(arrays, self.values, self.group_table, self.weights)

    @classmethod
    def from_json(cls, text: str) -> BinStatistics:
        """Read what ``to_json`` wrote.

        Raises
        ------
        EvidenceError
            Where the text is damaged or of another schema.

        Examples
        --------
        >>> s = BinStatistics.from_counts([60, 40], [12, 30], [0.2, 0.7])
        >>> BinStatistics.from_json(s.to_json()).finish().to_dict() == s.finish().to_dict()
        True
        """
        return cls(**read(text))


def _or_ones(weights: Floats | None, outputs: Floats) -> Floats:
    return np.ones(len(outputs)) if weights is None else weights
