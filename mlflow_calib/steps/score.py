"""Score rows with a base model, and with the champion beside it, for the same rows in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mlflow_calib.core.periods import Period
from mlflow_calib.core.split import read_split, resolve_periods
from mlflow_calib.data.keys import key_kinds, require_same_kinds
from mlflow_calib.data.paths import absolute_uri, join_uri
from mlflow_calib.data.predictions import PredictionsManifest, stored_columns
from mlflow_calib.data.staging import MANIFEST, written_folder
from mlflow_calib.data.tables import Table, check_columns, check_scalar, open_table
from mlflow_calib.data.times import one_clock
from mlflow_calib.errors import InvalidInputError, raise_problems
from mlflow_calib.flavor.score_source import Score
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.hand_over import give
from mlflow_calib.steps.score_rows import ScoredFile, ScoreJob, score_table
from mlflow_calib.steps.scored_champion import Champion, champion_model
from mlflow_calib.steps.scored_models import ScoredModel, base_model, declared_score, model_facts, server_for


def score(
    model_uri: str,
    output_uri: str,
    *,
    data_uri: str | None = None,
    recalibration_uri: str | None = None,
    evaluation_uri: str | None = None,
    key_columns: Sequence[str],
    label_column: str,
    group_column: str | None = None,
    time_column: str | None = None,
    slice_columns: Sequence[str] = (),
    feature_columns: Sequence[str] | None = None,
    positive_class: Any = None,
    classes: Sequence[Any] | None = None,
    base_score: Score = "auto",
    champion: str | None = None,
    split: Mapping[str, Any] | None = None,
    as_of: datetime | str | None = None,
    drop_unlabelled: bool = False,
    server: MlflowServer | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Write Parquet of keys, labels and scores, and a manifest, to the folder ``output_uri``.

    Every row is read once, in batches. A second run over the same folder replaces the first; after an error nothing
    half-written stays.

    Parameters
    ----------
    model_uri
        Base model; an alias is resolved to its version once.
    output_uri
        Folder, new, empty, or written by this step before.
    data_uri, recalibration_uri, evaluation_uri
        One table that a split divides, or one for each purpose: Parquet file or folder, or CSV.
    key_columns, label_column, group_column, time_column, slice_columns
        Columns copied beside the scores. Keys name a row: present, and each once.
    feature_columns
        Inputs of a model without a signature.
    positive_class, classes, base_score
        Of two classes the one that scores speak of (free for 0/1 and False/True), of more none: every class has its
        column ``score_<class>``; the classes of a model that does not say them; how it gives scores, as `load_scorer`
        takes it, an object also as JSON text.
    champion
        Registered version scored on the same rows, such as ``models:/flights@champion``; an alias that is not set is
        recorded.
    split, as_of
        As `split` takes them; rows outside the periods of a split by time are dropped and counted.
    drop_unlabelled
        Drop and count rows without a label; else they are an error.

    Returns
    -------
    dict
        Hand-over of the manifest: n, model_uri, version, champion_version.

    Raises
    ------
    DataError
        Columns or rows are not what they must be: all at once, with the first rows and the count.
    ModelError
        A model does not exist or gives no probabilities of classes.
    InvalidInputError
        Arguments that contradict each other.
    """
    _check_arguments(key_columns, slice_columns, drop_unlabelled)
    uris = _tables(data_uri, recalibration_uri, evaluation_uri)
    periods = _periods(split, as_of, uris, time_column)
    keys = tuple(key_columns)
    stored = stored_columns(keys, label_column, group_column or None, time_column or None, tuple(slice_columns or ()))
    tables = {role: open_table(uri) for role, uri in uris.items()}
    kinds = _key_kinds(tables, keys, stored)
    server = server_for(server, model_uri, champion)
    reading: dict[str, Any] = {"base_score": declared_score(base_score), "feature_columns": feature_columns}
    base, positive = base_model(server, model_uri, positive_class=positive_class, classes=classes, **reading)
    beside = champion_model(server, champion, base, positive, **reading)
    job = ScoreJob(base, beside, stored, keys, list(periods.values()), drop_unlabelled, progress)
    facts = {
        "key_columns": list(keys),
        "key_kinds": kinds,
        "label_column": label_column,
        "group_column": group_column or None,
        "time_column": time_column or None,
        "slice_columns": list(slice_columns or ()),
        **_model_facts(base, beside, positive),
    }
    with written_folder(output_uri, PredictionsManifest.SCHEMA) as folder:
        files = {role: score_table(job, table, folder / _file_name(role)) for role, table in tables.items()}
        sha256 = _write_manifest(folder, facts, files, periods, uris)
    return give(
        "score",
        uri=absolute_uri(join_uri(output_uri, MANIFEST)),
        sha256=sha256,
        model_uri=base.resolved.uri,
        version=base.resolved.version,
        n=sum(file.n for file in files.values()),
        champion_version=(beside.facts or {}).get("version"),
    )


