"""The MLflow flavor: base model and calibrator as one model, on MLflow's public API alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_calib import runtime
from mlflow_calib.errors import ModelError, raise_problems
from mlflow_calib.flavor.artifact import base_record, model_meta, write_artifact
from mlflow_calib.flavor.base_model import load_pyfunc
from mlflow_calib.flavor.environment import (
    environment_arguments,
    get_default_conda_env,
    get_default_pip_requirements,
)
from mlflow_calib.flavor.extra_files import copy_extra_files, extra_file_names
from mlflow_calib.flavor.facts import plain_metadata, travelling_tags
from mlflow_calib.flavor.names import model_name_problems
from mlflow_calib.flavor.opened import opened
from mlflow_calib.flavor.places import free_folder, make_folder
from mlflow_calib.flavor.registry import tag_version
from mlflow_calib.flavor.resolved import FLAVOR_NAME, base_folder, model_meta_of, resolve_model
from mlflow_calib.flavor.score_source import Score
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
    score: Score = "auto",
    classes: Sequence[Any] | None = None,
    bundle_runtime: bool = True,
    embed: bool = True,
    signature: Any = None,
    input_example: Any = None,
    code_paths: Sequence[str] | None = None,
    extra_files: Sequence[str] | None = None,
    conda_env: Any = None,
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
        A fitted model of scikit-learn, XGBoost, LightGBM, CatBoost, PyTorch, ONNX, Keras, Spark ML or statsmodels; a
        model URI (an alias is resolved once, to a version that is recorded); or the folder of an MLflow model. Of a
        calibrated model its nested base model is taken.
    calibrator
        From `fit_calibrator`, fitted on the base model's probabilities.
    path
        Folder to write; absent or empty.
    score, classes
        How the base model gives probabilities, see `score_source`; ``classes`` are by default the calibrator's. The
        scores of the input example, given or saved with the base model, are looked at, and the answer is stored.
    bundle_runtime
        True puts the look-up into the artifact, which then serves where mlflow-calib is not installed.
    embed
        True copies the base model into the artifact. False, for huge ones, keeps its pinned URI and its digest:
        loading then fetches it from the server and refuses it where it is another one.
    signature
        Its inputs and params replace those of the base model; False leaves the inputs undeclared.
    input_example
        Saved with the model; a frame or an array, whose scores are also looked at.
    code_paths, extra_files
        Python code and other files that travel with the model, beside those of the base model.
    conda_env, pip_requirements, extra_pip_requirements
        The first two replace the base model's requirement lines, the last adds to them; one of them.
    serialization_format
        Of a fitted object of scikit-learn or LightGBM: "skops" (MLflow's default) or "cloudpickle", which some
        ensembles need; of PyTorch "pt2" or "pickle".

    Raises
    ------
    ModelError
        Where base model and calibrator do not fit together, with every reason.
    InvalidInputError
        Where ``calibrator`` is none, ``metadata`` no plain JSON, or ``path`` cannot be written or holds files already.
    """
    folder = free_folder(path)
    metadata = None if metadata is None else plain_metadata(metadata)
    with opened(base_model, score, classes, calibrator, signature, input_example, serialization_format) as base:
        packaged = calibrator.with_base_model(base_record(base.facts, embed))
        model = model_meta(base, packaged, signature, bundle_runtime, metadata, mlflow_model)
        model.flavors[FLAVOR_NAME] |= {"extra_files": names} if (names := extra_file_names(extra_files)) else {}
        lines = (pip_requirements, extra_pip_requirements, conda_env)
        environment = environment_arguments(base.folder, bundle_runtime, *lines)
        make_folder(folder)
        write_artifact(
            folder, base.folder, packaged, model, input_example, bundle_runtime, embed, environment, code_paths
        )
        copy_extra_files(extra_files, folder)


def log_model(
    base_model: Any,
    calibrator: Calibrator,
    name: str = "model",
    *,
    score: Score = "auto",
    classes: Sequence[Any] | None = None,
    bundle_runtime: bool = True,
    embed: bool = True,
    registered_model_name: str | None = None,
    await_registration_for: int = 300,
    signature: Any = None,
    input_example: Any = None,
    code_paths: Sequence[str] | None = None,
    extra_files: Sequence[str] | None = None,
    conda_env: Any = None,
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
    params, metadata = dict(params or {}), None if metadata is None else plain_metadata(metadata)
    with opened(base_model, score, classes, calibrator, signature, input_example, serialization_format) as base:
        to_log, ours = base, travelling_tags(calibrator.with_base_model(base_record(base.facts, embed)).to_dict())
        tags = {**ours, **(tags or {})}
        if run_id is not None and model_id is None:
            model_id = _model_of_run(run_id, name, params, tags, model_type, step)
            to_log, run_id = replace(base, run_id=run_id), None
        info = Model.log(
            artifact_path=None,
            name=name,
            flavor=sys.modules[__name__],
            registered_model_name=registered_model_name,
            await_registration_for=await_registration_for,
            metadata=metadata,
            run_id=run_id,
            model_type=model_type,
            params=params,
            tags=tags,
            step=step,
            model_id=model_id,
            base_model=to_log,
            calibrator=calibrator,
            bundle_runtime=bundle_runtime,
            embed=embed,
            signature=signature,
            input_example=input_example,
            code_paths=code_paths,
            extra_files=extra_files,
            conda_env=conda_env,
            pip_requirements=pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
        )
    _tag_registered(info, registered_model_name, ours)
    return info


def _tag_registered(info: Any, name: str | None, tags: Mapping[str, str]) -> None:
    """Set the facts of the calibrator as tags of the version that was registered, if one was."""
    import mlflow

    if name is not None and info.registered_model_version is not None:
        tag_version(mlflow.MlflowClient(), name, str(info.registered_model_version), tags)


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
    document = dict(resolved.calibrator)
    calibrator = Calibrator.from_dict(document)
    base = load_pyfunc(str(base_folder(resolved)))
    served = mlflow.pyfunc.PyFuncModel(model_meta_of(resolved.local_path), runtime.CalibratedPyfunc(base, document))
    return CalibratedModel(base, calibrator, served)
