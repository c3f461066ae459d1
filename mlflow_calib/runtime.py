"""All that a calibrated model needs to predict: a search and a look-up a class.

This one file is copied into every model artifact under a name that holds its hash, so that the model serves where
mlflow-calib is not installed. It therefore imports numpy and the standard library alone, MLflow only inside the
loader, and never the package it belongs to. It raises plain ``ValueError``.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
SCHEMA_VERSION = 1
#: Schema version: what makes a document of the next version of one of this. Version 1 is the first there is.
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
#: Scores this far outside [0, 1] are rounding, and are clipped and counted; farther ones are refused.
ROUNDING = 1e-6
#: Rows of class probabilities sum to one within this (three times .3333 in float32 does, .2 and .3 do not).
ROW_SUM_TOLERANCE = 1e-3
#: Reductions that calibrate the confidence in the predicted class, and those that leave a map for every class.
TOP_LABEL = ("top-label", "top-label-per-class")
ONE_A_CLASS = ("marginal", "top-label-per-class", "multi-label")
REDUCTIONS = ("binary", "marginal", "top-label", "top-label-per-class", "multi-label")
#: From this many scores on bins are found by a table of N_CELLS cells, whose scores agree in all but CELL_BITS bits.
MANY_SCORES = 50_000
CELL_BITS = 44
N_CELLS = (int(np.float64(1.0).view(np.int64)) >> CELL_BITS) + 1
BLOCK = 16_384
#: Up to this many scores the bins of several columns are found by one search.
FEW_SCORES = 200
#: Methods with as many outputs as scores.
CONTINUOUS_METHODS = ("scaling", "identity")


def bin_index(scores: Any, edges: Any) -> npt.NDArray[np.intp]:
    """Bin of each score; a bin is (lower, upper], the first one closed. Shapes (n,), (B - 1,) -> (n,)."""
    if scores.size >= MANY_SCORES and edges.size and _are_probabilities(scores):
        table, index = EdgeTable(edges), np.empty(scores.shape, dtype=np.intp)
        for start in range(0, len(scores), BLOCK):
            index[start : start + BLOCK] = table.index(scores[start : start + BLOCK] + 0.0)
        return index
    return np.asarray(edges.searchsorted(scores, side="left"))


def _are_probabilities(scores: Floats) -> bool:
    return bool(scores.min() >= 0 and scores.max() <= 1)


class EdgeTable:
    """Bins of many scores of [0, 1] by a table in place of a search, equal to the search on every score.

    Floats that are not negative stand in the order of their bits. The leading bits of a score name its cell, and the
    table says how many edges lie below the cell. Where one edge lies inside it a comparison does the rest, where
    several do a search.
    """

    def __init__(self, edges: Floats) -> None:
        self.edges = edges
        cells = np.clip((edges + 0.0).view(np.int64) >> CELL_BITS, -1, N_CELLS)
        numbers = np.arange(len(edges) + 1, dtype=np.uint16 if len(edges) < 2**16 else np.int64)
        self.below = np.repeat(numbers, np.diff(cells, prepend=-1, append=N_CELLS))
        self.upper = np.append(edges, np.inf)
        doubled = cells[1:][cells[1:] == cells[:-1]]
        self.crowded = np.isin(np.arange(N_CELLS), doubled) if doubled.size else None

    def index(self, block: Floats) -> npt.NDArray[np.intp]:
        """Bin of each score, shape (m,); scores are contiguous, and none is -0.0. Up to BLOCK of them stay in cache."""
        cells = block.view(np.int64) >> CELL_BITS
        found: npt.NDArray[np.intp] = self.below[cells].astype(np.intp)
        several = () if self.crowded is None else np.flatnonzero(self.crowded[cells])
        found += block > self.upper[found]
        if len(several):
            found[several] = self.edges.searchsorted(block[several], side="left")
        return found


def look_up(scores: Floats, edges: Floats, values: Floats) -> Floats:
    """Value of the bin each score falls in. Shapes (n,), (B - 1,), (B,) -> (n,)."""
    return values[bin_index(scores, edges)]


class StepMaps:
    """Maps of (edges, values), one or one a column, made ready for looking up.

    For single rows they also stand end to end: a map's place and an edge make one complex number, and those sort by
    place first, so that one search finds the bins of a whole row.
    """

    def __init__(self, maps: Sequence[tuple[Floats, Floats]]) -> None:
        self.maps = tuple(maps)
        self.places = np.arange(len(self.maps))
        self.keys = np.concatenate([place + 1j * edges for place, (edges, _) in enumerate(self.maps)])
        self.values = np.concatenate([values for _, values in self.maps])

    def predict(self, scores: Floats) -> Floats:
        """Calibrated scores, of the shape of ``scores``: (n,) by the first map, (n, K) by K maps."""
        if scores.ndim == 1:
            return look_up(scores, *self.maps[0])
        if scores.size <= FEW_SCORES:
            return np.asarray(self.values[bin_index(self.places + 1j * scores, self.keys) + self.places])
        if len(scores) < MANY_SCORES or not _are_probabilities(scores):
            return np.column_stack([look_up(scores[:, k], *one_map) for k, one_map in enumerate(self.maps)])
        return self._predict_blocks(scores)

    def _predict_blocks(self, scores: Floats) -> Floats:
        """The same for many rows of probabilities: blocks of columns that stay in the processor's cache."""
        tables = [EdgeTable(edges) for edges, _ in self.maps]
        outputs = np.empty(scores.shape)
        for start in range(0, len(scores), BLOCK):
            columns = np.add(scores[start : start + BLOCK].T, 0.0, order="C")
            for k, ((_, values), table) in enumerate(zip(self.maps, tables, strict=True)):
                columns[k] = values[table.index(columns[k])]
            outputs[start : start + BLOCK] = columns.T
        return outputs


