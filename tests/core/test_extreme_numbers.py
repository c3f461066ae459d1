"""Numbers at the ends of the range of floats: weights, log odds, limits of the planner."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import mlflow_calib as mc
from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.intervals import noise_floor, rows_that_would_settle
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

METHODS = ("scaling-binning", "scaling-binning-shrunk", "histogram-binning")


def draw(n: int = 400) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=n)
    return scores, (rng.uniform(size=n) < scores).astype(int), rng.integers(1, 6, size=n).astype(float)


@pytest.mark.parametrize("factor", [2.0**1000, 2.0**-1000, 2.0**-1060, 2.0**300])
@pytest.mark.parametrize("method", METHODS)
def test_only_proportions_of_weights_matter_whatever_their_size(method: str, factor: float) -> None:
    """N15: powers of two leave every bit of the proportions."""
    scores, labels, weights = draw()
    options: dict[str, Any] = {"n_bins": 4, "method": method, "parts": "shared"}
    plain = mc.fit_calibrator(scores, labels, sample_weight=weights, **options)
    scaled = mc.fit_calibrator(scores, labels, sample_weight=weights * factor, **options)
    assert scaled.predict(scores) == pytest.approx(plain.predict(scores), abs=1e-12)
    judged = [
        mc.estimate_calibration_error(scores, labels, bins=4, sample_weight=w, groups=np.arange(400) % 40)
        for w in (weights, weights * factor)
    ]
    assert judged[1].squared == pytest.approx(judged[0].squared, rel=1e-9)
    assert judged[1].upper_bound() == pytest.approx(judged[0].upper_bound(), rel=1e-9)


@pytest.mark.parametrize("figure", [mc.expected_calibration_error, mc.mean_squared_error, mc.log_loss, mc.accuracy])
def test_figures_of_huge_weights(figure: Any) -> None:
    scores, labels, weights = draw()
    huge = figure(scores, labels, sample_weight=weights * 2.0**1020)
    assert huge == pytest.approx(figure(scores, labels, sample_weight=weights), rel=1e-12)


def test_a_weight_of_next_to_nothing_leaves_its_row_out() -> None:
    scores, labels, _ = draw()
    weights = np.where(np.arange(400) < 100, 1e-300, 1e300)
    calibrator = mc.fit_calibrator(scores, labels, n_bins=4, sample_weight=weights)
    assert (calibrator.facts["n"], calibrator.facts["n_of_weight_zero"]) == (300, 100)
    without = mc.fit_calibrator(scores[100:], labels[100:], n_bins=4)
    assert calibrator.predict(scores) == pytest.approx(without.predict(scores), abs=1e-12)
    with pytest.raises(InvalidInputError, match="must hold rows of both classes"):
        mc.fit_calibrator(scores, labels, sample_weight=np.where(np.arange(400) == 0, 1e300, 1.0))


def test_tiny_weights_among_others_shrink_as_what_they_are_worth() -> None:
    """A bin of weights whose squares are 0 beside those of another bin is worth its rows."""
    scores, labels, _ = draw()
    weights = np.where(scores < 0.5, 1e-14, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator = mc.fit_calibrator(scores, labels, n_bins=2, method="scaling-binning-shrunk", sample_weight=weights)
    assert np.isfinite(calibrator.predict(scores)).all()


def test_parts_of_one_whole_keep_their_own_unit_of_weight() -> None:
    """Sums of squares must be floats, and a part may hold rows of weight 0 alone."""
    for size in (1e200, 1e-200):
        with pytest.raises(InvalidInputError, match="multiply the weights of all parts"):
            BinStatistics.from_rows([0.2, 0.7], [0, 1], [0, 1], 2, sample_weight=[size, 2 * size])
    nothing = BinStatistics.from_rows([0.2, 0.7], [0, 1], [0, 1], 2, sample_weight=[0, 0])
    whole = BinStatistics.from_rows([0.2, 0.7], [0, 1], [0, 1], 2, sample_weight=[1, 3]).merge(nothing)
    assert whole.finish().shares.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("family", ["platt", "quadratic", "beta", "temperature", "auto"])
def test_log_odds_whose_squares_are_no_floats_are_refused(family: str) -> None:
    scores, labels, _ = draw()
    log_odds = np.log(scores / (1 - scores))
    options: dict[str, Any] = {"score_kind": "logit", "scaling": family, "n_bins": 4}
    for wild in (np.where(np.arange(400) == 7, -1e308, log_odds), log_odds * 1e155):
        with pytest.raises(InvalidInputError, match=r"log odds must lie within 1e\+100 of 0.*rows do not hold it: row"):
            mc.fit_calibrator(wild, labels, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        calibrator = mc.fit_calibrator(np.where(np.arange(400) == 7, -1e99, log_odds), labels, **options)
    outputs = calibrator.predict(np.array([-1e308, -3.0, 0.0, 3.0, 1e308]))
    assert np.isfinite(outputs).all()
    assert (np.diff(outputs) >= 0).all()


def test_the_planner_at_its_ends() -> None:
    with pytest.raises(InvalidInputError, match="n must be at least one row a bin"):
        mc.noise_floor_of(math.inf, 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="at most 1, got 2"):
        mc.rows_to_verify(2, 10)
    with pytest.raises(InvalidInputError, match="error must lie"):
        mc.rows_to_fit(1e-300, 10)
    with pytest.raises(InvalidInputError) as caught:
        mc.rows_to_verify("x", 0, 95, pass_probability=None, rates="y")  # type: ignore[arg-type]
    said = str(caught.value)
    for name in ("confidence_level", "pass_probability", "n_bins", "limit_root"):
        assert f"- {name} must" in said


@pytest.mark.parametrize("reduction", ["binary", "marginal"])
def test_the_noise_floor_by_group_has_no_part_of_the_gaps(reduction: str) -> None:
    """Where gaps are zero the groups' c is not defined, and that of the rows stands; so in evidence and estimate."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), 50)
    tilt = rng.normal(0, 0.25, 40)[groups]
    outputs = rng.choice([0.2, 0.4, 0.6, 0.8], size=2000)
    labels = (rng.uniform(size=2000) < np.clip(outputs + 0.1 + tilt, 0, 1)).astype(int)
    estimate = mc.estimate_calibration_error(outputs, labels, bins="distinct", groups=groups)
    assert float(estimate.terms.c) > 1.5 * float(estimate.terms.c_of_rows), "the groups' c is the larger one"
    if reduction == "marginal":
        both = np.column_stack([1 - outputs, outputs])
        marginal = mc.estimate_calibration_error(both, labels, bins="distinct", reduction=reduction, groups=groups)
        assert marginal.noise_floor() == pytest.approx(estimate.noise_floor(), rel=0.02)
    assert estimate.noise_floor() == pytest.approx(noise_floor(estimate.statistics[0]), rel=1e-12)
    floor = estimate.terms.floor(0.95)
    t = 1.684875  # Student's t of 39 degrees of freedom at .95
    c, v0 = estimate.terms.c_of_rows, estimate.terms.v0
    assert floor == pytest.approx((t**2 * c + math.sqrt(t**4 * c**2 + 4 * t**2 * v0)) / 2, rel=1e-5)


