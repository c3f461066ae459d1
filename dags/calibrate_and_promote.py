"""Recalibrate a model, show its calibration error on unseen data, and promote it only if the verdict passes.

Copy this file into the DAGs folder; everything a user adapts is a DAG param. Parsing it imports Airflow and the
standard library, nothing that is heavy.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, AssetAlias, Param

from mlflow_calib.provider.operators.evaluate import CalibrationEvaluateOperator
from mlflow_calib.provider.operators.fit import CalibrationFitOperator
from mlflow_calib.provider.operators.gate import CalibrationGateOperator
from mlflow_calib.provider.operators.promote import PromoteModelOperator
from mlflow_calib.provider.operators.score import ScoreModelOperator
from mlflow_calib.provider.operators.split import CalibrationSplitOperator

DOC = """
### Calibrate and promote

`score` runs the base model, and the champion beside it, over validation data. `split` divides the rows into
recalibration and evaluation data that share none. `fit` fits a calibrator and registers base model and calibrator as
one new version. `evaluate` estimates its calibration error, with a confidence bound, on the evaluation data. `gate`
judges: *pass*, *fail* or *inconclusive*. Only after a pass does `promote` move the alias; in all other cases the
champion stays, the `gate` task fails, and its XCom holds the verdict with the reason.

**The least a run needs**: `model_name`, `base_model_uri`, `data_uri`, `work_uri`, `key_columns`, `label_column`, and
a connection of type `mlflow`.

```json
{"model_name": "flights", "base_model_uri": "models:/flights-base/1", "data_uri": "s3://bucket/flights.parquet",
 "work_uri": "s3://bucket/calibration", "key_columns": ["flight_id"], "label_column": "late"}
```

**Which rows.** By default a hash of the keys divides `data_uri` in halves. With `time_column`, `split` may name
periods (ISO 8601, the end excluded),
`{"how": "time", "recalibration_period": "2013-10-01/2013-11-01", "evaluation_period": "2013-11-01/2013-12-01"}`,
or count days back from `as_of`,
`{"how": "time", "recalibration_days": 30, "evaluation_days": 30, "label_delay_days": 7}`.
With two tables give `recalibration_uri`, `evaluation_uri` and the split `{"how": "given"}`, and no `data_uri`.

**What must hold.** `policy` is a TOML file or an object; an absent requirement keeps its default:
`{"requirements": {"calibration_error_upper_bound": {"limit": 0.05}}}`.

**On a schedule.** One DAG serves every model, so it has no schedule of its own. A DAG a model starts it:

```python
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

with DAG("recalibrate_flights", schedule="@monthly", catchup=False):
    TriggerDagRunOperator(
        task_id="recalibrate",
        trigger_dag_id="calibrate_and_promote",
        conf={"model_name": "flights", "split": {"how": "time", "recalibration_days": 30, "evaluation_days": 30}},
    )
```

