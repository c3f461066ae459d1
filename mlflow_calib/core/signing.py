"""Signed statements: who may move which alias to which version, on which evidence, until when.

A statement is signed where the gate runs and verified where the registry is written; between the two it travels as a
tag that anybody may copy and nobody can change. The signature is HMAC-SHA-256 (RFC 2104) over the canonical JSON of
statement and key id.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta, timezone
from typing import Any

from mlflow_calib.core.keyring import Keyring
from mlflow_calib.core.records import (
    TEXT,
    TIME,
    Kind,
    canonical_json,
    digest,
    field_problems,
    one_of,
    parse_time,
    shown,
)
from mlflow_calib.errors import SignatureError, raise_problems

__all__ = ["STATEMENT_SCHEMA", "Keyring", "SignatureError", "Statement", "sign", "verify"]

STATEMENT_SCHEMA = "mlflow_calib.statement/1"
KINDS = ("verdict", "override", "rollback")
ACTIONS = ("promote", "delete-alias", "delete-version", "delete-model", "rename", "copy")
#: A statement that names no end stands for a day: long enough to act on, too short to be kept for later.
WITHOUT_EXPIRY = timedelta(days=1)
#: Characters: the tag stays within what every registry stores.
LONGEST_TEXT = 2000


def _now() -> str:
    """To the microsecond: the guard tells by it whether a statement is older than a move."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One permission, as it is signed.

    Attributes
    ----------
    kind
        "verdict", "override" or "rollback"; an override and a rollback carry ``reason`` and ``by``.
    action
        "promote", "delete-alias", "delete-version", "delete-model", "rename" or "copy"; of a verdict always "promote".
    name, version
        Registered model and version it speaks of; version None for "delete-model" and "rename".
    alias
        Guarded alias it opens. None in a verdict: it stands only where the alias stands nowhere.
    expected_version, expected_name
        Version that must hold the alias now, None: no version; and its registered model where that is another.
    model_sha256
        Digest over every file of the model's folder.
    evidence_uri, evidence_sha256, verdict_uri, verdict_sha256
        The records it rests on.
    status, mode, policy_sha256
        Of the verdict, and the digest of the completed policy.
    reason, by
        Why, and who answers for it.
    target
        New name, for "rename" and "copy".
    issued_at, expires_at
        ISO 8601, UTC. Without ``expires_at`` it stands for one day.
    """

    kind: str
    action: str
    name: str
    version: str | None = None
    alias: str | None = None
    expected_version: str | None = None
    expected_name: str | None = None
    model_sha256: str | None = None
    evidence_uri: str | None = None
    evidence_sha256: str | None = None
    verdict_uri: str | None = None
    verdict_sha256: str | None = None
    status: str | None = None
    mode: str | None = None
    policy_sha256: str | None = None
    reason: str | None = None
    by: str | None = None
    target: str | None = None
    issued_at: str = field(default_factory=_now)
    expires_at: str | None = None

    @property
    def expires(self) -> datetime:
        """The moment after which it no longer stands."""
        end = parse_time(self.expires_at)
        return end if end is not None else _time(self.issued_at) + WITHOUT_EXPIRY

    @property
    def issued(self) -> datetime:
        """The moment it was signed."""
        return _time(self.issued_at)

    @property
    def sha256(self) -> str:
        """Digest by which a statement that was used is known again."""
        return digest(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the schema."""
        return {"schema": STATEMENT_SCHEMA, **asdict(self)}


def _time(text: str) -> datetime:
    time = parse_time(text)
    if time is None:
        raise SignatureError(f"issued_at must be {TIME.words}, got {shown(text)}")
    return time


_SHORT = Kind(f"a text of 1 to {LONGEST_TEXT} characters", lambda v: TEXT.test(v) and len(v) <= LONGEST_TEXT)
_KINDS: dict[str, Kind] = {
    **{part.name: _SHORT.or_null() for part in fields(Statement)},
    "schema": one_of(STATEMENT_SCHEMA),
    "kind": one_of(*KINDS),
    "action": one_of(*ACTIONS),
    "name": _SHORT,
    "issued_at": TIME,
    "expires_at": TIME.or_null(),
}
_NEEDED_BY_KIND = {
    "verdict": ("version", "model_sha256", "evidence_uri", "evidence_sha256", "status", "mode", "policy_sha256"),
    "override": ("reason", "by"),
    "rollback": ("reason", "by"),
}
_NEEDED_BY_ACTION = {
    "promote": ("version", "model_sha256"),
    "delete-alias": ("version", "alias"),
    "delete-version": ("version",),
    "delete-model": (),
    "rename": ("target",),
    "copy": ("version", "target", "model_sha256"),
}


