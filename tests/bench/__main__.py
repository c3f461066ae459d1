"""Speed and memory beside a peer or a limit: prints a line a measurement and writes docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import mlflow_calib as mc
from tests.bench import speed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
COLUMNS = ("what", "ours", "beside", "theirs", "ratio", "ratio, processor", "target", "met")

INTRODUCTION = """# Speed and memory

`make bench` measures this and writes the page. One process after another on one machine; ratios are theirs over ours,
so that more is better for us, and hold better across machines than seconds do. "Processor" is the same ratio in
processor time over all threads, which other users of the machine disturb less.

{machine}

"""

NUMERICS = """## Numerics

1,000,000 rows of 10 classes, 100 bins; log odds between true classes are stretched by 1.3. Medians of {repeats}
interleaved runs, {quick} where they are short; a peer marked so ran once. Fits use every row in every step, as
uncertainty-calibration does, whose estimate is of our calibrator's outputs. scikit-learn fits sigmoids alone, without
bins: `CalibratedClassifierCV` of a frozen model that costs nothing. Peak memory is of a process of its own, over what
it held before scores and labels ({size:.0f} MB, counted in) were there; "processor" is empty beside a limit.

"""

SERVING = """
## Serving

One binary calibrator with 10 bins on boosted trees over ten features: the calibrated pyfunc model beside its base
model's pyfunc. A ratio of 1 says that calibration costs nothing.

"""


def serving(folder: Path) -> Iterator[speed.Line]:
    """Calibrated pyfunc model against its base model, boosted trees on ten features."""
    import mlflow

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200_000, 10)), columns=[f"x{k}" for k in range(10)])
    labels = (frame.sum(axis=1) + rng.normal(size=len(frame)) > 0).astype(int)
    base = HistGradientBoostingClassifier(max_iter=100).fit(frame[:20_000], labels[:20_000])
    calibrator = mc.fit_calibrator(base.predict_proba(frame)[:, 1], labels, n_bins=10)
    # skops, the default format, refuses this estimator
    mlflow.sklearn.save_model(
        base, folder / "base", serialization_format="cloudpickle", pip_requirements=["scikit-learn"]
    )
    mc.save_model(str(folder / "base"), calibrator, folder / "calibrated")
    models = {kind: mlflow.pyfunc.load_model(str(folder / kind)) for kind in ("base", "calibrated")}

    def load(kind: str) -> Callable[[], object]:
        return lambda: mlflow.pyfunc.load_model(str(folder / kind))

    def predict(kind: str, rows: pd.DataFrame) -> Callable[[], object]:
        return lambda: models[kind].predict(rows)

    yield speed.beside("load a calibrated model", load("calibrated"), "its base model", load("base"))
    for n in (1, 1_000, 200_000):
        actions = (predict(kind, frame[:n]) for kind in ("calibrated", "base"))
        yield speed.beside(f"pyfunc predict, {n:,} row{'s' * (n > 1)}", next(actions), "its base model", next(actions))


def machine(loads: Sequence[float]) -> str:
    """Where and beside what this ran, in a sentence each."""
    names = ("numpy", "scipy", "scikit-learn", "uncertainty-calibration", "mlflow")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    low, high = min(loads), max(loads)
    return (
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()},\n{versions}.\n"
        f"Load of the machine while this ran: {low:.1f} to {high:.1f} (1 is this benchmark alone)."
    )


def table(lines: Sequence[speed.Line]) -> str:
    """Lines as a Markdown table."""
    rows = [COLUMNS, ("---", "--:", "---", "--:", "--:", "--:", "--:", "---"), *(line.cells() for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Measure, print, write."""
    warnings.simplefilter("ignore")
    loads: list[float] = []

    def watched(lines: Iterator[speed.Line]) -> list[speed.Line]:
        kept = []
        for line in speed.printed(lines):
            kept.append(line)
            loads.append(os.getloadavg()[0])
        return kept

    numerics = watched(speed.measured())
    with tempfile.TemporaryDirectory() as folder:
        served = watched(serving(Path(folder)))
    size = (speed.N * (speed.N_CLASSES + 1) * 8) / 2**20
    numbers = NUMERICS.format(repeats=speed.REPEATS, quick=speed.QUICK_REPEATS, size=size)
    head = INTRODUCTION.format(machine=machine(loads)) + numbers
    PAGE.write_text(head + table(numerics) + SERVING + table(served))


if __name__ == "__main__":
    main()