def predict_maps(scores: Floats, maps: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Calibrated scores, of the shape of ``scores``: (n,) with one map, (n, K) with K maps of (edges, values)."""
    return StepMaps(maps).predict(scores)


def predict_reduced(scores: Floats, steps: StepMaps, reduction: str) -> Floats:
    """Calibrated probabilities of base probabilities, of their shape, by the maps of a reduction."""
    if reduction not in TOP_LABEL:
        return steps.predict(scores)
    return spread(scores, *top_label_values(scores, steps))


def top_label_values(scores: Floats, steps: StepMaps) -> tuple[npt.NDArray[np.intp], Floats]:
    """Column of the largest score of each row (n, K), of equal ones the first, and its value by the map, shapes (n,).

    The map is the only one, or that of the column.
    """
    predicted = scores.argmax(axis=1)
    confidence = scores[np.arange(len(scores)), predicted]
    if len(steps.maps) == 1:
        return predicted, steps.predict(confidence)
    values = np.empty_like(confidence)
    for k in set(predicted.tolist()):
        rows = predicted == k
        values[rows] = look_up(confidence[rows], *steps.maps[k])
    return predicted, values


def spread(probabilities: Floats, predicted: npt.NDArray[np.intp], values: Floats) -> Floats:
    """Rows (n, K) in which the predicted class has its value v, and the others, in their proportions, sum to 1 - v.

    Where the others are all 0 they get equal parts of it: (.10, .80, .05, .05) and .6 give (.20, .60, .10, .10);
    (0, 1, 0) and .6 give (.2, .6, .2).
    """
    rows = np.arange(len(probabilities))
    outputs = probabilities.copy()
    outputs[rows, predicted] = 0.0
    totals = np.add.reduce(outputs, axis=1)
    if np.count_nonzero(totals) < len(totals):
        alone = totals == 0
        outputs[alone], totals[alone] = 1.0, probabilities.shape[1] - 1.0
    outputs *= ((1.0 - values) / totals)[:, None]
    outputs[rows, predicted] = values
    return np.asarray(outputs)


def clean_scores(
    scores: Any, n_classes: int | None = None, score_kind: str = "probability", *, sums: bool = True
) -> tuple[Floats, int]:
    """Scores as float64, with the count of those clipped to [0, 1] for rounding.

    ``n_classes`` is None for one score a row, shape (n,), else the number of columns, shape (n, K), whose rows sum to
    one unless ``sums`` is False. Logits are any finite numbers. Raises ValueError that shows the first bad rows and
    their count.
    """
    array = as_numbers(scores)
    if array.ndim != (1 if n_classes is None else 2) or (n_classes is not None and array.shape[1] != n_classes):
        expected = "(n,)" if n_classes is None else f"(n, {n_classes})"
        raise ValueError(f"scores must have shape {expected}, got {array.shape}")
    n_clipped = 0
    if array.size <= FEW_SCORES and n_classes is not None and score_kind != "logit" and sums and _all_good(array):
        return array, n_clipped
    # NaN is neither, so that two passes tell good scores from all bad ones
    if score_kind == "logit" or not (array.size and array.min() >= 0 and array.max() <= 1):
        array, n_clipped = _checked(array, score_kind)
    if n_classes is not None and sums and score_kind != "logit":
        off = np.abs(array @ np.ones(array.shape[1]) - 1) > ROW_SUM_TOLERANCE
        if off.any():
            raise ValueError(
                _problem(array, off, f"each row of class probabilities must sum to 1 within {ROW_SUM_TOLERANCE}")
            )
    return array, n_clipped


def as_numbers(values: Any, name: str = "scores") -> Floats:
    """Values as float64, missing ones as NaN; text, dates and complex numbers are none, whatever they convert to.

    Raises ValueError where they are no numbers, or have no one shape.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, np.asarray(values))
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of one shape: {error}") from error
    if array.dtype == np.float64:
        return array
    if array.dtype == object:
        return _as_floats(array, name)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, got {array.dtype}: {array.ravel()[:3].tolist()}")
    return array.astype(np.float64)


