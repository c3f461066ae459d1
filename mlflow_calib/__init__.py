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
    "accuracy": "mlflow_calib.core.ranking",
    "area_under_curve": "mlflow_calib.core.ranking",
    "brier_score": "mlflow_calib.core.proper_losses",
    "equal_width": "mlflow_calib.core.binning",
    "estimate_calibration_error": "mlflow_calib.core.estimators",
    "expected_calibration_error": "mlflow_calib.core.classic_errors",
    "fit_calibrator": "mlflow_calib.core.calibrator",
    "get_default_conda_env": "mlflow_calib.flavor.model",
    "get_default_pip_requirements": "mlflow_calib.flavor.model",
    "judge": "mlflow_calib.core.verdict",
    "load_model": "mlflow_calib.flavor.model",
    "log_loss": "mlflow_calib.core.proper_losses",
    "log_model": "mlflow_calib.flavor.model",
    "mean_squared_error": "mlflow_calib.core.proper_losses",
    "mse_decomposition": "mlflow_calib.core.proper_losses",
    "noise_floor_of": "mlflow_calib.core.planning",
    "ranking_before_and_after": "mlflow_calib.core.ranking",
    "refinement": "mlflow_calib.core.proper_losses",
    "rows_for_balance": "mlflow_calib.core.theory",
    "rows_to_fit": "mlflow_calib.core.planning",
    "rows_to_verify": "mlflow_calib.core.planning",
    "save_model": "mlflow_calib.flavor.model",
    "smooth_calibration_error": "mlflow_calib.core.smooth_error",
    "sweep_calibration_error": "mlflow_calib.core.classic_errors",
    "tied_pairs": "mlflow_calib.core.ranking",
    "uniform_mass": "mlflow_calib.core.binning",
    "well_balancedness": "mlflow_calib.core.theory",
    "_load_pyfunc": "mlflow_calib.flavor.model",
}
_SUBMODULES = ("core", "data", "flavor", "report", "steps", "errors", "runtime")

__all__ = ["__version__", *sorted(name for name in _HOMES if not name.startswith("_"))]  # noqa: PLE0604

if TYPE_CHECKING:
    from mlflow_calib.core.bin_statistics import BinStatistics as BinStatistics
    from mlflow_calib.core.binning import BinningScheme as BinningScheme
    from mlflow_calib.core.binning import equal_width as equal_width
    from mlflow_calib.core.binning import uniform_mass as uniform_mass
    from mlflow_calib.core.calibrator import Calibrator as Calibrator
    from mlflow_calib.core.calibrator import fit_calibrator as fit_calibrator
    from mlflow_calib.core.classic_errors import expected_calibration_error as expected_calibration_error
    from mlflow_calib.core.classic_errors import sweep_calibration_error as sweep_calibration_error
    from mlflow_calib.core.estimators import CalibrationEstimate as CalibrationEstimate
    from mlflow_calib.core.estimators import estimate_calibration_error as estimate_calibration_error
    from mlflow_calib.core.planning import noise_floor_of as noise_floor_of
    from mlflow_calib.core.planning import rows_to_fit as rows_to_fit
    from mlflow_calib.core.planning import rows_to_verify as rows_to_verify
    from mlflow_calib.core.policy import Policy as Policy
    from mlflow_calib.core.proper_losses import brier_score as brier_score
    from mlflow_calib.core.proper_losses import log_loss as log_loss
    from mlflow_calib.core.proper_losses import mean_squared_error as mean_squared_error
    from mlflow_calib.core.proper_losses import mse_decomposition as mse_decomposition
    from mlflow_calib.core.proper_losses import refinement as refinement
    from mlflow_calib.core.ranking import accuracy as accuracy
    from mlflow_calib.core.ranking import area_under_curve as area_under_curve
    from mlflow_calib.core.ranking import ranking_before_and_after as ranking_before_and_after
    from mlflow_calib.core.ranking import tied_pairs as tied_pairs
    from mlflow_calib.core.smooth_error import smooth_calibration_error as smooth_calibration_error
    from mlflow_calib.core.theory import rows_for_balance as rows_for_balance
    from mlflow_calib.core.theory import well_balancedness as well_balancedness
    from mlflow_calib.core.verdict import Verdict as Verdict
    from mlflow_calib.core.verdict import judge as judge
    from mlflow_calib.flavor.model import get_default_conda_env as get_default_conda_env
    from mlflow_calib.flavor.model import get_default_pip_requirements as get_default_pip_requirements
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
