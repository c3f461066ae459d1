"""The command line ``mlflow-calib``: a command for each step from ``score`` to ``history``, ``policy`` and ``plan``."""

from __future__ import annotations

from mlflow_calib.cli.main import main

__all__ = ["main"]