def test_scores_that_calibration_leaves_alone_are_base_scores_too() -> None:
    """Base and calibrated scores are one and the same there, so that judging them is no mistake."""
    scores = np.repeat([0.25, 0.75], 400)
    labels = np.concatenate([np.repeat([0, 1], [300, 100]), np.repeat([0, 1], [100, 300])])
    with pytest.warns(CalibrationWarning, match="fewer-bins"):
        calibrator = mc.fit_calibrator(scores, labels, method="histogram-binning", n_bins=10)
    assert calibrator.predict(scores).tolist() == scores.tolist()
    estimate = mc.estimate_calibration_error(scores, labels, bins=calibrator)
    by_value = mc.estimate_calibration_error(scores, labels, bins="distinct")
    assert estimate.upper_bound() == by_value.upper_bound()


DAMAGED = {
    "negative": ("[10,20]", "[-10,20]"),
    "fraction": ("[10,20]", "[10.5,20]"),
    "positives": ("[1,15]", "[100,15]"),
    "value": ('"values":[0.1,0.7]', '"values":[0.1,7]'),
    "values": ('"values":[0.1,0.7]', '"values":[0.1]'),
    "sums": ('"output_sums":[1', '"output_sums":[99'),
    "weights": ('"weights":null', '"weights":{"w":[1],"w2":[1],"wk":[1]}'),
    "groups": ('"groups":null', '"groups":{"ids":["a"],"shape":[1,2],"cells":[[0],[0],[9],[1]]}'),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_sums_that_cannot_be_of_rows_are_refused(damage: str) -> None:
    text = BinStatistics.from_counts([10, 20], [1, 15], [0.1, 0.7]).to_json()
    before, after = DAMAGED[damage]
    assert before in text
    with pytest.raises(mc.errors.EvidenceError, match="bin statistics are damaged"):
        BinStatistics.from_json(text.replace(before, after))


@pytest.mark.parametrize(
    ("counts", "positives", "values"),
    [([-1, 2], [0, 1], [0.1, 0.2]), ([1, 2], [5, 1], [0.1, 0.2]), ([1.5, 2], [1, 1], [0.1, 0.2]), ([1], [1], [1.1])],
)
def test_counts_that_cannot_be_of_rows_are_refused(counts: Any, positives: Any, values: Any) -> None:
    with pytest.raises(InvalidInputError):
        BinStatistics.from_counts(counts, positives, values)


def test_groups_read_back_still_merge() -> None:
    rows = ([0.2, 0.7, 0.7], [0, 1, 0], [0, 1, 1], 2)
    part = BinStatistics.from_rows(*rows, groups=["b", "a", "b"])
    read = BinStatistics.from_json(part.to_json())
    assert isinstance(read.group_table, GroupTable)
    assert read.merge(part).finish().to_dict() == part.merge(part).finish().to_dict()
    with pytest.raises(InvalidInputError, match="parts must be BinStatistics"):
        part.merge(5)  # type: ignore[arg-type]


def test_weighted_rows_settle_by_what_they_are_worth() -> None:
    """Half the rows of weight 1 and half of 2: 400 rows of a bin are worth (200 + 400)^2 / (200 + 800) = 360."""
    outputs, index = np.repeat([0.3, 0.7], 400), np.repeat([0, 1], 400)
    weights = np.tile([1.0, 2.0], 400)
    outcomes = np.concatenate([np.repeat([1, 0], [120, 280]), np.repeat([1, 0], [280, 120])])  # .3 and .7 in each half
    weighted = BinStatistics.from_rows(outputs, outcomes, index, 2, [0.3, 0.7], sample_weight=weights).finish()
    plain = BinStatistics.from_counts([360, 360], [108, 252], [0.3, 0.7]).finish()
    assert weighted.effective_counts.tolist() == [360, 360]
    needed, as_plain = (rows_that_would_settle(s, 0.04) for s in (weighted, plain))
    assert needed is not None
    assert as_plain is not None
    assert as_plain > 720
    assert needed == pytest.approx(as_plain * 800 / 720, abs=2)
