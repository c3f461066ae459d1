"""Moving an alias so that an interrupted call leaves nothing half told.

What is about to happen is written on the version that gets the alias, the alias moves, the event is appended to the
history, and the statuses of both versions follow. Whoever comes next finishes what a call before left unfinished.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from mlflow_calib.errors import PromotionRefusedError
from mlflow_calib.flavor.events import Event, append_event, read_event, read_events
from mlflow_calib.flavor.registry import (
    CHAMPION,
    FORMER_CHAMPION,
    STATUS,
    champion_version,
    require_version,
    tag_version,
    version_exists,
    version_words,
)

#: Tag of a version, with the alias after a dot: the move that is under way, or was the last one.
MOVE = "mlflow_calib.move"
#: Tag of a version that got the alias: the event of it.
PROMOTION = "mlflow_calib.promotion"
_NONE = "null"


def move_alias(client: Any, event: Event, signed: Mapping[str, str] | None = None) -> Event:
    """Move the alias as the event says, if it still stands at ``event.before``, and record it.

    MLflow's alias has no compare-and-set: another writer between this function's read and its write is overwritten,
    the last writer wins. The window is one request wide, and the alias is read again afterwards. A server with the
    registry guard compares inside its transaction.

    Parameters
    ----------
    signed
        Tags with signed statements, set on the version before the alias moves.

    Returns
    -------
    Event
        As recorded.

    Raises
    ------
    PromotionRefusedError
        The alias stands elsewhere, another writer moved it at the same moment, or the server refuses; it says why.
    ModelError
        The version does not exist.
    """
    name, alias, version = event.name, event.alias, event.to
    require_version(client, name, version)
    if (current := champion_version(client, name, alias)) != event.before:
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} must still point at {version_words(event.before)}, and it points at "
            f"{version_words(current)}; evaluate the candidate against the present champion"
        )
    tag_version(client, name, version, {f"{MOVE}.{alias}": event.to_json()})
    _set_signed(client, event, signed or {})
    _set_alias(client, event)
    if (after := champion_version(client, name, alias)) != version:
        tag_version(client, name, version, {f"{MOVE}.{alias}": _NONE})
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} was moved to {version_words(after)} by another writer while version "
            f"{version} was promoted; evaluate the candidate against the present champion"
        )
    record_move(client, event)
    return event


def record_move(client: Any, event: Event) -> None:
    """The event among those of the alias, and the statuses of both versions as it leaves them."""
    append_event(client, event)
    set_statuses(client, event)


def settle(client: Any, name: str, alias: str) -> tuple[str | None, list[Event]]:
    """Who holds the alias and its events, the last move's record finished where a call before broke off.

    The last event is that of the present holder where its ``to`` is the version that is returned; else somebody moved
    the alias without a record.
    """
    current = champion_version(client, name, alias)
    events = read_events(client, name, alias)
    if current is None:
        return None, events
    begun = read_event(require_version(client, name, current).tags.get(f"{MOVE}.{alias}"))
    if begun is not None and (begun.name, begun.to) == (name, current) and begun.id not in {one.id for one in events}:
        append_event(client, begun)
        events = read_events(client, name, alias)
    if events and events[-1].to == current:
        set_statuses(client, events[-1])
    return current, events


def set_statuses(client: Any, event: Event) -> None:
    """Statuses of both versions as the event leaves them; nothing is written where they say so already."""
    aliases = client.get_registered_model(event.name).aliases.values()
    if event.before not in (None, event.to) and version_exists(client, event.name, str(event.before)):
        holds_another = str(event.before) in {str(version) for version in aliases}
        if not holds_another:
            _ensure(client, event.name, str(event.before), {STATUS: FORMER_CHAMPION})
    _ensure(client, event.name, event.to, {PROMOTION: event.to_json(), STATUS: CHAMPION})


def refused_by_server(error: Exception) -> str | None:
    """The sentence of a server that refuses a request; None for every other error."""
    if getattr(error, "error_code", None) != "PERMISSION_DENIED" and "error code 403" not in str(error):
        return None
    return str(getattr(error, "message", error)).removeprefix("PERMISSION_DENIED: ")


def _ensure(client: Any, name: str, version: str, tags: Mapping[str, str]) -> None:
    stands = require_version(client, name, version).tags
    tag_version(client, name, version, {key: text for key, text in tags.items() if stands.get(key) != text})


def _set_signed(client: Any, event: Event, signed: Mapping[str, str]) -> None:
    from mlflow.exceptions import MlflowException

    try:
        tag_version(client, event.name, event.to, signed)
    except MlflowException as error:
        _refuse(client, event, error, "the signed statement")


def _set_alias(client: Any, event: Event) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.set_registered_model_alias(event.name, event.alias, event.to)
    except MlflowException as error:
        _refuse(client, event, error, f"alias {event.alias!r} of {event.name!r} on version {event.to}")


def _refuse(client: Any, event: Event, error: Exception, what: str) -> NoReturn:
    """Turn the server's refusal into one of ours; the move that was begun did not happen."""
    if (sentence := refused_by_server(error)) is None:
        raise error
    tag_version(client, event.name, event.to, {f"{MOVE}.{event.alias}": _NONE})
    raise PromotionRefusedError(f"the server refuses {what}: {sentence}") from error
