"""The base model: gradient boosting on January and February, version 1 of `flights`, made champion by hand."""

from __future__ import annotations

from importlib import metadata

import mlflow
import numpy as np
import pandas as pd
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, Schema
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OrdinalEncoder

from examples.flights.data import CHAMPION, FEATURES, LABEL, MODEL_NAME

CATEGORIES = ("carrier", "origin", "dest")
TRAINING_MONTHS = (1, 2)
SEED = 0


def build_pipeline() -> Pipeline:
    """Build the pipeline: categories become codes that the trees split as sets; one never seen counts as missing."""
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    columns = ColumnTransformer([("categories", codes, list(CATEGORIES))], remainder="passthrough")
    trees = HistGradientBoostingClassifier(categorical_features=list(range(len(CATEGORIES))), random_state=SEED)
    return Pipeline([("columns", columns), ("trees", trees)])


def training_rows(flights: pd.DataFrame) -> pd.DataFrame:
    """Take the flights of January and February."""
    training: pd.DataFrame = flights.loc[flights["month"].isin(TRAINING_MONTHS)]
    return training


def fit_base_model(flights: pd.DataFrame) -> Pipeline:
    """Fit the pipeline on features known before departure."""
    training = training_rows(flights)
    return build_pipeline().fit(training[list(FEATURES)], training[LABEL])


def signature() -> ModelSignature:
    """State the input column by column; whole numbers here are never missing."""
    inputs = [ColSpec("string" if name in CATEGORIES else "long", name) for name in FEATURES]
    return ModelSignature(inputs=Schema(inputs), outputs=Schema([ColSpec("long")]))


def register_base_model(model: Pipeline, experiment_id: str) -> str:
    """Log the model as any scikit-learn user does, register it, and set the alias by hand; return its version."""
    with mlflow.start_run(experiment_id=experiment_id, run_name="base model: January and February"):
        info = mlflow.sklearn.log_model(
            model,
            name="model",
            # The default format, skops, refuses HistGradientBoostingClassifier as an untrusted type.
            serialization_format="cloudpickle",
            signature=signature(),
            # Stated, MLflow need not load the model once more in a process of its own to find them out.
            pip_requirements=[
                f"{name}=={metadata.version(name)}" for name in ("mlflow", "scikit-learn", "cloudpickle")
            ],
            registered_model_name=MODEL_NAME,
        )
    version = str(info.registered_model_version)
    mlflow.MlflowClient().set_registered_model_alias(MODEL_NAME, CHAMPION, version)
    return version
