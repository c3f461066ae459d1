"""What boosted trees without ``predict_proba`` predict, read from the objective they carry."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Booster:
    """What is known of a booster.

    ``call`` and ``link`` as in `runtime.BaseScores`; ``call`` is None where the objective does not say what is
    predicted; ``problem`` says why nothing of it can be calibrated.
    """

    kind: str
    objective: str
    classes: list[int]
    call: str | None = None
    link: str | None = None
    problem: str | None = None


def booster_of(raw: Any) -> Booster | None:
    """What a model of XGBoost, LightGBM or CatBoost without ``predict_proba`` predicts; None of any other model."""
    if hasattr(raw, "predict_proba"):
        return None
    library = _library(raw)
    return _READERS[library](raw) if library in _READERS else None


def _library(raw: Any) -> str:
    modules = {one_class.__module__.partition(".")[0] for one_class in type(raw).__mro__}
    return next((name for name in ("xgboost", "lightgbm", "catboost") if name in modules), "")


#: Objectives whose prediction is P(class 1) or a probability a class, those that predict log odds, and those that
#: predict labels.
_XGBOOST_PROBABILITY = ("binary:logistic", "reg:logistic", "multi:softprob")
_XGBOOST_LABELS = {
    "multi:softmax": 'train with "multi:softprob"',
    "binary:hinge": 'train with "binary:logistic"',
}


def _xgboost(raw: Any) -> Booster:
    booster = raw if hasattr(raw, "save_config") else raw.get_booster()
    learner = json.loads(booster.save_config())["learner"]
    objective = str(learner["objective"]["name"])
    n_classes = max(int(learner["learner_model_param"]["num_class"]), 2)
    kind, classes = f"XGBoost's {type(raw).__name__}", list(range(n_classes))
    if objective in _XGBOOST_LABELS:
        problem = (
            f"{kind} was trained with {objective}, which predicts labels and no probabilities; "
            f"{_XGBOOST_LABELS[objective]} and log it again"
        )
        return Booster(kind, objective, classes, problem=problem)
    if objective == "binary:logitraw":
        return Booster(kind, objective, classes, "predict", "logit")
    return Booster(kind, objective, classes, "predict" if objective in _XGBOOST_PROBABILITY else None)


def _lightgbm(raw: Any) -> Booster:
    booster = raw.booster_ if hasattr(raw, "booster_") else raw
    lines = booster.model_to_string(num_iteration=1).splitlines()
    found = next((line.partition("=")[2] for line in lines if line.startswith("objective=")), "")
    objective, kind = found.partition(" ")[0], f"LightGBM's {type(raw).__name__}"
    classes = list(range(max(int(booster.num_model_per_iteration()), 2)))
    if objective == "multiclassova":
        problem = (
            f"{kind} was trained with multiclassova, whose classes do not exclude each other, so that its rows do not "
            'sum to 1; train with "multiclass" and log it again'
        )
        return Booster(kind, objective, classes, problem=problem)
    known = objective in ("binary", "cross_entropy", "multiclass")
    return Booster(kind, objective, classes, "predict" if known else None)


def _catboost(raw: Any) -> Booster:
    objective = str(raw.get_all_params().get("loss_function", ""))
    kind = f"CatBoost's {type(raw).__name__}"
    named = [label.item() if hasattr(label, "item") else label for label in getattr(raw, "classes_", [])]
    call = "predict_probability" if objective in ("Logloss", "CrossEntropy", "MultiClass") else None
    return Booster(kind, objective, named or [0, 1], call)


_READERS: dict[str, Callable[[Any], Booster]] = {"xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}
