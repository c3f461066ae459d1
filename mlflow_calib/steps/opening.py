"""The results of earlier steps, opened: the partitions with their digest, a policy from wherever it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.policy import Policy
from mlflow_calib.core.records import from_json
from mlflow_calib.data import records
from mlflow_calib.data.partitions import PartitionsManifest, read_partitions
from mlflow_calib.errors import EvidenceError, InvalidInputError
from mlflow_calib.steps.hand_over import take


def open_partitions(partitions: Mapping[str, Any] | str) -> tuple[PartitionsManifest, str]:
    """The manifest that ``split`` left and the digest of its file, ``sha256:<hex>``.

    Raises
    ------
    DataError
        It is missing, changed since it was handed over, or no manifest of partitions.
    """
    handed = take(partitions, "mlflow_calib.split/1", "partitions")
    manifest = read_partitions(handed["uri"], handed.get("sha256"), handed.get("hostname"))
    return manifest, records.sha256_of_file(manifest.uri)


def open_policy(policy: Mapping[str, Any] | str | None) -> Policy:
    """A policy given as a dict, as JSON, or by the URI of a TOML or JSON file; None is the default policy.

    Raises
    ------
    InvalidInputError
        With every mistake of the policy at once.
    """
    if policy is None:
        return Policy.default()
    if isinstance(policy, str) and policy.lstrip().startswith("{"):
        policy = _parsed(policy)
    return Policy.from_dict(records.read_policy_document(policy))


def _parsed(text: str) -> dict[str, Any]:
    try:
        return dict(from_json(text))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"policy must be a table, its JSON, or the URI of a file; {error}") from error


def parse_json(text: str, uri: str) -> dict[str, Any]:
    """The document of a record's text.

    Raises
    ------
    EvidenceError
        It is no JSON object.
    """
    try:
        return dict(from_json(text))
    except (TypeError, ValueError) as error:
        raise EvidenceError(f"the record {uri} must hold a JSON object ({error}); run its step again") from error
