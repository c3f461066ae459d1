"""A fitted object of any library that MLflow has a flavor for, saved by that flavor."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from pathlib import Path
from typing import Any

from mlflow_calib.errors import InvalidInputError, ModelError

#: Package that an object's class comes from, and the flavor that saves it.
FLAVORS = {
    "xgboost": "mlflow.xgboost",
    "lightgbm": "mlflow.lightgbm",
    "catboost": "mlflow.catboost",
    "torch": "mlflow.pytorch",
    "onnx": "mlflow.onnx",
    "keras": "mlflow.keras",
    "pyspark": "mlflow.spark",
    "statsmodels": "mlflow.statsmodels",
    "sklearn": "mlflow.sklearn",
}
#: Flavors that save in a format of choice.
_FORMATS = {
    "mlflow.sklearn": 'pass serialization_format="cloudpickle"',
    "mlflow.lightgbm": 'pass serialization_format="cloudpickle"',
    "mlflow.pytorch": 'pass input_example, an array of the input\'s shape and type, or serialization_format="pickle"',
}


def flavor_of(model: Any) -> str:
    """Module of the MLflow flavor that saves this object; what looks like scikit-learn's goes to that."""
    packages = [one_class.__module__.partition(".")[0] for one_class in type(model).__mro__]
    if "mlflow" in packages:
        raise ModelError(
            f"base_model is MLflow's own {type(model).__name__}; log it with mlflow.pyfunc.log_model, or give the URI "
            "it was loaded from"
        )
    found = next((FLAVORS[name] for name in packages if name in FLAVORS), None)
    if found is None and not hasattr(model, "predict"):
        raise ModelError(
            f"base_model must be a fitted model of {', '.join(sorted(FLAVORS))}, a model URI or a folder, "
            f"got {type(model).__name__}"
        )
    return found or "mlflow.sklearn"


def save_object(model: Any, folder: Path, signature: Any, input_example: Any, serialization_format: str | None) -> None:
    """Save a fitted object as MLflow does, its requirements given, so that none are inferred.

    Raises
    ------
    ModelError
        MLflow has no flavor for it, or that flavor refuses it.
    InvalidInputError
        ``serialization_format`` is given where the library has one format.
    """
    from mlflow.exceptions import MlflowException

    name = flavor_of(model)
    if serialization_format is not None and name not in _FORMATS:
        raise InvalidInputError(f"serialization_format is for {', '.join(_FORMATS)}, and this model goes to {name}")
    options = {} if serialization_format is None else {"serialization_format": serialization_format}
    flavor = importlib.import_module(name)
    folder.mkdir(parents=True, exist_ok=True)  # mlflow.keras writes the input example before it makes the folder
    try:
        flavor.save_model(
            model,
            str(folder),
            signature=signature,
            input_example=input_example,
            pip_requirements=_requirements(flavor, model, serialization_format),
            **options,
        )
    except MlflowException as error:
        remedy = f"{_FORMATS[name]}, or " if name in _FORMATS else ""
        raise ModelError(
            f"MLflow cannot save this {type(model).__name__} ({error.message}); "
            f"{remedy}log it with {name}.log_model and pass its URI"
        ) from error


def _requirements(flavor: Any, model: Any, serialization_format: str | None) -> list[str] | None:
    """The flavor's default lines, those of the format, and scikit-learn where the object is built on it.

    None leaves them to MLflow, where the flavor has no defaults.
    """
    if not hasattr(flavor, "get_default_pip_requirements"):
        return None
    packages = {one_class.__module__.partition(".")[0] for one_class in type(model).__mro__}
    options = {}
    if "sklearn" in packages or serialization_format is not None:
        default = inspect.signature(flavor.save_model).parameters.get("serialization_format")
        # where the default depends on the place, it is skops outside Databricks
        chosen = serialization_format or (default is not None and default.default) or "skops"
        wanted = f"include_{chosen}"
        options = {wanted: True} if wanted in inspect.signature(flavor.get_default_pip_requirements).parameters else {}
    lines: list[str] = list(flavor.get_default_pip_requirements(**options))
    if "sklearn" in packages and not any(line.startswith("scikit-learn") for line in lines):
        lines.append(f"scikit-learn=={importlib.metadata.version('scikit-learn')}")
    return lines
