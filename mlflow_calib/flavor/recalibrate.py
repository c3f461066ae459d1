"""A calibrated model with a new calibrator: the base model stays as it is, nothing is trained again."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.errors import InvalidInputError, ModelError, raise_problems
from mlflow_calib.flavor.base_model import load_scorer
from mlflow_calib.flavor.environment import get_default_pip_requirements, requirement_lines
from mlflow_calib.flavor.facts import is_embedded
from mlflow_calib.flavor.model import log_model
from mlflow_calib.flavor.resolved import FLAVOR_NAME, ResolvedModel, base_folder, model_meta_of, resolve_model

#: Arguments of ``fit_calibrator`` that a new calibrator takes from the old one where they are not given.
KEPT = (
    "method", "reduction", "n_bins", "binning", "scaling", "loss", "targets", "parts", "classes", "positive_class",
    "score_kind", "seed",
)  # fmt: skip
#: Arguments of ``fit_calibrator`` that belong to the rows.
OF_ROWS = ("sample_weight", "unlabeled", "keys")


def recalibrate(
    model_uri: str | os.PathLike[str],
    data: Any = None,
    labels: Any = None,
    *,
    scores: Any = None,
    name: str = "model",
    registered_model_name: str | None = None,
    await_registration_for: int = 300,
    run_id: str | None = None,
    tags: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **fit_arguments: Any,
) -> Any:
    """Fit a new calibrator for the base model of a calibrated model, and log both as a new model.

    The base model is copied as it stands and is never fitted. The calibrated model given stays as it is, and so does
    every alias; whether the new one is better is for evaluation data to say.

    Parameters
    ----------
    model_uri
        A calibrated model: any URI of a model, or a folder.
    data : DataFrame or array, optional
        Inputs of the model, a row a case; the base model is called on them. Not with ``scores``.
    labels : array_like, shape (n,), or str
        Outcomes in the model's own words; a text names the column of ``data`` that holds them.
    scores : array_like, optional
        The base model's scores in place of ``data``: shape (n,), of the positive class, or a column a class in the
        order of the calibrator's classes.
    name, registered_model_name, await_registration_for, run_id, tags, params, metadata
        As of `log_model`. With ``registered_model_name`` the new model becomes a version.
    **fit_arguments
        Arguments of :func:`mlflow_calib.fit_calibrator`. Those of the old calibrator hold where none is given:
        method, reduction, n_bins, binning, scaling, loss, targets, parts, classes, positive_class, score_kind, seed;
        where method or reduction change, scaling is the default of the new one.

    Returns
    -------
    ModelInfo
        MLflow's.

    Raises
    ------
    ModelError
        Where the model does not exist, is not one of this package, or gives no scores for the rows.
    InvalidInputError
        For wrong arguments and rows, as of ``fit_calibrator`` and `log_model`.

    Examples
    --------
    >>> import mlflow_calib as mc
    >>> info = mc.recalibrate(  # doctest: +SKIP
    ...     "models:/flights@champion", last_month, "delayed", registered_model_name="flights", n_bins=20
    ... )
    """
    _check_arguments(data, labels, scores, fit_arguments)
    resolved = resolve_model(None, model_uri)
    if resolved.calibrator is None:
        raise ModelError(
            f"{resolved.uri} must be a calibrated model, and its flavors are {list(resolved.flavors)}; calibrate it "
            "with fit_calibrator and log_model"
        )
    old = Calibrator.from_dict(resolved.calibrator)
    if scores is None:
        data, labels = _inputs(data, labels)
        scores = _base_scores(resolved, data, old)
    fitted = fit_calibrator(scores, labels, **_arguments(old, fit_arguments))
    calibrator = fitted.with_facts(
        recalibrated_from={"uri": resolved.uri, "model_id": resolved.model_id, "digest": resolved.digest},
        data_sha256=data_sha256(scores, labels),
    )
    return log_model(
        resolved,
        calibrator,
        name,
        registered_model_name=registered_model_name,
        await_registration_for=await_registration_for,
        run_id=run_id,
        tags=tags,
        params=params,
        metadata=metadata,
        **_kept_options(resolved),
    )


def arguments_of(calibrator: Calibrator) -> dict[str, Any]:
    """Arguments with which ``fit_calibrator`` would make such a calibrator of new rows.

    Parts given as an array belong to the old rows, and are "auto" for the new ones.
    """
    targets = {one_map.scaling.targets for one_map in calibrator.maps if one_map.scaling is not None}
    return {
        "method": calibrator.method,
        "reduction": calibrator.reduction,
        "n_bins": calibrator.facts.get("n_bins", calibrator.n_bins_requested),
        "binning": calibrator.binning,
        "scaling": calibrator.scaling,
        "loss": calibrator.loss or "log",
        "targets": targets.pop() if len(targets) == 1 else "labels",
        "parts": "auto" if calibrator.parts_requested == "array" else calibrator.parts_requested,
        "classes": list(calibrator.classes),
        "positive_class": calibrator.positive_class,
        "score_kind": calibrator.score_kind,
        "seed": calibrator.seed,
    }


def _arguments(old: Calibrator, given: Mapping[str, Any]) -> dict[str, Any]:
    """The old arguments but for those given; of another method or reduction the scaling function is its default."""
    kept = arguments_of(old)
    if any(given.get(name, kept[name]) != kept[name] for name in ("method", "reduction")):
        del kept["scaling"]
    return {**kept, **given}


def data_sha256(scores: Any, labels: Any) -> str:
    """``sha256:`` over the scores as float64 and the labels as text, in the order of the rows."""
    total = hashlib.sha256(np.ascontiguousarray(scores, dtype="<f8").tobytes())
    total.update("\x00".join(map(str, np.asarray(labels).ravel().tolist())).encode("utf-8", "surrogatepass"))
    return f"sha256:{total.hexdigest()}"


def _check_arguments(data: Any, labels: Any, scores: Any, fit_arguments: Mapping[str, Any]) -> None:
    problems = []
    if (data is None) == (scores is None):
        problems.append("give the rows once: data (the model's inputs) or scores (the base model's)")
    if labels is None:
        problems.append("labels must be given: an outcome a row, or the name of the column of data that holds them")
    elif isinstance(labels, str) and data is None:
        problems.append(f"labels must be an outcome a row where scores are given, got the text {labels!r}")
    known = (*KEPT, *OF_ROWS)
    problems += [
        f"there is no argument {one!r}; a fit has {', '.join(known)}" for one in fit_arguments if one not in known
    ]
    if problems:
        raise_problems(problems)


def _inputs(data: Any, labels: Any) -> tuple[Any, Any]:
    if not isinstance(labels, str):
        return data, labels
    if labels not in getattr(data, "columns", ()):
        raise InvalidInputError(f"labels must name a column of data, and it has no column {labels!r}")
    return data.drop(columns=labels), data[labels].to_numpy()


def _base_scores(resolved: ResolvedModel, data: Any, old: Calibrator) -> Any:
    scorer = load_scorer(resolved)
    if not hasattr(data, "columns"):
        values = np.asarray(scorer.model.predict(data, params={"output": "base"}), dtype=np.float64)
    else:
        values = scorer.unchecked_scores(data)
    if values.ndim == 2 and old.reduction == "binary":
        values = values[:, list(scorer.classes).index(old.positive_class)]
    return values


def _kept_options(resolved: ResolvedModel) -> dict[str, Any]:
    """What the old model was saved with beyond its base model and its calibrator."""
    meta, base = model_meta_of(resolved.local_path), base_folder(resolved)
    flavor = meta.flavors[FLAVOR_NAME]
    bundled = bool(flavor.get("bundled_runtime", True))
    known = [*requirement_lines(base), *get_default_pip_requirements(bundled)]
    lines: Sequence[str] = requirement_lines(Path(resolved.local_path))
    return {
        "signature": meta.signature if meta.signature is not None and meta.signature.inputs is not None else False,
        "bundle_runtime": bundled,
        "embed": is_embedded(dict(resolved.calibrator or {})),
        "extra_pip_requirements": [line for line in lines if line not in known and not _is_ours(line)] or None,
    }


def _is_ours(line: str) -> bool:
    return re.match(r"(mlflow|mlflow-calib)\b(?!-)", line) is not None or line.startswith("-c ")
