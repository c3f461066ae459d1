"""The command line: ``mlflow-calib score | split | fit | evaluate | gate | promote``, each a step, and ``plan``."""

from __future__ import annotations

from mlflow_calib.cli.main import main

__all__ = ["main"]
