"""The base model a table is scored with, and what every scored model is: its columns, and its scores by class."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.base_model import ResolvedModel, Scorer, load_scorer, resolve_model
from mlflow_calib.flavor.score_source import Score
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.score_classes import choose_positive, require_distinct_words, score_columns

Floats = npt.NDArray[np.float64]
_REMOTE = re.compile(r"(?!file:)[a-z][a-z0-9+-]+:/")


@dataclass(frozen=True)
class ScoredModel:
    """A model, the columns it reads, and the columns of scores it leaves.

    ``score`` takes a frame of ``input_columns`` and returns arrays (n,), or (n, K) of K classes, whose columns one
    after the other are ``score_columns``.
    """

    resolved: ResolvedModel
    scorer: Scorer
    input_columns: tuple[str, ...]
    score_columns: tuple[str, ...]
    score: Callable[[Any], tuple[Floats, ...]]


def base_model(
    server: MlflowServer | None,
    uri: str,
    *,
    positive_class: Any,
    classes: Sequence[Any] | None,
    base_score: Score,
    feature_columns: Sequence[str] | None,
) -> tuple[ScoredModel, Any]:
    """The base model, ready to score, and its positive class.

    Raises
    ------
    ModelError
        It does not exist, gives no probabilities, has classes that look alike, or is a calibrated model already.
    InvalidInputError
        The positive class must be stated, is no class of the model, or is stated of more than two classes.
    """
    resolved = resolve_model(server, uri)
    if resolved.kind == "calibrated":
        inner = (resolved.calibrator or {}).get("base_model", {}).get("uri")
        raise ModelError(
            f"model_uri must be a base model, and {resolved.uri} is calibrated already; give the base model it was "
            f"made from ({inner}), and this one as champion"
        )
    scorer = load_scorer(resolved, base_score, classes, feature_columns)
    positive = choose_positive(scorer.classes, positive_class)
    require_distinct_words(scorer.classes)
    columns = score_columns(scorer.classes, positive)
    return scored(resolved, scorer, feature_columns, scorer.classes, positive, *columns), positive


def declared_score(given: Any) -> Any:
    """How a base model gives its scores, of a command or a form: JSON where it is an object, else as it stands.

    >>> declared_score("logit"), declared_score('{"logit": "margin"}')
    ('logit', {'logit': 'margin'})
    """
    if not isinstance(given, str) or not given.lstrip().startswith("{"):
        return given
    try:
        return json.loads(given)
    except ValueError as error:
        raise InvalidInputError(
            f'base_score must be a word, the name of an output, or JSON such as {{"logit": "name"}}, got {given!r}'
        ) from error


def model_facts(resolved: ResolvedModel) -> dict[str, Any]:
    """What manifests say of a model."""
    names = ("uri", "name", "version", "model_id", "digest")
    return {**{name: getattr(resolved, name) for name in names}, "flavors": list(resolved.flavors)}


def server_for(server: MlflowServer | None, *uris: str | None) -> MlflowServer | None:
    """The server that was given, else that of the environment; None where every model is a local folder."""
    if server is not None or not any(uri and _REMOTE.match(uri) for uri in uris):
        return server
    return MlflowServer.from_environment()


def scored(
    resolved: ResolvedModel,
    scorer: Scorer,
    feature_columns: Sequence[str] | None,
    classes: Sequence[Any],
    positive: Any,
    *columns: str,
) -> ScoredModel:
    """A model whose scores come in the order of ``classes``, those of the base model."""
    inputs = scorer.input_columns or tuple(feature_columns or ())
    if not inputs:
        raise InvalidInputError(
            f"feature_columns must be given: the model {resolved.uri} has no signature that names its input columns"
        )

    def score(frame: Any) -> tuple[Floats, ...]:
        if scorer.kind == "calibrated":
            both = scorer.calibrated(frame)
            kinds = ("base", "calibrated")
            names = [kind if positive is not None else [f"{kind}_{one}" for one in classes] for kind in kinds]
            return _floats(both[names[0]]), _floats(both[names[1]])
        return (_in_order(scorer.unchecked_scores(frame), scorer.classes, classes, positive),)

    return ScoredModel(resolved, scorer, inputs, columns, score)


def _in_order(scores: Floats, own: Sequence[Any], classes: Sequence[Any], positive: Any) -> Floats:
    """Score of the positive class (n,), or of every class (n, K) in the order of ``classes``, from a model's own order.

    Range and gaps are checked over all frames, so that they are counted once.
    """
    if scores.ndim == 1:
        return scores
    sums = scores.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > runtime.ROW_SUM_TOLERANCE)
    if len(off):
        raise ModelError(
            f"the base model's class probabilities must sum to 1 a row within {runtime.ROW_SUM_TOLERANCE}; "
            f"{len(off)} of {len(sums)} rows do not, first {scores[off[0]].tolist()}; "
            "log a model that gives probabilities"
        )
    if positive is None:
        return np.ascontiguousarray(scores[:, [list(own).index(one) for one in classes]])
    return np.ascontiguousarray(scores[:, list(own).index(positive)])


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)
