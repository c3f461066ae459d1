"""The registry guard: a registry store for ``mlflow server`` that lets nobody point a guarded alias past the gate.

MLflow imports this module in every process that opens a registry, so it imports nothing; the store does.
"""

from __future__ import annotations

from typing import Any

__all__ = ["guarded_store"]

SCHEME = "calib-gate+"


def guarded_store(store_uri: str, tracking_uri: str | None = None) -> Any:
    """The guarded registry store behind ``calib-gate+<database URI>``; MLflow calls this through its entry points.

    Parameters
    ----------
    store_uri
        ``calib-gate+`` and a database URI as MLflow takes it, such as ``calib-gate+sqlite:////data/mlflow.db``.
    tracking_uri
        Where runs and logged models are looked up outside a server; in a server its own tracking store is used.
    """
    from mlflow_calib.guard.build import build_store

    return build_store(store_uri.removeprefix(SCHEME), tracking_uri)
