"""The evidence of one turn, as `evaluate` leaves it; names stand for the registry that is not there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from examples.backtest.periods import Period, entry_of
from mlflow_calib import __version__
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.evidence import evidence_record
from mlflow_calib.steps.contenders import Contender
from mlflow_calib.steps.evaluation_rows import DataDigest
from mlflow_calib.steps.evaluation_sums import Sums

#: Version that holds the alias, and its calibrator; None: the base model itself.
Champion = tuple[int, Calibrator | None]


def record_of(
    before: Period,
    period: Period,
    version: int,
    champion: Champion,
    sums: Sums,
    contenders: Mapping[str, Contender],
) -> dict[str, Any]:
    """The record, checked; the time of evaluation is the end of the period's last day."""
    end = datetime.fromisoformat(f"{max(period.days)}T23:59:59").replace(tzinfo=timezone.utc)
    return evidence_record(
        candidate={
            **_model(version),
            "base_model_uri": "models:/backtest/1",
            "base_model_id": None,
            "calibrator_sha256": _sha256(before.name, version),
        },
        champion={
            **_model(champion[0]),
            "alias": "champion",
            "kind": "raw" if champion[1] is None else "calibrated",
            "n_evaluation_rows_in_its_recalibration_data": 0,  # it was fitted on earlier periods
        },
        data=_data(before, period),
        estimates={name: entry_of(one, sums, name) for name, one in contenders.items()},
        comparisons=sums.comparisons(period.n_days),
        recalibration_overlap=0,
        base_training_overlap=0,
        mlflow_calib_version=__version__,
        run_id=None,
        evaluated_at=end,
    )


def _data(before: Period, period: Period) -> dict[str, Any]:
    digest = DataDigest()
    digest.add(period.scores, period.labels)
    return {
        "partitions_uri": f"memory:{period.name}",
        "manifest_sha256": digest.text(),
        "source_uris": [f"memory:{before.name}", f"memory:{period.name}"],
        "sha256": digest.text(),
        "n": period.n,
        "n_groups": period.n_days,
        "group_column": "day",
        "evaluation_period": period.name,
        "recalibration_period": before.name,
    }


def _model(version: int) -> dict[str, Any]:
    return {
        "name": "backtest",
        "version": str(version),
        "model_uri": f"models:/backtest/{version}",
        "model_id": None,
        "digest": _sha256("model", version),
    }


def _sha256(*parts: Any) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"
