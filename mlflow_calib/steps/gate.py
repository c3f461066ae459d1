"""Judge the evidence by the policy, and let the verdict stand on the run and on the version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.verdict import Verdict
from mlflow_calib.flavor.records import log_record
from mlflow_calib.flavor.registry import CANDIDATE, FORMER_CHAMPION, PASSED, REFUSED, STATUS, tag_version
from mlflow_calib.flavor.registry import CHAMPION as IN_USE
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import as_tags
from mlflow_calib.steps.described import LINE_STARTS, described
from mlflow_calib.steps.given_evidence import model_sha256_of
from mlflow_calib.steps.judgement import Judgement, judgement_of
from mlflow_calib.steps.role import CHAMPION
from mlflow_calib.steps.statements import signed_verdict

PATH = "mlflow_calib/verdict.json"
#: A verdict on the champion alone stands beside its evidence, and under tags of its own: it promotes nothing.
CHAMPION_FOLDER = "mlflow_calib/champion"


def gate(
    evidence: Mapping[str, Any] | str,
    *,
    policy: Mapping[str, Any] | str | None = None,
    record: bool = True,
    server: MlflowServer | None = None,
) -> dict[str, Any]:
    """Judge the evidence, log the verdict on the candidate's run, and set tags and text of its version.

    A verdict that blocks is returned, not raised: the caller decides what to do, and looks at ``blocks``. One on the
    champion alone stands beside its evidence and under tags of its own, ``mlflow_calib.champion.gate``, unsigned.

    Evidence counts only where it is the record that ``evaluate`` left for this version: its digest must be the tag
    ``mlflow_calib.evidence_sha256`` of the version, its run that of the fit, and every file of the model still the one
    that was evaluated. Anything else gives "no verdict", recorded on the run of the candidate, and names what differs.
    That stops mix-ups, stale files and edited copies; whoever may write to the registry can set the tag too.

    Where the environment holds keys (``MLFLOW_CALIB_KEYS``), a verdict of an enforced policy is signed: the tag
    ``mlflow_calib.signed.verdict`` binds model files, evidence, verdict, policy, alias and present champion.

    Parameters
    ----------
    evidence
        What ``evaluate`` returned, its JSON, or the URI of an evidence record.
    policy
        Requirements as dict, JSON, or URI of a TOML or JSON file; None is the default policy.
    record
        False judges alone: nothing is written anywhere, and the result (``mlflow_calib.judgement/1``, its uri that of
        the evidence) promotes nothing.
    server
        By default the one of the environment.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.gate/1``: uri and sha256 of ``verdict.json``, run_id, model_uri, version, name, status
        ("pass", "fail", "inconclusive" or "no verdict"), blocks, mode, reason (at most 300 bytes of JSON),
        calibration_error and upper_bound as the requirement reads them, limit, whether these are squared, n,
        champion_status.

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
    judgement = judgement_of(server, evidence, policy)
    if not record:
        return judgement.unrecorded()
    uri, sha256 = log_record(server, judgement.run_id, _path(judgement), judgement.to_dict())
    result = judgement.handed_over("gate", uri, sha256)
    _stand_on_version(server, judgement, result)
    return result


def _path(judgement: Judgement) -> str:
    if judgement.verdict.role != CHAMPION:
        return PATH
    moment = re.search(r"/champion/(\w+)/", judgement.reference["uri"])
    return f"{CHAMPION_FOLDER}/{moment[1] if moment else judgement.reference['sha256'][-12:]}/verdict.json"


def _stand_on_version(server: MlflowServer, judgement: Judgement, result: Mapping[str, Any]) -> None:
    """Tags for machines and a line for people on the version; a retry adds no second line."""
    candidate, alone = judgement.candidate, judgement.verdict.role == CHAMPION
    tags = as_tags("mlflow_calib.champion.gate" if alone else "mlflow_calib.gate", _gate_tags(judgement, result))
    if not alone:
        tags |= _signed(judgement, result)
    line = f"{LINE_STARTS}{judgement.document.get('evaluated_at')}: {judgement.verdict.sentence}"
    with connected(server) as client:
        found = client.get_model_version(candidate.name, candidate.version)
        text = described(found.description or "", line)
        promoted = found.tags.get(STATUS) in (IN_USE, FORMER_CHAMPION)  # what a promotion says of it stands
        status = {} if promoted or alone else {STATUS: _status(judgement.verdict)}
        tag_version(client, candidate.name, candidate.version, tags | status, text)


def _signed(judgement: Judgement, result: Mapping[str, Any]) -> dict[str, str]:
    return signed_verdict(
        judgement.verdict,
        judgement.candidate.name,
        judgement.candidate.version,
        model_sha256=model_sha256_of(judgement.document),
        verdict_record={"uri": result["uri"], "sha256": result["sha256"]},
        evidence=judgement.reference,
        evaluated_at=judgement.document.get("evaluated_at"),
    )


def _gate_tags(judgement: Judgement, result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": judgement.verdict.status,
        "mode": judgement.verdict.mode,
        "policy": judgement.verdict.policy_digest,
        "evidence": judgement.reference["uri"],
        "evidence_sha256": judgement.reference["sha256"],
        "verdict": result["uri"],
        "verdict_sha256": result["sha256"],
        "estimate": result["calibration_error"],
        "upper_bound": result["upper_bound"],
        "limit": result["limit"],
        "n": result["n"],
        "champion_status": result["champion_status"],
        "evaluated_at": judgement.document.get("evaluated_at"),
        "reason": result["reason"],
    }


def _status(verdict: Verdict) -> str:
    if verdict.blocks:
        return REFUSED
    return PASSED if verdict.status == "pass" else CANDIDATE
