"""The calibrator: how it is fitted, what it predicts, and the JSON it lives in.

The axes: method (scaling-binning, histogram-binning) x binning (uniform-mass, equal-width) x reduction (binary,
marginal) x parts (disjoint, shared). Predicting is a search and a look-up in ``mlflow_calib.runtime``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import __version__, runtime
from mlflow_calib.core.binning import check_n_bins
from mlflow_calib.core.class_map import CUTS, FLAGS, ClassMap, Recipe, fit_class_map
from mlflow_calib.core.labels import Label
from mlflow_calib.core.parts import Parts, choose_parts
from mlflow_calib.core.scores import CleanRows, check_choice, clean_rows
from mlflow_calib.errors import CalibrationWarning, InvalidInputError

Floats = runtime.Floats
METHODS = ("scaling-binning", "histogram-binning")


@dataclass(frozen=True, eq=False)
class Calibrator:
    """A finished calibrator: from base scores to calibrated probabilities with few distinct values.

    Made by :func:`fit_calibrator` or :meth:`from_json`. Equal calibrators have equal JSON; pickling goes through JSON,
    which keeps every float to the bit.

    Attributes
    ----------
    method, reduction, binning, scaling, loss, score_kind : str or None
        As asked of the fit.
    classes : tuple
        Classes in the order of the columns.
    positive_class : str, int, float, bool or None
        The class whose probability a binary calibrator gives.
    n_bins_requested : int
        Bins asked for; ``n_bins_effective`` tells those there are.
    parts_requested, parts : str
        As asked ("auto", "disjoint", "shared", "array"), and as done ("disjoint", "shared").
    seed : int
        Seed of the permutation that made the thirds.
    maps : tuple of ClassMap
        One, or one a class.
    facts : dict
        Facts of the fit: rows, rows of each part, positives a map, clipped scores, whether keys were given.
    base_model : dict or None
        The base model these scores came from, where the flavor recorded it.
    """

    method: str
    reduction: str
    binning: str
    scaling: str | None
    loss: str | None
    score_kind: str
    classes: tuple[Label, ...]
    positive_class: Label | None
    n_bins_requested: int
    parts_requested: str
    parts: str
    seed: int
    maps: tuple[ClassMap, ...]
    facts: dict[str, Any]
    base_model: dict[str, Any] | None = None

    @property
    def n_bins_effective(self) -> int | tuple[int, ...]:
        """Number of bins there are: of the one map, or of each class."""
        counts = tuple(len(one_map.values) for one_map in self.maps)
        return counts[0] if self.reduction == "binary" else counts

    def predict(self, scores: Any) -> Floats:
        """Calibrated probabilities of base scores.

        Parameters
        ----------
        scores : array_like
            Base scores of the kind the fit had. Binary: shape (n,), or (n, 2) in the order of ``classes``. Marginal:
            shape (n, K).

        Returns
        -------
        ndarray of float64, the shape of ``scores``
            Marginal rows do not sum to one and are not renormalised.

        Raises
        ------
        ValueError
            For scores that are not finite, outside [0, 1] by more than 1e-6, or of another shape; with the rows.
        """
        cleaned = self._clean(scores)
        outputs = runtime.predict_maps(cleaned, [(one_map.edges, one_map.values) for one_map in self.maps])
        if cleaned.ndim == np.ndim(scores):
            return outputs
        return np.column_stack([outputs if name == self.positive_class else 1 - outputs for name in self.classes])

    def bin_index(self, scores: Any) -> npt.NDArray[np.intp]:
        """Bin of each base score: shape (n,) for binary, (n, K) for marginal."""
        cleaned = self._clean(scores)
        if self.reduction == "binary":
            return runtime.bin_index(cleaned, self.maps[0].edges)
        return np.column_stack([runtime.bin_index(cleaned[:, k], m.edges) for k, m in enumerate(self.maps)])

    def _clean(self, scores: Any) -> Floats:
        if self.reduction == "marginal":
            return runtime.clean_scores(scores, len(self.classes), self.score_kind)[0]
        if np.ndim(scores) == 2 and self.score_kind == "probability":
            column = self.classes.index(self.positive_class)
            return np.ascontiguousarray(runtime.clean_scores(scores, len(self.classes))[0][:, column])
        return runtime.clean_scores(scores, None, self.score_kind)[0]

    def to_dict(self) -> dict[str, Any]:
        """The document of calibrator.json, schema 1: plain Python values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        maps = [one_map.to_dict() for one_map in self.maps]
        return {"schema_version": runtime.SCHEMA_VERSION, **plain, "classes": list(self.classes), "maps": maps}

    def to_json(self) -> str:
        """JSON text from which :meth:`from_json` makes the same calibrator, to the bit."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Calibrator:
        """Read a calibrator back.

        Raises
        ------
        ValueError
            For damaged text and for a schema this release does not know, with what to do.

        Examples
        --------
        >>> calibrator = fit_calibrator([0.1, 0.4, 0.6, 0.9] * 25, [0, 1, 0, 1] * 25, n_bins=2)
        >>> Calibrator.from_json(calibrator.to_json()) == calibrator
        True
        """
        document = runtime.read_calibrator(text)
        fields: dict[str, Any] = {name: document.get(name) for name in cls.__dataclass_fields__}
        missing = sorted(cls.__dataclass_fields__.keys() - document.keys())
        try:
            maps = tuple(ClassMap.from_dict(one_map) for one_map in document["maps"])
            fields.update(maps=maps, classes=tuple(document["classes"]))
        except (KeyError, TypeError, ValueError) as error:
            missing.append(str(error))
        if missing:
            raise InvalidInputError(f"calibrator.json is damaged ({', '.join(missing)}); fetch the artifact again")
        return cls(**fields)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Calibrator:
        """Read back what :meth:`to_dict` gave; the same errors as :meth:`from_json`."""
        try:
            text = json.dumps(document, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"a calibrator holds plain JSON values only: {error}") from error
        return cls.from_json(text)

    def with_facts(self, **facts: Any) -> Calibrator:
        """Make the same calibrator with more facts of its fit."""
        return self.from_dict({**self.to_dict(), "facts": {**self.facts, **facts}})

    def with_base_model(self, base_model: Mapping[str, Any] | None) -> Calibrator:
        """Make the same calibrator with a record of the base model it belongs to."""
        return self.from_dict({**self.to_dict(), "base_model": None if base_model is None else dict(base_model)})

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Calibrator) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.method, self.classes, *(one_map.values.tobytes() for one_map in self.maps)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)


def fit_calibrator(
    scores: Any,
    labels: Any,
    *,
    method: str = "scaling-binning",
    reduction: str = "binary",
    n_bins: int = 10,
    binning: str = "uniform-mass",
    scaling: str | None = None,
    parts: Any = "auto",
    classes: Sequence[Any] | None = None,
    positive_class: Any = None,
    keys: Any = None,
    score_kind: str = "probability",
    seed: int = 0,
) -> Calibrator:
    r"""Fit a calibrator whose calibration error can be measured, because it has few distinct outputs.

    Parameters
    ----------
    scores : array_like, shape (n,), (n, 2) or (n, K)
        Scores of the base model on the recalibration data T. Binary: probabilities of the positive class, or of both
        classes. Marginal: a column a class. Any float type; computed in float64. With ``score_kind="logit"`` log odds
        of the class against the rest, any finite numbers, shape (n,) or (n, K).
    labels : array_like, shape (n,)
        Outcomes in the model's own words.
    method : {"scaling-binning", "histogram-binning"}
        See the notes.
    reduction : {"binary", "marginal"}
        One probability, or one calibrator a class. Marginal rows do not sum to one and are not renormalised: that
        would turn a few outputs into thousands, whose calibration error can no longer be measured.
    n_bins : int
        Bins asked for, 1 to 1000. Where scores tie there are fewer; both numbers are kept and a warning is given.
    binning : {"uniform-mass", "equal-width"}
    scaling : {None, "platt"}
        Scaling function of step 1; None is "platt" for scaling-binning.
    parts : {"auto", "disjoint", "shared"} or array_like of 1, 2, 3, shape (n,)
        Rows of the three steps. "disjoint" thirds are the paper's algorithm and what its theorem needs; "shared" uses
        every row in every step, as the paper's experiments do, and is the better one for few rows. "auto" takes
        disjoint where T3 then holds at least 100 rows a bin.
    classes : sequence, optional
        Classes in the order of the columns, from the model, never from the labels seen. By default 0 .. K-1.
    positive_class : optional
        Must be stated unless labels are 0 and 1, or False and True.
    keys : array_like, shape (n,), optional
        A distinct key a row; disjoint thirds then follow the sorted keys, whatever the order of rows.
    score_kind : {"probability", "logit"}
    seed : int
        Seed of the permutation behind disjoint thirds without keys.

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
        With every problem of the rows at once, as :func:`mlflow_calib.core.scores.clean_rows`; for doubled keys; for
        binary data where the rows that teach hold one class only.

    Notes
    -----
    Scaling-binning: step 1 fits g on T1 (:func:`mlflow_calib.core.scaling.fit_platt`); step 2 makes bins of g(z) on
    T2; step 3 outputs, for bin I_j, the mean of g and never of the labels,

    .. math:: \hat g(I_j) = \frac{1}{|T_3 \cap I_j|} \sum_{z \in T_3 \cap I_j} g(z).

    Histogram binning makes bins of z on T2 and outputs the mean label of T3 in each; it has no step 1 and leaves T1
    unused where parts are disjoint. A bin that T3 leaves empty takes the same mean over T2, which is never empty.
    As g is monotone, edges are kept in the space of z: prediction never needs g. A class of a marginal calibrator
    without a row of it (or of any other) in the data that teaches has nothing to fit, and takes the mean base
    score of each bin.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4.1 (algorithm), 4.3 (shared
    parts), section 2 (marginal calibration error).

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
    """
    check_choice("method", method, METHODS)
    check_choice("binning", binning, tuple(CUTS))
    check_choice("scaling", scaling, (None, "platt") if method == "scaling-binning" else (None,))
    check_n_bins(n_bins)
    options = {"reduction": reduction, "classes": classes, "positive_class": positive_class, "score_kind": score_kind}
    rows = clean_rows(scores, labels, **options)
    chosen = choose_parts(len(rows.scores), n_bins, parts, keys, seed)
    recipe = Recipe(method == "scaling-binning", n_bins, binning, score_kind)
    if reduction == "binary":
        _check_both_classes(rows, chosen, recipe)
    names = (rows.positive_class,) if rows.positive_class is not None else rows.classes
    columns = zip(names, rows.columns(), strict=True)
    maps = tuple(fit_class_map(name, z, y, chosen, recipe) for name, (z, y) in columns)
    _warn(maps, n_bins)
    return Calibrator(
        method=method,
        reduction=reduction,
        binning=binning,
        scaling="platt" if recipe.scaled else None,
        loss="log" if recipe.scaled else None,
        score_kind=score_kind,
        classes=rows.classes,
        positive_class=rows.positive_class,
        n_bins_requested=int(n_bins),
        parts_requested=parts if isinstance(parts, str) else "array",
        parts=chosen.name,
        seed=int(seed),
        maps=maps,
        facts=_facts(rows, chosen, keys),
    )


def _check_both_classes(rows: CleanRows, parts: Parts, recipe: Recipe) -> None:
    outcomes = rows.outcomes[recipe.teacher(parts)]
    if 0 < outcomes.sum() < len(outcomes):
        return
    others = [name for name in rows.classes if name != rows.positive_class]
    absent = f"the positive class {rows.positive_class!r}" if not outcomes.any() else f"another class {others or ''}"
    part = "T" if parts.name == "shared" else "T1" if recipe.scaled else "T3"
    remedy = "" if parts.name == "shared" else ', or use parts="shared"'
    raise InvalidInputError(
        f"{part} must hold rows of both classes to learn from; its {len(outcomes)} rows hold none of {absent}; "
        f"add such rows{remedy}"
    )


def _warn(maps: tuple[ClassMap, ...], n_bins: int) -> None:
    lines = []
    for flag, meaning in FLAGS.items():
        names = [one_map.label for one_map in maps if flag in one_map.flags]
        if names:
            lines.append(f"{flag}, class {', '.join(map(repr, names[:5]))}{' and more' * (len(names) > 5)}: {meaning}")
    if lines:
        bins = [len(one_map.values) for one_map in maps]
        lines.append(f"bins requested {n_bins}, effective {min(bins)} to {max(bins)}")
        warnings.warn("; ".join(lines), CalibrationWarning, stacklevel=3)


def _facts(rows: CleanRows, parts: Parts, keys: Any) -> dict[str, Any]:
    facts = {
        "n": len(rows.scores),
        "n_parts": list(parts.sizes),
        "positives": [int(total) for total in np.atleast_1d(rows.outcomes.sum(axis=0))],
        "n_clipped": rows.n_clipped,
        "keys": "unverified" if keys is None else "verified",
        "mlflow_calib_version": __version__,
    }
    return facts if rows.outcomes.ndim == 1 else {**facts, "renormalised": False}
