"""Evidence records for the tests of evidence and verdict: built from rows by the same builders as in the steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from mlflow_calib.core.bin_statistics import BinStatistics
from mlflow_calib.core.evidence import estimate_entry, evidence_record
from mlflow_calib.core.jackknife import N_BLOCKS, JackknifeSums, jackknife_difference
from mlflow_calib.core.log_losses import LossSums, PairedLossSums, row_log_losses
from mlflow_calib.core.paired import PairedSums

EVALUATED_AT = datetime(2013, 8, 1, 6, 0, tzinfo=timezone.utc)
VALUES = np.linspace(0.05, 0.95, 10)
CHAMPION = {
    "alias": "champion",
    "name": "flights",
    "version": "1",
    "model_uri": "models:/flights/1",
    "model_id": "m-1",
    "digest": "sha256:01",
    "kind": "calibrated",
    "n_evaluation_rows_in_its_recalibration_data": 0,
}
CANDIDATE = {
    "model_uri": "models:/flights/2",
    "name": "flights",
    "version": "2",
    "model_id": "m-2",
    "digest": "sha256:02",
    "base_model_uri": "models:/flights-base/1",
    "base_model_id": "m-0",
    "calibrator_sha256": "0c",
}
NO_CHAMPION = {"alias": "champion", "name": "flights", "version": None}


def _outcomes(n: int, rates: Any) -> tuple[Any, Any]:
    """Bins 0..9 in turn; in each bin exactly the share of positives asked for, spread over the rows."""
    index, place = np.arange(n) % 10, np.arange(n) // 10
    goal = rates[index]
    return index, np.floor((place + 1) * goal + 0.5) - np.floor(place * goal + 0.5)


def _record(
    n: int = 6000,
    error: float = 0.0,
    champion_error: float = 0.03,
    n_groups: int | None = 30,
    champion: dict[str, Any] | None = CHAMPION,
) -> dict[str, Any]:
    """A record of a model whose bins are all ``error`` too low, over ``n`` rows in ``n_groups`` days."""
    index, outcomes = _outcomes(n, np.clip(VALUES + error, 0.0, 1.0))
    groups = None if n_groups is None else (np.arange(n) // 10) % n_groups
    champion_values = np.clip(VALUES + error - champion_error, 0.0, 1.0)

    def entry(values: Any, **options: Any) -> dict[str, Any]:
        sums = BinStatistics.from_rows(values[index], outcomes, index, 10, values=values, groups=groups)
        log_loss = LossSums.from_rows(row_log_losses(values[index], outcomes)).mean
        return estimate_entry(sums.finish(), sums.mse, log_loss=log_loss, **options)

    def jackknife(values: Any) -> JackknifeSums:
        blocks = np.arange(n) % N_BLOCKS if groups is None else groups
        return JackknifeSums.from_rows(values[index], outcomes, index, 10, blocks, values=values)

    def squares(values: Any) -> Any:
        return (values[index] - outcomes) ** 2

    def logs(values: Any) -> Any:
        return row_log_losses(values[index], outcomes)

    compared = champion is not None and champion["version"] is not None
    from_below = compared and champion is not None and champion["kind"] == "raw"
    over = {
        "mse": PairedSums.from_rows(squares(VALUES), squares(champion_values), groups).finish(),
        "log_loss": PairedLossSums.from_rows(logs(VALUES), logs(champion_values), groups).finish(),
        "calibration_error": jackknife_difference(jackknife(VALUES), jackknife(champion_values), n_groups=n_groups),
    }
    return evidence_record(
        candidate=CANDIDATE,
        champion=champion,
        data={
            "partitions_uri": "file:///work/partitions",
            "manifest_sha256": "0a",
            "source_uris": ["flights-2013-07.parquet"],
            "sha256": "0b",
            "n": n,
            "n_groups": n_groups,
            "group_column": None if n_groups is None else "day",
            "evaluation_period": "2013-07-01/2013-08-01",
            "recalibration_period": "2013-06-01/2013-07-01",
        },
        estimates={
            "candidate": entry(VALUES),
            "base": entry(champion_values, lower_bound_of_calibration_error=True),
            "rival": entry(VALUES),
            "champion": entry(champion_values, lower_bound_of_calibration_error=from_below) if compared else None,
        },
        comparisons={
            **{f"{name}_increase_over_champion": one if compared else None for name, one in over.items()},
            **{f"{name}_increase_over_base": one for name, one in over.items()},
        },
        recalibration_overlap=0,
        base_training_overlap=0,
        mlflow_calib_version="0.1.0",
        run_id="1234e567890123456789012345678901",
        evaluated_at=EVALUATED_AT,
    )


_BUILT: dict[str, dict[str, Any]] = {}


@pytest.fixture
def evidence_of() -> Callable[..., dict[str, Any]]:
    """A function that builds a valid record; each call gives a copy of its own to damage."""

    def build(**options: Any) -> dict[str, Any]:
        key = repr(sorted(options.items()))
        if key not in _BUILT:
            _BUILT[key] = _record(**options)
        return copy.deepcopy(_BUILT[key])

    return build


@pytest.fixture
def champions() -> dict[str, Any]:
    """Champion tables: "calibrated", "raw", and "none" yet."""
    return {"calibrated": CHAMPION, "raw": {**CHAMPION, "kind": "raw"}, "none": NO_CHAMPION}


@pytest.fixture
def evaluated_at() -> datetime:
    """Time of evaluation of every record of ``evidence_of``."""
    return EVALUATED_AT
