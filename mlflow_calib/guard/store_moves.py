"""Guarded moves: aliases and the stage Production."""

from __future__ import annotations

from typing import Any

from mlflow_calib.core.signing import Statement
from mlflow_calib.guard.decisions import allow, refuse
from mlflow_calib.guard.permission import Standing
from mlflow_calib.guard.proof import Proof
from mlflow_calib.guard.registry_view import is_placeholder
from mlflow_calib.guard.settings import PRODUCTION
from mlflow_calib.guard.store_base import HOW_TO_OVERRIDE, HOW_TO_PROMOTE, GuardedBase


class GuardedMoves(GuardedBase):
    """Aliases and stages move to versions with proof, and leave them by override."""

    def set_registered_model_alias(self, name: str, alias: str, version: Any) -> None:
        """Point the alias at the version; a guarded one needs a statement that opens it for this version now."""
        if not self.settings.guards_alias(alias):
            super().set_registered_model_alias(name, alias, version)
            return
        with self.look():
            found = self.get_model_version(name, version)
            number, before = str(found.version), self.view.alias(name, alias)
            location = self.get_model_version_download_uri(name, number)
            placeholder = is_placeholder(found.source)
            prompt = placeholder and (before.holder is None or self.view.is_prompt(name, before.holder))
        if before.holder == number:
            return
        what, statement = f"point alias {alias!r} of {name!r} at version {number}", None
        if not prompt:
            proof = self.prover.promotion(found, before, location)
            if proof.statement is None and self.view.alias_now(name, alias).holder == number:
                return  # the same request came twice, and the other one was at work between two reads of this one
            statement = self.require_proof(what, proof, HOW_TO_PROMOTE)
        with self.locked(name):
            now = self.view.alias_now(name, alias)
            if now.holder == number:
                return
            self.require_unmoved(what, before, now)
            super().set_registered_model_alias(name, alias, number)
            if not prompt:
                self.record_move(name, before, number, statement)
        if statement is not None:
            allow(what, _why(statement, before))

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        """Remove the alias; a guarded one that a version holds needs an override."""
        if not self.settings.guards_alias(alias):
            super().delete_registered_model_alias(name, alias)
            return
        before = self.view.alias(name, alias)
        held = before.holder is not None and not self.view.is_prompt(name, before.holder)
        what = f"delete alias {alias!r} of {name!r}"
        statement = self._released(what, name, before) if held else None
        with self.locked(name):
            self.require_unmoved(what, before, self.view.alias_now(name, alias))
            super().delete_registered_model_alias(name, alias)
            if held:
                self.record_move(name, before, None, statement)
        if statement is not None:
            allow(what, _why(statement, before))

    def _released(self, what: str, name: str, before: Standing) -> Statement:
        carrier = self.get_model_version(name, before.holder)
        proof = self.prover.override(carrier, "delete-alias", name, before.holder, before)
        return self.require_proof(what, proof, HOW_TO_OVERRIDE)

    def transition_model_version_stage(
        self, name: str, version: Any, stage: str, archive_existing_versions: bool
    ) -> Any:
        """Move the version to the stage; Production is entered with proof and left by override."""
        found = self.get_model_version(name, version)
        number, stands = str(found.version), found.current_stage == PRODUCTION
        entering = str(stage).casefold() == PRODUCTION.casefold()
        what = f"move version {number} of {name!r} to stage {stage}"
        before = self._standings(name)
        statement, why = None, ""
        if entering and (archive_existing_versions or not stands):
            statement, why = self._entering(what, found, before)
        elif stands and not entering:
            statement = self._leaving(what, found, before[0])
            why = _why(statement, before[0])
        with self.locked(name):
            for one, now in zip(before, self._standings(name), strict=True) if entering or stands else ():
                self.require_unmoved(what, one, now)
            if (self.get_model_version(name, number).current_stage == PRODUCTION) != stands:
                refuse(what, ["its stage was changed at the same moment"], "Look at the version and try again")
            moved = super().transition_model_version_stage(name, number, stage, archive_existing_versions)
            if why:
                self.record_move(name, before[0], self.view.stage(name).holder, statement)
        if why:
            allow(what, why)
        return moved

    def _standings(self, name: str) -> list[Standing]:
        """The stage first, then every guarded alias."""
        return [self.view.stage(name), *(self.view.alias(name, alias) for alias in self.settings.aliases)]

    def _leaving(self, what: str, found: Any, stage: Standing) -> Statement:
        """The override: to delete the alias "Production", or the version, which is more."""
        name, number = str(found.name), str(found.version)
        proof = self.prover.override(found, "delete-version", name, number, stage)
        if proof.statement is None:
            proof = self.prover.override(found, "delete-alias", name, number, stage)
        return self.require_proof(what, proof, HOW_TO_OVERRIDE)

    def _entering(self, what: str, found: Any, standings: list[Standing]) -> tuple[Statement | None, str]:
        """The statement that opens the stage, or one that would open a guarded alias whose holder has the stage."""
        stage, *aliases = standings
        holds = next((alias for alias in aliases if alias.holder == str(found.version)), None)
        if holds is not None:
            return None, f"it holds the guarded alias {holds.label!r}"
        location = self.get_model_version_download_uri(found.name, found.version)
        same = [alias for alias in aliases if stage.holder in (None, alias.holder)]
        proofs: list[Proof] = []
        for standing in (stage, *same):
            proofs.append(self.prover.promotion(found, standing, location))
            if (statement := proofs[-1].statement) is not None:
                return statement, _why(statement, standing)
        reasons = tuple(reason for proof in proofs for reason in proof.reasons)
        return self.require_proof(what, Proof(stage, reasons=reasons), HOW_TO_PROMOTE), ""


def _why(statement: Statement, before: Standing) -> str:
    reason = f", because {statement.reason}" if statement.reason else ""
    by = f" by {statement.by}" if statement.by else ""
    holder = f"version {before.holder}" if before.holder else "nobody"
    return f"signed {statement.kind}{by}{reason}; {before.label!r} was held by {holder}"
