"""In which role a version is evaluated: as a candidate for promotion, or as the champion on its own."""

from __future__ import annotations

from typing import Any

from mlflow_calib.core.evidence_check import ROLES
from mlflow_calib.data.partitions import PartitionsManifest
from mlflow_calib.errors import EvidenceError, InvalidInputError
from mlflow_calib.flavor.registry import champion_version
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate

CANDIDATE, CHAMPION = ROLES


def check_role(role: Any) -> None:
    """Refuse a role that there is not."""
    if role not in (None, "", *ROLES):
        raise InvalidInputError(f"role must be one of {', '.join(map(repr, ROLES))}, or left out, got {role!r}")


def role_of(server: MlflowServer, candidate: Candidate, manifest: PartitionsManifest, role: str | None) -> str:
    """The role as asked for; else "champion" where the candidate is named by the champion's alias.

    Raises
    ------
    InvalidInputError
        The champion is asked for, and the version does not hold the alias.
    EvidenceError
        A candidate is the champion of the partitions: it would be compared with itself.
    """
    alias = _champion_alias(candidate, manifest)
    if not role:
        role = CHAMPION if candidate.alias == alias else CANDIDATE
    if role == CHAMPION:
        _require_alias(server, candidate, candidate.alias or alias)
    else:
        _require_another(candidate, manifest)
    return role


def _champion_alias(candidate: Candidate, manifest: PartitionsManifest) -> str:
    """The alias that the partitions looked the champion of this registered model up by, by default ``champion``."""
    champion = manifest.champion or {}
    own = champion.get("name") == candidate.name
    return str(champion.get("alias") or CHAMPION) if own else CHAMPION


def _require_alias(server: MlflowServer, candidate: Candidate, alias: str) -> None:
    with connected(server) as client:
        holder = champion_version(client, candidate.name, alias)
    if holder != candidate.version:
        stands = "nowhere" if holder is None else f"on version {holder}"
        raise InvalidInputError(
            f"{candidate.model_uri} must hold alias {alias!r} to be evaluated as the champion, and the alias stands "
            f'{stands}; name models:/{candidate.name}@{alias}, or say role="candidate"'
        )


def _require_another(candidate: Candidate, manifest: PartitionsManifest) -> None:
    champion = manifest.champion or {}
    same_version = (champion.get("name"), champion.get("version")) == (candidate.name, candidate.version)
    if same_version or (champion.get("model_id") and champion["model_id"] == candidate.model_id):
        raise EvidenceError(
            f"the champion must be another model version than the candidate, and both are {candidate.model_uri}: it "
            'was promoted before; score and fit again for a new candidate, or evaluate it with role="champion"'
        )
