"""What Airflow asks every installed provider: its operators, its hook and the form of its connection.

Every Airflow process calls this, so nothing is imported here.
"""

from __future__ import annotations

from typing import Any

INTEGRATION = "mlflow-calib"
OPERATORS = ("evaluate", "fit", "gate", "promote", "score", "split")


def get_provider_info() -> dict[str, Any]:
    """Describe the provider in the words of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "mlflow-calib",
        "name": "MLflow calibration",
        "description": "Recalibrate MLflow models, bound their calibration error on unseen data, gate their promotion.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["ml"]}],
        "operators": [
            {
                "integration-name": INTEGRATION,
                "python-modules": [f"mlflow_calib.provider.operators.{name}" for name in OPERATORS],
            }
        ],
        "hooks": [{"integration-name": INTEGRATION, "python-modules": ["mlflow_calib.provider.hooks.mlflow"]}],
        "connection-types": [_connection_type()],
    }


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "mlflow",
        "hook-class-name": "mlflow_calib.provider.hooks.mlflow.MlflowHook",
        "hook-name": "MLflow",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"host": "Tracking server", "schema": "Path", "login": "User name"},
            "placeholders": {
                "host": "https://mlflow.example.com",
                "schema": "path below the host, if any",
                "port": "empty: the one of the scheme",
            },
        },
        "conn-fields": {
            "registry_uri": {
                "label": "Registry URI",
                "description": "Empty: the tracking server is the registry too.",
                "schema": {"type": ["string", "null"]},
            },
            "token": {
                "label": "Access token",
                "description": "In place of user name and password.",
                "schema": {"type": ["string", "null"], "format": "password"},
            },
            "verify": {
                "label": "Verify TLS",
                "description": "true, false, or the path of a CA bundle.",
                "schema": {"type": ["string", "null"]},
            },
        },
    }
