"""The Airflow provider: hook, operators, links."""
