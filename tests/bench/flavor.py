"""A calibrated model beside its base model, both as MLflow's pyfunc: what loading and predicting cost on top.

``python -m tests.bench.flavor`` measures and writes docs/serving.md; ``--reduced`` takes fewer rows and runs, and
prints alone. Runs are paired: base and calibrated model take turns, and what is shown is the median of the ratios, or
of the differences, of the pairs.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mlflow_calib as mc

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"
PAIRS = 15
BIG_MEGABYTES = 300
INTRODUCTION = """# What a calibrated model costs

`python -m tests.bench.flavor` measures this and writes the page. The calibrated model beside its base model, both
loaded by `mlflow.pyfunc.load_model`, in one process, taking turns; medians over {pairs} pairs. {machine}

"""
#: A model of one column that does next to nothing, written as code, so that nothing is pickled.
TRIVIAL = """import mlflow, pandas as pd


class Trivial(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: pd.DataFrame, params=None):
        return model_input["x"].to_numpy()


mlflow.models.set_model(Trivial())
"""


@dataclass(frozen=True)
class Line:
    """One figure with its unit and its limit."""

    what: str
    figure: float
    unit: str
    limit: float | None
    base: str

    def cells(self) -> tuple[str, ...]:
        """The line as the table has it."""
        met = "" if self.limit is None else ("yes" if self.figure <= self.limit else "no")
        limit = "" if self.limit is None else f"{self.limit:g}"
        return self.what, f"{self.figure:.3g}", self.unit, limit, met, self.base


def pairs(ours: Callable[[], Any], theirs: Callable[[], Any], n: int) -> list[tuple[float, float]]:
    """Seconds of both, taking turns; which comes first changes from pair to pair. One pair before is not counted."""
    ours(), theirs()
    found = []
    for turn in range(n):
        first, second = (ours, theirs) if turn % 2 else (theirs, ours)
        times = [seconds(first), seconds(second)]
        found.append((times[0], times[1]) if turn % 2 else (times[1], times[0]))
    return found


def seconds(action: Callable[[], Any]) -> float:
    """Seconds of the clock."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def ratio(what: str, found: list[tuple[float, float]], limit: float, calls: int = 1) -> Line:
    """Median of the ratios."""
    base = statistics.median(theirs for _, theirs in found) / calls
    return Line(
        what, statistics.median(ours / theirs for ours, theirs in found), "times", limit, f"{base * 1e3:.3g} ms"
    )


def difference(what: str, found: list[tuple[float, float]], limit: float, calls: int = 1) -> Line:
    """Median of the differences, in milliseconds a call."""
    base = statistics.median(theirs for _, theirs in found) / calls
    more = statistics.median(ours - theirs for ours, theirs in found) / calls
    return Line(what, more * 1e3, "ms more", limit, f"{base * 1e3:.3g} ms")


def boosted(folder: Path, n_rows: int) -> tuple[pd.DataFrame, dict[str, Path]]:
    """Rows of ten features, and the folders of gradient-boosted trees bare and calibrated."""
    import mlflow
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 10)), columns=[f"x{k}" for k in range(10)])
    taught = frame[:20_000]
    labels = (taught.sum(axis=1) + rng.normal(size=len(taught)) > 0).astype(int)
    base = HistGradientBoostingClassifier(max_iter=100).fit(taught, labels)
    mlflow.sklearn.save_model(
        base,
        folder / "trees",
        serialization_format="cloudpickle",  # skops, the default format, refuses this estimator
        pip_requirements=["scikit-learn"],
        signature=mlflow.models.infer_signature(taught, labels),
    )
    calibrator = mc.fit_calibrator(base.predict_proba(taught)[:, 1], labels, n_bins=10)
    mc.save_model(folder / "trees", calibrator, folder / "calibrated_trees")
    return frame, {"base": folder / "trees", "calibrated": folder / "calibrated_trees"}