(with the other params in `conf` as above). Runs wait for one another, so that two never move one alias at once.
A promotion is an event of the asset `models:/<model_name>@<champion_alias>`.
"""


def text(name: str) -> str:
    """Template of a param that is a text; absent, it renders to ""."""
    return f"{{{{ params.{name} or '' }}}}"


def value(name: str) -> str:
    """Template of a param of another type; operators read it back from JSON."""
    return f"{{{{ params.{name} | tojson }}}}"


OPTIONAL_TEXT = ["null", "string"]
COLUMNS = {"type": "array", "items": {"type": "string"}}
PERIOD = {"type": OPTIONAL_TEXT, "description": "Two ISO 8601 moments, the second excluded: start/end"}
DAYS = {"type": ["null", "number"], "minimum": 0}
SPLIT = {
    "how": {"enum": ["hash", "time", "given"]},
    "evaluation_fraction": {"type": ["null", "number"], "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "seed": {"type": ["null", "integer"]},
    "recalibration_period": PERIOD,
    "evaluation_period": PERIOD,
    "recalibration_days": DAYS,
    "evaluation_days": DAYS,
    "label_delay_days": DAYS,
}

# [START params]
PARAMS = {
    # which model
    "model_name": Param(
        type="string",
        minLength=1,
        title="Registered model",
        description="Gets the new version; its alias is what consumers load.",
    ),
    "base_model_uri": Param(
        type="string",
        minLength=1,
        title="Base model",
        description="The model to calibrate, for example models:/flights-base/1 or models:/flights-base@latest.",
    ),
    "champion_alias": Param(
        "champion", type="string", minLength=1, title="Alias", description="Alias of the model in use."
    ),
    "mlflow_conn_id": Param(
        "mlflow_default", type="string", title="MLflow connection", description="Airflow connection of type mlflow."
    ),
    "experiment": Param(
        None,
        type=OPTIONAL_TEXT,
        title="MLflow experiment",
        description="Where runs go; empty: one named as the registered model.",
    ),
    # which data
    "data_uri": Param(
        None, type=OPTIONAL_TEXT, title="Validation data", description="One Parquet or CSV table that a split divides."
    ),
    "recalibration_uri": Param(
        None, type=OPTIONAL_TEXT, title="Recalibration data", description="In place of data_uri, with evaluation_uri."
    ),
    "evaluation_uri": Param(
        None, type=OPTIONAL_TEXT, title="Evaluation data", description="In place of data_uri, with recalibration_uri."
    ),
    "base_training_uri": Param(
        None,
        type=OPTIONAL_TEXT,
        title="Training data of the base model",
        description="Table with the key columns; rows that are evaluation data too are refused.",
    ),
    "work_uri": Param(
        type="string",
        minLength=1,
        title="Work folder",
        description="Where predictions and partitions go: a folder or bucket that every worker reaches.",
    ),
    # its columns
    "key_columns": Param(
        **COLUMNS,
        minItems=1,
        title="Key columns",
        description="Columns that name a row; they keep recalibration and evaluation data apart.",
    ),
    "label_column": Param(type="string", minLength=1, title="Label column", description="Column of the outcomes."),
    "group_column": Param(
        None, type=OPTIONAL_TEXT, title="Group column", description="Rows of one group move together: a day, a user."
    ),
    "time_column": Param(
        None, type=OPTIONAL_TEXT, title="Time column", description="Read by a split by time, and recorded."
    ),
    "slice_columns": Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        title="Slice columns",
        description="Kept beside the scores: what the policy may ask slices by.",
    ),
    "feature_columns": Param(
        None,
        type=["null", "array"],
        items={"type": "string"},
        title="Feature columns",
        description="What the model is called with; empty: the inputs of its signature.",
    ),
    "positive_class": Param(
        None,
        type=["null", "string", "number", "boolean"],
        title="Positive class",
        description="Of two classes the one whose probability is calibrated; needed unless classes are 0 and 1.",
    ),
    "base_score": Param(
        "auto",
        type="string",
        examples=["auto", "probability", "logit"],
        title="Base score",
        description="auto: what the model says of itself; else what its predict returns, or the name of an output.",
    ),
    "classes": Param(
        None,
        type=["null", "array"],
        title="Classes",
        description="Classes in the order of the model's columns, for a model that does not say them itself.",
    ),
    "drop_unlabelled": Param(
        False, type="boolean", title="Drop unlabelled rows", description="Drop and count them; off, they are an error."
    ),
    # which rows are for what
    "split": Param(
        {"how": "hash", "evaluation_fraction": 0.5, "seed": 0},
        type="object",
        properties=SPLIT,
        additionalProperties=False,
        title="Split",
        description='{"how": "hash"}, {"how": "time"} with periods or days, or {"how": "given"} with two tables.',
    ),
    "as_of": Param(
        None,
        type=OPTIONAL_TEXT,
        title="As of",
        description="Moment that days of the split count back from (ISO 8601); empty: when the run was due.",
    ),
    # the calibrator
    "method": Param(
        "scaling-binning",
        type="string",
        enum=["scaling-binning", "scaling-binning-shrunk", "histogram-binning"],
        title="Method",
        description="How the calibrator is fitted.",
    ),
    "reduction": Param(
        None,
        type=OPTIONAL_TEXT,
        enum=[None, "binary", "marginal", "top-label", "top-label-per-class"],
        title="Reduction",
        description="Of three classes and more: which probabilities are calibrated.",
    ),
    "n_bins": Param(10, type="integer", minimum=1, maximum=1000, title="Bins", description="Output values to ask for."),
    "parts": Param(
        "auto",
        type="string",
        enum=["auto", "disjoint", "shared"],
        title="Parts",
        description="Rows of the three steps of the fit: of their own, the same, or as the number of rows allows.",
    ),
    # the gate
    "policy": Param(
        None,
        type=["null", "string", "object"],
        title="Policy",
        description="Requirements: URI of a TOML file, or an object; empty: the defaults of the package.",
    ),
}
# [END params]

# [START dag]
with DAG(
    dag_id="calibrate_and_promote",
    description="Recalibrate a model, bound its calibration error on unseen data, gate its promotion.",
    doc_md=DOC,
    schedule=None,  # one DAG for every model; a DAG a model starts it on its own schedule, see doc_md
    catchup=False,
    max_active_runs=1,  # two runs must not move one alias at once
    params=PARAMS,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},  # for servers that do not answer
    tags=["mlflow", "calibration"],
) as dag:
    score = ScoreModelOperator(
        task_id="score",
        model_uri=text("base_model_uri"),
        champion=f"models:/{text('model_name')}@{text('champion_alias')}",
        work_uri=text("work_uri"),
        data_uri=text("data_uri"),
        recalibration_uri=text("recalibration_uri"),
        evaluation_uri=text("evaluation_uri"),
        key_columns=value("key_columns"),
        label_column=text("label_column"),
        group_column=text("group_column"),
        time_column=text("time_column"),
        slice_columns=value("slice_columns"),
        feature_columns=value("feature_columns"),
        positive_class=value("positive_class"),
        base_score=text("base_score"),
        classes=value("classes"),
        split=value("split"),
        as_of=text("as_of"),
        drop_unlabelled=value("drop_unlabelled"),
        mlflow_conn_id=text("mlflow_conn_id"),
    )
    split = CalibrationSplitOperator(
        task_id="split",
        predictions=score.output,
        work_uri=text("work_uri"),
        split=value("split"),
        as_of=text("as_of"),
        base_training_uri=text("base_training_uri"),
        mlflow_conn_id=text("mlflow_conn_id"),
    )
    fit = CalibrationFitOperator(
        task_id="fit",
        partitions=split.output,
        model_name=text("model_name"),
        calibrator={
            "method": text("method"),
            "reduction": text("reduction"),
            "n_bins": value("n_bins"),
            "parts": text("parts"),
        },
        experiment=text("experiment"),
        mlflow_conn_id=text("mlflow_conn_id"),
    )
    evaluate = CalibrationEvaluateOperator(
        task_id="evaluate",
        partitions=split.output,
        candidate=fit.output,
        policy=value("policy"),
        mlflow_conn_id=text("mlflow_conn_id"),
    )
    gate = CalibrationGateOperator(
        task_id="gate",
        evidence=evaluate.output,
        policy=value("policy"),
        mlflow_conn_id=text("mlflow_conn_id"),
    )
    promote = PromoteModelOperator(
        task_id="promote",
        candidate=fit.output,
        verdict=gate.output,
        alias=text("champion_alias"),
        outlets=[AssetAlias("calibrated_models")],
        mlflow_conn_id=text("mlflow_conn_id"),
    )
# [END dag]
