"""The calibrator: what the three steps leave, what it predicts, what it warns of, and the JSON it lives in."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import mlflow_calib as mc
from mlflow_calib import runtime
from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.core.scaling import ScalingFunction, fit_platt
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

GOLDEN = Path(__file__).with_name("calibrator_schema_1.json")


def population(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores z uniform on (0, 1); P(y = 1 | z) = sigma(.6 logit z - .5): over-confident, and Platt scaling is true."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(size=n)
    return z, (rng.uniform(size=n) < truth(z)).astype(int)


def truth(z: np.ndarray) -> np.ndarray:
    return expit(0.6 * logit(z) - 0.5)


def classes_population(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.dirichlet(np.ones(n_classes), size=n)
    return scores, (rng.uniform(size=(n, 1)) > scores.cumsum(axis=1)).sum(axis=1).clip(0, n_classes - 1)


def only_warning(call: Callable[[], Calibrator]) -> tuple[Calibrator, str]:
    with pytest.warns(CalibrationWarning) as caught:
        calibrator = call()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    return calibrator, str(caught[0].message)


# The steps


def test_step_3_outputs_the_mean_of_g_over_t3_and_never_of_labels() -> None:
    z, y = population(3000)
    parts = np.random.default_rng(1).integers(1, 4, size=3000)
    calibrator = fit_calibrator(z, y, n_bins=5, parts=parts)
    g = fit_platt(z[parts == 1], y[parts == 1].astype(float))
    cuts = [len(third) for third in np.array_split(np.sort(z[parts == 2]), 5)]
    index = calibrator.bin_index(z)
    assert np.bincount(index[parts == 2]).tolist() == cuts
    expected = [g(z[(parts == 3) & (index == j)]).mean() for j in range(5)]
    assert calibrator.maps[0].values == pytest.approx(expected, rel=1e-12)
    assert calibrator.maps[0].counts.tolist() == np.bincount(index[parts == 3]).tolist()
    flipped = np.where(parts == 1, y, 1 - y)
    assert fit_calibrator(z, flipped, n_bins=5, parts=parts).maps[0].to_dict() == calibrator.maps[0].to_dict()


def test_histogram_binning_outputs_the_mean_label_of_t3() -> None:
    z, y = population(3000)
    parts = np.random.default_rng(1).integers(1, 4, size=3000)
    calibrator = fit_calibrator(z, y, method="histogram-binning", n_bins=5, parts=parts)
    index = calibrator.bin_index(z)
    assert calibrator.maps[0].values.tolist() == [y[(parts == 3) & (index == j)].mean() for j in range(5)]
    assert calibrator.scaling is None
    assert calibrator.loss is None


@pytest.mark.parametrize("method", ["scaling-binning", "histogram-binning"])
def test_bin_left_empty_by_t3_takes_the_mean_of_t2(method: str) -> None:
    """T3 holds no score below .5, T2 half of its own."""
    z = np.concatenate([np.tile([0.2, 0.4, 0.6, 0.8], 10), np.repeat([0.3, 0.7], 10), np.repeat([0.7], 10)])
    y = np.concatenate([np.tile([0, 1, 0, 1], 10), np.tile([0, 0, 1, 1, 1], 4), np.tile([0, 1], 5)])
    parts = np.repeat([1, 2, 3], [40, 20, 10])
    calibrator, message = only_warning(lambda: fit_calibrator(z, y, method=method, n_bins=2, parts=parts))
    g = calibrator.maps[0].scaling
    below = g(np.array([0.3]))[0] if isinstance(g, ScalingFunction) else y[40:50].mean()
    assert calibrator.maps[0].values[0] == pytest.approx(below)
    assert calibrator.maps[0].counts.tolist() == [0, 10]
    assert calibrator.maps[0].flags == ("empty-bin",)
    assert "empty" in message


@pytest.mark.parametrize("binning", ["uniform-mass", "equal-width"])
def test_edges_are_folded_into_score_space(binning: str) -> None:
    """Prediction by edges on z falls in the same bin as by edges on g(z)."""
    z, y = population(2000)
    calibrator = fit_calibrator(z, y, n_bins=10, binning=binning, parts="shared")
    scaled = fit_platt(z, y.astype(float))(z)
    index = calibrator.bin_index(z)
    if binning == "equal-width":
        assert index.tolist() == (np.searchsorted(np.unique(np.ceil(scaled * 10)), np.ceil(scaled * 10))).tolist()
    else:
        assert np.bincount(index).tolist() == [200] * 10
    assert (np.diff(calibrator.maps[0].values) > 0).all()
    assert calibrator.predict(z).tolist() == calibrator.maps[0].values[index].tolist()


def test_error_shrinks_with_rows() -> None:
    """A true scaling function: the root-mean-square error of the outputs falls about as 1 / sqrt(n)."""
    grid = (np.arange(100_000) + 0.5) / 100_000
    errors = []
    for n in (3000, 300_000):
        calibrator = fit_calibrator(*population(n, seed=n), n_bins=10)
        index = calibrator.bin_index(grid)
        of_bins = np.bincount(index, truth(grid)) / np.bincount(index)
        errors.append(np.sqrt(np.mean((calibrator.predict(grid) - of_bins[index]) ** 2)))
    assert errors[0] < 0.05
    assert errors[1] < 0.005


def test_stated_confidences_with_exact_zeros_and_ones(real_data: Callable[[str], Path]) -> None:
    """A fixed clip of 1e-12 leaves .0134; the fitted boundary at most .002 (8 halves, 10 bins)."""
    frame = pd.read_parquet(real_data("llm_stated_confidence.parquet"), columns=["p", "label"])
    p, y = frame["p"].to_numpy(), frame["label"].to_numpy()
    squares = []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(len(p))
        fit, rest = order[: len(p) // 2], order[len(p) // 2 :]
        calibrator, _ = only_warning(lambda fit=fit: fit_calibrator(p[fit], y[fit]))  # type: ignore[misc]
        index, values = calibrator.bin_index(p[rest]), calibrator.maps[0].values
        counts, means = np.bincount(index), np.bincount(index, y[rest]) / np.bincount(index)
        squares.append(counts @ ((values - means) ** 2 - means * (1 - means) / (counts - 1)) / counts.sum())
    assert np.mean(squares) <= 0.002


# Parts


@pytest.mark.parametrize(
    ("n", "parts", "done", "sizes"),
    [
        (599, "auto", "shared", [599] * 3),
        (600, "auto", "disjoint", [200] * 3),
        (100, "disjoint", "disjoint", [34, 33, 33]),
        (900, "shared", "shared", [900] * 3),
    ],
)
def test_parts(n: int, parts: str, done: str, sizes: list[int]) -> None:
    """T3 of 200 rows holds 100 for each of two bins."""
    calibrator = fit_calibrator(*population(n), n_bins=2, parts=parts)
    assert (calibrator.parts_requested, calibrator.parts) == (parts, done)
    assert calibrator.facts["n_parts"] == sizes


def test_parts_as_an_array() -> None:
    z, y = population(300)
    parts = np.repeat([1, 2, 3], [150, 50, 100])
    calibrator = fit_calibrator(z, y, n_bins=2, parts=parts)
    assert (calibrator.parts_requested, calibrator.parts) == ("array", "disjoint")
    assert calibrator.facts["n_parts"] == [150, 50, 100]
    for wrong in (parts[:-1], np.repeat([1, 2], 150), np.repeat([0, 1, 2], 100), "thirds"):
        with pytest.raises(InvalidInputError, match="parts must be"):
            fit_calibrator(z, y, parts=wrong)


def test_keys_make_thirds_that_do_not_depend_on_the_order_of_rows() -> None:
    z, y = population(900)
    keys = np.array([f"row-{i:04}" for i in np.random.default_rng(2).permutation(900)])
    order = np.random.default_rng(3).permutation(900)
    first = fit_calibrator(z, y, n_bins=3, keys=keys)
    second = fit_calibrator(z[order], y[order], n_bins=3, keys=keys[order])
    assert first.parts == "disjoint"
    assert first.facts["keys"] == "verified"
    assert first.predict(z) == pytest.approx(second.predict(z), rel=1e-12)
    by_hand = np.empty(900, dtype=int)
    by_hand[np.argsort(keys)] = np.repeat([1, 2, 3], 300)
    assert fit_calibrator(z, y, n_bins=3, parts=by_hand).maps[0].to_dict() == first.maps[0].to_dict()


def test_doubled_keys_are_refused_whatever_the_parts() -> None:
    z, y = population(90)
    with pytest.raises(InvalidInputError, match="keys must be distinct; 1 rows"):
        fit_calibrator(z, y, keys=[0, *range(89)], parts="shared")


def test_seed_decides_the_thirds_without_keys() -> None:
    z, y = population(900)
    fits = [fit_calibrator(z, y, n_bins=3, seed=seed) for seed in (0, 0, 1)]
    assert fits[0] == fits[1]
    assert fits[0] != fits[2]
    assert fits[0].facts["keys"] == "unverified"


# Ties, single classes, constraints: recorded, and one warning


def test_ties_make_fewer_bins_with_one_warning() -> None:
    """N2: 30 scores of .2 and 10 of .7, four bins asked for."""
    labels = [0] * 25 + [1] * 5 + [0] * 3 + [1] * 7
    calibrator, message = only_warning(lambda: fit_calibrator([0.2] * 30 + [0.7] * 10, labels, n_bins=4))
    assert (calibrator.n_bins_requested, calibrator.n_bins_effective) == (4, 2)
    assert "bins requested 4, effective 2" in message
    assert calibrator.predict([0.2, 0.7]) == pytest.approx([5 / 30, 7 / 10])


@pytest.mark.parametrize(("label", "missing"), [(0, "positive class 1"), (1, r"another class \[0\]")])
@pytest.mark.parametrize("method", ["scaling-binning", "histogram-binning"])
def test_binary_labels_of_one_class(label: int, missing: str, method: str) -> None:
    with pytest.raises(InvalidInputError, match=f"10 rows hold none of the {missing}|10 rows hold none of {missing}"):
        fit_calibrator(np.linspace(0.1, 0.9, 10), [label] * 10, method=method)


def test_binary_part_of_one_class_names_the_part_and_the_remedy() -> None:
    z, y = np.linspace(0.1, 0.9, 9), [0, 0, 0, 0, 1, 0, 1, 0, 1]
    with pytest.raises(InvalidInputError, match=r'T1 must hold rows of both classes.*parts="shared"'):
        fit_calibrator(z, y, parts=[1, 1, 1, 2, 2, 2, 3, 3, 3])


@pytest.mark.parametrize("method", ["scaling-binning", "histogram-binning"])
def test_absent_class_of_a_marginal_calibrator(method: str) -> None:
    """N6: a model of three classes, labels in {0, 1}: the third keeps its base scores, averaged by bin."""
    scores, labels = classes_population(200, 3)
    labels = labels.clip(0, 1)
    fit = lambda: fit_calibrator(scores, labels, method=method, reduction="marginal", n_bins=4)  # noqa: E731
    calibrator, message = only_warning(fit)
    assert [one_map.flags for one_map in calibrator.maps] == [(), (), ("class-absent",)]
    assert "class-absent, class 2" in message
    index = calibrator.bin_index(scores)[:, 2]
    assert calibrator.maps[2].values == pytest.approx(np.bincount(index, scores[:, 2]) / np.bincount(index))
    assert calibrator.facts["positives"] == [*np.bincount(labels), 0]


def test_scores_that_fall_with_the_labels() -> None:
    z, y = population(200)
    calibrator, message = only_warning(lambda: fit_calibrator(1 - z, y))
    assert calibrator.maps[0].flags == ("fewer-bins", "constraint-active")
    assert calibrator.maps[0].scaling is not None
    assert calibrator.maps[0].scaling.constraint_active
    assert "slope is held at 0" in message
    assert calibrator.predict([0.1, 0.9]) == pytest.approx(y.mean())


# Prediction


def test_saved_and_loaded_predicts_to_the_bit() -> None:
    """N1: through JSON, pickle and cloudpickle; the scores separate the labels, which is on record."""
    p, y = [0.1, 0.4, 0.6, 0.9] * 5, [0, 0, 1, 1] * 5
    calibrator, _ = only_warning(lambda: fit_calibrator(p, y, n_bins=4))
    assert calibrator.maps[0].flags == ("not-converged",)
    outputs = calibrator.predict(p)
    for loaded in (
        Calibrator.from_json(calibrator.to_json()),
        Calibrator.from_dict(calibrator.to_dict()),
        pickle.loads(pickle.dumps(calibrator)),  # noqa: S301
        cloudpickle.loads(cloudpickle.dumps(calibrator)),
    ):
        assert loaded == calibrator
        assert hash(loaded) == hash(calibrator)
        assert loaded.to_json() == calibrator.to_json()
        assert loaded.predict(p).tobytes() == outputs.tobytes()


def test_marginal_rows_do_not_sum_to_one_and_say_so() -> None:
    """N3: K = 3, Dirichlet(1, 1, 1), n = 60."""
    scores, labels = classes_population(60, 3)
    calibrator = fit_calibrator(scores, labels, reduction="marginal", n_bins=5)
    outputs = calibrator.predict(scores)
    assert outputs.shape == scores.shape
    assert np.ptp(outputs.sum(axis=1)) > 0.1
    assert calibrator.facts["renormalised"] is False
    assert all(len(np.unique(column)) == 5 for column in outputs.T)
    one_class = fit_calibrator(scores[:, 1], labels == 1, n_bins=5)
    assert outputs[:, 1].tolist() == one_class.predict(scores[:, 1]).tolist()
    assert calibrator.n_bins_effective == (5, 5, 5)


def test_float32_scores() -> None:
    """N9: the same as their float64 values, at fit and at predict."""
    z, y = population(300)
    single = z.astype(np.float32)
    calibrator = fit_calibrator(single, y)
    assert calibrator == fit_calibrator(single.astype(float), y)
    assert calibrator.predict(single).dtype == np.float64


def test_scores_of_both_classes_come_back_in_their_shape() -> None:
    z, y = population(300)
    both = np.column_stack([1 - z, z])
    calibrator = fit_calibrator(both, y)
    outputs = calibrator.predict(both)
    assert outputs[:, 1].tolist() == calibrator.predict(z).tolist()
    assert outputs.sum(axis=1) == pytest.approx(1)
    assert calibrator.bin_index(both).tolist() == calibrator.bin_index(z).tolist()


@pytest.mark.parametrize("method", ["scaling-binning", "histogram-binning"])
def test_logits_give_what_their_probabilities_give(method: str) -> None:
    z, y = population(500)
    of_logits = fit_calibrator(logit(z), y, method=method, score_kind="logit")
    assert of_logits.predict(logit(z)) == pytest.approx(fit_calibrator(z, y, method=method).predict(z), rel=1e-8)
    assert of_logits.predict([-800.0, 800.0]) == pytest.approx(of_logits.maps[0].values[[0, -1]])


def test_marginal_logits() -> None:
    scores, labels = classes_population(300, 3)
    calibrator = fit_calibrator(logit(scores), labels, reduction="marginal", score_kind="logit")
    of_scores = fit_calibrator(scores, labels, reduction="marginal")
    assert calibrator.predict(logit(scores)) == pytest.approx(of_scores.predict(scores), rel=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1.5, -0.01])
def test_predict_refuses_what_fit_refuses(bad: float) -> None:
    calibrator = Calibrator.from_json(GOLDEN.read_text())
    with pytest.raises(ValueError, match="1 of 2 rows"):
        calibrator.predict([0.5, bad])
    assert calibrator.predict([1.0000001]) == calibrator.predict([1.0])


def test_predict_refuses_another_shape() -> None:
    scores, labels = classes_population(300, 3)
    calibrator = fit_calibrator(scores, labels, reduction="marginal", n_bins=3)
    with pytest.raises(ValueError, match="shape"):
        calibrator.predict(scores[:, :2])


# JSON


def test_golden_file_of_schema_1() -> None:
    """N18: read by every later release, with the same outputs."""
    calibrator = Calibrator.from_json(GOLDEN.read_text())
    expected = [0.07953597810830143, 0.07953597810830143, 0.4397176581049653, 0.7706629396301549, 0.9504566060499449]
    assert calibrator.predict([0.0, 0.25, 0.55, 0.7, 1.0]).tolist() == expected
    assert json.loads(calibrator.to_json()) == json.loads(GOLDEN.read_text())


def edited(**changes: Any) -> str:
    return json.dumps({**json.loads(GOLDEN.read_text()), **changes})


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "damaged"),
        (GOLDEN.read_text()[:-20], "damaged"),
        ("[]", "damaged"),
        (edited(schema_version=2), "schema_version 2"),
        (edited(maps=[]), "damaged"),
        (edited(maps=[{"edges": [0.2], "values": [0.1, 1.2]}]), "damaged"),
        (edited(maps=[{"edges": [0.2], "values": [0.1, 0.2]}]), "damaged"),
        (json.dumps({k: v for k, v in json.loads(GOLDEN.read_text()).items() if k != "method"}), "damaged"),
    ],
)
def test_damaged_or_unknown_text_is_refused(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        Calibrator.from_json(text)


def test_facts_and_base_model_are_added_to_a_copy() -> None:
    calibrator = Calibrator.from_json(GOLDEN.read_text())
    more = calibrator.with_facts(recalibration="s3://bucket/rows").with_base_model({"uri": "models:/m/1"})
    assert more.facts == {**calibrator.facts, "recalibration": "s3://bucket/rows"}
    assert more.base_model == {"uri": "models:/m/1"}
    assert calibrator.base_model is None
    assert more != calibrator
    with pytest.raises(InvalidInputError, match="plain JSON"):
        calibrator.with_facts(loss=float("nan"))


def test_json_holds_what_the_runtime_needs() -> None:
    z, y = population(300)
    calibrator = fit_calibrator(z, y)
    maps = [runtime.map_arrays(one_map) for one_map in runtime.read_calibrator(calibrator.to_json())["maps"]]
    assert runtime.predict_maps(z, maps).tobytes() == calibrator.predict(z).tobytes()


# Wrong use


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"method": "isotonic"}, "method must be one of 'scaling-binning', 'scaling-binning-shrunk'"),
        ({"reduction": "top label"}, "reduction must be one of"),
        ({"binning": "equal-mass"}, "binning must be one of"),
        ({"scaling": "isotonic"}, "scaling must be one of None, 'platt', 'quadratic'"),
        ({"scaling": "beta", "method": "identity"}, "scaling must be one of None, got"),
        ({"loss": "hinge"}, "loss must be one of 'log', 'squared'"),
        ({"n_bins": "many"}, 'or "auto", got'),
        ({"scaling": "platt", "method": "histogram-binning"}, "scaling must be one of None, got"),
        ({"n_bins": 0}, "n_bins must be an integer from 1 to 1000, got 0"),
        ({"score_kind": "margin"}, "score_kind must be one of"),
    ],
)
def test_wrong_words(options: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidInputError, match=part):
        fit_calibrator(*population(50), **options)


def test_fewer_rows_than_bins() -> None:
    with pytest.warns(CalibrationWarning) as caught:
        calibrator = fit_calibrator([0.2, 0.6, 0.4], [0, 1, 1], n_bins=10)
    assert calibrator.n_bins_effective == 3
    rows, bins = (str(one.message) for one in caught)
    assert "few-rows" in rows
    assert "fewer-bins" in bins
    assert {one.filename for one in caught} == {__file__}


def test_a_good_fit_is_silent_and_cannot_be_changed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrator = mc.fit_calibrator(*population(300))
    assert isinstance(calibrator, mc.Calibrator)
    with pytest.raises(ValueError, match="read-only"):
        calibrator.maps[0].values[0] = 0.5
    with pytest.raises(AttributeError):
        calibrator.method = "other"  # type: ignore[misc]