def trees(folder: Path, sizes: tuple[int, ...], n: int) -> Iterator[Line]:
    """Loading, and predicting 1, 1,000 and 1,000,000 rows."""
    import mlflow

    frame, folders = boosted(folder, max(sizes))
    load = {kind: (lambda path=path: mlflow.pyfunc.load_model(str(path))) for kind, path in folders.items()}
    yield difference("load, boosted trees", pairs(load["calibrated"], load["base"], n), 20.0)
    models = {kind: load[kind]() for kind in folders}
    for size in sizes:
        rows = frame[:size]
        calls = max(1, 200 // size)

        def predict(kind: str, rows: pd.DataFrame = rows, calls: int = calls) -> Callable[[], Any]:
            return lambda: [models[kind].predict(rows) for _ in range(calls)]

        found = pairs(predict("calibrated"), predict("base"), n)
        yield ratio(f"predict {size:,} row{'s' * (size > 1)}, boosted trees", found, 1.1, calls)


def trivial(folder: Path, n: int) -> Iterator[Line]:
    """One row through a model that does nothing."""
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    (folder / "trivial.py").write_text(TRIVIAL)
    signature = ModelSignature(inputs=Schema([ColSpec("double", "x")]), outputs=Schema([ColSpec("double")]))
    mlflow.pyfunc.save_model(
        folder / "trivial", python_model=str(folder / "trivial.py"), signature=signature, pip_requirements=["numpy"]
    )
    scores = np.random.default_rng(0).uniform(size=2_000)
    calibrator = mc.fit_calibrator(scores, scores > 0.5, n_bins=10, method="histogram-binning")
    mc.save_model(folder / "trivial", calibrator, folder / "calibrated_trivial", score="probability")
    models = [mlflow.pyfunc.load_model(str(folder / name)) for name in ("calibrated_trivial", "trivial")]
    row, calls = pd.DataFrame({"x": [0.25]}), 200
    ours, theirs = (lambda model=model: [model.predict(row) for _ in range(calls)] for model in models)
    yield difference("predict 1 row, a base that does nothing", pairs(ours, theirs, n), 0.1, calls)


def big(folder: Path, megabytes: int) -> Iterator[Line]:
    """A huge base model: bytes of the artifact beside those of its base, and what is left in the temporary folder."""
    import mlflow

    (folder / "trivial.py").write_text(TRIVIAL)
    blob = folder / "blob.bin"
    blob.write_bytes(os.urandom(1 << 20) * megabytes)
    mlflow.pyfunc.save_model(
        folder / "big",
        python_model=str(folder / "trivial.py"),
        artifacts={"blob": str(blob)},
        pip_requirements=["numpy"],
    )
    scores = np.random.default_rng(0).uniform(size=2_000)
    calibrator = mc.fit_calibrator(scores, scores > 0.5, n_bins=10, method="histogram-binning")
    scratch = folder / "tmp"
    scratch.mkdir()
    before, tempfile.tempdir = tempfile.tempdir, str(scratch)
    try:
        took = seconds(lambda: mc.save_model(folder / "big", calibrator, folder / "out", score="probability"))
        mlflow.pyfunc.load_model(str(folder / "out"))
        left = size_of(scratch)
    finally:
        tempfile.tempdir = before
    base, whole = size_of(folder / "big"), size_of(folder / "out")
    note = f"{base / 2**20:.0f} MB"
    yield Line(f"save a base of {megabytes} MB", took, "s", None, note)
    yield Line("its artifact beside the base", whole / base, "times", 1.01, note)
    yield Line("left in the temporary folder after saving and loading", left / 2**20, "MB", 0.0, note)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(reduced: bool) -> Iterator[Line]:
    """Every figure, in the order of the page."""
    n = 3 if reduced else PAIRS
    with tempfile.TemporaryDirectory() as folder:
        yield from trees(Path(folder), (1, 1_000, 20_000) if reduced else (1, 1_000, 1_000_000), n)
    with tempfile.TemporaryDirectory() as folder:
        yield from trivial(Path(folder), n)
    with tempfile.TemporaryDirectory() as folder:
        yield from big(Path(folder), 30 if reduced else BIG_MEGABYTES)


def page(lines: list[Line]) -> str:
    """The text of docs/serving.md."""
    names = ", ".join(f"{name} {version(name)}" for name in ("mlflow", "scikit-learn", "numpy", "pandas"))
    machine = (
        f"Measured {time.strftime('%Y-%m-%d', time.gmtime())}\non {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, {names}; load at the end {os.getloadavg()[0]:.1f}."
    )
    heads = ("what", "figure", "unit", "limit", "met", "the base itself")
    rows = [heads, ("---", "--:", "---", "--:", "---", "--:"), *(line.cells() for line in lines)]
    return INTRODUCTION.format(pairs=PAIRS, machine=machine) + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Measure, print, and write the page unless reduced."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.flavor")
    parser.add_argument("--reduced", action="store_true", help="fewer rows and runs; prints alone")
    reduced = parser.parse_args().reduced
    warnings.simplefilter("ignore")
    lines = []
    for line in measured(reduced):
        print("  ".join(line.cells()), flush=True)
        lines.append(line)
    if not reduced:
        PAGE.write_text(page(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
