"""One model's entry of the evidence: sufficient statistics first, then the figures they give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlflow_calib.core import intervals
from mlflow_calib.core.bound_terms import BoundTerms
from mlflow_calib.core.class_sums import ClassStatistics
from mlflow_calib.core.class_terms import classes_status, terms_to_dict
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared, plugin_squared
from mlflow_calib.core.records import is_number
from mlflow_calib.errors import InvalidInputError


def estimate_entry(
    error_statistics: ErrorStatistics,
    mse: float,
    *,
    confidence_level: float = 0.95,
    by_group: bool | None = None,
    lower_bound_of_calibration_error: bool = False,
    log_loss: float | None = None,
) -> dict[str, Any]:
    """One model's entry for the reductions "binary" and "top-label".

    Parameters
    ----------
    error_statistics
        Counts, positives and outputs of the bins, with group moments where rows have groups.
    mse
        Mean of (output - outcome)², the smaller the better; for a binary model the Brier score.
    confidence_level
        One-sided level of each bound shown here. The verdict takes the policy's level instead.
    by_group
        None: by group when there are group moments.
    lower_bound_of_calibration_error
        True for continuous outputs that were binned: what is estimated is then at most the model's own error.
    log_loss
        Mean log loss, infinite where an outcome was given probability 0; None: not evaluated.

    Returns
    -------
    dict
        Root, bounds and noise floor on the scale of probabilities; squares signed. Where the status is ``unusable`` a
        figure that cannot be had is None.

    Raises
    ------
    InvalidInputError
        Where a figure that the status promises is not finite.
    """
    groups = error_statistics.group_moments is not None if by_group is None else by_group
    words = intervals.status(error_statistics, groups)
    figures = _figures(error_statistics, confidence_level, groups)
    kind = "groups" if groups else "rows"
    losses = (mse, log_loss)
    flags = (confidence_level, kind, lower_bound_of_calibration_error)
    return {
        **_entry((error_statistics,), error_statistics.n, figures, losses, words, flags),
        "statistics": error_statistics.to_dict(),
        "classes": None,
        "terms": None,
    }


def class_entry(
    classes: ClassStatistics,
    mse: float,
    *,
    confidence_level: float = 0.95,
    by_group: bool | None = None,
    lower_bound_of_calibration_error: bool = False,
    log_loss: float | None = None,
) -> dict[str, Any]:
    """One model's entry for the reductions "marginal" and "top-label-per-class", from ``ClassSums.finish()``.

    Parameters and errors as in :func:`estimate_entry`. Marginal: ``statistics`` is None, ``classes`` holds those of
    every class and ``terms`` the level-free terms of the bounds on their mean. Per predicted class: ``statistics`` is
    pooled over the classes, and every bound on the whole follows from it.
    """
    table = [{"class": _json(label), "statistics": s.to_dict()} for label, s in _pairs(classes)]
    if classes.pooled is not None:
        entry = estimate_entry(
            classes.pooled,
            mse,
            confidence_level=confidence_level,
            by_group=by_group,
            lower_bound_of_calibration_error=lower_bound_of_calibration_error,
            log_loss=log_loss,
        )
        return {**entry, "classes": table}
    terms, words = classes.terms, classes_status(classes.statistics, classes.terms, classes.labels)
    figures = _class_figures(classes.statistics, terms, confidence_level, usable=words[0] != "unusable")
    losses = (mse, log_loss)
    flags = (confidence_level, classes.bound_kind, lower_bound_of_calibration_error)
    return {
        **_entry(classes.statistics, classes.statistics[0].n, figures, losses, words, flags),
        "statistics": None,
        "classes": table,
        "terms": terms_to_dict(terms),
    }


def slice_entry(values: Mapping[str, Any], candidate: Mapping[str, Any] | None) -> dict[str, Any]:
    """One slice of the evaluation data: what its columns hold, and the candidate's entry on its rows.

    ``candidate`` is None where a slice that the policy names has no rows.

    Examples
    --------
    >>> slice_entry({"region": "EU"}, None)
    {'slice': {'region': 'EU'}, 'n': 0, 'estimates': {'candidate': None}}
    """
    n = 0 if candidate is None else candidate["n"]
    return {
        "slice": {column: _json(value) for column, value in values.items()},
        "n": n,
        "estimates": {"candidate": None if candidate is None else dict(candidate)},
    }


def root_of(squared: float | None) -> float | None:
    """The reported root of a signed square, clipped at zero once; None of None."""
    return None if squared is None else math.sqrt(max(squared, 0.0))


def _entry(
    statistics: Sequence[ErrorStatistics],
    n: int,
    figures: Mapping[str, float | None],
    losses: tuple[float, float | None],
    status_and_reason: tuple[str, str],
    flags: tuple[float, str, bool],
) -> dict[str, Any]:
    mse, log_loss = losses
    infinite = log_loss == math.inf
    name, reason = status_and_reason
    known = None if log_loss is None or infinite else _or_none("log_loss", log_loss, usable=True)
    return {
        "n": n,
        "n_bins": max(s.n_bins for s in statistics),
        **{figure: _or_none(figure, value, name != "unusable") for figure, value in figures.items()},
        "mse": _or_none("mse", mse, usable=True),
        "log_loss": known,
        "log_loss_infinite": infinite,
        "status": name,
        "reason": reason or None,
        "confidence_level": float(flags[0]),
        "bound_kind": flags[1],
        "lower_bound_of_calibration_error": bool(flags[2]),
    }


def _figures(s: ErrorStatistics, confidence_level: float, by_group: bool) -> dict[str, float | None]:
    squared = debiased_squared(s)
    return {
        "squared_plugin": plugin_squared(s),
        "squared_debiased": squared,
        "root": root_of(squared),
        "upper_bound": root_of(intervals.squared_upper_bound(s, confidence_level, by_group)),
        "lower_bound": root_of(intervals.squared_lower_bound(s, confidence_level, by_group)),
        "noise_floor": intervals.noise_floor(s, confidence_level, by_group),
    }


def _class_figures(
    statistics: Sequence[ErrorStatistics], terms: BoundTerms, confidence_level: float, *, usable: bool
) -> dict[str, float | None]:
    squared = float(np.mean([debiased_squared(s) for s in statistics]))
    bounds = {"upper_bound": terms.upper, "lower_bound": terms.lower, "noise_floor": terms.floor}
    return {
        "squared_plugin": float(np.mean([plugin_squared(s) for s in statistics])),
        "squared_debiased": squared,
        "root": root_of(squared),
        **{name: root_of(float(bound(confidence_level))) if usable else None for name, bound in bounds.items()},
    }


def _pairs(classes: ClassStatistics) -> Any:
    return zip(classes.labels, classes.statistics, strict=True)


def _json(value: Any) -> Any:
    """A label or slice value as the JSON scalar it is; other kinds as their text."""
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or isinstance(plain, (str, bool, int)) or is_number(plain) else str(plain)


def _or_none(name: str, value: float | None, usable: bool) -> float | None:
    if value is not None and is_number(float(value)):
        return float(value)
    if usable:
        raise InvalidInputError(f"{name} must be a finite number, got {value}; look for NaN among outputs and labels")
    return None
