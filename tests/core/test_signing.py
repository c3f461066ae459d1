"""Signed statements and the keys behind them: every byte counts, and no secret is ever shown."""

from __future__ import annotations

import base64
import json
import pickle
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from mlflow_calib.core.keyring import Keyring
from mlflow_calib.core.records import canonical_json
from mlflow_calib.core.signing import STATEMENT_SCHEMA, Statement, sign, verify
from mlflow_calib.errors import EvidenceError, InvalidInputError, SignatureError

SECRET = bytes(range(32))
KEYRING = Keyring({"2026a": SECRET})
VERDICT = Statement(
    kind="verdict",
    action="promote",
    name="churn",
    version="7",
    alias="champion",
    expected_version="6",
    model_sha256="sha256:" + "1" * 64,
    evidence_uri="runs:/r/mlflow_calib/evidence.json",
    evidence_sha256="sha256:" + "2" * 64,
    verdict_uri="runs:/r/mlflow_calib/verdict.json",
    verdict_sha256="sha256:" + "3" * 64,
    status="pass",
    mode="enforce",
    policy_sha256="sha256:" + "4" * 64,
    issued_at="2026-11-30T12:00:00+00:00",
    expires_at="2026-12-07T12:00:00+00:00",
)
TEXT = sign(VERDICT, KEYRING)
OPENSSL = "5a0491d4bf1d419e288c5f01bbd71531eb5cab6a28bd1302a5cbc59201c81d50"


def test_what_was_signed_is_read_back() -> None:
    assert verify(TEXT, KEYRING) == VERDICT
    assert "\n" not in TEXT
    assert json.loads(TEXT)["statement"]["schema"] == STATEMENT_SCHEMA


def test_the_signature_is_hmac_sha256_of_the_canonical_record() -> None:
    """Made with: printf '%s' "$message" | openssl dgst -sha256 -mac HMAC -macopt hexkey:000102...1f."""
    statement = Statement(
        kind="override", action="delete-model", name="old", reason="x", by="Ada", issued_at="2026-11-30T12:00:00+00:00"
    )
    assert json.loads(sign(statement, KEYRING))["signature"] == OPENSSL


@pytest.mark.parametrize("position", range(0, len(TEXT), 7))
@pytest.mark.parametrize("change", ["flip", "drop", "double"])
def test_no_byte_can_be_changed(position: int, change: str) -> None:
    there = TEXT[position]
    put = {"flip": chr(ord(there) ^ 1), "drop": "", "double": there * 2}[change]
    with pytest.raises(SignatureError):
        verify(TEXT[:position] + put + TEXT[position + 1 :], KEYRING)


@pytest.mark.parametrize("text", [TEXT + " ", " " + TEXT, json.dumps(json.loads(TEXT)), TEXT.replace("{", "{ ", 1)])
def test_another_spelling_of_the_same_record_is_another_text(text: str) -> None:
    with pytest.raises(SignatureError, match="damaged"):
        verify(text, KEYRING)


@pytest.mark.parametrize("text", ["", "pass", "null", "[]", "{}", '"x"', "[" * 100_000, '{"statement":1,"key_id":2}'])
def test_what_is_no_signed_statement(text: str) -> None:
    with pytest.raises(SignatureError, match=r"sign it again"):
        verify(text, KEYRING)


def test_the_message_names_what_is_wrong() -> None:
    with pytest.raises(SignatureError, match="signed with key '2026a', and the keys at hand are 2025"):
        verify(TEXT, Keyring({"2025": SECRET}))
    with pytest.raises(SignatureError, match="does not match its content under key '2026a'"):
        verify(TEXT, Keyring({"2026a": bytes(32)}))
    assert issubclass(SignatureError, EvidenceError)


def _signed(document: Any) -> str:
    """Signed by somebody who holds the key and another release."""
    import hashlib
    import hmac

    body = {"statement": document, "key_id": "2026a"}
    signature = hmac.new(SECRET, canonical_json(body).encode(), hashlib.sha256).hexdigest()
    return canonical_json({**body, "signature": signature})


def test_a_key_that_signs_another_id_does_not_verify() -> None:
    """The id is signed too: a statement of one key never passes for one of another."""
    both = Keyring({"2026a": SECRET, "copy": SECRET})
    with pytest.raises(SignatureError, match="does not match"):
        verify(TEXT.replace('"key_id":"2026a"', '"key_id":"copy"'), both)


