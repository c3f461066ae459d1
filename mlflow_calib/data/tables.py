"""Tables by URI, streamed in batches: one Parquet file, a folder of them, or a CSV file.

A CSV file is read as pandas reads it: blank fields and NA, NaN, null count as missing unless they are quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from mlflow_calib.core.periods import Period
from mlflow_calib.data.paths import file_system, local_path
from mlflow_calib.data.times import inside, moments
from mlflow_calib.errors import DataError, raise_problems

#: Rows in memory at once; a thousand float64 features are then half a gigabyte.
BATCH_ROWS = 65_536
_PARQUET_NAMES = (".parquet", ".parq", ".pq")
_CSV_NAMES = (".csv", ".csv.gz", ".csv.bz2")
_CSV_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class Table:
    """A table that was found and whose columns are known; its rows are read when asked for."""

    uri: str
    dataset: Any

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.dataset.schema.names)

    def count_rows(self) -> int:
        """How many rows it holds; CSV is read once for this."""
        with _as_data_errors(self.uri):
            return int(self.dataset.count_rows())

    def schema(self, columns: Sequence[str]) -> Any:
        """Arrow schema of some columns, dictionaries taken as their values."""
        fields = (self.dataset.schema.field(name) for name in columns)
        return pa.schema([pa.field(field.name, _plain(field.type)) for field in fields])


def open_table(uri: str, csv_types: Mapping[str, Any] | None = None) -> Table:
    """A table by URI, nothing but its schema read.

    ``csv_types`` are Arrow types of columns of a CSV file, which are guessed else: "007" may be a text.

    Raises
    ------
    DataError
        Nothing is there, it is of another format, damaged, or has no rows.
    """
    system, path = file_system(uri)
    if not system.exists(path):
        raise DataError(f"table {uri} does not exist; check the URI")
    files, kind = _files(system, path, uri)
    arrow_system = pa.fs.LocalFileSystem() if local_path(uri) else pa.fs.PyFileSystem(pa.fs.FSSpecHandler(system))
    options = {"partitioning": pa.dataset.partitioning(flavor="hive")} if kind == "parquet" else {}
    with _as_data_errors(uri):
        layout = "parquet" if kind == "parquet" else _csv_format(csv_types)
        dataset = pa.dataset.dataset(files, filesystem=arrow_system, format=layout, **options)
    table = Table(uri, dataset)
    with _as_data_errors(uri):
        if dataset.head(1).num_rows == 0 and table.count_rows() == 0:
            raise DataError(f"table {uri} has no rows; check that the step or export that writes it has run")
    return table


def check_columns(table: Table, columns: Sequence[str]) -> None:
    """Refuse columns that the table, or one file of it, does not have: all of them at once.

    Raises
    ------
    DataError
        Names what is missing, and what is there.
    """
    wanted = dict.fromkeys(columns)
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise DataError(
            f"table {table.uri} must have the columns {', '.join(map(repr, missing))}; it has "
            + ", ".join(map(repr, table.columns))
        )
    schema, problems = table.schema(list(wanted)), []
    with _as_data_errors(table.uri):
        for fragment in table.dataset.get_fragments():
            problems += _file_problems(fragment, schema)
    if problems:
        raise_problems([f"table {table.uri}: {problem}" for problem in problems], DataError)


def check_scalar(table: Table, columns: Sequence[str]) -> None:
    """Refuse columns whose values are lists, structs or maps, where a plain value is due: all of them at once.

    Raises
    ------
    DataError
        Names each with its type.
    """
    fields = [field for field in table.schema(list(dict.fromkeys(columns))) if pa.types.is_nested(field.type)]
    if fields:
        problems = [f"column {f.name!r} of {table.uri} must hold one plain value a row, got {f.type}" for f in fields]
        raise_problems(problems, DataError)


def iter_tables(table: Table, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
    """Arrow tables of at most ``batch_rows`` rows, in the order of the table; dictionaries become their values."""
    check_columns(table, columns)
    names = list(dict.fromkeys(columns))
    schema = table.schema(names)
    batches = table.dataset.to_batches(columns=names, batch_size=batch_rows, batch_readahead=2, fragment_readahead=1)
    with _as_data_errors(table.uri):
        for batch in batches:
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).cast(schema)


def iter_frames(
    uri: str,
    columns: Sequence[str],
    *,
    time_column: str | None = None,
    period: Period | None = None,
    batch_rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """Pandas frames of a table, batch by batch; with a period only its rows (half-open; UTC where there is a zone).

    Raises
    ------
    DataError
        The table or a column is missing, or a period is given and no time column.
    """
    if period is not None and time_column is None:
        raise DataError("time_column must be given where a period is; name the column that holds the time")
    wanted = [*columns, *([time_column] if time_column else [])]
    for rows in iter_tables(open_table(uri), wanted, batch_rows):
        kept = rows if period is None else rows.filter(pa.array(inside(*moments(rows[time_column]), period)))
        if kept.num_rows:
            yield to_frame(kept.select(list(columns)))


def to_frame(rows: Any) -> Any:
    """A pandas frame as a model expects it: dates as datetime64, columns without any value as float NaN."""
    fields = [pa.field(f.name, pa.float64() if pa.types.is_null(f.type) else f.type) for f in rows.schema]
    return rows.cast(pa.schema(fields)).to_pandas(date_as_object=False)


def _files(system: Any, path: str, uri: str) -> tuple[list[str], str]:
    if system.isdir(path):
        names = (name for name in system.find(path) if name.lower().endswith(_PARQUET_NAMES))
        files = sorted(name for name in names if not _hidden(name[len(path) :]))
        if not files:
            raise DataError(f"folder {uri} holds no Parquet file ({', '.join(_PARQUET_NAMES)}); name a table")
        return files, "parquet"
    if path.lower().endswith(_CSV_NAMES):
        return [path], "csv"
    with _as_data_errors(uri), system.open(path, "rb") as file:
        magic = file.read(4)
    if magic == b"PAR1":
        return [path], "parquet"
    raise DataError(f"table {uri} must be a Parquet file, a folder of them, or a CSV file named .csv, and is neither")


def _hidden(relative: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in relative.split("/"))


def _csv_format(types: Mapping[str, Any] | None) -> Any:
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, column_types=dict(types or {})
    )
    read = pa.csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
    return pa.dataset.CsvFileFormat(convert_options=convert, read_options=read)


def _plain(kind: Any) -> Any:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if str(kind) == "string_view" else kind


def _file_problems(fragment: Any, schema: Any) -> list[str]:
    """What one file lacks of the table's columns, or holds in another kind than the first file does."""
    own, path = fragment.physical_schema, fragment.path
    folders = _path_columns(path)
    absent = [name for name in schema.names if name not in own.names and name not in folders]
    problems = [f"file {path} lacks the columns {', '.join(map(repr, absent))}"] if absent else []
    for name in (name for name in schema.names if name in own.names and name not in folders):
        first, here = _kind(schema.field(name).type), _kind(_plain(own.field(name).type))
        if "null" not in (first, here) and first != here:
            problems.append(f"file {path} must hold {first} values in {name!r} like the others, got {here}")
    return problems


def _kind(kind: Any) -> str:
    """What types must share for one column: a file of texts is not cast to the numbers of another in silence."""
    if pa.types.is_timestamp(kind):
        return "time with zone" if kind.tz else "time without zone"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)


def _path_columns(path: str) -> list[str]:
    """Columns that the folders of a path hold, such as ``month=11``."""
    return [segment.partition("=")[0] for segment in path.split("/") if "=" in segment]


class _as_data_errors:  # noqa: N801 - reads as a verb in a with statement
    """What Arrow says of a damaged table as a DataError that names it; other errors, a lost network say, pass."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        damaged = isinstance(error, OSError) and error.errno is None  # a bad page has no error number, a bad disk has
        if isinstance(error, pa.ArrowException) or damaged:
            csv = self.uri.lower().endswith(_CSV_NAMES)
            hint = " (a CSV column of mixed types reads best from Parquet)" if csv else ""
            raise DataError(f"table {self.uri} cannot be read: {error}; write it again{hint}") from error
