"""The reliability diagram shows every bin with its interval and its count."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.container import BarContainer, ErrorbarContainer
from scipy import stats

from mlflow_calib.core.intervals import ErrorStatistics
from mlflow_calib.errors import InvalidInputError
from mlflow_calib.report.reliability import clopper_pearson, reliability_diagram

#: Bins of 60, 40, no and 5 rows, of falling outputs.
CURVE = ([60, 40, 0, 5], [12, 30, 0, 0], [0.2, 0.7, 0.5, 0.05])


def _points(axes: Any, position: int = 0) -> Any:
    containers = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    return containers[position]


def test_points_intervals_and_counts_are_those_of_the_bins() -> None:
    """N13, N14: counts and intervals for each bin, and the empty bin named."""
    above, below = reliability_diagram({"calibrated": CURVE}).axes
    line, _, (bars,) = _points(above).lines
    assert line.get_xydata().tolist() == [[0.05, 0.0], [0.2, 12 / 60], [0.7, 30 / 40]]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    for (lower, upper), n, k in zip(ends, (5, 60, 40), (0, 12, 30), strict=True):
        exact = stats.binomtest(k, n).proportion_ci(0.95, "exact")
        assert lower == pytest.approx(exact.low)
        assert upper == pytest.approx(exact.high)
    (counts,) = (one for one in below.containers if isinstance(one, BarContainer))
    assert sorted(bar.get_height() for bar in counts) == [5, 40, 60]
    assert "1 of 4 bins empty" in above.get_legend().get_texts()[1].get_text()


def test_the_legend_says_the_root_of_the_debiased_error() -> None:
    statistics = ErrorStatistics([500, 500], [150, 350], [0.1, 0.9])  # both gaps .2
    above, _ = reliability_diagram({"base model": statistics}, title="flights version 2").axes
    legend = above.get_legend()
    squared = 0.2**2 - 0.3 * 0.7 / 499
    assert legend.get_texts()[1].get_text() == f"base model: calibration error {squared**0.5:.3f}, 1,000 rows"
    assert legend.get_title().get_text() == "flights version 2"


def test_series_are_told_apart_without_colour_and_none_hides_another() -> None:
    n, k, u = CURVE
    curves = {
        "candidate": CURVE,
        "base model": {"n": n, "k": k, "u": u, "groups": None},
        "rival": ErrorStatistics(*CURVE),
    }
    above, below = reliability_diagram(curves).axes
    assert len({_points(above, position).lines[0].get_marker() for position in range(3)}) == 3
    assert len({_points(above, position).lines[0].get_color() for position in range(3)}) == 3
    lefts = [bar.get_x() for container in below.containers for bar in container]
    assert len(lefts) == len({round(left, 9) for left in lefts}) == 9


def test_it_draws_a_picture_and_leaves_pyplot_alone(tmp_path: Path) -> None:
    path = tmp_path / "reliability.png"
    program = (
        "import sys; from mlflow_calib.report.reliability import reliability_diagram as draw; "
        "assert 'matplotlib' not in sys.modules; "
        f"draw({{'calibrated': {CURVE}}}).savefig({str(path)!r}); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({}, "curves must hold 1 to 6 named series, got 0"),
        ({str(i): CURVE for i in range(7)}, "got 7"),
        ({"a": ([1], [0])}, "curve 'a' must hold n, k and u"),
        ({"a": {"n": [1], "k": [0]}}, "curve 'a' must hold n, k and u"),
        ({"a": ([1], [2], [0.5])}, "curve 'a' must hold n, k and u"),
        ({"a": None}, "curve 'a' must hold n, k and u"),
    ],
)
def test_what_is_no_series_is_refused_by_name(curves: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        reliability_diagram(curves)


@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_clopper_pearson_covers_at_least_what_it_says(n: int) -> None:
    k = np.arange(n + 1)
    lower, upper = clopper_pearson(np.full(n + 1, n), k)
    for p in (0.001, 0.02, 0.3, 0.5, 0.97):
        assert stats.binom.pmf(k[(lower <= p) & (p <= upper)], n, p).sum() >= 0.95
