"""Judge the evidence by the policy, and let the verdict stand on the run and on the version."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlflow_calib.core.policy import CALIBRATION_ERROR, Policy
from mlflow_calib.core.verdict import Verdict, judge
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.records import log_record, read_record_text, text_sha256
from mlflow_calib.flavor.registry import STATUS, tag_version
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate, as_tags, find_candidate
from mlflow_calib.steps.hand_over import give, take
from mlflow_calib.steps.opening import open_policy, parse_json

FOLDER = "mlflow_calib"
#: Status of a version that a verdict lets through, or refuses; a verdict that is only recorded leaves it a candidate.
PASSED, REFUSED, CANDIDATE = "passed", "refused", "candidate"
#: Bytes of JSON: the hand-over stays under 1 KB in any alphabet.
_LONGEST_REASON = 300
#: MLflow keeps at most 5,000 characters of a version's description; the oldest verdicts make room.
_LONGEST_DESCRIPTION, _LONGEST_LINE = 4900, 1000
_LINE_STARTS = "Calibration gate, evidence of "
_RUN = re.compile(r"runs:/(?P<run_id>[^/]+)/")


def gate(
    evidence: Mapping[str, Any] | str,
    *,
    policy: Mapping[str, Any] | str | None = None,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Judge the evidence, log the verdict on the candidate's run, and set tags and text of its version.

    A verdict that blocks is returned, not raised: the caller decides what to do, and looks at ``blocks``.

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
        The record is missing, is not the one that was handed over, or names no version and no run.
    InvalidInputError
        The policy is wrong; all its mistakes at once.
    ModelError
        The version that the evidence speaks of does not exist.
    """
    server = server or MlflowServer.from_environment()
    handed = take(evidence, "mlflow_calib.evaluate/1", "evidence")
    rules = open_policy(policy)
    text = read_record_text(server, handed["uri"], handed.get("sha256"))
    document = parse_json(text, handed["uri"])
    run_id = _run_of(handed, document)
    candidate = find_candidate(server, {"model_uri": _model_uri(handed, document)})
    verdict = _verdict(document, rules, candidate, handed)
    about_evidence = {"uri": handed["uri"], "sha256": text_sha256(text)}
    record = {**verdict.to_dict(), "evidence": about_evidence, "policy": rules.to_dict(), "run_id": run_id}
    uri, sha256 = log_record(server, run_id, f"{FOLDER}/verdict.json", record)
    result = _result(uri, sha256, run_id, candidate, verdict)
    _stand_on_version(server, candidate, verdict, result, about_evidence, document)
    return result


def _run_of(handed: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    found = _RUN.match(handed["uri"])
    run_id = document.get("run_id") or handed.get("run_id") or (found and found["run_id"])
    if not isinstance(run_id, str) or not run_id:
        raise EvidenceError(f"evidence {handed['uri']} must name its run, and names none; evaluate again")
    return run_id


def _model_uri(handed: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    candidate = document.get("candidate")
    named = candidate.get("model_uri") if isinstance(candidate, Mapping) else None
    uri = named or handed.get("model_uri")
    if not isinstance(uri, str) or not uri:
        raise EvidenceError(
            f"evidence {handed['uri']} must name the version it speaks of, and names none; evaluate again"
        )
    return uri


def _verdict(document: Mapping[str, Any], rules: Policy, candidate: Candidate, handed: Mapping[str, Any]) -> Verdict:
    """The verdict on this version; evidence of another model gives none, whatever its figures."""
    verdict = judge(document, rules)
    mismatch = _mismatch(document, candidate, handed)
    if mismatch is None or rules.mode == "off":
        return verdict
    none = judge(None, rules)
    sentence = f"{candidate.name} version {candidate.version}: no verdict: {mismatch}"
    return replace(
        none,
        reasons=(mismatch,),
        sentence=sentence,
        candidate=verdict.candidate,
        champion=verdict.champion,
        evidence_digest=verdict.evidence_digest,
    )


def _mismatch(document: Mapping[str, Any], candidate: Candidate, handed: Mapping[str, Any]) -> str | None:
    """What says that the evidence is not of the registered version; None where it is."""
    speaks_of = document.get("candidate")
    speaks_of = speaks_of if isinstance(speaks_of, Mapping) else {}
    if handed.get("model_uri") not in (None, candidate.model_uri):
        return (
            f"the evidence speaks of {candidate.model_uri} and was handed over for {handed['model_uri']}; "
            "evaluate the version that is to be judged"
        )
    if speaks_of.get("digest") != candidate.digest:
        return (
            f"the evidence speaks of a model with digest {speaks_of.get('digest')}, and {candidate.model_uri} has "
            f"{candidate.digest}; evaluate this version"
        )
    return None


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
        "evaluated_at": document.get("evaluated_at"),
        "reason": result["reason"],
    }
    line = f"{_LINE_STARTS}{document.get('evaluated_at')}: {verdict.sentence}"
    with connected(server) as client:
        before = client.get_model_version(candidate.name, candidate.version).description or ""
        described = _described(before, " ".join(line.split())[:_LONGEST_LINE])
        status = {STATUS: _status(verdict)}
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
