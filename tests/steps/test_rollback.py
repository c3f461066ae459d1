"""rollback, override and history: what the registry tells of an alias, whatever broke off in between."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.errors import EvidenceError, InvalidInputError, ModelError, PromotionRefusedError
from mlflow_calib.flavor.records import read_record
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import evaluate, fit, gate, history, promote, rollback

#: No comparison with a champion: each of several candidates may follow the one before.
RULES = {
    "requirements": {
        "calibration_error_upper_bound": {"limit": 0.10},
        "mse_increase_over_champion": {"enabled": False},
    }
}
BLOCKING = {"requirements": {**RULES["requirements"], "calibration_error_upper_bound": {"limit": 0.001}}}


@dataclass(frozen=True)
class Line:
    """Version 1, a raw model, is champion by hand; versions 2 and 3 were evaluated and may follow."""

    world: Any
    candidates: dict[str, dict[str, Any]]
    evidence: dict[str, dict[str, Any]]

    @property
    def server(self) -> MlflowServer:
        return self.world.server

    def promote(self, version: str, policy: Any = RULES, **options: Any) -> dict[str, Any]:
        verdict = gate(self.evidence[version], policy=policy, server=self.server)
        return promote(self.candidates[version], verdict, server=self.server, **options)

    def rollback(self, **options: Any) -> dict[str, Any]:
        return rollback("games", **{"reason": "complaints", "by": "ben", **options}, server=self.server)

    def told(self) -> list[tuple[Any, ...]]:
        return [
            (one["event"], one["from"], one["to"], one["by"], one["reason"])
            for one in history("games", server=self.server)
        ]

    def statuses(self) -> list[str | None]:
        return [self.world.tags(version).get("mlflow_calib.status") for version in "123"]


@pytest.fixture(scope="session")
def session_line(session_world: Any, games: Path, tmp_path_factory: pytest.TempPathFactory, steps_helpers: Any) -> Line:
    folder = tmp_path_factory.mktemp("line")
    world = steps_helpers.copy_of(session_world, folder / "store")
    partitions = steps_helpers.scored_and_split(world.server, games, folder / "data", champion=None)
    candidates, evidence = {}, {}
    for version, n_bins in (("2", 10), ("3", 5)):
        candidates[version] = fit(partitions, name="games", calibrator={"n_bins": n_bins}, server=world.server)
        evidence[version] = evaluate(partitions, candidates[version], server=world.server)
    return Line(world, candidates, evidence)


@pytest.fixture
def line(session_line: Line, tmp_path: Path, empty_cwd: Path, steps_helpers: Any) -> Line:
    world = steps_helpers.copy_of(session_line.world, tmp_path / "store")
    return Line(world, session_line.candidates, session_line.evidence)


def test_history_after_two_promotions_a_rollback_and_an_override(line: Line) -> None:
    line.promote("2", promoted_by="anna")
    line.promote("3", promoted_by="anna")
    line.rollback()
    with pytest.raises(PromotionRefusedError, match="the verdict blocks"):
        line.promote("3", BLOCKING)
    line.promote("3", BLOCKING, promoted_by="cleo", override_reason="the season starts today")
    assert line.told() == [
        ("promote", "1", "2", "anna", None),
        ("promote", "2", "3", "anna", None),
        ("rollback", "3", "2", "ben", "complaints"),
        ("override", "2", "3", "cleo", "the season starts today"),
    ]
    assert line.world.champion() == "3"
    assert line.statuses() == ["former champion", "former champion", "champion"]
    times = [one["at"] for one in history("games", server=line.server)]
    assert times == sorted(times)


def test_an_override_stands_in_the_record_the_tags_and_the_text(line: Line) -> None:
    handed = line.promote("2", BLOCKING, promoted_by="cleo", override_reason="the season starts today")
    assert (handed["promoted"], handed["overridden"]) == (True, True)
    assert handed["note"] == "override by cleo (verdict: inconclusive): the season starts today"
    record = read_record(line.server, handed["uri"], handed["sha256"])
    assert record["override"] == {"reason": "the season starts today", "by": "cleo"}
    assert (record["promoted"], record["verdict"]["status"]) == (True, "inconclusive")
    assert line.world.tags("2")["mlflow_calib.promotion.override_reason"] == "the season starts today"
    text = line.world.client.get_model_version("games", "2").description
    assert "champion from version 1 to version 2, override by cleo: the season starts today" in text
    again = line.promote("2", BLOCKING, promoted_by="cleo", override_reason="the season starts today")
    assert {**again, "uri": 0, "sha256": 0} == {**handed, "uri": 0, "sha256": 0}
    assert len(line.told()) == 1


def test_an_override_that_is_not_needed_is_a_promotion(line: Line) -> None:
    handed = line.promote("2", promoted_by="cleo", override_reason="to be sure")
    assert (handed["overridden"], handed["note"]) == (False, None)
    assert line.told() == [("promote", "1", "2", "cleo", None)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"override_reason": "late"}, "needs promoted_by"),
        ({"override_reason": " ", "promoted_by": "cleo"}, "override_reason must be a text of 1 to 500 characters"),
        ({"override_reason": "x" * 501, "promoted_by": "cleo"}, "got 501 characters"),
        ({"override_reason": "late", "promoted_by": ""}, "promoted_by must be a text of 1 to 200 characters"),
        ({"override_reason": "late\x00", "promoted_by": "cleo"}, r"without control characters, got U\+0000"),
        ({"override_reason": "\x1b[2Jlate", "promoted_by": "cleo"}, r"got U\+001B"),
        ({"override_reason": "\ud800 late", "promoted_by": "cleo"}, r"got U\+D800"),
        ({"override_reason": "late", "promoted_by": "\u202ecleo"}, r"promoted_by must be .* got U\+202E"),
        ({"override_reason": "\u200b\u2060", "promoted_by": "cleo"}, "1 to 500 characters, got nothing"),
        ({"override_reason": ["late"], "promoted_by": "cleo"}, "1 to 500 characters, got a list"),
    ],
)
def test_an_override_needs_a_reason_and_a_name(line: Line, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        line.promote("2", BLOCKING, **options)
    assert line.world.champion() == "1"


@pytest.mark.parametrize(
    "said", ["a\nb\r\n# c | d", "<script>alert(1)</script>", "🔥" * 200, "é" * 200, "\u0645\u06cc\u200c\u062e"]
)
def test_what_is_said_in_any_alphabet_fits_into_every_record(line: Line, said: str) -> None:
    """The alias has moved: the report on it must not fail for its length."""
    handed = line.promote("2", BLOCKING, promoted_by=said, override_reason=said)
    back = line.rollback(reason=said, by=said)
    assert (handed["version"], back["version"], line.world.champion()) == ("2", "1", "1")
    assert [(event, by, why) for event, _, _, by, why in line.told()] == [
        ("override", said, said),
        ("rollback", said, said),
    ]
    assert line.rollback(reason=said, by=said) == back
    for result in (handed, back):
        assert len(json.dumps(result)) < 1024
    assert "\n# c" not in line.world.client.get_model_version("games", "2").description


def test_a_dry_run_cannot_be_overridden(line: Line) -> None:
    handed = line.promote("2", {**BLOCKING, "mode": "dry-run"}, promoted_by="cleo", override_reason="now")
    assert (handed["promoted"], line.world.champion(), line.told()) == (
        False,
        "1",
        [("unrecorded", None, "1", None, None)],
    )


def test_rollback_goes_to_the_version_before_and_a_second_call_changes_nothing(line: Line) -> None:
    line.promote("2")
    line.promote("3")
    first = line.rollback()
    assert (first["version"], first["previous_version"], first["rolled_back"]) == ("2", "3", True)
    assert line.world.champion() == "2"
    assert line.statuses() == ["former champion", "champion", "former champion"]
    assert line.rollback() == first
    assert line.rollback(reason="again", by="else") == first, "done is done: the first record stands"
    assert (line.world.champion(), len(line.told())) == ("2", 3)
    assert len(json.dumps(first).encode()) < 1024
    description = line.world.client.get_model_version("games", "2").description
    assert description.count("champion from version 3 to version 2, rollback by ben: complaints") == 1


def test_rollback_to_the_raw_model_that_was_champion_before_us(line: Line) -> None:
    """Every adopter's first incident: version 1 was set by hand, and the promotion of version 2 displaced it."""
    line.promote("2")
    handed = line.rollback()
    assert (handed["version"], line.world.champion()) == ("1", "1")
    assert line.statuses()[:2] == ["champion", "former champion"]


