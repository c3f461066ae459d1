"""What the rows of an evaluation add up to, batch by batch: memory holds a batch and the sums, for AUC 8 bytes a row.

Candidate, base model, histogram-binning rival and champion see every row once, in the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.class_sums import ClassSums
from mlflow_calib.core.jackknife import JackknifeDifference, JackknifeSums, jackknife_difference
from mlflow_calib.core.log_losses import LossSums, PairedLossSums
from mlflow_calib.core.paired import PairedDifference, PairedSums
from mlflow_calib.errors import DataError
from mlflow_calib.steps.contenders import Batch, Contender
from mlflow_calib.steps.judged_rows import JudgedRows
from mlflow_calib.steps.ranking_sums import RankingSums

#: Models that the candidate is compared with: by squared loss all, by log loss and calibration error these two.
COMPARED, COMPARED_FURTHER = ("champion", "base", "rival"), ("champion", "base")
#: A slice counts rows by pairs of classes' bins while these are few: there may be 200 slices in memory.
MOST_SLICE_BINS = 200


@dataclass(frozen=True, eq=False)
class ModelSums:
    """Sums of one model over rows: its bins, and its log losses."""

    statistics: BinStatistics | ClassSums
    log_losses: LossSums

    def merge(self, other: ModelSums) -> ModelSums:
        """Sums of the rows of both."""
        statistics: Any = self.statistics
        return ModelSums(statistics.merge(other.statistics), self.log_losses.merge(other.log_losses))

    def of_a_slice(self) -> ModelSums:
        """The same without many counts by pairs of classes' bins: the bounds are then the comonotone ones."""
        statistics = self.statistics
        if not isinstance(statistics, ClassSums) or sum(statistics.n_bins) <= MOST_SLICE_BINS:
            return self
        return replace(self, statistics=replace(statistics, cross=None))


@dataclass(frozen=True, eq=False)
class Sums:
    """What the rows so far add up to.

    Attributes
    ----------
    models : dict of ModelSums
        By contender.
    jackknife : dict of JackknifeSums
        By contender, of those whose calibration errors are compared.
    paired : dict of PairedSums or PairedLossSums
        By comparison.
    slices : dict of ModelSums
        Of the candidate, by the slice: (column, value) pairs.
    rankings : dict of RankingSums
        By contender; continuous outputs that are no marginal ones keep 8 bytes a row.
    """

    models: Mapping[str, ModelSums]
    jackknife: Mapping[str, JackknifeSums]
    paired: Mapping[str, PairedSums | PairedLossSums]
    slices: Mapping[Any, ModelSums] = field(default_factory=dict)
    rankings: Mapping[str, RankingSums] = field(default_factory=dict)

    def merge(self, other: Sums) -> Sums:
        """Sums of the rows of both; a slice may have rows in one of them alone."""
        return Sums(
            _merged(self.models, other.models),
            _merged(self.jackknife, other.jackknife),
            _merged(self.paired, other.paired),
            _merged(self.slices, other.slices),
            _merged(self.rankings, other.rankings),
        )

    @property
    def statistics(self) -> dict[str, BinStatistics | ClassSums]:
        """Bin statistics by contender."""
        return {name: sums.statistics for name, sums in self.models.items()}

    def comparisons(self, n_groups: int | None) -> dict[str, PairedDifference | JackknifeDifference | None]:
        """Every comparison by name; None of log losses that are infinite."""
        found: dict[str, Any] = {name: sums.finish() for name, sums in self.paired.items()}
        for other in COMPARED_FURTHER:
            if other in self.jackknife:
                pair = self.jackknife["candidate"], self.jackknife[other]
                found[f"calibration_error_increase_over_{other}"] = jackknife_difference(*pair, n_groups=n_groups)
        return found


