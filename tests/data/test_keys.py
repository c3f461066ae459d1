"""Key hashes: a format that is fixed for good, whatever types and files the keys come in."""

from __future__ import annotations

import hashlib
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from mlflow_calib.data.keys import key_hashes, key_kinds, require_same_kinds, sorted_digest
from mlflow_calib.errors import DataError

moment = datetime  # a time without a zone is what some tables hold


def one(value: object, kind: pa.DataType | None = None) -> int:
    return int(key_hashes(pa.table({"k": pa.array([value], kind)}), ["k"])[0])


def blake(text: str) -> int:
    """The specification in one line."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def test_the_format_is_fixed() -> None:
    """``printf '[1545,"UA"]' | b2sum -l 64`` prints e6c4124b4427b976 (columns ``a`` and ``b``)."""
    table = pa.table({"flight": [1545], "carrier": ["UA"]})
    expected = 0xE6C4124B4427B976
    # columns sorted by name: carrier before flight gives the array ["UA",1545]
    assert key_hashes(pa.table({"a": [1545], "b": ["UA"]}), ["a", "b"]).tolist() == [expected]
    assert key_hashes(table, ["flight", "carrier"]).tolist() == [blake('["UA",1545]')]
    assert key_hashes(table, ["flight", "carrier"]).tolist() == key_hashes(table, ["carrier", "flight"]).tolist()


NOON = moment(2013, 12, 1, 12, 0, 0, 120_000)
UTC_NOON = NOON.replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("token", "values"),
    [
        (
            "7",
            [
                (7, pa.int8()),
                (7, pa.uint64()),
                (7.0, pa.float32()),
                (7.0, pa.float64()),
                (Decimal(7), pa.decimal128(38, 0)),
            ],
        ),
        ("-7", [(-7, pa.int16()), (-7.0, pa.float64())]),
        ("18446744073709551615", [(2**64 - 1, pa.uint64())]),
        ("0", [(0, pa.int32()), (-0.0, pa.float64())]),
        ("true", [(True, pa.bool_())]),
        ('"7"', [("7", pa.string()), ("7", pa.large_string()), ("7", pa.dictionary(pa.int8(), pa.string()))]),
        ('"é\\"\\\\\\n\\u0001/"', [('é"\\\n\x01/', pa.string())]),
        ('"2013-12-01T00:00:00"', [(date(2013, 12, 1), pa.date32()), (date(2013, 12, 1), pa.date64())]),
        ('"2013-12-01T00:00:00"', [(moment(2013, 12, 1), pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]),
        ('"2013-12-01T12:00:00.12"', [(NOON, pa.timestamp(unit)) for unit in ("ms", "us", "ns")]),
        ('"2013-12-01T12:00:00.12Z"', [(UTC_NOON, pa.timestamp("us", zone)) for zone in ("UTC", "Europe/Paris")]),
        ('"1960-02-29T00:00:10"', [(moment(1960, 2, 29, 0, 0, 10), pa.timestamp("ns"))]),
    ],
)
def test_a_value_has_one_token_whatever_holds_it(token: str, values: list) -> None:
    assert {one(value, kind) for value, kind in values} == {blake(f"[{token}]")}


def test_text_tokens_are_json() -> None:
    texts = ["", "plain", 'quo"te', "back\\slash", "tab\tnew\nline", "\x00\x1f\x7f", "ünïcödé 🙂", "</script>"]
    expected = [blake(f"[{json.dumps(text, ensure_ascii=False)}]") for text in texts]
    assert key_hashes(pa.table({"k": texts}), ["k"]).tolist() == expected


def test_csv_parquet_and_pandas_give_the_same_hashes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": [1, 2], "day": pd.to_datetime(["2013-01-01", "2013-01-02"]), "name": ["a", "b"]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    keys = ["id", "day", "name"]
    tables = [frame, pa.csv.read_csv(tmp_path / "x.csv"), pa.parquet.read_table(tmp_path / "x.parquet")]
    assert len({tuple(key_hashes(table, keys).tolist()) for table in tables}) == 1


def test_missing_keys_are_refused_with_rows_and_count() -> None:
    table = pa.table({"a": [1, None, 3, None, None], "b": ["x", "y", None, "z", "w"]})
    with pytest.raises(DataError, match=r"missing\. 4 of 5 rows.*row 1: a=None, b='y'; row 2: a=3, b=None; row 3"):
        key_hashes(table, ["a", "b"])
    with pytest.raises(DataError, match=r"missing\. 1 of 2 rows"):
        key_hashes(pd.DataFrame({"a": [1.0, np.nan]}), ["a"])


def test_repeated_keys_are_refused_with_rows_and_count() -> None:
    table = pa.table({"a": [1, 2, 1, 3, 2]})
    with pytest.raises(DataError, match=r"one row each\. 4 of 5 rows.*row 0: a=1; row 1: a=2; row 2: a=1"):
        key_hashes(table, ["a"])


def test_columns_that_are_no_keys_are_refused() -> None:
    with pytest.raises(DataError, match=r"'x' must hold whole numbers.*1 of 2.*row 1: 1\.5"):
        key_hashes(pa.table({"x": [1.0, 1.5]}), ["x"])
    with pytest.raises(DataError, match=r"'x' must hold integers.*got list"):
        key_hashes(pa.table({"x": [[1], [2]]}), ["x"])
    with pytest.raises(DataError, match=r"9007199254740994|9.007199254740994e\+15"):
        key_hashes(pa.table({"x": [2.0**53 + 2]}), ["x"])


def test_kinds_that_never_match_are_refused() -> None:
    """Texts and integers of the same digits would never meet, and an overlap would go unseen."""
    integers, texts = (key_kinds(pa.table({"id": values}).schema, ["id"]) for values in ([1], ["1"]))
    assert (integers, texts) == ({"id": "integer"}, {"id": "text"})
    with pytest.raises(DataError, match=r"'id' of the training table must hold integer values.*got text"):
        require_same_kinds(integers, texts, "the training table")
    require_same_kinds(integers, key_kinds(pa.table({"id": [1.0]}).schema, ["id"]), "the training table")


def test_the_digest_of_sorted_hashes_is_of_their_little_endian_bytes() -> None:
    assert (
        sorted_digest(np.array([1, 2], dtype=np.uint64))
        == "sha256:" + hashlib.sha256(b"\1" + 7 * b"\0" + b"\2" + 7 * b"\0").hexdigest()
    )


def test_no_two_of_many_keys_share_a_hash() -> None:
    n = 200_000
    hashes = key_hashes(pa.table({"a": np.arange(n) // 2, "b": np.arange(n) % 2 == 0}), ["a", "b"])
    assert len(np.unique(hashes)) == n
    assert abs((hashes >> np.uint64(63)).mean() - 0.5) < 0.01
