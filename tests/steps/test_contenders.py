"""Contenders and their sums without a store: streamed in any batches, in every reduction, and right on average."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mlflow_calib as mc
from mlflow_calib.core.class_sums import ClassSums
from mlflow_calib.core.evidence import class_entry
from mlflow_calib.errors import CalibrationWarning, DataError
from mlflow_calib.steps.contenders import Batch, Contender, base_model, calibrated, champion
from mlflow_calib.steps.evaluation_sums import Sums, add_up
from mlflow_calib.steps.judged_rows import JudgedRows, outputs_of

REDUCTIONS = ("binary", "marginal", "top-label", "top-label-per-class")


def population(reduction: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores and codes that a model with some error gives."""
    rng = np.random.default_rng(seed)
    if reduction == "binary":
        z = rng.uniform(size=n)
        return z, (rng.uniform(size=n) < z**1.5).astype(np.intp)
    scores = rng.dirichlet([2.0, 1.0, 0.5, 0.3], size=n)
    truths = scores**1.3 / (scores**1.3).sum(axis=1, keepdims=True)
    return scores, (truths.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).astype(np.intp)


def fitted(reduction: str, **options: Any) -> mc.Calibrator:
    scores, codes = population(reduction, 3000, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return mc.fit_calibrator(scores, codes, reduction=reduction, **{"n_bins": 5, **options})


def batches(reduction: str, cuts: list[int], **columns: Any) -> list[Batch]:
    scores, codes = population(reduction, 2000)
    columns = {"key_hashes": np.random.default_rng(3).integers(0, 2**63, 2000).astype(np.uint64), **columns}
    parts = np.split(np.arange(2000), cuts)
    return [Batch(scores[rows], codes[rows], **{name: own[rows] for name, own in columns.items()}) for rows in parts]


def documents(sums: Sums) -> list[dict[str, Any]]:
    found = [one.finish() for one in sums.statistics.values()]
    flat = [s for one in found for s in (one.statistics if hasattr(one, "terms") else (one,))]
    return [{name: s.to_dict()[name] for name in "nk"} for s in flat]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_evidence_does_not_depend_on_the_batches(reduction: str, grouped: bool) -> None:
    """Counts exactly, sums to addition rounding."""
    calibrator, other = fitted(reduction), fitted(reduction, method="histogram-binning")
    contenders = {"candidate": calibrated(calibrator), "base": base_model(calibrator), "rival": calibrated(other)}
    groups = {"groups": np.random.default_rng(2).integers(0, 40, 2000)} if grouped else {}
    whole = add_up(contenders, batches(reduction, [], **groups))
    parts = add_up(contenders, batches(reduction, [1, 2, 700, 1500], **groups))
    assert documents(whole) == documents(parts)
    first, second = whole.comparisons(40), parts.comparisons(40)
    assert set(first) == {
        "mse_increase_over_base",
        "mse_increase_over_rival",
        "log_loss_increase_over_base",
        "calibration_error_increase_over_base",
    }
    for name, one in first.items():
        if one is None:
            assert second[name] is None
            continue
        assert one.mean == pytest.approx(second[name].mean, abs=1e-13), name
        assert one.standard_error == pytest.approx(second[name].standard_error, rel=1e-9), name
    for name, one in whole.models.items():
        assert one.statistics.mse == pytest.approx(parts.models[name].statistics.mse, abs=1e-14)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_outputs_are_what_the_calibrator_predicts(reduction: str) -> None:
    scores, _ = population(reduction, 500)
    calibrator = fitted(reduction)
    expected = calibrator.predict(scores)
    if reduction.startswith("top-label"):
        expected = np.take_along_axis(expected, scores.argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(outputs_of(calibrator, scores), expected)


def own_champion(calibrator: mc.Calibrator, reduction: str) -> Contender:
    """The champion by its columns, in bins that are those of its maps."""
    edges = {k: (one.values[1:] + one.values[:-1]) / 2 for k, one in enumerate(calibrator.maps)}
    return champion(reduction, calibrator.classes, edges, {k: one.values for k, one in enumerate(calibrator.maps)})


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_champion_by_its_outputs_is_the_calibrator_itself(reduction: str) -> None:
    """Its columns alone tell the bins, as far as the values of its bins rise."""
    calibrator = fitted(reduction)
    assert all((np.diff(one.values) > 0).all() for one in calibrator.maps)
    scores, _ = population(reduction, 2000)
    columns = {"champion_scores": scores, "champion_outputs": calibrator.predict(scores)}
    contenders = {"candidate": calibrated(calibrator), "champion": own_champion(calibrator, reduction)}
    sums = add_up(contenders, batches(reduction, [900], **columns))
    n = len(documents(sums)) // 2
    assert documents(sums)[:n] == documents(sums)[n:]
    assert all(abs(one.mean) < 1e-15 for one in sums.comparisons(None).values() if one is not None)


def test_a_class_that_the_champion_never_predicts_has_no_bins() -> None:
    outputs = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.6, 0.3, 0.1]])
    one = champion("top-label-per-class", ["a", "b", "c"], {0: np.empty(0), 2: np.empty(0)}, None)
    rows = one.judged(Batch(outputs, np.array([0, 1, 2]), champion_scores=outputs, champion_outputs=outputs))
    assert (one.labels, one.n_bins, one.is_lower_bound) == (("a", "c"), (1, 1), True)
    assert rows.predicted.tolist() == [0, 1, 0]
    assert rows.truths.tolist() == [True, False, False]
    assert rows.outputs.tolist() == [0.6, 0.7, 0.6]
    with pytest.raises(DataError, match="must hold the champion's scores and outputs; score again with champion="):
        one.judged(Batch(outputs, np.array([0, 1, 2])))


