"""A promotion that is asked for: the event it becomes, its record, its tags, and what it hands over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlflow_calib.flavor.events import OVERRIDE, PROMOTE, Event, new_event
from mlflow_calib.flavor.records import log_record
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.candidate import Candidate
from mlflow_calib.steps.given_evidence import model_sha256_of
from mlflow_calib.steps.given_verdict import GivenVerdict
from mlflow_calib.steps.hand_over import give, shortened
from mlflow_calib.steps.obstacles import Override
from mlflow_calib.steps.promotion_record import note_of, promotion_record


@dataclass(frozen=True)
class Asked:
    """A promotion that is asked for, everything about it read and checked."""

    server: MlflowServer
    candidate: Candidate
    run_id: str
    given: GivenVerdict
    evidence: Mapping[str, Any]
    alias: str
    by: str | None

    def event(self, before: str | None, override: Override | None, before_sha256: str | None = None) -> Event:
        """The move, as it will be recorded."""
        return new_event(
            event=PROMOTE if override is None else OVERRIDE,
            name=self.candidate.name,
            alias=self.alias,
            before=before,
            to=self.candidate.version,
            by=self.by if override is None else override.by,
            reason=None if override is None else override.reason,
            verdict_sha256=self.given.sha256,
            model_sha256=model_sha256_of(self.evidence),
            before_sha256=before_sha256,
        )

    def log(self, event: Event, path: str, *, promoted: bool) -> tuple[str, str]:
        """Write the record to the run; returns URI and digest."""
        record = promotion_record(self.candidate, self.given, event, promoted=promoted)
        return log_record(self.server, self.run_id, path, record)

    def records(self) -> dict[str, Any]:
        """What a signed override rests on."""
        given = self.given
        return {
            "evidence_uri": given.evidence["uri"],
            "evidence_sha256": given.evidence["sha256"],
            "verdict_uri": given.uri,
            "verdict_sha256": given.sha256,
            "status": given.verdict.status,
            "mode": given.verdict.mode,
            "policy_sha256": given.verdict.policy_digest,
        }

    def tags(self, event: Event, uri: str) -> dict[str, Any]:
        """The promotion, one by one, for people who look at the version."""
        override = event.reason if event.event == OVERRIDE else None
        shown = {"record": uri, "alias": event.alias, "previous_version": event.before, "at": event.at, "by": event.by}
        return {**shown, "note": note_of(event, self.given), "override_reason": override}

    def handed_over(self, event: Event, uri: str, sha256: str, *, promoted: bool) -> dict[str, Any]:
        """The result of the step."""
        return give(
            "promote",
            uri=uri,
            sha256=sha256,
            run_id=self.run_id,
            model_uri=self.candidate.model_uri,
            version=self.candidate.version,
            name=self.candidate.name,
            promoted=promoted,
            alias=event.alias,
            previous_version=event.before,
            overridden=event.event == OVERRIDE,
            note=shortened(note_of(event, self.given)),
        )
