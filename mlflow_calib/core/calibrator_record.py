"""The finished calibrator: what it predicts, and the JSON it lives in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from mlflow_calib import runtime
from mlflow_calib.core.calibrator_check import document_problems
from mlflow_calib.core.class_map import ClassMap
from mlflow_calib.core.labels import Label
from mlflow_calib.core.reductions import FREE_SUMS, TOP_LABEL, reduce_scores, score_columns
from mlflow_calib.core.scores import column_problems
from mlflow_calib.errors import InvalidInputError, raise_problems

Floats = runtime.Floats


class FlaggedOutputs(NamedTuple):
    """Outputs, and the rows where another class comes out above the predicted one, shape (n,)."""

    outputs: Floats
    overtaken: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Calibrator:
    """A finished calibrator: from base scores to calibrated probabilities with few distinct values.

    Made by :func:`mlflow_calib.fit_calibrator` or :meth:`from_json`. Equal calibrators have equal JSON; pickling goes
    through JSON, which keeps every float to the bit.

    Attributes
    ----------
    method, reduction, binning, scaling, loss, score_kind : str or None
        As asked of the fit; ``scaling`` by its name, where each map says which family was chosen.
    classes : tuple
        Classes in the order of the columns.
    positive_class : str, int, float, bool or None
        The class whose probability a binary calibrator gives.
    n_bins_requested : int
        Bins asked for, with "auto" the most that a map was given; ``n_bins_effective`` tells those there are.
    parts_requested, parts : str
        As asked ("auto", "disjoint", "shared", "array"), and as done ("disjoint", "shared").
    seed : int
        Seed of the permutation that made the thirds.
    maps : tuple of ClassMap
        One for binary and top-label, else one a class.
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
    def is_binned(self) -> bool:
        """Whether outputs have few distinct values; where not, their calibration error cannot be verified."""
        return self.method not in runtime.CONTINUOUS_METHODS

    @property
    def n_bins_effective(self) -> int | tuple[int, ...]:
        """Number of bins there are: of the one map, or of each class; 0 where outputs are continuous."""
        counts = tuple(len(one_map.values) for one_map in self.maps)
        return counts[0] if self.reduction in ("binary", "top-label") else counts

    def predict(self, scores: Any) -> Floats:
        """Calibrated probabilities of base scores.

        Parameters
        ----------
        scores : array_like
            Base scores of the kind the fit had. Binary: shape (n,), or (n, 2) in the order of ``classes``. Other
            reductions: shape (n, K).

        Returns
        -------
        ndarray of float64, the shape of ``scores``
            Marginal rows do not sum to one and are not renormalised. Top-label: the predicted class, the largest
            score of the row, has the calibrated confidence v, and the others keep their proportions to one another
            and sum to 1 - v (to equal parts of it where they are all 0). A low v may leave one of them above the
            predicted class: :meth:`predict_with_flags` tells where.

        Raises
        ------
        InvalidInputError
            For scores that are not finite, outside [0, 1] by more than 1e-6, or of another shape; with the rows.

        Examples
        --------
        >>> from mlflow_calib import fit_calibrator
        >>> calibrator = fit_calibrator([0.2] * 60 + [0.7] * 40, [0, 1] * 50, method="histogram-binning", n_bins=2)
        >>> calibrator.predict([0.1, 0.2, 0.9]).tolist()
        [0.5, 0.5, 0.5]
        """
        cleaned = self._clean(scores)
        if not self.is_binned:
            outputs = self._continuous(cleaned)
        elif self.score_kind == "logit" and self.reduction in TOP_LABEL:
            outputs = runtime.spread(expit(cleaned), *runtime.top_label_values(cleaned, self._steps))
        else:
            outputs = runtime.predict_reduced(cleaned, self._steps, self.reduction)
        if cleaned.ndim == np.ndim(scores):
            return outputs
        return np.column_stack([outputs if name == self.positive_class else 1 - outputs for name in self.classes])

    def predict_with_flags(self, scores: Any) -> FlaggedOutputs:
        """:meth:`predict` of scores (n, K), and the rows where another class comes out above the predicted one.

        The predicted label stays the base model's there; that such rows exist says that the largest output is not
        always the predicted class.

        Examples
        --------
        >>> import numpy as np
        >>> from mlflow_calib import fit_calibrator
        >>> scores = np.tile([0.1, 0.8, 0.05, 0.05], (100, 1))
        >>> labels = np.repeat([1, 0], [30, 70])
        >>> options = {"reduction": "top-label", "method": "histogram-binning", "n_bins": 1}
        >>> outputs, overtaken = fit_calibrator(scores, labels, **options).predict_with_flags(scores[:1])
        >>> outputs.round(3).tolist(), overtaken.tolist()
        ([[0.35, 0.3, 0.175, 0.175]], [True])
        """
        outputs = self.predict(scores)
        if outputs.ndim == 1:
            raise InvalidInputError("scores must have shape (n, K): of one score a row no other class can overtake it")
        predicted = np.asarray(scores, dtype=np.float64).argmax(axis=1)[:, None]
        top = np.take_along_axis(outputs, predicted, axis=1)
        return FlaggedOutputs(outputs, np.asarray((outputs > top).any(axis=1)))

    def reduce(self, scores: Any) -> tuple[Floats, npt.NDArray[np.intp] | None]:
        """Clean scores as the maps see them, (n,) or (n, K), and for top-label the predicted column, (n,)."""
        return reduce_scores(self._clean(scores), self.reduction)

    def bin_index(self, scores: Any) -> npt.NDArray[np.intp]:
        """Bin of each base score: shape (n,) for binary and top-label (of the confidence), else (n, K)."""
        if not self.is_binned:
            raise InvalidInputError(f"a calibrator of method {self.method!r} has continuous outputs and no bins")
        reduced, predicted = self.reduce(scores)
        columns = score_columns(reduced, predicted, self.reduction, len(self.classes))
        if reduced.ndim == 2:
            pairs = zip(columns, self.maps, strict=True)
            return np.column_stack([runtime.bin_index(column, one_map.edges) for (_, column), one_map in pairs])
        index = np.empty(len(reduced), dtype=np.intp)
        for (rows, column), one_map in zip(columns, self.maps, strict=True):
            index[rows] = runtime.bin_index(column, one_map.edges)
        return index

    @cached_property
    def _steps(self) -> runtime.StepMaps:
        return runtime.StepMaps([(one_map.edges, one_map.values) for one_map in self.maps])

    def _continuous(self, cleaned: Floats) -> Floats:
        if self.method == "identity":
            return np.asarray(expit(cleaned)) if self.score_kind == "logit" else cleaned.copy()
        reduced, predicted = reduce_scores(cleaned, self.reduction)
        outputs = np.empty_like(reduced)
        columns = score_columns(reduced, predicted, self.reduction, len(self.classes))
        for k, ((rows, column), one_map) in enumerate(zip(columns, self.maps, strict=True)):
            where = (rows, k) if reduced.ndim == 2 else rows
            outputs[where] = one_map.predict(column, self.score_kind)
        if predicted is None:
            return outputs
        return runtime.spread(expit(cleaned) if self.score_kind == "logit" else cleaned, predicted, outputs)

    def _clean(self, scores: Any) -> Floats:
        if hasattr(scores, "columns"):
            problems = column_problems(scores, self.classes)
            if problems:
                raise_problems(problems)
        try:
            if self.reduction != "binary":
                sums = self.reduction not in FREE_SUMS
                return runtime.clean_scores(scores, len(self.classes), self.score_kind, sums=sums)[0]
            array = scores if type(scores) is np.ndarray else runtime.as_numbers(scores)
            if array.ndim == 2 and self.score_kind == "probability":
                place = self.classes.index(self.positive_class)
                return np.ascontiguousarray(runtime.clean_scores(array, len(self.classes))[0][:, place])
            return runtime.clean_scores(array, None, self.score_kind)[0]
        except ValueError as error:
            raise InvalidInputError(str(error)) from error

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
        InvalidInputError
            For damaged text, with every problem of it, and for a schema this release does not know, with what to do.

        Examples
        --------
        >>> from mlflow_calib import fit_calibrator
        >>> calibrator = fit_calibrator([0.1, 0.4, 0.6, 0.9] * 25, [0, 1, 0, 1] * 25, n_bins=2)
        >>> Calibrator.from_json(calibrator.to_json()) == calibrator
        True
        """
        try:
            document = runtime.read_document(text)
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        problems = document_problems(document)
        try:
            maps = tuple(ClassMap.from_dict(one_map) for one_map in document["maps"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problems = problems or [str(error)]
        if problems:
            raise InvalidInputError(f"calibrator.json is damaged ({'; '.join(problems)}); fetch the artifact again")
        fields = {name: document[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "maps": maps, "classes": tuple(document["classes"])})

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
