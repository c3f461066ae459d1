"""Tables by URI: found, described, streamed, filtered by time, and refused with what is wrong."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlflow_calib.core.periods import parse_period
from mlflow_calib.data.tables import check_columns, iter_frames, iter_tables, open_table
from mlflow_calib.data.times import covered, inside, moments
from mlflow_calib.errors import DataError

moment = datetime  # a time without a zone is what some tables hold
FRAME = pd.DataFrame({"id": range(10), "x": np.linspace(0, 1, 10), "s": list("abcdefghij")})


def written(folder: Path, kind: str) -> str:
    if kind == "parquet":
        FRAME.to_parquet(folder / "t.parquet")
        return str(folder / "t.parquet")
    if kind == "folder":
        (folder / "t").mkdir()
        (folder / "t" / "_SUCCESS").touch()
        (folder / "t" / "manifest.json").write_text("{}")
        FRAME[:4].to_parquet(folder / "t" / "0.parquet")
        FRAME[4:].to_parquet(folder / "t" / "1.parquet")
        return (folder / "t").as_uri()
    if kind == "csv.gz":
        (folder / "t.csv.gz").write_bytes(gzip.compress(FRAME.to_csv(index=False).encode()))
        return str(folder / "t.csv.gz")
    if kind == "memory":
        with fsspec.open("memory://tables/t.parquet", "wb") as file:
            FRAME.to_parquet(file)
        return "memory://tables/t.parquet"
    FRAME.to_csv(folder / "t.csv", index=False)
    return str(folder / "t.csv")


@pytest.mark.parametrize("kind", ["parquet", "folder", "csv", "csv.gz", "memory"])
def test_every_kind_of_table_gives_the_same_rows_in_order(kind: str, tmp_path: Path) -> None:
    uri = written(tmp_path, kind)
    table = open_table(uri)
    assert table.columns == ["id", "x", "s"]
    assert table.count_rows() == 10
    frames = list(iter_frames(uri, ["s", "id"], batch_rows=3))
    assert max(map(len, frames)) <= (3 if kind in ("parquet", "memory", "folder") else 10)
    rows = pd.concat(frames, ignore_index=True)
    assert rows.columns.tolist() == ["s", "id"]
    assert rows["id"].tolist() == list(range(10))
    assert rows["s"].tolist() == list("abcdefghij")


def test_hive_folders_have_their_partition_as_a_column(tmp_path: Path) -> None:
    for month in (11, 12):
        (tmp_path / "t" / f"month={month}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [month]}), tmp_path / "t" / f"month={month}" / "0.parquet")
    rows = pd.concat(iter_frames(str(tmp_path / "t"), ["id", "month"]))
    assert rows["month"].tolist() == rows["id"].tolist() == [11, 12]


def test_missing_columns_are_named_together_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"columns 'y', 'z'; it has 'id', 'x', 's'"):
        check_columns(open_table(written(tmp_path, "csv")), ["id", "y", "z"])


def test_a_file_of_a_folder_without_a_column_is_named(tmp_path: Path) -> None:
    """Arrow would fill it with nulls, and a model would be scored on them."""
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"id": [2]}), tmp_path / "1.parquet")
    with pytest.raises(DataError, match=r"1\.parquet lacks the columns 'x'"):
        list(iter_tables(open_table(str(tmp_path)), ["id", "x"]))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (pa.array([1]), pa.array(["1"]), "number values in 'x' like the others, got text"),
        (
            pa.array([moment(2013, 1, 1)], pa.timestamp("us")),
            pa.array([moment(2013, 1, 1)], pa.timestamp("us", "UTC")),
            "time without zone values in 'x' like the others, got time with zone",
        ),
    ],
)
def test_files_of_one_table_hold_one_kind(first: Any, second: Any, message: str, tmp_path: Path) -> None:
    """Arrow would cast the second file to the type of the first in silence."""
    pq.write_table(pa.table({"x": first}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": second}), tmp_path / "1.parquet")
    with pytest.raises(DataError, match=message):
        list(iter_tables(open_table(str(tmp_path)), ["x"]))


def test_integers_of_two_widths_are_one_kind(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": pa.array([2], pa.int64())}), tmp_path / "1.parquet")
    assert [rows["x"].to_pylist() for rows in iter_tables(open_table(str(tmp_path)), ["x"])] == [[1], [2]]


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(5000)}), path, compression="snappy", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[200:2000] = b"\xff" * 1800
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"t\.parquet cannot be read.*write it again$"):
        list(iter_tables(open_table(str(path)), ["x"]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.parquet", None, "does not exist"),
        ("t.parquet", b"PAR1 broken PAR1", "cannot be read"),
        ("t.parquet", b"id,x\n1,2\n", "must be a Parquet file"),
        ("t.xlsx", b"PK", "must be a Parquet file"),
        ("t.csv", b"", "cannot be read"),
        ("t.csv", b"id,x\n", "has no rows"),
    ],
)
def test_tables_that_are_none_are_refused_by_name(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as raised:
        open_table(str(tmp_path / name))
    assert name in str(raised.value)


def test_an_empty_parquet_file_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    FRAME[:0].to_parquet(tmp_path / "empty.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"empty\.parquet has no rows"):
        open_table(str(tmp_path / "empty.parquet"))
    with pytest.raises(DataError, match="holds no Parquet file"):
        open_table(str(tmp_path / "folder"))


def test_a_csv_column_that_changes_its_type_late_is_refused_with_the_remedy(tmp_path: Path) -> None:
    lines = "1\n" * 9_000_000 + "x\n"
    (tmp_path / "t.csv").write_text("id\n" + lines)
    with pytest.raises(DataError, match="reads best from Parquet"):
        list(iter_tables(open_table(str(tmp_path / "t.csv")), ["id"]))


def test_blank_csv_fields_are_missing_as_in_pandas_unless_quoted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('s,x,e\na,1,\n,,\n"",2.5,\n"NA",3,\n')
    [frame] = iter_frames(str(tmp_path / "t.csv"), ["s", "x", "e"])
    assert frame["s"].isna().tolist() == [False, True, False, False]
    assert frame["s"][3] == "NA"
    assert frame["x"].isna().tolist() == [False, True, False, False]
    assert frame["e"].dtype == float


def test_models_get_plain_columns(tmp_path: Path) -> None:
    """A dictionary column (category in pandas) and dates are refused by MLflow's signatures; values are not."""
    table = pa.table({"c": pa.array(["a", "b"]).dictionary_encode(), "d": [date(2013, 1, 1)] * 2})
    pq.write_table(table, tmp_path / "t.parquet")
    [frame] = iter_frames(str(tmp_path / "t.parquet"), ["c", "d"])
    assert not isinstance(frame["c"].dtype, pd.CategoricalDtype)
    assert frame["d"].dtype.kind == "M"


