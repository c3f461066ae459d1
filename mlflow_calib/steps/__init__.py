"""Score, split, fit, evaluate, gate, promote, and what comes after: plain functions that hand on JSON-able records.

``from mlflow_calib.steps import fit`` gives the function; nothing heavy is imported before it is asked for.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

STEPS = ("score", "split", "fit", "evaluate", "gate", "promote", "rollback", "override", "history")

if TYPE_CHECKING:
    from mlflow_calib.steps.evaluate import evaluate as evaluate
    from mlflow_calib.steps.fit import fit as fit
    from mlflow_calib.steps.gate import gate as gate
    from mlflow_calib.steps.history import history as history
    from mlflow_calib.steps.override import override as override
    from mlflow_calib.steps.promote import promote as promote
    from mlflow_calib.steps.rollback import rollback as rollback
    from mlflow_calib.steps.score import score as score
    from mlflow_calib.steps.split import split as split


class _Steps(ModuleType):
    """The package as a module whose steps stay functions: a file of the same name, once imported, would hide them."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in STEPS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in STEPS:
            return getattr(importlib.import_module(f"{self.__name__}.{name}"), name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted([*self.__dict__, *STEPS])


sys.modules[__name__].__class__ = _Steps
