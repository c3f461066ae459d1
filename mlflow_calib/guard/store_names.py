"""Guarded names: what comes into them, what is renamed, and what stands behind a guarded alias when it is deleted."""

from __future__ import annotations

from typing import Any

from mlflow_calib.core.signing import Statement
from mlflow_calib.guard.decisions import allow, log, refuse
from mlflow_calib.guard.permission import Standing
from mlflow_calib.guard.registry_view import IS_PROMPT, VERSION_URI, is_ours, is_placeholder
from mlflow_calib.guard.settings import PRODUCTION
from mlflow_calib.guard.store_base import HOW_TO_OVERRIDE, GuardedBase

HOW_TO_COPY = "Copy a version whose verdict passed (copy_model_version), or sign an override to copy it"


class GuardedNames(GuardedBase):
    """Versions come into guarded names with proof; renaming and deleting what is guarded needs an override."""

    def create_model_version(self, name: str, source: str, *args: Any, **options: Any) -> Any:
        """Add a version; into a guarded name only the copy of one whose statement opens it.

        Tags of the guard and signed statements that come along are dropped: a copy carries those of its origin, which
        say nothing of it.
        """
        args, options = self._own_tags_dropped(name, args, options)
        if not self.settings.guards_name(name) or self._new_prompt(name, source):
            return super().create_model_version(name, source, *args, **options)
        what = f"add a version from {source} to {name!r}"
        statement, location = self._copied(what, name, source)
        with self.locked(name):
            created = super().create_model_version(name, source, *args, **options)
            if self.get_model_version_download_uri(name, created.version) != location:
                refuse(what, [f"{source} was replaced at the same moment"], HOW_TO_COPY)
        allow(f"{what} as version {created.version}", f"signed {statement.kind}")
        return created

    @staticmethod
    def _own_tags_dropped(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The arguments without tags of ours; ``run_id`` and ``tags`` follow the source in MLflow's signature."""
        given = dict(zip(("run_id", "tags"), args, strict=False))
        tags = list(options.get("tags", given.get("tags")) or [])
        kept = [tag for tag in tags if not is_ours(tag.key)]
        if len(kept) == len(tags):
            return args, options
        log.info("a new version of %r comes without the tags of the guard that were given with it", name)
        if "tags" in given:
            return (args[0], kept, *args[2:]), options
        return args, {**options, "tags": kept}

    def _new_prompt(self, name: str, source: str) -> bool:
        return is_placeholder(source) and IS_PROMPT in self.get_registered_model(name).tags

    def _copied(self, what: str, name: str, source: str) -> tuple[Statement, str]:
        found = VERSION_URI.match(str(source))
        origin = self.view.version(found["name"], found["version"]) if found else None
        if origin is None:
            refuse(what, ["its source must be a version, models:/<name>/<version>, that exists"], HOW_TO_COPY)
        location = self.get_model_version_download_uri(origin.name, origin.version)
        return self.require_proof(what, self.prover.copy(origin, name, location), HOW_TO_COPY), str(location)

    def rename_registered_model(self, name: str, new_name: str) -> Any:
        """Rename; where either name is guarded or the model holds something guarded, an override is needed."""
        what = f"rename {name!r} to {new_name!r}"
        carrier, held = self.get_registered_model(name), self.view.guarded(name)
        named = self.settings.guards_name(name) or self.settings.guards_name(new_name)
        statement = None
        if named or held:
            proof = self.prover.override(carrier, "rename", name, None, _latest(held), new_name)
            statement = self.require_proof(what, proof, HOW_TO_OVERRIDE)
        with self.locked(name):
            self._same(what, held, self.view.guarded(name))
            renamed = super().rename_registered_model(name, new_name)
        if statement is not None:
            allow(what, f"signed override by {statement.by}, because {statement.reason}")
        return renamed

    def delete_model_version(self, name: str, version: Any) -> None:
        """Delete a version; one that holds a guarded alias, or stands in Production, needs an override."""
        found = self.get_model_version(name, version)
        number, what = str(found.version), f"delete version {found.version} of {name!r}"
        held = self._held_by(name, number)
        statement = None
        if held:
            proof = self.prover.override(found, "delete-version", name, number, _latest(held))
            statement = self.require_proof(what, proof, HOW_TO_OVERRIDE)
        with self.locked(name):
            self._same(what, held, self._held_by(name, number))
            super().delete_model_version(name, number)
            for standing in held:
                self.record_move(name, standing, None, statement)
        if statement is not None:
            allow(what, f"signed override by {statement.by}, because {statement.reason}")

    def delete_registered_model(self, name: str) -> None:
        """Delete a registered model; one that holds something guarded, or has a guarded name, needs an override."""
        what = f"delete {name!r}"
        carrier, held = self.get_registered_model(name), self.view.guarded(name)
        statement = None
        if held or self.settings.guards_name(name):
            proof = self.prover.override(carrier, "delete-model", name, None, _latest(held))
            statement = self.require_proof(what, proof, HOW_TO_OVERRIDE)
        with self.locked(name):
            self._same(what, held, self.view.guarded(name))
            super().delete_registered_model(name)
        if statement is not None:
            allow(what, f"signed override by {statement.by}, because {statement.reason}")

    def _held_by(self, name: str, number: str) -> list[Standing]:
        """What this version holds; one in Production counts though a newer one stands there too."""
        held = [standing for standing in self.view.guarded(name) if standing.holder == number]
        stands = self.get_model_version(name, number).current_stage == PRODUCTION
        if stands and not any(standing.label == PRODUCTION for standing in held):
            held.append(self.view.stage(name))
        return held

    @staticmethod
    def _same(what: str, before: list[Standing], now: list[Standing]) -> None:
        if [(one.label, one.holder, one.moved) for one in before] != [
            (one.label, one.holder, one.moved) for one in now
        ]:
            refuse(what, ["a guarded alias was moved at the same moment"], "Look at the registry and try again")


def _latest(held: list[Standing]) -> Standing | None:
    """The one that was moved last: a statement older than that move no longer stands."""
    return max(held, key=lambda one: one.moved_at.timestamp() if one.moved_at else 0.0, default=None)
