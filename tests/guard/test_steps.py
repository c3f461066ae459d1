"""The steps as a DAG or a CI job runs them, against a guarded server: what they sign opens it, nothing else does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.linear_model import LogisticRegression

from mlflow_calib.errors import PromotionRefusedError
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps import evaluate, fit, gate, override, promote, rollback, score, split

from .registry import KEYS, POLICY, SIGNED, refusal
from .servers import RunningServer

RULES = POLICY.to_dict()
NAME = "churn"
_LOGS: dict[str, Path] = {}


@pytest.fixture(scope="module")
def server(starting: Callable[[str], RunningServer]) -> MlflowServer:
    running = starting("sqlite")
    _LOGS[running.url] = running.log
    return MlflowServer(running.url)


@pytest.fixture(scope="module")
def partitions(server: MlflowServer, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], dict[str, Any]]:
    """Scores 16,000 rows with a base model, whose logit is stretched by 1.5, and with whoever is champion by then."""
    folder = tmp_path_factory.mktemp("steps")
    rng = np.random.default_rng(5)
    x = rng.normal(size=16_000) * 1.5
    labels = (rng.random(len(x)) < 1 / (1 + np.exp(-x))).astype(int)
    pd.DataFrame({"row": np.arange(len(x)), "x": x, "label": labels}).to_parquet(folder / "rows.parquet", index=False)
    _register_base(server)
    columns = {"key_columns": ["row"], "label_column": "label", "data_uri": str(folder / "rows.parquet")}
    number = itertools.count()

    def made() -> dict[str, Any]:
        here = folder / str(next(number))
        options = {"champion": f"models:/{NAME}@champion", "server": server}
        scored = score("models:/churn-base/1", str(here / "scored"), **columns, **options)
        return split(scored, str(here / "partitions"), split={"how": "hash", "evaluation_fraction": 0.5})

    return made


def _register_base(server: MlflowServer) -> None:
    model = LogisticRegression().fit(pd.DataFrame({"x": [-1.0, 1.0, -2.0, 2.0]}), [0, 1, 0, 1])
    model.coef_, model.intercept_ = np.array([[1.5]]), np.array([0.0])
    given = {"signature": ModelSignature(Schema([ColSpec("double", "x")]), Schema([ColSpec("long")]))}
    given |= {"pip_requirements": ["scikit-learn"], "registered_model_name": "churn-base"}
    with connected(server), mlflow.start_run(experiment_id="0"):
        mlflow.sklearn.log_model(model, name="base", **given)


def _judged(
    server: MlflowServer, partitions: dict[str, Any], seed: int, policy: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit, evaluate and gate one candidate."""
    candidate = fit(partitions, name=NAME, calibrator={"seed": seed}, server=server, run_tags={"n": str(seed)})
    return candidate, gate(evaluate(partitions, candidate, server=server), policy=policy or RULES, server=server)


def _client(server: MlflowServer) -> MlflowClient:
    return server.client()


def _champion(server: MlflowServer) -> str | None:
    held = _client(server).get_registered_model(NAME).aliases.get("champion")
    return None if held is None else str(held)


def test_the_route_to_the_champion_and_back(
    server: MlflowServer, partitions: Callable[[], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_CALIB_KEYS", KEYS)
    client, alone = _client(server), partitions()
    dry, verdict = _judged(server, alone, 1, {**RULES, "mode": "dry-run"})
    assert verdict["status"] == "pass"
    assert f"{SIGNED}verdict" not in client.get_model_version(NAME, dry["version"]).tags
    refusal(client.set_registered_model_alias, NAME, "champion", dry["version"])
    first, verdict = _judged(server, alone, 2)
    late, late_verdict = _judged(server, alone, 3)
    assert promote(first, verdict, promoted_by="dag", server=server)["promoted"]
    assert promote(first, verdict, promoted_by="dag", server=server)["promoted"]  # a retry
    assert _champion(server) == first["version"]
    with pytest.raises(PromotionRefusedError):
        promote(late, late_verdict, promoted_by="dag", server=server)  # it was judged when there was no champion
    refusal(client.set_registered_model_alias, NAME, "champion", late["version"])
    second, verdict = _judged(server, partitions(), 4)
    assert promote(second, verdict, promoted_by="dag", server=server)["promoted"]
    assert _champion(server) == second["version"]
    rollback(NAME, reason="complaints", by="Ada", server=server)
    assert _champion(server) == first["version"]
    refusal(client.delete_registered_model_alias, NAME, "champion")
    override(NAME, "delete-alias", alias="champion", reason="retired", by="Ada", server=server)
    client.delete_registered_model_alias(NAME, "champion")
    assert _champion(server) is None
    assert "signed rollback by Ada, because complaints" in log_of(server)


def log_of(server: MlflowServer) -> str:
    return _LOGS[server.tracking_uri].read_text()
