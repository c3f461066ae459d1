"""Which model version a candidate is, and what it says of itself: its calibrator, its digest, its run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import EvidenceError, InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import BUNDLE, folder_digest, model_id_of_version, resolve_model
from mlflow_calib.flavor.facts import is_embedded
from mlflow_calib.flavor.records import read_record_text, text_sha256
from mlflow_calib.flavor.runs import require_run
from mlflow_calib.flavor.tracking import MlflowServer, connected

#: Tag of a version that names the run it was fitted in.
RUN_ID = "mlflow_calib.run_id"
#: Tag of a version with the digest of the evidence of it as the champion, see ``evaluate``.
CHAMPION_EVIDENCE_SHA256 = "mlflow_calib.champion.evidence_sha256"
#: Tags of a version with the digest of what ``evaluate`` and ``gate`` left last.
EVIDENCE_SHA256, VERDICT_SHA256 = "mlflow_calib.evidence_sha256", "mlflow_calib.gate.verdict_sha256"
_RUN = re.compile(r"runs:/(?P<run_id>[^/]+)/")
_VERSION = re.compile(r"models:/(?P<name>[^@/]+)(?:@(?P<alias>[^/]+)|/(?P<version>\d+))/?$")


@dataclass(frozen=True)
class Candidate:
    """A registered version of a calibrated model.

    ``digest`` is the sha256 over the base model's digest and the text of ``calibrator.json``, see `model_digest`;
    ``run_id`` is the run of the fit that registered it, ``copied_from`` the version that a copied one names,
    ``model_sha256`` the digest over every file of the model, once ``evaluate`` has taken it; ``alias`` the one it was
    named by, resolved once.
    """

    name: str
    version: str
    model_id: str | None
    run_id: str | None
    calibrator: Calibrator
    calibrator_sha256: str
    digest: str
    copied_from: str | None = None
    model_sha256: str | None = None
    alias: str | None = None

    @property
    def model_uri(self) -> str:
        """URI of the version, never of an alias."""
        return f"models:/{self.name}/{self.version}"

    @property
    def base_model(self) -> Mapping[str, Any]:
        """What the artifact records of its base model."""
        return self.calibrator.base_model or {}

    def to_dict(self) -> dict[str, Any]:
        """Who the candidate is, as evidence, verdict and promotion record say it."""
        return {
            "model_uri": self.model_uri,
            "name": self.name,
            "version": self.version,
            "model_id": self.model_id,
            "digest": self.digest,
            "base_model_uri": self.base_model.get("uri") or "unknown",
            "base_model_id": self.base_model.get("model_id"),
            "calibrator_sha256": self.calibrator_sha256,
            **({"model_sha256": self.model_sha256} if self.model_sha256 else {}),
            **({"alias": self.alias} if self.alias else {}),
        }


def model_digest(base_digest: str, calibrator_text: str) -> str:
    """Digest of a calibrated model: of its base model's digest and its ``calibrator.json``, whatever serves them."""
    return "sha256:" + hashlib.sha256(f"{base_digest}\n{calibrator_text}".encode()).hexdigest()


def find_candidate(server: MlflowServer, handed: Mapping[str, Any]) -> Candidate:
    """The version a hand-over names: by ``model_uri``, or by the run of its record.

    Only ``calibrator.json`` is fetched; `verify_base_model` fetches the whole model.

    Raises
    ------
    ModelError
        The version does not exist, or is no calibrated model.
    EvidenceError
        The version's calibrator is not the one that was handed over.
    """
    with connected(server) as client:
        version = _version(client, handed)
        model_id = model_id_of_version(client, version)
        uri = f"models:/{version.name}/{version.version}"
        text = _calibrator_text(server, uri)
    sha256 = text_sha256(text)
    _same_calibrator(uri, sha256, handed)
    calibrator = read_calibrator(text, uri)
    digest = model_digest(str((calibrator.base_model or {}).get("digest")), text)
    copied_from = str(version.source) if _VERSION.match(str(version.source)) else None
    run_id = version.tags.get(RUN_ID)
    return Candidate(
        str(version.name),
        str(version.version),
        model_id,
        run_id,
        calibrator,
        sha256,
        digest,
        copied_from,
        alias=_alias_of(handed),
    )


def read_calibrator(text: str, where: str) -> Calibrator:
    """The calibrator of a text that should be one.

    Raises
    ------
    ModelError
        The text is cut off, damaged, or of a schema that this release does not know.
    """
    try:
        return Calibrator.from_json(text)
    except (ValueError, TypeError, LookupError) as error:
        raise ModelError(f"the calibrator of {where} cannot be read: {error}") from error


