"""A verdict that is handed over for a promotion: whether it is on this version, the latest, and not too old."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mlflow_calib.core.evidence_check import check_evidence
from mlflow_calib.core.policy import EVIDENCE_AGE
from mlflow_calib.core.records import parse_time
from mlflow_calib.core.requirements import CLOCK_TOLERANCE_DAYS, SECONDS_A_DAY
from mlflow_calib.core.verdict import Verdict
from mlflow_calib.core.wording import age_words
from mlflow_calib.data.records import same_sha256
from mlflow_calib.errors import EvidenceError, PromotionRefusedError, raise_problems
from mlflow_calib.flavor.records import read_record_text, text_sha256
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import VERDICT_SHA256, Candidate
from mlflow_calib.steps.given_evidence import changed, mismatch
from mlflow_calib.steps.opening import parse_json
from mlflow_calib.steps.statements import require_signed_verdict


@dataclass(frozen=True)
class GivenVerdict:
    """A verdict as it stands in its record, and where it stands."""

    verdict: Verdict
    uri: str
    sha256: str
    evidence: Mapping[str, Any]
    run_id: str

    @property
    def note(self) -> str | None:
        """What people must know where the policy is not enforced; None where it is."""
        if self.verdict.mode == "enforce":
            return None
        if self.verdict.mode == "off":
            return "off: nothing was judged, nothing could block"
        would = "promoted" if self.verdict.status == "pass" else "refused"
        return f"dry-run: the alias stays; enforce would have {would} (verdict: {self.verdict.status})"


def read_verdict(server: MlflowServer, handed: Mapping[str, Any]) -> GivenVerdict:
    """The verdict that was handed over; EvidenceError where it is missing, changed or contradicts itself."""
    text = read_record_text(server, handed["uri"], handed.get("sha256"))
    document = parse_json(text, handed["uri"])
    evidence, run_id = document.get("evidence"), document.get("run_id")
    if not isinstance(evidence, Mapping) or not isinstance(evidence.get("uri"), str) or not isinstance(run_id, str):
        raise EvidenceError(f"verdict {handed['uri']} must name its evidence and its run; run the gate again")
    return GivenVerdict(Verdict.from_dict(document), handed["uri"], text_sha256(text), evidence, run_id)


def require_own_verdict(candidate: Candidate, given: GivenVerdict) -> None:
    """Refuse the verdict on another version, another model or another run, and one on the champion alone."""
    if given.verdict.role == "champion":
        raise PromotionRefusedError(
            f"verdict {given.uri} is on the champion alone, and promotes nothing; judge evidence of a candidate"
        )
    judged = {**(given.verdict.candidate or {}), "run_id": given.run_id}
    own = {"name": candidate.name, "version": candidate.version, "digest": candidate.digest}
    if candidate.run_id is not None and candidate.copied_from is None:
        own["run_id"] = candidate.run_id
    other = [f"{key} {judged.get(key)!r}, not {value!r}" for key, value in own.items() if judged.get(key) != value]
    if other:
        raise PromotionRefusedError(
            f"the verdict must be on {candidate.model_uri}, and speaks of {'; '.join(other)}; judge this version"
        )


def require_latest_verdict(server: MlflowServer, candidate: Candidate, given: GivenVerdict) -> None:
    """Refuse a verdict that the gate did not leave on the version: edited, overtaken, or unsigned where keys are."""
    with connected(server) as client:
        tags = client.get_model_version(candidate.name, candidate.version).tags
    left = tags.get(VERDICT_SHA256)
    if not left:
        raise PromotionRefusedError(
            f"{candidate.model_uri} must carry the digest of its verdict, and has no tag {VERDICT_SHA256}; run the gate"
        )
    if not same_sha256(left, given.sha256):
        raise PromotionRefusedError(
            f"verdict {given.uri} must be the one that the gate left last on {candidate.model_uri}, with digest {left} "
            f"({VERDICT_SHA256}), and has {given.sha256}: it was changed, or is older; hand over the latest verdict"
        )
    if given.verdict.mode == "enforce":
        require_signed_verdict(tags, given.sha256, candidate.model_uri)


def stale(verdict: Verdict) -> str | None:
    """Evidence ages while the verdict waits: its age when judged and the time since then, against the same limit.

    None where it is fresh enough, or nobody asks.
    """
    age = {one.name: one for one in verdict.requirements}.get(EVIDENCE_AGE)
    judged_at = parse_time(verdict.judged_at)
    if verdict.mode != "enforce" or age is None or age.status == "off":
        return None
    waited = None if judged_at is None else (_now() - judged_at).total_seconds() / SECONDS_A_DAY
    total = None if waited is None or age.actual is None else age.actual + waited
    if waited is None or total is None or not (waited >= -CLOCK_TOLERANCE_DAYS and total <= age.limit):
        known = "unknown" if total is None else f"{age_words(total, age.limit)} by now"
        return (
            f"{age.expected} asked, and its age is {known}, judged at {verdict.judged_at}; evaluate again on newer data"
        )
    return None


def _now() -> datetime:
    return datetime.now(timezone.utc)


def require_evidence(server: MlflowServer, candidate: Candidate, given: GivenVerdict) -> Mapping[str, Any]:
    """The evidence of the verdict, as it was judged, of this version, whose model files are those evaluated.

    Raises
    ------
    EvidenceError
        It is gone, damaged or of another release, was changed since, speaks of another model, or a file of the model
        differs; the message names what differs. No override makes up for that.
    """
    uri, sha256 = given.evidence["uri"], given.evidence.get("sha256")
    if not isinstance(sha256, str):
        raise EvidenceError(f"verdict {given.uri} must hold the digest of its evidence; run the gate again")
    document = parse_json(read_record_text(server, uri, sha256), uri)
    if problems := check_evidence(document):
        raise_problems([f"evidence {uri}: {problem}" for problem in problems], EvidenceError)
    reference = {"uri": uri, "sha256": sha256}
    if problem := mismatch(document, candidate, {}) or changed(server, candidate, reference, document):
        raise EvidenceError(problem)
    return document
