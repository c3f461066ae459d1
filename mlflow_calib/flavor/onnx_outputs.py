"""Outputs of an ONNX graph: which of them hold numbers, and which one was declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.errors import ModelError


def onnx_outputs(raw: Any) -> dict[str, str]:
    """Names and types of the outputs of an ONNX session; empty of any other model."""
    if not (hasattr(raw, "get_outputs") and hasattr(raw, "run")):
        return {}
    return {str(one.name): str(one.type) for one in raw.get_outputs()}


def onnx_output(outputs: Mapping[str, str], column: str | int | None) -> str:
    """Name of the output that was declared by name or position, or that is the only one of numbers.

    Raises ModelError where it is none of numbers, with what there is.
    """
    names = list(outputs)
    if isinstance(column, int) and column < len(names):
        column = names[column]
    numbers = [name for name, kind in outputs.items() if "float" in kind or "double" in kind]
    if column is None and len(numbers) == 1:
        return numbers[0]
    if column not in numbers:
        raise ModelError(
            f"the ONNX model has no output of numbers named {column!r}; its outputs are {dict(outputs)}; "
            'give score=<name> where it holds probabilities, score={"logit": <name>} where it holds logits'
        )
    return str(column)
