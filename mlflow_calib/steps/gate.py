"""Judge the evidence by the policy, and let the verdict stand on the run and on the version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlflow_calib.core.policy import CALIBRATION_ERROR, Policy
from mlflow_calib.core.verdict import Verdict, judge
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.records import log_record, read_record_text, text_sha256
from mlflow_calib.flavor.registry import (
    CANDIDATE,
    CHAMPION,
    FORMER_CHAMPION,
    PASSED,
    REFUSED,
    STATUS,
    tag_version,
)
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate, as_tags, find_candidate, require_own_run
from mlflow_calib.steps.given_evidence import changed, mismatch
from mlflow_calib.steps.hand_over import give, take
from mlflow_calib.steps.opening import open_policy, parse_json

FOLDER = "mlflow_calib"
#: Bytes of JSON: the hand-over stays under 1 KB in any alphabet.
_LONGEST_REASON = 300
#: MLflow keeps at most 5,000 characters of a version's description; the oldest verdicts make room.
_LONGEST_DESCRIPTION, _LONGEST_LINE = 4900, 1000
_LINE_STARTS = "Calibration gate, evidence of "


def gate(
    evidence: Mapping[str, Any] | str,
    *,
    policy: Mapping[str, Any] | str | None = None,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Judge the evidence, log the verdict on the candidate's run, and set tags and text of its version.

    A verdict that blocks is returned, not raised: the caller decides what to do, and looks at ``blocks``.

    Evidence counts only where it is the record that ``evaluate`` left for this version: its digest must be the tag
    ``mlflow_calib.evidence_sha256`` of the version, its run that of the fit, and the model still the one evaluated.
    Anything else gives "no verdict", recorded on the run of the candidate. That stops mix-ups, stale files and edited
    copies; whoever may write to the registry can set the tag too, and signed evidence comes in a later release.

    Parameters
    ----------
    evidence
        What ``evaluate`` returned, its JSON, or the URI of an evidence record.
    policy
        Requirements as dict, JSON, or URI of a TOML or JSON file; None is the default policy.
    server
        By default the one of the environment.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.gate/1``: uri and sha256 of ``verdict.json``, run_id, model_uri, version, name, status
        ("pass", "fail", "inconclusive" or "no verdict"), blocks, mode, reason (at most 300 bytes of JSON),
        calibration_error and upper_bound as the requirement reads them, limit, n, champion_status.

    Raises
    ------
    EvidenceError
        The record is missing, is not the one that was handed over, or names no version; or the version is a copy.
    InvalidInputError
        The policy is wrong; all its mistakes at once.
    ModelError
        The version that the evidence speaks of does not exist, or its run was deleted.
    """
    server = server or MlflowServer.from_environment()
    handed = take(evidence, "mlflow_calib.evaluate/1", "evidence")
    rules = open_policy(policy)
    text = read_record_text(server, handed["uri"], handed.get("sha256"))
    document = parse_json(text, handed["uri"])
    candidate = find_candidate(server, {"model_uri": _model_uri(handed, document)})
    run_id = require_own_run(server, candidate)
    about_evidence = {"uri": handed["uri"], "sha256": text_sha256(text)}
    not_its_own = mismatch(document, candidate, handed) or changed(server, candidate, about_evidence)
    verdict = _verdict(document, rules, candidate, not_its_own)
    record = {**verdict.to_dict(), "evidence": about_evidence, "policy": rules.to_dict(), "run_id": run_id}
    uri, sha256 = log_record(server, run_id, f"{FOLDER}/verdict.json", record)
    result = _result(uri, sha256, run_id, candidate, verdict)
    _stand_on_version(server, candidate, verdict, result, about_evidence, document)
    return result


