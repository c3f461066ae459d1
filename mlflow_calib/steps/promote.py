"""Move the alias to a candidate whose verdict lets it through, and keep the record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mlflow_calib import __version__
from mlflow_calib.core.verdict import Verdict
from mlflow_calib.errors import EvidenceError, InvalidInputError, PromotionRefusedError
from mlflow_calib.flavor.records import log_record, read_record_text, text_sha256
from mlflow_calib.flavor.registry import champion_version, promote_alias, tag_version
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate, as_tags, find_candidate
from mlflow_calib.steps.hand_over import give, take
from mlflow_calib.steps.opening import parse_json

FOLDER = "mlflow_calib"
PATH = f"{FOLDER}/promotion.json"
PROMOTION_SCHEMA = "mlflow_calib.promotion/1"


@dataclass(frozen=True)
class GivenVerdict:
    """A verdict as it stands in its record, and where it stands."""

    verdict: Verdict
    uri: str
    sha256: str
    evidence: Mapping[str, Any]
    run_id: str


def promote(
    candidate: Mapping[str, Any] | str,
    verdict: Mapping[str, Any] | str,
    *,
    alias: str = "champion",
    promoted_by: str | None = None,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Move the alias to the candidate. A second call finds the work done and returns the same record.

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
        alias, promoted, previous_version.

    Raises
    ------
    PromotionRefusedError
        The verdict blocks, belongs to another model, or the champion is another one by now. The alias has not moved.
    EvidenceError
        The verdict or its evidence is missing or was changed.

    Notes
    -----
    MLflow's alias has no compare-and-set: a writer between the last look and the move is overwritten.
    """
    server = server or MlflowServer.from_environment()
    if not isinstance(alias, str) or not alias.strip():
        raise InvalidInputError(f"alias must be the name of an alias, got {alias!r}")
    found = find_candidate(server, take(candidate, "mlflow_calib.fit/1", "candidate"))
    given = _read_verdict(server, take(verdict, "mlflow_calib.gate/1", "verdict"))
    _require_own_verdict(found, given.verdict)
    if given.verdict.blocks:
        raise PromotionRefusedError(f"the verdict blocks the promotion: {given.verdict.sentence}")
    _require_evidence(server, given)
    return _promoted(server, found, given, alias, promoted_by)


def _read_verdict(server: MlflowServer, handed: Mapping[str, Any]) -> GivenVerdict:
    text = read_record_text(server, handed["uri"], handed.get("sha256"))
    document = parse_json(text, handed["uri"])
    evidence, run_id = document.get("evidence"), document.get("run_id")
    if not isinstance(evidence, Mapping) or not isinstance(evidence.get("uri"), str) or not isinstance(run_id, str):
        raise EvidenceError(f"verdict {handed['uri']} must name its evidence and its run; run the gate again")
    return GivenVerdict(Verdict.from_dict(document), handed["uri"], text_sha256(text), evidence, run_id)


def _require_own_verdict(candidate: Candidate, verdict: Verdict) -> None:
    judged = verdict.candidate or {}
    own = {"name": candidate.name, "version": candidate.version, "digest": candidate.digest}
    other = [f"{key} {judged.get(key)!r}, not {value!r}" for key, value in own.items() if judged.get(key) != value]
    if other:
        raise PromotionRefusedError(
            f"the verdict must be on {candidate.model_uri}, and speaks of {'; '.join(other)}; judge this version"
        )


def _require_evidence(server: MlflowServer, given: GivenVerdict) -> None:
    """Evidence that is gone or has been changed since the verdict carries it no longer."""
    uri, sha256 = given.evidence["uri"], given.evidence.get("sha256")
    if not isinstance(sha256, str):
        raise EvidenceError(f"verdict {given.uri} must hold the digest of its evidence; run the gate again")
    read_record_text(server, uri, sha256)


def _promoted(
    server: MlflowServer, candidate: Candidate, given: GivenVerdict, alias: str, promoted_by: str | None
) -> dict[str, Any]:
    """Write down what is about to happen, move the alias, write down that it has."""
    name, version = candidate.name, candidate.version
    with connected(server) as client:
        current = champion_version(client, name, alias)
        expected = _expected(given.verdict, name, alias, current, version)
        if current != version:
            intent = _record(candidate, given, {"alias": alias, "previous_version": expected, "by": promoted_by})
            log_record(server, given.run_id, PATH, intent)
        moved = promote_alias(
            client, name, alias, version, expected, promoted_by=promoted_by, verdict_sha256=given.sha256
        )
        uri, sha256 = log_record(server, given.run_id, PATH, _record(candidate, given, moved, promoted=True))
        shown = {"record": uri, "alias": alias, "previous_version": moved["previous_version"], "at": moved["at"]}
        tag_version(client, name, version, as_tags("mlflow_calib.promotion", {**shown, "by": moved["by"]}))
    return give(
        "promote",
        uri=uri,
        sha256=sha256,
        run_id=given.run_id,
        model_uri=candidate.model_uri,
        version=version,
        name=name,
        alias=alias,
        promoted=True,
        previous_version=moved["previous_version"],
    )


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
