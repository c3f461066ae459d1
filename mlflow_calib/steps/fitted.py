"""Candidate and rival of one recalibration, fitted on the same rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.core.estimators import mean_squared_error
from mlflow_calib.core.scores import CleanRows, clean_rows
from mlflow_calib.data.partitions import RECALIBRATION, PartitionsManifest
from mlflow_calib.data.predictions import KEY_HASH, LABEL
from mlflow_calib.errors import CalibrationWarning, DataError
from mlflow_calib.runtime import Floats
from mlflow_calib.steps.judged_rows import outputs_of


@dataclass(frozen=True, eq=False)
class Fitted:
    """Both calibrators, with the clean rows they were fitted on and the base scores of those."""

    calibrator: Calibrator
    rival: Calibrator
    rows: CleanRows
    scores: Floats


def fit_both(manifest: PartitionsManifest, digest: str, arguments: Mapping[str, Any], keys_uri: str) -> Fitted:
    """Both calibrators on the recalibration rows; disjoint parts are the thirds of the sorted key hashes.

    ``keys_uri`` is where the key hashes of these rows are kept for as long as the model is.
    """
    table = manifest.read_rows(RECALIBRATION, [KEY_HASH, LABEL, *manifest.score_columns])
    keys = table[KEY_HASH].to_numpy()
    if not (keys[1:] > keys[:-1]).all():
        raise DataError(f"{manifest.file_uri(RECALIBRATION)} must be sorted by distinct key hashes; split again")
    rows = {"scores": base_scores(table, manifest), "labels": table[LABEL].to_numpy()}
    words = {"classes": list(manifest.classes), "positive_class": manifest.positive_class}
    options = {name: arguments[name] for name in ("reduction", "score_kind") if name in arguments}
    facts = facts_of(manifest, digest, keys_uri)
    return Fitted(
        calibrator=fit_calibrator(**rows, **words, keys=keys, **arguments).with_facts(**facts),
        rival=_rival(arguments, **rows, **words, keys=keys).with_facts(**facts),
        rows=clean_rows(**rows, **words, **options),
        scores=rows["scores"],
    )


def base_scores(rows: Any, manifest: PartitionsManifest) -> Floats:
    """Base scores of an Arrow table: (n,) of the positive class, or (n, K), a column a class."""
    columns = [rows[name].to_numpy() for name in manifest.score_columns]
    return np.asarray(columns[0] if manifest.positive_class is not None else np.column_stack(columns))


def _rival(arguments: Mapping[str, Any], **rows: Any) -> Calibrator:
    """Histogram binning of as many bins; where scores tie the candidate has warned already."""
    shared = {name: value for name, value in arguments.items() if name not in ("method", "scaling")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_calibrator(method="histogram-binning", **rows, **shared)


def facts_of(manifest: PartitionsManifest, digest: str, keys_uri: str) -> dict[str, Any]:
    """What the artifact remembers of its data; ``evaluate`` holds it against the partitions it is given."""
    return {
        "data_uri": manifest.file_uri(RECALIBRATION),
        "source_uris": dict(manifest.source["uris"]),
        "partitions": {"uri": manifest.uri, "sha256": digest},
        "recalibration_keys": {**manifest.recalibration_keys, "uri": keys_uri},
        "recalibration_period": manifest.split.get("recalibration_period"),
        "scored_base_model": {part: manifest.base_model.get(part) for part in ("uri", "model_id", "digest")},
    }


def metrics_of(fitted: Fitted) -> dict[str, float]:
    """Figures on the rows that were fitted: they describe the fit and show nothing about other rows."""
    outcomes, outputs = fitted.rows.outcomes, outputs_of(fitted.calibrator, fitted.scores)
    binary = {"recalibration_positives": float(np.sum(outcomes))} if fitted.rows.reduction == "binary" else {}
    return {
        "recalibration_n": float(len(outcomes)),
        **binary,
        "recalibration_mse": mean_squared_error(outputs, outcomes),
        "recalibration_n_bins": float(max(len(one.values) for one in fitted.calibrator.maps)),
        "recalibration_n_clipped": float(fitted.rows.n_clipped),
    }
