"""A signed permission for what the registry guard otherwise refuses: a name, a reason, and a day to act on it."""

from __future__ import annotations

import logging
from typing import Any

from mlflow_calib.core.signing import Keyring, Statement, sign
from mlflow_calib.errors import InvalidInputError, ModelError, PromotionRefusedError, raise_problems
from mlflow_calib.flavor.events import OVERRIDE
from mlflow_calib.flavor.moves import refused_by_server
from mlflow_calib.flavor.names import alias_problems, model_name_problems
from mlflow_calib.flavor.registry import champion_version, registered_model_exists, require_version
from mlflow_calib.flavor.resolved import resolve_model
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.hand_over import give, shortened
from mlflow_calib.steps.obstacles import LONGEST_NAME, LONGEST_REASON, said_problems
from mlflow_calib.steps.statements import SIGNED

#: Action: what it needs beside name, reason and by. A promotion is overridden by ``promote``, which checks the model.
ACTIONS = {
    "delete-alias": ("alias",),
    "delete-version": ("version",),
    "delete-model": (),
    "rename": ("target",),
    "copy": ("version", "target"),
}

log = logging.getLogger(__name__)


def override(
    name: str,
    action: str,
    *,
    version: str | int | None = None,
    alias: str | None = None,
    target: str | None = None,
    reason: str,
    by: str,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Sign that somebody takes an action on a guarded model upon themselves, so that the guard lets it through.

    The action itself is done afterwards, with any client, within a day. Without a guard nothing needs it.

    Parameters
    ----------
    name
        The registered model.
    action
        "delete-alias" (needs ``alias``), "delete-version" (``version``), "delete-model", "rename" (``target``, the new
        name) or "copy" of a version into a guarded name (``version``, ``target``).
    version, alias, target
        As the action needs them; of "delete-alias" the version is the one that holds the alias.
    reason, by
        Why, and who answers for it.
    server
        By default the one of the environment, which holds the keys too.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.override/1``: uri of the model or version that carries the signed tag, name, version,
        action, alias, target, by, tag.

    Raises
    ------
    InvalidInputError
        An argument is missing or wrong, all at once; or the environment holds no key.
    ModelError
        The registered model, the version, or a holder of the alias does not exist.
    PromotionRefusedError
        The server refuses the statement, and says why.
    """
    server = server or MlflowServer.from_environment()
    given = {"version": None if version is None else str(version), "alias": alias, "target": target}
    _require_arguments(name, action, given, reason, by)
    if (keyring := Keyring.from_environment()) is None:
        raise InvalidInputError(
            "an override of the registry guard is signed, and the environment holds no key; set MLFLOW_CALIB_KEYS as "
            "on the server"
        )
    with connected(server) as client:
        given = _completed(client, name, action, given)
        digest = None
        if action == "copy":
            digest = resolve_model(server, f"models:/{name}/{given['version']}").digest
        statement = Statement(
            kind=OVERRIDE,
            action=action,
            name=name,
            version=given["version"],
            alias=given["alias"],
            target=given["target"],
            model_sha256=digest,
            reason=reason.strip(),
            by=by.strip(),
        )
        _set_tag(client, name, given["version"], sign(statement, keyring))
    log.warning("override of %s on %s, signed for %s: %s", action, name, by, reason)
    uri = f"models:/{name}" if given["version"] is None else f"models:/{name}/{given['version']}"
    shown = {"name": name, "action": action, "alias": given["alias"], "target": target, "by": statement.by}
    why = shortened(statement.reason)
    return give("override", uri=uri, sha256=None, version=given["version"], **shown, reason=why, tag=SIGNED[OVERRIDE])


def _require_arguments(name: Any, action: Any, given: dict[str, Any], reason: Any, by: Any) -> None:
    problems = [*model_name_problems(name)]
    problems += [*said_problems(reason, "reason", LONGEST_REASON), *said_problems(by, "by", LONGEST_NAME)]
    if action not in ACTIONS:
        problems.append(
            f"action must be one of {', '.join(ACTIONS)}, got {action!r}; promote has an override of its own"
        )
    else:
        needed = ACTIONS[action]
        problems += [f"{part} must be given to {action}" for part in needed if not given[part]]
        spare = [part for part, value in given.items() if value and part not in needed]
        problems += [f"{part} must not be given to {action}" for part in spare]
    if given["alias"]:
        problems += alias_problems(given["alias"])
    if given["target"]:
        problems += [problem.replace("name must", "target must", 1) for problem in model_name_problems(given["target"])]
    if problems:
        raise_problems(problems)


def _completed(client: Any, name: str, action: str, given: dict[str, str | None]) -> dict[str, str | None]:
    if not registered_model_exists(client, name):
        raise ModelError(f"there is no registered model {name!r}; check the name and the server")
    if action == "delete-alias":
        holder = champion_version(client, name, str(given["alias"]))
        if holder is None:
            raise ModelError(f"alias {given['alias']!r} of {name!r} stands nowhere; there is nothing to delete")
        return {**given, "version": holder}
    if given["version"] is not None:
        require_version(client, name, given["version"])
    return given


def _set_tag(client: Any, name: str, version: str | None, text: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        if version is None:
            client.set_registered_model_tag(name, SIGNED[OVERRIDE], text)
        else:
            client.set_model_version_tag(name, version, SIGNED[OVERRIDE], text)
    except MlflowException as error:
        if (sentence := refused_by_server(error)) is None:
            raise
        raise PromotionRefusedError(f"the server refuses the signed statement: {sentence}") from error
