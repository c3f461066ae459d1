"""How a base model gives probabilities: found out, or taken as declared, once, when the model is packaged or scored.

The answer is a small record that stands in the artifact and in the manifest; `runtime.BaseScores` follows it, so that
nothing is guessed when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mlflow_calib.errors import InvalidInputError, ModelError
from mlflow_calib.flavor.boosters import Booster, booster_of
from mlflow_calib.flavor.onnx_outputs import onnx_output, onnx_outputs

#: What a caller may say of a base model's scores, see `score_source`.
Score: TypeAlias = "str | int | Mapping[str, str | int]"
KINDS = ("probability", "logit")


def score_source(
    model: Any, score: Score, classes: Sequence[Any] | None, *, apart: bool = False, declared: Sequence[Any] = ()
) -> dict[str, Any]:
    """How a loaded ``PyFuncModel`` gives probabilities.

    Parameters
    ----------
    model : PyFuncModel
    score : str, int or mapping
        "auto" takes what the model says of itself: ``predict_proba``, ``predict_log_proba``, the objective of a
        booster. "probability" and "logit" declare what it returns; a logit is put through the sigmoid, several through
        the softmax. A name or a position declares that this part of its output holds the probability of the positive
        class, or a probability a class; ``{"logit": name}`` that it holds logits.
    classes : sequence, optional
        The model's classes in the order of its columns; needed where the model does not say them itself.
    apart : bool
        Whether the classes do not exclude each other, so that each logit has a sigmoid of its own.
    declared : sequence
        Classes to take where neither the model nor ``classes`` says them.

    Returns
    -------
    dict
        ``score``, ``call``, ``classes`` and, where there is one, ``link``, ``column``, ``column_class``,
        ``objective``; the fields of `runtime.BaseScores`.

    Raises
    ------
    InvalidInputError
        ``score`` is none of these, or ``classes`` is no list of classes.
    ModelError
        The model gives nothing that can be calibrated, with what to do.
    """
    kind, column = _read(score)
    if classes is not None and (isinstance(classes, (str, bytes)) or np.ndim(np.asarray(classes, dtype=object)) != 1):
        raise InvalidInputError(f"classes must be a list of the model's classes, in column order, got {classes!r}")
    raw = raw_model(model)
    booster = booster_of(raw)
    if booster is not None and booster.problem:
        raise ModelError(booster.problem)
    if kind == "auto":
        return {"score": "auto", **_automatic(raw, booster, classes, declared)}
    found = _declared(raw, kind, column, () if classes is None else classes, declared)
    if kind == "logit":
        found["link"] = "sigmoid" if apart else "logit"
    return {"score": dict(score) if isinstance(score, Mapping) else score, **found}


def _read(score: Any) -> tuple[str, str | int | None]:
    """Kind of the scores and the part of the output that holds them."""
    if isinstance(score, str) and score in ("auto", *KINDS):
        return score, None
    if isinstance(score, Mapping) and len(score) == 1:
        kind, column = next(iter(score.items()))
        if kind in KINDS and _is_column(column):
            return kind, column
    elif _is_column(score):
        return "probability", score
    raise InvalidInputError(
        'score must be "auto", "probability", "logit", the name or position of the output that holds probabilities, '
        f'or {{"logit": name}}, got {score!r}'
    )


def _is_column(value: Any) -> bool:
    return (isinstance(value, str) and bool(value)) or (type(value) is int and value >= 0)


def _automatic(
    raw: Any, booster: Booster | None, classes: Sequence[Any] | None, declared: Sequence[Any]
) -> dict[str, Any]:
    if hasattr(raw, "predict_proba"):
        return {"call": "predict_proba", "classes": _classes_of(raw, classes)}
    if hasattr(raw, "predict_log_proba"):
        return {"call": "predict_log_proba", "classes": _classes_of(raw, classes), "link": "log"}
    if booster is None:
        raise ModelError(_no_probabilities(raw))
    if booster.call is None:
        raise ModelError(
            f"{booster.kind} was trained with {booster.objective or 'an objective of its own'}, and what it predicts "
            'is not known to be a probability; if it is one, say score="probability", if it is log odds, score="logit"'
        )
    own = booster.classes if classes is None else plain_values(classes)
    if classes is None and len(declared) == len(own):
        own = _same_set(booster.classes, declared)
    if len(own) != len(booster.classes):
        raise ModelError(f"{booster.kind} has {len(booster.classes)} classes, got classes={own}")
    found = {"call": booster.call, "classes": own, "objective": booster.objective}
    if booster.link:
        found["link"] = booster.link
    return found | ({"column_class": own[1]} if len(own) == 2 else {})


def _same_set(own: list[Any], declared: Sequence[Any]) -> list[Any]:
    """The booster's numbered classes, which a calibrator of other names does not share."""
    names = plain_values(declared)
    if {*names} != {*own}:
        raise ModelError(
            f"a booster numbers its classes {own} and does not know the calibrator's names {names}; "
            "give classes=[...] in the order of these numbers"
        )
    return own


