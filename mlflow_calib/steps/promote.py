"""Move the alias to a candidate whose verdict lets it through, and keep the record of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.core.verdict import Verdict
from mlflow_calib.errors import PromotionRefusedError, raise_problems
from mlflow_calib.flavor.names import alias_problems
from mlflow_calib.flavor.records import log_record
from mlflow_calib.flavor.registry import champion_version, promote_alias, tag_version
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate, as_tags, find_candidate, require_own_run, verify_base_model
from mlflow_calib.steps.given_verdict import (
    GivenVerdict,
    read_verdict,
    require_evidence,
    require_fresh,
    require_latest_verdict,
    require_own_verdict,
)
from mlflow_calib.steps.hand_over import give, take

FOLDER = "mlflow_calib"
PATH, DRY_RUN_PATH = f"{FOLDER}/promotion.json", f"{FOLDER}/dry_run.json"
PROMOTION_SCHEMA = "mlflow_calib.promotion/1"

log = logging.getLogger(__name__)


def promote(
    candidate: Mapping[str, Any] | str,
    verdict: Mapping[str, Any] | str,
    *,
    alias: str = "champion",
    promoted_by: str | None = None,
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
    server
        By default the one of the environment.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.promote/1``: uri and sha256 of ``promotion.json``, run_id, model_uri, version, name,
        alias, promoted, previous_version, note (where the policy is in dry-run or off).

    Raises
    ------
    PromotionRefusedError
        The verdict blocks, belongs to another model, is not the one that the gate left last, its evidence is too old by
        now, or the champion is another one. The alias has not moved.
    EvidenceError
        The verdict, its evidence or the model is missing or was changed; or the version is a copy.
    ModelError
        The version does not exist, or its run was deleted.

    Notes
    -----
    A verdict counts only where its digest is the tag ``mlflow_calib.gate.verdict_sha256`` of the version. That stops
    mix-ups, stale files and edited copies; whoever may write to the registry can set the tag too, and signed evidence
    comes in a later release.

    MLflow's alias has no compare-and-set: a writer between the last look and the move is overwritten.
    """
    server = server or MlflowServer.from_environment()
    if problems := alias_problems(alias):
        raise_problems(problems)
    found = find_candidate(server, take(candidate, "mlflow_calib.fit/1", "candidate"))
    given = read_verdict(server, take(verdict, "mlflow_calib.gate/1", "verdict"))
    require_own_verdict(found, given)
    run_id = require_own_run(server, found)
    require_latest_verdict(server, found, given)
    if given.verdict.blocks:
        raise PromotionRefusedError(f"the verdict blocks the promotion: {given.verdict.sentence}")
    require_evidence(server, given)
    verify_base_model(server, found)
    if given.verdict.mode == "dry-run":
        return _left_alone(server, found, run_id, given, alias, promoted_by)
    return _promoted(server, found, run_id, given, alias, promoted_by)


def _left_alone(
    server: MlflowServer, candidate: Candidate, run_id: str, given: GivenVerdict, alias: str, promoted_by: str | None
) -> dict[str, Any]:
    """A dry run: the record of what would have been done, and nothing else."""
    with connected(server) as client:
        current = champion_version(client, candidate.name, alias)
    stands = {"alias": alias, "previous_version": current, "by": promoted_by}
    uri, sha256 = log_record(server, run_id, DRY_RUN_PATH, _record(candidate, given, stands))
    log.warning("alias %s of %s stays on %s; %s", alias, candidate.name, _shown(current), given.note)
    return _handed_over(candidate, run_id, given, uri, sha256, promoted=False, alias=alias, previous_version=current)


def _promoted(
    server: MlflowServer, candidate: Candidate, run_id: str, given: GivenVerdict, alias: str, promoted_by: str | None
) -> dict[str, Any]:
    """Write down what is about to happen, move the alias, write down that it has."""
    name, version = candidate.name, candidate.version
    with connected(server) as client:
        current = champion_version(client, name, alias)
        expected = _expected(given.verdict, name, alias, current, version)
        if current != version:
            require_fresh(given.verdict)
            intent = _record(candidate, given, {"alias": alias, "previous_version": expected, "by": promoted_by})
            log_record(server, run_id, PATH, intent)
        moved = promote_alias(
            client, name, alias, version, expected, promoted_by=promoted_by, verdict_sha256=given.sha256
        )
        uri, sha256 = log_record(server, run_id, PATH, _record(candidate, given, moved, promoted=True))
        shown = {"record": uri, "alias": alias, "previous_version": moved["previous_version"], "at": moved["at"]}
        shown |= {"by": moved["by"], "note": given.note}
        tag_version(client, name, version, as_tags("mlflow_calib.promotion", shown))
    _say(candidate, alias, given)
    before = moved["previous_version"]
    return _handed_over(candidate, run_id, given, uri, sha256, promoted=True, alias=alias, previous_version=before)


def _handed_over(
    candidate: Candidate, run_id: str, given: GivenVerdict, uri: str, sha256: str, **figures: Any
) -> dict[str, Any]:
    who = {"model_uri": candidate.model_uri, "version": candidate.version, "name": candidate.name}
    return give("promote", uri=uri, sha256=sha256, run_id=run_id, **who, **figures, note=given.note)


def _say(candidate: Candidate, alias: str, given: GivenVerdict) -> None:
    level = logging.INFO if given.verdict.status == "pass" else logging.WARNING
    why = f"{given.note}: {given.verdict.sentence}" if given.note else given.verdict.sentence
    log.log(level, "alias %s stands on %s; %s", alias, candidate.model_uri, why)


def _expected(verdict: Verdict, name: str, alias: str, current: str | None, version: str) -> str | None:
    """The version that must hold the alias: the one that the evidence compared with.

    Evidence that looked no champion up, or another registered model's, has compared with nobody here: then the alias
    may stand nowhere, or wherever a policy without comparison has let it.
    """
    champion = verdict.champion
    compared = champion.get("version") if champion is not None and champion.get("name") == name else None
    if current == version:  # done before, or by an earlier call that broke off: this is who stood there
        return compared
    if champion is None:
        return current
    if compared != current:
        raise PromotionRefusedError(
            f"alias {alias!r} of {name!r} must still point at {_shown(compared)}, which the evidence compared with, "
            f"and points at {_shown(current)}; score, evaluate and judge against the present champion"
        )
    return compared


def _record(
    candidate: Candidate, given: GivenVerdict, moved: Mapping[str, Any], *, promoted: bool = False
) -> dict[str, Any]:
    return {
        "schema": PROMOTION_SCHEMA,
        "mlflow_calib_version": __version__,
        "promoted": promoted,
        "note": given.note,
        "candidate": candidate.to_dict(),
        "alias": moved["alias"],
        "previous_version": moved["previous_version"],
        "promoted_by": moved["by"],
        "promoted_at": moved.get("at") or datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "verdict": {
            "uri": given.uri,
            "sha256": given.sha256,
            "status": given.verdict.status,
            "mode": given.verdict.mode,
        },
        "evidence": dict(given.evidence),
    }


def _shown(version: str | None) -> str:
    return "no version" if version is None else f"version {version}"
