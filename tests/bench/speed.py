"""Numerics side by side with their peers on 1,000,000 x 10 scores, 100 bins: seconds and peak memory.

Seconds are of the clock and of the processor: the clock's ratio is what a user sees, the processor's stays the same on
a machine that others use too.

``python -m tests.bench.speed`` runs these alone. Peers: uncertainty-calibration 0.1.4, the paper's own code, and
scikit-learn. Peak memory is that of a process of its own, which the file starts as
``python -m tests.bench.speed TASK FOLDER``.
"""

from __future__ import annotations

import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mlflow_calib as mc
from mlflow_calib import runtime
from mlflow_calib.core.bootstrap import bootstrap_squares

N, N_CLASSES, N_BINS = 1_000_000, 10, 100
REPEATS = 5
#: Where both together take less than so many seconds, more runs.
QUICK, QUICK_REPEATS = 0.2, 25
REFERENCE = "uncertainty-calibration"
#: Peers slower than this many seconds run once.
SLOW = 5.0


class Spent(NamedTuple):
    """Seconds of the clock, and of the processor over all threads."""

    clock: float
    processor: float


@dataclass(frozen=True)
class Line:
    """One measurement: ours beside a peer or a limit, in one unit, and the target.

    ``target`` is how many times the peer's figure must be ours; beside a limit it is 1. ``processor_ratio`` is the
    peer's over ours in processor time, where both were timed.
    """

    what: str
    ours: float
    peer: str
    theirs: float
    unit: str = "s"
    target: float | None = None
    peer_runs: int = REPEATS
    processor_ratio: float | None = None

    @classmethod
    def timed(cls, what: str, own: list[Spent], peer: str, others: list[Spent], target: float | None = None) -> Line:
        """Medians of the runs of both."""
        ours, theirs = middle(own), middle(others)
        ratio = theirs.processor / ours.processor
        return cls(what, ours.clock, peer, theirs.clock, "s", target, len(others), ratio)

    @property
    def ratio(self) -> float:
        """Peer over ours: the larger the better."""
        return self.theirs / self.ours

    @property
    def answer(self) -> str:
        """Whether the target is met; empty where there is none."""
        return "" if self.target is None else ("yes" if self.ratio >= self.target else "**no**")

    def cells(self) -> tuple[str, ...]:
        """Cells of the table."""
        once = " (one run)" if self.peer_runs == 1 else ""
        ours, theirs = shown(self.ours, self.unit), shown(self.theirs, self.unit) + once
        processor = "" if self.processor_ratio is None else f"{self.processor_ratio:.1f}"
        target = "" if self.target is None else f"{self.target:g}"
        return (self.what, ours, self.peer, theirs, f"{self.ratio:.1f}", processor, target, self.answer)


def shown(figure: float, unit: str) -> str:
    """Three digits, and milliseconds for what is short."""
    if unit == "s" and figure < 0.1:
        figure, unit = figure * 1e3, "ms"
    return f"{figure:.0f} {unit}" if figure >= 100 else f"{figure:.3g} {unit}"


def spent(action: Callable[[], object]) -> Spent:
    """Time of one call."""
    clock, processor = time.perf_counter(), time.process_time()
    action()
    return Spent(time.perf_counter() - clock, time.process_time() - processor)


def middle(runs: Sequence[Spent]) -> Spent:
    """Medians of the clock and of the processor."""
    return Spent(*(statistics.median(column) for column in zip(*runs, strict=True)))


def beside(
    what: str, ours: Callable[[], object], peer_name: str, peer: Callable[[], object], target: float | None = None
) -> Line:
    """Medians of interleaved runs after one of ours to warm up; a slow peer runs once, between ours."""
    ours()
    own, others = [spent(ours)], [spent(peer)]
    for _ in range((QUICK_REPEATS if own[0].clock + others[0].clock < QUICK else REPEATS) - 1):
        own.append(spent(ours))
        if others[0].clock < SLOW:
            others.append(spent(peer))
    return Line.timed(what, own, peer_name, others, target)