def _as_floats(array: npt.NDArray[Any], name: str) -> Floats:
    """Objects as float64; None and pandas.NA are NaN."""
    values = [np.nan if value is None or type(value).__name__ == "NAType" else value for value in array.flat]
    wrong = next((value for value in values if isinstance(value, (str, bytes))), None)
    if wrong is not None:
        raise ValueError(f"{name} must be numbers, got text: {wrong!r}")
    try:
        return np.array(values, dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be numbers: {error}") from error


def _all_good(array: Floats) -> bool:
    """Whether few rows hold all that is asked of probabilities; Python is faster here than numpy."""
    rows = array.tolist()
    return all(min(row) >= 0 and max(row) <= 1 and abs(sum(row) - 1) < ROW_SUM_TOLERANCE / 2 for row in rows)


def _checked(array: Floats, score_kind: str) -> tuple[Floats, int]:
    finite = np.isfinite(array)
    problems = [_problem(array, ~finite, "scores must be finite numbers; drop or repair the rows")]
    if score_kind != "logit":
        outside = finite & ((array < -ROUNDING) | (array > 1 + ROUNDING))
        rule = 'scores must lie in [0, 1]; if these are logits, say so: score_kind="logit" (of a base model, score=)'
        problems.append(_problem(array, outside, rule))
    if any(problems):
        raise ValueError("; and ".join(filter(None, problems)))
    if score_kind == "logit":
        return array, 0
    clipped = np.clip(array, 0.0, 1.0)
    return clipped, int(np.count_nonzero(clipped != array))


def _problem(array: Floats, bad: npt.NDArray[np.bool_], rule: str) -> str:
    """What is wrong, with the first bad rows and their count; empty where nothing is."""
    rows = np.flatnonzero(bad if bad.ndim == 1 else bad.any(axis=1))
    shown = "; ".join(f"row {row}: {array[row].tolist()}" for row in rows[:3])
    return f"{rule}. {rows.size} of {len(array)} rows do not hold it: {shown}" if rows.size else ""


def read_calibrator(text: str) -> dict[str, Any]:
    """The document of a ``calibrator.json`` that a model may carry, checked for what prediction needs.

    Raises ValueError for a damaged file, for a schema this release does not know, and for a calibrator with continuous
    outputs, which is not packaged.
    """
    document = read_document(text)
    if document.get("method") in CONTINUOUS_METHODS:
        raise ValueError(
            f"a calibrator of method {document['method']!r} has continuous outputs, whose calibration error cannot be "
            'verified, so it is not packaged with a model; fit one with method="scaling-binning"'
        )
    return document


def read_document(text: str) -> dict[str, Any]:
    """The document of any calibrator, with the same checks, of continuous outputs too."""
    try:
        document = json.loads(text, object_pairs_hook=_distinct_keys)
        document["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            f"calibrator.json is damaged ({error}); fetch the artifact again or fit a new calibrator"
        ) from error
    document = migrate(document)
    _check_maps(document)
    return document


def migrate(document: dict[str, Any]) -> dict[str, Any]:
    """The document of a ``calibrator.json`` in the schema of this release.

    An older document goes through ``MIGRATIONS`` step by step, each from one version to the next; the one given stays
    as it is. Raises ValueError for a version that no release has written, a later release wrote, or no step leads
    away from.

    >>> migrate({"schema_version": 1, "reduction": "binary"})
    {'schema_version': 1, 'reduction': 'binary'}
    """
    found, version = dict(document), document["schema_version"]
    while type(version) is int and version in MIGRATIONS and version < SCHEMA_VERSION:
        found, version = {**MIGRATIONS[version](found), "schema_version": version + 1}, version + 1
    if type(version) is not int or version != SCHEMA_VERSION:  # 1.0 and true equal 1
        raise ValueError(
            f"calibrator.json has schema_version {version!r}, and this release reads {SCHEMA_VERSION}; "
            "install the mlflow-calib release that wrote it, or fit a new calibrator"
        )
    return found


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} stands twice")
        found[key] = value
    return found


