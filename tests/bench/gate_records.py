"""Evidence records of simulated draws, so that ``judge`` itself can be held against what was counted."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np

from mlflow_calib import Verdict, judge
from mlflow_calib.core.class_sums import ClassSums
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.evidence import class_entry, estimate_entry, evidence_record, slice_entry
from mlflow_calib.core.policy import SETTINGS

TIME = datetime(2020, 1, 1, tzinfo=timezone.utc)
CANDIDATE = {
    "model_uri": "models:/simulated/2",
    "name": "simulated",
    "version": "2",
    "model_id": None,
    "digest": "sha256:02",
    "base_model_uri": None,
    "base_model_id": None,
    "calibrator_sha256": "0c",
}
CHAMPION = {
    "alias": "champion",
    "name": "simulated",
    "version": "1",
    "model_uri": "models:/simulated/1",
    "model_id": None,
    "digest": "sha256:01",
    "kind": "calibrated",
    "n_evaluation_rows_in_its_recalibration_data": 0,
}
#: Outputs of the five bins of the small records below, and their classes.
VALUES = (np.arange(5) + 0.5) / 5
LABELS = ("cat", "dog", "emu")
NO_CHAMPION = {"alias": "champion", "name": "simulated", "version": None}


def record(
    candidate: dict[str, Any],
    *,
    champion: dict[str, Any] | None = None,
    comparisons: dict[str, Any] | None = None,
    n_groups: int | None = None,
    reduction: str = "binary",
    slices: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A whole record around entries; a champion's entry brings the champion."""
    return evidence_record(
        candidate=CANDIDATE,
        champion=NO_CHAMPION if champion is None else CHAMPION,
        data={
            "partitions_uri": "file:///simulated",
            "manifest_sha256": "0a",
            "source_uris": ["simulated.parquet"],
            "sha256": "0b",
            "n": candidate["n"],
            "n_groups": n_groups,
            "group_column": None if n_groups is None else "group",
            "evaluation_period": None,
            "recalibration_period": None,
        },
        estimates={"candidate": candidate, "champion": champion},
        comparisons=comparisons or {},
        recalibration_overlap=0,
        base_training_overlap=None,
        mlflow_calib_version="0.1.0",
        run_id=None,
        evaluated_at=TIME,
        reduction=reduction,
        slices=slices,
    )


def judged(evidence: dict[str, Any], name: str, **settings: Any) -> Verdict:
    """The verdict by one requirement alone."""
    others: dict[str, Any] = {other: {"enabled": False} for other in SETTINGS if other != name}
    return judge(evidence, {"requirements": {**others, name: settings}}, now=TIME)


def class_sums(reduction: str = "marginal", errors: Any = (0, 0, 0), n: int = 9000, grouped: bool = False) -> ClassSums:
    """Rows that say the middle of their fifth, of which class k is ``errors[k]`` off."""
    rng = np.random.default_rng(7)
    groups = np.arange(n) % 60 if grouped else None
    if reduction == "marginal":
        index = rng.integers(5, size=(n, 3))
        truths = rng.random((n, 3)) < np.clip(VALUES[index] + np.asarray(errors), 0, 1)
        return ClassSums.from_marginal(LABELS, VALUES[index], truths, index, [5] * 3, [VALUES] * 3, groups)
    predicted, index = rng.integers(3, size=n), rng.integers(5, size=n)
    correct = rng.random(n) < np.clip(VALUES[index] + np.asarray(errors)[predicted], 0, 1)
    return ClassSums.from_predicted(LABELS, VALUES[index], correct, predicted, index, [5] * 3, [VALUES] * 3, groups)


def class_record(reduction: str = "marginal", **options: Any) -> dict[str, Any]:
    sums = class_sums(reduction, **options)
    n_groups = 60 if options.get("grouped") else None
    return record(class_entry(sums.finish(), sums.mse), n_groups=n_groups, reduction=reduction)


def binary_entry(error: float = 0.0, n: int = 6000, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    counts = np.full(5, n // 5)
    positives = rng.binomial(counts, np.clip(VALUES + error, 0, 1))
    return estimate_entry(ErrorStatistics(counts, positives, VALUES), 0.2)


def sliced(**errors: float) -> dict[str, Any]:
    entries = {name: binary_entry(error, n=3000, seed=k) for k, (name, error) in enumerate(errors.items())}
    whole = [ErrorStatistics.from_dict(entry["statistics"]) for entry in entries.values()]
    total = ErrorStatistics(sum(s.counts for s in whole), sum(s.positives for s in whole), VALUES)
    slices = [slice_entry({"region": name}, entry) for name, entry in entries.items()]
    slices.append(slice_entry({"region": "EU", "age": None}, binary_entry(0.0, n=1000)))
    slices.append(slice_entry({"region": "EU", "age": "old"}, None))
    return record(estimate_entry(total, 0.2), slices=slices)
