"""Calibrated MLflow models with a calibration error that is shown on unseen data before promotion.

Names load on first use (PEP 562): importing the package imports neither MLflow, Airflow nor matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "BinningScheme": "mlflow_calib.core.binning",
    "BinStatistics": "mlflow_calib.core.bin_statistics",
    "Calibrator": "mlflow_calib.core.calibrator",
    "CalibrationEstimate": "mlflow_calib.core.estimators",
    "MlflowServer": "mlflow_calib.flavor.tracking",
    "Policy": "mlflow_calib.core.policy",
    "Verdict": "mlflow_calib.core.verdict",
    "estimate_calibration_error": "mlflow_calib.core.estimators",
    "fit_calibrator": "mlflow_calib.core.calibrator",
    "get_default_conda_env": "mlflow_calib.flavor.model",
    "get_default_pip_requirements": "mlflow_calib.flavor.model",
    "judge": "mlflow_calib.core.verdict",
    "load_model": "mlflow_calib.flavor.model",
    "log_model": "mlflow_calib.flavor.model",
    "save_model": "mlflow_calib.flavor.model",
    "_load_pyfunc": "mlflow_calib.flavor.model",
}
_SUBMODULES = ("core", "data", "flavor", "report", "steps", "errors", "runtime")

__all__ = ["__version__", *sorted(name for name in _HOMES if not name.startswith("_"))]  # noqa: PLE0604

if TYPE_CHECKING:
    from mlflow_calib.core.bin_statistics import BinStatistics as BinStatistics
    from mlflow_calib.core.binning import BinningScheme as BinningScheme
    from mlflow_calib.core.calibrator import Calibrator as Calibrator
    from mlflow_calib.core.calibrator import fit_calibrator as fit_calibrator
    from mlflow_calib.core.estimators import CalibrationEstimate as CalibrationEstimate
    from mlflow_calib.core.estimators import estimate_calibration_error as estimate_calibration_error
    from mlflow_calib.core.policy import Policy as Policy
    from mlflow_calib.core.verdict import Verdict as Verdict
    from mlflow_calib.core.verdict import judge as judge
    from mlflow_calib.flavor.model import load_model as load_model
    from mlflow_calib.flavor.model import log_model as log_model
    from mlflow_calib.flavor.model import save_model as save_model
    from mlflow_calib.flavor.tracking import MlflowServer as MlflowServer


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"mlflow_calib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_SUBMODULES])
