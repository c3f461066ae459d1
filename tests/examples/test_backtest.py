"""The backtests: decisions follow from the evidence alone, which the next period never enters."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.backtest import flights, nba, page
from examples.backtest.aftermath import on_earlier, watches
from examples.backtest.page import with_section
from examples.backtest.periods import Period, joined
from examples.backtest.picture import picture
from examples.backtest.replay import ALL, Turn, replay
from mlflow_calib.core.estimators import estimate_calibration_error
from mlflow_calib.core.evidence import check_evidence
from mlflow_calib.core.policy import Policy
from mlflow_calib.core.verdict import judge

POLICY = Policy.from_dict(nba.POLICIES["as the flights"])


def drifting(rates: list[float], n: int = 4000) -> list[Period]:
    """Periods of 40 days whose base model says a uniform share around .3, and whose level moves: a known drift."""
    rng = np.random.default_rng(3)
    periods = []
    for number, rate in enumerate(rates):
        scores = rng.uniform(0.1, 0.5, n)
        labels = (rng.uniform(size=n) < scores + rate - 0.3).astype(int)
        first = np.datetime64("2020-01-01") + 40 * number
        days = (first + np.sort(rng.integers(0, 40, n))).astype(str)
        periods.append(Period(f"period {number}", scores, labels, days))
    return periods


@pytest.fixture(scope="module")
def periods() -> list[Period]:
    """Calm, calm, a jump of .3, and calm again."""
    return drifting([0.3, 0.3, 0.3, 0.6, 0.6])


@pytest.fixture(scope="module")
def turns(periods: list[Period]) -> list[Turn]:
    return replay(periods, POLICY)


@pytest.fixture(scope="module")
def seasons(real_data: Callable[[str], Path]) -> list[Period]:
    return nba.read_periods(real_data("nba_games.csv").parent)[:4]


def assert_consistent(turns: list[Turn], limit: float, margin: float) -> None:
    """Every verdict follows from the record, and the alias from the verdicts."""
    champion = 1
    for turn in turns:
        assert check_evidence(dict(turn.record)) == []
        assert turn.champion_before == champion
        assert int(turn.record["champion"]["version"]) == champion
        mse = turn.verdict.requirement("mse_increase_over_champion")
        upper = turn.record["estimates"]["candidate"]["upper_bound"]
        within = upper <= limit and mse.upper <= margin and turn.record["data"]["n"] >= 1000
        assert turn.passed == within
        champion = turn.version if within else champion
        assert turn.champion_after == champion


def test_decisions_follow_from_the_evidence(turns: list[Turn]) -> None:
    assert_consistent(turns, 0.10, 0.005)
    assert [turn.verdict.status for turn in turns] == ["pass", "pass", "fail", "pass"]


def test_decisions_on_real_seasons(seasons: list[Period]) -> None:
    for name, (limit, margin) in {"defaults": (0.05, 0.002), "as the flights": (0.10, 0.005)}.items():
        assert_consistent(replay(seasons, Policy.from_dict(nba.POLICIES[name])), limit, margin)


def test_figures_are_those_of_the_calibrator_on_the_period(turns: list[Turn], periods: list[Period]) -> None:
    for at, turn in enumerate(turns, start=1):
        for period, shown in zip(periods[at:], (turn.now, turn.then), strict=False):
            estimate = estimate_calibration_error(period.scores, period.labels, bins=turn.candidate, groups=period.days)
            assert shown["candidate"].error == pytest.approx(estimate.root)
            assert shown["candidate"].upper == pytest.approx(estimate.upper_bound(0.95))
            assert shown["candidate"].lower == pytest.approx(estimate.lower_bound(0.95))
            outputs = turn.candidate.predict(period.scores)
            assert shown["candidate"].mse == pytest.approx(((outputs - period.labels) ** 2).mean())
            assert shown["candidate"].gap == pytest.approx(outputs.mean() - period.labels.mean())


def test_the_next_period_shows_the_pass_that_went_wrong(turns: list[Turn]) -> None:
    """The level jumps by .3 after the second pass, which no row that it was judged on could say."""
    assert [turn.outcome for turn in turns] == ["within the limit", "past the limit", "past the limit", None]
    assert turns[1].then["candidate"].gap == pytest.approx(-0.3, abs=0.03)


def test_the_gate_never_sees_the_next_period(periods: list[Period], turns: list[Turn]) -> None:
    """Other labels in the last period change no decision before it."""
    turned = replace(periods[-1], labels=1 - periods[-1].labels)
    other = replay([*periods[:-1], turned], POLICY)
    assert [turn.record for turn in other[:-1]] == [turn.record for turn in turns[:-1]]
    assert abs(other[-2].then["candidate"].error - turns[-2].then["candidate"].error) > 0.05


def test_records_can_be_judged_again(turns: list[Turn]) -> None:
    from examples.backtest.replay import period_end

    for turn in turns:
        again = judge(turn.record, POLICY, now=period_end(turn.record))
        assert again.to_dict() == turn.verdict.to_dict()


def test_a_watch_tells_within_days_and_stays_silent_without_drift(periods: list[Period], turns: list[Turn]) -> None:
    calm, broken = watches(turns, periods, 0.10)
    assert (calm.version, calm.alarm) == (2, None)
    assert broken.version == 3
    assert broken.alarm is not None
    jump = np.datetime64(periods[3].days[0])
    assert jump < np.datetime64(broken.alarm) < jump + 28
    assert (broken.first_day, broken.last_day) == (periods[3].days[0], periods[4].days[-1])


def test_earlier_periods_are_those_before_the_fit(periods: list[Period], turns: list[Turn]) -> None:
    shown = on_earlier(turns[-1], periods)
    assert [one.period for one in shown] == ["period 0", "period 1", "period 2"]
    assert all(one.reading(0.10) == "past the limit" for one in shown), "fitted on the level after the jump"
    assert on_earlier(turns[0], periods) == []


def test_a_longer_memory_joins_the_periods(periods: list[Period]) -> None:
    first, *_, last = replay(periods, POLICY, history=ALL)
    assert (first.recalibrated_on, last.recalibrated_on) == ("period 0", "period 0 to period 3")
    assert joined(periods[:2]).n == periods[0].n + periods[1].n


def test_the_parts_of_the_flights_page(periods: list[Period]) -> None:
    parts, turns = flights.sections(periods, POLICY)
    text = "\n".join(parts)
    for words in (
        "**pass**",
        "past the limit",
        "of the squared calibration error",
        "first, on the last 28 days",
        "all months",
    ):
        assert words in text
    assert "nan" not in text
    assert len(picture({"a": turns}, "title").axes) == 1


def test_the_command_rewrites_its_section_alone(
    real_data: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from matplotlib.image import imread

    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    shutil.copyfile(page.DOCS / "backtest.md", docs / "backtest.md")
    before = (docs / "backtest.md").read_text(encoding="utf-8")
    monkeypatch.setattr(page, "DOCS", docs)
    data = real_data("nba_games.csv").parent
    nba.main(["--data", str(data), "--output", str(tmp_path / "out"), "--docs"])
    after = (docs / "backtest.md").read_text(encoding="utf-8")
    written = (tmp_path / "out" / "nba.md").read_text(encoding="utf-8").strip()
    assert written in after
    assert written in capsys.readouterr().out
    assert with_section(after, "nba", "") == with_section(before, "nba", "")
    assert min(imread(docs / "images" / "backtest_nba.png").shape[:2]) > 400


def test_missing_data_and_markers_are_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"nba_games.csv is not there; docs/backtest.md says where"):
        nba.read_periods(tmp_path)
    with pytest.raises(SystemExit, match="must hold the markers"):
        with_section("no markers", "nba", "text")
