"""Guarded tags: the guard's own are nobody's to write, and a signed statement stands only where it verifies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.core.signing import Statement, verify
from mlflow_calib.errors import SignatureError
from mlflow_calib.guard.decisions import refuse
from mlflow_calib.guard.permission import CLOCK_AHEAD
from mlflow_calib.guard.registry_view import GUARD, IS_PROMPT, SIGNED, is_ours
from mlflow_calib.guard.store_base import GuardedBase

HOW_TO_SIGN = "Let the step that decides (gate, promote, rollback) write it, with the key in its environment"
#: What a statement on a registered model may permit; everything else stands on a version.
_OF_A_MODEL = ("delete-model", "rename")


class GuardedTags(GuardedBase):
    """Writes and deletes of ``mlflow_calib.guard.*`` and ``mlflow_calib.signed.*``; other tags pass through."""

    def create_registered_model(self, name: str, tags: Any = None, *args: Any, **options: Any) -> Any:
        """Create a registered model, which comes without tags of the guard."""
        for tag in tags or []:
            if is_ours(tag.key):
                refuse(f"create {name!r} with tag {tag.key!r}", ["clients do not write it"], HOW_TO_SIGN)
        return super().create_registered_model(name, tags, *args, **options)

    def set_registered_model_tag(self, name: str, tag: Any) -> None:
        """Write a tag of a registered model."""
        what = f"write tag {tag.key!r} of {name!r}"
        if not is_ours(tag.key):
            if str(tag.key).casefold() == IS_PROMPT and self.view.guarded(name):
                refuse(what, ["it would hide a model that holds a guarded alias as a prompt"], "Leave the tag away")
            super().set_registered_model_tag(name, tag)
            return
        statement = self._signed(what, tag)
        with self.locked(name):
            carrier = self.get_registered_model(name)
            if statement.action not in _OF_A_MODEL or statement.name != carrier.name:
                self._elsewhere(what, statement)
            self._not_older(what, tag.key, carrier.tags, statement)
            super().set_registered_model_tag(name, tag)

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        """Delete a tag of a registered model."""
        if is_ours(key):
            refuse(f"delete tag {key!r} of {name!r}", ["clients do not delete it"], "Let it stand: it expires")
        super().delete_registered_model_tag(name, key)

    def set_model_version_tag(self, name: str, version: Any, tag: Any) -> None:
        """Write a tag of a version."""
        if not is_ours(tag.key):
            super().set_model_version_tag(name, version, tag)
            return
        what = f"write tag {tag.key!r} of {name!r} version {version}"
        statement = self._signed(what, tag)
        with self.locked(name):
            carrier = self.get_model_version(name, version)
            if (statement.name, statement.version) != (str(carrier.name), str(carrier.version)):
                self._elsewhere(what, statement)
            self._not_older(what, tag.key, carrier.tags, statement)
            super().set_model_version_tag(name, version, tag)

    def delete_model_version_tag(self, name: str, version: Any, key: str) -> None:
        """Delete a tag of a version."""
        if is_ours(key):
            what = f"delete tag {key!r} of {name!r} version {version}"
            refuse(what, ["clients do not delete it"], "Let it stand: it expires")
        super().delete_model_version_tag(name, version, key)

    def _signed(self, what: str, tag: Any) -> Statement:
        if tag.key.startswith(GUARD):
            refuse(what, ["the guard alone writes it"], "Nothing needs it written by hand")
        keyring = self.settings.keyring
        if keyring is None:
            refuse(what, self.settings.problems, HOW_TO_SIGN)
        try:
            statement = verify(str(tag.value), keyring)
        except SignatureError as error:
            refuse(what, [str(error)], HOW_TO_SIGN)
        if statement.issued > datetime.now(timezone.utc) + CLOCK_AHEAD:
            reason = f"it was signed at {statement.issued_at}, which is still to come: it would outlast all that follow"
            refuse(what, [reason], "Set the clock of the worker and sign again")
        if tag.key != f"{SIGNED}{statement.kind}":
            refuse(what, [f"it holds a signed {statement.kind}, which stands in {SIGNED}{statement.kind}"], HOW_TO_SIGN)
        return statement

    @staticmethod
    def _elsewhere(what: str, statement: Statement) -> None:
        of = f" version {statement.version}" if statement.version else ""
        refuse(what, [f"it permits to {statement.action} {statement.name!r}{of}, and stands there alone"], HOW_TO_SIGN)

    def _not_older(self, what: str, key: str, tags: Mapping[str, str], statement: Statement) -> None:
        """An older statement never takes the place of a newer one: a verdict that failed since stays."""
        keyring, text = self.settings.keyring, tags.get(key)
        if not text or keyring is None:
            return
        try:
            stands = verify(text, keyring)
        except SignatureError:
            return
        if statement.issued < stands.issued <= datetime.now(timezone.utc) + CLOCK_AHEAD:
            reason = f"it was signed at {statement.issued_at}, before the one that stands, of {stands.issued_at}"
            refuse(what, [reason], HOW_TO_SIGN)