NOVEMBER = "2013-11-01/2013-12-01"
TIMES = ["2013-10-31T23:59:59", "2013-11-01T00:00:00", "2013-11-30T23:59:59.999999", "2013-12-01T00:00:00"]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us"), pa.timestamp("ns"), pa.string(), pa.large_string(), pa.timestamp("us", "UTC")]
)
@pytest.mark.parametrize("period", [NOVEMBER, "2013-11-01T00:00:00Z/2013-12-01T00:00:00Z"])
def test_periods_are_half_open_for_every_type_of_time(kind: pa.DataType, period: str) -> None:
    column = pa.array(TIMES)
    column = column.cast(pa.timestamp("us")).cast(kind) if pa.types.is_timestamp(kind) else column.cast(kind)
    values, has_zone = moments(pa.chunked_array([column]))
    assert has_zone == (getattr(kind, "tz", None) is not None)
    assert inside(values, has_zone, parse_period(period)).tolist() == [False, True, True, False]


def test_times_with_a_zone_are_compared_in_utc_and_without_as_they_stand() -> None:
    texts = ["2013-11-01T00:30:00+01:00", "2013-11-01T00:30:00Z"]
    values, has_zone = moments(pa.array(texts))
    assert inside(values, has_zone, parse_period(NOVEMBER)).tolist() == [False, True]
    paris = pa.array([moment(2013, 10, 31, 23, 30)], pa.timestamp("us", "Europe/Paris"))
    assert inside(*moments(paris), parse_period("2013-10-31T23:00:00/2013-11-01")).tolist() == [True]
    naive = moments(pa.array(["2013-11-01T00:30:00"]))
    assert inside(*naive, parse_period(NOVEMBER)).tolist() == [True]


def test_dates_are_their_midnight_and_missing_times_lie_nowhere() -> None:
    values, has_zone = moments(pa.array([date(2013, 11, 1), date(2013, 12, 1), None]))
    assert inside(values, has_zone, parse_period(NOVEMBER)).tolist() == [True, False, False]
    assert covered(values, has_zone) == (moment(2013, 11, 1), moment(2013, 12, 1))
    assert covered(*moments(pa.nulls(2))) is None


@pytest.mark.parametrize(
    "values", [["2013-11-01", "yesterday"], ["2013-11-01T00:00:00Z", "2013-11-01T00:00:00"], [1, 2]]
)
def test_other_times_are_refused(values: list) -> None:
    with pytest.raises(DataError, match="time column 'day' must hold"):
        moments(pa.array(values), "day")


def test_a_period_filters_frames(tmp_path: Path) -> None:
    pd.DataFrame({"t": TIMES, "i": range(4)}).to_csv(tmp_path / "t.csv", index=False)
    uri = str(tmp_path / "t.csv")
    frames = list(iter_frames(uri, ["i"], time_column="t", period=parse_period(NOVEMBER)))
    assert [frame["i"].tolist() for frame in frames] == [[1, 2]]
    assert frames[0].columns.tolist() == ["i"]
    with pytest.raises(DataError, match="time_column must be given"):
        list(iter_frames(uri, ["i"], period=parse_period(NOVEMBER)))
