"""Score, split, fit, evaluate, gate, promote: plain functions that hand each other small JSON-able records."""
