"""Rows of one table, batch by batch: chosen, checked, scored and written. Memory holds a batch and the key hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from mlflow_calib.core.periods import Period
from mlflow_calib.data.keys import KeyHashes, describe_key, hash_rows, missing_keys, repeated_hashes
from mlflow_calib.data.predictions import GROUP, KEY_HASH, LABEL, TIME
from mlflow_calib.data.records import sha256_of_file
from mlflow_calib.data.row_problems import RowProblems, UnknownLabels, check_scores
from mlflow_calib.data.tables import Table, check_columns, iter_tables, to_frame
from mlflow_calib.data.times import covered, inside, moments, one_clock
from mlflow_calib.errors import DataError, ModelError
from mlflow_calib.steps.scored_champion import Champion
from mlflow_calib.steps.scored_models import ScoredModel

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ScoreJob:
    """What is the same for every table of one call."""

    base: ScoredModel
    champion: Champion
    stored: Mapping[str, str]
    key_columns: Sequence[str]
    periods: Sequence[Period]
    drop_unlabelled: bool
    progress: bool

    @property
    def models(self) -> list[ScoredModel]:
        """Models to run; a champion that is the base model is not run twice."""
        return [self.base, *([self.champion.model] if self.champion.model else [])]

    @property
    def score_columns(self) -> list[str]:
        """Stored columns of scores, in order."""
        own = [column for model in self.models for column in model.score_columns]
        facts = self.champion.facts or {}
        return [*own, *facts["score_columns"]] if self.champion.is_base else own

    def source_columns(self, table: Table) -> list[str]:
        """Columns to read; a model's optional inputs only where the table has them."""
        required = [*self.stored.values()]
        for model in self.models:
            must = model.scorer.required_columns or model.input_columns
            required += [name for name in model.input_columns if name in must or name in table.columns]
        return list(dict.fromkeys(required))


@dataclass
class ScoredFile:
    """What was counted while one table was scored."""

    path: str
    where: str
    n: int = 0
    n_read: int = 0
    n_outside_periods: int = 0
    n_unlabelled_dropped: int = 0
    n_clipped: int = 0
    sha256: str = ""
    covers: list[datetime] = field(default_factory=list)
    hashes: list[KeyHashes] = field(default_factory=list)

    def entry(self) -> dict[str, Any]:
        """Entry of the manifest's ``files``."""
        return {"path": self.path, "n": self.n, "sha256": self.sha256}


def score_table(job: ScoreJob, table: Table, path: Path) -> ScoredFile:
    """Score a table into a Parquet file.

    Raises
    ------
    DataError
        Every rule that rows break, with the first rows and the count; no row lies in a period.
    """
    check_columns(table, job.source_columns(table))
    done = ScoredFile(path.name, table.uri)
    problems, unknown = RowProblems(table.uri), UnknownLabels(job.base.scorer.classes)
    total = table.count_rows() if job.progress else None
    with (
        pq.ParquetWriter(path, _schema(job, table)) as writer,
        tqdm(total=total, unit="row", desc=f"score {path.stem}", disable=not job.progress) as bar,
    ):
        for rows in iter_tables(table, job.source_columns(table)):
            numbers = np.arange(done.n_read, done.n_read + rows.num_rows)
            done.n_read += rows.num_rows
            kept = _choose(job, rows, numbers, done, problems)
            if kept.any():
                chosen = rows.filter(pa.array(kept))
                writer.write_table(_scored(job, chosen, numbers[kept], done, problems, unknown))
            bar.update(len(kept))
    problems.raise_all(unknown.sentences())
    _refuse_empty(job, done)
    _refuse_repeated(job, path, done)
    done.sha256 = sha256_of_file(path)
    return done


def _schema(job: ScoreJob, table: Table) -> Any:
    source = table.schema(list(dict.fromkeys(job.stored.values())))
    fields = [pa.field(name, source.field(column).type) for name, column in job.stored.items()]
    fields.append(pa.field(KEY_HASH, pa.uint64()))
    return pa.schema([*fields, *(pa.field(name, pa.float64()) for name in job.score_columns)])


def _choose(job: ScoreJob, rows: Any, numbers: Any, done: ScoredFile, problems: RowProblems) -> Mask:
    """Rows of the periods that have a label; missing times, labels and groups are gathered or counted."""
    kept = _in_periods(job, rows, numbers, done, problems)
    unlabelled = kept & _missing(rows[job.stored[LABEL]])
    if job.drop_unlabelled:
        done.n_unlabelled_dropped += int(unlabelled.sum())
    else:
        problems.add("labels must not be missing; repair them, or say drop_unlabelled=True", numbers[unlabelled])
    kept &= ~unlabelled
    if GROUP in job.stored:
        bad = kept & _missing(rows[job.stored[GROUP]])
        problems.add(f"group column {job.stored[GROUP]!r} must not be missing", numbers[bad])
    return kept