def _check_maps(document: dict[str, Any]) -> None:
    maps, reduction, classes = document.get("maps"), document.get("reduction"), document.get("classes")
    if not isinstance(classes, list):
        raise ValueError("calibrator.json is damaged: classes must be a list; fetch the artifact again")  # noqa: TRY004
    if reduction == "binary" and document.get("positive_class") not in classes:
        raise ValueError("calibrator.json is damaged: positive_class must be one of classes; fetch the artifact again")
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"calibrator.json has reduction {reduction!r}, and this release knows {', '.join(REDUCTIONS)}; "
            "install the mlflow-calib release that wrote it, or fetch the artifact again"
        )
    expected = len(classes) if reduction in ONE_A_CLASS else 1
    if not isinstance(maps, list) or len(maps) != expected:
        raise ValueError(f"calibrator.json is damaged: it must hold {expected} maps; fetch the artifact again")
    if not isinstance(document.get("base_model") or {}, dict):
        raise ValueError("calibrator.json is damaged: base_model must be a table; fetch the artifact again")  # noqa: TRY004
    if problem := _class_problem(document) or next(filter(None, map(_counts_problem, maps)), None):
        raise ValueError(f"calibrator.json is damaged: {problem}; fetch the artifact again")
    if document.get("method") not in CONTINUOUS_METHODS:
        _check_arrays(maps, str(document.get("method")).startswith("scaling-binning"))


def _check_arrays(maps: list[Any], rising: bool) -> None:
    """Edges and values of every map; values that rise where ``rising``, but for sums in another order."""
    for position, one_map in enumerate(maps):
        try:
            edges, values = map_arrays(one_map)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"calibrator.json is damaged: map {position} holds no edges and values ({error}); "
                "fetch the artifact again"
            ) from error
        finite = bool(np.isfinite(edges).all() and np.isfinite(values).all())
        ordered = bool((np.diff(edges) > 0).all() and (values >= 0).all() and (values <= 1).all())
        if not (finite and ordered and len(values) == len(edges) + 1):
            raise ValueError(
                f"calibrator.json is damaged: map {position} must hold B - 1 increasing edges "
                "and B values in [0, 1]; fetch the artifact again"
            )
        if rising and (np.diff(values) < -1e-9).any():
            raise ValueError(
                f"calibrator.json is damaged: values of map {position} must not fall from bin to bin; "
                "fetch the artifact again"
            )


def _class_problem(document: dict[str, Any]) -> str | None:
    """Where classes, positive class and the classes that the maps name contradict each other; None where none does."""
    classes, positive, binary = document["classes"], document.get("positive_class"), document["reduction"] == "binary"
    if any(isinstance(label, (list, dict)) or label is None for label in classes) or len({*classes}) != len(classes):
        return f"classes must be distinct texts, whole numbers or booleans, got {classes}"
    if binary and len(classes) != 2:
        return f"a binary calibrator must have two classes, got {classes}"
    if not binary and positive is not None:
        return f"positive_class must be null where the reduction is not binary, got {positive!r}"
    names = classes if document["reduction"] in ONE_A_CLASS else [positive]
    for position, (one_map, name) in enumerate(zip(document["maps"], names, strict=True)):
        if isinstance(one_map, dict) and one_map.get("class", name) != name:
            return f"map {position} must be that of class {name!r}, and is that of {one_map['class']!r}"
    return None


def _counts_problem(one_map: Any) -> str | None:
    """Where the counts of a map do not fit its values; None where they do, or there are none."""
    if not isinstance(one_map, dict) or "counts" not in one_map or not isinstance(one_map.get("values"), list):
        return None
    counts, n_bins = one_map["counts"], len(one_map["values"])
    whole = isinstance(counts, list) and all(type(count) is int and count >= 0 for count in counts)
    return None if whole and len(counts) == n_bins else f"counts must be {n_bins} whole numbers of at least 0"


def map_arrays(one_map: dict[str, Any]) -> tuple[Floats, Floats]:
    """Edges (B - 1,) and values (B,) of one map of the document.

    Raises ValueError where they are no lists of numbers.
    """
    arrays = []
    for name in ("edges", "values"):
        numbers = one_map[name]
        if not isinstance(numbers, list) or not all(type(number) in (int, float) for number in numbers):
            raise ValueError(f"{name} must be a list of numbers")
        arrays.append(np.array(numbers, dtype=np.float64) + 0.0)  # no edge is -0.0
    return arrays[0], arrays[1]


#: What ``params={"output": ...}`` may ask for.
OUTPUTS = ("probability", "label", "base", "both")


#: How the base model is asked: by a method of its raw model, by "run" of an ONNX session, or as a python_function.
CALLS = ("predict_proba", "predict_log_proba", "decision_function", "predict_probability", "run", "predict")
#: What makes probabilities of its output: "logit" is the sigmoid of one column and the softmax of several, "sigmoid"
#: that of each column apart, "log" the exponential.
LINKS = (None, "logit", "sigmoid", "log")