def require_own_run(server: MlflowServer, candidate: Candidate) -> str:
    """The run that holds the candidate's records, to which more may be added.

    Raises
    ------
    EvidenceError
        The version is a copy: it shares the run of its original, whose records it would overwrite. Or it was not
        registered by fit.
    ModelError
        The run was deleted.
    """
    if candidate.copied_from:
        raise EvidenceError(
            f"{candidate.model_uri} must have a run of its own, and is a copy of {candidate.copied_from}, whose "
            f"records would be overwritten; evaluate, judge and promote {candidate.copied_from}"
        )
    if candidate.run_id is None:
        raise EvidenceError(
            f"{candidate.model_uri} must name the run it was fitted in, and names none; register it by fit"
        )
    with connected(server) as client:
        require_run(client, candidate.run_id)
    return candidate.run_id


def verify_base_model(server: MlflowServer, candidate: Candidate) -> None:
    """Refuse a candidate whose nested base model is not the one that its calibrator was packaged with.

    ``calibrator.json`` is part of the candidate's digest, which evidence, verdict and promotion are held against.

    Raises
    ------
    EvidenceError
        The artifact was changed after it was logged, or holds no base model, see ``embed`` of `log_model`.
    """
    if not is_embedded({"base_model": candidate.base_model}):
        raise EvidenceError(
            f"{candidate.model_uri} must hold its base model, and only names {candidate.base_model.get('uri')} "
            "(embed=False), which nobody keeps for it; register it by fit, which embeds the base model"
        )
    folder = Path(resolve_model(server, candidate.model_uri).local_path) / BUNDLE / "base_model"
    found, recorded = folder_digest(folder), candidate.base_model.get("digest")
    if found != recorded:
        raise EvidenceError(
            f"the base model inside {candidate.model_uri} must have digest {recorded}, found {found}: the artifact was "
            "changed after it was logged; fit again"
        )


def as_tags(prefix: str, values: Mapping[str, Any]) -> dict[str, str]:
    """Tags of a version; what there is no value of is ``null``, so that none of an earlier call stays."""
    return {f"{prefix}.{name}": "null" if value is None else str(value) for name, value in values.items()}


def _uri_of(handed: Mapping[str, Any]) -> str:
    return str(handed.get("model_uri") or handed.get("uri") or "")


def _alias_of(handed: Mapping[str, Any]) -> str | None:
    found = _VERSION.match(_uri_of(handed))
    return found["alias"] if found else None


def _version(client: Any, handed: Mapping[str, Any]) -> Any:
    from mlflow.exceptions import MlflowException

    uri = _uri_of(handed)
    found = _VERSION.match(uri)
    if found is None:
        return _version_of_run(client, uri)
    try:
        if found["alias"]:
            return client.get_model_version_by_alias(found["name"], found["alias"])
        return client.get_model_version(found["name"], found["version"])
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
        raise ModelError(
            f"candidate {uri} does not exist ({error.message}); fit one, or name another version"
        ) from error


def _version_of_run(client: Any, uri: str) -> Any:
    run = _RUN.match(uri)
    if run is None:
        raise InvalidInputError(
            f"a candidate must be the result of fit, models:/<name>/<version>, or runs:/<id>/..., got {uri!r}"
        )
    versions = client.search_model_versions(f"run_id = '{run['run_id']}'")
    if len(versions) != 1:
        raise ModelError(
            f"run {run['run_id']} must have registered one version, it has {len(versions)}; "
            "give models:/<name>/<version>"
        )
    return versions[0]


def _calibrator_text(server: MlflowServer, uri: str) -> str:
    try:
        return read_record_text(server, f"{uri}/{BUNDLE}/calibrator.json")
    except EvidenceError as error:
        raise ModelError(
            f"{uri} must be a calibrated model of mlflow-calib, and holds no calibrator.json; register one with fit"
        ) from error


def _same_calibrator(uri: str, sha256: str, handed: Mapping[str, Any]) -> None:
    given = handed.get("sha256")
    speaks_of_it = str(handed.get("uri") or "").endswith("calibrator.json")
    if given and speaks_of_it and str(given).removeprefix("sha256:") != sha256.removeprefix("sha256:"):
        raise EvidenceError(
            f"the calibrator of {uri} must have digest {given}, found {sha256}: it is not the one that was handed "
            "over; fit again"
        )
