"""What stands against a promotion, and the override that a person with a name and a reason may set against it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from mlflow_calib.core.records import parse_time
from mlflow_calib.core.verdict import Verdict
from mlflow_calib.errors import PromotionRefusedError, raise_problems
from mlflow_calib.flavor.events import ROLLBACK, Event
from mlflow_calib.flavor.registry import version_words
from mlflow_calib.steps.given_verdict import stale

#: Characters of a reason and of a name: they stand in tags, statements and descriptions.
LONGEST_REASON, LONGEST_NAME = 500, 200

#: Controls, halves of pairs, ends of lines and marks that turn a line round: terminals and databases read them, and
#: people do not.
_HIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Override:
    """Why a promotion goes ahead although something stands against it, and who answers for it."""

    reason: str
    by: str


def said_problems(said: object, name: str, longest: int) -> list[str]:
    """Why this is no reason and no name: such a text is short, and people can read it."""
    if isinstance(said, str) and len(said) <= longest and any(map(_is_seen, said)):
        hidden = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(set(_HIDDEN.findall(said))))
        return [f"{name} must be a text without control characters, got {hidden}"] if hidden else []
    if isinstance(said, str) and any(map(_is_seen, said)):
        got = f"{len(said)} characters"
    else:
        got = "nothing" if said is None or isinstance(said, str) else f"a {type(said).__name__}"
    return [f"{name} must be a text of 1 to {longest} characters, got {got}"]


def _is_seen(sign: str) -> bool:
    """Whether a character leaves a mark: neither a blank nor a control, nor one that only changes others."""
    return unicodedata.category(sign)[0] not in "CZM"


def override_of(reason: str | None, by: str | None, problems: Sequence[str] = ()) -> Override | None:
    """The override that was asked for; None where none was.

    Raises
    ------
    InvalidInputError
        It lacks its reason or its name; with the other ``problems`` of the call, all at once.
    """
    found = list(problems)
    if by is not None:
        found += said_problems(by, "promoted_by", LONGEST_NAME)
    if reason is not None:
        found += said_problems(reason, "override_reason", LONGEST_REASON)
        found += [] if by is not None else ["override_reason needs promoted_by: an override has somebody's name on it"]
    if found:
        raise_problems(found)
    return None if reason is None else Override(reason.strip(), str(by).strip())


def obstacles(verdict: Verdict, version: str, events: Sequence[Event]) -> list[str]:
    """What stands against the promotion, in sentences; a person may override each of them."""
    against = [f"the verdict blocks the promotion: {verdict.sentence}"] if verdict.blocks else []
    against += [sentence for sentence in (stale(verdict), _rolled_back(verdict, version, events)) if sentence]
    return against


def _rolled_back(verdict: Verdict, version: str, events: Sequence[Event]) -> str | None:
    """A version that was rolled back after it was judged does not come back by a retry."""
    back = [event for event in events if event.event == ROLLBACK and event.before == version]
    judged_at, rolled_back_at = parse_time(verdict.judged_at), parse_time(back[-1].at) if back else None
    if rolled_back_at is None or (judged_at is not None and judged_at > rolled_back_at):
        return None
    return (
        f"version {version} was rolled back at {back[-1].at} by {back[-1].by} ({back[-1].reason}), after it was "
        "judged; judge it again, or override with a reason"
    )


def expected_holder(verdict: Verdict, name: str, alias: str, current: str | None, version: str) -> str | None:
    """The version that must hold the alias: the one that the evidence compared with.

    Evidence that looked no champion up, or another registered model's, has compared with nobody here: then the alias
    may stand nowhere, or wherever a policy without comparison has let it.

    Raises
    ------
    PromotionRefusedError
        The alias stands elsewhere.
    """
    champion = verdict.champion
    compared = champion.get("version") if champion is not None and champion.get("name") == name else None
    if current == version:  # done before: this is who stood there
        return compared
    if champion is None:
        return current
    if compared != current:
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} must still point at {version_words(compared)}, which the evidence compared "
            f"with, and points at {version_words(current)}; score, evaluate and judge against the present champion"
        )
    return compared