def _model_uri(handed: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    candidate = document.get("candidate")
    named = candidate.get("model_uri") if isinstance(candidate, Mapping) else None
    uri = named or handed.get("model_uri")
    if not isinstance(uri, str) or not uri:
        raise EvidenceError(
            f"evidence {handed['uri']} must name the version it speaks of, and names none; evaluate again"
        )
    return uri


def _verdict(document: Mapping[str, Any], rules: Policy, candidate: Candidate, not_its_own: str | None) -> Verdict:
    """The verdict on this version; evidence that is not of it gives none, whatever its figures."""
    verdict = judge(document, rules)
    if not_its_own is None or rules.mode == "off":
        return verdict
    none = judge(None, rules)
    mode = "" if rules.mode == "enforce" else f" ({rules.mode}: blocks nothing)"
    sentence = f"{candidate.name} version {candidate.version}: no verdict{mode}: {not_its_own}"
    return replace(
        none,
        reasons=(not_its_own,),
        sentence=sentence,
        candidate=verdict.candidate,
        champion=verdict.champion,
        evidence_digest=verdict.evidence_digest,
    )


def _result(uri: str, sha256: str, run_id: str, candidate: Candidate, verdict: Verdict) -> dict[str, Any]:
    requirement = verdict.requirement(CALIBRATION_ERROR)
    return give(
        "gate",
        uri=uri,
        sha256=sha256,
        run_id=run_id,
        model_uri=candidate.model_uri,
        version=candidate.version,
        status=verdict.status,
        blocks=verdict.blocks,
        mode=verdict.mode,
        reason=_shortened(verdict.sentence),
        calibration_error=requirement.actual,
        upper_bound=requirement.upper,
        limit=float(requirement.limit),
        n=requirement.n,
        champion_status=verdict.champion_status,
    )


def _stand_on_version(
    server: MlflowServer,
    candidate: Candidate,
    verdict: Verdict,
    result: Mapping[str, Any],
    evidence: Mapping[str, str],
    document: Mapping[str, Any],
) -> None:
    """Tags for machines and a line for people on the version; a retry adds no second line."""
    tags = {
        "status": verdict.status,
        "mode": verdict.mode,
        "policy": verdict.policy_digest,
        "evidence": evidence["uri"],
        "evidence_sha256": evidence["sha256"],
        "verdict": result["uri"],
        "verdict_sha256": result["sha256"],
        "estimate": result["calibration_error"],
        "upper_bound": result["upper_bound"],
        "limit": result["limit"],
        "n": result["n"],
        "champion_status": result["champion_status"],
        "evaluated_at": document.get("evaluated_at"),
        "reason": result["reason"],
    }
    line = f"{_LINE_STARTS}{document.get('evaluated_at')}: {verdict.sentence}"
    with connected(server) as client:
        found = client.get_model_version(candidate.name, candidate.version)
        described = _described(found.description or "", " ".join(line.split())[:_LONGEST_LINE])
        promoted = found.tags.get(STATUS) in (CHAMPION, FORMER_CHAMPION)  # what a promotion says of it stands
        status = {} if promoted else {STATUS: _status(verdict)}
        tag_version(client, candidate.name, candidate.version, as_tags("mlflow_calib.gate", tags) | status, described)


def _described(before: str, line: str) -> str:
    """The description with the line of a verdict; our oldest lines go where there is no room, nobody else's."""
    lines = before.splitlines()
    if line in lines:
        return before
    lines.append(line)
    while len("\n".join(lines)) > _LONGEST_DESCRIPTION:
        oldest = next(position for position, text in enumerate(lines) if text.startswith(_LINE_STARTS))
        if oldest == len(lines) - 1:
            return before
        del lines[oldest]
    return "\n".join(lines)


def _shortened(sentence: str) -> str:
    """As much of the sentence as the hand-over has room for."""
    if len(json.dumps(sentence)) <= _LONGEST_REASON:
        return sentence
    kept = sentence
    while len(json.dumps(kept)) > _LONGEST_REASON - len("..."):
        kept = kept[:-1]
    return f"{kept}..."


def _status(verdict: Verdict) -> str:
    if verdict.blocks:
        return REFUSED
    return PASSED if verdict.status == "pass" else CANDIDATE
