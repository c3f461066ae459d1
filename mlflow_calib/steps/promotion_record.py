"""The record of a promotion: a file on the run, tags of the version, a line in its description."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.events import OVERRIDE, ROLLBACK, Event
from mlflow_calib.flavor.registry import require_version
from mlflow_calib.flavor.resolved import resolve_model
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.candidate import Candidate
from mlflow_calib.steps.described import MOVE_STARTS, described
from mlflow_calib.steps.given_verdict import GivenVerdict

PATH, DRY_RUN_PATH = "mlflow_calib/promotion.json", "mlflow_calib/dry_run.json"
PROMOTION_SCHEMA = "mlflow_calib.promotion/1"


def promotion_record(candidate: Candidate, given: GivenVerdict, event: Event, *, promoted: bool) -> dict[str, Any]:
    """Who was promoted by whom, on what, past whom; of an override also why."""
    overridden = event.event == OVERRIDE
    return {
        "schema": PROMOTION_SCHEMA,
        "mlflow_calib_version": __version__,
        "promoted": promoted,
        "note": note_of(event, given),
        "candidate": candidate.to_dict(),
        "alias": event.alias,
        "previous_version": event.before,
        "promoted_by": event.by,
        "promoted_at": event.at,
        "override": {"reason": event.reason, "by": event.by} if overridden else None,
        "verdict": {
            "uri": given.uri,
            "sha256": given.sha256,
            "status": given.verdict.status,
            "mode": given.verdict.mode,
        },
        "evidence": dict(given.evidence),
    }


def note_of(event: Event, given: GivenVerdict) -> str | None:
    """What people must know: the policy is not enforced, or the verdict was overridden; None where neither."""
    if event.event != OVERRIDE:
        return given.note
    return f"override by {event.by} (verdict: {given.verdict.status}): {event.reason}"


def digest_of_holder(
    server: MlflowServer, evidence: Mapping[str, Any], name: str, version: str | None, events: Sequence[Event]
) -> str | None:
    """Digest over the files of the version that holds the alias, for a later rollback to it.

    As the evidence saw the champion, as it was when it got the alias, or else as it is now; None where it has none.
    """
    if version is None:
        return None
    champion = evidence.get("champion")
    if isinstance(champion, Mapping) and (champion.get("name"), champion.get("version")) == (name, version):
        return str(champion["digest"])
    known = [event.model_sha256 for event in events if event.to == version and event.model_sha256]
    if known:
        return known[-1]
    try:
        return resolve_model(server, f"models:/{name}/{version}").digest
    except ModelError:
        return None


def describe_move(client: Any, event: Event) -> None:
    """A line for people in the description of the version that got the alias; a retry adds none."""
    before = require_version(client, event.name, event.to).description or ""
    after = described(before, move_line(event))
    if after != before:
        client.update_model_version(event.name, event.to, description=after)


def move_line(event: Event) -> str:
    """One move in one line."""
    what = {OVERRIDE: "override", ROLLBACK: "rollback"}.get(event.event, "promotion")
    since = f"from version {event.before} to version {event.to}" if event.before else f"to version {event.to}"
    by = f" by {event.by}" if event.by else ""
    why = f": {event.reason}" if event.reason else ""
    return f"{MOVE_STARTS}{event.at}: {event.alias} {since}, {what}{by}{why}"
