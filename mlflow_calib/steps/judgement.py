"""The verdict on evidence that was handed over, before anything is written: whose it is, and what the policy says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mlflow_calib.core.policy import CALIBRATION_ERROR, Policy
from mlflow_calib.core.verdict import Verdict, judge
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.records import read_record_text, text_sha256
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.candidate import Candidate, find_candidate, require_own_run
from mlflow_calib.steps.given_evidence import changed, mismatch
from mlflow_calib.steps.hand_over import give, shortened, take
from mlflow_calib.steps.opening import open_policy, parse_json


@dataclass(frozen=True)
class Judgement:
    """A verdict with what it rests on; ``reference`` is URI and digest of the evidence, ``document`` what it holds."""

    document: Mapping[str, Any]
    reference: Mapping[str, str]
    candidate: Candidate
    run_id: str
    policy: Policy
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """The record of the verdict."""
        return {
            **self.verdict.to_dict(),
            "evidence": dict(self.reference),
            "policy": self.policy.to_dict(),
            "run_id": self.run_id,
        }

    def handed_over(self, step: str, uri: str, sha256: str) -> dict[str, Any]:
        """The result of a step, whose record stands at ``uri``."""
        verdict, requirement = self.verdict, self.verdict.requirement(CALIBRATION_ERROR)
        return give(
            step,
            uri=uri,
            sha256=sha256,
            run_id=self.run_id,
            model_uri=self.candidate.model_uri,
            version=self.candidate.version,
            status=verdict.status,
            blocks=verdict.blocks,
            mode=verdict.mode,
            reason=shortened(verdict.sentence),
            calibration_error=requirement.actual,
            upper_bound=requirement.upper,
            limit=float(requirement.limit),
            squared=bool(self.policy.requirements[CALIBRATION_ERROR].squared),
            n=requirement.n,
            champion_status=verdict.champion_status,
        )

    def unrecorded(self) -> dict[str, Any]:
        """The result where nothing was written: it names the evidence, and promotes nothing."""
        return self.handed_over("judgement", self.reference["uri"], self.reference["sha256"])


def judgement_of(
    server: MlflowServer, evidence: Mapping[str, Any] | str, policy: Mapping[str, Any] | str | None
) -> Judgement:
    """Read the evidence, find its version, hold one against the other and the evidence against the policy.

    Nothing is written. The errors are those of ``gate``.
    """
    handed = take(evidence, "mlflow_calib.evaluate/1", "evidence")
    rules = open_policy(policy)
    text = read_record_text(server, handed["uri"], handed.get("sha256"))
    document = parse_json(text, handed["uri"])
    reference = {"uri": handed["uri"], "sha256": text_sha256(text)}
    candidate = find_candidate(server, {"model_uri": _model_uri(handed, document)})
    run_id = require_own_run(server, candidate)
    not_its_own = mismatch(document, candidate, handed) or changed(server, candidate, reference, document)
    verdict = _verdict(document, rules, candidate, not_its_own)
    return Judgement(document, reference, candidate, run_id, rules, verdict)


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
        role=verdict.role,
        candidate=verdict.candidate,
        champion=verdict.champion,
        evidence_digest=verdict.evidence_digest,
    )
