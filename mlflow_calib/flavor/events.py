"""Who held an alias, when and why: events that stand as tags on the versions, appended and never changed.

The registry alone tells the history: no file and no run is needed. An event stands on the version that got the alias,
under a name of its own, ``mlflow_calib.history.<time>.<n>``.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.core.records import TEXT, TIME, field_problems, from_json, one_of, parse_time
from mlflow_calib.flavor.runs import quoted

EVENT_SCHEMA = "mlflow_calib.event/1"
PROMOTE, OVERRIDE, ROLLBACK = "promote", "override", "rollback"
HISTORY = "mlflow_calib.history"
_TAG = re.compile(r"mlflow_calib\.history\.\d{8}T\d{6}Z\.(?P<n>\d+)")
_COPIED = re.compile(r"models:/(?!m-[0-9a-f]{32}$)")


@dataclass(frozen=True, kw_only=True)
class Event:
    """One move of an alias.

    ``event`` is "promote", "override" (a promotion that the verdict would have blocked) or "rollback"; ``before`` and
    ``to`` are versions, ``before`` None where nobody held the alias; ``model_sha256`` and ``before_sha256`` are the
    digests over the files of both, where known; ``id`` tells two moves alike apart.
    """

    event: str
    name: str
    alias: str
    before: str | None
    to: str
    at: str
    by: str | None = None
    reason: str | None = None
    verdict_sha256: str | None = None
    model_sha256: str | None = None
    before_sha256: str | None = None
    id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the schema."""
        return {"schema": EVENT_SCHEMA, **asdict(self)}

    def to_json(self) -> str:
        """The text of the tag."""
        return json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False)


def new_event(**values: Any) -> Event:
    """An event of this moment, with an id of its own."""
    return Event(**values, at=datetime.now(timezone.utc).isoformat(timespec="seconds"), id=uuid.uuid4().hex)


_OPTIONAL = ("before", "by", "reason", "verdict_sha256", "model_sha256", "before_sha256")
_FIELDS = {
    "schema": one_of(EVENT_SCHEMA),
    "event": one_of(PROMOTE, OVERRIDE, ROLLBACK),
    **dict.fromkeys(("name", "alias", "to", "id"), TEXT),
    **dict.fromkeys(_OPTIONAL, TEXT.or_null()),
    "at": TIME,
}


def read_event(text: str | None) -> Event | None:
    """The event of a tag's text; None where it is none, such as one that a later release wrote."""
    try:
        document = from_json(text or "")
    except ValueError:
        return None
    if field_problems(document, _FIELDS):
        return None
    return Event(**{part.name: document[part.name] for part in fields(Event)})


def read_events(client: Any, name: str, alias: str) -> list[Event]:
    """The events of an alias, the oldest first; those of a version that was deleted are gone with it.

    A copy into another registered model carries the tags of its original, whose events are not its own.
    """
    numbered = [
        (number, event)
        for version in _all_versions(client, name)
        for number, event in _events_on(version)
        if event.alias == alias
    ]
    return [event for _, event in sorted(numbered, key=lambda one: (one[0], one[1].at, one[1].id))]


def append_event(client: Any, event: Event) -> None:
    """Write an event on the version that got the alias; one that stands there already is not written again."""
    numbered = [one for version in _all_versions(client, event.name) for one in _events_on(version)]
    if any(known.id == event.id for _, known in numbered):
        return
    number = 1 + max((number for number, _ in numbered), default=0)
    time = parse_time(event.at) or datetime.now(timezone.utc)
    client.set_model_version_tag(event.name, event.to, f"{HISTORY}.{time:%Y%m%dT%H%M%SZ}.{number}", event.to_json())


def _events_on(version: Any) -> Iterator[tuple[int, Event]]:
    copied = _COPIED.match(str(version.source or ""))
    for key, text in version.tags.items():
        found, event = _TAG.fullmatch(key), read_event(text)
        if found is None or event is None or event.to != str(version.version):
            continue
        if event.name == version.name or not copied:  # a registered model that was renamed keeps its history
            yield int(found["n"]), event


def _all_versions(client: Any, name: str) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_model_versions(f"name = {quoted(name)}", page_token=token)
        yield from page
        token = page.token
        if not token:
            return
