"""Splits by hash and by time: what they promise whatever the rows, and values that can be redone by hand."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest

from mlflow_calib.core.periods import covers, parse_moment
from mlflow_calib.core.split import (
    Period,
    count_overlap,
    hash_split,
    parse_period,
    read_split,
    resolve_periods,
    splitmix64,
    thirds,
)
from mlflow_calib.errors import InvalidInputError

moment = datetime  # a time without a zone is what some tables hold


def hashes(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def test_splitmix64_is_the_published_one() -> None:
    """First outputs of SplitMix64 seeded with 0 are those of the states 0, golden, 2 golden (Vigna's splitmix64.c)."""
    golden = 0x9E3779B97F4A7C15
    states = np.array([0, golden, 2 * golden % 2**64], dtype=np.uint64)
    assert splitmix64(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_hash_split_has_its_fraction_and_depends_on_key_and_seed_alone(fraction: float) -> None:
    keys = hashes(40_000)
    chosen = hash_split(keys, fraction, seed=7)
    assert abs(chosen.mean() - fraction) < 5 * np.sqrt(fraction * (1 - fraction) / len(keys))
    order = np.random.default_rng(1).permutation(len(keys))
    assert (hash_split(keys[order], fraction, seed=7) == chosen[order]).all()
    other = hash_split(keys, fraction, seed=8)
    agreement = fraction**2 + (1 - fraction) ** 2
    assert abs((other == chosen).mean() - agreement) < 0.02


def test_hash_split_of_sequential_keys_is_even() -> None:
    """Even keys that were never hashed are spread: all 64 bits are mixed."""
    assert abs(hash_split(np.arange(10_000, dtype=np.uint64)).mean() - 0.5) < 0.02


def test_hash_split_refuses_fraction_and_seed_at_once() -> None:
    with pytest.raises(InvalidInputError, match=r"(?s)evaluation_fraction.*1\.0.*seed.*-1"):
        hash_split(hashes(3), 1.0, seed=-1)


@pytest.mark.parametrize(("n", "sizes"), [(0, [0, 0, 0]), (1, [1, 0, 0]), (5, [2, 2, 1]), (6, [2, 2, 2])])
def test_thirds(n: int, sizes: list[int]) -> None:
    parts = thirds(n)
    assert [int((parts == part).sum()) for part in (1, 2, 3)] == sizes
    assert (np.diff(parts) >= 0).all()


@pytest.mark.parametrize("shared", [0, 1, 500])
def test_overlap_is_counted(shared: int) -> None:
    """N19: one shared row among a thousand is seen."""
    keys = hashes(2000)
    a, b = keys[:1000], keys[1000 - shared : 2000 - shared]
    assert count_overlap(np.sort(a), np.sort(b)) == shared == count_overlap(np.sort(b), np.sort(a))


def test_overlap_of_nothing_and_of_the_unsorted() -> None:
    empty = np.array([], dtype=np.uint64)
    assert count_overlap(empty, hashes(0)) == count_overlap(np.sort(hashes(3)), empty) == 0
    with pytest.raises(InvalidInputError, match="sorted_b must be sorted"):
        count_overlap(np.sort(hashes(3)), np.array([2, 1], dtype=np.uint64))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2013-11-01/2013-12-01", moment(2013, 11, 1)),
        ("2013-11-01T00:00:00Z/2013-12-01T00:00:00Z", datetime(2013, 11, 1, tzinfo=timezone.utc)),
        ("2013-11-01 00:00:00+00:00/2013-12-01 00:00:00+00:00", datetime(2013, 11, 1, tzinfo=timezone.utc)),
    ],
)
def test_periods_are_read(text: str, start: datetime) -> None:
    period = parse_period(text)
    assert period.start == start
    assert parse_period(str(period)) == period


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2013-11-01", "A/B"),
        ("2013-11-01/P30D", "P30D"),
        ("2013-12-01/2013-11-01", "end after it starts"),
        ("2013-11-01/2013-11-01", "end after it starts"),
        ("2013-11-01/2013-12-01T00:00:00Z", "zone at both ends"),
    ],
)
def test_other_periods_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_period(text, "evaluation_period")