def _in_periods(job: ScoreJob, rows: Any, numbers: Any, done: ScoredFile, problems: RowProblems) -> Mask:
    if TIME not in job.stored:
        return np.ones(rows.num_rows, dtype=np.bool_)
    values, has_zone = moments(rows[job.stored[TIME]], job.stored[TIME])
    problems.add(f"time column {job.stored[TIME]!r} must not be missing", numbers[np.isnat(values)])
    ends = one_clock([*done.covers, *(covered(values, has_zone) or ())])
    done.covers = [min(ends), max(ends)] if ends else []
    if not job.periods:
        return np.ones(rows.num_rows, dtype=np.bool_)
    kept = np.logical_or.reduce([inside(values, has_zone, period) for period in job.periods])
    done.n_outside_periods += int(np.count_nonzero(~kept & ~np.isnat(values)))
    return np.asarray(kept, dtype=np.bool_)


def _scored(
    job: ScoreJob, rows: Any, numbers: Any, done: ScoredFile, problems: RowProblems, unknown: UnknownLabels
) -> Any:
    """One batch as it is stored."""
    _check_labels(rows[job.stored[LABEL]], numbers, unknown)
    missing = missing_keys(rows, job.key_columns)
    problems.add(f"key columns {', '.join(map(repr, job.key_columns))} must not be missing", numbers[missing])
    hashes = hash_rows(rows, job.key_columns)
    done.hashes.append(hashes)
    done.n += rows.num_rows
    columns = [rows[column] for column in job.stored.values()]
    columns += [pa.array(hashes), *(pa.array(values) for values in _scores(job, rows, numbers, done, problems))]
    return pa.table(columns, names=[*job.stored, KEY_HASH, *job.score_columns])


def _scores(job: ScoreJob, rows: Any, numbers: Any, done: ScoredFile, problems: RowProblems) -> list[Any]:
    frame = to_frame(rows)
    scores: list[Any] = []
    for model in job.models:
        inputs = frame[[name for name in model.input_columns if name in frame.columns]]
        for values in _run(model, inputs, numbers, done.where):
            if len(values) != len(frame) or values.ndim > 2:
                raise ModelError(f"{model.resolved.uri} must score every row, got {values.shape} for {len(frame)}")
            clean, n_clipped = check_scores(values, numbers, problems, model.resolved.uri)
            done.n_clipped += n_clipped
            scores += [clean] if clean.ndim == 1 else [np.ascontiguousarray(column) for column in clean.T]
    return [*scores, *scores] if job.champion.is_base else scores


def _run(model: ScoredModel, inputs: Any, numbers: Any, where: str) -> tuple[Any, ...]:
    try:
        return model.score(inputs)
    except (DataError, ModelError) as error:
        span = f"rows {numbers[0]} to {numbers[-1]} of {where}"
        raise type(error)(f"{model.resolved.uri} cannot score {span} (rows counted from the first): {error}") from error


def _check_labels(column: Any, numbers: Any, unknown: UnknownLabels) -> None:
    encoded = column.combine_chunks().dictionary_encode()
    unknown.add(encoded.dictionary.to_pylist(), np.asarray(encoded.indices), numbers)


def _missing(column: Any) -> Mask:
    return np.asarray(pc.is_null(column, nan_is_null=True), dtype=np.bool_)


def _refuse_empty(job: ScoreJob, done: ScoredFile) -> None:
    if done.n:
        return
    reach = " to ".join(end.isoformat() for end in done.covers) or "no time at all"
    wanted = f"must have rows in {' or '.join(map(str, job.periods))}" if job.periods else "must have labelled rows"
    raise DataError(
        f"{done.where} {wanted}, and has none: {done.n_read} rows read, {done.n_outside_periods} outside the periods, "
        f"{done.n_unlabelled_dropped} dropped without a label; the data covers {reach}"
    )


def _refuse_repeated(job: ScoreJob, path: Path, done: ScoredFile) -> None:
    repeated = repeated_hashes(np.concatenate(done.hashes))
    done.hashes.clear()
    if not repeated.any():
        return
    keys = pq.read_table(path, columns=list(job.key_columns)).filter(pa.array(repeated))
    shown = sorted({describe_key(key) for key in keys.slice(0, 100).to_pylist()})[:3]
    raise DataError(
        f"keys ({', '.join(job.key_columns)}) must name one row each, and {keys.num_rows} of {done.n} rows of "
        f"{done.where} share theirs: {'; '.join(shown)}; name further key columns, or drop the repeated rows"
    )
