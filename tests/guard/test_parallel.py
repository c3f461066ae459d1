"""Two hundred requests at once: no wrong state, no 5xx, and of two competing promotions exactly one wins."""

from __future__ import annotations

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import Served
from .registry import Version

REQUESTS, THREADS = 200, 24


def _all_at_once(served: Served, calls: list[tuple[str, str, dict[str, str]]]) -> list[tuple[dict[str, str], int]]:
    rest = served.endpoints[0]
    random.Random(4).shuffle(calls)  # noqa: S311 - an order, no secret
    with ThreadPoolExecutor(THREADS) as pool:
        answers = pool.map(lambda call: (call[2], rest(call[0], call[1], **call[2]).status_code), calls)
        return list(answers)


def test_of_competing_promotions_exactly_one_wins(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    first = registry.promoted(name)
    rivals = [registry.version(name, 2.0), registry.version(name, 3.0)]
    for rival in rivals:
        registry.put(registry.statement(rival, expected_version=first.version))
    unproven = registry.version(name, 4.0)
    versions = [rivals[position % 2] for position in range(REQUESTS - 20)] + [unproven] * 20
    calls = [("POST", "registered-models/alias", _alias(version)) for version in versions]
    answers = Counter((body["version"], status) for body, status in _all_at_once(served, calls))
    winner = registry.champion(name)
    assert winner in {rival.version for rival in rivals}
    loser = next(rival.version for rival in rivals if rival.version != winner)
    half = (REQUESTS - 20) // 2
    assert answers == {(winner, 200): half, (loser, 403): half, (unproven.version, 403): 20}
    _one_move(served, name, first.version, winner)


def _alias(version: Version) -> dict[str, str]:
    return {"name": version.name, "alias": "champion", "version": version.version}


def _one_move(served: Served, name: str, before: str, winner: str) -> None:
    """The guard's records agree with the alias: one version took it from the first, the other never held it."""
    held = {
        str(found.version): json.loads(found.tags["mlflow_calib.guard.held.champion"])["from"]
        for found in served.client.search_model_versions(f"name = '{name}'")
        if "mlflow_calib.guard.held.champion" in found.tags
    }
    assert held == {before: None, winner: before}


@pytest.mark.parametrize("action", ["delete-alias", "delete-version"])
def test_a_promotion_and_a_deletion_of_what_it_replaces(served: Served, name: str, action: str) -> None:
    """Whichever comes first, the other is refused or finds nothing to do: a deletion never hits the new champion."""
    registry = served.registry
    registry.model(name)
    first = registry.promoted(name)
    second = registry.version(name, 2.0)
    registry.put(registry.statement(second, expected_version=first.version))
    registry.put(registry.override(first, action, expected_version=first.version))
    delete = {
        "delete-alias": ("DELETE", "registered-models/alias", {"name": name, "alias": "champion"}),
        "delete-version": ("DELETE", "model-versions/delete", {"name": name, "version": first.version}),
    }[action]
    promote = ("POST", "registered-models/alias", _alias(second))
    answers = _all_at_once(served, [delete] * 8 + [promote] * 8)
    assert {status for _, status in answers} <= {200, 403, 404}
    assert registry.champion(name) in (second.version, None)
    won = [status for body, status in answers if body == promote[2] and status == 200]
    assert (registry.champion(name) == second.version) == bool(won)


def test_unguarded_writes_go_on_meanwhile(served: Served, name: str) -> None:
    registry = served.registry
    registry.model(name)
    first = registry.version(name)
    registry.put(registry.statement(first))
    body = {"name": name, "version": first.version}
    calls = [("POST", "registered-models/alias", {**body, "alias": f"a{number}"}) for number in range(30)]
    calls += [("POST", "registered-models/alias", _alias(first))] * 30
    calls += [("POST", "model-versions/set-tag", {**body, "key": f"k{n}", "value": "v"}) for n in range(30)]
    assert {status for _, status in _all_at_once(served, calls)} == {200}
    assert len(registry.client.get_registered_model(name).aliases) == 31