def test_farther_back_by_its_number(line: Line) -> None:
    line.promote("2")
    line.promote("3")
    line.rollback()
    handed = line.rollback(to_version=1)
    assert (handed["version"], handed["previous_version"], line.world.champion()) == ("1", "2", "1")
    assert line.rollback(to_version="1") == handed
    forward = line.rollback(to_version="3", reason="it was not the model")
    assert (forward["version"], line.world.champion()) == ("3", "3"), "it held the alias too"


def test_the_version_that_stands_there_needs_nothing(line: Line) -> None:
    line.promote("2")
    handed = line.rollback(to_version="2")
    assert (handed["rolled_back"], handed["note"]) == (False, "nothing to do: version 2 holds the alias already")
    assert len(line.told()) == 1


def test_what_was_never_champion_is_refused(line: Line) -> None:
    line.promote("2")
    with pytest.raises(PromotionRefusedError, match="nothing says that version 3 of 'games' ever held"):
        line.rollback(to_version="3")
    with pytest.raises(PromotionRefusedError, match="nothing says that version 9"):
        line.rollback(to_version="9")
    assert line.world.champion() == "2"


def test_nowhere_to_go_back_to(line: Line) -> None:
    with pytest.raises(PromotionRefusedError, match="stands on version 1, and no record says how it came there"):
        line.rollback()
    line.world.client.delete_registered_model_alias("games", "champion")
    line.promote("2")
    with pytest.raises(PromotionRefusedError, match="the first to hold alias 'champion'"):
        line.rollback()
    assert line.world.champion() == "2"


