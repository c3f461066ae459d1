"""What the server guards, by which keys and policies: read once from its environment.

A mistake here never stops the server: it guards all the same, refuses everything that is guarded, and says why.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from mlflow_calib.core.keyring import KEYS, KEYS_FILE, Keyring
from mlflow_calib.core.policy import Policy
from mlflow_calib.data.records import read_policy_document
from mlflow_calib.errors import MlflowCalibError

POLICIES = "MLFLOW_CALIB_GUARD_POLICIES"
ALIASES = "MLFLOW_CALIB_GUARD_ALIASES"
NAMES = "MLFLOW_CALIB_GUARD_NAMES"
#: The stage that is guarded, and the name it goes by in statements.
PRODUCTION = "Production"
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class GuardSettings:
    """What is guarded, and what opens it.

    Attributes
    ----------
    aliases
        Guarded aliases, compared without case and accents: some databases do not tell ``Champion`` from ``champion``.
    names
        Patterns of registered models into which versions come with proof alone.
    policies
        Digests of the policies whose pass counts.
    keyring
        Keys that verify; None: no statement can be verified.
    problems
        What is wrong with the settings; each refusal repeats them.
    """

    aliases: tuple[str, ...] = ("champion",)
    names: tuple[str, ...] = ()
    policies: frozenset[str] = frozenset()
    keyring: Keyring | None = field(default=None, repr=False)
    problems: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> GuardSettings:
        """Read the settings; whatever is wrong stands in ``problems``."""
        variables = os.environ if environment is None else environment
        problems: list[str] = []
        policies = frozenset(_policies(_listed(variables.get(POLICIES, "")), problems))
        if not policies:
            problems.append(f"no policy is listed; set {POLICIES} to digests or files of policies")
        return cls(
            aliases=tuple(_listed(variables.get(ALIASES, ""))) or cls.aliases,
            names=tuple(_listed(variables.get(NAMES, ""))),
            policies=policies,
            keyring=_keyring(variables, problems),
            problems=tuple(problems),
        )

    def guards_alias(self, alias: str) -> bool:
        """Whether an alias is guarded, or some database or reader would take it for one that is."""
        return plain(alias) in {plain(guarded) for guarded in self.aliases}

    def guards_name(self, name: str) -> bool:
        """Whether versions come into this registered model with proof alone."""
        return any(fnmatchcase(plain(name), plain(pattern)) for pattern in self.names)

    def summary(self) -> str:
        """One line for the log of the server."""
        keys = ", ".join(self.keyring.ids) if self.keyring else "none"
        guarded = f"aliases {', '.join(self.aliases)}; stage {PRODUCTION}; names {', '.join(self.names) or 'none'}"
        line = f"registry guard: {guarded}; keys {keys}; policies {', '.join(sorted(self.policies)) or 'none'}"
        if not self.problems:
            return line
        what = "everything guarded is refused" if not (self.keyring and self.policies) else "not all settings hold"
        return f"{line}; {what}: {'; '.join(self.problems)}"


def plain(text: object) -> str:
    r"""A name as databases that ignore case, accents, width and trailing blanks compare it.

    >>> plain("CHÂMPION "), plain("champion\N{FULLWIDTH LATIN SMALL LETTER S}")
    ('champion', 'champions')
    """
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", str(text)).casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).strip()


def _listed(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _policies(entries: list[str], problems: list[str]) -> Iterator[str]:
    for entry in entries:
        if _DIGEST.fullmatch(entry):
            yield f"sha256:{entry.lower().removeprefix('sha256:')}"
            continue
        try:
            policy = Policy.from_dict(read_policy_document(entry))
        except MlflowCalibError as error:
            problems.append(f"policy {entry} of {POLICIES} cannot be used: {error}")
            continue
        if policy.mode != "enforce":
            problems.append(f"policy {entry} of {POLICIES} must have mode 'enforce', got {policy.mode!r}")
            continue
        yield policy.digest


def _keyring(variables: Mapping[str, str], problems: list[str]) -> Keyring | None:
    try:
        keyring = Keyring.from_environment(variables)
    except MlflowCalibError as error:
        problems.append(f"the keys cannot be used: {error}")
        return None
    if keyring is None:
        problems.append(f"there is no key; set {KEYS} or {KEYS_FILE}")
    return keyring
