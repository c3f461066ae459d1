"""Slices that a policy asks for: collected as the rows stream by, the candidate alone, every value or named ones."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mlflow_calib as mc
from mlflow_calib.core.evidence import check_evidence
from mlflow_calib.errors import DataError
from mlflow_calib.flavor.records import read_record, read_record_text
from mlflow_calib.steps import evaluate, fit
from mlflow_calib.steps.contenders import Batch, calibrated
from mlflow_calib.steps.evaluation_sums import add_up
from mlflow_calib.steps.slices import Slices, distinct_of


def policy(**tables: Any) -> dict[str, Any]:
    return {"requirements": {"slice_calibration_error_upper_bound": {"limit": 0.5, **tables}}}


@pytest.fixture
def sliced(world: Any, games: Path, tmp_path: Path, steps_helpers: Any) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Games with their season and a court that is missing for some; world, partitions, candidate."""
    frame = pd.read_parquet(games)
    frame["court"] = np.array(["home", "away", None], dtype=object)[np.arange(len(frame)) % 3]
    frame.to_parquet(tmp_path / "games.parquet", index=False)
    partitions = steps_helpers.scored_and_split(
        world.server, tmp_path / "games.parquet", tmp_path, slice_columns=["season", "court"], group_column="date"
    )
    return world, partitions, fit(partitions, name="games", server=world.server)


def test_every_value_of_a_column_and_named_slices(sliced: Any) -> None:
    """Another way to the same numbers: the public estimator on the rows of each slice."""
    world, partitions, candidate = sliced
    rules = policy(columns=["court"], slices=[{"season": 2020, "court": "home"}, {"season": 1999}])
    handed = evaluate(partitions, candidate, policy=rules, server=world.server)
    record = read_record(world.server, handed["uri"])
    assert check_evidence(record) == []
    folder = Path(partitions["uri"].removeprefix("file://")).parent
    rows = pq.read_table(folder / "evaluation.parquet").to_pandas()
    calibrator = mc.Calibrator.from_json(read_record_text(world.server, candidate["uri"]))
    found = {tuple(sorted(one["slice"].items())): one for one in record["slices"]}
    assert set(found) == {
        (("court", "away"),),
        (("court", "home"),),
        (("court", None),),
        (("court", "home"), ("season", 2020)),
        (("season", 1999),),
    }
    for key, one in found.items():
        own = rows
        for column, value in key:
            own = own[own[column].isna() if value is None else own[column] == value]
        assert one["n"] == len(own)
        if not len(own):
            assert one["estimates"]["candidate"] is None
            continue
        options = {"bins": calibrator, "groups": own["group"].astype(str).to_numpy()}
        estimate = mc.estimate_calibration_error(own["score_1"].to_numpy(), own["label"].to_numpy(), **options)
        entry = one["estimates"]["candidate"]
        assert entry["squared_debiased"] == pytest.approx(estimate.squared, abs=1e-14)
        assert entry["upper_bound"] == pytest.approx(estimate.upper_bound(0.95), abs=1e-12)
        assert entry["bound_kind"] == "groups"
    courts = [one["n"] for key, one in found.items() if key[0][0] == "court" and len(key) == 1]
    assert sum(courts) == record["data"]["n"]


def test_without_a_requirement_no_slices_are_collected(sliced: Any) -> None:
    world, partitions, candidate = sliced
    assert read_record(world.server, evaluate(partitions, candidate, server=world.server)["uri"])["slices"] is None


def test_missing_slice_columns_are_named_with_what_to_do(sliced: Any) -> None:
    world, partitions, candidate = sliced
    rules = policy(columns=["hall", "court"], slices=[{"city": "Boston"}])
    message = (
        r"slices by 'city', 'hall'.*'season', 'court'.*slice_columns=\['city', 'hall'\].*--slice city --slice hall"
    )
    with pytest.raises(DataError, match=message):
        evaluate(partitions, candidate, policy=rules, server=world.server)


def test_keys_and_groups_are_columns_to_slice_by(sliced: Any) -> None:
    """By the name they have in the source; a column with a value a row is refused before memory fills."""
    world, partitions, candidate = sliced
    with pytest.raises(DataError, match="slices of a policy must be at most 200, and column 'row' alone has at least"):
        evaluate(partitions, candidate, policy=policy(columns=["row"]), server=world.server)
    days = policy(slices=[{"date": "2016-01-01"}])
    (one,) = read_record(world.server, evaluate(partitions, candidate, policy=days, server=world.server)["uri"])[
        "slices"
    ]
    assert one["slice"] == {"date": "2016-01-01"}


def test_values_are_json_scalars() -> None:
    columns = {
        "whole": (pa.array([1, 2, None, 1]), [1, 2, None]),
        "fractions": (pa.array([1.5, float("nan"), None, 2.0]), [1.5, None, 2.0]),
        "truths": (pa.array([True, False, True, None]), [True, False, None]),
        "days": (pa.array([dt.date(2026, 1, 2)] * 4), ["2026-01-02"]),
        "coded": (pa.array(["a", None, "b", "a"]).dictionary_encode(), ["a", None, "b"]),
    }
    for name, (column, expected) in columns.items():
        values, codes = distinct_of(pa.chunked_array([column]))
        assert values == expected, name
        assert len(codes) == 4
        assert next(values[code] for code in codes) == expected[0]


def test_a_number_is_no_text_and_no_truth() -> None:
    batch = Batch(np.zeros(3), np.zeros(3), slices={"x": ([1, 2], np.array([0, 1, 0]))})
    for wanted, n in ((1, 2), (1.0, 2), ("1", 0), (True, 0)):
        assert sum(len(rows) for _, rows in Slices((), ({"x": wanted},), most=9).of(batch)) == n, wanted


def test_a_slice_that_a_batch_lacks_is_no_less_there() -> None:
    """The first batch knows one value, the second another: sums are those of all rows at once."""
    rng = np.random.default_rng(0)
    z = rng.uniform(size=900)
    y = (rng.uniform(size=900) < z).astype(float)
    values = np.repeat([0, 1], [400, 500])
    calibrator = mc.fit_calibrator(z, y, n_bins=4)

    def summed(cuts: list[int]) -> Any:
        batches = [
            Batch(z[rows], y[rows], key_hashes=rows.astype(np.uint64), slices={"x": (["a", "b"], values[rows])})
            for rows in np.split(np.arange(900), cuts)
        ]
        return add_up({"candidate": calibrated(calibrator)}, batches, Slices(("x",), (), most=9).of).slices

    whole, parts = summed([]), summed([100, 400, 650])
    assert set(whole) == set(parts) == {(("x", "a"),), (("x", "b"),)}
    for key, one in whole.items():
        assert one.statistics.finish().to_dict() == parts[key].statistics.finish().to_dict()
        assert one.log_losses.mean == pytest.approx(parts[key].log_losses.mean, rel=1e-12)
