"""The demo's own lines, with a progress bar beneath them where somebody watches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from tqdm import tqdm


class Progress:
    """Lines that stay, and a bar that moves where the output is a terminal."""

    def __init__(self, terminal: TextIO, n_steps: int) -> None:
        self._terminal = terminal
        self._bar = tqdm(
            total=n_steps,
            file=terminal,
            disable=not terminal.isatty(),
            leave=False,
            bar_format="{percentage:3.0f}% |{bar:24}| {elapsed} {desc}",
        )

    def start(self, what: str) -> None:
        """Say what runs now."""
        self._bar.set_description_str(what)

    def done(self) -> None:
        """Move the bar by one step."""
        self._bar.update()

    def write(self, lines: Iterable[str]) -> None:
        """Print lines above the bar."""
        self._bar.clear()
        self._terminal.writelines(f"{line}\n" for line in lines)
        self._terminal.flush()
        self._bar.refresh()

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
