"""Who held an alias, when, by whom and why: read from the registry alone."""

from __future__ import annotations

from typing import Any

from mlflow_calib.errors import ModelError, raise_problems
from mlflow_calib.flavor.events import read_events
from mlflow_calib.flavor.names import alias_problems, model_name_problems
from mlflow_calib.flavor.registry import champion_version, registered_model_exists
from mlflow_calib.flavor.tracking import MlflowServer, connected

#: Of the entry that says where the alias stands when no event does.
UNRECORDED = "unrecorded"


def history(name: str, alias: str = "champion", *, server: MlflowServer | None = None) -> list[dict[str, Any]]:
    """Promotions, overrides and rollbacks of an alias, the oldest first.

    Nothing is written, and neither runs nor artifacts are read. Where the alias stands on another version than the
    last event says, somebody moved it by hand, or a call broke off: an entry "unrecorded" at the end says so.

    Parameters
    ----------
    name
        The registered model.
    alias
        The alias.
    server
        By default the one of the environment.

    Returns
    -------
    list of dict
        Of each move ``event`` ("promote", "override", "rollback", "unrecorded"), ``name``, ``alias``, ``from`` and
        ``to`` (versions; None: none), ``at`` (UTC), ``by``, ``reason``, ``verdict_sha256``, ``model_sha256``.

    Raises
    ------
    InvalidInputError
        The name or the alias can be none.
    ModelError
        There is no such registered model, or it neither has the alias nor an event of it.

    Notes
    -----
    The events are tags of the versions, ``mlflow_calib.history.<time>.<n>``: those of a version that was deleted are
    gone with it, and whoever may write to the registry may write tags.
    """
    server = server or MlflowServer.from_environment()
    if problems := [*model_name_problems(name), *alias_problems(alias)]:
        raise_problems(problems)
    with connected(server) as client:
        if not registered_model_exists(client, name):
            raise ModelError(f"there is no registered model {name!r}; check the name and the server")
        events = [event.to_dict() for event in read_events(client, name, alias)]
        current = champion_version(client, name, alias)
        if not events and current is None:
            aliases = ", ".join(sorted(client.get_registered_model(name).aliases)) or "none"
            raise ModelError(f"{name!r} has no alias {alias!r}, and no event of one; its aliases are: {aliases}")
    shown = [_entry(event) for event in events]
    last = shown[-1]["to"] if shown else None
    if last != current:
        nothing = dict.fromkeys(("at", "by", "reason", "verdict_sha256", "model_sha256"))
        shown.append({"event": UNRECORDED, "name": name, "alias": alias, "from": last, "to": current, **nothing})
    return shown


def _entry(event: dict[str, Any]) -> dict[str, Any]:
    kept = ("event", "name", "alias", "at", "by", "reason", "verdict_sha256", "model_sha256")
    return {**{key: event[key] for key in kept}, "from": event["before"], "to": event["to"]}
