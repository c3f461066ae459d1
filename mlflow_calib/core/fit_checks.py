"""What a fit refuses before it starts, and what it says once it is done."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_calib.core.binning import BINNINGS, MAX_BINS, check_n_bins
from mlflow_calib.core.class_fit import AUTO, METHODS, Recipe
from mlflow_calib.core.class_map import FLAGS, OF_ROWS, ClassMap, few_rows_flag
from mlflow_calib.core.parts import PARTS, Parts
from mlflow_calib.core.reductions import REDUCTIONS, TOP_LABEL
from mlflow_calib.core.scaling import LOSSES, SCALINGS, TARGETS
from mlflow_calib.core.scores import SCORE_KINDS, CleanRows
from mlflow_calib.errors import CalibrationWarning, InvalidInputError, raise_problems
from mlflow_calib.runtime import CONTINUOUS_METHODS

#: Methods that fit a scaling function.
SCALED = ("scaling-binning", "scaling-binning-shrunk", "scaling")


def check_options(recipe: Recipe, reduction: Any, parts: Any, unlabeled: bool) -> None:
    """Refuse words that no fit knows, and words that do not go together; all at once."""
    method = recipe.method
    scaled = method in SCALED or method not in METHODS
    choices: list[tuple[str, Any, Sequence[Any]]] = [
        ("method", method, METHODS),
        ("reduction", reduction, REDUCTIONS),
        ("binning", recipe.binning, BINNINGS),
        ("scaling", recipe.scaling, (None, *SCALINGS) if scaled else (None,)),
        ("loss", recipe.loss, LOSSES),
        ("targets", recipe.targets, TARGETS),
        ("score_kind", recipe.score_kind, SCORE_KINDS),
        ("parts", parts if isinstance(parts, str) else "auto", PARTS),
    ]
    problems = [
        f"{name} must be one of {', '.join(map(repr, allowed))}, got {given!r}"
        for name, given, allowed in choices
        if not (given is None or isinstance(given, str)) or given not in allowed
    ]
    problems += _bin_problems(recipe.n_bins)
    if not isinstance(recipe.seed, (int, np.integer)) or isinstance(recipe.seed, bool) or recipe.seed < 0:
        problems.append(f"seed must be a whole number of at least 0, got {recipe.seed!r}")
    if unlabeled and not (method in SCALED and method not in CONTINUOUS_METHODS):
        problems.append(
            f"unlabeled scores make the bins of scaling-binning and the means of g in them; method {method!r} has no "
            "use for them, leave them out"
        )
    if problems:
        raise_problems(problems)


def _bin_problems(n_bins: Any) -> list[str]:
    if isinstance(n_bins, str):
        wrong = f'n_bins must be an integer from 1 to {MAX_BINS}, or "{AUTO}", got {n_bins!r}'
        return [] if n_bins == AUTO else [wrong]
    try:
        check_n_bins(n_bins)
    except InvalidInputError as error:
        return [str(error)]
    return []


def check_both_outcomes(rows: CleanRows, parts: Parts, recipe: Recipe) -> None:
    """Refuse a binary problem that has one outcome only where it is learnt from, before anything is fitted."""
    if rows.reduction not in ("binary", "top-label") or recipe.method == "identity":
        return
    outcomes = rows.truths[parts.chosen(recipe.teacher)]
    if outcomes.any() and not outcomes.all():
        return
    part = f"T{recipe.teacher}" if len(outcomes) < len(rows.truths) else "T"
    remedy = "add such rows" + (', or use parts="shared"' if part != "T" else "")
    if rows.reduction in TOP_LABEL:
        absent = "wrong" if len(outcomes) and outcomes.all() else "right"
        raise InvalidInputError(
            f"{part} must hold rows where the predicted class is right and rows where it is wrong; of its "
            f"{len(outcomes)} rows none is {absent}; {remedy}"
        )
    others = [name for name in rows.classes if name != rows.positive_class]
    absent = f"the positive class {rows.positive_class!r}" if not outcomes.any() else f"another class {others or ''}"
    raise InvalidInputError(
        f"{part} must hold rows of both classes to learn from; its {len(outcomes)} rows hold none of {absent}; {remedy}"
    )


def warn_of_few_rows(rows: CleanRows, parts: Parts, recipe: Recipe, stacklevel: int) -> None:
    """Name the classes with few rows to learn from, or none, before anything is fitted; one warning for all."""
    if recipe.method == "identity" or rows.reduction == "top-label-per-class":
        return  # nothing is learnt; or the class takes the map of all, and its flag is said with the maps
    taught = rows.select(parts.chosen(recipe.teacher))
    several = taught.truths.ndim == 2
    names = taught.classes if several else (None,)
    found: dict[str, list[Any]] = {flag: [] for flag in OF_ROWS}
    for name, positives in zip(names, taught.positives, strict=True):
        if flag := few_rows_flag(positives, len(taught.truths)):
            found[flag].append(name)
    lines = _lines(found)
    if lines:
        warnings.warn("; ".join(lines), CalibrationWarning, stacklevel=stacklevel + 1)


def _lines(found: dict[str, list[Any]]) -> list[str]:
    lines = []
    for flag, names in found.items():
        if names:
            about = f", class {', '.join(map(repr, names[:5]))}{' and more' * (len(names) > 5)}" * (names != [None])
            lines.append(f"{flag}{about}: {FLAGS[flag]}")
    return lines


def warn_of_flags(maps: tuple[ClassMap, ...], requested: int | str, stacklevel: int) -> None:
    """Give one warning that names every map with a flag of the fit, if there is any."""
    flags = [flag for flag in FLAGS if flag not in OF_ROWS]
    lines = _lines({flag: [one_map.label for one_map in maps if flag in one_map.flags] for flag in flags})
    if lines:
        bins = [len(one_map.values) for one_map in maps]
        if any(bins):
            lines.append(f"bins requested {requested}, effective {min(bins)} to {max(bins)}")
        warnings.warn("; ".join(lines), CalibrationWarning, stacklevel=stacklevel + 1)
