"""The Airflow provider: a hook for MLflow servers, and one operator for each step."""
