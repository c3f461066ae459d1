"""What holds for every input: drawn by Hypothesis, the same draws in every run."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.calibrator import METHODS, Calibrator, fit_calibrator
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.estimators import estimate_calibration_error, mean_squared_error
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

SCALINGS = (None, "platt", "quadratic", "beta", "temperature", "identity", "auto")
BINNED = tuple(method for method in METHODS if method not in ("scaling", "identity"))
REDUCTIONS = ("binary", "marginal", "top-label", "top-label-per-class", "multi-label")
drawn = settings(
    deadline=None, derandomize=True, max_examples=80, database=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def binary_rows(draw: st.DrawFn, least: int = 12, most: int = 80) -> tuple[Any, Any]:
    """Scores with ties, zeros and ones among them, and outcomes of both kinds."""
    n = draw(st.integers(least, most))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    grid = draw(st.sampled_from([4, 10, 0, 0]))
    z = rng.integers(0, grid + 1, size=n) / grid if grid else rng.beta(*draw(st.sampled_from([(1, 1), (0.2, 0.4)])), n)
    y = (rng.random(n) < 0.1 + 0.7 * z ** draw(st.sampled_from([0.5, 1.0, 3.0]))).astype(int)
    y[:2] = 0, 1
    return z, y


@st.composite
def class_rows(draw: st.DrawFn, least: int = 40, most: int = 120) -> tuple[Any, Any]:
    """Scores (n, K) and labels, every class among them."""
    n, n_classes = draw(st.integers(least, most)), draw(st.integers(3, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.dirichlet(np.full(n_classes, draw(st.sampled_from([0.3, 1.0]))), size=n)
    labels = np.where(rng.random(n) < 0.6, scores.argmax(axis=1), rng.integers(0, n_classes, size=n))
    labels[:n_classes] = np.arange(n_classes)
    return scores, labels


@st.composite
def rows_of_any_kind(draw: st.DrawFn) -> tuple[Any, Any, str]:
    reduction = draw(st.sampled_from(REDUCTIONS))
    if reduction == "binary":
        return (*draw(binary_rows()), reduction)
    scores, labels = draw(class_rows())
    if reduction == "multi-label":
        labels = np.equal.outer(labels, np.arange(scores.shape[1])).astype(int)
        scores, labels[:, 0] = scores**0.5, labels.max(axis=1) - labels[:, 1]
    return scores, labels, reduction


recipes = st.fixed_dictionaries(
    {
        "method": st.sampled_from(BINNED),
        "n_bins": st.integers(1, 12),
        "binning": st.sampled_from(["uniform-mass", "equal-width"]),
        "loss": st.sampled_from(["log", "squared"]),
        "scaling": st.sampled_from(SCALINGS),
    }
)


def fit(scores: Any, labels: Any, **options: Any) -> Calibrator:
    """Flags are no matter here; histogram binning has no step 1."""
    if options.get("method") == "histogram-binning":
        options = {**options, "scaling": None, "loss": "log"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_calibrator(scores, labels, **options)


def close(values: Any, rel: float = 1e-9, absolute: float = 1e-9) -> Any:
    return pytest.approx(np.asarray(values), rel=rel, abs=absolute)


def figures(estimate: Any) -> list[float | None]:
    """Everything an estimate says in numbers."""
    bounds = (estimate.upper_bound(0.95), estimate.lower_bound(0.95), estimate.noise_floor(0.95))
    return [estimate.squared, estimate.root, *bounds]


def same_figures(first: Any, second: Any, rel: float = 1e-7) -> bool:
    pairs = zip(figures(first), figures(second), strict=True)
    return (first.status, first.n) == (second.status, second.n) and all(
        a == b if a is None or b is None else a == pytest.approx(b, rel=rel, abs=1e-7) for a, b in pairs
    )


# What every calibrator is


@drawn
@given(rows_of_any_kind(), recipes)
def test_outputs_are_probabilities_rising_and_few(rows: Any, recipe: Any) -> None:
    scores, labels, reduction = rows
    calibrator = fit(scores, labels, reduction=reduction, **recipe)
    outputs = calibrator.predict(scores)
    assert ((outputs >= 0) & (outputs <= 1)).all()
    for one_map in calibrator.maps:
        line = np.sort(np.r_[0.0, 1.0, one_map.edges, np.nextafter(one_map.edges, 1), np.ravel(scores)])
        values = one_map.predict(line)
        assert ((values >= 0) & (values <= 1)).all()
        assert len(np.unique(values)) <= recipe["n_bins"]
        if recipe["method"] != "histogram-binning":
            assert (np.diff(values) >= 0).all()


@drawn
@given(rows_of_any_kind(), recipes)
def test_json_and_back_to_the_bit(rows: Any, recipe: Any) -> None:
    scores, labels, reduction = rows
    calibrator = fit(scores, labels, reduction=reduction, **recipe)
    again = Calibrator.from_json(calibrator.to_json())
    assert again == calibrator
    assert again.to_json() == calibrator.to_json()
    assert again.predict(scores).tobytes() == calibrator.predict(scores).tobytes()


# Order and names


@drawn
@given(rows_of_any_kind(), recipes, st.randoms(use_true_random=False))
def test_the_order_of_shared_rows_is_no_matter(rows: Any, recipe: Any, random: Any) -> None:
    scores, labels, reduction = rows
    order = random.sample(range(len(labels)), len(labels))
    options = {**recipe, "reduction": reduction, "parts": "shared"}
    first, second = fit(scores, labels, **options), fit(scores[order], labels[order], **options)
    assert second.predict(scores) == close(first.predict(scores), 1e-6, 1e-7)


@drawn
@given(rows_of_any_kind(), recipes, st.randoms(use_true_random=False))
def test_the_order_of_rows_with_keys_is_no_matter(rows: Any, recipe: Any, random: Any) -> None:
    """Disjoint thirds follow the keys."""
    scores, labels, reduction = rows
    order = random.sample(range(len(labels)), len(labels))
    keys = np.array([f"row-{i}" for i in range(len(labels))])
    options = {**recipe, "reduction": reduction, "parts": "disjoint"}
    try:
        first = fit(scores, labels, keys=keys, **options)
    except InvalidInputError:  # a third with one outcome is refused, in either order
        with pytest.raises(InvalidInputError):
            fit(scores[order], labels[order], keys=keys[order], **options)
        return
    second = fit(scores[order], labels[order], keys=keys[order], **options)
    assert second.predict(scores) == close(first.predict(scores), 1e-6, 1e-7)
    assert [m.counts.tolist() for m in second.maps] == [m.counts.tolist() for m in first.maps]


@drawn
@given(rows_of_any_kind(), st.sampled_from(["debiased", "plugin"]), st.randoms(use_true_random=False))
def test_the_order_of_evaluation_rows_is_no_matter(rows: Any, estimator: str, random: Any) -> None:
    scores, labels, reduction = rows
    order = random.sample(range(len(labels)), len(labels))
    options: dict[str, Any] = {"reduction": reduction, "estimator": estimator, "bins": 3}
    first = estimate_calibration_error(scores, labels, **options)
    assert same_figures(estimate_calibration_error(scores[order], labels[order], **options), first)


@drawn
@given(class_rows(), recipes, st.sampled_from(["marginal", "top-label", "top-label-per-class"]), st.data())
def test_the_names_and_order_of_classes_are_no_matter(rows: Any, recipe: Any, reduction: str, data: Any) -> None:
    scores, labels = rows
    n_classes = scores.shape[1]
    order = data.draw(st.permutations(range(n_classes)))
    names = np.array(["ash", "beech", "cedar", "oak"][:n_classes])
    options = {**recipe, "reduction": reduction, "parts": "shared"}
    plain = fit(scores, labels, **options)
    named = fit(scores[:, order], names[labels], classes=names[order].tolist(), **options)
    assert named.predict(scores[:, order]) == close(plain.predict(scores)[:, order], 1e-6, 1e-7)
    judged: dict[str, Any] = {"reduction": reduction, "bins": 3}
    first = estimate_calibration_error(scores, labels, **judged)
    second = estimate_calibration_error(scores[:, order], names[labels], classes=names[order].tolist(), **judged)
    assert same_figures(first, second)


@drawn
@given(binary_rows(), recipes)
def test_the_names_of_two_classes_are_no_matter(rows: Any, recipe: Any) -> None:
    z, y = rows
    words = np.array(["stays", "leaves"])[y]
    named = fit(z, words, positive_class="leaves", parts="shared", **recipe)
    assert named.predict(z).tobytes() == fit(z, y, parts="shared", **recipe).predict(z).tobytes()


# Kinds of numbers


@drawn
@given(rows_of_any_kind(), recipes)
def test_float32_is_the_same_numbers_in_float64(rows: Any, recipe: Any) -> None:
    """Computed in float64: short floats give to the bit what the same numbers give as long ones."""
    scores, labels, reduction = rows
    short = scores.astype(np.float32)
    options = {**recipe, "reduction": reduction}
    first, second = (fit(each, labels, **options) for each in (short, short.astype(np.float64)))
    assert first == second
    assert first.predict(short).tobytes() == second.predict(short.astype(np.float64)).tobytes()
    judged: dict[str, Any] = {"reduction": reduction, "bins": 3}
    estimates = (estimate_calibration_error(each, labels, **judged) for each in (short, short.astype(np.float64)))
    assert len({tuple(figures(estimate)) for estimate in estimates}) == 1


# Weights


def repeated(scores: Any, labels: Any, times: Any) -> tuple[Any, Any]:
    return np.repeat(scores, times, axis=0), np.repeat(labels, times, axis=0)


@drawn
@given(
    rows_of_any_kind(),
    st.sampled_from(["scaling-binning", "histogram-binning"]),
    st.integers(1, 8),
    st.integers(0, 2**32 - 1),
)
def test_whole_weights_fit_as_repeated_rows(rows: Any, method: str, n_bins: int, seed: int) -> None:
    """Where nothing goes by effective rows: methods without shrinking, a score that no boundary moves."""
    scores, labels, reduction = rows
    scores = 0.8 * scores + 0.2 / (scores.shape[1] if scores.ndim == 2 else 2)
    times = np.random.default_rng(seed).integers(1, 4, size=len(labels))
    options: dict[str, Any] = {"method": method, "n_bins": n_bins, "reduction": reduction, "parts": "shared"}
    if method == "scaling-binning":
        options["scaling"] = "platt"
    weighted = fit(scores, labels, sample_weight=times, **options)
    twice = fit(*repeated(scores, labels, times), **options)
    assume(all(m.scaling is None or (m.scaling.converged and not m.scaling.constraint_active) for m in twice.maps))
    assume(not any("few" in flag for m in weighted.maps for flag in m.flags))  # counts rows, not weight
    assert weighted.predict(scores) == close(twice.predict(scores), 1e-6, 1e-7)


@drawn
@given(rows_of_any_kind(), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_whole_weights_count_as_repeated_rows_in_plug_in_and_mse(rows: Any, n_bins: int, seed: int) -> None:
    scores, labels, reduction = rows
    times = np.random.default_rng(seed).integers(1, 4, size=len(labels))
    options: dict[str, Any] = {"reduction": reduction, "estimator": "plugin", "bins": n_bins}
    weighted = estimate_calibration_error(scores, labels, sample_weight=times, **options)
    more = estimate_calibration_error(*repeated(scores, labels, times), **options)
    assert weighted.squared == close(more.squared)
    outcomes = labels if scores.ndim == labels.ndim else np.equal.outer(labels, np.arange(scores.shape[1]))
    assert mean_squared_error(scores, outcomes, times) == close(
        mean_squared_error(*(np.repeat(each, times, axis=0) for each in (scores, outcomes)))
    )


@drawn
@given(rows_of_any_kind(), recipes, st.sampled_from([2.0, 0.5, 3.0, 1e-3]))
def test_equal_weights_are_none(rows: Any, recipe: Any, weight: float) -> None:
    scores, labels, reduction = rows
    same = np.full(len(labels), weight)
    options = {**recipe, "reduction": reduction}
    assert fit(scores, labels, sample_weight=same, **options) == fit(scores, labels, **options)
    judged: dict[str, Any] = {"reduction": reduction, "bins": 3}
    weighted = estimate_calibration_error(scores, labels, sample_weight=same, **judged)
    assert figures(weighted) == figures(estimate_calibration_error(scores, labels, **judged))


@drawn
@given(rows_of_any_kind(), recipes, st.integers(0, 2**32 - 1))
def test_all_weights_doubled_change_nothing(rows: Any, recipe: Any, seed: int) -> None:
    """Unequal ones too, some of them 0; doubling is exact in floats."""
    scores, labels, reduction = rows
    rng = np.random.default_rng(seed)
    weights = rng.exponential(size=len(labels)) * (rng.random(len(labels)) < 0.9)
    weights[:4] = 1.0, 2.0, 0.5, 1.5
    options = {**recipe, "reduction": reduction, "parts": "shared"}
    first, second = (fit(scores, labels, sample_weight=w, **options) for w in (weights, 2 * weights))
    assert second.predict(scores) == close(first.predict(scores), 1e-9, 1e-9)
    judged: dict[str, Any] = {"reduction": reduction, "bins": 3}
    estimates = (estimate_calibration_error(scores, labels, sample_weight=w, **judged) for w in (weights, 2 * weights))
    assert same_figures(*estimates, rel=1e-9)


@drawn
@given(rows_of_any_kind(), recipes, st.integers(0, 2**32 - 1))
def test_rows_of_weight_zero_are_no_rows(rows: Any, recipe: Any, seed: int) -> None:
    scores, labels, reduction = rows
    weights = np.random.default_rng(seed).integers(0, 4, size=len(labels)) * 1.0
    weights[:4] = 1.0, 2.0, 3.0, 1.0
    held = weights > 0
    options = {**recipe, "reduction": reduction, "parts": "shared"}
    first = fit(scores, labels, sample_weight=weights, **options)
    second = fit(scores[held], labels[held], sample_weight=weights[held], **options)
    assert first.predict(scores).tobytes() == second.predict(scores).tobytes()
    assert first.facts["n_of_weight_zero"] == np.count_nonzero(~held) if not held.all() else True
    judged: dict[str, Any] = {"reduction": reduction, "bins": 3}
    whole = estimate_calibration_error(scores, labels, sample_weight=weights, **judged)
    fewer = estimate_calibration_error(scores[held], labels[held], sample_weight=weights[held], **judged)
    assert figures(whole) == figures(fewer)


# Sums


@st.composite
def counted_rows(draw: st.DrawFn) -> dict[str, Any]:
    """Rows as ``BinStatistics.from_rows`` takes them, with weights and groups or without."""
    n, n_bins = draw(st.integers(1, 60)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows: dict[str, Any] = {"index": rng.integers(0, n_bins, size=n), "outcomes": rng.integers(0, 2, size=n)}
    rows["outputs"] = rng.random(n)
    if draw(st.booleans()):
        rows["sample_weight"] = rng.exponential(size=n)
    if draw(st.booleans()):
        rows["groups"] = rng.integers(0, 9, size=n)
    return {"n_bins": n_bins, **rows}


def summed(rows: dict[str, Any], chosen: Any) -> BinStatistics:
    return BinStatistics.from_rows(**{k: v if k == "n_bins" else v[chosen] for k, v in rows.items()})


def plain(s: ErrorStatistics) -> list[float]:
    """Every number of the record."""
    numbers = [*s.counts, *s.positives, *s.outputs]
    numbers += [] if s.weights is None else [*s.weights.sums, *s.weights.squares, *s.weights.positives]
    moments = s.group_moments
    return numbers if moments is None else [*numbers, *np.ravel(moments.M), moments.L, moments.G, moments.H]


@drawn
@given(counted_rows(), st.integers(1, 5), st.randoms(use_true_random=False))
def test_chunks_merge_in_any_order(rows: Any, n_chunks: int, random: Any) -> None:
    """Counts exactly, sums to what addition order allows; one by one, and all at once."""
    n = len(rows["index"])
    chunk = np.random.default_rng(random.randrange(2**32)).integers(0, n_chunks, size=n)
    parts = [summed(rows, chunk == c) for c in range(n_chunks) if (chunk == c).any()]
    random.shuffle(parts)
    whole = summed(rows, slice(None))
    one_by_one = list(itertools.accumulate(parts, lambda first, second: first.merge(second)))[-1]
    for merged in (one_by_one, parts[0].merge(*parts[1:])):
        assert merged.counts.tolist() == whole.counts.tolist()
        assert merged.positives.tolist() == whole.positives.tolist()
        assert plain(merged.finish()) == close(plain(whole.finish()))
        assert merged.mse == close(whole.mse)


@drawn
@given(counted_rows())
def test_sums_as_json_and_back_to_the_bit(rows: Any) -> None:
    whole = summed(rows, slice(None))
    again = BinStatistics.from_json(whole.to_json())
    assert again.to_json() == whole.to_json()
    assert plain(again.finish()) == plain(whole.finish())
    finished = whole.finish()
    assert plain(ErrorStatistics.from_dict(finished.to_dict())) == plain(finished)


# What each step reads


@drawn
@given(rows_of_any_kind(), recipes, st.integers(0, 2**32 - 1))
def test_labels_of_the_second_and_third_part_are_no_matter(rows: Any, recipe: Any, seed: int) -> None:
    """Scaling-binning averages g and never labels."""
    scores, labels, reduction = rows
    rng = np.random.default_rng(seed)
    parts = np.concatenate([[1, 2, 3], rng.integers(1, 4, size=len(labels) - 3)])
    parts[:2] = parts[3:6] = 1
    parts[2], parts[-1], parts[-2] = 1, 2, 3
    others = np.where(np.expand_dims(parts == 1, tuple(range(1, labels.ndim))), labels, rng.permutation(labels))
    options = {**recipe, "method": "scaling-binning", "reduction": reduction, "parts": parts}
    assume(len(np.unique(labels[parts == 1])) > 1)
    try:
        first = fit(scores, labels, **options)
    except InvalidInputError:  # T1 of one outcome, whatever the others say
        with pytest.raises(InvalidInputError):
            fit(scores, others, **options)
        return
    second = fit(scores, others, **options)
    for a, b in zip(first.maps, second.maps, strict=True):
        assert (a.edges.tolist(), a.values.tolist()) == (b.edges.tolist(), b.values.tolist())


@drawn
@given(binary_rows(), recipes, st.integers(0, 2**32 - 1))
def test_labels_of_the_first_part_are_no_matter_to_histogram_binning(rows: Any, recipe: Any, seed: int) -> None:
    """Nor are those of T2, unless T3 leaves a bin to them."""
    z, y = rows
    parts = np.resize([1, 2, 3], len(z))
    others = np.where(parts == 1, np.random.default_rng(seed).permutation(y), y)
    options = {**recipe, "method": "histogram-binning", "parts": parts}
    assume(0 < y[parts == 3].mean() < 1)
    assert fit(z, others, **options).predict(z).tobytes() == fit(z, y, **options).predict(z).tobytes()
