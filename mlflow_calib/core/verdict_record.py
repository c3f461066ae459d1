"""The record of a verdict: what the gate says of one candidate and why, for people and for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from mlflow_calib.core.error_requirement import CHAMPION_STATUSES
from mlflow_calib.core.evidence_check import ROLES
from mlflow_calib.core.policy import MODES
from mlflow_calib.core.records import LIST, TABLE, TEXT, TIME, TRUTH, field_problems, one_of
from mlflow_calib.core.requirement_record import VERDICTS, RequirementVerdict
from mlflow_calib.errors import EvidenceError, raise_problems

VERDICT_SCHEMA = "mlflow_calib.verdict/1"


@dataclass(frozen=True)
class Verdict:
    """What the gate says of one candidate, and why.

    Attributes
    ----------
    status
        "pass", "fail", "inconclusive" or "no verdict": the weightiest among the requirements, in the order no verdict >
        fail > inconclusive > pass. Where no requirement could be applied it is "no verdict".
    mode
        Of the policy: "enforce", "dry-run" or "off".
    sentence
        The whole in one sentence; ``reasons`` are the sentences of all that stands against a pass.
    requirements
        Every requirement of the policy with its own status, figures and sentence.
    champion_status, champion_sentence
        Whether the champion itself still meets the limit on these rows.
    role
        "candidate", or "champion": the champion was judged on its own, and nothing can be promoted by it.
    candidate, champion
        Who was judged, and with whom the evidence compared; a ``version`` of None: there was no champion yet.
    policy_digest, evidence_digest
        Of the completed policy and of the record; None for a record that is not plain JSON.
    judged_at
        ISO 8601, UTC.
    """

    status: str
    mode: str
    sentence: str
    reasons: tuple[str, ...]
    requirements: tuple[RequirementVerdict, ...]
    champion_status: str
    champion_sentence: str
    role: str
    candidate: Mapping[str, Any] | None
    champion: Mapping[str, Any] | None
    policy_digest: str
    evidence_digest: str | None
    judged_at: str

    @property
    def blocks(self) -> bool:
        """Whether promotion is refused: everything but a pass blocks where the policy is enforced."""
        return self.mode == "enforce" and self.status != "pass"

    def requirement(self, name: str) -> RequirementVerdict:
        """The verdict on one requirement."""
        return {requirement.name: requirement for requirement in self.requirements}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: finite numbers, or null."""
        plain = {**asdict(self), "reasons": list(self.reasons)}
        plain["requirements"] = [requirement.to_dict() for requirement in self.requirements]
        return {"schema": VERDICT_SCHEMA, **plain, "blocks": self.blocks}

    def to_json(self) -> str:
        """The JSON text, for people and machines; ``from_dict(json.loads(text))`` reads it back."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, document: Any) -> Verdict:
        """Read what ``to_dict`` wrote; a document whose parts contradict each other is refused.

        Raises
        ------
        EvidenceError
            With every problem of the document at once.
        """
        problems = field_problems(document, _FIELDS, "")
        if problems:
            raise_problems([f"verdict: {problem}" for problem in problems], EvidenceError)
        values = {field.name: document[field.name] for field in fields(cls)}
        values["requirements"] = tuple(RequirementVerdict.from_dict(one) for one in document["requirements"])
        values["reasons"] = tuple(document["reasons"])
        verdict = cls(**values)
        if verdict.status != overall_status(verdict.requirements) or verdict.blocks != document["blocks"]:
            raise EvidenceError("verdict: its status contradicts its requirements or its mode; run the gate again")
        return verdict


_FIELDS = {
    "schema": one_of(VERDICT_SCHEMA),
    "status": one_of(*VERDICTS),
    "mode": one_of(*MODES),
    "role": one_of(*ROLES),
    "champion_status": one_of(*CHAMPION_STATUSES),
    "judged_at": TIME,
    "blocks": TRUTH,
    **dict.fromkeys(("reasons", "requirements"), LIST),
    **dict.fromkeys(("sentence", "champion_sentence", "policy_digest"), TEXT),
    **dict.fromkeys(("candidate", "champion"), TABLE.or_null()),
    "evidence_digest": TEXT.or_null(),
}


def overall_status(requirements: tuple[RequirementVerdict, ...]) -> str:
    """No verdict > fail > inconclusive > pass; "no verdict" where no requirement decides."""
    statuses = {requirement.status for requirement in requirements}
    return next((status for status in VERDICTS if status in statuses), "no verdict")
