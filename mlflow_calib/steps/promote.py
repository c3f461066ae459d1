"""Move the alias to a candidate whose verdict lets it through, and keep the record of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow_calib.errors import EvidenceError, PromotionRefusedError
from mlflow_calib.flavor.events import OVERRIDE, Event
from mlflow_calib.flavor.moves import move_alias, record_move, settle
from mlflow_calib.flavor.names import alias_problems
from mlflow_calib.flavor.records import read_record_text, text_sha256
from mlflow_calib.flavor.registry import champion_version, tag_version, version_words
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.asked import Asked
from mlflow_calib.steps.candidate import as_tags, find_candidate, require_own_run
from mlflow_calib.steps.given_verdict import (
    read_verdict,
    require_evidence,
    require_latest_verdict,
    require_own_verdict,
)
from mlflow_calib.steps.hand_over import take
from mlflow_calib.steps.obstacles import Override, expected_holder, obstacles, override_of
from mlflow_calib.steps.promotion_record import (
    DRY_RUN_PATH,
    PATH,
    describe_move,
    digest_of_holder,
    note_of,
)
from mlflow_calib.steps.statements import signed_move

log = logging.getLogger(__name__)


def promote(
    candidate: Mapping[str, Any] | str,
    verdict: Mapping[str, Any] | str,
    *,
    alias: str = "champion",
    promoted_by: str | None = None,
    override_reason: str | None = None,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Move the alias to the candidate. A second call finds the work done and returns the same record.

    A verdict of a policy in ``dry-run`` moves nothing: the record says what would have been done.

    Parameters
    ----------
    candidate
        What ``fit`` returned, its JSON, or ``models:/<name>/<version>``.
    verdict
        What ``gate`` returned, its JSON, or the URI of a verdict record.
    alias
        Of the registered model; it moves only if it still points where the evidence saw the champion.
    promoted_by
        Who promotes, for the record.
    override_reason
        Promote although the verdict blocks, its evidence is too old, or the version was rolled back since: why, for
        the record, beside ``promoted_by``, who answers for it. Evidence that is missing, damaged, changed or of
        another model, a model whose files differ, and an alias that stands elsewhere are never overridden.
    server
        By default the one of the environment.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.promote/1``: uri and sha256 of ``promotion.json``, run_id, model_uri, version, name,
        alias, promoted, previous_version, overridden, note (where the policy is in dry-run or off, or the verdict was
        overridden).

    Raises
    ------
    PromotionRefusedError
        The verdict blocks, belongs to another model, is not the one that the gate left last, its evidence is too old by
        now, the version was rolled back since, the champion is another one, or the server refuses. The alias has not
        moved.
    EvidenceError
        The verdict, its evidence, its signature or a file of the model is missing or was changed, and the message
        names which; or the version is a copy.
    InvalidInputError
        The alias can be none, or an override lacks its reason or its name.
    ModelError
        The version does not exist, or its run was deleted.

    Notes
    -----
    A verdict counts only where its digest is the tag ``mlflow_calib.gate.verdict_sha256`` of the version, and, where
    the environment holds keys, where the tag ``mlflow_calib.signed.verdict`` verifies. Without keys that stops
    mix-ups, stale files and edited copies alone; whoever may write to the registry can set the tag too.

    MLflow's alias has no compare-and-set: a writer between the last look and the move is overwritten, unless the
    server runs the registry guard, which compares inside its transaction.
    """
    server = server or MlflowServer.from_environment()
    override = override_of(override_reason, promoted_by, alias_problems(alias))
    found = find_candidate(server, take(candidate, "mlflow_calib.fit/1", "candidate"))
    given = read_verdict(server, take(verdict, "mlflow_calib.gate/1", "verdict"))
    require_own_verdict(found, given)
    run_id = require_own_run(server, found)
    require_latest_verdict(server, found, given)
    if given.verdict.blocks and override is None:
        raise PromotionRefusedError(f"the verdict blocks the promotion: {given.verdict.sentence}")
    evidence = require_evidence(server, found, given)
    asked = Asked(server, found, run_id, given, evidence, alias, promoted_by)
    if given.verdict.mode == "dry-run":
        return _left_alone(asked)
    return _promoted(asked, override)


def _left_alone(asked: Asked) -> dict[str, Any]:
    """A dry run: the record of what would have been done, and nothing else."""
    with connected(asked.server) as client:
        current = champion_version(client, asked.candidate.name, asked.alias)
    event = asked.event(current, None)
    uri, sha256 = asked.log(event, DRY_RUN_PATH, promoted=False)
    log.warning("alias %s of %s stays on %s; %s", asked.alias, event.name, version_words(current), asked.given.note)
    return asked.handed_over(event, uri, sha256, promoted=False)


def _promoted(asked: Asked, override: Override | None) -> dict[str, Any]:
    """Write down what is about to happen, move the alias, write down that it has."""
    name, version = asked.candidate.name, asked.candidate.version
    with connected(asked.server) as client:
        current, events = settle(client, name, asked.alias)
        if current == version and events and events[-1].to == version:
            event = events[-1]
        else:
            event = _moved(asked, client, current, events, override)
        if event.verdict_sha256 != asked.given.sha256:
            uri, sha256 = _earlier_record(asked, event)
        else:
            uri, sha256 = asked.log(event, PATH, promoted=True)
            tag_version(client, name, version, as_tags("mlflow_calib.promotion", asked.tags(event, uri)))
            describe_move(client, event)
    _say(asked, event)
    return asked.handed_over(event, uri, sha256, promoted=True)


def _moved(asked: Asked, client: Any, current: str | None, events: Sequence[Event], override: Override | None) -> Event:
    """The event of the promotion, which is done now, or was done before without a record."""
    name, version, verdict = asked.candidate.name, asked.candidate.version, asked.given.verdict
    expected = expected_holder(verdict, name, asked.alias, current, version)
    if current == version:
        held_before = digest_of_holder(asked.server, asked.evidence, name, expected, events)
        event = asked.event(expected, override if verdict.blocks else None, held_before)
        record_move(client, event)
        return event
    against = obstacles(verdict, version, events)
    if against and override is None:
        raise PromotionRefusedError(against[0])
    before_sha256 = digest_of_holder(asked.server, asked.evidence, name, expected, events)
    event = asked.event(expected, override if against else None, before_sha256)
    asked.log(event, PATH, promoted=False)
    return move_alias(client, event, signed_move(event, asked.records()))


def _earlier_record(asked: Asked, event: Event) -> tuple[str, str]:
    """The record of the promotion that stands, on another verdict than this one."""
    uri = f"runs:/{asked.run_id}/{PATH}"
    try:
        return uri, text_sha256(read_record_text(asked.server, uri))
    except EvidenceError:  # it got the alias by a rollback
        return asked.log(event, PATH, promoted=True)


def _say(asked: Asked, event: Event) -> None:
    note, sentence = note_of(event, asked.given), asked.given.verdict.sentence
    level = logging.INFO if asked.given.verdict.status == "pass" and event.event != OVERRIDE else logging.WARNING
    log.log(
        level,
        "alias %s stands on %s; %s",
        asked.alias,
        asked.candidate.model_uri,
        f"{note}: {sentence}" if note else sentence,
    )
