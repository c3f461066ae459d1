"""What the registry holds, as the guard reads it: who holds what, since when, and what a version was copied from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mlflow.entities.model_registry.model_version_stages import STAGE_DELETED_INTERNAL
from mlflow.exceptions import MlflowException
from mlflow.store.model_registry.dbmodels.models import (
    SqlModelVersion,
    SqlModelVersionTag,
    SqlRegisteredModelAlias,
    SqlRegisteredModelTag,
)

from mlflow_calib.core.records import parse_time
from mlflow_calib.guard.permission import Identity, Standing
from mlflow_calib.guard.settings import PRODUCTION, GuardSettings

#: Tags with signed statements, on versions and on registered models.
SIGNED = "mlflow_calib.signed."
#: Tags of the guard's own.
GUARD = "mlflow_calib.guard."
HELD, MOVED = f"{GUARD}held.", f"{GUARD}moved."
#: By this tag of a registered model MLflow takes it for a prompt, and shows it no more among the models.
IS_PROMPT = "mlflow.prompt.is_prompt"
VERSION_URI = re.compile(r"models:/(?P<name>[^@/]+)/(?P<version>\d+)/?$")
#: A chain of copies longer than this is nobody's.
_LONGEST_CHAIN = 50


class RegistryView:
    """Reads of one store; inside a transaction of the store they see what it sees."""

    def __init__(self, store: Any, settings: GuardSettings) -> None:
        self._store = store
        self._settings = settings

    def lineage(self, version: Any) -> list[Any]:
        """The version, and those it was copied from, as far as they still stand."""
        chain, seen = [version], {identity(version)}
        while (found := VERSION_URI.match(str(chain[-1].source or ""))) and len(chain) < _LONGEST_CHAIN:
            origin = self.version(found["name"], found["version"])
            if origin is None or identity(origin) in seen:
                break
            chain.append(origin)
            seen.add(identity(origin))
        return chain

    def version(self, name: str, version: str) -> Any | None:
        """A version, None where there is none."""
        try:
            return self._store.get_model_version(name, version)
        except MlflowException:
            return None

    def alias(self, name: str, alias: str) -> Standing:
        """Who holds an alias, and what that version was copied from."""
        return self._with_lineage(name, self.alias_now(name, alias))

    def stage(self, name: str) -> Standing:
        """Who holds the stage Production: the newest version in it, which is what the stage resolves to."""
        return self._with_lineage(name, self.stage_now(name))

    def alias_now(self, name: str, alias: str) -> Standing:
        """Who holds an alias, without its origins: all that a second look needs."""
        conditions = {"name": name, "alias": alias}
        return self._standing(name, alias, self._first(SqlRegisteredModelAlias.version, conditions))

    def stage_now(self, name: str) -> Standing:
        """Who holds the stage Production, without its origins."""
        conditions = {"name": name, "current_stage": PRODUCTION}
        return self._standing(name, PRODUCTION, self._first(SqlModelVersion.version, conditions))

    def guarded(self, name: str) -> list[Standing]:
        """Every guarded alias and stage that a model of this name holds; prompts hold none."""
        aliases = self._store.get_registered_model(name).aliases
        held = [self.alias_now(name, alias) for alias in aliases if self._settings.guards_alias(alias)]
        return [one for one in (*held, self.stage_now(name)) if one.holder and not self.is_prompt(name, one.holder)]

    def is_prompt(self, name: str, version: str | None) -> bool:
        """Whether a version is of a prompt: its source is a bare word, from which no model can be loaded."""
        return version is not None and is_placeholder(self._source(name, version))

    def has_version(self, name: str, version: str) -> bool:
        """Whether a version stands, not deleted."""
        stage = self._first(SqlModelVersion.current_stage, {"name": name, "version": int(version)})
        return stage not in (None, STAGE_DELETED_INTERNAL)

    def has_tag(self, name: str, version: str, key: str) -> bool:
        """Whether a version carries a tag."""
        conditions = {"name": name, "version": int(version), "key": key}
        return self._first(SqlModelVersionTag.key, conditions) is not None

    def _standing(self, name: str, label: str, holder: Any) -> Standing:
        moved = str(self._first(SqlRegisteredModelTag.value, {"name": name, "key": f"{MOVED}{label}"}) or "")
        return Standing(label, None if holder is None else str(holder), moved=moved, moved_at=_moved_at(moved))

    def _with_lineage(self, name: str, standing: Standing) -> Standing:
        if standing.holder is None:
            return standing
        identities: tuple[Identity, ...] = ((name, standing.holder),)
        if VERSION_URI.match(str(self._source(name, standing.holder) or "")):
            found = self.version(name, standing.holder)
            identities = tuple(map(identity, self.lineage(found))) if found else identities
        return Standing(standing.label, standing.holder, identities, standing.moved, standing.moved_at)

    def _source(self, name: str, version: str) -> Any:
        return self._first(SqlModelVersion.source, {"name": name, "version": int(version)})

    def _first(self, column: Any, conditions: dict[str, Any]) -> Any:
        """The greatest value of one column in the active workspace; None where no row meets the conditions."""
        table = column.class_
        active = self._store._get_active_workspace()  # noqa: SLF001 - a method of the store this is a part of
        with self._store.ManagedSessionMaker(read_only=True) as session:
            query = session.query(column).filter(table.workspace == active)
            query = query.filter(*(getattr(table, name) == value for name, value in conditions.items()))
            row = query.order_by(column.desc()).first()
        return None if row is None else row[0]


def identity(version: Any) -> Identity:
    """Name and number of a version."""
    return str(version.name), str(version.version)


def is_ours(key: Any) -> bool:
    """Whether a tag is the guard's own or a signed statement; some databases do not tell cases apart."""
    return str(key).casefold().startswith((GUARD, SIGNED))


def is_placeholder(source: Any) -> bool:
    """Whether a source is the bare word MLflow gives to prompts, which names no place."""
    return bool(source) and not re.search(r"[/:\\]", str(source))


def statements(version: Any) -> Iterator[tuple[str, str]]:
    """Kind and text of each signed statement on a version or registered model, verdicts first."""
    for kind in ("verdict", "rollback", "override"):
        if text := version.tags.get(f"{SIGNED}{kind}"):
            yield kind, text


def used_statements(moved: str) -> list[str]:
    """Digests of the statements that moved an alias of late, the last one at the end, from the guard's own record."""
    try:
        used = json.loads(moved)["used"] if moved else []
        return [str(one) for one in used]
    except (ValueError, TypeError, KeyError):
        return []


def _moved_at(text: str) -> datetime | None:
    try:
        return parse_time(json.loads(text)["at"]) if text else None
    except (ValueError, TypeError, KeyError):
        return None