def test_a_moved_alias_without_a_record_is_said_and_not_guessed(line: Line) -> None:
    line.promote("2")
    line.world.client.set_registered_model_alias("games", "champion", "3")
    assert line.told()[-1] == ("unrecorded", "2", "3", None, None)
    with pytest.raises(PromotionRefusedError, match="stands on version 3, and no record says how"):
        line.rollback()
    assert line.rollback(to_version="2")["previous_version"] == "3"
    assert line.told()[-1][:3] == ("rollback", "3", "2")


def test_a_version_that_was_rolled_back_does_not_return_by_a_retry(line: Line) -> None:
    """The promotion's task is cleared and runs again, with the verdict it had."""
    verdict = gate(line.evidence["2"], policy=RULES, server=line.server)
    promote(line.candidates["2"], verdict, server=line.server)
    line.rollback()
    with pytest.raises(PromotionRefusedError, match=r"version 2 was rolled back at .* by ben \(complaints\)"):
        promote(line.candidates["2"], verdict, server=line.server)
    assert line.world.champion() == "1"
    promote(line.candidates["2"], verdict, promoted_by="a", override_reason="it was the data", server=line.server)
    assert (line.world.champion(), line.told()[-1][0]) == ("2", "override")


@pytest.mark.parametrize("part", ["MLmodel", "requirements.txt"])
def test_a_target_whose_files_changed_is_refused_by_the_name_of_the_file(line: Line, part: str) -> None:
    line.promote("2")
    line.promote("3")
    with connected(line.server) as client:
        location = client.get_logged_model(line.candidates["2"]["model_id"]).artifact_location
    path = Path(location.removeprefix("file://")) / "data/bundle/base_model" / part
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(EvidenceError, match=f"data/bundle/base_model/{part} was changed"):
        line.rollback()
    assert line.world.champion() == "3"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reason": ""}, "reason must be a text"),
        ({"by": None}, "by must be a text"),
        ({"reason": "", "by": "", "alias": "v1", "to_version": "last"}, "4 problems"),
    ],
)
def test_rollback_needs_a_reason_and_a_name(line: Line, options: dict[str, Any], said: str) -> None:
    line.promote("2")
    with pytest.raises(InvalidInputError, match=said):
        line.rollback(**options)
    assert line.world.champion() == "2"


def test_an_unknown_model_is_said(line: Line) -> None:
    with pytest.raises(ModelError, match="no registered model 'gmes'"):
        rollback("gmes", reason="r", by="b", server=line.server)
    with pytest.raises(ModelError, match="no registered model 'gmes'"):
        history("gmes", server=line.server)
    with pytest.raises(InvalidInputError, match="alias must be"):
        history("games", "v1", server=line.server)
    with pytest.raises(
        ModelError, match="'games' has no alias 'champoin', and no event of one; its aliases are: champion"
    ):
        history("games", "champoin", server=line.server)
    with pytest.raises(PromotionRefusedError, match="alias 'champoin' of 'games' stands on no version"):
        line.rollback(alias="champoin")


def test_a_copy_into_another_model_has_no_part_in_the_history(line: Line) -> None:
    """MLflow copies the tags of a version."""
    line.promote("2")
    with connected(line.server) as client:
        client.copy_model_version("models:/games/2", "prod")
        client.copy_model_version("models:/games/2", "prod")
    line.world.client.set_registered_model_alias("prod", "champion", "2")
    assert [one["event"] for one in history("prod", server=line.server)] == ["unrecorded"]
    with pytest.raises(PromotionRefusedError, match="nothing says that version 1"):
        rollback("prod", to_version=1, reason="r", by="b", server=line.server)


