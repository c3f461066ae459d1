"""How a calibrator is fitted.

The axes: method (scaling-binning, shrunk, histogram binning, scaling, identity) x scaling function x binning
(uniform-mass, equal-width) x reduction x parts (disjoint, shared). What comes of it is a :class:`Calibrator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlflow_calib import __version__, runtime
from mlflow_calib.core.bin_numbers import cube_root_bins
from mlflow_calib.core.calibrator_record import Calibrator, FlaggedOutputs
from mlflow_calib.core.class_fit import AUTO, METHODS, Recipe
from mlflow_calib.core.class_map import FLAGS, ClassMap
from mlflow_calib.core.columns import column
from mlflow_calib.core.fit_checks import SCALED, check_both_outcomes, check_options, warn_of_few_rows, warn_of_flags
from mlflow_calib.core.map_fits import fit_maps
from mlflow_calib.core.parts import Parts, choose_parts
from mlflow_calib.core.reductions import TOP_LABEL
from mlflow_calib.core.scores import CleanRows, clean_rows, clean_unlabeled
from mlflow_calib.core.weights import effective_n
from mlflow_calib.errors import InvalidInputError

__all__ = ["FLAGS", "METHODS", "Calibrator", "ClassMap", "FlaggedOutputs", "fit_calibrator"]


def fit_calibrator(
    scores: Any,
    labels: Any,
    *,
    method: str = "scaling-binning",
    reduction: str = "binary",
    n_bins: int | str = 10,
    binning: str = "uniform-mass",
    scaling: str | None = None,
    loss: str = "log",
    targets: str = "labels",
    parts: Any = "auto",
    classes: Sequence[Any] | None = None,
    positive_class: Any = None,
    sample_weight: Any = None,
    unlabeled: Any = None,
    keys: Any = None,
    score_kind: str = "probability",
    seed: int = 0,
) -> Calibrator:
    r"""Fit a calibrator whose calibration error can be measured, because it has few distinct outputs.

    Parameters
    ----------
    scores : array_like, shape (n,), (n, 2) or (n, K)
        Scores of the base model on the recalibration data T. Binary: probabilities of the positive class, or of both
        classes. Else a column a class. Any float type; computed in float64. With ``score_kind="logit"`` log odds of
        the class against the rest, any finite numbers, shape (n,) or (n, K).
    labels : array_like, shape (n,); multi-label (n, K)
        Outcomes in the model's own words; multi-label: 0 and 1, or booleans.
    method : {"scaling-binning", "scaling-binning-shrunk", "histogram-binning", "scaling", "identity"}
        See the notes. The last two are for comparison: their outputs are continuous, so that their calibration error
        cannot be verified, and they are not packaged with a model.
    reduction : {"binary", "marginal", "top-label", "top-label-per-class", "multi-label"}
        One probability; one calibrator a class; one of the confidence in the predicted class, or one for each
        predicted class; one for each of K labels that do not exclude one another, whose scores need not sum to one.
        Marginal rows do not sum to one and are not renormalised: that would turn a few outputs into thousands, whose
        calibration error can no longer be measured.
    n_bins : int or "auto"
        Bins asked for, 1 to 1000. Where scores tie there are fewer; both numbers are kept and a warning is given.
        "auto": histogram binning takes the cube root of the rows that it averages, the other methods the monotonic
        sweep over the labels of T1, each class for itself.
    binning : {"uniform-mass", "equal-width"}
        Of g(z), or of z without step 1.
    scaling : {None, "platt", "quadratic", "beta", "temperature", "identity", "auto"}
        Scaling function of step 1, see :func:`mlflow_calib.core.scaling.fit_scaling`. None is "platt" for binary,
        marginal and multi-label, "auto" for top-label.
    loss : {"log", "squared"}
        What step 1 minimises: log loss as in the paper's experiments, or squared loss as in its formula.
    targets : {"labels", "platt"}
        What step 1 is fitted to: the outcomes, or Platt's smoothed targets (n1 + 1) / (n1 + 2) and 1 / (n0 + 2), which
        hold back a fit to few rows.
    parts : {"auto", "disjoint", "shared"} or array_like of 1, 2, 3, shape (n,)
        Rows of the three steps. "disjoint" thirds are the paper's algorithm and what its theorem needs; "shared" uses
        every row in every step, as the paper's experiments do, and is the better one for few rows. "auto" takes
        disjoint where T3 then holds at least 100 rows a bin (with ``n_bins="auto"``: the cube root of the rows).
    classes : sequence, optional
        Classes in the order of the columns, from the model, never from the labels seen. By default 0 .. K-1.
    positive_class : optional
        Must be stated unless labels are 0 and 1, or False and True.
    sample_weight : array_like, shape (n,), optional
        At least 0; only proportions matter. They enter every stage: g, the mass of bins, the means, and shrinking by
        the rows they are worth. Rows of weight 0, or of less than 1e-15 of the largest, are left out and counted.
    unlabeled : array_like, optional
        Scores without labels, of the form of ``scores``, for scaling-binning: they serve as T2 and T3, each counting
        one, and all labels go to T1. Disjoint parts halve them, "auto" where a half then holds 100 rows a bin.
    keys : array_like, shape (n,), optional
        A distinct key a row; disjoint thirds then follow the sorted keys, whatever the order of rows.
    score_kind : {"probability", "logit"}
    seed : int
        Seed of the permutation behind disjoint thirds without keys, and of the folds of ``scaling="auto"``.

    Returns
    -------
    Calibrator

    Warns
    -----
    CalibrationWarning
        At most one, that names every map whose fit was not as asked; ``ClassMap.flags`` holds the same.

    Raises
    ------
    InvalidInputError
        With every wrong option, or every problem of the rows, at once; see
        :func:`mlflow_calib.core.scores.clean_rows`; for doubled keys; for binary and top-label data where the rows
        that teach have one outcome only.

    Notes
    -----
    Scaling-binning: step 1 fits g on T1; step 2 makes bins of g(z) on T2; step 3 outputs, for bin I_j, the mean of g
    and never of the labels,

    .. math:: \hat g(I_j) = \frac{1}{|T_3 \cap I_j|} \sum_{z \in T_3 \cap I_j} g(z).

    Shrunk (beyond the paper): the means are moved towards the mean labels as far as these show g to be wrong, by an
    average of fits, see :func:`mlflow_calib.core.shrinkage.shrunk_values`; labels of T3, or of T1 where T3 has none.
    Histogram binning makes bins of z on T2 and outputs the mean label of T3 in each; it has no step 1 and leaves T1
    unused where parts are disjoint. "scaling" outputs g(z), "identity" the scores as they are. A bin that T3 leaves
    empty takes the same mean over T2, which is never empty. As g is monotone, edges are kept in the space of z:
    prediction never needs g. A class without a row of it (or of any other) in the data that teaches has nothing to
    fit, and takes the mean base score of each bin; a predicted class with too few rows takes the map of all predicted
    classes together. Both are flagged.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4.1 (algorithm), 4.3 (shared
    parts), section 2 (marginal and top-label calibration error). Per predicted class: Gupta and Ramdas, "Top-label
    Calibration and Multiclass-to-binary Reductions", ICLR 2022, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(size=900)
    >>> y = rng.uniform(size=900) < z**2
    >>> calibrator = fit_calibrator(z, y, n_bins=3)
    >>> calibrator.parts, calibrator.n_bins_effective
    ('disjoint', 3)
    >>> calibrator.predict([0.1, 0.5, 0.9]).round(1).tolist()
    [0.1, 0.3, 0.8]

    Production scores without labels leave all labels to step 1:

    >>> calibrator = fit_calibrator(z, y, n_bins=3, unlabeled=rng.uniform(size=3000))
    >>> calibrator.facts["n_parts"]
    [900, 1500, 1500]
    """
    if scaling is None and method in SCALED:
        scaling = "auto" if reduction in TOP_LABEL else "platt"
    recipe = Recipe(method, n_bins, binning, scaling, loss, score_kind, seed, targets)
    check_options(recipe, reduction, parts, unlabeled is not None)
    options = {"reduction": reduction, "classes": classes, "positive_class": positive_class, "score_kind": score_kind}
    given = clean_rows(scores, labels, **options, sample_weight=sample_weight)
    others = None
    if unlabeled is not None:
        words = {"classes": given.classes, "positive_class": given.positive_class}
        others = clean_unlabeled(unlabeled, **{**options, **words})
    rows, keys, parts = _weighing(given, keys, parts)
    chosen = _parts(rows, recipe, parts, keys, others)
    check_both_outcomes(rows, chosen, recipe)
    warn_of_few_rows(rows, chosen, recipe, stacklevel=2)
    maps = tuple(fit_maps(rows, chosen, recipe, others))
    warn_of_flags(maps, n_bins, stacklevel=2)
    facts = _facts(rows, chosen, keys, others, len(given.scores))
    return _finished(rows, recipe, chosen, parts, maps, facts)


def _finished(
    rows: CleanRows, recipe: Recipe, chosen: Parts, parts: Any, maps: tuple[ClassMap, ...], facts: dict[str, Any]
) -> Calibrator:
    auto = recipe.n_bins == AUTO
    return Calibrator(
        method=recipe.method,
        reduction=rows.reduction,
        binning=recipe.binning,
        scaling=recipe.scaling,
        loss=None if recipe.scaling is None else recipe.loss,
        score_kind=recipe.score_kind,
        classes=rows.classes,
        positive_class=rows.positive_class,
        n_bins_requested=max(1, *(len(m.values) for m in maps)) if auto else int(recipe.n_bins),
        parts_requested=parts if isinstance(parts, str) else "array",
        parts=chosen.name,
        seed=int(recipe.seed),
        maps=maps,
        facts={**facts, "n_bins": AUTO} if auto else facts,
    )


def _weighing(rows: CleanRows, keys: Any, parts: Any) -> tuple[CleanRows, Any, Any]:
    """Rows of weight over 0, with their keys and parts; equal weights are none."""
    if rows.weights is None or rows.weights.all():
        return rows, keys, parts
    held = np.flatnonzero(rows.weights)
    keys, parts = (_held(value, name, rows.weights.shape, held) for value, name in ((keys, "keys"), (parts, "parts")))
    return rows.select(held), keys, parts


def _held(value: Any, name: str, shape: tuple[int, ...], held: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    array = column(value, name)
    if array.shape != shape:
        raise InvalidInputError(f"{name} must be one a row, shape {shape}, got shape {array.shape}")
    return array[held]


def _parts(rows: CleanRows, recipe: Recipe, parts: Any, keys: Any, others: CleanRows | None) -> Parts:
    n, n_unlabeled = len(rows.scores), None if others is None else len(others.scores)
    if recipe.method in runtime.CONTINUOUS_METHODS and isinstance(parts, str) and parts == AUTO:
        parts = "shared"  # step 1 alone has no use for the other two parts
    n_bins = cube_root_bins(n if n_unlabeled is None else n_unlabeled) if recipe.n_bins == AUTO else int(recipe.n_bins)
    return choose_parts(n, n_bins, parts, keys, recipe.seed, n_unlabeled)


def _facts(rows: CleanRows, parts: Parts, keys: Any, others: CleanRows | None, n_given: int) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "n": len(rows.scores),
        "n_parts": list(parts.sizes),
        "positives": rows.positives,
        "n_clipped": rows.n_clipped,
        "keys": "unverified" if keys is None else "verified",
        "mlflow_calib_version": __version__,
    }
    if rows.scores.ndim == 2:
        facts["renormalised"] = False
    if rows.weights is not None:
        facts["effective_n"] = effective_n(rows.weights)
    if n_given > len(rows.scores):
        facts["n_of_weight_zero"] = n_given - len(rows.scores)
    if others is not None:
        facts["n_unlabeled"], facts["n_unlabeled_clipped"] = len(others.scores), others.n_clipped
    return facts
