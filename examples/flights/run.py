"""The year: train on January and February, then recalibrate, prove and gate once a month by the shipped DAG."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.flights import table
from examples.flights.airflow_runs import database_in_the_making, load_dag, run_once
from examples.flights.data import GROUP, KEY, LABEL, MODEL_NAME, TIME, read_flights
from examples.flights.embedded import REPOSITORY, DemoFolder, libraries_write_to, set_environment
from examples.flights.months import Month, Requirements
from examples.flights.progress import Progress

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from mlflow_calib.flavor.tracking import MlflowServer

DAG_FILE = REPOSITORY / "dags" / "calibrate_and_promote.py"
POLICY_FILE = Path(__file__).with_name("policy.toml")
FIRST_MONTH, LAST_MONTH = 4, 12
N_STEPS = 3 + LAST_MONTH - FIRST_MONTH + 1 + 1  # base model, database, DAG; the months; the pictures


def run(folder: DemoFolder) -> list[Month]:
    """Run the whole demo into one folder; nothing is written elsewhere."""
    folder.start_afresh()
    set_environment(folder)
    with libraries_write_to(folder.log) as terminal, contextlib.closing(Progress(terminal, N_STEPS)) as progress:
        from mlflow_calib.flavor.tracking import MlflowServer

        server = MlflowServer(folder.tracking_uri)
        with database_in_the_making() as wait_for_database:
            prepare_base_model(folder, server, progress)
            progress.start("creating Airflow's database")
            wait_for_database()
        progress.done()
        months = run_year(folder, server, progress)
        progress.start("drawing")
        draw(folder, server, months)
        progress.done()
        progress.write(last_words(folder))
    return months


def prepare_base_model(folder: DemoFolder, server: MlflowServer, progress: Progress) -> None:
    """Write the flights as Parquet; fit, register and promote the base model."""
    progress.start("reading the flights and training the base model")
    from examples.flights.train import fit_base_model, register_base_model, training_rows
    from mlflow_calib.flavor.tracking import connected

    flights = read_flights()
    flights.frame.to_parquet(folder.flights, index=False)
    training_rows(flights.frame)[list(KEY)].to_parquet(folder.training, index=False)
    model = fit_base_model(flights.frame)
    with connected(server) as client:
        # Without a location of its own an experiment of a SQLite store keeps its artifacts in the working folder.
        experiment = client.create_experiment(MODEL_NAME, artifact_location=folder.artifacts)
        version = register_base_model(model, experiment)
    progress.write(
        [
            f"Data: {flights}.",
            f"Base model: trained on January and February, version {version} of `{MODEL_NAME}`, champion by hand.",
            "",
        ]
    )
    progress.done()


def run_year(folder: DemoFolder, server: MlflowServer, progress: Progress) -> list[Month]:
    """Run the DAG once a month and print each month's lines as it ends."""
    progress.start("starting Airflow")
    dag = load_dag(DAG_FILE)
    progress.done()
    requirements = Requirements.read(POLICY_FILE)
    lines = table.header(requirements)
    progress.write(lines)
    months: list[Month] = []
    for number in range(FIRST_MONTH, LAST_MONTH + 1):
        months.append(run_month(dag, folder, server, date(2013, number, 1), progress))
        lines += table.lines_of(months[-1])
        progress.write(table.lines_of(months[-1]))
        progress.done()
    closing = table.closing(months)
    progress.write(closing)
    (folder.root / "table.txt").write_text("\n".join([*lines, *closing, ""]), encoding="utf-8")
    (folder.root / "months.json").write_text(json.dumps([m.to_dict() for m in months], indent=1), encoding="utf-8")
    return months


def run_month(dag: DAG, folder: DemoFolder, server: MlflowServer, month: date, progress: Progress) -> Month:
    """Recalibrate on the month before and judge on the month itself."""
    progress.start(f"{month:%B}: recalibrating on {_shifted(month, -1):%B}, judging on {month:%B}")
    run_once(dag, run_conf(folder, month))
    return Month.read(server, month)


def run_conf(folder: DemoFolder, month: date) -> dict[str, Any]:
    """Build the DAG's params for one month: which model, which columns, which periods, which policy."""
    periods = {
        "recalibration_period": f"{_shifted(month, -1)}/{month}",
        "evaluation_period": f"{month}/{_shifted(month, 1)}",
    }
    return {
        "model_name": MODEL_NAME,
        "base_model_uri": f"models:/{MODEL_NAME}/1",
        "data_uri": str(folder.flights),
        "base_training_uri": str(folder.training),
        "work_uri": str(folder.root / "work" / f"{month:%Y-%m}"),
        "key_columns": list(KEY),
        "label_column": LABEL,
        "group_column": GROUP,
        "time_column": TIME,
        "split": {"how": "time", **periods},
        "policy": str(POLICY_FILE),
        "experiment": MODEL_NAME,
    }


def draw(folder: DemoFolder, server: MlflowServer, months: list[Month]) -> None:
    """Write both pictures."""
    from examples.flights.picture import save_reliability, save_year

    requirements = Requirements.read(POLICY_FILE)
    save_year(folder.root / "errors.png", months, requirements)
    save_reliability(folder.root / "reliability.png", server, months[-1])


def last_words(folder: DemoFolder) -> list[str]:
    """Say where the pictures are, and give the two commands that go on from here."""
    code = (
        'import mlflow, pandas; model = mlflow.pyfunc.load_model("models:/flights@champion"); '
        f"flights = pandas.read_parquet({json.dumps(str(folder.flights))}).tail(); "
        "print(model.predict(flights[model.metadata.get_input_schema().input_names()]))"
    )
    python, store = shlex.quote(sys.executable), shlex.quote(folder.tracking_uri)
    mlflow = shlex.quote(str(Path(sys.executable).with_name("mlflow")))
    return [
        "",
        f"Pictures: {folder.root / 'errors.png'}, {folder.root / 'reliability.png'}; log: {folder.log}",
        "",
        "Open the MLflow UI at http://127.0.0.1:5000:",
        f"  {mlflow} ui --backend-store-uri {store}",
        "Load the champion and predict the last five flights of the year:",
        f"  MLFLOW_TRACKING_URI={store} {python} -c {shlex.quote(code)}",
    ]


def _shifted(month: date, n_months: int) -> date:
    """The first day of the month so many months later; January follows December."""
    year, index = divmod(month.year * 12 + month.month - 1 + n_months, 12)
    return date(year, index + 1, 1)