class BaseScores:
    """The nested base model as a source of probabilities.

    ``model`` is a loaded ``PyFuncModel``; ``source`` says how its probabilities are reached, and leaves nothing to be
    found out here: ``call`` is one of CALLS, ``classes`` are the columns in the base model's own order, and where they
    are needed ``link`` is one of LINKS, ``column`` the part of the output that holds the scores (a name or a position)
    and ``column_class`` the class of which a single column speaks.
    """

    def __init__(self, model: Any, source: dict[str, Any]) -> None:
        self.model = model
        self.call = source["call"]
        self.classes = list(source["classes"])
        self.link, self.column = source.get("link"), source.get("column")
        self.column_class = source.get("column_class")
        if self.call not in CALLS or self.link not in LINKS:
            raise ValueError(
                f"calibrator.json says that the base model is asked by {self.call!r} with the link {self.link!r}, and "
                "this release does not know these; install the mlflow-calib release that wrote it"
            )

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Floats:
        """Probabilities as the model gives them: (n, K) in the order of ``classes``, or P(positive) alone, (n,)."""
        return self.probabilities(self.values(self.output(data, params or {})))

    def probabilities(self, values: Floats) -> Floats:
        """Probabilities of what the model gave, of the shape `predict` returns."""
        scores = through_link(values, self.link)
        if scores.ndim == 2 or self.column_class not in self.classes:
            return scores
        if self.column_class == self.classes[0]:
            return np.column_stack([scores, 1.0 - scores])
        return np.column_stack([1.0 - scores, scores])

    def values(self, output: Any) -> Floats:
        """Numbers of the model's output, before the link: log odds, log probabilities or probabilities."""
        if self.call == "predict" and self.column is not None:
            output = part_of(output, self.column)
        return probability_array(output, self.classes)

    def clean(self, scores: Floats, *, sums: bool = True) -> Floats:
        """The same, checked and clipped for rounding."""
        return clean_scores(scores, None if scores.ndim == 1 else len(self.classes), sums=sums)[0]

    def output(self, data: Any, params: dict[str, Any]) -> Any:
        """What the model itself returns."""
        if self.call == "predict":
            return self.model.predict(data, params=params) if params else self.model.predict(data)
        raw = self.model.get_raw_model()
        if self.call == "predict_probability":
            return raw.predict(data, prediction_type="Probability")
        if self.call == "run":
            return raw.run([self.column], onnx_feed(raw.get_inputs(), data))[0]
        return getattr(raw, self.call)(data)


#: Everything that a score source may say; a further field may change what the others mean.
_SOURCE_FIELDS = {"score", "call", "classes", "link", "column", "column_class", "objective"}
_RAW_CALLS = {"predict_probability": "predict", **{one: one for one in (*CALLS[:3], "run")}}
#: Links of each call; of the others any.
_LINKS_OF = {
    "predict_proba": (None,), "predict_probability": (None,), "predict_log_proba": ("log",),
    "decision_function": ("logit", "sigmoid"),
}  # fmt: skip


def source_problem(source: dict[str, Any], classes: Sequence[Any]) -> str | None:
    """What of a score source contradicts itself or the calibrator's classes; None where nothing does."""
    call: Any = source.get("call")
    own: Any = source.get("classes")
    column, one = source.get("column"), source.get("column_class")
    if unknown := sorted(map(str, set(source) - _SOURCE_FIELDS)):
        return f"score_source has the fields {unknown}, which this release does not know"
    plain = isinstance(own, list) and not any(isinstance(label, (list, dict)) for label in own)
    if not plain or len(own) != len(classes) or {*own} != {*classes}:
        return f"score_source.classes must be the calibrator's {list(classes)} in some order, got {own!r}"
    if column is not None and not (type(column) in (str, int) and call in ("predict", "run")):
        return f"score_source.column must name a part of what predict or run returns, got {column!r} for {call!r}"
    if call == "run" and column is None:
        return "score_source.column must name the output that is asked for"
    if one is not None and not (len(own) == 2 and one in own):
        return f"score_source.column_class must be one of two classes, got {one!r} for {own}"
    declared = source.get("score")
    logit = declared == "logit" or (isinstance(declared, dict) and "logit" in declared)
    if source.get("link") not in _LINKS_OF.get(call, LINKS) or (logit and source.get("link") is None):
        return f"score_source.link does not fit the call {call!r} and the score {declared!r}: {source.get('link')!r}"
    return None


