"""Writes the golden files of a schema version: ``python -m tests.golden.write``. Files that exist are left as they are.

A released file never changes: it says what artifacts of that release hold, and what they must answer for ever.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mlflow_calib import runtime
from mlflow_calib.core.calibrator import METHODS, Calibrator, fit_calibrator
from mlflow_calib.core.scaling import SCALINGS

FOLDER = Path(__file__).parent / f"schema-{runtime.SCHEMA_VERSION}"
N, CLASSES = 400, ["ant", "bee", "cat"]
#: Scores at the ends, at edges, and between them.
N_PROBES = 12


def rows(reduction: str) -> tuple[Any, Any, dict[str, Any]]:
    """Scores, labels and words for one reduction."""
    rng = np.random.default_rng(20_240)
    if reduction == "binary":
        scores = rng.uniform(size=N)
        return scores, np.where(rng.uniform(size=N) < scores**1.5, "yes", "no"), {"positive_class": "yes"}
    if reduction == "multi-label":
        scores = rng.uniform(size=(N, 3))
        return scores, (rng.uniform(size=(N, 3)) < scores**1.5).astype(int), {"classes": CLASSES}
    scores = rng.dirichlet([1.5, 1.0, 1.0], size=N)
    drawn = (rng.uniform(size=(N, 1)) > np.cumsum(scores**1.3 / (scores**1.3).sum(axis=1)[:, None], axis=1)).sum(axis=1)
    return scores, np.array(CLASSES)[np.minimum(drawn, 2)], {"classes": CLASSES}


def cases() -> Iterator[tuple[str, Calibrator, Any]]:
    """Name, calibrator and probing scores of every golden file."""
    for reduction in runtime.REDUCTIONS:
        scores, labels, words = rows(reduction)
        for method in METHODS:
            fitted = fit_calibrator(scores, labels, reduction=reduction, method=method, n_bins=4, **words)
            yield f"{reduction}_{method}", fitted, scores[:N_PROBES]
    scores, labels, words = rows("binary")
    for scaling in SCALINGS:
        fitted = fit_calibrator(scores, labels, method="scaling", scaling=scaling, **words)
        yield f"binary_scaling_{scaling}", fitted, scores[:N_PROBES]
    logits = np.log(scores / (1 - scores))
    fitted = fit_calibrator(logits, labels, score_kind="logit", n_bins=4, binning="equal-width", **words)
    yield "binary_logit_equal-width", fitted, logits[:N_PROBES]
    record = {"uri": "models:/m-0123456789abcdef0123456789abcdef", "model_id": None, "digest": "sha256:0"}
    source = {"score": "auto", "call": "predict_proba", "classes": ["no", "yes"]}
    packaged = fit_calibrator(scores, labels, n_bins=4, keys=np.arange(N), **words).with_base_model(
        {**record, "flavors": ["python_function", "sklearn"], "score_source": source}
    )
    yield "binary_packaged", packaged, scores[:N_PROBES]


def main() -> None:
    """Write what is missing."""
    FOLDER.mkdir(exist_ok=True)
    expected_file = FOLDER / "expected.json"
    expected = json.loads(expected_file.read_text(encoding="utf-8")) if expected_file.exists() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, calibrator, scores in cases():
            path = FOLDER / f"{name}.json"
            if path.exists():
                continue
            path.write_text(calibrator.to_json(), encoding="utf-8")
            expected[name] = {"scores": scores.tolist(), "outputs": calibrator.predict(scores).tolist()}
    expected_file.write_text(json.dumps(expected), encoding="utf-8")


if __name__ == "__main__":
    main()
