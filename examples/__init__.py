"""Runnable examples; each folder has a README and is started from the repository's root."""
