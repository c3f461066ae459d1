"""Bins: the uniform-mass rule, ties, edges, and the reference figures of the real data (15 bins)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mlflow_calib.core.binning import BinningScheme, distinct, equal_width, uniform_mass
from mlflow_calib.core.cuts import edges_at, uniform_mass_cuts
from mlflow_calib.errors import InvalidInputError

RealData = Callable[[str], Path]


@pytest.mark.parametrize(("n", "n_bins"), [(10, 3), (100, 7), (5, 5), (3, 10), (1, 4), (1000, 1000)])
def test_sizes_without_ties_are_those_of_array_split(n: int, n_bins: int) -> None:
    scores = np.random.default_rng(n).permutation(n) / n
    counts = np.bincount(uniform_mass(scores, n_bins).index(scores)).tolist()
    assert counts == [len(part) for part in np.array_split(np.sort(scores), n_bins) if len(part)]


def test_ties_share_a_bin() -> None:
    """N2: 30 scores of .2 and 10 of .7 in 4 bins; cuts at 10, 20 and 30 all move to 30."""
    scheme = uniform_mass([0.2] * 30 + [0.7] * 10, n_bins=4)
    assert scheme.n_bins == 2
    assert scheme.requested == 4
    assert scheme.edges.tolist() == [(0.2 + 0.7) / 2]


def test_cut_moves_to_the_upper_end_of_its_run() -> None:
    """Six scores in two bins: the cut at 3 stands inside the run of .4, whose upper end is 5."""
    assert uniform_mass([0.1, 0.2, 0.4, 0.4, 0.4, 0.9], 2).edges.tolist() == [0.65]


@pytest.mark.parametrize("make", [uniform_mass, equal_width])
@pytest.mark.parametrize("seed", range(5))
def test_no_bin_is_empty_and_equal_scores_stay_together(
    make: Callable[[np.ndarray, int], BinningScheme], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.beta(0.3, 0.3, size=rng.integers(1, 300)), rng.integers(1, 4))
    scheme = make(scores, int(rng.integers(1, 40)))
    index = scheme.index(scores)
    assert np.bincount(index, minlength=scheme.n_bins).min() > 0
    assert scheme.n_bins <= scheme.requested
    assert not np.isin(scores, scheme.edges).any()
    assert all(len(np.unique(index[scores == value])) == 1 for value in np.unique(scores))


def test_equal_width_bins_are_right_closed() -> None:
    """A score k/B belongs to the lower bin: (j/B, (j + 1)/B], and 0 to the first."""
    scores = np.array([0.0, 0.1, 0.1000001, 0.25, 0.3, 0.95, 1.0])
    assert equal_width(scores, 10).index(scores).tolist() == [0, 0, 1, 2, 2, 3, 3]


def test_edges_of_neighbouring_floats() -> None:
    """Where the midpoint would round to the upper score, the lower one is the edge: bins are closed above."""
    scores = np.array([1.0, np.nextafter(1.0, 2), np.nextafter(np.nextafter(1.0, 2), 2)])
    assert distinct(scores).index(scores).tolist() == [0, 1, 2]
    huge = np.array([-1.7e308, 1.7e308])
    assert edges_at(huge, np.array([1])).tolist() == [0.0]
    tiny = np.arange(6) * 5e-324
    assert distinct(tiny).index(tiny).tolist() == list(range(6))


@pytest.mark.parametrize("n_bins", [0, 1001, 2.0, True, "10", None])
def test_number_of_bins(n_bins: object) -> None:
    with pytest.raises(InvalidInputError, match="integer from 1 to 1000, got"):
        uniform_mass([0.5], n_bins)  # type: ignore[arg-type]


@pytest.mark.parametrize("scores", [[], [np.nan, 0.5], [[0.5]]])
def test_scores_must_be_numbers(scores: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="at least one finite number"):
        uniform_mass(scores, 2)


def read(real_data: RealData, name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "nba":
        frame = pd.read_csv(real_data("nba_games.csv"))
        return frame["p"].to_numpy(), frame["label"].to_numpy()
    if name == "llm":
        frame = pd.read_parquet(real_data("llm_stated_confidence.parquet"), columns=["p", "label"])
        return frame["p"].to_numpy(), frame["label"].to_numpy()
    frame = pd.read_csv(real_data("solar_flare_c1.csv"))
    return frame["NOAA"].to_numpy(), frame["label"].to_numpy()


def bin_means(scores: np.ndarray, labels: np.ndarray, scheme: BinningScheme) -> tuple[np.ndarray, ...]:
    index = scheme.index(scores)
    counts = np.bincount(index)
    return counts / len(scores), np.bincount(index, scores) / counts, np.bincount(index, labels) / counts


@pytest.mark.parametrize(
    ("name", "bins", "plugin", "ece"),
    [
        ("nba", 15, 0.00318625, 0.049189),
        ("llm", 8, 0.01401537, 0.112932),
        ("solar NOAA", 13, 0.00353052, 0.053324),
    ],
)
def test_reference_figures(real_data: RealData, name: str, bins: int, plugin: float, ece: float) -> None:
    """The table of data/README.md, made by an independent script."""
    scores, labels = read(real_data, name)
    masses = uniform_mass(scores, 15)
    assert masses.n_bins == bins
    weights, outputs, means = bin_means(scores, labels, masses)
    assert np.sum(weights * (outputs - means) ** 2) == pytest.approx(plugin, abs=5e-9)
    weights, outputs, means = bin_means(scores, labels, equal_width(scores, 15))
    assert np.sum(weights * np.abs(outputs - means)) == pytest.approx(ece, abs=5e-7)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 40])
@pytest.mark.parametrize("grid", [3, 50, 10**6])
@pytest.mark.parametrize("times", [1, 2])
def test_cuts_of_rows_are_those_of_weights_of_one(n_bins: int, grid: int, times: int) -> None:
    """A value that stands alone among the first spares the look at all runs of equal ones."""
    rng = np.random.default_rng(grid)
    for n in (1, 5, 30, 3_000):
        ordered = np.sort(np.repeat(rng.integers(grid, size=n) / grid, times))
        weighted = uniform_mass_cuts(ordered, n_bins, np.ones(len(ordered)))
        assert uniform_mass_cuts(ordered, n_bins).tolist() == weighted.tolist()
