"""``evaluator_config`` of the evaluator, checked with every mistake at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mlflow_calib.core.binning import MAX_BINS
from mlflow_calib.core.columns import is_real
from mlflow_calib.core.records import unknown_name
from mlflow_calib.core.reductions import REDUCTIONS
from mlflow_calib.errors import raise_problems

#: Reductions of labels that are one class a row.
JUDGED = tuple(reduction for reduction in REDUCTIONS if reduction != "multi-label")
DISTINCT = "distinct"
SCORES = ("auto", "probability")


@dataclass(frozen=True)
class Settings:
    """How to judge a model.

    Attributes
    ----------
    reduction
        One of ``JUDGED``. None: a calibrated model's own; else "binary" of two classes, "top-label" of more.
    bins
        Uniform-mass bins of continuous outputs, or "distinct": one bin a value. None: a calibrated model's own, else
        10. ``n_bins`` is another name for it.
    classes
        In the order of the columns, where the model does not say them itself.
    positive_class
        Of two classes that are neither 0/1 nor False/True.
    score
        "auto": ``predict_proba`` of a classifier; "probability": what ``predict`` returns are probabilities.
    probability_columns
        Columns that hold the probabilities, one, or one a class in the order of ``classes``: of the model's output, or,
        without a model, of the data.
    group_column, groups
        Column of the data, or an array with one id a row, where rows of one day, user or game move together.
    confidence_level
        One-sided level of the bounds.
    figure
        Whether to draw a reliability diagram.
    metric_prefix
        Put before the names of metrics and files, as of MLflow's own evaluators.
    """

    reduction: str | None = None
    bins: int | str | None = None
    classes: tuple[Any, ...] | None = None
    positive_class: Any = None
    score: str = "auto"
    probability_columns: tuple[str, ...] | None = None
    group_column: str | None = None
    groups: Any = None
    confidence_level: float = 0.95
    figure: bool = True
    metric_prefix: str = ""

    @classmethod
    def read(cls, config: Mapping[str, Any] | None, *, strict: bool = True) -> Settings:
        """Check a config; with ``strict`` False other evaluators' keys may stand in it.

        Raises
        ------
        InvalidInputError
            With every mistake, an unknown key with the nearest known one.

        Examples
        --------
        >>> Settings.read({"n_bins": 15}).bins
        15
        """
        given = dict(config or {})
        known = [field.name for field in fields(cls)]
        problems = []
        if "n_bins" in given and "bins" in given:
            problems.append("evaluator_config must give n_bins or bins, not both")
        if "n_bins" in given:
            given["bins"] = given.pop("n_bins")
        unknown = [name for name in given if name not in known]
        problems += (
            [unknown_name("key of evaluator_config", name, [*known, "n_bins"]) for name in unknown] if strict else []
        )
        given = {name: value for name, value in given.items() if name in known}
        problems += _value_problems(given)
        if problems:
            raise_problems(problems)
        for name in ("classes", "probability_columns"):
            if given.get(name) is not None:
                given[name] = (given[name],) if isinstance(given[name], str) else tuple(given[name])
        return cls(**given)


def _value_problems(given: Mapping[str, Any]) -> list[str]:
    """What is wrong with the values, each with what must hold."""
    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "reduction": (f"be one of {', '.join(JUDGED)}", lambda value: value is None or value in JUDGED),
        "bins": (f"be an integer from 1 to {MAX_BINS}, or {DISTINCT!r}", _are_bins),
        "classes": ("list at least two classes in the order of the columns", _are_several),
        "score": (f"be one of {', '.join(SCORES)}", lambda value: value in SCORES),
        "probability_columns": ("name a column, or list one a class", _are_columns),
        "group_column": ("be the name of a column", lambda value: value is None or isinstance(value, str)),
        "confidence_level": ("lie in [0.5, 1)", lambda value: is_real(value) and 0.5 <= value < 1),
        "figure": ("be True or False", lambda value: isinstance(value, bool)),
        "metric_prefix": ("be text without '/'", lambda value: isinstance(value, str) and "/" not in value),
    }
    found = [
        f"evaluator_config[{name!r}] must {rule}, got {given[name]!r}"
        for name, (rule, holds) in rules.items()
        if name in given and not holds(given[name])
    ]
    if given.get("groups") is not None and given.get("group_column") is not None:
        found.append("evaluator_config must give group_column or groups, not both")
    return found


def _are_bins(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value is None or value == DISTINCT or (whole and 1 <= value <= MAX_BINS)


def _are_several(value: Any) -> bool:
    return value is None or (_is_listed(value) and len(value) >= 2)


def _are_columns(value: Any) -> bool:
    return value is None or isinstance(value, str) or (_is_listed(value) and len(value) >= 1)


def _is_listed(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, (str, bytes, Mapping))
