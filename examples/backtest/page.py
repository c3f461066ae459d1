"""Where a backtest is written: to a folder, and with ``--docs`` into its section of docs/backtest.md."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from examples.paper.common import DATA_DEFAULT, DATA_VARIABLE, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Options:
    """Folder of real data, folder to write to, and the folder of the documentation where that is rewritten too."""

    data: Path
    output: Path
    docs: Path | None


def options_of(description: str | None, argv: Sequence[str] | None) -> Options:
    """Read the command line that both backtests have."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    data = os.environ.get(DATA_VARIABLE, DATA_DEFAULT)
    parser.add_argument("--data", type=Path, default=Path(data), help=f"real data; default {DATA_VARIABLE} or {data}")
    parser.add_argument("--output", type=Path, default=Path(".backtest"), help="table and figure; default .backtest")
    parser.add_argument(
        "--docs", action="store_true", help="rewrite the section of docs/backtest.md and its figure too"
    )
    given = parser.parse_args(argv)
    return Options(given.data, given.output, DOCS if given.docs else None)


def publish(options: Options, name: str, parts: Sequence[str], figure: Figure) -> None:
    """Print, and write ``name``.md and ``name``.png; in the documentation between the section's two markers."""
    text = "\n\n".join(parts)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    save(figure, options.output / f"{name}.png")
    print(text)
    if options.docs is not None:
        page = options.docs / "backtest.md"
        page.write_text(with_section(page.read_text(encoding="utf-8"), name, text), encoding="utf-8")
        save(figure, options.docs / "images" / f"backtest_{name}.png")


def with_section(page: str, name: str, text: str) -> str:
    """The page with one section replaced; the rest stays to the letter.

    >>> with_section("before <!-- x --> old <!-- /x --> after", "x", "new").splitlines()
    ['before <!-- x -->', '', 'new', '', '<!-- /x --> after']
    """
    first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, _, rest = page.partition(first)
    _, found, after = rest.partition(last)
    if not found:
        raise SystemExit(f"docs/backtest.md must hold the markers {first} and {last}")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"
