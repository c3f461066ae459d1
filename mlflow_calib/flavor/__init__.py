"""MLflow: the model flavor, the registry and the tracking server, on MLflow's public API alone."""