def base_problem(model: Any, source: dict[str, Any]) -> str | None:
    """Why the base model that is there cannot be asked as the source says; None where it can."""
    if source["call"] not in _RAW_CALLS:
        return None
    try:
        raw = model.get_raw_model()
    except NotImplementedError:
        raw = None
    if not hasattr(raw, _RAW_CALLS[source["call"]]):
        return f"it is a {type(raw).__name__}, which has no {_RAW_CALLS[source['call']]}"
    own = getattr(raw, "classes_", None)
    if source["call"] not in CALLS[:3] or own is None or not len(own):
        return None
    found = [label.item() if hasattr(label, "item") else label for label in own]
    return None if found == source["classes"] else f"its classes are {found}, and were {source['classes']}"


def through_link(values: Floats, link: str | None) -> Floats:
    """Probabilities of log odds or log probabilities, of the same shape; log odds that are not finite give NaN."""
    if link is None:
        return values
    if link == "log":
        return np.asarray(np.exp(values))
    values = np.where(np.isfinite(values), values, np.nan)
    if link == "sigmoid" or values.ndim == 1:
        small = np.exp(-np.abs(values))
        return np.asarray(np.where(values >= 0, 1.0, small) / (1.0 + small))
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def part_of(output: Any, column: str | int) -> Any:
    """The column of a frame or array, or the entry of a dict, that holds the scores; by name, or by position."""
    keys = list(getattr(output, "columns", output)) if isinstance(output, dict) or hasattr(output, "columns") else None
    if keys is None:
        array = np.asarray(output)
        if isinstance(column, str) or array.ndim != 2 or not 0 <= column < array.shape[1]:
            raise ValueError(f"the base model's output has no column {column!r}; it is an array of shape {array.shape}")
        return array[:, column]
    places = [place for place, key in enumerate(keys) if column in (str(key), place)]
    if not places:
        raise ValueError(f"the base model's output has no column {column!r}; it has {[str(key) for key in keys]}")
    return output[keys[places[0]]] if isinstance(output, dict) else output.iloc[:, places[0]].to_numpy()


#: Numbers that an ONNX model takes and a frame holds in another precision.
_ONNX_FLOATS = {"tensor(float)": np.float32, "tensor(double)": np.float64}


def onnx_feed(inputs: Sequence[Any], data: Any) -> dict[str, npt.NDArray[Any]]:
    """Arrays by the name of an ONNX session's inputs, of a frame, an array or a dict.

    A model of one input takes the whole frame, one of several takes each column by its name. Floats come in the
    precision the input asks for.
    """
    whole = len(inputs) == 1 and not isinstance(data, dict)
    feed = {}
    for one in inputs:
        array = np.asarray(data if whole else data[one.name])
        array = array[:, None] if array.ndim == 1 and len(one.shape) == 2 else array
        feed[one.name] = array.astype(_ONNX_FLOATS[one.type]) if one.type in _ONNX_FLOATS else array
    return feed


def probability_array(output: Any, classes: Sequence[Any]) -> Floats:
    """What a model returned as numbers, of shape (n,) or (n, K); labels are refused."""
    if isinstance(output, dict):
        output = _only_entry(output)
    if hasattr(output, "columns"):
        output = _class_columns(output, classes)
    output = _unpacked(output, classes)
    array = np.asarray(output)
    if array.dtype.kind in "biuUS" or (array.dtype == object and any(isinstance(x, str) for x in array.flat)):
        raise ValueError(
            f"the base model must return probabilities, and it returned labels or counts ({array.dtype}): "
            f"{array.ravel()[:3].tolist()}; log a model whose predict returns probabilities"
        )
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the base model must return numbers without gaps; it returned {array.dtype} ({error})"
        ) from error
    if array.ndim not in (1, 2):
        raise ValueError(f"the base model must return one row of scores a row, got an array of shape {array.shape}")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 1 and len(classes) > 2:
        raise ValueError(f"the base model must return one probability a class for {list(classes)}, got one a row")
    return array


def _only_entry(output: dict[Any, Any]) -> Any:
    if len(output) == 1:
        return next(iter(output.values()))
    raise ValueError(
        f"the base model returns several outputs, {[str(key) for key in output]}; name the one that holds the "
        "scores: score=<its name>"
    )


def _unpacked(output: Any, classes: Sequence[Any]) -> Any:
    """Rows that are dicts by class, as ONNX's ZipMap gives them, or lists, as one array of a column a class."""
    rows = list(output) if getattr(getattr(output, "dtype", None), "kind", "") == "O" else output
    first = rows[0] if isinstance(rows, list) and rows else None
    if isinstance(first, dict):
        names, keys = [str(one_class) for one_class in classes], {str(key): key for key in first}
        if set(names) != set(keys):
            raise ValueError(
                f"the base model's output must have one score a class {names}, got those of {sorted(keys)}; give "
                "classes=[...] as the model spells them"
            )
        return np.array([[row[keys[name]] for name in names] for row in rows])
    return np.array(list(rows)) if isinstance(first, (list, tuple, np.ndarray)) else output