def _check_arguments(key_columns: Any, slice_columns: Any, drop_unlabelled: Any) -> None:
    problems = [
        f"{name} must be a list of column names, got {given!r}"
        for name, given in (("key_columns", key_columns), ("slice_columns", slice_columns or ()))
        if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, str) for one in given)
    ]
    if not isinstance(drop_unlabelled, bool):
        problems.append(f"drop_unlabelled must be True or False, got {drop_unlabelled!r}")
    if problems:
        raise_problems(problems)


def _tables(data_uri: str | None, recalibration_uri: str | None, evaluation_uri: str | None) -> dict[str, str]:
    given = {"data": data_uri, "recalibration": recalibration_uri, "evaluation": evaluation_uri}
    uris = {role: uri for role, uri in given.items() if uri}
    if set(uris) not in ({"data"}, {"recalibration", "evaluation"}):
        raise InvalidInputError(
            "give either data_uri, or recalibration_uri and evaluation_uri both; got "
            + (", ".join(f"{role}_uri" for role in uris) or "none")
        )
    return uris


def _periods(
    split: Mapping[str, Any] | None, as_of: datetime | str | None, uris: Mapping[str, str], time_column: str | None
) -> dict[str, Period]:
    """Periods by their role; empty where rows are not chosen by time."""
    plan = read_split(split) if split else None
    problems = []
    if plan and (plan.how == "given") != ("data" not in uris):
        where = "recalibration_uri and evaluation_uri" if plan.how == "given" else "data_uri"
        problems.append(f'a split with how="{plan.how}" needs {where}, got {", ".join(f"{role}_uri" for role in uris)}')
    if plan and plan.how == "time" and not time_column:
        problems.append("time_column must be given where the split is by time")
    if problems:
        raise_problems(problems)
    found = resolve_periods(plan, as_of)
    return dict(zip(("recalibration", "evaluation"), found, strict=True)) if found else {}


def _key_kinds(tables: Mapping[str, Table], keys: Sequence[str], stored: Mapping[str, str]) -> dict[str, str]:
    if not keys or len(set(keys)) < len(keys):
        raise InvalidInputError(
            f"key_columns must name at least one column, and each once, keys keep partitions apart; got {list(keys)}"
        )
    kinds: dict[str, str] = {}
    for role, table in tables.items():
        check_columns(table, list(stored.values()))
        check_scalar(table, list(stored.values()))
        own = key_kinds(table.schema(keys), keys)
        require_same_kinds(kinds or own, own, f"the {role} table {table.uri}")
        kinds = own
    return kinds


def _model_facts(base: ScoredModel, champion: Champion, positive: Any) -> dict[str, Any]:
    return {
        "classes": list(base.scorer.classes),
        "positive_class": positive,
        "score_columns": list(base.score_columns),
        "base_model": {**model_facts(base.resolved), "score_source": dict(base.scorer.score_source)},
        "champion": champion.facts,
    }


def _file_name(role: str) -> str:
    return "predictions.parquet" if role == "data" else f"{role}.parquet"


def _write_manifest(
    folder: Path,
    facts: Mapping[str, Any],
    files: Mapping[str, ScoredFile],
    periods: Mapping[str, Period],
    uris: Mapping[str, str],
) -> str:
    counts = ("n_read", "n_outside_periods", "n_unlabelled_dropped", "n_clipped")
    ends = one_clock([end for file in files.values() for end in file.covers])
    source = {
        "uris": {role: absolute_uri(uri) for role, uri in uris.items()},
        **{name: sum(getattr(file, name) for file in files.values()) for name in counts},
        "periods": {role: str(period) for role, period in periods.items()} or None,
        "time_covers": [min(ends).isoformat(), max(ends).isoformat()] if ends else None,
    }
    entries = {role: file.entry() for role, file in files.items()}
    return PredictionsManifest(files=entries, source=source, **facts).write(folder)