def test_days_count_back_from_as_of_minus_the_delay() -> None:
    """evaluation = [as_of - delay - 30, as_of - delay), recalibration the 60 days before; texts serve as numbers."""
    split = {"how": "time", "recalibration_days": "60", "evaluation_days": "30", "label_delay_days": "7"}
    as_of = datetime(2013, 12, 31, 6, tzinfo=timezone.utc)
    recalibration, evaluation = resolve_periods(split, as_of.isoformat())
    assert evaluation == Period(as_of - timedelta(37), as_of - timedelta(7))
    assert recalibration == Period(as_of - timedelta(97), as_of - timedelta(37))
    assert resolve_periods(split, as_of) == (recalibration, evaluation)
    assert resolve_periods(split, date(2013, 12, 31))[1].end == moment(2013, 12, 24)


def test_periods_win_over_days_and_empty_entries_are_absent() -> None:
    split = {
        "how": "time",
        "recalibration_period": "2013-11-01/2013-12-01",
        "evaluation_period": "2013-12-01/2014-01-01",
        "recalibration_days": 30,
        "evaluation_fraction": "",
        "seed": None,
    }
    assert resolve_periods(split) == (
        parse_period("2013-11-01/2013-12-01"),
        parse_period("2013-12-01/2014-01-01"),
    )


@pytest.mark.parametrize("split", [None, {"how": "hash"}, {"how": "given", "recalibration_period": " "}])
def test_no_periods_where_the_split_is_not_by_time(split: dict | None) -> None:
    assert resolve_periods(split) is None


def test_hash_entries_may_be_texts() -> None:
    plan = read_split({"how": "hash", "evaluation_fraction": "0.25", "seed": "3"})
    assert (plan.evaluation_fraction, plan.seed) == (0.25, 3)
    assert read_split({"how": "hash"}) == read_split({"how": "hash", "evaluation_fraction": 0.5, "seed": 0.0})


@pytest.mark.parametrize(
    ("split", "messages"),
    [
        ({}, ["how", "hash, time, given"]),
        ("hash", ["must be a dict"]),
        ({"how": "random"}, ["'random'"]),
        ({"how": "hash", "evaluation_fraction": 1.5, "seed": "x"}, ["evaluation_fraction", "1.5", "seed", "'x'"]),
        ({"how": "hash", "recalibration_days": 30, "sed": 1}, ['belongs to how="time"', "no entry 'sed'"]),
        ({"how": "time"}, ["recalibration_days", "evaluation_days"]),
        (
            {"how": "time", "recalibration_days": 0, "evaluation_days": -1, "label_delay_days": "a"},
            ["got 0", "got -1", "got 'a'"],
        ),
        ({"how": "time", "recalibration_days": float("nan"), "evaluation_days": 1e9}, ["got nan", "1000000000"]),
        ({"how": "time", "evaluation_period": "2013"}, ["given together", "A/B"]),
        (
            {
                "how": "time",
                "recalibration_period": "2013-01-01/2013-03-01",
                "evaluation_period": "2013-02-01/2013-04-01",
            },
            ["must not overlap"],
        ),
    ],
)
def test_a_wrong_split_is_refused_with_everything_that_is_wrong(split: dict, messages: list[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_split(split)
    for message in messages:
        assert message in str(raised.value)


def test_days_need_a_moment_to_count_back_from() -> None:
    with pytest.raises(InvalidInputError, match="as_of must be given"):
        resolve_periods({"how": "time", "recalibration_days": 1, "evaluation_days": 1}, "")
    with pytest.raises(InvalidInputError, match="as_of must be a date or time"):
        resolve_periods({"how": "time", "recalibration_days": 1, "evaluation_days": 1}, "yesterday")


def test_periods_cover_what_they_hold_together() -> None:
    november, december = parse_period("2013-11-01/2013-12-01"), parse_period("2013-12-01/2014-01-01")
    both = parse_period("2013-11-15T00:00:00Z/2013-12-15T00:00:00Z")
    assert covers([december, november], both)
    assert not covers([november], both)
    assert not covers([december], both)
    assert not covers([], both)


def test_a_moment_is_a_date_or_a_time() -> None:
    assert parse_moment(date(2013, 1, 2)) == moment(2013, 1, 2) == parse_moment(" 2013-01-02 ")
