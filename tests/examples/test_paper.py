"""Each figure of the paper in a short form: a few draws, the table and the picture; and the parts they are made of."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.paper import common, debiased, synthetic
from examples.paper.__main__ import FIGURES
from examples.paper.common import Interval, Settings, interval_90, ratio_90, settings_of, table_text, top_label
from examples.paper.equal_width import exact_bins as exact_beta_bins
from examples.paper.noisy import NoisyPopulation
from examples.paper.populations import FinitePopulation, PlattPopulation, exact_bins, squared_error_of
from examples.paper.published import DEBIASED, SYNTHETIC
from mlflow_calib.core.calibrator import fit_calibrator
from mlflow_calib.core.estimators import estimate_calibration_error, mean_squared_error
from mlflow_calib.core.planning import FITTED_CONSTANTS

ROOT = Path(__file__).resolve().parents[2]
#: Words that each table must hold: a published figure, or what was asked of it.
WORDS = {
    "figure3": ["6.20 ± 0.28", "4.23 ± 0.17", "0.05273", "**squared**", "paper 9 %", "not squared"],
    "top_label": ["CIFAR-10 VGG16", "CIFAR-100 WideResNet", "20.20", "13.20"],
    "synthetic": ["a = 1, c = 0", "a = 2, c = 1", "1.98 ± .11", "1.94 ± .26", "3.71 ± .15", "equal outputs merged"],
    "noisy": ["5.2 ± 1.1"],
    "catch_up": ["32,000", "100 bins"],
    "equal_width": ["equal-width", "median alpha", "worst bin's gap"],
    "debiased": ["7.9", "plug-in bias", "MSE, plug-in / debiased"],
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_command_leaves_a_table_and_a_figure(
    name: str, real_data: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = real_data("cifar10_vgg.parquet").parent
    main = importlib.import_module(f"examples.paper.{name}").main
    main(["--data", str(data), "--output", str(tmp_path), "--trials", "3"])
    text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert text in capsys.readouterr().out
    assert text.startswith("# ")
    for words in [*WORDS[name], "quared"]:
        assert words in text
    assert "nan" not in text
    picture = _pixels(tmp_path / f"{name}.png")
    assert min(picture.shape[:2]) > 400
    assert len({tuple(pixel) for row in picture[::7, ::7] for pixel in row}) > 10, "not blank"
    assert (tmp_path / f"{name}.png").stat().st_size < 80_000


def _pixels(path: Path) -> np.ndarray:
    from matplotlib.image import imread

    return imread(path)


def test_the_list_names_every_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.paper"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    modules = {path.stem for path in (ROOT / "examples" / "paper").glob("*.py") if "def main(" in path.read_text()}
    assert modules == set(FIGURES)
    for name in FIGURES:
        assert f"python -m examples.paper.{name} " in done.stdout


def test_a_command_runs_from_the_root_and_draws_the_same_again(tmp_path: Path) -> None:
    """As a process, twice: equal seeds, equal tables; another seed, another table. Synthetic data need no files."""
    texts = []
    for seed in ("0", "0", "1"):
        command = [sys.executable, "-m", "examples.paper.noisy", "--trials", "2", "--seed", seed]
        subprocess.run([*command, "--output", str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
        texts.append((tmp_path / "noisy.md").read_text(encoding="utf-8"))
    assert texts[0] == texts[1] != texts[2]


def test_missing_data_are_named_with_the_remedy(tmp_path: Path) -> None:
    from examples.paper.figure3 import main

    with pytest.raises(SystemExit, match=r"cifar10_vgg.parquet is not there; docs/paper.md says where"):
        main(["--data", str(tmp_path), "--output", str(tmp_path), "--trials", "2"])


def test_one_trial_shows_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings_of("x", ["--trials", "1"], trials=10)
    assert "--trials must be at least 2" in capsys.readouterr().err


def test_the_data_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_CALIB_DATA", "/somewhere")
    assert settings_of("x", [], trials=7).data == Path("/somewhere")
    monkeypatch.delenv("MLFLOW_CALIB_DATA")
    assert settings_of("x", [], trials=7).data == Path("../shared/data")
    assert os.fspath(settings_of("x", ["--data", "here"], trials=7).data) == "here"


# What the figures say, in fewer draws than the commands take


def test_the_synthetic_factors_are_the_published_ones() -> None:
    """a = 1, c = 0, errors by bin: within twice the joint 90 % half-width, 3.3 standard errors."""
    with common.quiet():
        errors = synthetic.measure(Settings(Path(), Path(), trials=150, seed=3), "a = 1, c = 0")
    for method, factors in SYNTHETIC["exact"].items():
        for key, text in factors.items():
            published, half_width = (float(part) for part in text.split(" ± "))
            ours = ratio_90(*getattr(errors[method], key)())
            assert abs(ours.mean - published) <= 2 * np.hypot(ours.half_width, half_width), (method, key, ours)
    assert synthetic.constants(errors) == pytest.approx(FITTED_CONSTANTS, rel=0.08)


def test_the_debiased_estimate_is_unbiased_and_better(real_data: Callable[[str], Path]) -> None:
    """Bias within 4 standard errors of zero; the ratios of the notes within a fifth, which is what a split changes."""
    data = real_data("cifar10_vgg.parquet").parent
    with common.quiet():
        found = debiased.measure(Settings(data, Path(), trials=1000, seed=0))
    for key, setting in found.items():
        bias = interval_90(setting.debiased)
        assert abs(bias.mean) <= 4 / 1.645 * bias.half_width
        assert interval_90(setting.plugin).mean > bias.mean
        ratio = ratio_90(setting.plugin**2, setting.debiased**2)
        assert ratio.mean + ratio.half_width >= 1
        if key in DEBIASED:
            assert ratio.mean == pytest.approx(DEBIASED[key], rel=0.2)


# Intervals


def test_a_90_percent_interval_covers_nine_times_in_ten() -> None:
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(2_000):
        found = interval_90(rng.exponential(size=100))
        inside.append(abs(found.mean - 1) <= found.half_width)
    assert np.mean(inside) == pytest.approx(0.89, abs=0.02)


@pytest.mark.parametrize("paired", [True, False])
def test_a_ratio_of_means_covers_too(paired: bool) -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(2_000):
        below = rng.gamma(4, size=100)
        above = 2 * below * rng.uniform(0.5, 1.5, size=100) if paired else 2 * rng.gamma(4, size=100)
        found = ratio_90(above, below)
        inside.append(abs(found.mean - 2) <= found.half_width)
    assert np.mean(inside) == pytest.approx(0.9, abs=0.025)


def test_a_table_lines_up() -> None:
    lines = table_text(["bins", "x"], [["5", "1.00 ± 0.10"], ["100", Interval(0.5, 0.25).text()]]).splitlines()
    assert lines[1] == "|-----:|------------:|"
    assert len({len(line) for line in lines}) == 1


# Populations: the errors that the figures show are those of the package


def test_a_finite_population_agrees_with_the_estimator() -> None:
    """The plug-in square on all rows is the error itself; MSE from counts is the MSE of the rows."""
    rng = np.random.default_rng(2)
    scores = rng.dirichlet([0.3] * 4, size=900)
    labels = (scores.cumsum(axis=1) < rng.uniform(size=(900, 1))).sum(axis=1).clip(max=3)
    outcomes = labels[:, None] == np.arange(4)
    calibrator = fit_calibrator(scores[:300], labels[:300], reduction="marginal", n_bins=6, parts="shared")
    judged = FinitePopulation(scores, outcomes).judge(calibrator)
    estimate = estimate_calibration_error(scores, labels, reduction="marginal", estimator="plugin", bins=calibrator)
    assert judged.squared_error == pytest.approx(estimate.squared, rel=1e-12)
    assert judged.mse == pytest.approx(mean_squared_error(calibrator.predict(scores), outcomes), rel=1e-12)


@pytest.mark.parametrize(("a", "c"), [(1, 0), (2, 1)])
def test_exact_bins_against_a_fine_grid(a: float, c: float) -> None:
    population = PlattPopulation(a, c)
    edges = np.array([1e-6, 0.03, 0.5, 0.98])
    masses, rates = exact_bins(population.rate, edges)
    z = (np.arange(2_000_000) + 0.5) / 2_000_000
    index = np.searchsorted(edges, z)
    grid = np.bincount(index, population.rate(z)) / np.bincount(index)
    np.testing.assert_allclose(rates[1:], grid[1:], atol=1e-7)
    assert masses.sum() == pytest.approx(1)
    if (a, c) == (1, 0):
        ends = np.concatenate([[0], edges, [1]])
        np.testing.assert_allclose(rates, (ends[1:] + ends[:-1]) / 2, rtol=1e-12)


def test_exact_beta_bins_against_draws() -> None:
    z = np.random.default_rng(3).beta(0.3, 3.0, size=1_000_000)
    edges = np.array([0.001, 0.1, 0.4])
    masses, rates = exact_beta_bins(edges)
    index = np.searchsorted(edges, z)
    np.testing.assert_allclose(masses, np.bincount(index) / len(z), atol=0.003)
    np.testing.assert_allclose(rates, np.bincount(index, z) / np.bincount(index), atol=0.003)


def test_scaling_alone_keeps_the_noise() -> None:
    population = NoisyPopulation(seed=0)
    rows = population.draw(np.random.default_rng(4), 20_000)
    binned, scaled = population.squared_errors(fit_calibrator(*rows, n_bins=10, parts="shared"))
    assert scaled == pytest.approx(4e-4, rel=0.2)
    assert binned < 1e-4


def test_merging_equal_outputs_lets_their_errors_cancel() -> None:
    masses, rates, values = np.array([0.5, 0.5]), np.array([0.1, 0.3]), np.array([0.2, 0.2])
    assert squared_error_of(masses, rates, values, merged=False) == pytest.approx(0.01)
    assert squared_error_of(masses, rates, values, merged=True) == pytest.approx(0.0)


def test_top_label_by_hand() -> None:
    confidence, correct = top_label(np.array([[0.2, 0.8], [0.6, 0.4]]), np.array([1, 1]))
    assert confidence.tolist() == [0.8, 0.6]
    assert correct.tolist() == [1, 0]