def _declared(
    raw: Any, kind: str, column: str | int | None, classes: Sequence[Any], declared: Sequence[Any]
) -> dict[str, Any]:
    if kind == "logit" and column is None and hasattr(raw, "decision_function"):
        own = _classes_of(raw, classes if len(classes) else None)
        return {"call": "decision_function", "classes": own} | ({"column_class": own[1]} if len(own) == 2 else {})
    if not (len(classes) or len(declared)):
        raise ModelError(f'score="{kind}" needs classes=[...], the model\'s classes in the order of its columns')
    found: dict[str, Any] = {"call": "predict", "classes": plain_values(classes if len(classes) else declared)}
    outputs = onnx_outputs(raw)
    if outputs:
        return {**found, "call": "run", "column": onnx_output(outputs, column)}
    return found if column is None else {**found, "column": column}


def raw_model(model: Any) -> Any:
    """What the loaded ``PyFuncModel`` wraps; None where it does not say."""
    try:
        return model.get_raw_model()
    except NotImplementedError:
        return None


def _classes_of(raw: Any, classes: Sequence[Any] | None) -> list[Any]:
    own = getattr(raw, "classes_", None)
    if own is not None and not len(own):  # CatBoost of a loss on probabilities has none
        own = None
    if own is None and classes is None:
        raise ModelError("the base model does not say its classes (classes_); give classes=[...] in column order")
    if own is None:
        return plain_values(classes or ())
    if isinstance(own, list) and any(np.ndim(one) for one in own):
        raise ModelError(f"the base model must predict one target, and it predicts {len(own)}; calibrate them apart")
    if classes is not None and plain_values(classes) != plain_values(own):
        raise ModelError(f"classes must be the base model's own {plain_values(own)}, got {plain_values(classes)}")
    return plain_values(own)


def _no_probabilities(raw: Any) -> str:
    kind = "the model" if raw is None else type(raw).__name__
    if outputs := onnx_outputs(raw):
        return (
            f"an ONNX model does not say which of its outputs are probabilities; it has {outputs}; give score=<name> "
            'where it holds probabilities, score={"logit": <name>} where it holds logits, and classes=[...]'
        )
    if hasattr(raw, "decision_function"):
        return (
            f"{kind} has decision_function but no predict_proba, and a decision value is no probability; say "
            'score="logit" to take it for log odds, or fit it with probabilities (loss="log_loss", or inside '
            "CalibratedClassifierCV) and log it again"
        )
    return (
        f"{kind} has no predict_proba, and what its predict returns is not known; if it returns probabilities, say "
        'score="probability" and classes=[...], if logits, as networks do, score="logit", if they stand in one column, '
        "its name; if it returns labels, log a model that gives probabilities"
    )


def plain_values(values: Any) -> list[Any]:
    """Labels as plain Python values, as JSON holds them."""
    return [value.item() if isinstance(value, np.generic) else value for value in np.asarray(values, dtype=object)]
