"""Evidence that is handed over for a verdict: whether it is of this version, and what ``evaluate`` left for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.data.records import same_sha256
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import CHAMPION_EVIDENCE_SHA256, EVIDENCE_SHA256, Candidate
from mlflow_calib.steps.whole_model import require_model_files


def mismatch(document: Mapping[str, Any], candidate: Candidate, handed: Mapping[str, Any]) -> str | None:
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
    other = [
        run for run in (document.get("run_id"), handed.get("run_id") or candidate.run_id) if run != candidate.run_id
    ]
    if other:
        return (
            f"the evidence names run {other[0]}, and {candidate.model_uri} was fitted in {candidate.run_id}; "
            "evaluate this version"
        )
    return None


def model_sha256_of(document: Mapping[str, Any]) -> str | None:
    """The digest over every file of the candidate's model, as the evidence has it."""
    candidate = document.get("candidate")
    recorded = candidate.get("model_sha256") if isinstance(candidate, Mapping) else None
    return recorded if isinstance(recorded, str) else None


def changed(
    server: MlflowServer, candidate: Candidate, evidence: Mapping[str, Any], document: Mapping[str, Any]
) -> str | None:
    """What says that the evidence, or a file of the model behind it, is not what ``evaluate`` left; None where it is.

    ``evidence`` is URI and digest of the record, ``document`` what it holds.
    """
    with connected(server) as client:
        tags = client.get_model_version(candidate.name, candidate.version).tags
    tag = CHAMPION_EVIDENCE_SHA256 if document.get("role") == "champion" else EVIDENCE_SHA256
    left = tags.get(tag)
    if not left:
        return f"{candidate.model_uri} has no tag {tag}, so evaluate left no evidence for it; evaluate it"
    if not same_sha256(left, evidence["sha256"]):
        return (
            f"the evidence has digest {evidence['sha256']}, and evaluate left {left} ({tag}) for "
            f"{candidate.model_uri}: it was changed, or is older; hand over the latest, or evaluate again"
        )
    try:
        require_model_files(server, candidate.model_uri, model_sha256_of(document))
    except EvidenceError as error:
        return str(error)
    return None
