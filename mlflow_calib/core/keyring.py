"""The keys that sign and verify: secrets by id, read from the environment, never shown.

A secret leaves this module in a keyring alone, whose text names the ids and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlflow_calib.errors import InvalidInputError, raise_problems

KEYS, KEYS_FILE, KEY_ID = "MLFLOW_CALIB_KEYS", "MLFLOW_CALIB_KEYS_FILE", "MLFLOW_CALIB_KEY_ID"
#: Bytes of a secret: as many as HMAC-SHA-256 gives.
SHORTEST_SECRET = 32
_LONGEST_SHOWN = 32
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


class Keyring:
    """Secrets by key id, and the id that signs.

    Several keys stand side by side while keys are rotated: all of them verify, one of them signs.

    Parameters
    ----------
    secrets
        Key id (letters, digits, ``.``, ``_``, ``-``; at most 32) to secret of at least 32 bytes.
    signing_id
        Which one signs; None: the last one.

    Raises
    ------
    InvalidInputError
        With every problem of the keys at once; no message shows a secret.

    Examples
    --------
    >>> Keyring({"2026a": bytes(32)})
    Keyring(ids=['2026a'], signing_id='2026a')
    """

    __slots__ = ("_secrets", "signing_id")

    def __init__(self, secrets: Mapping[str, bytes], signing_id: str | None = None) -> None:
        chosen = next(reversed(list(secrets)), None) if signing_id is None else signing_id
        problems = [problem for key_id, secret in secrets.items() for problem in _problems(key_id, secret)]
        if not secrets:
            problems.append("a keyring must hold at least one key, got none")
        elif chosen not in secrets:
            problems.append(f"the key that signs must be one of {', '.join(secrets)}, got {chosen!r}; set {KEY_ID}")
        if problems or chosen is None:
            raise_problems(problems)
        self._secrets = dict(secrets)
        self.signing_id: str = chosen

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Keyring | None:
        """The keys that the environment names; None where it names none.

        ``MLFLOW_CALIB_KEYS`` holds ``id:secret`` separated by commas, a secret in hexadecimal or base64;
        ``MLFLOW_CALIB_KEYS_FILE`` names a file of the same, one a line or separated by commas, ``#`` starts a comment.
        ``MLFLOW_CALIB_KEY_ID`` says which one signs, by default the last one.

        Raises
        ------
        InvalidInputError
            The keys are wrong (all mistakes at once), both variables are set, or the file cannot be read.
        """
        variables = os.environ if environment is None else environment
        text, file = variables.get(KEYS, "").strip(), variables.get(KEYS_FILE, "").strip()
        if text and file:
            raise InvalidInputError(f"set {KEYS} or {KEYS_FILE}, not both")
        where = KEYS if text else f"{KEYS_FILE}={file}"
        entries = list(_entries(_read(file) if file else text))
        if not entries:
            if file:
                raise InvalidInputError(f"{where} must hold id:secret lines, and holds none")
            return None
        return cls(_secrets(entries, where), variables.get(KEY_ID, "").strip() or None)

    @property
    def ids(self) -> list[str]:
        """The ids of all keys, in their order."""
        return list(self._secrets)

    def secret(self, key_id: str) -> bytes | None:
        """The secret of an id; None where there is none."""
        return self._secrets.get(key_id)

    def __repr__(self) -> str:
        return f"Keyring(ids={self.ids}, signing_id={self.signing_id!r})"

    def __reduce__(self) -> str:
        raise TypeError("a keyring is not pickled: its secrets stay in the process that read them")


def _problems(key_id: str, secret: bytes) -> Iterator[str]:
    if not _ID.fullmatch(key_id):
        # a secret that took the place of an id must not be shown
        given = repr(key_id) if len(key_id) <= _LONGEST_SHOWN else f"one of {len(key_id)} characters"
        yield f"a key id must be 1 to 32 letters, digits, '.', '_' or '-', got {given}"
    if len(secret) < SHORTEST_SECRET:
        key = f"key {key_id!r}" if len(key_id) <= _LONGEST_SHOWN else "a key"
        yield (
            f"{key} must have a secret of at least {SHORTEST_SECRET} bytes, got {len(secret)}; "
            "make one with: openssl rand -hex 32"
        )


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidInputError(f"{KEYS_FILE}={file} cannot be read: {reason}") from None


def _entries(text: str) -> Iterator[str]:
    lines = (line.split("#", 1)[0] for line in text.splitlines())
    return (entry.strip() for line in lines for entry in line.split(",") if entry.strip())


def _secrets(entries: list[str], where: str) -> dict[str, bytes]:
    secrets: dict[str, bytes] = {}
    problems = []
    for position, entry in enumerate(entries, start=1):
        key_id, colon, secret = (part.strip() for part in entry.partition(":"))
        if not colon or not key_id:
            problems.append(f"{where}: entry {position} must be id:secret, and has no id")
        elif key_id in secrets:
            problems.append(f"{where}: the key id of entry {position} must stand once, and stood before")
        elif (raw := _decoded(secret)) is None:
            problems.append(f"{where}: entry {position} must be id:secret, the secret hexadecimal or base64")
        else:
            secrets[key_id] = raw
    if problems:
        raise_problems(problems)
    return secrets


def _decoded(secret: str) -> bytes | None:
    if _HEX.fullmatch(secret):
        return bytes.fromhex(secret)
    try:
        padded = secret + "=" * (-len(secret) % 4)
        return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        return None
