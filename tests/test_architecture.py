"""Imports run down only: every import of every file, read with ast, against the floors of the design."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mlflow_calib"

#: Floors from the ground up; a file imports from its own floor's folder and from lower floors, never sideways.
FLOORS = [
    *(["errors", "runtime"], ["core"], ["data"], ["flavor", "report"], ["steps"]),
    ["provider", "cli", "guard", "evaluator"],
]
HEIGHT = {name: height for height, names in enumerate(FLOORS) for name in names}

#: Third-party libraries a floor may import, on top of those of the floors below it.
LIBRARIES = {
    "errors": set(),
    "runtime": {"numpy", "pandas", "mlflow", "yaml"},  # yaml: MLflow's own
    "core": {"numpy", "scipy"},
    "data": {"numpy", "scipy", "pyarrow", "pandas", "fsspec", "tomli"},
    "flavor": {"numpy", "scipy", "pyarrow", "pandas", "fsspec", "mlflow", "sklearn", "yaml"},  # yaml: MLflow's own
    "report": {"numpy", "scipy", "matplotlib"},
    "steps": {"numpy", "scipy", "pyarrow", "pandas", "mlflow", "tqdm"},
    "provider": {"airflow", "mlflow", "jinja2"},  # jinja2: Airflow's own
    "cli": {"numpy"},
    "evaluator": {"numpy", "pandas", "mlflow", "PIL"},  # PIL: matplotlib's own
    "guard": {"mlflow", "sqlalchemy"},  # sqlalchemy: MLflow's own
}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def floor_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """Module name and line of every import, inside functions too, relative ones made absolute."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            assert node.module is not None
            if node.module == "mlflow_calib":
                yield from ((f"mlflow_calib.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_down_only(path: Path) -> None:
    floor = floor_of(path)
    wrong = []
    for module, line in imports_of(path):
        parts = module.split(".")
        if parts[0] == "mlflow_calib":
            other = parts[1] if len(parts) > 1 else ""
            if other.startswith("__") or other == floor:
                continue
            if HEIGHT.get(other, 99) >= HEIGHT[floor]:
                wrong.append(f"line {line}: {module} is not below {floor}/")
        elif parts[0] not in sys.stdlib_module_names and parts[0] not in LIBRARIES[floor]:
            wrong.append(f"line {line}: {floor}/ may not import {parts[0]}")
    assert not wrong, "\n".join(wrong)


def test_runtime_never_imports_the_package() -> None:
    """The runtime is bundled into artifacts that serve where mlflow-calib is not installed."""
    modules = {module.split(".")[0] for module, _ in imports_of(PACKAGE / "runtime.py")}
    assert "mlflow_calib" not in modules


def test_mlflow_public_api_only() -> None:
    private = [
        f"{path}:{line} {module}"
        for path in FILES
        for module, line in imports_of(path)
        if module.split(".")[0] in {"mlflow", "airflow"} and any(part.startswith("_") for part in module.split("."))
    ]
    assert not private, "\n".join(private)


def modules_after(statement: str) -> set[str]:
    """Top-level modules a fresh process holds after the statement."""
    code = f"import sys\n{statement}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    return set(output.stdout.split())


def test_importing_the_package_is_cheap() -> None:
    heavy = {"airflow", "matplotlib", "mlflow", "pandas", "pyarrow", "sklearn", "pyspark"}
    assert not heavy & modules_after("import mlflow_calib")


def test_core_needs_numpy_and_scipy_alone() -> None:
    heavy = {"airflow", "matplotlib", "mlflow", "pandas", "pyarrow", "sklearn", "fsspec"}
    assert not heavy & modules_after("import mlflow_calib as mc; mc.fit_calibrator, mc.judge, mc.BinStatistics")
