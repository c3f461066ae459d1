"""``mlflow.pyfunc.spark_udf``: result types of Spark SQL, and the figures of the model in memory to the bit."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

import mlflow_calib as mc
from mlflow_calib.core.calibrator import Calibrator

Rows = tuple[pd.DataFrame, np.ndarray]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed (pip install 'mlflow-calib[spark]')"
)

SCORE = """
import json, sys, mlflow.pyfunc
from pyspark.sql import SparkSession
folder, binary, marginal = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.parquet(folder + "/frame.parquet").orderBy("id")
found = {}
for name, model, options in (
    ("binary", binary, {}),
    ("both", binary, {"params": {"output": "both"}, "result_type": "base double, calibrated double"}),
    ("label", binary, {"params": {"output": "label"}, "result_type": "long"}),
    ("marginal", marginal, {}),
):
    udf = mlflow.pyfunc.spark_udf(spark, model, env_manager="local", **options)
    scored = rows.select(udf("x1", "x2").alias("p"))
    values = [row.p.asDict() if hasattr(row.p, "asDict") else row.p for row in scored.collect()]
    found[name] = {"type": scored.schema["p"].dataType.simpleString(), "values": values}
json.dump(found, open(folder + "/found.json", "w"))
spark.stop()
"""


@pytest.fixture(scope="module")
def scored(
    binary_model: Path, binary_calibrator: Calibrator, three_class_model: Path, three_class_calibrator: Calibrator,
    binary_rows: Rows, tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, Any]]:  # fmt: skip
    """Folder of two models, and what a Spark session of its own process made of them."""
    folder = tmp_path_factory.mktemp("spark")
    mc.save_model(binary_model, binary_calibrator, folder / "binary")
    mc.save_model(three_class_model, three_class_calibrator, folder / "marginal")
    binary_rows[0].assign(id=range(len(binary_rows[0]))).to_parquet(folder / "frame.parquet")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", SCORE, str(folder), str(folder / "binary"), str(folder / "marginal")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder, json.loads((folder / "found.json").read_text())


def test_a_double_a_row(scored: tuple[Path, dict[str, Any]], binary_rows: Rows) -> None:
    folder, found = scored
    assert found["binary"]["type"] == "double"
    expected = mlflow.pyfunc.load_model(str(folder / "binary")).predict(binary_rows[0])
    np.testing.assert_array_equal(np.array(found["binary"]["values"]), expected)


def test_a_struct_of_a_double_a_class(scored: tuple[Path, dict[str, Any]], binary_rows: Rows) -> None:
    folder, found = scored
    assert found["marginal"]["type"] == "struct<ant:double,bee:double,cat:double>"
    expected = mlflow.pyfunc.load_model(str(folder / "marginal")).predict(binary_rows[0])
    pd.testing.assert_frame_equal(pd.DataFrame(found["marginal"]["values"]), expected, check_exact=True)


def test_other_outputs_name_their_type(scored: tuple[Path, dict[str, Any]], binary_rows: Rows) -> None:
    folder, found = scored
    model = mlflow.pyfunc.load_model(str(folder / "binary"))
    both = model.predict(binary_rows[0], params={"output": "both"})
    pd.testing.assert_frame_equal(pd.DataFrame(found["both"]["values"]), both, check_exact=True)
    labels = model.predict(binary_rows[0], params={"output": "label"})
    np.testing.assert_array_equal(np.array(found["label"]["values"]), labels)
