"""Finds the signed statement that opens what is asked, or every reason why none does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlflow_calib.core.signing import Statement, verify
from mlflow_calib.errors import SignatureError
from mlflow_calib.guard.artifacts import Artifacts
from mlflow_calib.guard.permission import Standing, copy_problems, override_problems, promotion_problems
from mlflow_calib.guard.registry_view import HELD, SIGNED, RegistryView, identity, statements, used_statements
from mlflow_calib.guard.settings import GuardSettings

Check = Callable[[Statement], list[str]]


@dataclass(frozen=True)
class Proof:
    """What was found: the statement that opens, or the reasons against; and what it was held against."""

    standing: Standing | None
    statement: Statement | None = None
    reasons: tuple[str, ...] = ()
    location: str | None = None


class Prover:
    """Holds the statements of a registry against what is asked and against the artifacts as they lie there now.

    Nothing here runs inside a transaction: files of any size are read without holding the database.
    """

    def __init__(self, view: RegistryView, settings: GuardSettings, artifacts: Artifacts) -> None:
        self._view = view
        self._settings = settings
        self._artifacts = artifacts

    def promotion(self, version: Any, standing: Standing, location: str) -> Proof:
        """Whether this version may take what ``standing`` is about."""
        chain = self._view.lineage(version)
        asked = tuple(map(identity, chain))
        held = f"{HELD}{standing.label}" in version.tags
        used = used_statements(standing.moved)

        def check(statement: Statement) -> list[str]:
            problems = promotion_problems(statement, asked, standing, self._settings, held)
            again = "it has moved the alias before, and moves it once; sign another"
            return [*problems, again] if statement.sha256 in used else problems

        return self._found(chain, check, standing, location)

    def copy(self, version: Any, target: str, location: str) -> Proof:
        """Whether this version may be copied into a guarded name."""
        chain = self._view.lineage(version)
        asked = tuple(map(identity, chain))
        return self._found(chain, lambda found: copy_problems(found, asked, target, self._settings), None, location)

    def override(
        self,
        carrier: Any,
        action: str,
        name: str,
        version: str | None,
        standing: Standing | None = None,
        target: str | None = None,
    ) -> Proof:
        """Whether the version or registered model carries an override for a deletion or a rename."""

        def check(statement: Statement) -> list[str]:
            return override_problems(statement, action, name, version, standing=standing, target=target)

        return self._found([carrier], check, standing, None, kinds=("override",))

    def _found(
        self,
        carriers: Iterable[Any],
        check: Check,
        standing: Standing | None,
        location: str | None,
        kinds: tuple[str, ...] = ("verdict", "rollback", "override"),
    ) -> Proof:
        reasons = [*self._settings.problems] if self._settings.keyring is None or not self._settings.policies else []
        found = [] if reasons else list(self._verified(carriers, kinds, reasons))
        for kind, statement in found:
            problems = check(statement)
            if not problems and location is not None:
                problems = self._artifacts.problems(statement, location)
            if not problems:
                return Proof(standing, statement, (), location)
            reasons.append(f"signed {kind}: {', and '.join(problems)}")
        if not reasons:
            reasons.append(f"it carries no signed {' or '.join(kinds)} (tag {SIGNED}{kinds[0]})")
        return Proof(standing, None, tuple(reasons), location)

    def _verified(
        self, carriers: Iterable[Any], kinds: tuple[str, ...], reasons: list[str]
    ) -> Iterator[tuple[str, Statement]]:
        keyring = self._settings.keyring
        for carrier in carriers:
            for kind, text in statements(carrier):
                if kind not in kinds or keyring is None:
                    continue
                try:
                    statement = verify(text, keyring)
                except SignatureError as error:
                    reasons.append(f"signed {kind}: {error}")
                    continue
                if statement.kind != kind:
                    reasons.append(f"signed {kind}: it is a signed {statement.kind}")
                    continue
                yield kind, statement
