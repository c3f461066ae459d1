"""The scores a model gives: probabilities of a classifier, of a booster, or of any model that declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlflow_calib import runtime
from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.flavor.resolved import (
    BUNDLE,
    FLAVOR_NAME,
    ResolvedModel,
    model_id_of_version,
    model_meta_of,
    resolve_model,
)
from mlflow_calib.flavor.score_source import Score, plain_values, score_source
from mlflow_calib.runtime import folder_digest

__all__ = [
    "BUNDLE",
    "FLAVOR_NAME",
    "ResolvedModel",
    "Scorer",
    "folder_digest",
    "load_pyfunc",
    "load_scorer",
    "model_id_of_version",
    "plain_values",
    "resolve_model",
    "score_source",
]


@dataclass(frozen=True)
class Scorer:
    """A loaded model that gives probabilities for frames.

    ``classes`` are the columns of `base_scores` in order; ``score_source`` is what the artifact and the manifest
    record of how they were reached; ``input_columns`` are the columns taken from a frame by name, None for all.
    """

    classes: tuple[Any, ...]
    score_source: Mapping[str, Any]
    input_columns: tuple[str, ...] | None
    required_columns: tuple[str, ...]
    kind: str
    model: Any = field(repr=False)
    prepare: Callable[[Any], Any] = field(repr=False)

    def base_scores(self, frame: Any) -> npt.NDArray[np.float64]:
        """Base probabilities: (n, K), columns in the order of ``classes``, or (n,) where the model gives one a row.

        Raises DataError that names missing columns, or says what the model's signature refuses; ModelError where
        the scores are no probabilities.
        """
        scores = self.unchecked_scores(frame)
        try:
            return runtime.clean_scores(scores, None if scores.ndim == 1 else len(self.classes))[0]
        except ValueError as error:
            raise ModelError(f"the base model gives no scores that can be calibrated: {error}") from error

    def unchecked_scores(self, frame: Any) -> npt.NDArray[np.float64]:
        """The same as a raw model gives them, neither checked nor clipped; for callers that count over many frames."""
        if self.kind == "calibrated":
            both = self.calibrated(frame)
            columns = ["base"] if "base" in both else [f"base_{one_class}" for one_class in self.classes]
            base = both[columns].to_numpy(dtype=np.float64)
            return np.asarray(base[:, 0] if columns == ["base"] else base)
        return np.asarray(self._predict(frame), dtype=np.float64)

    def positive_scores(self, frame: Any, positive_class: Any) -> npt.NDArray[np.float64]:
        """Base probability of one of two classes, shape (n,)."""
        scores = self.base_scores(frame)
        return scores if scores.ndim == 1 else scores[:, self.classes.index(positive_class)]

    def calibrated(self, frame: Any) -> Any:
        """Frame with the columns ``base`` and ``calibrated``, from the artifact's own code; calibrated models only."""
        if self.kind != "calibrated":
            raise InvalidInputError("only a calibrated model has calibrated scores, and this is a raw one")
        return self._predict(frame, {"output": "both"})

    def _predict(self, frame: Any, params: dict[str, Any] | None = None) -> Any:
        from mlflow.exceptions import MlflowException

        data = self.prepare(self._columns(frame))
        try:
            return self.model.predict(data, params=params) if params else self.model.predict(data)
        except MlflowException as error:
            raise DataError(f"the model's signature refuses the data: {error.message}") from error
        except ValueError as error:
            raise ModelError(f"the base model gives no scores that can be calibrated: {error}") from error

    def _columns(self, frame: Any) -> Any:
        missing = [column for column in self.required_columns if column not in frame.columns]
        if missing:
            raise DataError(
                f"the data must have the model's input columns; missing: {missing}; "
                f"it has {[str(column) for column in frame.columns][:40]}"
            )
        if self.input_columns is None:
            return frame
        return frame[[column for column in self.input_columns if column in frame.columns]]


def load_scorer(
    resolved: ResolvedModel,
    score: Score = "auto",
    classes: Sequence[Any] | None = None,
    feature_columns: Sequence[str] | None = None,
) -> Scorer:
    """Load a model for scoring.

    Parameters
    ----------
    score
        How it gives probabilities: "auto", "probability", "logit", or the name or position of the part of its output
        that holds them, see `score_source`.
    classes
        The model's classes in the order of its columns; needed where the model does not say them itself.
    feature_columns
        Input columns, for a model without a signature that names them.

    Raises
    ------
    ModelError
        Where the model gives no probabilities that can be calibrated, with what to do.
    """
    import mlflow.pyfunc

    model = load_pyfunc(resolved.local_path)
    if resolved.calibrator is not None:
        source = {**resolved.calibrator["base_model"]["score_source"], "classes": list(resolved.calibrator["classes"])}
    else:
        source = score_source(model, score, classes)
        # the meta data's own signature is enforced on the frame, so scores equal those of the packaged model
        meta = model_meta_of(resolved.local_path)
        model = mlflow.pyfunc.PyFuncModel(model_meta=meta, model_impl=runtime.BaseScores(model, source))
    columns, required, tensor = _input_columns(model.metadata.signature, feature_columns)
    prepare = _to_numpy if tensor else _as_is
    return Scorer(tuple(source["classes"]), source, columns, required, resolved.kind, model, prepare)


def load_pyfunc(folder: str) -> Any:
    """MLflow's ``PyFuncModel`` of a local folder; ModelError where a package of the model is missing here."""
    import mlflow.pyfunc
    from mlflow.exceptions import MlflowException

    try:
        return mlflow.pyfunc.load_model(folder, suppress_warnings=True)
    except (ImportError, MlflowException) as error:
        if not isinstance(error, ImportError) and not isinstance(error.__cause__, ImportError):
            raise
        raise ModelError(
            f"the base model needs a package that cannot be imported here: {error}; install the lines of its "
            "requirements.txt"
        ) from error


def _to_numpy(frame: Any) -> Any:
    return frame.to_numpy()


def _as_is(frame: Any) -> Any:
    return frame


def _input_columns(signature: Any, feature_columns: Sequence[str] | None) -> tuple[Any, tuple[str, ...], bool]:
    """Columns to take, those that must be there, and whether the model wants an array."""
    schema = None if signature is None else signature.inputs
    if schema is not None and schema.has_input_names():
        names = tuple(schema.input_names())
        return names, tuple(schema.required_input_names()), False
    given = tuple(feature_columns) if feature_columns else None
    return given, given or (), schema is not None and schema.is_tensor_spec()
