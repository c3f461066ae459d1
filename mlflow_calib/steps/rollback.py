"""Give the alias back to a version that held it: in an incident, without fresh evidence, with a name and a reason."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from mlflow_calib.errors import EvidenceError, ModelError, PromotionRefusedError, raise_problems
from mlflow_calib.flavor.events import ROLLBACK, Event, new_event
from mlflow_calib.flavor.moves import move_alias, settle
from mlflow_calib.flavor.names import alias_problems, model_name_problems
from mlflow_calib.flavor.registry import registered_model_exists, require_version, version_words
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.hand_over import give, shortened
from mlflow_calib.steps.obstacles import LONGEST_NAME, LONGEST_REASON, said_problems
from mlflow_calib.steps.promotion_record import describe_move
from mlflow_calib.steps.statements import HELD, signed_move
from mlflow_calib.steps.whole_model import require_model_files

log = logging.getLogger(__name__)


def rollback(
    name: str,
    *,
    alias: str = "champion",
    to_version: str | int | None = None,
    reason: str,
    by: str,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Move the alias back to a version that held it. A second call finds the work done and returns the same record.

    The target needs the record that it held the alias, and the very files it had then; it needs no fresh evidence.
    Where the last move was a rollback to the present holder, the work is done: to go back farther, name the version.

    Parameters
    ----------
    name
        The registered model.
    alias
        The alias to move.
    to_version
        Version that gets the alias; by default the one that held it before the last promotion.
    reason, by
        Why, and who answers for it; both stand in the history, the tags and the description of the version.
    server
        By default the one of the environment.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.rollback/1``: uri and model_uri of the version that holds the alias now, version, name,
        alias, previous_version (which held it before), rolled_back (False: it stood there already, as note says), at,
        by, reason.

    Raises
    ------
    PromotionRefusedError
        Nothing says that the target ever held the alias, nobody did before, or the server refuses. The alias has not
        moved.
    EvidenceError
        A file of the target was changed since it held the alias, and the message names it; or no digest was recorded.
    InvalidInputError
        Name, alias, reason or by is wrong; all at once.
    ModelError
        The registered model or the version does not exist.
    """
    server = server or MlflowServer.from_environment()
    wanted = None if to_version is None else str(to_version)
    _require_arguments(name, alias, wanted, reason, by)
    with connected(server) as client:
        if not registered_model_exists(client, name):
            raise ModelError(f"there is no registered model {name!r}; check the name and the server")
        current, events = settle(client, name, alias)
        if done := _done_before(current, events, wanted):
            return _handed_over(client, name, alias, done)
        target = _target(name, alias, current, events, wanted)
        held = f"{HELD}.{alias}" in require_version(client, name, target.version).tags
    event = new_event(
        event=ROLLBACK,
        name=name,
        alias=alias,
        before=current,
        to=target.version,
        by=by.strip(),
        reason=reason.strip(),
        model_sha256=_verified(server, name, target),
        before_sha256=_digest_of(current, events),
    )
    with connected(server) as client:
        move_alias(client, event, signed_move(event, held_under_guard=held))
        log.warning("alias %s of %s is back on version %s: %s", alias, name, target.version, event.reason)
        return _handed_over(client, name, alias, event)


class _Target(NamedTuple):
    """A version that held the alias, and the digest over its files then."""

    version: str
    model_sha256: str | None


def _require_arguments(name: Any, alias: Any, wanted: str | None, reason: Any, by: Any) -> None:
    problems = [*model_name_problems(name), *alias_problems(alias)]
    problems += [*said_problems(reason, "reason", LONGEST_REASON), *said_problems(by, "by", LONGEST_NAME)]
    if wanted is not None and not (wanted.isascii() and wanted.isdigit()):
        problems.append(f"to_version must be the number of a version, got {wanted!r}")
    if problems:
        raise_problems(problems)


def _done_before(current: str | None, events: Sequence[Event], wanted: str | None) -> Event | None:
    """The event that made the alias stand where it is asked to stand; None where there is work to do."""
    last = events[-1] if events and events[-1].to == current else None
    if wanted is None:
        return last if last is not None and last.event == ROLLBACK else None
    if wanted != current:
        return None
    return last or Event(event=ROLLBACK, name="", alias="", before=None, to=wanted, at="")


def _target(name: str, alias: str, current: str | None, events: Sequence[Event], wanted: str | None) -> _Target:
    if wanted is None:
        wanted = _previous(name, alias, current, events)
    if not any(wanted in (event.to, event.before) for event in events):
        raise PromotionRefusedError(
            f"nothing says that version {wanted} of {name!r} ever held alias {alias!r}; evaluate, judge and promote it"
        )
    return _Target(wanted, _digest_of(wanted, events))


def _previous(name: str, alias: str, current: str | None, events: Sequence[Event]) -> str:
    if current is None or not events or events[-1].to != current:
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} stands on {version_words(current)}, and no record says how it came there; "
            "name the version that is to get it, or call promote once more to finish its record"
        )
    if events[-1].before is None:
        raise PromotionRefusedError(
            f"version {current} of {name!r} was the first to hold alias {alias!r}: there is none to go back to"
        )
    return events[-1].before


def _digest_of(version: str | None, events: Sequence[Event]) -> str | None:
    """Digest over the files of a version when it got the alias, or when the next one took it over."""
    found = None
    for event in events:
        if event.to == version and event.model_sha256:
            found = event.model_sha256
        elif event.before == version and event.before_sha256:
            found = found or event.before_sha256
    return found


def _verified(server: MlflowServer, name: str, target: _Target) -> str:
    if target.model_sha256 is None:
        raise EvidenceError(
            f"nothing says which files version {target.version} of {name!r} had when it held the alias; "
            "evaluate, judge and promote it"
        )
    return require_model_files(server, f"models:/{name}/{target.version}", target.model_sha256)


def _handed_over(client: Any, name: str, alias: str, event: Event) -> dict[str, Any]:
    """The same for every call that asks for the same; of a version that got the alias otherwise a note says so."""
    rolled_back = event.event == ROLLBACK and bool(event.at)
    if rolled_back:
        describe_move(client, event)
    uri = f"models:/{name}/{event.to}"
    return give(
        "rollback",
        uri=uri,
        sha256=None,
        model_uri=uri,
        version=event.to,
        name=name,
        alias=alias,
        previous_version=event.before,
        rolled_back=rolled_back,
        at=event.at or None,
        by=event.by,
        reason=shortened(event.reason),
        note=None if rolled_back else f"nothing to do: version {event.to} holds the alias already",
    )
