"""Base model and calibrator as one logged model of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.base_model import BUNDLE, resolve_model
from mlflow_calib.flavor.model import log_model
from mlflow_calib.flavor.tracking import MlflowServer, connected


def log_packaged(server: MlflowServer, run_id: str, scored: Mapping[str, Any], calibrator: Calibrator) -> str:
    """Log the calibrator with the base model that the manifest names; returns the id of the logged model.

    Raises
    ------
    ModelError
        The base model is gone, or is not the one that was scored.
    """
    base = resolve_model(server, scored["uri"])
    if base.digest != scored["digest"]:
        raise ModelError(
            f"base model {scored['uri']} must have digest {scored['digest']}, found {base.digest}: it is not the "
            "one that was scored; score again"
        )
    source = scored["score_source"]
    with connected(server):
        info = log_model(
            base, calibrator, name="model", run_id=run_id, score=source["score"], classes=source["classes"]
        )
    return str(info.model_id)


def packaged_text(server: MlflowServer, model_id: str) -> str:
    """``calibrator.json`` as it stands in the logged model, with the facts of the base model."""
    import mlflow

    with connected(server) as client, tempfile.TemporaryDirectory() as folder:
        location = client.get_logged_model(model_id).artifact_location.rstrip("/")
        path = mlflow.artifacts.download_artifacts(f"{location}/{BUNDLE}/calibrator.json", dst_path=folder)
        return Path(path).read_text(encoding="utf-8")


def params_of(calibrator: Calibrator) -> dict[str, Any]:
    """What was asked of the fit and what came of it, as parameters of the run."""
    counts = [len(one_map.values) for one_map in calibrator.maps]
    names = ("method", "reduction", "binning", "scaling", "score_kind", "parts_requested", "parts", "seed")
    return {
        **{name: getattr(calibrator, name) for name in names},
        "positive_class": calibrator.positive_class,
        "n_bins_requested": calibrator.n_bins_requested,
        "n_bins_effective": " to ".join(map(str, sorted({min(counts), max(counts)}))),
        "flags": ", ".join(sorted({flag for one in calibrator.maps for flag in one.flags})) or "none",
    }
