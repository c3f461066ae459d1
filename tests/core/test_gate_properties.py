"""Whatever a record looks like, judging it is no exception; and what is missing never makes a pass of a fail."""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlflow_calib import Verdict, judge
from mlflow_calib.core.policy import SLICES, Policy
from mlflow_calib.core.requirement_record import STATUSES
from tests.bench.gate_records import TIME, class_record, sliced
from tests.core.conftest import CHAMPION, EVALUATED_AT, NO_CHAMPION, _record

drawn = settings(
    deadline=None, derandomize=True, max_examples=300, database=None, suppress_health_check=[HealthCheck.too_slow]
)
#: Every requirement at once, each so that the bad records fail it.
STRICT = Policy.from_dict(
    {
        "requirements": {
            "calibration_error_upper_bound": {"limit": 0.03},
            "worst_class_calibration_error_upper_bound": {"limit": 0.03},
            "slice_calibration_error_upper_bound": {"limit": 0.03, "columns": ["region"]},
            "mse_increase_over_champion": {"limit": 0.0005},
            "mse_increase_over_base": {"limit": 0.0005},
            "log_loss_increase_over_champion": {"limit": 0.0005},
            "log_loss_increase_over_base": {"limit": 0.0005},
            "calibration_error_increase_over_champion": {"limit": 0.001},
            "calibration_error_increase_over_base": {"limit": 0.001},
            "rows_per_bin": {"limit": 20},
            "n_evaluation": {"limit": 1000},
        }
    }
)
RECORDS = {
    "good, by group": functools.partial(_record, error=0.0, champion=CHAMPION),
    "bad, by group": functools.partial(_record, error=0.2, champion_error=0.15),
    "bad, by row": functools.partial(_record, error=0.2, champion_error=0.15, n_groups=None),
    "first, few rows": functools.partial(_record, n=60, n_groups=None, champion=NO_CHAMPION),
    "bad marginal": functools.partial(class_record, errors=(0, 0, 0.2)),
    "bad marginal by group": functools.partial(class_record, errors=(0, 0, 0.2), grouped=True),
    "bad per predicted class": functools.partial(class_record, "top-label-per-class", errors=(0.2, 0, 0)),
    "bad slice": functools.partial(sliced, EU=0.0, US=0.2),
}


@functools.cache
def _built(name: str) -> dict[str, Any]:
    return RECORDS[name]()


@functools.cache
def _places_of(name: str) -> list[tuple[Any, ...]]:
    return list(_places(_built(name)))


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _verdict(evidence: Any) -> Verdict:
    now = EVALUATED_AT if isinstance(evidence, dict) and "2013" in str(evidence.get("evaluated_at")) else TIME
    return judge(evidence, STRICT, now=now + timedelta(hours=1))


_DELETED = object()
#: What a figure becomes that is not there.
missing = st.sampled_from([_DELETED, None, math.nan, math.inf, -math.inf])
junk = st.one_of(
    missing,
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**400),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.just({"n": [1], "k": [2], "u": [0.5], "groups": {"M": [[1]], "L": 0, "G": 1, "H": 1}}),
)


def _changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    target: Any = record
    try:
        for key in path[:-1]:
            target = target[key]
        if value is _DELETED:
            del target[path[-1]]
        else:
            target[path[-1]] = copy.deepcopy(value)
    except (KeyError, IndexError, TypeError):
        return  # an earlier change has taken the place away


@st.composite
def changed_records(draw: st.DrawFn, values: st.SearchStrategy[Any], most: int = 3) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(sorted(RECORDS)))
    record = copy.deepcopy(_built(name))
    # Half of the changes high up: most places are cells of a moment matrix.
    places = _places_of(name)
    shallow = [path for path in places if len(path) <= 4]
    for _ in range(draw(st.integers(1, most))):
        path = draw(st.sampled_from(shallow if draw(st.booleans()) else places))
        _changed(record, path, draw(values))
    return name, record


@drawn
@given(changed_records(junk))
def test_judging_never_raises_and_its_verdict_is_plain_json(found: tuple[str, dict[str, Any]]) -> None:
    verdict = _verdict(found[1])
    assert all(requirement.status in STATUSES for requirement in verdict.requirements)
    assert Verdict.from_dict(json.loads(verdict.to_json())) == verdict


@drawn
@given(changed_records(missing))
def test_what_is_missing_never_turns_a_fail_or_an_inconclusive_into_a_pass(found: tuple[str, dict[str, Any]]) -> None:
    name, record = found
    before, after = _verdict(_built(name)), _verdict(record)
    for first, second in zip(before.requirements, after.requirements, strict=True):
        if first.status != "pass":
            assert second.status != "pass", (name, first.name)
    assert before.status == "pass" or after.status != "pass"


@drawn
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5))
def test_anything_at_all_gives_a_verdict(evidence: Any) -> None:
    assert _verdict(evidence).status == "no verdict"


@pytest.mark.parametrize("value", [1e308, -1e308, 5e-324, 10**400, math.nan, "\ud800", [], {}])
def test_every_figure_of_an_entry_may_be_beyond_all_bounds(value: Any) -> None:
    """A square of it need not be a number, a text of it need not be one."""
    for figure in _built("bad, by row")["estimates"]["candidate"]:
        record = copy.deepcopy(_built("bad, by row"))
        record["estimates"]["candidate"][figure] = value
        assert _verdict(record).status in ("no verdict", "fail"), figure


@pytest.mark.parametrize("text", ['{"schema": 1, "schema": 2}', "[" * 100_000])
def test_a_text_that_says_two_things_or_too_many(text: str) -> None:
    verdict = judge(text)
    assert verdict.status == "no verdict"
    assert "must be a record or its JSON text" in verdict.reasons[0]


@pytest.mark.parametrize("name", RECORDS)
def test_the_records_say_what_they_are_for(name: str) -> None:
    statuses = {one.name: one.status for one in _verdict(_built(name)).requirements}
    if name.startswith("bad"):
        assert "fail" in statuses.values()
    if name in ("bad, by group", "bad, by row"):
        failing = [one for one, status in statuses.items() if status == "fail"]
        assert {"calibration_error_upper_bound", "mse_increase_over_champion"} <= set(failing)
    assert (statuses[SLICES] == "fail") is (name == "bad slice")