def _class_columns(frame: Any, classes: Sequence[Any]) -> Any:
    by_name = {str(column): column for column in frame.columns}
    names = [str(one_class) for one_class in classes]
    if len(frame.columns) == 1:
        return frame.iloc[:, 0].to_numpy()
    if set(names) <= set(by_name):
        return frame[[by_name[name] for name in names]].to_numpy()
    if list(frame.columns) == list(range(len(names))):
        return frame.to_numpy()
    raise ValueError(
        f"the base model's output must have one column a class {names}, got the columns {sorted(by_name)}; "
        "name them by class, or say which column holds the probability of the positive class: score=<its name>"
    )


class CalibratedPyfunc:
    """Base model and calibrator as MLflow's python_function.

    ``predict`` returns calibrated probabilities, or by ``params={"output": ...}`` the base model's label or
    probabilities, or both probabilities side by side.
    """

    def __init__(self, base_model: Any, document: dict[str, Any]) -> None:
        try:
            self.base_scores = BaseScores(base_model, document["base_model"]["score_source"])
        except (KeyError, TypeError) as error:
            raise ValueError(
                "calibrator.json is damaged: it must say how the base model gives scores (base_model.score_source); "
                "fetch the artifact again or log the model again"
            ) from error
        if document.get("score_kind", "probability") != "probability":
            raise ValueError(
                f"calibrator.json is damaged: score_kind is {document['score_kind']!r}, and base scores are "
                "probabilities; fetch the artifact again or log the model again"
            )
        source = document["base_model"]["score_source"]
        if problem := source_problem(source, document["classes"]):
            raise ValueError(f"calibrator.json is damaged: {problem}; fetch the artifact again or log the model again")
        if problem := base_problem(base_model, source):
            raise ValueError(
                f"the base model is not the one that was calibrated: {problem}; fetch the artifact again, or calibrate "
                "the model that is there"
            )
        self.base_model = base_model
        self.document = document
        self.classes = list(document["classes"])
        self.maps = StepMaps([map_arrays(one_map) for one_map in document["maps"]])
        self.reduction = document["reduction"]
        self.binary = self.reduction == "binary"
        self.positive_class = document.get("positive_class")

    def get_raw_model(self) -> CalibratedPyfunc:
        """Return this object, never the base model, whose scores nobody is to take for calibrated ones."""
        return self

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Calibrated probabilities: float64 of shape (n,), or a frame with one column a class.

        Raises ValueError for another ``output`` than OUTPUTS, and where the base model's scores are no probabilities.
        """
        rest = dict(params or {})
        output = rest.pop("output", "probability")
        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {list(OUTPUTS)}, got {output!r}")
        base = self.scores(data, rest)
        if output == "label":
            return self.labels(base)
        index = getattr(data, "index", None)
        if output == "both":
            return self._both(base, index)
        return self._shaped(base if output == "base" else self._calibrated(base), index)

    def scores(self, data: Any, params: dict[str, Any] | None = None) -> Floats:
        """Base scores: P(positive) of shape (n,), or (n, K) in the order of the calibrator's classes."""
        if getattr(data, "shape", ()) and data.shape[0] == 0:
            return np.empty(0 if self.binary else (0, len(self.classes)))
        multi_label = self.reduction == "multi-label"
        n_rows = data.shape[0] if getattr(data, "shape", ()) else None
        scores = self.base_scores.clean(self.base_scores.predict(data, params), sums=not multi_label)
        if n_rows is not None and len(scores) != n_rows:
            raise ValueError(f"the base model must give one row of scores a row, got {len(scores)} for {n_rows} rows")
        if scores.ndim == 1:
            return scores
        order = self.base_scores.classes
        if self.binary:
            return np.ascontiguousarray(scores[:, order.index(self.positive_class)])
        return scores[:, [order.index(one_class) for one_class in self.classes]]

    def labels(self, base: Floats) -> npt.NDArray[Any]:
        """The base model's most probable class of each row; of equal ones the first. Calibration never changes it."""
        if self.reduction == "multi-label":
            raise ValueError('a multi-label model has no one label a row; ask for output="probability" instead')
        if not self.binary:
            return np.asarray(self.classes)[base.argmax(axis=1)] if len(base) else np.asarray(self.classes)[:0]
        negative = next(one_class for one_class in self.classes if one_class != self.positive_class)
        first = self.base_scores.classes[0] == self.positive_class
        chosen = base >= 0.5 if first else base > 0.5
        return np.where(chosen, np.asarray([self.positive_class]), np.asarray([negative]))

    def _calibrated(self, base: Floats) -> Floats:
        return predict_reduced(base, self.maps, self.reduction)

    def _shaped(self, values: Floats, index: Any) -> Any:
        if self.binary:
            return values
        import pandas as pd

        return pd.DataFrame(values, columns=[str(one_class) for one_class in self.classes], index=index)

    def _both(self, base: Floats, index: Any) -> Any:
        import pandas as pd

        calibrated = self._calibrated(base)
        if self.binary:
            return pd.DataFrame({"base": base, "calibrated": calibrated}, index=index)
        return pd.DataFrame(
            np.hstack([base, calibrated]),
            columns=[f"{kind}_{one_class}" for kind in ("base", "calibrated") for one_class in self.classes],
            index=index,
        )


