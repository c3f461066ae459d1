"""`python -m examples.paper` lists the figures; `python -m examples.paper.figure3 --help` says how to draw one."""

from __future__ import annotations

import ast
from pathlib import Path

#: Modules that draw a figure, in the order of the paper.
FIGURES = ("figure3", "top_label", "synthetic", "noisy", "catch_up", "equal_width", "debiased")


def listing() -> str:
    """One line a figure: its command and what it shows."""
    lines = []
    for name in FIGURES:
        source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        words = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
        lines.append(f"  python -m examples.paper.{name:<12} {words}")
    return "\n".join(
        ["Each writes a table (.md) and a figure (.png) to .paper/; --data says where the scores are:", *lines]
    )


if __name__ == "__main__":
    print(listing())
