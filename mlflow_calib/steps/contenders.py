"""The models of one evaluation, each told by its outputs and its bins, added up batch by batch over the same rows.

Candidate, base model, histogram-binning rival and champion see every row once, so memory holds a batch and the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.binning import MAX_BINS, BinningScheme, Floats, distinct, uniform_mass
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.cuts import Index
from mlflow_calib.core.paired import PairedSums
from mlflow_calib.errors import DataError

#: Comparison of the evidence: the model whose squared loss is taken from the candidate's.
COMPARED_WITH = {
    "mse_increase_over_champion": "champion",
    "mse_increase_over_base": "base",
    "mse_increase_over_rival": "rival",
}


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of the evaluation data: scores and outcomes (n,), the champion's columns and groups where there are any."""

    base_scores: Floats
    outcomes: Floats
    champion_scores: Floats | None = None
    champion_outputs: Floats | None = None
    groups: object | None = None


@dataclass(frozen=True, eq=False)
class Contender:
    """One model: its outputs in [0, 1] and the bins they are judged in.

    ``values`` are the outputs of a binned model, one a bin; without them the outputs are continuous, a bin speaks by
    their mean, and what is estimated is at most the model's calibration error.
    """

    outputs: Callable[[Batch], Floats]
    index: Callable[[Batch], Index]
    n_bins: int
    values: Floats | None = None

    @property
    def is_lower_bound(self) -> bool:
        """Whether the error of the binned outputs is only a lower bound of the model's own."""
        return self.values is None


@dataclass(frozen=True, eq=False)
class Sums:
    """What the rows so far add up to: bin statistics a model, paired sums a comparison."""

    statistics: Mapping[str, BinStatistics]
    comparisons: Mapping[str, PairedSums]

    def merge(self, other: Sums) -> Sums:
        """Sums of the rows of both."""
        return replace(
            self,
            statistics={name: one.merge(other.statistics[name]) for name, one in self.statistics.items()},
            comparisons={name: one.merge(other.comparisons[name]) for name, one in self.comparisons.items()},
        )


def calibrated(calibrator: Calibrator) -> Contender:
    """A calibrator of this package on the base scores: binned by its own bins."""
    return Contender(
        outputs=lambda batch: calibrator.predict(batch.base_scores),
        index=lambda batch: calibrator.bin_index(batch.base_scores),
        n_bins=len(calibrator.maps[0].values),
        values=calibrator.maps[0].values,
    )


def base_model(candidate: Calibrator) -> Contender:
    """The base model itself, binned by the candidate's edges."""
    return Contender(
        outputs=lambda batch: batch.base_scores,
        index=lambda batch: candidate.bin_index(batch.base_scores),
        n_bins=len(candidate.maps[0].values),
    )


def raw_champion(scheme: BinningScheme) -> Contender:
    """A champion that is not of this package, binned by a scheme over its own scores."""
    return Contender(
        outputs=_champion_scores, index=lambda batch: scheme.index(_champion_scores(batch)), n_bins=scheme.n_bins
    )


def calibrated_champion(outputs: Floats, n_bins: int) -> Contender:
    """A champion of this package, judged by its distinct outputs; by ``n_bins`` bins where those are continuous."""
    values = np.unique(outputs)
    binned = len(values) <= MAX_BINS
    scheme = distinct(values) if binned else uniform_mass(outputs, n_bins)
    return Contender(
        outputs=_champion_outputs,
        index=lambda batch: scheme.index(_champion_outputs(batch)),
        n_bins=scheme.n_bins,
        values=values if binned else None,
    )


def add_up(contenders: Mapping[str, Contender], batches: Iterable[Batch]) -> Sums:
    """Sums over all rows; every model sees the same ones."""
    total: Sums | None = None
    for batch in batches:
        sums = _of_batch(contenders, batch)
        total = sums if total is None else total.merge(sums)
    if total is None:
        raise DataError("evaluation data must hold at least one row, got none; widen the evaluation period")
    return total


def _of_batch(contenders: Mapping[str, Contender], batch: Batch) -> Sums:
    outputs = {name: contender.outputs(batch) for name, contender in contenders.items()}
    losses = {name: (batch.outcomes - output) ** 2 for name, output in outputs.items()}
    statistics = {
        name: BinStatistics.from_rows(
            outputs[name], batch.outcomes, one.index(batch), one.n_bins, values=one.values, groups=batch.groups
        )
        for name, one in contenders.items()
    }
    comparisons = {
        comparison: PairedSums.from_rows(losses["candidate"], losses[other], groups=batch.groups)
        for comparison, other in COMPARED_WITH.items()
        if other in losses
    }
    return Sums(statistics, comparisons)


def _champion_scores(batch: Batch) -> Floats:
    if batch.champion_scores is None:
        raise DataError("the evaluation data must hold the champion's scores; score again with champion=")
    return batch.champion_scores


def _champion_outputs(batch: Batch) -> Floats:
    if batch.champion_outputs is None:
        raise DataError("the evaluation data must hold the champion's outputs; score again with champion=")
    return batch.champion_outputs