def _statement_problems(document: Any) -> list[str]:
    """Every problem of a statement's JSON; a schema of another release is the only one named where it differs."""
    if isinstance(document, dict) and document.get("schema") not in (None, STATEMENT_SCHEMA):
        return [f"schema must be {STATEMENT_SCHEMA!r}, got {shown(document['schema'])}; it comes from another release"]
    problems = field_problems(document, _KINDS)
    if problems:
        return problems
    if unknown := sorted(set(document) - set(_KINDS)):
        return [f"unknown field {', '.join(map(repr, unknown))}"]
    kind, action = document["kind"], document["action"]
    needed = dict.fromkeys((*_NEEDED_BY_KIND[kind], *_NEEDED_BY_ACTION[action]))
    problems = [f"{name} is missing: {kind} to {action} must name it" for name in needed if document[name] is None]
    if kind in ("verdict", "rollback") and action != "promote":
        problems.append(f"action of a {kind} must be 'promote', got {action!r}")
    if kind != "verdict" and action == "promote" and document["alias"] is None:
        problems.append(f"alias is missing: {kind} to promote must name it")
    return problems


def sign(statement: Statement, keyring: Keyring) -> str:
    """One line of canonical JSON: the statement, the id of the key, the signature.

    Raises
    ------
    InvalidInputError
        The statement lacks what its kind and action must name; all problems at once.

    Examples
    --------
    >>> keyring = Keyring({"2026a": bytes(32)})
    >>> text = sign(Statement(kind="override", action="delete-model", name="old", reason="retired", by="Ada"), keyring)
    >>> verify(text, keyring).by
    'Ada'
    """
    document = statement.to_dict()
    if problems := _statement_problems(document):
        raise_problems([f"statement: {problem}" for problem in problems])
    key_id = keyring.signing_id
    return canonical_json(
        {"statement": document, "key_id": key_id, "signature": _signature(document, key_id, keyring) or ""}
    )


def verify(text: str, keyring: Keyring) -> Statement:
    """The statement of a signed text, whose every byte is as it was signed.

    Raises
    ------
    SignatureError
        It is no signed statement, no key of its id is at hand, the signature does not match, or its schema is not
        known; the message says which.
    """
    document = _envelope(text)
    statement, key_id, given = document["statement"], document["key_id"], document["signature"]
    expected = _signature(statement, key_id, keyring)
    if expected is None:
        raise SignatureError(
            f"it was signed with key {shown(key_id)}, and the keys at hand are {', '.join(keyring.ids)}; "
            "add that key, or sign again with one of these"
        )
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass")):
        raise SignatureError(
            f"its signature does not match its content under key {key_id!r}: it was changed after it was signed, or "
            "signed with another secret; sign it again"
        )
    if problems := _statement_problems(statement):
        raise SignatureError(f"the signed statement is not valid: {'; '.join(problems)}")
    return Statement(**{part.name: statement[part.name] for part in fields(Statement)})


def _envelope(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
        one_form = canonical_json(document) == text
    except (TypeError, ValueError, RecursionError):
        raise SignatureError("it is damaged: it must be the JSON that was signed; sign it again") from None
    if not isinstance(document, dict) or set(document) != {"statement", "key_id", "signature"}:
        raise SignatureError("it must hold statement, key_id and signature, and nothing else; sign it again")
    if not isinstance(document["key_id"], str) or not isinstance(document["signature"], str) or not one_form:
        raise SignatureError("it is damaged: it must stand to the byte as it was signed; sign it again")
    return document


def _signature(statement: Any, key_id: str, keyring: Keyring) -> str | None:
    """Hexadecimal HMAC; None where the keyring has no such key."""
    secret = keyring.secret(key_id)
    if secret is None:
        return None
    message = canonical_json({"key_id": key_id, "statement": statement}).encode("utf-8", "surrogatepass")
    return hmac.new(secret, message, hashlib.sha256).hexdigest()
