"""The MLflow flavor: base model and calibrator as one model, on MLflow's public API alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_calib import runtime
from mlflow_calib.errors import ModelError, raise_problems
from mlflow_calib.flavor.artifact import model_meta, write_artifact
from mlflow_calib.flavor.environment import (
    environment_arguments,
    get_default_conda_env,
    get_default_pip_requirements,
)
from mlflow_calib.flavor.names import model_name_problems
from mlflow_calib.flavor.opened import opened
from mlflow_calib.flavor.places import free_folder, make_folder
from mlflow_calib.flavor.resolved import BUNDLE, FLAVOR_NAME, model_meta_of, resolve_model
from mlflow_calib.flavor.tracking import require_tracking_uri
from mlflow_calib.runtime import _load_pyfunc

if TYPE_CHECKING:
    from mlflow_calib.core.calibrator import Calibrator

__all__ = [
    "FLAVOR_NAME",
    "CalibratedModel",
    "_load_pyfunc",
    "get_default_conda_env",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]


@dataclass(frozen=True)
class CalibratedModel:
    """A calibrated model in Python: its base model as MLflow loads it, and its calibrator."""

    base_model: Any = field(repr=False)
    calibrator: Calibrator
    pyfunc: Any = field(repr=False)

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Calibrated probabilities, to the bit those of the served model, under its signature and ``params``."""
        return self.pyfunc.predict(data, params=params)


def save_model(
    base_model: Any,
    calibrator: Calibrator,
    path: str | Path,
    *,
    score: str = "auto",
    classes: Sequence[Any] | None = None,
    bundle_runtime: bool = True,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    extra_pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    mlflow_model: Any = None,
    serialization_format: str | None = None,
) -> None:
    """Write base model and calibrator to a folder as one MLflow model.

    Parameters
    ----------
    base_model
        A fitted scikit-learn classifier, a model URI (an alias is resolved once), or the folder of an MLflow model.
        Of a calibrated model its nested base model is taken.
    calibrator
        From `fit_calibrator`, fitted on the base model's probabilities.
    path
        Folder to write; absent or empty.
    score, classes
        How the base model gives probabilities, see `load_scorer`; ``classes`` are by default the calibrator's.
    bundle_runtime
        True puts the look-up into the artifact, which then serves where mlflow-calib is not installed.
    signature
        Its inputs and params replace those of the base model; False leaves the inputs undeclared.
    pip_requirements, extra_pip_requirements
        Replace, or add to, the base model's requirement lines.
    serialization_format
        For a scikit-learn object: "skops" (MLflow's default) or "cloudpickle", which some ensembles need.

    Raises
    ------
    ModelError
        Where base model and calibrator do not fit together, with every reason.
    InvalidInputError
        Where ``calibrator`` is none, or ``path`` cannot be written or holds files already.
    """
    folder = free_folder(path)
    with opened(base_model, score, classes, calibrator, signature, input_example, serialization_format) as base:
        packaged = calibrator.with_base_model(dict(base.facts))
        model = model_meta(base, packaged, signature, bundle_runtime, metadata, mlflow_model)
        environment = environment_arguments(base.folder, bundle_runtime, pip_requirements, extra_pip_requirements)
        make_folder(folder)
        write_artifact(folder, base.folder, packaged, model, input_example, bundle_runtime, environment)


def log_model(
    base_model: Any,
    calibrator: Calibrator,
    name: str = "model",
    *,
    score: str = "auto",
    classes: Sequence[Any] | None = None,
    bundle_runtime: bool = True,
    registered_model_name: str | None = None,
    await_registration_for: int = 300,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    extra_pip_requirements: Sequence[str] | None = None,
    serialization_format: str | None = None,
    run_id: str | None = None,
    model_id: str | None = None,
    model_type: str | None = None,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    step: int = 0,
) -> Any:
    """Log base model and calibrator as one MLflow model; arguments as of `save_model` and of MLflow's own flavors.

    With ``run_id`` the model is an output of that run. Without it MLflow takes the active run, and copies every metric
    which that holds at ``step`` onto the new model, those of other models too. Returns MLflow's ``ModelInfo``.

    Raises InvalidInputError where no MLflow server is named, see `require_tracking_uri`, and for a name that no
    registered model can have.
    """
    from mlflow.models import Model

    require_tracking_uri()
    if registered_model_name is not None and (problems := model_name_problems(registered_model_name)):
        raise_problems(problems)
    params, tags = dict(params or {}), dict(tags or {})
    with opened(base_model, score, classes, calibrator, signature, input_example, serialization_format) as base:
        to_log = base
        if run_id is not None and model_id is None:
            model_id = _model_of_run(run_id, name, params, tags, model_type, step)
            to_log, run_id = replace(base, run_id=run_id), None
        return Model.log(
            artifact_path=None,
            name=name,
            flavor=sys.modules[__name__],
            registered_model_name=registered_model_name,
            await_registration_for=await_registration_for,
            metadata=None if metadata is None else dict(metadata),
            run_id=run_id,
            model_type=model_type,
            params=params,
            tags=tags or None,
            step=step,
            model_id=model_id,
            base_model=to_log,
            calibrator=calibrator,
            bundle_runtime=bundle_runtime,
            signature=signature,
            input_example=input_example,
            pip_requirements=pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
        )


def _model_of_run(
    run_id: str, name: str, params: Mapping[str, Any], tags: Mapping[str, Any], model_type: str | None, step: int
) -> str:
    """Id of a new logged model, an output of the run, in the run's own experiment.

    ``Model.log``, told of the run, would place the model in the active experiment instead, and would copy every metric
    the run holds at this step onto it, those of other models too.
    """
    import mlflow
    from mlflow.entities import LoggedModelOutput

    run = mlflow.MlflowClient().get_run(run_id)
    model = mlflow.initialize_logged_model(
        name=name,
        source_run_id=run_id,
        params={key: str(value) for key, value in {**params, **run.data.params}.items()},
        tags={key: str(value) for key, value in tags.items()},
        model_type=model_type,
        experiment_id=run.info.experiment_id,
    )
    mlflow.MlflowClient().log_outputs(run_id, models=[LoggedModelOutput(model.model_id, step)])
    return str(model.model_id)


def load_model(model_uri: str, dst_path: str | None = None) -> CalibratedModel:
    """Load a calibrated model as a Python object, with its calibrator.

    Raises ModelError where the URI names no model, or one that this package did not write, and InvalidInputError where
    it is no URI, or names a model of a server and no server is named, see `require_tracking_uri`.
    """
    import mlflow.pyfunc

    from mlflow_calib.core.calibrator import Calibrator

    resolved = resolve_model(None, model_uri, dst_path)
    if resolved.calibrator is None:
        raise ModelError(
            f"{model_uri} must be a calibrated model, and its flavors are {list(resolved.flavors)}; "
            "load it with mlflow.pyfunc.load_model"
        )
    base = mlflow.pyfunc.load_model(str(Path(resolved.local_path) / BUNDLE / "base_model"), suppress_warnings=True)
    document = dict(resolved.calibrator)
    served = mlflow.pyfunc.PyFuncModel(model_meta_of(resolved.local_path), runtime.CalibratedPyfunc(base, document))
    return CalibratedModel(base, Calibrator.from_dict(document), served)
