"""The champion that a table is scored with, beside the base model."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import ResolvedModel, Scorer, load_scorer, resolve_model
from mlflow_calib.flavor.registry import champion_version, registered_model_exists
from mlflow_calib.flavor.score_source import Score
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.score_classes import score_columns
from mlflow_calib.steps.scored_models import ScoredModel, model_facts, scored

log = logging.getLogger(__name__)
_ALIAS = re.compile(r"models:/(?P<name>[^@/]+)@(?P<alias>[^/@]+)/?$")


@dataclass(frozen=True)
class Champion:
    """The champion as the manifest describes it; ``model`` is None where none is set, or it is the base model."""

    facts: dict[str, Any] | None
    model: ScoredModel | None = None
    is_base: bool = False


def champion_model(
    server: MlflowServer | None,
    uri: str | None,
    base: ScoredModel,
    positive: Any,
    *,
    base_score: Score,
    feature_columns: Sequence[str] | None,
) -> Champion:
    """The champion: not asked for, not set yet, the base model itself, another raw model, or one of ours.

    The alias is resolved to its version here, once. A champion that cannot be scored is an error: comparisons with it
    would be missing, and a missing comparison blocks.

    Raises
    ------
    ModelError
        It does not exist, or has other classes than the base model.
    InvalidInputError
        It is no registered version.
    """
    if not uri:
        return Champion(None)
    alias, pinned = _pin(server, uri)
    if pinned is None:
        return Champion({"alias": alias["alias"], "name": alias["name"], "version": None})
    resolved = resolve_model(server, pinned)
    _require_registered(resolved, uri)
    columns = score_columns(base.scorer.classes, positive, "champion_score")
    outputs = columns if resolved.kind == "raw" else score_columns(base.scorer.classes, positive, "champion_output")
    facts = {**model_facts(resolved), "alias": alias.get("alias"), "kind": resolved.kind}
    facts |= {"recalibration_keys": resolved.recalibration_keys, "score_columns": columns, "output_columns": outputs}
    if resolved.digest == base.resolved.digest:
        return Champion(facts, is_base=True)
    with nullcontext() if server is None else connected(server):  # one that is not embedded is fetched from there
        scorer = load_scorer(resolved, base_score, base.scorer.classes, feature_columns)
    _require_same_classes(resolved, scorer, base, positive)
    own = dict.fromkeys((*columns, *outputs))
    return Champion(facts, scored(resolved, scorer, feature_columns, base.scorer.classes, positive, *own))


def _pin(server: MlflowServer | None, uri: str) -> tuple[dict[str, str], str | None]:
    found = _ALIAS.match(uri)
    if found is None or server is None:
        return {}, uri
    with connected(server) as client:
        version = champion_version(client, found["name"], found["alias"])
        if version is None and not registered_model_exists(client, found["name"]):
            log.warning("there is no registered model %r yet, so no champion to compare with", found["name"])
    return found.groupdict(), None if version is None else f"models:/{found['name']}/{version}"


def _require_registered(resolved: ResolvedModel, uri: str) -> None:
    """Refuse a champion without version: a verdict about it would read as one where there is no champion yet."""
    if resolved.version is None:
        raise InvalidInputError(
            f"champion must be a version or an alias of a registered model, such as models:/churn@champion, got {uri}, "
            "which has no version: a promotion compares and sets the alias by versions; register it, or leave champion "
            "out"
        )


def _require_same_classes(resolved: ResolvedModel, scorer: Scorer, base: ScoredModel, positive: Any) -> None:
    calibrator = resolved.calibrator or {}
    own = calibrator.get("positive_class", positive)
    said = "" if positive is None else f" with {positive!r} positive"
    has = "" if positive is None else f" with {own!r}"
    if set(scorer.classes) != set(base.scorer.classes) or own != positive:
        raise ModelError(
            f"champion {resolved.uri} must have the classes of the base model, {list(base.scorer.classes)}{said}, "
            f"and has {list(scorer.classes)}{has}; name another champion"
        )
    if calibrator.get("reduction") == "multi-label":
        raise ModelError(
            f"champion {resolved.uri} must give one class a row, and is multi-label; name another champion"
        )
