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
from mlflow_calib.flavor.base_model import score_source
from mlflow_calib.flavor.resolved import BUNDLE, ResolvedModel, model_meta_of, resolve_model

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
    score: str,
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
            _save_object(base_model, folder, signature, input_example, serialization_format)
            resolved = resolve_model(None, folder)
            uri = None
        else:
            resolved = base_model if isinstance(base_model, ResolvedModel) else resolve_model(None, base_model)
            uri = resolved.uri
        yield _checked(*_nested(resolved, {"uri": uri}), score, classes, calibrator)


def _save_object(
    model: Any, folder: Path, signature: Any, input_example: Any, serialization_format: str | None
) -> None:
    import mlflow.sklearn
    from mlflow.exceptions import MlflowException

    if not hasattr(model, "predict"):
        raise ModelError(
            f"base_model must be a fitted scikit-learn classifier, a model URI or a folder, got {type(model).__name__}"
        )
    chosen = {} if serialization_format is None else {"serialization_format": serialization_format}
    requirements = mlflow.sklearn.get_default_pip_requirements(
        include_cloudpickle=serialization_format == "cloudpickle"
    )
    try:
        mlflow.sklearn.save_model(
            model,
            str(folder),
            signature=signature,
            input_example=input_example,
            pip_requirements=requirements,
            **chosen,
        )
    except MlflowException as error:
        raise ModelError(
            f"MLflow cannot save this {type(model).__name__} ({error.message}); "
            'pass serialization_format="cloudpickle", or log it with mlflow.sklearn.log_model and pass its URI'
        ) from error


def _nested(resolved: ResolvedModel, facts: dict[str, Any]) -> tuple[ResolvedModel, dict[str, Any]]:
    """Of a calibrated model, its base model and what the artifact records of it."""
    if resolved.calibrator is None:
        return resolved, facts
    inner = resolve_model(None, Path(resolved.local_path) / BUNDLE / "base_model")
    recorded = resolved.calibrator["base_model"]
    return inner, {"uri": recorded["uri"], "model_id": recorded["model_id"], "score_source": recorded["score_source"]}


def _checked(
    resolved: ResolvedModel,
    facts: dict[str, Any],
    score: str,
    classes: Sequence[Any] | None,
    calibrator: Calibrator,
) -> OpenedBase:
    import mlflow.pyfunc

    try:
        document = runtime.read_calibrator(calibrator.to_json())
    except ValueError as error:  # continuous outputs, whose calibration error cannot be verified
        raise ModelError(f"the calibrator cannot be packaged: {error}") from error
    if "python_function" not in resolved.flavors:
        raise ModelError(f"the base model must have MLflow's python_function flavor, it has {list(resolved.flavors)}")
    source = facts.get("score_source")
    if source is None or score != "auto" or classes is not None:
        loaded = mlflow.pyfunc.load_model(resolved.local_path, suppress_warnings=True)
        declared = document["classes"] if classes is None and score == "probability" else classes
        source = score_source(loaded, score, declared)
    meta = model_meta_of(resolved.local_path)
    problems = [*_class_problems(source["classes"], document), *_other_problems(meta, document)]
    if problems:
        raise_problems(problems, ModelError)
    own = {"model_id": resolved.model_id, "digest": resolved.digest, "flavors": list(resolved.flavors)}
    return OpenedBase(Path(resolved.local_path), {**own, **facts, "score_source": source}, meta)


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
            "the calibrator was fitted on logits, and the base model's scores are probabilities; fit it on those"
        )
    params = meta.signature.params.params if meta.signature is not None and meta.signature.params is not None else []
    if any(param.name == "output" for param in params):
        problems.append('the base model has a parameter "output" of its own, which a calibrated model needs; rename it')
    return problems
