"""What ``import mlflow_calib`` offers: every name loads when asked for, the figures without MLflow or pandas."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import mlflow_calib as mc

FIGURES = (
    "accuracy", "area_under_curve", "brier_score", "expected_calibration_error", "log_loss", "mean_squared_error",
    "mse_decomposition", "ranking_before_and_after", "refinement", "smooth_calibration_error",
    "sweep_calibration_error", "tied_pairs", "noise_floor_of", "rows_for_balance", "rows_to_fit", "rows_to_verify",
    "well_balancedness", "equal_width", "uniform_mass",
)  # fmt: skip


def test_every_name_loads() -> None:
    assert {*FIGURES} <= {*mc.__all__}
    for name in mc.__all__:
        assert getattr(mc, name) is not None
        assert name in dir(mc)


def test_figures_load_the_core_alone() -> None:
    code = f"import sys, mlflow_calib as mc; [getattr(mc, n) for n in {FIGURES!r}]; "
    code += "print(*({'mlflow', 'pandas', 'pyarrow', 'airflow', 'matplotlib'} & {*sys.modules}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_type_checkers_see_the_same_names() -> None:
    source = Path(mc.__file__).read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname for node in imports for alias in node.names if alias.asname}
    assert seen == {name for name in mc.__all__ if name != "__version__"}