def test_a_statement_of_another_release() -> None:
    document = VERDICT.to_dict()
    with pytest.raises(SignatureError, match="comes from another release"):
        verify(_signed({**document, "schema": "mlflow_calib.statement/2"}), KEYRING)
    with pytest.raises(SignatureError, match="unknown field 'more'"):
        verify(_signed({**document, "more": 1}), KEYRING)
    with pytest.raises(SignatureError, match="status is missing"):
        verify(_signed({name: value for name, value in document.items() if name != "status"}), KEYRING)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "wish"}, "kind must be one of"),
        ({"action": "delete-alias"}, "action of a verdict must be 'promote'"),
        ({"status": None, "model_sha256": None}, "status is missing"),
        ({"kind": "override"}, "reason is missing"),
        ({"kind": "rollback", "reason": "x", "by": "Ada", "alias": None}, "alias is missing"),
        ({"name": ""}, "name must be a text"),
        ({"version": 7}, "version must be a text"),
        ({"issued_at": "yesterday"}, "issued_at must be an ISO 8601 time"),
        ({"kind": "override", "reason": "x" * 2001, "by": "Ada"}, "reason must be a text of 1 to 2000 characters"),
    ],
)
def test_what_a_statement_must_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        sign(replace(VERDICT, **changes), KEYRING)


def test_without_an_end_it_stands_for_a_day() -> None:
    assert replace(VERDICT, expires_at=None).expires == datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
    assert VERDICT.expires - VERDICT.issued == timedelta(days=7)


def test_keys_from_the_environment(tmp_path: Path) -> None:
    words = base64.b64encode(SECRET).decode()
    text = f"a:{SECRET.hex()}, b:{words} ,c:{words.rstrip('=')},d:{base64.urlsafe_b64encode(b'~' * 33).decode()}"
    keyring = Keyring.from_environment({"MLFLOW_CALIB_KEYS": text})
    assert keyring is not None
    assert (keyring.ids, keyring.signing_id) == (["a", "b", "c", "d"], "d")
    assert keyring.secret("a") == keyring.secret("b") == keyring.secret("c") == SECRET
    assert keyring.secret("d") == b"~" * 33
    file = tmp_path / "keys"
    file.write_text(f"# of this year\na:{SECRET.hex()}  # first\n\nb:{words}\n")
    keyring = Keyring.from_environment({"MLFLOW_CALIB_KEYS_FILE": str(file), "MLFLOW_CALIB_KEY_ID": "a"})
    assert keyring is not None
    assert keyring.signing_id == "a"
    assert Keyring.from_environment({}) is None
    assert Keyring.from_environment({"MLFLOW_CALIB_KEYS": "  "}) is None


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"MLFLOW_CALIB_KEYS": "a:00"}, "secret of at least 32 bytes, got 1"),
        ({"MLFLOW_CALIB_KEYS": SECRET.hex()}, "entry 1 must be id:secret"),
        ({"MLFLOW_CALIB_KEYS": "a:not a secret!"}, "hexadecimal or base64"),
        ({"MLFLOW_CALIB_KEYS": f"a:{SECRET.hex()},a:{SECRET.hex()}"}, "entry 2 must stand once"),
        ({"MLFLOW_CALIB_KEYS": f"{SECRET.hex()}:2026"}, "got one of 64 characters"),
        ({"MLFLOW_CALIB_KEYS": f"{SECRET.hex()}:x"}, "hexadecimal or base64"),
        ({"MLFLOW_CALIB_KEYS": f"a b:{SECRET.hex()}"}, "a key id must be"),
        ({"MLFLOW_CALIB_KEYS": f"a:{SECRET.hex()}", "MLFLOW_CALIB_KEY_ID": "b"}, "must be one of a, got 'b'"),
        ({"MLFLOW_CALIB_KEYS": f"a:{SECRET.hex()}", "MLFLOW_CALIB_KEYS_FILE": "f"}, "not both"),
        ({"MLFLOW_CALIB_KEYS_FILE": "/nonexistent/keys"}, "cannot be read"),
        ({"MLFLOW_CALIB_KEYS": "a:00,b:11"}, "2 problems"),
    ],
)
def test_keys_that_cannot_be_used(variables: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        Keyring.from_environment(variables)
    assert SECRET.hex() not in str(raised.value)
    assert "not a secret!" not in str(raised.value)


def test_an_empty_file_of_keys_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# nothing yet\n")
    with pytest.raises(InvalidInputError, match="holds none"):
        Keyring.from_environment({"MLFLOW_CALIB_KEYS_FILE": str(tmp_path / "keys")})


def test_no_secret_is_shown() -> None:
    for text in (repr(KEYRING), str(KEYRING), f"{KEYRING}", repr({"k": KEYRING}), repr(vars(type(KEYRING)))):
        assert SECRET.hex() not in text
        assert repr(SECRET) not in text
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(KEYRING)
