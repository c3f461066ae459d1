"""What every figure shares: its options, intervals, real scores, the table as Markdown and the figure as PNG."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.errors import CalibrationWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
METHODS = ("histogram-binning", "scaling-binning")
#: Half of a two-sided 90 % interval in standard errors, as in the paper.
Z_90 = 1.6448536269514722
DATA_VARIABLE, DATA_DEFAULT = "MLFLOW_CALIB_DATA", "../shared/data"


@dataclass(frozen=True)
class Settings:
    """Where the real scores are, where table and figure go, how often to draw, and from which seed."""

    data: Path
    output: Path
    trials: int
    seed: int


def settings_of(description: str | None, argv: Sequence[str] | None, trials: int) -> Settings:
    """Read the command line that all figures have."""
    lines = (description or "").strip().splitlines()
    parser = argparse.ArgumentParser(description=lines[0] if lines else None)
    data = os.environ.get(DATA_VARIABLE, DATA_DEFAULT)
    parser.add_argument("--data", type=Path, default=Path(data), help=f"real scores; default {DATA_VARIABLE} or {data}")
    parser.add_argument("--output", type=Path, default=Path(".paper"), help="table and figure go here; default .paper")
    parser.add_argument("--trials", type=int, default=trials, help=f"draws a setting; default {trials}, as published")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other draws; default 0")
    given = parser.parse_args(argv)
    if given.trials < 2:
        parser.error(f"--trials must be at least 2 to show an interval, got {given.trials}")
    return Settings(given.data, given.output, given.trials, given.seed)


@dataclass(frozen=True)
class Interval:
    """A mean with half the width of its 90 % interval."""

    mean: float
    half_width: float

    def text(self, scale: float = 1.0, digits: int = 2) -> str:
        """As a table shows it, multiplied by ``scale``.

        >>> Interval(0.000137, 0.000008).text(1e4)
        '1.37 ± 0.08'
        """
        return f"{self.mean * scale:.{digits}f} ± {self.half_width * scale:.{digits}f}"


def interval_90(values: Floats) -> Interval:
    """Mean over trials, shape (trials,)."""
    return Interval(float(values.mean()), float(Z_90 * values.std(ddof=1) / np.sqrt(len(values))))


def ratio_90(above: Floats, below: Floats) -> Interval:
    """Ratio of two means over trials by the delta method, whether trials are paired or independent."""
    ratio = above.mean() / below.mean()
    spread = (above - ratio * below).std(ddof=1) / below.mean()
    return Interval(float(ratio), float(Z_90 * spread / np.sqrt(len(above))))


def fit_as_published(scores: Any, labels: Any, method: str, n_bins: int, **options: Any) -> Calibrator:
    """Fit as the paper's experiments do: Platt scaling by log loss, the same rows for all three steps."""
    scaling = "platt" if method == "scaling-binning" else None
    return fit_calibrator(scores, labels, method=method, n_bins=n_bins, scaling=scaling, parts="shared", **options)


@contextmanager
def quiet() -> Iterator[None]:
    """Ties leave fewer bins, and 1,000 rows may separate a class: expected here, and the figures show the outcome."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        yield


def read_scores(settings: Settings, name: str) -> tuple[Floats, npt.NDArray[Any]]:
    """Scores (n, K) in float64 and labels (n,) of a Parquet file with columns p_0 .. p_K-1 and label."""
    import pyarrow.parquet as pq

    path = settings.data / f"{name}.parquet"
    if not path.exists():
        raise SystemExit(f"{path} is not there; docs/paper.md says where the file is public, --data where you keep it")
    table = pq.read_table(path)
    n_classes = sum(column.startswith("p_") for column in table.column_names)
    columns = [table[f"p_{k}"].to_numpy().astype(np.float64) for k in range(n_classes)]
    return np.column_stack(columns), table["label"].to_numpy()


def top_label(scores: Floats, labels: npt.NDArray[Any]) -> tuple[Floats, npt.NDArray[Any]]:
    """Confidence (n,) and whether the top label is correct, 0 or 1: the paper's own way to the binary problem."""
    return scores.max(axis=1), (scores.argmax(axis=1) == labels).astype(int)


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that lines up as plain text too."""
    cells = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "| " + " | ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def publish(settings: Settings, name: str, title: str, parts: Sequence[str], figure: Figure) -> None:
    """Print the tables, and write them as ``name``.md beside ``name``.png."""
    text = "\n\n".join([f"# {title}", *parts]) + "\n"
    settings.output.mkdir(parents=True, exist_ok=True)
    (settings.output / f"{name}.md").write_text(text, encoding="utf-8")
    save(figure, settings.output / f"{name}.png")
    print(text)
    print(f"written: {settings.output / name}.md and .png")


def save(figure: Figure, path: Path) -> None:
    """Write a PNG of 64 colours: a third of the bytes, and no difference to see in a line drawing."""
    from PIL import Image

    figure.savefig(path)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(64)
    small.save(path, optimize=True)
