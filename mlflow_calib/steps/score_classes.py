"""The classes of a base model and the columns that their scores are stored in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlflow_calib.errors import InvalidInputError, ModelError


def score_columns(classes: Sequence[Any], positive: Any, prefix: str = "score") -> list[str]:
    """Columns of scores: that of the positive class of two, else one a class.

    >>> score_columns(["no", "yes"], "yes"), score_columns([0, 1, 2], None, "champion_score")
    (['score_yes'], ['champion_score_0', 'champion_score_1', 'champion_score_2'])
    """
    return [f"{prefix}_{one}" for one in (classes if len(classes) > 2 else [positive])]


def choose_positive(classes: Sequence[Any], stated: Any) -> Any:
    """The positive class as the model spells it; free for 0/1 and False/True, else it must be stated.

    None of three classes and more, where every class has its own scores.

    Raises
    ------
    ModelError
        The model has fewer than two classes.
    InvalidInputError
        None was stated and none is plain; the stated one is no class of the model; the model has more than two.
    """
    unstated = stated is None or (isinstance(stated, str) and not stated.strip() and stated not in classes)
    if len(classes) < 2:
        raise ModelError(f"the base model must have at least two classes, and it has {list(classes)}")
    if len(classes) > 2:
        if unstated:
            return None
        raise InvalidInputError(
            f"positive_class belongs to a model of two classes, and this one has {len(classes)}, {list(classes)[:10]}; "
            "leave it out, every class gets its own scores"
        )
    if unstated:
        if set(classes) == {0, 1}:
            return classes[list(classes).index(1)]
        raise InvalidInputError(f"positive_class must be stated for the classes {list(classes)}: say which is positive")
    if stated in classes:
        return classes[list(classes).index(stated)]
    alike = next((f"; the model spells it {one!r}" for one in classes if str(one) == str(stated)), "")
    raise InvalidInputError(f"positive_class must be one of {list(classes)}, got {stated!r}{alike}")


def require_distinct_words(classes: Sequence[Any]) -> None:
    """Refuse classes that would name one column, such as 1 and "1".

    Raises
    ------
    ModelError
        With the words that stand for several classes.
    """
    words = [str(one) for one in classes]
    alike = sorted({word for word in words if words.count(word) > 1})
    if alike:
        raise ModelError(
            f"the classes of the base model must differ as texts, which name their columns, and {', '.join(alike)} "
            f"stands for several of {list(classes)[:10]}; log a model whose classes are told apart"
        )
