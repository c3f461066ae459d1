"""Prints one line a measurement: ours, the peer or limit, and their ratio (medians of interleaved runs)."""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

import mlflow_calib as mc
from mlflow_calib import runtime

REPEATS = 7


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(
    name: str, ours: Callable[[], object], peer_name: str, peer: Callable[[], object], repeats: int = REPEATS
) -> None:
    """Run both in turn and print the medians and the median of the paired ratios."""
    ours(), peer()
    pairs = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{name:<46} {first * 1e3:10.2f} ms   {peer_name:<38} {second * 1e3:10.2f} ms   ratio {ratio:6.2f}")


class Passed:
    """A fitted classifier whose probabilities are its features: what is timed is the calibration alone."""

    _estimator_type = "classifier"

    def __init__(self, n_classes: int) -> None:
        self.classes_ = np.arange(n_classes)

    def __sklearn_tags__(self) -> object:
        return HistGradientBoostingClassifier().__sklearn_tags__()

    def fit(self, *_: object) -> Passed:
        return self

    def get_params(self, deep: bool = True) -> dict[str, int]:  # noqa: ARG002 - the name scikit-learn calls
        return {"n_classes": len(self.classes_)}

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.classes_[x.argmax(axis=1)]

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return x


def numerics(rng: np.random.Generator) -> None:
    """Fit, predict and estimate at 1,000,000 rows."""
    n, n_classes = 1_000_000, 10
    many = rng.dirichlet(np.full(n_classes, 0.3), size=n)
    labels = (many.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(max=n_classes - 1)
    one, outcomes = np.ascontiguousarray(many[:, 0]), (labels == 0).astype(int)

    def sigmoid() -> object:
        return CalibratedClassifierCV(FrozenEstimator(Passed(n_classes)), method="sigmoid").fit(many, labels)

    def fit_marginal() -> object:
        return mc.fit_calibrator(many, labels, reduction="marginal", n_bins=100)

    compare("fit marginal, 1e6 x 10, 100 bins", fit_marginal, "scikit-learn sigmoid fit", sigmoid, repeats=1)
    calibrator = mc.fit_calibrator(one, outcomes, n_bins=100)
    compare("predict binary, 1e6", lambda: calibrator.predict(one), "numpy sort of the scores", lambda: np.sort(one))
    clean = runtime.clean_scores
    compare("check scores, 1e6", lambda: clean(one), "numpy copy of the scores", one.copy)
    compare(
        "estimate with bounds, 1e6",
        lambda: mc.estimate_calibration_error(one, outcomes, bins=calibrator).upper_bound(0.95),
        "numpy sort of the scores",
        lambda: np.sort(one),
    )


def serving(rng: np.random.Generator, folder: Path) -> None:
    """Calibrated pyfunc model against its base model, boosted trees on ten features."""
    import mlflow

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

    compare("load a calibrated model", load("calibrated"), "load its base model", load("base"))
    for n in (1, 1_000, 200_000):
        rows = frame[:n]
        compare(
            f"pyfunc predict, {n:,} rows",
            lambda rows=rows: models["calibrated"].predict(rows),  # type: ignore[misc]
            "base model's pyfunc predict",
            lambda rows=rows: models["base"].predict(rows),  # type: ignore[misc]
        )


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    numerics(rng)
    with tempfile.TemporaryDirectory() as folder:
        serving(rng, Path(folder))


if __name__ == "__main__":
    main()
