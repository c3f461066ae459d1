"""Edges in score space sort every float into the bin in which edges of g sort its g."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.special import logit

from mlflow_calib import runtime
from mlflow_calib.core.binning import equal_width, uniform_mass
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.folding import folded_edges
from mlflow_calib.errors import CalibrationWarning

POPULATIONS = ("uniform", "both ends", "rounded", "rare")


def population(name: str, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(POPULATIONS.index(name))
    if name == "uniform":
        z = rng.uniform(size=n)
    elif name == "both ends":
        z = rng.beta(0.1, 0.1, size=n)
    elif name == "rounded":
        z = np.round(rng.beta(0.3, 0.3, size=n), 3)
    else:
        z = rng.beta(0.2, 5, size=n).astype(np.float32).astype(float)
    return z, (rng.uniform(size=n) < z**0.7).astype(int)


def around(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """All scores, others between, and the edges with 30 neighbours on both sides."""
    probes, up, down = [scores, edges, np.linspace(scores.min(), scores.max(), 3001)], edges, edges
    for _ in range(30):
        up, down = np.nextafter(up, np.inf), np.nextafter(down, -np.inf)
        probes += [up, down]
    return np.concatenate(probes)


def fitted(name: str, family: str, score_kind: str, **options: Any) -> tuple[np.ndarray, Any]:
    z, y = population(name)
    scores = z if score_kind == "probability" else logit(np.clip(z, 1e-9, 1 - 1e-9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator = fit_calibrator(
            scores, y, scaling=family, parts="shared", n_bins=37, score_kind=score_kind, **options
        )
    inputs = around(scores, calibrator.maps[0].edges)
    return np.clip(inputs, 0, 1) if score_kind == "probability" else inputs, calibrator


@pytest.mark.parametrize("score_kind", ["probability", "logit"])
@pytest.mark.parametrize("family", ["platt", "quadratic", "beta", "temperature", "auto"])
@pytest.mark.parametrize("name", POPULATIONS)
def test_folded_and_unfolded_calibrators_are_equal(name: str, family: str, score_kind: str) -> None:
    """Against bins of g(z) with edges midway between values of g, on every input."""
    inputs, calibrator = fitted(name, family, score_kind)
    z, _ = population(name)
    scores = z if score_kind == "probability" else logit(np.clip(z, 1e-9, 1 - 1e-9))
    g, values = calibrator.maps[0].scaling, calibrator.maps[0].values
    unfolded = uniform_mass(g(scores), 37)
    assert unfolded.n_bins == len(values) == calibrator.n_bins_effective
    own = runtime.bin_index(g(inputs), g(calibrator.maps[0].edges))
    assert calibrator.predict(inputs).tolist() == values[unfolded.index(g(inputs))].tolist() == values[own].tolist()


def test_equal_width_bins_of_g() -> None:
    z, _ = population("uniform")
    inputs, calibrator = fitted("uniform", "platt", "probability", binning="equal-width")
    g = calibrator.maps[0].scaling
    assert calibrator.bin_index(inputs).tolist() == equal_width(g(z), 37).index(g(inputs)).tolist()


def test_bisection_passes_zero_and_the_smallest_floats() -> None:
    """Log odds of both signs: g(x) = x, the edge midway between -3e-320 and 1 is 1/2 to the bit."""
    ordered = np.array([-5.0, -3e-320, 1.0, 7.0])
    assert folded_edges(ordered, ordered, np.array([1, 2, 3]), np.positive).tolist() == [-2.5, 0.5, 4.0]
    tiny = np.array([0.0, 5e-324])
    assert folded_edges(tiny, tiny, np.array([1]), np.positive).tolist() == [0.0]


def test_many_scores_fall_into_the_bins_of_the_search() -> None:
    """The table for large inputs, with crowded edges, both zeros, and edges and their neighbours among the scores."""
    rng = np.random.default_rng(0)
    edges = np.unique(np.concatenate([rng.beta(0.05, 0.05, size=300), [5e-324, 0.5, 1.0]]))
    near = [edges, np.nextafter(edges, 2), np.nextafter(edges, -1), [0.0, -0.0, 1.0]]
    scores = np.concatenate([rng.uniform(size=60_000), rng.beta(0.05, 0.05, size=60_000), *near]).clip(0, 1)
    assert len(scores) >= runtime.MANY_SCORES
    expected = np.searchsorted(edges, scores, side="left")
    assert runtime.bin_index(scores, edges).tolist() == expected.tolist()
    assert runtime.bin_index(np.column_stack([scores, scores])[:, 0], edges).tolist() == expected.tolist()
    for others in (logit(scores.clip(1e-9, 1 - 1e-9)), scores + 1):
        assert runtime.bin_index(others, edges).tolist() == np.searchsorted(edges, others).tolist()


@pytest.mark.parametrize("n", [1, 3, 20, 100])
def test_single_rows_and_many_agree(n: int) -> None:
    """The one search over all columns against a search a column."""
    rng = np.random.default_rng(n)
    maps = [(np.unique(rng.uniform(size=b)), rng.uniform(size=b + 1)) for b in (0, 1, 5, 99)]
    scores = rng.uniform(size=(n, 4))
    scores[0] = [0.5, maps[1][0][0], maps[2][0][2], np.nextafter(maps[3][0][50], 1)]
    by_column = [runtime.look_up(scores[:, k], *one) for k, one in enumerate(maps)]
    assert runtime.predict_maps(scores, maps).tolist() == np.column_stack(by_column).tolist()
    assert runtime.predict_maps(-scores, maps)[:, 2].tolist() == [maps[2][1][0]] * n
