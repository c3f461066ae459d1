"""A base model laid open for packaging, and checked against its calibrator."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_calib import runtime
from mlflow_calib.errors import InvalidInputError, ModelError, raise_problems
from mlflow_calib.flavor.base_model import load_pyfunc
from mlflow_calib.flavor.resolved import ResolvedModel, base_folder, model_meta_of, resolve_model
from mlflow_calib.flavor.sample_check import sample_problems, sample_rows
from mlflow_calib.flavor.saved_object import save_object
from mlflow_calib.flavor.score_source import Score, score_source

if TYPE_CHECKING:
    from mlflow_calib.core.calibrator import Calibrator


@dataclass(frozen=True)
class OpenedBase:
    """A base model laid open for packaging: its folder, its facts, its meta data, the run it is logged in."""

    folder: Path
    facts: Mapping[str, Any]
    meta: Any
    run_id: str | None = None


@contextmanager
def opened(
    base_model: Any,
    score: Score,
    classes: Sequence[Any] | None,
    calibrator: Calibrator,
    signature: Any,
    input_example: Any,
    serialization_format: str | None,
) -> Iterator[OpenedBase]:
    """The base model's folder for the length of the block, checked against the calibrator."""
    if isinstance(base_model, OpenedBase):  # log_model has opened it already
        yield base_model
        return
    if not hasattr(calibrator, "with_base_model"):
        raise InvalidInputError(f"calibrator must be what fit_calibrator returned, got {type(calibrator).__name__}")
    with tempfile.TemporaryDirectory() as scratch:
        if not isinstance(base_model, (str, Path, ResolvedModel)):
            folder = Path(scratch) / "base_model"
            save_object(base_model, folder, signature, input_example, serialization_format)
            resolved = resolve_model(None, folder)
            facts: dict[str, Any] = {"uri": None}
        else:
            resolved = base_model if isinstance(base_model, ResolvedModel) else resolve_model(None, base_model)
            facts = {"uri": resolved.uri, **_asked_for(base_model, resolved)}
        scored = isinstance(base_model, ResolvedModel)  # the steps have scored all rows before
        yield _checked(*_nested(resolved, facts), score, classes, calibrator, input_example, scored)


def _asked_for(base_model: Any, resolved: ResolvedModel) -> dict[str, str]:
    """The URI that was given, where it was pinned to another: an alias, ``latest`` or a run's model."""
    moving = isinstance(base_model, str) and base_model != resolved.uri and base_model.startswith(("models:", "runs:"))
    return {"asked_for": base_model} if moving else {}


def _nested(resolved: ResolvedModel, facts: dict[str, Any]) -> tuple[ResolvedModel, dict[str, Any]]:
    """Of a calibrated model, its base model and what the artifact records of it."""
    if resolved.calibrator is None:
        return resolved, facts
    inner = resolve_model(None, base_folder(resolved))
    recorded = resolved.calibrator["base_model"]
    kept = {"uri": recorded["uri"], "model_id": recorded.get("model_id")}
    return inner, {**kept, "score_source": recorded["score_source"]}


def _checked(
    resolved: ResolvedModel,
    facts: dict[str, Any],
    score: Score,
    classes: Sequence[Any] | None,
    calibrator: Calibrator,
    input_example: Any,
    scored: bool,
) -> OpenedBase:
    try:
        document = runtime.read_calibrator(calibrator.to_json())
    except ValueError as error:  # continuous outputs, whose calibration error cannot be verified
        raise ModelError(f"the calibrator cannot be packaged: {error}") from error
    if "python_function" not in resolved.flavors:
        raise ModelError(f"the base model must have MLflow's python_function flavor, it has {list(resolved.flavors)}")
    source, meta = facts.get("score_source"), model_meta_of(resolved.local_path)
    if source is None or score != "auto" or classes is not None or input_example is not None:
        loaded = load_pyfunc(resolved.local_path)
        if source is None or score != "auto" or classes is not None:
            apart = document["reduction"] == "multi-label"
            source = score_source(loaded, score, classes, apart=apart, declared=document["classes"])
        sums = document["reduction"] != "multi-label"
        problems = _sample_problems(loaded, meta, resolved.local_path, source, sums, input_example, scored)
    else:
        problems = []
    problems = [*_class_problems(source["classes"], document), *_other_problems(meta, document), *problems]
    if problems:
        raise_problems(problems, ModelError)
    own = {"model_id": resolved.model_id, "digest": resolved.digest, "flavors": list(resolved.flavors)}
    return OpenedBase(Path(resolved.local_path), {**own, **facts, "score_source": source}, meta)


def _sample_problems(
    loaded: Any, meta: Any, folder: str, source: Mapping[str, Any], sums: bool, input_example: Any, scored: bool
) -> list[str]:
    rows, given = sample_rows(meta, folder, input_example)
    if rows is not None and rows.shape and rows.shape[0]:
        return sample_problems(loaded, meta, source, rows, given, sums)
    if source["call"] == "predict" and "column" in source and not scored:
        no_rows = f"no rows show that the base model's output has a column {source['column']!r}"
        return [f"{no_rows}; pass input_example, a frame of a few rows"]
    return []


def _class_problems(base: Sequence[Any], document: Mapping[str, Any]) -> list[str]:
    given = list(document["classes"])
    if len(base) == len(given) and all(one_class in base for one_class in given):
        return []
    rule = "calibrator and base model must have the same classes"
    return [f"{rule}; the calibrator has {given}, the base model {list(base)}; fit it on this model's scores"]


def _other_problems(meta: Any, document: Mapping[str, Any]) -> list[str]:
    problems = []
    if document.get("score_kind", "probability") != "probability":
        problems.append(
            "the calibrator was fitted on logits, and the base model's scores are probabilities; fit it on those "
            '(log odds are put through the sigmoid, or softmax: score="logit")'
        )
    params = meta.signature.params.params if meta.signature is not None and meta.signature.params is not None else []
    if any(param.name == "output" for param in params):
        problems.append('the base model has a parameter "output" of its own, which a calibrated model needs; rename it')
    return problems
