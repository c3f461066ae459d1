r"""Keys of rows as 64-bit hashes, by which recalibration and evaluation data are shown to share no row.

**The format, fixed for good** (stored partitions are compared across releases):

1. The key columns are taken in the order of their names (by code point), so the order they are given in is free.
2. Each value becomes one JSON token:
   integer of any width, a decimal without fraction, a whole float of at most 2**53 in size: its decimal digits,
   ``-`` before a negative one; boolean: ``true`` or ``false``; text: a JSON string in UTF-8 in which ``"``, ``\`` and
   the characters below U+0020 alone are escaped (``\n``, ``\t``, ``\r``, ``\b``, ``\f``, else ``\u00xx``), with no
   Unicode normalisation; time: the JSON string ``"YYYY-MM-DDTHH:MM:SS"``, then a fraction without its trailing zeros
   if there is one, then ``Z`` if the time has a zone (converted to UTC); a date is its midnight without a zone.
3. The tokens stand in one JSON array without blanks: ``["UA",1545]`` for columns ``carrier`` and ``flight``.
4. The hash is BLAKE2b of that text with a digest of 8 bytes, no key and no salt, read as a big-endian unsigned number.

``printf '["UA",1545]' | b2sum -l 64`` prints it. Values of unlike kinds never match (the text ``"1"`` is not the
integer 1): `key_kinds` names the kinds, and two tables are compared only where the kinds agree. Missing values and
floats with a fraction are refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mlflow_calib.errors import DataError, raise_problems

KeyHashes = npt.NDArray[np.uint64]
_ESCAPED = '["\\\\\\x00-\\x1f]'


def key_hashes(table: Any, key_columns: Sequence[str]) -> KeyHashes:
    """Hashes of the keys of a table (Arrow or pandas), in the order of its rows; shape (n,).

    Raises
    ------
    DataError
        A key is missing or stands twice: the first rows and the count. A column is no key.
    """
    rows = (
        table if isinstance(table, pa.Table) else pa.Table.from_pandas(table[list(key_columns)], preserve_index=False)
    )
    problems = []
    missing = np.flatnonzero(missing_keys(rows, key_columns))
    if missing.size:
        problems.append(_rows_problem("keys must not be missing", rows, key_columns, missing))
    hashes = hash_rows(rows, key_columns)
    repeated = np.flatnonzero(repeated_hashes(hashes))
    if repeated.size and not missing.size:
        problems.append(_rows_problem("keys must name one row each", rows, key_columns, repeated))
    if problems:
        raise_problems(problems, DataError)
    return hashes


def hash_rows(rows: Any, key_columns: Sequence[str]) -> KeyHashes:
    """Hashes of the keys of an Arrow table; nothing is refused but what has no token (a missing value is ``null``)."""
    tokens = [_tokens(_one_array(rows[name]), name) for name in sorted(key_columns)]
    joined = pc.binary_join_element_wise(*tokens, ",", null_handling="replace", null_replacement="null")
    blake2b = hashlib.blake2b
    digests = b"".join(
        blake2b(b"[%b]" % text, digest_size=8).digest() for text in joined.cast(pa.large_binary()).to_pylist()
    )
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def key_kinds(schema: Any, key_columns: Sequence[str]) -> dict[str, str]:
    """Kind of each key column: integer, boolean, text, time, or time with zone.

    Raises
    ------
    DataError
        A column is of a type that no key has.
    """
    kinds = {name: _kind(schema.field(name).type) for name in sorted(key_columns)}
    problems = [
        f"key column {name!r} must hold integers, booleans, texts, dates or times, got "
        f"{schema.field(name).type}; convert it to text"
        for name, kind in kinds.items()
        if kind == "other"
    ]
    if problems:
        raise_problems(problems, DataError)
    return kinds


def require_same_kinds(first: Mapping[str, str], second: Mapping[str, str], what: str) -> None:
    """Refuse keys of unlike kinds: their hashes would never meet, and an overlap would go unseen."""
    problems = [
        f"key column {name!r} of {what} must hold {first[name]} values like the other table, got {second.get(name)}; "
        "convert one of them"
        for name in first
        if second.get(name) != first[name]
    ]
    if problems:
        raise_problems(problems, DataError)


def missing_keys(rows: Any, key_columns: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which rows miss a value in some key column; NaN counts as missing."""
    missing = np.zeros(rows.num_rows, dtype=np.bool_)
    for name in key_columns:
        missing |= pc.is_null(_one_array(rows[name]), nan_is_null=True).to_numpy(zero_copy_only=False)
    return missing


