"""Operators of the provider, one file each."""
