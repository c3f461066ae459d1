"""The command line: each step as one command, ``mlflow-calib score | split | fit | evaluate | gate | promote``."""

from __future__ import annotations

from mlflow_calib.cli.main import main

__all__ = ["main"]
