"""What the steps sign, where the environment holds keys: verdicts, overrides and rollbacks, as tags of the version."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from mlflow_calib.core.policy import EVIDENCE_AGE
from mlflow_calib.core.records import parse_time
from mlflow_calib.core.signing import Keyring, Statement, sign, verify
from mlflow_calib.core.verdict import Verdict
from mlflow_calib.errors import PromotionRefusedError, SignatureError
from mlflow_calib.flavor.events import OVERRIDE, ROLLBACK, Event

#: Tags with signed statements, by their kind.
SIGNED = {kind: f"mlflow_calib.signed.{kind}" for kind in ("verdict", OVERRIDE, ROLLBACK)}

#: Tag that the guard alone writes on a version that got the alias after the dot.
HELD = "mlflow_calib.guard.held"
_NEVER = "9999-12-31T23:59:59+00:00"


def signed_verdict(
    verdict: Verdict,
    name: str,
    version: str,
    *,
    model_sha256: str | None,
    verdict_record: Mapping[str, str],
    evidence: Mapping[str, str],
    evaluated_at: Any,
) -> dict[str, str]:
    """The tag with the signed verdict, whatever it says, so that it takes the place of an earlier one.

    Empty without keys, and where the policy is not enforced.
    """
    keyring = Keyring.from_environment()
    if keyring is None or verdict.mode != "enforce":
        return {}
    alias, expected_version, expected_name = _compared(verdict.champion, name)
    statement = Statement(
        kind="verdict",
        action="promote",
        name=name,
        version=version,
        alias=alias,
        expected_version=expected_version,
        expected_name=expected_name,
        model_sha256=model_sha256 or "unknown",  # such a verdict is none
        evidence_uri=evidence["uri"],
        evidence_sha256=evidence["sha256"],
        verdict_uri=verdict_record["uri"],
        verdict_sha256=verdict_record["sha256"],
        status=verdict.status,
        mode=verdict.mode,
        policy_sha256=verdict.policy_digest,
        expires_at=_expiry(verdict, evaluated_at),
    )
    return {SIGNED["verdict"]: sign(statement, keyring)}


def signed_move(
    event: Event, records: Mapping[str, Any] | None = None, *, held_under_guard: bool = True
) -> dict[str, str]:
    """The tag with the signed override or rollback; empty without keys. It stands for a day, for this move alone.

    The guard lets a rollback through to a version that it has seen hold the alias; to one that held it before there
    was a guard, the same person's override opens it.
    """
    keyring = Keyring.from_environment()
    if keyring is None or event.event not in (OVERRIDE, ROLLBACK):
        return {}
    kind = event.event if held_under_guard else OVERRIDE
    statement = Statement(
        kind=kind,
        action="promote",
        name=event.name,
        version=event.to,
        alias=event.alias,
        expected_version=event.before,
        model_sha256=event.model_sha256,
        reason=event.reason,
        by=event.by,
        **(records or {}),
    )
    return {SIGNED[kind]: sign(statement, keyring)}


def require_signed_verdict(tags: Mapping[str, str], verdict_sha256: str, model_uri: str) -> Statement | None:
    """The signed verdict of a version, verified, where the environment holds keys; None without keys.

    Raises
    ------
    PromotionRefusedError
        There is none, or it is of another verdict.
    SignatureError
        It does not verify; the message says what is wrong.
    """
    keyring = Keyring.from_environment()
    if keyring is None:
        return None
    tag, remedy = SIGNED["verdict"], "run the gate again with the key in its environment"
    text = tags.get(tag)
    if not text:
        raise PromotionRefusedError(f"{model_uri} must carry a signed verdict, and has no tag {tag}; {remedy}")
    try:
        statement = verify(text, keyring)
    except SignatureError as error:
        raise SignatureError(f"the signature of the verdict on {model_uri} does not hold: {error}") from error
    if statement.verdict_sha256 != verdict_sha256:
        raise PromotionRefusedError(
            f"the signature on {model_uri} is of verdict {statement.verdict_sha256}, and this one is {verdict_sha256}; "
            f"hand over the verdict that the gate left last, or {remedy}"
        )
    return statement


def _compared(champion: Mapping[str, Any] | None, name: str) -> tuple[str | None, str | None, str | None]:
    """The alias that the evidence looked the champion up by, and version and other name of who stood there.

    Such a statement stands where the alias stands nowhere. A champion of another registered model is named with it.
    """
    alias = None if champion is None else champion.get("alias")
    if champion is None or alias in (None, "none"):
        return None, None, None
    other = champion.get("name") if champion.get("name") != name else None
    return alias, champion.get("version"), other


def _expiry(verdict: Verdict, evaluated_at: Any) -> str | None:
    """When the evidence is too old; where nobody asks for its age, never."""
    age, since = verdict.requirement(EVIDENCE_AGE), parse_time(evaluated_at)
    if since is None:
        return None
    try:
        return _NEVER if age.status == "off" else (since + timedelta(days=age.limit)).isoformat(timespec="seconds")
    except OverflowError:
        return _NEVER
