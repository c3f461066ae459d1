"""Names of Airflow that moved between 3.1 and 3.3, from wherever they stand."""

from __future__ import annotations

try:
    from airflow.sdk import SkipMixin
    from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowFailException, AirflowNotFoundException, AirflowSkipException
    from airflow.providers.standard.utils.skipmixin import SkipMixin

__all__ = ["AirflowFailException", "AirflowNotFoundException", "AirflowSkipException", "SkipMixin"]
