"""What a signed statement must say to open something guarded: pure comparisons, every reason at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from mlflow_calib.core.requirements import CLOCK_TOLERANCE_DAYS
from mlflow_calib.core.signing import Statement
from mlflow_calib.guard.settings import GuardSettings

#: A version of a registered model.
Identity = tuple[str, str]
#: The clock of a worker may be this far ahead of the server's.
CLOCK_AHEAD = timedelta(days=CLOCK_TOLERANCE_DAYS)


@dataclass(frozen=True)
class Standing:
    """Who holds a guarded alias, or the guarded stage, at this moment.

    Attributes
    ----------
    label
        The alias, or "Production".
    holder
        Version that holds it; None: nobody.
    holder_is
        That version and the ones it was copied from.
    moved
        The guard's own record of the last move, as it stands; empty: none.
    moved_at
        The time in it.
    """

    label: str
    holder: str | None
    holder_is: tuple[Identity, ...] = ()
    moved: str = ""
    moved_at: datetime | None = None


def promotion_problems(
    statement: Statement,
    asked: tuple[Identity, ...],
    standing: Standing,
    settings: GuardSettings,
    held_before: bool,
) -> list[str]:
    """Why a statement does not open this alias for this version; empty where it does.

    Parameters
    ----------
    asked
        The version, and the versions it was copied from: the same files under other names.
    held_before
        Whether the guard has recorded that the version held this alias, which a rollback needs.
    """
    problems = [*_ask(statement, "promote", asked), *_time(statement, standing), *_holder(statement, standing)]
    if statement.kind == "verdict":
        problems += verdict_problems(statement, settings)
    if statement.kind == "rollback" and not held_before:
        problems.append(f"the version never held {standing.label!r} under the guard; sign an override instead")
    return problems


def copy_problems(statement: Statement, asked: tuple[Identity, ...], target: str, settings: GuardSettings) -> list[str]:
    """Why a statement does not let the version be copied into ``target``; empty where it does."""
    if statement.kind == "verdict":
        return [*_ask(statement, "promote", asked), *_time(statement), *verdict_problems(statement, settings)]
    return [*_ask(statement, "copy", asked), *_target(statement, target), *_time(statement)]


def override_problems(
    statement: Statement,
    action: str,
    name: str,
    version: str | None,
    *,
    standing: Standing | None = None,
    target: str | None = None,
) -> list[str]:
    """Why a statement is no override for a deletion or a rename; empty where it is."""
    asked = () if version is None else ((name, version),)
    problems = [*_ask(statement, action, asked), *_time(statement, standing)]
    if statement.name != name:
        problems.append(f"it speaks of {statement.name!r}, not of {name!r}")
    if standing is not None and action == "delete-alias" and not _same(statement.alias, standing.label):
        problems.append(f"it speaks of alias {statement.alias!r}, not of {standing.label!r}")
    if target is not None:
        problems += _target(statement, target)
    return problems


def verdict_problems(statement: Statement, settings: GuardSettings) -> Iterator[str]:
    """Why a verdict does not count on this server."""
    if statement.status != "pass":
        yield f"its status is {statement.status!r}, and must be 'pass'"
    if statement.mode != "enforce":
        yield f"its policy was in mode {statement.mode!r}, and must be 'enforce'"
    if statement.policy_sha256 not in settings.policies:
        listed = ", ".join(sorted(settings.policies)) or "none"
        yield f"its policy {statement.policy_sha256} is not one that this server lists ({listed})"


def _ask(statement: Statement, action: str, asked: tuple[Identity, ...]) -> Iterator[str]:
    if statement.action != action:
        yield f"it permits to {statement.action}, not to {action}"
    if asked and (statement.name, statement.version) not in asked:
        name, version = asked[0]
        yield f"it speaks of {statement.name!r} version {statement.version}, not of {name!r} version {version}"


def _target(statement: Statement, target: str) -> Iterator[str]:
    if statement.target != target:
        yield f"it names the target {statement.target!r}, not {target!r}"


def _time(statement: Statement, standing: Standing | None = None) -> Iterator[str]:
    now = datetime.now(timezone.utc)
    if statement.expires < now:
        yield f"it stood until {statement.expires.isoformat(timespec='seconds')}"
    if statement.issued > now + CLOCK_AHEAD:
        yield f"it was signed at {statement.issued_at}, which is still to come; set the clocks"
    if standing is not None and standing.moved_at is not None and statement.issued < standing.moved_at:
        moved = standing.moved_at.isoformat(timespec="seconds")
        yield f"{standing.label!r} was moved at {moved}, after it was signed at {statement.issued_at}"


def _holder(statement: Statement, standing: Standing) -> Iterator[str]:
    now = f"version {standing.holder} does" if standing.holder else "nobody does"
    if statement.alias is None:
        if standing.holder is not None:
            yield f"its evidence looked no {standing.label!r} up, so it stands only while nobody holds it, and {now}"
        return
    if not _same(statement.alias, standing.label):
        yield f"it opens alias {statement.alias!r}, not {standing.label!r}"
    elif statement.expected_version is None:
        if standing.holder is not None:
            yield f"it stands only while nobody holds {standing.label!r}, and {now}"
    elif (statement.expected_name or statement.name, statement.expected_version) not in standing.holder_is:
        of = statement.expected_name or statement.name
        yield f"it stands only while version {statement.expected_version} of {of!r} holds {standing.label!r}, and {now}"


def _same(first: str | None, second: str) -> bool:
    return first is not None and first.casefold() == second.casefold()
