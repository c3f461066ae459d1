"""What the registry holds of a model: its versions, their tags, and who holds an alias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.errors import ModelError, raise_problems
from mlflow_calib.flavor.names import model_name_problems
from mlflow_calib.flavor.records import is_missing
from mlflow_calib.flavor.runs import RUN_KEY, quoted
from mlflow_calib.flavor.tracking import MlflowServer, connected

#: Tag of a version: how far it has come. The gate sets the middle two, a promotion the last two.
STATUS = "mlflow_calib.status"
CANDIDATE, PASSED, REFUSED, CHAMPION, FORMER_CHAMPION = "candidate", "passed", "refused", "champion", "former champion"


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


def version_exists(client: Any, name: str, version: str) -> bool:
    """Whether the registered model has this version."""
    try:
        require_version(client, name, version)
    except ModelError:
        return False
    return True


def require_version(client: Any, name: str, version: str) -> Any:
    """The version; ModelError where it does not exist."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_model_version(name, version)
    except MlflowException as error:
        if not is_missing(error):
            raise
        raise ModelError(f"{name!r} must have a version {version}, and it has none; register it first") from error


def version_words(version: str | None) -> str:
    """A version as messages say it."""
    return "no version" if version is None else f"version {version}"
