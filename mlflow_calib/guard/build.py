"""The guarded stores, and which of them MLflow gets."""

from __future__ import annotations

import logging
import os
from typing import Any

from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.server import constants
from mlflow.store.model_registry.sqlalchemy_workspace_store import WorkspaceAwareSqlAlchemyStore

from mlflow_calib.guard.decisions import log, make_log_visible
from mlflow_calib.guard.settings import GuardSettings
from mlflow_calib.guard.store_moves import GuardedMoves
from mlflow_calib.guard.store_names import GuardedNames
from mlflow_calib.guard.store_tags import GuardedTags


class GuardedStore(GuardedMoves, GuardedNames, GuardedTags):
    """MLflow's SQL registry store behind the guard."""


class GuardedWorkspaceStore(GuardedStore, WorkspaceAwareSqlAlchemyStore):  # type: ignore[misc]  # MLflow has no types
    """The same where workspaces are enabled: every look and every write is of the active workspace."""


def build_store(db_uri: str, tracking_uri: str | None = None) -> GuardedStore:
    """The guarded store of a database, with the settings of the environment, which it logs."""
    make_log_visible()
    settings = GuardSettings.from_environment()
    log.log(logging.WARNING if settings.problems else logging.INFO, "%s", settings.summary())
    kind: Any = GuardedWorkspaceStore if MLFLOW_ENABLE_WORKSPACES.get() else GuardedStore
    store: GuardedStore = kind(db_uri, settings=settings, tracking_uri=tracking_uri, **_read_replica())
    return store


def _read_replica() -> dict[str, str]:
    """The database that the server reads from, where MLflow knows of such a thing and is given one."""
    variable = getattr(constants, "READ_REPLICA_BACKEND_STORE_URI_ENV_VAR", None)
    read_db_uri = os.environ.get(variable) if variable else None
    return {"read_db_uri": read_db_uri} if read_db_uri else {}
