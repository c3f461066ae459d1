"""The reliability diagram of an evaluation: which curves it shows."""

from __future__ import annotations

from typing import Any

from mlflow_calib.core.class_sums import ClassStatistics
from mlflow_calib.core.error_statistics import ErrorStatistics, debiased_squared
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import Candidate
from mlflow_calib.steps.evaluation_sums import Sums

#: A diagram stays legible with as many curves.
MOST_CURVES = 6


def log_figure(server: MlflowServer, run_id: str, path: str, candidate: Candidate, sums: Sums) -> None:
    """Draw the curves into a file of the run."""
    from mlflow_calib.report.reliability import reliability_diagram

    title = f"{candidate.name} version {candidate.version} on evaluation data"
    figure = reliability_diagram(curves_of(sums), title=title)
    with connected(server) as client:
        client.log_figure(run_id, figure, path)


def curves_of(sums: Sums) -> dict[str, ErrorStatistics]:
    """Candidate, base model and champion; marginal: the candidate's worst classes, by the debiased square."""
    shown = [name for name in ("candidate", "base", "champion") if name in sums.models]
    finished: dict[str, Any] = {name: sums.statistics[name].finish() for name in shown}
    candidate = finished["candidate"]
    if not isinstance(candidate, ClassStatistics):
        return finished
    if candidate.pooled is not None:
        return {name: one.pooled for name, one in finished.items()}
    pairs = zip(candidate.labels, candidate.statistics, strict=True)
    worst = sorted(pairs, key=lambda pair: debiased_squared(pair[1]), reverse=True)[:MOST_CURVES]
    return {f"class {label!r}": statistics for label, statistics in worst}
