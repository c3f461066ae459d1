"""The fitted boundary on real predictions: Platt scaling-binning, 10 bins, a random half to fit and the other to judge.

The same pipeline with the fixed clip at 1e-12 stands beside it; errors are squared and debiased.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mlflow_calib.core.binning import uniform_mass
from mlflow_calib.core.scaling_fit import fit_family
from mlflow_calib.core.scaling_rows import BOUNDARIES, TeachingRows

N_HALVES = 8
RealData = Callable[[str], Path]


def binary(real_data: RealData, name: str) -> tuple[np.ndarray, np.ndarray]:
    if name.startswith("cifar"):
        frame = pd.read_parquet(
            real_data({"cifar10": "cifar10_vgg", "cifar100": "cifar100_wideresnet"}[name] + ".parquet")
        )
        p = frame[[column for column in frame.columns if column.startswith("p_")]].to_numpy(float)
        return p.max(axis=1), (p.argmax(axis=1) == frame["label"]).to_numpy(float)
    if name.startswith("flares"):
        frame = pd.read_csv(real_data("solar_flare_c1.csv"))
        frame = frame[frame[name.removeprefix("flares ")].between(0, 1)]  # NaN and -0.01 say that there is no forecast
        return frame[name.removeprefix("flares ")].to_numpy(float), frame["label"].to_numpy(float)
    if name == "llm":
        frame = pd.read_parquet(real_data("llm_stated_confidence.parquet"))
        return frame["p"].to_numpy(float), frame["label"].to_numpy(float)
    if name == "cells":
        frame = pd.read_csv(real_data("cell_segmentation.csv"))
        return frame["p_good"].to_numpy(float), (frame["label"] == "good").to_numpy(float)
    frame = pd.read_csv(real_data("nba_games.csv"))
    return frame["p"].to_numpy(float), frame["label"].to_numpy(float)


def error(z: np.ndarray, y: np.ndarray, fit: np.ndarray, unseen: np.ndarray, boundary: float | None) -> float:
    g = fit_family("platt", TeachingRows.of(z[fit], y[fit], None, "probability"), "log", "labels", boundary)
    scheme = uniform_mass(g(z[fit]), 10)
    taught, judged = scheme.index(g(z[fit])), scheme.index(g(z[unseen]))
    values = np.bincount(taught, g(z[fit])) / np.bincount(taught)
    counts, positives = (np.bincount(judged, column, scheme.n_bins) for column in (None, y[unseen]))
    rates = positives / counts
    return float(counts @ ((values - rates) ** 2 - rates * (1 - rates) / (counts - 1)) / len(unseen))


def mean_errors(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    orders = [np.random.default_rng(seed).permutation(len(z)) for seed in range(N_HALVES)]
    halves = [(order[: len(z) // 2], order[len(z) // 2 :]) for order in orders]
    return np.mean([[error(z, y, *half, c) for c in (None, float(BOUNDARIES[0]))] for half in halves], axis=0)


def test_zeros_and_ones_of_language_models(real_data: RealData) -> None:
    """A quarter of the scores is exactly 0 or 1 and often wrong: the fixed clip leaves an error of .014."""
    fitted, fixed = mean_errors(*binary(real_data, "llm"))
    assert fitted <= 0.002
    assert fixed > 0.01


@pytest.mark.parametrize(
    "name",
    ["cifar10", "cifar100", "nba", "cells", *(f"flares {method}" for method in ("NOAA", "AMOS", "ASSA", "NICT"))],
)
def test_no_harm_elsewhere(real_data: RealData, name: str) -> None:
    fitted, fixed = mean_errors(*binary(real_data, name))
    assert fitted <= fixed + 1e-4
