"""What a statement must say to open something: each field by itself, every reason at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from mlflow_calib.core.signing import Statement
from mlflow_calib.guard.permission import Standing, copy_problems, override_problems, promotion_problems
from mlflow_calib.guard.settings import GuardSettings

NOW = datetime.now(timezone.utc)
POLICY = f"sha256:{'4' * 64}"
SETTINGS = GuardSettings(policies=frozenset({POLICY}))
STANDING = Standing("champion", "6", (("churn", "6"),), "", NOW - timedelta(days=3))
ASKED = (("churn", "7"),)


def text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


VERDICT = Statement(
    kind="verdict",
    action="promote",
    name="churn",
    version="7",
    alias="champion",
    expected_version="6",
    model_sha256="sha256:1",
    evidence_uri="runs:/r/e.json",
    evidence_sha256="sha256:2",
    status="pass",
    mode="enforce",
    policy_sha256=POLICY,
    issued_at=text(NOW - timedelta(days=1)),
    expires_at=text(NOW + timedelta(days=1)),
)
OVERRIDE = replace(VERDICT, kind="override", reason="x", by="Ada", status=None, mode=None, policy_sha256=None)


def promotion(statement: Statement, standing: Standing = STANDING, held: bool = False) -> list[str]:
    return promotion_problems(statement, ASKED, standing, SETTINGS, held)


def test_a_verdict_that_fits_opens() -> None:
    assert promotion(VERDICT) == []
    assert promotion(OVERRIDE) == []
    assert promotion(replace(OVERRIDE, kind="rollback"), held=True) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"action": "copy"}, "permits to copy"),
        ({"name": "chum"}, "speaks of 'chum' version 7, not of 'churn' version 7"),
        ({"version": "8"}, "speaks of 'churn' version 8"),
        ({"alias": "shadow"}, "opens alias 'shadow'"),
        ({"alias": None, "expected_version": None}, "looked no 'champion' up"),
        ({"expected_version": "5"}, "only while version 5 of 'churn' holds"),
        ({"expected_version": None}, "only while nobody holds"),
        ({"expected_name": "other"}, "only while version 6 of 'other' holds"),
        ({"status": "fail"}, "'fail'"),
        ({"status": "no verdict"}, "'no verdict'"),
        ({"mode": "dry-run"}, "'dry-run'"),
        ({"mode": "off"}, "'off'"),
        ({"policy_sha256": f"sha256:{'5' * 64}"}, "not one that this server lists"),
        ({"expires_at": text(NOW - timedelta(seconds=2))}, "it stood until"),
        ({"expires_at": None, "issued_at": text(NOW - timedelta(hours=25))}, "it stood until"),
        ({"issued_at": text(NOW - timedelta(days=4))}, "was moved at"),
        ({"issued_at": text(NOW + timedelta(hours=1))}, "still to come"),
    ],
    ids=str,
)
def test_each_field_alone_closes(changes: dict[str, Any], said: str) -> None:
    problems = promotion(replace(VERDICT, **changes))
    assert said in problems[0]
    assert len(problems) == 1 + ("name" in changes)  # its champion is another model's too


def test_every_reason_at_once() -> None:
    assert len(promotion(replace(VERDICT, status="fail", mode="dry-run", policy_sha256="sha256:x", version="9"))) == 4


def test_without_policies_no_verdict_counts_and_an_override_does() -> None:
    none = GuardSettings()
    assert promotion_problems(VERDICT, ASKED, STANDING, none, False) == [
        f"its policy {POLICY} is not one that this server lists (none)"
    ]
    assert promotion_problems(OVERRIDE, ASKED, STANDING, none, False) == []


def test_nobody_holds_the_alias_yet() -> None:
    nobody = Standing("champion", None)
    for changes in ({"expected_version": None}, {"alias": None, "expected_version": None}):
        assert promotion(replace(VERDICT, **changes), nobody) == []
    assert promotion(VERDICT, nobody) == ["it stands only while version 6 of 'churn' holds 'champion', and nobody does"]


def test_a_rollback_needs_a_version_that_held_the_alias() -> None:
    assert promotion(replace(OVERRIDE, kind="rollback")) == [
        "the version never held 'champion' under the guard; sign an override instead"
    ]


def test_the_champion_may_stand_in_another_registered_model() -> None:
    """Candidates in dev.churn, champions in prod.churn: copies are known by their origin."""
    statement = replace(VERDICT, name="dev.churn", expected_name="prod.churn", expected_version="2")
    asked = (("prod.churn", "3"), ("dev.churn", "7"))
    standing = Standing("champion", "2", (("prod.churn", "2"), ("dev.churn", "4")))
    assert promotion_problems(statement, asked, standing, SETTINGS, False) == []
    moved = Standing("champion", "1", (("prod.churn", "1"), ("dev.churn", "1")))
    assert len(promotion_problems(statement, asked, moved, SETTINGS, False)) == 1
    same = replace(statement, expected_name=None, expected_version="4")
    assert promotion_problems(same, asked, standing, SETTINGS, False) == []


def test_copies() -> None:
    assert copy_problems(VERDICT, ASKED, "prod.churn", SETTINGS) == []
    assert len(copy_problems(replace(VERDICT, status="fail"), ASKED, "prod.churn", SETTINGS)) == 1
    assert "permits to promote" in copy_problems(OVERRIDE, ASKED, "prod.churn", SETTINGS)[0]
    override = replace(OVERRIDE, action="copy", target="prod.churn")
    assert copy_problems(override, ASKED, "prod.churn", SETTINGS) == []
    assert "names the target" in copy_problems(override, ASKED, "prod.other", SETTINGS)[0]


@pytest.mark.parametrize("action", ["delete-alias", "delete-version"])
def test_overrides_to_delete(action: str) -> None:
    override = replace(OVERRIDE, action=action, version="6")
    assert override_problems(override, action, "churn", "6", standing=STANDING) == []
    assert override_problems(replace(override, action="rename"), action, "churn", "6", standing=STANDING)
    assert override_problems(override, action, "churn", "5", standing=STANDING)
    assert override_problems(override, action, "chum", "6", standing=STANDING)
    old = replace(override, issued_at=text(NOW - timedelta(days=4)))
    assert "was moved at" in override_problems(old, action, "churn", "6", standing=STANDING)[0]
    other = override_problems(replace(override, alias="shadow"), action, "churn", "6", standing=STANDING)
    assert bool(other) == (action == "delete-alias")


def test_overrides_of_a_whole_model() -> None:
    override = replace(OVERRIDE, action="rename", version=None, target="new")
    assert override_problems(override, "rename", "churn", None, target="new") == []
    assert override_problems(override, "rename", "churn", None, target="newer")
    assert override_problems(override, "rename", "chum", None, target="new")