def drawn(n: int = N) -> tuple[Any, Any]:
    """Scores (n, 10) and labels: log odds between true classes are stretched by 1.3, as those of an eager network."""
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(N_CLASSES, 0.5), size=n)
    labels = (true.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(max=N_CLASSES - 1)
    true **= 1.3
    true /= true.sum(axis=1, keepdims=True)
    return true, labels


class Passed:
    """A fitted classifier whose probabilities are its features: what is timed is the calibration alone."""

    _estimator_type = "classifier"

    def __init__(self, n_classes: int) -> None:
        self.classes_ = np.arange(n_classes)

    def __sklearn_tags__(self) -> object:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier().__sklearn_tags__()

    def fit(self, *_: object) -> Passed:
        return self

    def get_params(self, deep: bool = True) -> dict[str, int]:  # noqa: ARG002 - the name scikit-learn calls
        return {"n_classes": len(self.classes_)}

    def predict(self, x: Any) -> Any:
        return self.classes_[x.argmax(axis=1)]

    def predict_proba(self, x: Any) -> Any:
        return x


def fit(scores: Any, labels: Any) -> mc.Calibrator:
    """Marginal scaling-binning on shared rows, as the peer has it."""
    return mc.fit_calibrator(scores, labels, reduction="marginal", n_bins=N_BINS, parts="shared")


def fits(scores: Any, labels: Any, reference: Any) -> Iterator[Line]:
    """Fit beside both peers; the reference is left trained."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    def ours() -> object:
        return fit(scores, labels)

    def train() -> object:
        return reference.train_calibration(scores, labels)

    def sigmoid() -> object:
        return CalibratedClassifierCV(FrozenEstimator(Passed(N_CLASSES)), method="sigmoid").fit(scores, labels)

    yield beside("fit, marginal", ours, f"{REFERENCE}, marginal train", train, target=20)
    yield beside("fit, marginal", ours, "scikit-learn, sigmoid fit", sigmoid, target=8)

    def sort() -> object:
        return [np.sort(scores[:, k]) for k in range(N_CLASSES)]

    yield beside("fit, marginal", ours, "numpy, sort of the ten columns", sort)


def uses(scores: Any, labels: Any, calibrator: mc.Calibrator, reference: Any) -> Iterator[Line]:
    """Predict and estimate; the estimates of both are of the same calibrated outputs."""
    import calibration

    outputs = calibrator.predict(scores)
    options: dict[str, Any] = {"reduction": "marginal"}

    def by_value() -> float:
        return mc.estimate_calibration_error(outputs, labels, bins="distinct", **options).squared

    def by_bin() -> float:
        return mc.estimate_calibration_error(scores, labels, bins=calibrator, **options).squared

    def with_bounds() -> object:
        return mc.estimate_calibration_error(scores, labels, bins=calibrator, **options).upper_bound(0.95)

    def theirs() -> object:
        return calibration.get_calibration_error(outputs, labels)

    def predict() -> object:
        return calibrator.predict(scores)

    yield beside("predict, marginal", predict, f"{REFERENCE}, calibrate", lambda: reference.calibrate(scores), 2.5)
    peer, others = f"{REFERENCE}, get_calibration_error", [spent(theirs)]
    for what, action, target in (
        ("debiased marginal estimate, a calibrator on scores", by_bin, 40),
        ("debiased marginal estimate, outputs, a bin a value", by_value, 40),
        ("the first with its 95 % upper bound", with_bounds, None),
    ):
        action()
        yield Line.timed(what, [spent(action) for _ in range(REPEATS)], peer, others, target)


def limits(scores: Any, labels: Any, calibrator: mc.Calibrator) -> Iterator[Line]:
    """Bootstrap and single rows, beside what they may take."""
    estimate = mc.estimate_calibration_error(scores, labels, reduction="marginal", bins=calibrator)

    def bootstrap() -> object:
        return [bootstrap_squares(s, n_draws=1_000) for s in estimate.statistics]

    bootstrap()
    own = middle([spent(bootstrap) for _ in range(REPEATS)]).clock
    yield Line("1,000 bootstrap draws, 10 classes", own, "limit", 0.5, target=1)
    row = scores[:1].copy()
    own = statistics.median(timeit.repeat(lambda: calibrator.predict(row), number=5_000, repeat=REPEATS)) / 5_000
    yield Line("predict one row, marginal", own * 1e6, "limit", 15.0, "µs", target=1)


def binary(scores: Any, labels: Any) -> Iterator[Line]:
    """One class alone, beside what numpy takes to sort or copy its scores."""
    one, outcomes = np.ascontiguousarray(scores[:, 0]), (labels == 0).astype(int)
    calibrator = mc.fit_calibrator(one, outcomes, n_bins=N_BINS)

    def bounded() -> object:
        return mc.estimate_calibration_error(one, outcomes, bins=calibrator).upper_bound(0.95)

    for what, action in (
        ("fit, binary", lambda: mc.fit_calibrator(one, outcomes, n_bins=N_BINS)),
        ("predict, binary", lambda: calibrator.predict(one)),
        ("estimate with bounds, binary", bounded),
    ):
        yield beside(what, action, "numpy, sort of the scores", lambda: np.sort(one))
    yield beside("check scores, binary", lambda: runtime.clean_scores(one), "numpy, copy of the scores", one.copy)


# Peak memory


def held_memory(mark: str = "VmHWM") -> float:
    """Most memory this process has held, or holds now ("VmRSS"), MB.

    Linux hands the ``ru_maxrss`` of whoever started a process on to it, so that there the kernel's own marks are read;
    elsewhere both are the highest.
    """
    with contextlib.suppress(OSError):
        for text in Path("/proc/self/status").read_text().splitlines():
            if text.startswith(f"{mark}:"):
                return int(text.split()[1]) / 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**20


def memory_task(task: str, folder: Path) -> None:
    """Print what the process holds at most over what its imports hold, MB."""
    if task == "draw":
        scores, labels = drawn()
        np.save(folder / "scores.npy", scores)
        np.save(folder / "labels.npy", labels)
        (folder / "calibrator.json").write_text(fit(scores, labels).to_json())
        return
    few = drawn(2_000)
    mc.estimate_calibration_error(*few, reduction="marginal", bins=fit(*few)).upper_bound(0.95)  # imports
    before = held_memory("VmRSS")
    scores = np.load(folder / "scores.npy")
    labels = np.load(folder / "labels.npy")
    if task == "fit":
        fit(scores, labels)
    else:
        calibrator = mc.Calibrator.from_json((folder / "calibrator.json").read_text())
        if task == "predict":
            calibrator.predict(scores)
        else:
            mc.estimate_calibration_error(scores, labels, reduction="marginal", bins=calibrator).upper_bound(0.95)
    print(held_memory() - before)


def memory(folder: Path) -> Iterator[Line]:
    """Peak memory, the input counted in, beside three times the input."""

    def run(task: str) -> str:
        command = [sys.executable, "-m", "tests.bench.speed", task, str(folder)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    run("draw")
    size = sum((folder / name).stat().st_size for name in ("scores.npy", "labels.npy")) / 2**20
    for task, what in (("fit", "fit"), ("predict", "predict"), ("estimate", "estimate with bounds")):
        yield Line(f"peak memory, {what}", float(run(task)), "3 times the input", 3 * size, "MB", target=1, peer_runs=0)


def measured() -> Iterator[Line]:
    """Every line, as soon as it is there."""
    import calibration

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        yield from memory(Path(folder))
    scores, labels = drawn()
    reference = calibration.PlattBinnerMarginalCalibrator(N, num_bins=N_BINS)
    yield from fits(scores, labels, reference)
    calibrator = fit(scores, labels)
    yield from uses(scores, labels, calibrator, reference)
    yield from limits(scores, labels, calibrator)
    yield from binary(scores, labels)


def printed(lines: Iterator[Line]) -> Iterator[Line]:
    """Pass lines on and print them."""
    for line in lines:
        what, ours, peer, theirs, ratio, processor, target, answer = line.cells()
        wanted = f"target {target}: {answer.strip('*')}" if target else ""
        columns = f"{what:<52} {ours:>8}   {peer:<46} {theirs:>18}   ratio {ratio:>6} {processor:>6}   {wanted}"
        print(columns.rstrip(), flush=True)
        yield line


def main(arguments: Sequence[str]) -> None:
    """Run everything, or one task of the memory measurement."""
    if arguments:
        memory_task(arguments[0], Path(arguments[1]))
    else:
        list(printed(measured()))


if __name__ == "__main__":
    main(sys.argv[1:])
