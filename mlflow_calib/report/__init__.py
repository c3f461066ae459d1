"""Figures, drawn where people would rather look than read."""
