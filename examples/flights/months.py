"""One month of the demo as a record: what the evidence measured, what the gate said, who is champion after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from examples.flights.data import CHAMPION, MODEL_NAME
from mlflow_calib.core.policy import Policy
from mlflow_calib.data.records import read_policy_document
from mlflow_calib.errors import EvidenceError
from mlflow_calib.flavor.records import read_record
from mlflow_calib.flavor.tracking import MlflowServer


@dataclass(frozen=True)
class Requirements:
    """The two limits of the policy that the demo shows."""

    limit: float
    margin: float
    confidence_level: float

    @classmethod
    def read(cls, policy_file: Path) -> Requirements:
        """Read them from the policy, completed with the defaults."""
        requirements = Policy.from_dict(read_policy_document(policy_file)).requirements
        error, mse = requirements["calibration_error_upper_bound"], requirements["mse_increase_over_champion"]
        return cls(error.limit, mse.limit, error.confidence_level or 0.95)


@dataclass(frozen=True)
class Measured:
    """A model's figures on the month's flights; errors and their bounds are roots."""

    error: float
    at_least: bool
    lower_bound: float
    upper_bound: float | None
    mse: float

    @classmethod
    def from_estimate(cls, estimate: Mapping[str, Any]) -> Measured:
        """Read one estimate of the evidence record."""
        return cls(
            error=estimate["root"],
            at_least=estimate["lower_bound_of_calibration_error"],
            lower_bound=estimate["lower_bound"] or 0.0,
            upper_bound=estimate["upper_bound"],
            mse=estimate["mse"],
        )


@dataclass(frozen=True)
class Month:
    """One recalibration: fitted on the month before `start`, judged on the month from `start`."""

    start: date
    n: int
    n_days: int
    base: Measured
    champion: Measured
    candidate: Measured
    mse_increase: float
    mse_increase_bounds: tuple[float, float]
    verdict: str
    reasons: tuple[str, ...]
    candidate_version: str
    champion_version: str
    champion_after: str
    champion_status: str
    run_id: str

    @classmethod
    def read(cls, server: MlflowServer, start: date) -> Month:
        """Read the records that the newest version of the model left in its run.

        Raises
        ------
        RuntimeError
            The DAG of this month ended before it had a verdict.
        """
        client = server.client()
        newest = max(client.search_model_versions(f"name='{MODEL_NAME}'"), key=lambda version: int(version.version))
        try:
            evidence, verdict = (
                read_record(server, f"runs:/{newest.run_id}/mlflow_calib/{name}.json")
                for name in ("evidence", "verdict")
            )
        except EvidenceError as error:
            raise RuntimeError(f"the DAG must leave a verdict for {start:%B}, it left none") from error
        if not str(evidence["data"]["evaluation_period"]).startswith(start.isoformat()):
            raise RuntimeError(f"the DAG must leave evidence on {start:%B}, the newest is of an earlier month")
        after = client.get_model_version_by_alias(MODEL_NAME, CHAMPION).version
        return cls.from_records(start, evidence, verdict, str(after))

    @classmethod
    def from_records(cls, start: date, evidence: dict[str, Any], verdict: dict[str, Any], after: str) -> Month:
        """Take the figures that the table and the pictures show."""
        models = {
            name: Measured.from_estimate(evidence["estimates"][name]) for name in ("base", "champion", "candidate")
        }
        readings = {reading["name"]: reading for reading in verdict["requirements"]}
        mse = readings["mse_increase_over_champion"]
        met = [readings["calibration_error_upper_bound"]["sentence"], mse["sentence"]]
        return cls(
            start=start,
            n=evidence["data"]["n"],
            n_days=evidence["data"]["n_groups"],
            **models,
            mse_increase=mse["actual"],
            mse_increase_bounds=(mse["lower"], mse["upper"]),
            verdict=verdict["status"],
            reasons=tuple(verdict["reasons"] or met),
            candidate_version=evidence["candidate"]["version"],
            champion_version=evidence["champion"]["version"],
            champion_after=after,
            champion_status=verdict["champion_status"],
            run_id=evidence["run_id"],
        )

    @property
    def passed(self) -> bool:
        """Whether the candidate may become champion."""
        return self.verdict == "pass"

    @property
    def sentences(self) -> list[str]:
        """The reasons in words; that a refused candidate is better than the champion is said too."""
        if self.passed or self.mse_increase >= 0:
            return list(self.reasons)
        low, high = (-bound for bound in reversed(self.mse_increase_bounds))
        lower = f"MSE is lower than the champion's by {-self.mse_increase:.5f}, bounds {low:.5f} and {high:.5f}"
        shown = f"refused though better than the champion: its {lower}" if low > 0 else f"its {lower}: not shown better"
        return [*self.reasons, shown]

    def to_dict(self) -> dict[str, Any]:
        """Write the record as plain JSON."""
        return {**asdict(self), "start": self.start.isoformat()}
