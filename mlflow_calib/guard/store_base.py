"""MLflow's registry store with what every guarded method needs: a look, a lock, a record of the move.

A method looks first without holding the database (files are hashed there), then looks again and writes in one
transaction. That transaction begins with a write to the registered model's row, which locks the row on PostgreSQL
(MySQL, SQL Server) and takes SQLite's write lock as BEGIN IMMEDIATE does: of two competing moves one comes second and
finds the alias moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from typing import Any

from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag
from mlflow.store.model_registry.dbmodels.models import SqlRegisteredModel
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore
from mlflow.utils.time import get_current_time_millis

from mlflow_calib.core.signing import Statement
from mlflow_calib.guard.artifacts import Artifacts
from mlflow_calib.guard.decisions import refuse
from mlflow_calib.guard.permission import Standing
from mlflow_calib.guard.places import Places
from mlflow_calib.guard.proof import Proof, Prover
from mlflow_calib.guard.registry_view import HELD, MOVED, RegistryView, used_statements
from mlflow_calib.guard.sessions import JoinedSessions
from mlflow_calib.guard.settings import GuardSettings

HOW_TO_PROMOTE = (
    "Run the gate with a key and a policy that this server lists, then promote; or sign an override with a reason and "
    "a name (mlflow-calib promote --override-reason WHY --by WHO)"
)
HOW_TO_OVERRIDE = "Sign an override that says so, with a reason and a name (mlflow-calib override)"
AGAIN = "Evaluate the candidate against the present champion, run the gate and promote again"
#: Statements that moved an alias, by digest: an older one is told by its time, so those of the last minutes are enough.
REMEMBERED = 20
#: Characters of a name in the guard's record, which must fit into a tag.
LONGEST_BY = 200


class GuardedBase(SqlAlchemyStore):  # type: ignore[misc]  # MLflow carries no complete types
    """The parts that guarded methods share.

    Parameters
    ----------
    db_uri, options
        As MLflow's own store takes them.
    settings
        What is guarded, and what opens it.
    tracking_uri
        Where runs and logged models are looked up outside a server.
    """

    def __init__(
        self, db_uri: str, *, settings: GuardSettings, tracking_uri: str | None = None, **options: Any
    ) -> None:
        super().__init__(db_uri, **options)
        self.ManagedSessionMaker: Any = JoinedSessions(self.ManagedSessionMaker)
        self.settings = settings
        self.view = RegistryView(self, settings)
        self.prover = Prover(self.view, settings, Artifacts(Places(tracking_uri)))

    def look(self) -> AbstractContextManager[Any]:
        """One session for the reads of a first look: each of its own costs round trips to the database."""
        looking: AbstractContextManager[Any] = self.ManagedSessionMaker.transaction()
        return looking

    @contextmanager
    def locked(self, name: str) -> Iterator[Any]:
        """A transaction that nobody else has for this registered model."""
        with self.ManagedSessionMaker.transaction() as session:
            row = self._get_query(session, SqlRegisteredModel).filter(SqlRegisteredModel.name == name)
            row.update({"last_updated_time": get_current_time_millis()}, synchronize_session=False)
            yield session

    @staticmethod
    def require_unmoved(what: str, before: Standing, now: Standing) -> None:
        """Refuse where somebody else moved the alias between the look and the lock."""
        if (now.holder, now.moved) != (before.holder, before.moved):
            holder = f"version {now.holder}" if now.holder else "nobody"
            refuse(what, [f"{before.label!r} was moved at the same moment, and {holder} holds it now"], AGAIN)

    @staticmethod
    def require_proof(what: str, proof: Proof, remedy: str) -> Statement:
        """The statement that opens; without one the refusal."""
        if proof.statement is None:
            refuse(what, proof.reasons, remedy)
        return proof.statement

    def record_move(self, name: str, before: Standing, to: str | None, statement: Statement | None) -> None:
        """Write who moved what when: on the version that holds it, on the one that held it, on the registered model."""
        entry = {
            "at": datetime.now(timezone.utc).isoformat(timespec="microseconds"),
            "from": before.holder,
            "to": to,
            "kind": statement.kind if statement else None,
            "by": statement.by[:LONGEST_BY] if statement and statement.by else None,
        }
        held = f"{HELD}{before.label}"
        previous = before.holder if before.holder and self.view.has_version(name, before.holder) else None
        if previous is not None and not self.view.has_tag(name, previous, held):
            self.write_version_tag(name, previous, held, {"at": None, "until": entry["at"]})
        if to is not None:
            self.write_version_tag(name, to, held, entry)
        used = [*used_statements(before.moved), *([statement.sha256] if statement else [])][-REMEMBERED:]
        tag = RegisteredModelTag(f"{MOVED}{before.label}", json.dumps({**entry, "used": used}, sort_keys=True))
        SqlAlchemyStore.set_registered_model_tag(self, name, tag)

    def write_version_tag(self, name: str, version: str, key: str, entry: dict[str, Any]) -> None:
        """A tag of the guard's own, past the guard."""
        tag = ModelVersionTag(key, json.dumps(entry, sort_keys=True))
        SqlAlchemyStore.set_model_version_tag(self, name, version, tag)
