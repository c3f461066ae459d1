"""One database transaction around several calls of MLflow's store, so that a look and a write cannot come apart."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

#: MLflow's ``ManagedSessionMaker``.
Sessions = Callable[..., AbstractContextManager[Any]]


class JoinedSessions:
    """Stands in for the session maker of a store: inside `transaction` every call of the store shares its session.

    MLflow's methods open a session, write and commit, each by itself. Joined, they write in the transaction that is
    open, which commits or rolls back as a whole.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._routed = (
            "read_only" in inspect.signature(sessions).parameters
        )  # older releases of MLflow know one database
        self._open = threading.local()

    def __call__(self, read_only: bool = True) -> AbstractContextManager[Any]:
        """The open transaction's session, else one of the store's own."""
        session = getattr(self._open, "session", None)
        return self._session(read_only) if session is None else _flushed(session)

    def _session(self, read_only: bool) -> AbstractContextManager[Any]:
        return self._sessions(read_only=read_only) if self._routed else self._sessions()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A session that all calls of this thread share until the block ends; of the database that is written to."""
        with self._session(read_only=False) as session:
            self._open.session = session
            try:
                yield session
            finally:
                self._open.session = None


@contextmanager
def _flushed(session: Any) -> Iterator[Any]:
    yield session
    session.flush()
