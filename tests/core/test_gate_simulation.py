"""How often the gate is wrong: ``python -m tests.bench.gate`` with fewer draws (docs/gate_simulation.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.evidence import estimate_entry
from mlflow_calib.core.jackknife import JackknifeSums, jackknife_difference
from mlflow_calib.core.log_losses import LossSums, PairedLossSums, row_log_losses
from mlflow_calib.core.paired import PairedSums
from tests.bench import gate, gate_pairs
from tests.bench.gate_pairs import WHAT
from tests.bench.gate_records import judged, record
from tests.bench.populations import class_settings, group_settings, rows_settings, thin_settings

ROWS = [name for name, one in rows_settings().items() if one.n_bins <= 20]
GROUPS = [name for name, one in group_settings().items() if one.n_groups == 30]
CLASSES = [name for name, one in class_settings().items() if one.n_classes == 2]
PAIRS = dict(gate_pairs.settings())
QUICK = [name for name in PAIRS if "1,000 rows" in name or "30 groups, equal" in name]


def most(level: float, draws: int) -> float:
    """Three standard errors above the rate that the full simulation shows."""
    return level + 3 * math.sqrt(level * (1 - level) / draws)


def hold(outcome: gate.Outcome, draws: int, false_pass: float = 0.06) -> None:
    assert (outcome.false_pass or 0.0) <= most(false_pass, draws)
    assert outcome.false_fail <= most(0.07, draws)


@pytest.mark.parametrize("name", ROWS)
def test_wrong_verdicts_by_row_are_rare(name):
    hold(gate.of_rows(name, rows_settings()[name], 600, seed=1), 600)


@pytest.mark.parametrize("name", GROUPS)
def test_wrong_verdicts_by_group_are_rare(name):
    hold(gate.of_groups(name, group_settings()[name], 300, seed=1), 300, 0.08)


@pytest.mark.parametrize("name", CLASSES)
def test_wrong_verdicts_of_classes_are_rare(name):
    hold(gate.of_classes(name, class_settings()[name], 150, seed=1), 150)


@pytest.mark.parametrize("name", thin_settings())
def test_thin_data_are_let_decide_only_where_they_can(name):
    hold(gate.of_rows(name, thin_settings()[name], 600, seed=1), 600)


def test_power():
    many, few = gate.power(10_000, 2_000), gate.power(300, 2_000)
    assert many.shares(0.03)[0] >= 0.95
    passed, failed = few.shares(0.03)
    assert passed <= most(0.01, 2_000)
    assert failed <= most(0.06, 2_000)


@pytest.mark.parametrize("name", QUICK)
def test_wrong_comparisons_are_rare(name):
    pair = PAIRS[name]
    for what, bounds in gate_pairs.simulate(pair, 400, seed=1).items():
        truth = pair.truth[what]
        assert bounds.shares(truth - 1e-9)[0] <= most(0.06, 400), what
        assert bounds.shares(truth + 1e-9)[1] <= most(0.07, 400), what


def test_roots_jackknifed_themselves_pass_worse_models():
    """Near zero a root is no smooth figure: the reason for comparing squares."""
    pair = PAIRS["worse by .01, champion right; 1,000 rows"]
    limit = pair.truth["calibration_error"] - 1e-9
    roots = gate_pairs.simulate_other_rules(pair, 300)[gate_pairs.OTHER_RULES[0]]
    assert roots.shares(limit)[0] > 0.3
    assert gate_pairs.simulate(pair, 300)["calibration_error"].shares(limit)[0] <= most(0.06, 300)


@pytest.mark.parametrize("name", ["worse by .05; 4,000 rows", "better by .03; 30 groups, sigma 1"])
def test_the_bounds_that_are_counted_are_those_that_judge_reads(name):
    pair = PAIRS[name]
    counts, positives = pair.draw(np.random.default_rng(3), 3)
    expected = gate_pairs.bounds_of(pair, counts, positives)
    for draw in range(3):
        evidence = _evidence(pair, counts[draw], positives[draw])
        for what in WHAT:
            requirement = f"{what}_increase_over_champion"
            found = judged(evidence, requirement, limit=pair.truth[what]).requirement(requirement)
            bounds = [float(side[draw]) for side in (expected[what].lower, expected[what].upper)]
            assert [found.lower, found.upper] == pytest.approx(bounds, rel=1e-7, abs=1e-12)
            passes = expected[what].usable[draw] and bounds[1] <= pair.truth[what]
            assert (found.status == "pass") == passes


def _evidence(pair, counts, positives):
    pattern, y, block = gate_pairs.rows_of(counts, positives)
    groups = None if pair.n_groups is None else block
    entries, losses, jackknives = [], [], []
    for model in (pair.candidate, pair.champion):
        index, outputs = model.bins[pattern], model.outputs[pattern]
        sums = BinStatistics.from_rows(outputs, y, index, model.n_bins, values=model.u, groups=groups)
        logs = row_log_losses(outputs, y)
        entries.append(estimate_entry(sums.finish(), sums.mse, log_loss=LossSums.from_rows(logs).mean))
        losses.append(((outputs - y) ** 2, logs))
        jackknives.append(JackknifeSums.from_rows(outputs, y, index, model.n_bins, block, values=model.u))
    comparisons = {
        "mse_increase_over_champion": PairedSums.from_rows(losses[0][0], losses[1][0], groups).finish(),
        "log_loss_increase_over_champion": PairedLossSums.from_rows(losses[0][1], losses[1][1], groups).finish(),
        "calibration_error_increase_over_champion": jackknife_difference(*jackknives, n_groups=pair.n_groups),
    }
    return record(entries[0], champion=entries[1], comparisons=comparisons, n_groups=pair.n_groups)
