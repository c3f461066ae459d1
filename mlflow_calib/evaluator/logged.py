"""What is left in MLflow: each metric once on the run and once on the model, the figure, the record, the bins."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from mlflow_calib.evaluator.estimated import Estimated
from mlflow_calib.evaluator.settings import Settings

#: Folder of the run that holds the files.
FOLDER = "calibration"
TAGS = "mlflow_calib.evaluation"


def log_once(
    estimated: Estimated, settings: Settings, model: Any, model_id: str | None, dataset: Any, run_id: str
) -> Any:
    """Log to the run, and return MLflow's ``EvaluationResult``.

    Where MLflow knows the model's id, it logs the metrics that are returned to run and model itself, and to log them
    here too would make two of each. Where it does not, they are logged here: of ``models:/<name>/<version>`` and
    ``models:/<name>@<alias>`` to the logged model behind the version as well.
    """
    from mlflow import MlflowClient
    from mlflow.models import EvaluationResult

    client = MlflowClient()
    metrics = {f"{settings.metric_prefix}{name}": value for name, value in estimated.metrics.items()}
    artifacts = _log_files(client, estimated, settings, run_id)
    for name, value in _tags(estimated, settings).items():
        client.set_tag(run_id, name, value)
    if model_id is None:
        _log_metrics(client, metrics, _logged_model_of(client, model), dataset, run_id)
    return EvaluationResult(metrics=metrics, artifacts=artifacts, run_id=run_id)


def _log_metrics(client: Any, metrics: dict[str, float], model_id: str | None, dataset: Any, run_id: str) -> None:
    from mlflow.entities import LoggedModelInput, Metric

    if model_id is not None:
        client.log_inputs(run_id, models=[LoggedModelInput(model_id)])
    where: dict[str, Any] = {"model_id": model_id, "run_id": run_id, **_dataset_of(client, dataset, run_id)}
    now = int(time.time() * 1000)
    client.log_batch(run_id, metrics=[Metric(name, value, now, 0, **where) for name, value in metrics.items()])


def _logged_model_of(client: Any, model: Any) -> str | None:
    """Id of the model's own logged model, where the tracking server of this run holds that; else None.

    A version may come from another server's registry, whose logged models this one does not know.
    """
    from mlflow.exceptions import MlflowException

    model_id = getattr(getattr(model, "metadata", None), "model_id", None)
    if not model_id:
        return None
    try:
        return str(client.get_logged_model(model_id).model_id)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            raise
        return None


def _dataset_of(client: Any, dataset: Any, run_id: str) -> dict[str, str]:
    """Name and digest of the data as MLflow has made them an input of the run; nothing where it has not."""
    inputs = client.get_run(run_id).inputs
    for one in reversed(inputs.dataset_inputs if inputs else []):
        if one.dataset.digest == dataset.digest:
            return {"dataset_name": one.dataset.name, "dataset_digest": one.dataset.digest}
    return {}


def _tags(estimated: Estimated, settings: Settings) -> dict[str, str]:
    """What metrics cannot say, in words."""
    record, entry = estimated.record, estimated.entry
    said = {
        "status": entry["status"],
        "reason": entry["reason"],
        "reduction": record["reduction"],
        "bound_kind": entry["bound_kind"],
        "lower_bound_of_calibration_error": str(entry["lower_bound_of_calibration_error"]).lower(),
        "data_sha256": record["data"]["sha256"],
    }
    return {f"{TAGS}.{settings.metric_prefix}{name}": text for name, text in said.items() if text}


def _log_files(client: Any, estimated: Estimated, settings: Settings, run_id: str) -> dict[str, Any]:
    """Write the files, and hold each as the artifact that MLflow returns, with its content."""
    from mlflow.models.evaluation.artifacts import (
        CsvEvaluationArtifact,
        ImageEvaluationArtifact,
        JsonEvaluationArtifact,
    )

    prefix, uri = settings.metric_prefix, f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"
    kinds = {
        "calibration_estimate": ("estimate.json", JsonEvaluationArtifact, _write_estimate),
        "calibration_bins": ("bins.csv", CsvEvaluationArtifact, _write_bins),
        "reliability_diagram": ("reliability.png", ImageEvaluationArtifact, _draw),
    }
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mlflow-calib-") as scratch:
        for name, (file, kind, write) in kinds.items():
            if kind is not ImageEvaluationArtifact or settings.figure:
                path = Path(scratch) / f"{prefix}{file}"
                content = write(estimated, path)
                client.log_artifact(run_id, str(path), FOLDER)
                found[f"{prefix}{name}"] = kind(uri=f"{uri}/{path.name}", content=content)
    return found


def _write_estimate(estimated: Estimated, path: Path) -> Any:
    text = json.dumps(estimated.record, indent=1, allow_nan=False)
    path.write_text(text, encoding="utf-8")
    return json.loads(text)


def _write_bins(estimated: Estimated, path: Path) -> Any:
    import pandas as pd

    pd.DataFrame(estimated.bins()).to_csv(path, index=False)
    return pd.read_csv(path)


def _draw(estimated: Estimated, path: Path) -> Any:
    from PIL import Image

    from mlflow_calib.report.reliability import reliability_diagram

    reliability_diagram(estimated.curves(), title="Reliability on the evaluation data").savefig(path)
    with Image.open(path) as image:
        return image.copy()
