"""The registry's side of a promotion: candidates, tags, and the alias that consumers follow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.errors import ModelError, PromotionRefusedError, raise_problems
from mlflow_calib.flavor.names import model_name_problems
from mlflow_calib.flavor.records import is_missing
from mlflow_calib.flavor.runs import RUN_KEY, quoted
from mlflow_calib.flavor.tracking import MlflowServer, connected

#: Tag of a version: how far it has come. The gate sets the middle two, a promotion the last two.
STATUS = "mlflow_calib.status"
CANDIDATE, PASSED, REFUSED, CHAMPION, FORMER_CHAMPION = "candidate", "passed", "refused", "champion", "former champion"
#: Tag of a version that held the alias: who moved it, when, on which verdict, and who held it before.
PROMOTION = "mlflow_calib.promotion"


def champion_version(client: Any, name: str, alias: str = "champion") -> str | None:
    """Version that holds the alias; None where the alias or the registered model does not exist yet."""
    from mlflow.exceptions import MlflowException

    try:
        version = client.get_registered_model(name).aliases.get(alias)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return None if version is None else str(version)


def registered_model_exists(client: Any, name: str) -> bool:
    """Whether there is a registered model of this name; without one an alias of it is a slip of the pen."""
    from mlflow.exceptions import MlflowException

    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if not is_missing(error):
            raise
        return False
    return True


def registered_version(client: Any, name: str, run_key: str) -> str | None:
    """Version that a run with this key has registered before; None where it has not."""
    query = f"name = {quoted(name)} AND tags.`{RUN_KEY}` = {quoted(run_key)}"
    found = client.search_model_versions(query, max_results=1)
    return str(found[0].version) if found else None


def register_candidate(
    server: MlflowServer,
    name: str,
    model_uri: str,
    *,
    run_key: str | None = None,
    run_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    description: str | None = None,
) -> str:
    """Register a logged model as a version with ``mlflow_calib.status=candidate``, without an alias.

    Idempotent by ``run_key``: a version that carries it is returned as it stands, whatever ``model_uri`` says, so a
    retry adds none. Ask `registered_version` first to spare the logging too. The registered model is created where
    it is missing.

    Raises InvalidInputError for a name that no registered model can have.
    """
    import mlflow

    if problems := model_name_problems(name):
        raise_problems(problems)
    all_tags = {**(tags or {}), STATUS: CANDIDATE}
    all_tags |= {RUN_KEY: run_key} if run_key else {}
    all_tags |= {"mlflow_calib.run_id": run_id} if run_id else {}
    with connected(server) as client:
        existing = registered_version(client, name, run_key) if run_key else None
        if existing is not None:
            return existing
        version = str(mlflow.register_model(model_uri, name, tags=all_tags).version)
        if description:
            client.update_model_version(name, version, description=description)
        return version


def tag_version(client: Any, name: str, version: str, tags: Mapping[str, str], description: str | None = None) -> None:
    """Set tags of a version, and its description where one is given."""
    for key, value in tags.items():
        client.set_model_version_tag(name, version, key, value)
    if description is not None:
        client.update_model_version(name, version, description=description)


def promote_alias(
    client: Any,
    name: str,
    alias: str,
    version: str,
    expected_version: str | None,
    *,
    promoted_by: str | None = None,
    verdict_sha256: str | None = None,
    at: datetime | None = None,
) -> dict[str, Any]:
    """Move the alias to ``version`` if it still stands where the evidence saw it, and record the promotion.

    Where the alias points at ``version`` already, nothing moves and the record stands; one that an interrupted call
    left unwritten is written. MLflow's alias has no compare-and-set: another writer between this function's read and
    its write is overwritten, the last writer wins. The window is one request wide, and the alias is read again
    afterwards.

    Parameters
    ----------
    expected_version
        Version that held the alias when the evidence was gathered; None where no version did.

    Returns
    -------
    dict
        The promotion record: alias, version, previous_version, at (UTC), by, verdict_sha256.

    Raises
    ------
    PromotionRefusedError
        Where the alias stands elsewhere, or another writer moved it at the same moment.
    ModelError
        Where the version does not exist.
    """
    _require_version(client, name, version)
    record = _promotion(alias, version, expected_version, promoted_by, verdict_sha256, at)
    current = champion_version(client, name, alias)
    if current == version:
        return _finished_promotion(client, name, version, alias) or _record(client, name, record)
    if current != expected_version:
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} must still point at {_version(expected_version)}, with which the evidence "
            f"compared, and it points at {_version(current)}; evaluate the candidate against the present champion"
        )
    client.set_registered_model_alias(name, alias, version)
    if (after := champion_version(client, name, alias)) != version:
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} was moved to {_version(after)} by another writer while version {version} "
            "was promoted; evaluate the candidate against the present champion"
        )
    return _record(client, name, record)


def read_promotion(client: Any, name: str, version: str, alias: str = "champion") -> dict[str, Any] | None:
    """The record of how this version got the alias; None where it never held it."""
    text = _require_version(client, name, version).tags.get(PROMOTION)
    record = json.loads(text) if text else None
    return dict(record) if record and record.get("alias") == alias else None


def _promotion(
    alias: str, version: str, previous: str | None, by: str | None, verdict_sha256: str | None, at: datetime | None
) -> dict[str, Any]:
    return {
        "schema": "mlflow_calib.promotion/1",
        "alias": alias,
        "version": version,
        "previous_version": previous,
        "at": (at or datetime.now(timezone.utc)).astimezone(timezone.utc).isoformat(timespec="seconds"),
        "by": by,
        "verdict_sha256": verdict_sha256,
    }


def _record(client: Any, name: str, record: dict[str, Any]) -> dict[str, Any]:
    """Write the tags, the status last: where it says champion, the record is that of the present promotion."""
    previous = record["previous_version"]
    if previous not in (None, record["version"]) and _exists(client, name, previous):
        tag_version(client, name, previous, {STATUS: FORMER_CHAMPION})
    tag_version(client, name, record["version"], {PROMOTION: json.dumps(record, sort_keys=True)})
    tag_version(client, name, record["version"], {STATUS: CHAMPION})
    return record


def _finished_promotion(client: Any, name: str, version: str, alias: str) -> dict[str, Any] | None:
    finished = _require_version(client, name, version).tags.get(STATUS) == CHAMPION
    return read_promotion(client, name, version, alias) if finished else None


def _exists(client: Any, name: str, version: str) -> bool:
    try:
        _require_version(client, name, version)
    except ModelError:
        return False
    return True


def _require_version(client: Any, name: str, version: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version(name, version)
    except MlflowException as error:
        if not is_missing(error):
            raise
        raise ModelError(f"{name!r} must have a version {version}, and it has none; register it first") from error


def _version(version: str | None) -> str:
    return "no version" if version is None else f"version {version}"