def test_each_alias_has_its_own_history(line: Line) -> None:
    line.promote("2")
    line.promote("3", alias="canary")
    assert [one["to"] for one in history("games", "canary", server=line.server)] == ["3"]
    assert [one["to"] for one in history("games", server=line.server)] == ["2"]
    line.promote("2", alias="canary")
    assert line.statuses() == ["former champion", "champion", "former champion"]


class _Broken:
    """A client whose n-th write to the registry fails, as a connection does."""

    WRITES = ("set_model_version_tag", "set_registered_model_alias", "update_model_version")

    def __init__(self, client: Any, left: list[int]) -> None:
        self.client, self.left = client, left

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)
        if name not in self.WRITES:
            return method

        def write(*args: Any, **options: Any) -> Any:
            if self.left[0] == 0:
                raise ConnectionError("the registry does not answer")
            self.left[0] -= 1
            return method(*args, **options)

        return write


@pytest.fixture
def break_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """From then on the n-th write fails; returns the counter, which ends above zero where nothing failed."""
    original = MlflowServer.client

    def arm(writes: int) -> list[int]:
        left = [writes]
        monkeypatch.setattr(MlflowServer, "client", lambda self: _Broken(original(self), left))
        return left

    def disarm() -> None:
        monkeypatch.setattr(MlflowServer, "client", original)

    arm.disarm = disarm  # type: ignore[attr-defined]
    return arm


@pytest.mark.parametrize("step", ["promote", "rollback"])
def test_whatever_write_fails_a_second_call_leaves_the_same(
    line: Line, break_after: Any, tmp_path: Path, steps_helpers: Any, step: str
) -> None:
    """A fault at every write in turn, each in a world of its own; the second call repairs it."""
    line.promote("2", promoted_by="anna")
    verdict = gate(line.evidence["3"], policy=RULES, server=line.server)
    if step == "rollback":
        promote(line.candidates["3"], verdict, promoted_by="anna", server=line.server)

    def act(one: Line) -> dict[str, Any]:
        if step == "rollback":
            return one.rollback()
        return promote(one.candidates["3"], verdict, promoted_by="anna", server=one.server)

    wanted = {"promote": ("promote", "2", "3", "anna", None), "rollback": ("rollback", "3", "2", "ben", "complaints")}
    holder, failures = ("3" if step == "promote" else "2"), 0
    for writes in range(30):
        world = steps_helpers.copy_of(line.world, tmp_path / f"at-{writes}")
        one = Line(world, line.candidates, line.evidence)
        break_after(writes)
        try:
            first = act(one)
        except ConnectionError:
            first = None
        break_after.disarm()
        second = act(one)
        assert one.told()[-1] == wanted[step], writes
        assert len(one.told()) == (2 if step == "promote" else 3), writes
        assert world.champion() == holder
        assert one.statuses() == [
            "former champion",
            *("former champion", "champion")[:: 1 if step == "promote" else -1],
        ]
        if first is not None:
            assert second == first
            break
        failures += 1
    assert failures >= 5, "the fault was never reached"


def test_the_history_of_an_interrupted_call_is_finished_with_its_own_words(line: Line, break_after: Any) -> None:
    """The alias moved and the process died; whoever comes next, for whatever, writes what the first one said."""
    line.promote("2", promoted_by="anna")
    verdict = gate(line.evidence["3"], policy=RULES, server=line.server)
    break_after(2)  # the move that is begun, the alias
    with pytest.raises(ConnectionError):
        promote(line.candidates["3"], verdict, promoted_by="anna", server=line.server)
    break_after.disarm()
    assert (line.world.champion(), line.told()[-1][0]) == ("3", "unrecorded")
    line.rollback(by="carl")
    assert line.told()[1:] == [("promote", "2", "3", "anna", None), ("rollback", "3", "2", "carl", "complaints")]


def test_nothing_is_written_by_history(line: Line, break_after: Any) -> None:
    line.promote("2")
    left = break_after(0)
    assert len(history("games", server=line.server)) == 1
    assert left == [0]


def test_an_event_of_a_later_release_is_left_alone(line: Line) -> None:
    line.promote("2")
    strange = json.dumps({"schema": "mlflow_calib.event/9", "event": "teleport"})
    line.world.client.set_model_version_tag("games", "2", "mlflow_calib.history.20300101T000000Z.7", strange)
    line.world.client.set_model_version_tag("games", "2", "mlflow_calib.history.nonsense", "x")
    assert len(line.told()) == 1
    line.promote("3")
    assert [one[2] for one in line.told()] == ["2", "3"]
    assert sys.modules["mlflow_calib.steps"].history is history
