"""Many rows are fitted on two cores and a block at a time, which changes no figure."""

from __future__ import annotations

import numpy as np

import mlflow_calib as mc
from mlflow_calib import runtime
from mlflow_calib.core import map_fits, scaling_rows


def test_fits_on_two_cores_and_blocks_of_rows_are_those_of_one(monkeypatch):
    rng = np.random.default_rng(4)
    scores = rng.dirichlet(np.ones(5), size=25_000)
    labels = (scores.cumsum(axis=1) < rng.random((25_000, 1))).sum(axis=1)
    one = mc.fit_calibrator(scores, labels, reduction="marginal", parts="shared")
    monkeypatch.setattr(map_fits, "MANY_ROWS", 1_000)
    monkeypatch.setattr(scaling_rows, "BLOCK", 1_000)
    monkeypatch.setattr(runtime, "BLOCK", 1_000)
    many = mc.fit_calibrator(scores, labels, reduction="marginal", parts="shared")
    assert [m.label for m in many.maps] == [m.label for m in one.maps] == [0, 1, 2, 3, 4]
    for first, second in zip(one.maps, many.maps, strict=True):
        np.testing.assert_allclose(second.edges, first.edges, rtol=1e-12)
        np.testing.assert_allclose(second.values, first.values, rtol=1e-12)
        assert second.counts.tolist() == first.counts.tolist()
