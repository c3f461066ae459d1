"""What the rows add up to: the estimate as a record, its metrics, its bins as a table, its curves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib import __version__
from mlflow_calib.core.bin_table import bin_rows
from mlflow_calib.core.class_sums import ClassStatistics
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.evidence_entry import class_entry, estimate_entry
from mlflow_calib.evaluator.rows import Judged
from mlflow_calib.steps.contenders import Contender
from mlflow_calib.steps.curves import curves_of
from mlflow_calib.steps.evaluated import metrics_of
from mlflow_calib.steps.evaluation_rows import DataDigest
from mlflow_calib.steps.evaluation_sums import ModelSums, Sums, add_up

ESTIMATE_SCHEMA = "mlflow_calib.estimate/1"
#: Metrics that say of a calibration error how far it may be trusted, 1.0 or 0.0.
IS_LOWER_BOUND, STATUS_IS_OK = "calibration_error_is_lower_bound", "calibration_error_status_is_ok"


@dataclass(frozen=True, eq=False)
class Estimated:
    """Record, metrics and sums of one evaluation."""

    record: Mapping[str, Any]
    metrics: Mapping[str, float]
    sums: Sums

    @property
    def entry(self) -> Mapping[str, Any]:
        """The model's own entry of the record."""
        entry: Mapping[str, Any] = self.record["estimates"]["candidate"]
        return entry

    def bins(self) -> Iterator[dict[str, Any]]:
        """Every bin of the model: class, rows, positives, what the model says, the positive rate and its interval."""
        finished: Any = self.sums.models["candidate"].statistics.finish()
        pairs = [(None, finished)]
        if isinstance(finished, ClassStatistics):
            pairs = list(zip(finished.labels, finished.statistics, strict=True))
        for label, statistics in pairs:
            for row in bin_rows(statistics, label, self.entry["confidence_level"]):
                own = row.to_dict()
                yield {"class": own.pop("label"), **own}

    def curves(self) -> dict[str, ErrorStatistics]:
        """For the reliability diagram: the model, and the base model behind it."""
        names = {"candidate": "model", "base": "base model"}
        return {names.get(name, name): curve for name, curve in curves_of(self.sums).items()}


def estimated(judged: Judged, confidence_level: float) -> Estimated:
    """Add up the rows and estimate.

    A figure that the data do not give is None in the record and no metric; its ``status`` and ``reason`` say why.
    """
    sums = add_up(judged.contenders, [judged.batch])
    entries = {name: _entry(one, sums.models[name], confidence_level) for name, one in judged.contenders.items()}
    found = {
        name: difference
        for name, difference in sums.comparisons(judged.n_groups).items()
        if difference is not None and np.isfinite(difference.mean)
    }
    record = {
        "schema": ESTIMATE_SCHEMA,
        "mlflow_calib_version": __version__,
        "reduction": judged.reduction,
        "classes": list(judged.classes),
        "positive_class": judged.positive_class,
        "data": {
            "n": len(judged.batch.codes),
            "n_groups": judged.n_groups,
            "sha256": _digest(judged),
        },
        "estimates": entries,
        "comparisons": {name: difference.to_dict() for name, difference in found.items()},
    }
    return Estimated(record, _metrics(record), sums)


def _entry(contender: Contender, sums: ModelSums, confidence_level: float) -> dict[str, Any]:
    finished = sums.statistics.finish()
    figures: dict[str, Any] = {
        "confidence_level": confidence_level,
        "lower_bound_of_calibration_error": contender.is_lower_bound,
        "log_loss": sums.log_losses.mean,
    }
    if isinstance(finished, ClassStatistics):
        return class_entry(finished, sums.statistics.mse, **figures)
    return estimate_entry(finished, sums.statistics.mse, **figures)


def _metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Finite figures alone, by the names that ``steps.evaluate`` gives them."""
    entry = record["estimates"]["candidate"]
    flags = {
        IS_LOWER_BOUND: float(entry["lower_bound_of_calibration_error"]),
        STATUS_IS_OK: float(entry["status"] == "ok"),
    }
    figures = {**metrics_of({**record, "role": "candidate"}), **flags}
    return {name: float(value) for name, value in figures.items() if value is not None and np.isfinite(value)}


def _digest(judged: Judged) -> str:
    """sha256 over every score and label in the order of the rows; MLflow's own digest reads the first 10,000 rows."""
    data = DataDigest()
    data.add(judged.batch.base_scores, judged.batch.codes)
    if judged.batch.groups is not None:
        groups = np.ascontiguousarray(judged.batch.groups, dtype="<i8").tobytes()
        return f"sha256:{hashlib.sha256(data.text().encode() + groups).hexdigest()}"
    return data.text()
