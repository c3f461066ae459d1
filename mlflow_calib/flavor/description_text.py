"""The description of a calibrated model for people: a heading and a table a part."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Bins of one map, and maps, that are shown before the rest is counted.
_BINS, _MAPS = 20, 5


def description_text(description: Mapping[str, Any]) -> str:
    """The text of what `describe` returned.

    Edges and values of the first 5 maps are shown, 20 bins each; the JSON has them all.
    """
    calibrator = dict(description["calibrator"])
    maps = calibrator.pop("maps")
    parts: dict[str, Mapping[str, Any]] = {
        "model": description["model"],
        "base model": description["base_model"],
        "calibrator": calibrator,
        "recalibration data": description["data"],
        "recorded since": {**description["evaluation"]["metrics"], **description["evaluation"]["tags"]},
        "environment": description["environment"],
    }
    lines = [line for title, values in parts.items() for line in _part(title, values)]
    place = lines.index("recalibration data")
    return "\n".join([*lines[:place], *_maps(maps), *lines[place:]])


def _part(title: str, values: Mapping[str, Any]) -> list[str]:
    rows = [(name, _shown(value)) for name, value in _flat(values) if value not in (None, [], {})]
    if not rows:
        return [title, "  nothing"]
    width = max(len(name) for name, _ in rows)
    return [title, *(f"  {name:<{width}}  {text}" for name, text in rows)]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shown(value: Any) -> str:
    """A value as people read it.

    >>> _shown(20000), _shown(.04321987), _shown(True), _shown([1, 2])
    ('20,000', '0.04322', 'yes', '1, 2')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_shown(item) for item in value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _maps(maps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one_map in maps[:_MAPS]:
        whose = "" if one_map["class"] is None else f" of class {one_map['class']!r}"
        flags = f" ({', '.join(one_map['flags'])})" if one_map["flags"] else ""
        yield f"bins{whose}{flags}"
        yield from _scaling(one_map.get("scaling"))
        yield from _bins(one_map)
    if len(maps) > _MAPS:
        yield f"bins of {len(maps) - _MAPS} more classes: see the JSON"


def _scaling(scaling: Mapping[str, Any] | None) -> Iterator[str]:
    if scaling is None:
        return
    yield f"  family {scaling['family']}, {scaling.get('loss_name', 'log')} loss {scaling['loss']:.4g} on its rows"
    for rival in scaling.get("candidates", ()):
        mark = "chosen" if rival.get("chosen") else "rival"
        yield f"    {mark:<6}  {rival['family']:<12}  squared loss {rival['squared_loss']:.6g}"


def _bins(one_map: Mapping[str, Any]) -> Iterator[str]:
    edges = [None, *one_map["edges"], None]
    for place, (value, count) in enumerate(zip(one_map["values"], one_map["counts"], strict=True)):
        if place == _BINS:
            yield f"  {len(one_map['values']) - _BINS} more bins: see the JSON"
            return
        lower, upper = ("" if edge is None else f"{edge:.6g}" for edge in edges[place : place + 2])
        yield f"  ({lower:>10}, {upper:>10}]  value {value:.6g}  rows {count:,}"
