"""A whole table through a calibrated model, batch by batch: Parquet or CSV in, Parquet or CSV out."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from tqdm import tqdm

from mlflow_calib import runtime
from mlflow_calib.data.paths import absolute_uri, file_system, local_path
from mlflow_calib.data.records import sha256_of_file
from mlflow_calib.data.tables import BATCH_ROWS, Table, check_columns, iter_tables, open_table, to_frame
from mlflow_calib.errors import DataError, InvalidInputError, ModelError
from mlflow_calib.flavor.resolved import ResolvedModel, model_meta_of, resolve_model
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.hand_over import give

#: Types of a signature as Arrow reads them from a CSV file.
_ARROW = {
    "boolean": pa.bool_(), "integer": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(),
}  # fmt: skip


def predict_file(
    model_uri: str,
    input_uri: str,
    output_uri: str,
    *,
    output: str = "probability",
    keep_columns: Sequence[str] = (),
    params: Mapping[str, Any] | None = None,
    server: MlflowServer | None = None,
    progress: bool = False,
    batch_rows: int = BATCH_ROWS,
) -> dict[str, Any]:
    """Score a table with a calibrated model and write the result as one file.

    Memory holds a batch of rows. The file appears whole, in the place of an older one, or not at all.

    Parameters
    ----------
    model_uri
        A calibrated model; an alias is resolved once.
    input_uri
        A Parquet file, a folder of them, or a CSV file, by path or URI. A CSV column that the signature names has
        the type the signature says.
    output_uri
        Name of the file to write: ``.csv`` makes CSV, anything else Parquet. Never the input or a file in its folder.
    output
        As of the model: "probability", "label", "base" or "both". A column ``probability`` or ``label``, columns
        ``base`` and ``calibrated``, or one named after each class.
    keep_columns
        Columns of the input that stand first in the output, such as a key.
    params
        Further parameters of the model.
    server
        By default MLflow's own tracking and registry URI; a local folder needs none.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.predict/1``: uri and sha256 of the file, model_uri, model_id, n.

    Raises
    ------
    DataError
        The table is missing, damaged or without a needed column, or the place cannot be written.
    InvalidInputError
        An argument is wrong.
    ModelError
        The model does not exist, is not a calibrated one, or gives no scores for the rows.
    """
    import mlflow.pyfunc

    if output not in runtime.OUTPUTS:
        raise InvalidInputError(f"output must be one of {list(runtime.OUTPUTS)}, got {output!r}")
    _check_place(input_uri, output_uri)
    keep_columns = list(dict.fromkeys(keep_columns))
    resolved = resolve_model(server, model_uri)
    if resolved.calibrator is None:
        raise ModelError(
            f"{resolved.uri} must be a calibrated model, and its flavors are {list(resolved.flavors)}; "
            "score it with mlflow models predict"
        )
    place = local_path(output_uri)
    if place is not None and Path(resolved.local_path).resolve() in place.resolve().parents:
        raise DataError(f"the output {output_uri} must not lie in the folder of the model; name another file")
    schema = getattr(model_meta_of(resolved.local_path).signature, "inputs", None)
    table = open_table(input_uri, _csv_types(schema))
    inputs = _input_columns(schema, table)
    check_columns(table, [*inputs, *keep_columns])
    with nullcontext() if server is None else connected(server):  # a base model not embedded is fetched from there
        model = mlflow.pyfunc.load_model(resolved.local_path, suppress_warnings=True)
    given = {**(params or {}), "output": output}
    batches = iter_tables(table, [*keep_columns, *inputs], batch_rows)
    total = table.count_rows() if progress else None
    with (
        _written_file(output_uri) as path,
        tqdm(total=total, unit="row", desc="predict", disable=not progress) as bar,
    ):
        scored = _scored(model, resolved, batches, inputs, keep_columns, given, bar)
        n = _write(path, scored, csv=output_uri.lower().endswith(".csv"))
        sha256 = sha256_of_file(path)
    uri = absolute_uri(output_uri)
    return give("predict", uri=uri, sha256=sha256, model_uri=resolved.uri, model_id=resolved.model_id, n=n)


def _scored(
    model: Any,
    resolved: ResolvedModel,
    batches: Iterator[Any],
    inputs: list[str],
    kept: list[str],
    params: dict[str, Any],
    bar: Any,
) -> Iterator[Any]:
    """What is written of each batch."""
    n = 0
    for rows in batches:
        predicted = _predicted(model, resolved, rows.select(inputs), params, n)
        yield _joined(rows.select(kept), predicted, params["output"])
        n += rows.num_rows
        bar.update(rows.num_rows)


def _csv_types(schema: Any) -> dict[str, Any]:
    if schema is None or not schema.has_input_names():
        return {}
    named = {column.name: str(getattr(column.type, "name", "")) for column in schema.inputs}
    return {name: _ARROW[kind] for name, kind in named.items() if kind in _ARROW}


def _input_columns(schema: Any, table: Table) -> list[str]:
    """Columns the model is called with: those of its signature, the optional ones where they are there, or all."""
    if schema is None or not schema.has_input_names():
        return list(table.columns)
    required = set(schema.required_input_names())
    return [name for name in schema.input_names() if name in required or name in table.columns]


def _predicted(model: Any, resolved: ResolvedModel, rows: Any, params: dict[str, Any], start: int) -> Any:
    from mlflow.exceptions import MlflowException

    where = f"rows {start} to {start + rows.num_rows - 1}"
    frame = to_frame(rows)
    schema = model.metadata.get_input_schema()
    data = (
        frame.to_numpy() if schema is not None and schema.is_tensor_spec() and not schema.has_input_names() else frame
    )
    try:
        return model.predict(data, params=params)
    except MlflowException as error:
        raise DataError(f"the signature of {resolved.uri} refuses {where}: {error.message}") from error
    except ValueError as error:
        raise ModelError(f"{resolved.uri} cannot score {where} (counted from the first): {error}") from error


def _joined(kept: Any, predicted: Any, output: str) -> Any:
    """Kept columns and outputs as one Arrow table; two columns of one name are refused."""
    if hasattr(predicted, "columns"):
        columns = {str(name): predicted[name].to_numpy() for name in predicted.columns}
    else:
        columns = {"probability" if output in ("probability", "both") else output: np.asarray(predicted)}
    twice = [name for name in columns if name in kept.column_names]
    if twice:
        raise InvalidInputError(f"keep_columns must not name the outputs {twice}; rename the columns of the table")
    for name, values in columns.items():
        kept = kept.append_column(name, pa.array(values.tolist() if values.dtype.kind in "OUS" else values))
    return kept


def _write(path: Path, tables: Iterator[Any], *, csv: bool) -> int:
    """Arrow tables of one schema to a local file, one by one; returns the number of rows."""
    first = next(tables)
    kind: Any = pa.csv.CSVWriter if csv else pq.ParquetWriter
    n = 0
    with kind(str(path), first.schema) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table)
            n += table.num_rows
    return n


def _check_place(input_uri: str, output_uri: str) -> None:
    """Refuse to write over the input, into its folder, over what is no plain file, or CSV that is not compressed."""
    if output_uri.lower().endswith((".csv.gz", ".csv.bz2")):
        raise InvalidInputError(f"the output is never compressed CSV, got {output_uri}; name it .csv or .parquet")
    source, place = local_path(input_uri), local_path(output_uri)
    if source is None or place is None:
        inside = source is place is None and absolute_uri(input_uri) == absolute_uri(output_uri)
    else:
        inside = source.resolve() in (place.resolve(), *place.resolve().parents)
    if inside:
        raise DataError(f"the output {output_uri} must not be the input or lie in its folder; name another file")
    if place is not None and place.exists() and not (place.is_file() or place.is_dir()):
        raise DataError(f"{output_uri} must be the name of a file, and is a device or pipe; name the file to write")


@contextmanager
def _written_file(uri: str) -> Iterator[Path]:
    """A local path to write to; when the block ends well the file stands at ``uri``, else nothing has changed."""
    place = local_path(uri)
    if place is not None and place.is_dir():
        raise DataError(f"{uri} must be the name of a file, and is a folder; name the file to write")
    try:
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=".mlflow-calib-", dir=None if place is None else place.parent)
    except OSError as error:
        raise DataError(f"{uri} cannot be written: {error}; give another place to write to") from error
    try:
        path = Path(folder) / Path(uri).name
        yield path
        if place is not None:
            _put(path, place)
        else:
            system, target = file_system(uri)
            system.makedirs(target.rpartition("/")[0], exist_ok=True)
            system.put_file(str(path), target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put(path: Path, place: Path) -> None:
    try:
        path.replace(place)
    except OSError as error:
        raise DataError(f"{place} cannot be written: {error}; give another place to write to") from error
