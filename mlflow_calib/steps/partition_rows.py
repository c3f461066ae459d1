"""Which rows of the predictions go where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mlflow_calib.core.periods import Period, covers, parse_period
from mlflow_calib.core.split import SplitPlan, hash_split
from mlflow_calib.data.predictions import KEY_HASH, TIME, PredictionsManifest
from mlflow_calib.data.times import inside, moments
from mlflow_calib.errors import InvalidInputError
from mlflow_calib.steps.taken_predictions import Taken


@dataclass(frozen=True)
class Partitioned:
    """Recalibration and evaluation rows as Arrow tables, and how many rows are in neither."""

    recalibration: Any
    evaluation: Any
    n_dropped: int = 0

    @property
    def n(self) -> int:
        """Rows of both."""
        return int(self.recalibration.num_rows + self.evaluation.num_rows)


def partition(taken: Taken, plan: SplitPlan, periods: tuple[Period, Period] | None) -> Partitioned:
    """Divide the rows as planned.

    Raises
    ------
    InvalidInputError
        The plan does not fit the predictions: two tables where one is due or the reverse, no time column, or periods
        that scoring has dropped.
    """
    files = list(taken.files())
    if (plan.how == "given") != (len(files) == 2):
        due = "two scored tables" if plan.how == "given" else "one scored table"
        remedy = 'say how="given"' if len(files) == 2 else 'say how="hash" or "time", or score two tables'
        raise InvalidInputError(
            f'a split with how="{plan.how}" needs {due}, and the predictions hold '
            f"{', '.join(role for role, _, _ in files)}; {remedy}"
        )
    tables = [manifest.read_rows(own) for _, manifest, own in files]
    if plan.how == "given":
        return Partitioned(*tables)
    rows = tables[0]
    if plan.how == "hash":
        hashes = np.asarray(rows[KEY_HASH].to_numpy(), dtype=np.uint64)
        chosen = hash_split(hashes, plan.evaluation_fraction or 0.5, plan.seed or 0)
        return Partitioned(rows.filter(pa.array(~chosen)), rows.filter(pa.array(chosen)))
    return _by_time(rows, taken.manifest, periods)


def _by_time(rows: Any, manifest: PredictionsManifest, periods: tuple[Period, Period] | None) -> Partitioned:
    if periods is None or TIME not in rows.column_names:
        raise InvalidInputError("a split by time needs a time column, and the predictions have none; score with one")
    recorded = [parse_period(text) for text in (manifest.source["periods"] or {}).values()]
    dropped = [str(period) for period in periods if recorded and not covers(recorded, period)]
    if dropped:
        raise InvalidInputError(
            f"the predictions must hold the periods of the split, and scoring kept only "
            f"{' and '.join(map(str, recorded))}, not all of {' and '.join(dropped)}; score again with this split"
        )
    values, has_zone = moments(rows[TIME], TIME)
    recalibration, evaluation = (inside(values, has_zone, period) for period in periods)
    n_dropped = int(np.count_nonzero(~(recalibration | evaluation)))
    return Partitioned(rows.filter(pa.array(recalibration)), rows.filter(pa.array(evaluation)), n_dropped)