def test_the_marginal_log_loss_is_proper() -> None:
    """Rows do not sum to one: saying .9 of every class must not look better than the truth."""
    truths = np.eye(3, dtype=bool)[[0, 1, 2, 0]]
    index = np.zeros((4, 3), dtype=np.intp)
    honest = JudgedRows(np.full((4, 3), 1 / 3), truths, index)
    inflated = JudgedRows(np.full((4, 3), 0.9), truths, index)
    assert honest.log_losses() == pytest.approx([(np.log(3) + 2 * np.log(1.5)) / 3] * 4)
    assert inflated.log_losses().mean() > honest.log_losses().mean()
    certain = JudgedRows(np.array([[0.0, 0.5, 1.0]]), np.array([[True, False, False]]), index[:1])
    assert np.isinf(certain.log_losses()).all()


def test_classes_are_averaged_signed() -> None:
    """N22: perfectly calibrated, K = 10, n = 1000, B = 10: the mean over 200 draws is zero; clipping gives .012."""
    levels = np.random.default_rng(7).dirichlet(np.full(10, 0.7), size=10)
    edges = {k: (np.unique(levels[:, k])[1:] + np.unique(levels[:, k])[:-1]) / 2 for k in range(10)}
    one = champion("marginal", list(range(10)), edges, {k: np.unique(levels[:, k]) for k in range(10)})
    squares, clipped = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = levels[rng.integers(0, 10, 1000)]
        codes = (p.cumsum(axis=1) < rng.uniform(size=(1000, 1))).sum(axis=1).clip(max=9)
        keys = np.arange(1000, dtype=np.uint64)
        batch = Batch(p, codes, champion_scores=p, champion_outputs=p, key_hashes=keys)
        sums = add_up({"candidate": one}, [batch]).models["candidate"].statistics
        assert isinstance(sums, ClassSums)
        entry = class_entry(sums.finish(), sums.mse)
        squares.append(entry["squared_debiased"])
        clipped.append(max(entry["squared_debiased"], 0.0))
    error = np.std(squares, ddof=1) / np.sqrt(200)
    assert abs(np.mean(squares)) < 2 * error
    assert np.mean(clipped) > 2 * error, "a draw that is clipped on its own would show"
