"""A base model's scores on sample rows, looked at before it is packaged."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime

log = logging.getLogger(__name__)
#: From so many rows on, log odds that all lie in [0, 1] are taken for probabilities.
MANY_ENOUGH = 10


def sample_rows(meta: Any, folder: str, input_example: Any) -> tuple[Any, bool]:
    """Rows to look at, and whether the caller gave them: the input example, else that of the saved base model."""
    example = input_example[0] if isinstance(input_example, tuple) else input_example
    if example is not None:
        return (example, True) if hasattr(example, "shape") else (None, True)
    if meta.saved_input_example_info is None:
        return None, False
    try:
        saved = meta.load_input_example(folder)
    except Exception as error:  # noqa: BLE001  # another flavor's file; without it nothing is looked at
        log.warning("the base model's input example cannot be read, so its scores are not looked at: %s", error)
        return None, False
    return (saved if hasattr(saved, "shape") else None), False


def sample_problems(model: Any, meta: Any, source: Mapping[str, Any], rows: Any, given: bool, sums: bool) -> list[str]:
    """What is wrong with the scores of these rows, by the base model's own signature; [] where nothing is.

    Rows that the base model cannot take are a problem where they were given. A saved example is passed over with a
    warning, since its JSON loses types that the model may need, such as categories.
    """
    import mlflow.pyfunc

    base = runtime.BaseScores(model, dict(source))
    seen: list[tuple[Any, Any]] = []
    try:
        mlflow.pyfunc.PyFuncModel(model_meta=meta, model_impl=_Recorder(base, seen)).predict(rows)
    except Exception as error:  # noqa: BLE001  # whatever the signature or the base model raises
        if given:
            return [f"the base model does not take the input example: {error}"]
        log.warning("the base model does not take its own input example, so its scores are not looked at: %s", error)
        return []
    data, output = seen[0]
    return _problems(base, data, output, sums, rows.shape[0])


class _Recorder:
    """A model that keeps the rows as the signature leaves them, and what the base model returns for them."""

    def __init__(self, base: runtime.BaseScores, seen: list[tuple[Any, Any]]) -> None:
        self.base, self.seen = base, seen

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        self.seen.append((data, self.base.output(data, params or {})))
        return []


def _problems(base: runtime.BaseScores, data: Any, output: Any, sums: bool, n_rows: int) -> list[str]:
    try:
        values = base.values(output)
    except ValueError as error:
        return [f"the base model's output cannot be calibrated: {error}"]
    scores = base.probabilities(values)
    if len(scores) != n_rows:
        return [f"the base model gives {len(scores)} scores for {n_rows} rows; it must give one row of scores a row"]
    try:
        base.clean(scores, sums=sums)
    except ValueError as error:
        return [f"the base model's scores cannot be calibrated: {error}"]
    if n_rows and base.call == "predict" and np.isin(values, (0.0, 1.0)).all():
        only = f"the base model returns nothing but 0 and 1 for the {n_rows} sample rows, which are class labels"
        remedy = "log a model that gives probabilities; where these are some, pass an input_example of rows that differ"
        return [f"{only}; {remedy}"]
    return [*_link_problems(base.link, values), *_order_problems(base, data, scores)]


def _link_problems(link: str | None, values: npt.NDArray[np.float64]) -> list[str]:
    if link not in ("logit", "sigmoid") or not len(values) or values.min() < 0 or values.max() > 1:
        return []
    sums = values.ndim == 2 and np.abs(values.sum(axis=1) - 1).max() <= runtime.ROW_SUM_TOLERANCE
    if sums or len(values) >= MANY_ENOUGH:
        rule = 'score="logit" declares log odds, and all values of the sample rows lie in [0, 1], as probabilities do'
        return [f'{rule}; say score="probability"']
    return []


def _order_problems(base: runtime.BaseScores, data: Any, scores: npt.NDArray[np.float64]) -> list[str]:
    """Whether the columns stand in the order of the classes: rows predicted as a class must score higher in it."""
    if base.call not in ("predict_proba", "predict_log_proba", "decision_function") or scores.ndim != 2:
        return []
    labels = np.asarray(base.model.get_raw_model().predict(data)).ravel()
    lower, n_compared = [], 0
    for position, one_class in enumerate(base.classes):
        chosen = np.array([label == one_class for label in labels.tolist()], dtype=bool)
        if len(chosen) == len(scores) and chosen.any() and not chosen.all():
            n_compared += 1
            if scores[chosen, position].mean() < scores[~chosen, position].mean():
                lower.append(one_class)
    if not n_compared or len(lower) < n_compared:
        return []
    rule = f"the base model's columns do not stand in the order of its classes {base.classes}"
    found = f"rows it predicts as {lower[0]!r} score lower in that column than the others"
    return [f"{rule}: {found}; give the columns the order of classes_"]