def _load_pyfunc(data_path: str, model_config: dict[str, Any] | None = None) -> CalibratedPyfunc:  # noqa: ARG001
    """What ``mlflow.pyfunc.load_model`` calls on the bundle folder; MLflow fixes the signature."""
    import mlflow.pyfunc

    bundle = pathlib.Path(data_path)
    try:
        text = (bundle / "calibrator.json").read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ValueError(f"calibrator.json is missing or damaged ({error}); fetch the artifact again") from error
    document = read_calibrator(text)
    base = mlflow.pyfunc.load_model(str(base_model_folder(bundle, document)), suppress_warnings=True)
    _check_input_once(base, bundle)
    return CalibratedPyfunc(base, document)


def _check_input_once(base: Any, bundle: pathlib.Path) -> None:
    """Free the base model of checking its input, where the calibrated model's signature has checked the same before.

    Where the two say different things, both check.
    """
    import yaml  # type: ignore[import-untyped]  # MLflow's own dependency; it ships without types
    from mlflow.models import Model, ModelSignature

    inner = base.metadata.signature
    path = bundle.parent.parent / "MLmodel"
    if inner is None or inner.inputs is None or not path.is_file():
        return
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    # Model.load would take the path for a URI, and decode it
    outer = Model.from_dict(yaml.load(path.read_text(encoding="utf-8"), Loader=loader)).signature  # noqa: S506
    if outer is not None and outer.inputs == inner.inputs:
        kept = (inner.outputs, inner.params)
        base.metadata.signature = None if kept == (None, None) else ModelSignature(None, *kept)


#: The file that MLflow writes into a model folder when it is read by the name of a registered model.
_ADDED_BY_MLFLOW = pathlib.PurePath("registered_model_meta")
#: URIs that name one model for good; an alias or ``latest`` would name another one tomorrow.
PINNED = re.compile(r"models:/(m-[^/@]+|[^/@]+/\d+)/?$")


def base_model_folder(bundle: pathlib.Path, document: dict[str, Any]) -> pathlib.Path:
    """Folder of the base model: the nested one, or of a model that only names it, that of its pinned URI.

    Raises ValueError where the nested folder is missing, and where the model behind the URI is another one now.
    """
    record = document.get("base_model") or {}
    if record.get("embedded") is not False:
        if not (bundle / "base_model").is_dir():
            raise ValueError("the calibrated model is damaged: its base_model folder is missing; fetch it again")
        return bundle / "base_model"
    import mlflow

    uri, digest = str(record.get("uri")), record.get("digest")
    if not PINNED.match(uri):
        raise ValueError(
            f"calibrator.json is damaged: its base model is not embedded, and {uri!r} names no model for good; "
            "it must be models:/m-... or models:/<name>/<version>"
        )
    folder = pathlib.Path(mlflow.artifacts.download_artifacts(uri))
    found = folder_digest(folder)
    if found != digest:
        raise ValueError(
            f"the base model {uri} must have digest {digest}, found {found}: it is not the one that was calibrated; "
            "restore its files, or calibrate the model that is there"
        )
    return folder


def folder_digest(folder: Any) -> str:
    """``sha256:`` over names and contents of the files of a model folder, the same wherever it is copied."""
    root = pathlib.Path(folder)
    total = hashlib.sha256()
    for path in sorted(model_files(root), key=lambda path: path.relative_to(root).as_posix()):
        content = hashlib.sha256()
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                content.update(block)
        total.update(json.dumps([path.relative_to(root).as_posix(), content.hexdigest()]).encode())
    return f"sha256:{total.hexdigest()}"


def model_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The files that make up a model, without those that reading it adds."""
    for path in root.rglob("*"):
        if path.is_file() and not _added_by_reading(path.relative_to(root)):
            yield path


def _added_by_reading(path: pathlib.Path) -> bool:
    """Whether MLflow or Python write this file when they read the model: that one file, and caches of compiled code.

    Anything else that stands in a cache's folder, or bears the file's name elsewhere, is a part of the model.
    """
    return path == _ADDED_BY_MLFLOW or (path.parent.name == "__pycache__" and path.suffix == ".pyc")