def add_up(contenders: Mapping[str, Contender], batches: Iterable[Batch], slices: Any = None) -> Sums:
    """Sums over all rows; every model sees the same ones.

    ``slices`` gives of a batch the keys of its slices with their rows, such as `mlflow_calib.steps.slices.Slices.of`.
    """
    total: Sums | None = None
    for batch in batches:
        sums = _of_batch(contenders, batch, slices)
        total = sums if total is None else total.merge(sums)
    if total is None:
        raise DataError("evaluation data must hold at least one row, got none; widen the evaluation period")
    return total


def model_sums(contender: Contender, rows: JudgedRows, groups: Any, log_losses: Any = None) -> ModelSums:
    """Sums of one model over rows; ``log_losses`` (n,) where they are known already."""
    c, values = contender, contender.values
    losses = rows.log_losses() if log_losses is None else log_losses
    if c.reduction == "marginal":
        statistics: BinStatistics | ClassSums = ClassSums.from_marginal(
            c.labels, rows.outputs, rows.truths, rows.index, c.n_bins, values, groups
        )
    elif rows.predicted is not None and c.reduction == "top-label-per-class":
        statistics = ClassSums.from_predicted(
            c.labels, rows.outputs, rows.truths, rows.predicted, rows.index, c.n_bins, values, groups
        )
    else:
        fixed = None if values is None else values[0]
        statistics = BinStatistics.from_rows(
            rows.outputs, rows.truths, rows.index, c.n_bins[0], values=fixed, groups=groups
        )
    return ModelSums(statistics, LossSums.from_rows(losses))


def _of_batch(contenders: Mapping[str, Contender], batch: Batch, slices: Any) -> Sums:
    rows = {name: contender.judged(batch) for name, contender in contenders.items()}
    squares = {name: own.squared_losses() for name, own in rows.items()}
    logs = {name: own.log_losses() for name, own in rows.items()}
    models = {name: model_sums(one, rows[name], batch.groups, logs[name]) for name, one in contenders.items()}
    compared = [name for name in ("candidate", *COMPARED_FURTHER) if name in contenders]
    paired: dict[str, PairedSums | PairedLossSums] = {
        f"mse_increase_over_{other}": PairedSums.from_rows(squares["candidate"], squares[other], groups=batch.groups)
        for other in filter(contenders.__contains__, COMPARED)
    }
    paired |= {
        f"log_loss_increase_over_{other}": PairedLossSums.from_rows(logs["candidate"], logs[other], batch.groups)
        for other in compared[1:]
    }
    return Sums(
        models=models,
        jackknife={name: _jackknife(contenders[name], rows[name], batch.blocks) for name in compared},
        paired=paired,
        slices={} if slices is None else _sliced(contenders["candidate"], rows["candidate"], batch, slices),
        rankings={name: RankingSums.from_rows(own, binned=contenders[name].binned) for name, own in rows.items()},
    )


def _jackknife(contender: Contender, rows: JudgedRows, blocks: Any) -> JackknifeSums:
    index, n_bins, values = rows.index, contender.n_bins, contender.values
    if contender.reduction == "marginal":
        return JackknifeSums.from_rows(rows.outputs, rows.truths, index, n_bins, blocks, values)
    if rows.predicted is not None and len(n_bins) > 1:  # bins of all classes side by side
        index = np.concatenate([[0], np.cumsum(n_bins)])[rows.predicted] + index
    fixed = None if values is None else np.concatenate(values)
    return JackknifeSums.from_rows(rows.outputs, rows.truths, index, sum(n_bins), blocks, fixed)


def _sliced(contender: Contender, rows: JudgedRows, batch: Batch, slices: Any) -> dict[Any, ModelSums]:
    losses = rows.log_losses()
    return {
        key: model_sums(
            contender, rows.select(own), None if batch.groups is None else batch.groups[own], losses[own]
        ).of_a_slice()
        for key, own in slices(batch)
    }


def _merged(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    both = {key: one.merge(second[key]) if key in second else one for key, one in first.items()}
    return both | {key: one for key, one in second.items() if key not in first}