def repeated_hashes(hashes: KeyHashes) -> npt.NDArray[np.bool_]:
    """Which rows share their hash with another row."""
    order = np.argsort(hashes, kind="stable")
    same = hashes[order][1:] == hashes[order][:-1]
    repeated = np.zeros(len(hashes), dtype=np.bool_)
    repeated[order[1:][same]] = repeated[order[:-1][same]] = True
    return repeated


def sorted_digest(sorted_hashes: KeyHashes) -> str:
    """``sha256:`` and the SHA-256 of sorted key hashes, as little-endian 64-bit numbers one after the other."""
    return "sha256:" + hashlib.sha256(np.ascontiguousarray(sorted_hashes, dtype="<u8").tobytes()).hexdigest()


def _rows_problem(rule: str, rows: Any, key_columns: Sequence[str], bad: npt.NDArray[np.intp]) -> str:
    shown = rows.select(list(key_columns)).take(pa.array(bad[:3])).to_pylist()
    first = "; ".join(f"row {row}: {describe_key(key)}" for row, key in zip(bad[:3], shown, strict=True))
    return f"{rule}. {bad.size} of {rows.num_rows} rows do not hold it: {first}"


def describe_key(key: Mapping[str, Any]) -> str:
    """A key as messages show it: ``flight=1545, carrier='UA'``."""
    return ", ".join(f"{name}={value if not isinstance(value, str) else repr(value)}" for name, value in key.items())


def _kind(kind: Any) -> str:
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or (types.is_decimal(kind) and kind.scale == 0):
        return "integer"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "time with zone" if getattr(kind, "tz", None) else "time"
    return "missing" if types.is_null(kind) else "other"


def _one_array(column: Any) -> Any:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _tokens(array: Any, name: str) -> Any:
    kind = key_kinds(pa.schema([pa.field(name, array.type)]), [name])[name]
    if kind == "missing":
        return pa.nulls(len(array), pa.string())
    if kind == "text":
        return _text_tokens(array.cast(pa.string()))
    if kind == "boolean":
        return pc.if_else(array, "true", "false")
    if kind == "integer":
        return _whole(array, name).cast(pa.string())
    return _time_tokens(array)


def _text_tokens(texts: Any) -> Any:
    tokens = pc.binary_join_element_wise('"', texts, '"', "")
    escaped = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(escaped).as_py():
        return tokens
    rewritten = [json.dumps(text, ensure_ascii=False) for text in texts.filter(escaped).to_pylist()]
    return pc.replace_with_mask(tokens, escaped, pa.array(rewritten, pa.string()))


def _whole(array: Any, name: str) -> Any:
    if not pa.types.is_floating(array.type):
        return array
    values = pc.if_else(pc.is_nan(array.cast(pa.float64())), None, array.cast(pa.float64()))
    numbers = np.asarray(pc.fill_null(values, 0.0))
    bad = np.flatnonzero((numbers != np.floor(numbers)) | (np.abs(numbers) > 2.0**53))
    if bad.size:
        first = "; ".join(f"row {row}: {numbers[row]}" for row in bad[:3])
        raise DataError(
            f"key column {name!r} must hold whole numbers of at most 2**53, and {bad.size} of {len(array)} rows do "
            f"not ({first}); convert it to integers or text"
        )
    return values.cast(pa.int64())


def _time_tokens(array: Any) -> Any:
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("s" if pa.types.is_date32(array.type) else "ms"))
    zone = array.type.tz
    clock = array.cast(pa.timestamp(array.type.unit, "UTC")).cast(pa.timestamp(array.type.unit)) if zone else array
    text = pc.strftime(clock, format="%Y-%m-%dT%H:%M:%S")
    text = pc.replace_substring_regex(text, r"\.0+$", "")
    text = pc.replace_substring_regex(text, r"(\.\d*[1-9])0+$", r"\1")
    return pc.binary_join_element_wise('"', text, 'Z"' if zone else '"', "")
