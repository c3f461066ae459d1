"""Divide predictions into recalibration data and evaluation data that share no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from mlflow_calib.core.periods import Period
from mlflow_calib.core.split import SplitPlan, count_overlap, read_split, resolve_periods
from mlflow_calib.data.keys import KeyHashes, hash_rows, key_kinds, require_same_kinds
from mlflow_calib.data.partitions import EVALUATION, RECALIBRATION, PartitionsManifest, write_partition
from mlflow_calib.data.paths import absolute_uri, join_uri
from mlflow_calib.data.predictions import KEY_HASH, PredictionsManifest
from mlflow_calib.data.staging import MANIFEST, written_folder
from mlflow_calib.data.tables import check_columns, iter_tables, open_table
from mlflow_calib.errors import DataError, raise_problems
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.hand_over import give
from mlflow_calib.steps.partition_rows import Partitioned, partition
from mlflow_calib.steps.taken_predictions import take_predictions

#: Classes that a note names.
_SHOWN = 10


def split(
    predictions: Mapping[str, Any] | str | Sequence[Mapping[str, Any] | str],
    output_uri: str,
    *,
    split: Mapping[str, Any],
    as_of: datetime | str | None = None,
    base_training_uri: str | None = None,
    seed: int = 0,
    server: MlflowServer | None = None,  # noqa: ARG001 - every step takes one
) -> dict[str, Any]:
    """Write ``recalibration.parquet``, ``evaluation.parquet`` and ``manifest.json`` to the folder ``output_uri``.

    Parameters
    ----------
    predictions
        What `score` returned, its JSON or the URI of its manifest; or a pair of two, recalibration data first.
    split
        ``{"how": "hash", "evaluation_fraction": .5, "seed": 0}``; ``{"how": "time", "recalibration_period": "A/B",
        "evaluation_period": "B/C"}`` or with ``recalibration_days``, ``evaluation_days``, ``label_delay_days``
        counted back from ``as_of``; ``{"how": "given"}`` where two tables were scored.
    as_of
        Moment that days are counted back from.
    base_training_uri
        Table with the key columns of the rows the base model was trained on; evaluation rows among them are refused.
    seed
        Seed of a hash split that names none.

    Returns
    -------
    dict
        Hand-over of the manifest: n_recalibration, n_evaluation, n_dropped.

    Raises
    ------
    DataError
        A partition is empty, recalibration rows are all of one class, or evaluation rows are recalibration or training
        rows too (with the count).
    InvalidInputError
        The split is wrong or does not fit the predictions.
    """
    taken = take_predictions(predictions)
    plan = read_split(_with_seed(split, seed))
    periods = resolve_periods(plan, as_of)
    rows = partition(taken, plan, periods)
    _refuse_empty(rows, taken.manifest, plan, periods)
    with written_folder(output_uri, PartitionsManifest.SCHEMA) as folder:
        files = {
            role: write_partition(folder, role, table, taken.manifest.classes, taken.manifest.positive_class)
            for role, table in ((RECALIBRATION, rows.recalibration), (EVALUATION, rows.evaluation))
        }
        notes = _class_notes(files, taken.manifest.classes)
        facts = {
            **taken.shared_facts(),
            "split": _split_record(plan, periods, as_of),
            "n_dropped": rows.n_dropped,
            "overlap": _overlap(rows, taken.manifest, plan, base_training_uri),
            "recalibration_keys": _recalibration_keys(files[RECALIBRATION], taken.manifest, output_uri),
            "predictions": taken.record(),
            "notes": notes,
        }
        sha256 = PartitionsManifest(files=files, **facts).write(folder)
    return give(
        "split",
        uri=absolute_uri(join_uri(output_uri, MANIFEST)),
        sha256=sha256,
        model_uri=taken.manifest.base_model["uri"],
        version=taken.manifest.base_model["version"],
        n_recalibration=files[RECALIBRATION]["n"],
        n_evaluation=files[EVALUATION]["n"],
        n_dropped=rows.n_dropped,
    )


def _with_seed(split: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    """The split with a seed, where it is by hash and names none."""
    if isinstance(split, Mapping) and split.get("how") == "hash" and split.get("seed") in (None, ""):
        return {**split, "seed": seed}
    return split


def _refuse_empty(
    rows: Partitioned, manifest: PredictionsManifest, plan: SplitPlan, periods: tuple[Period, Period] | None
) -> None:
    covers = " to ".join(manifest.source["time_covers"] or ()) or "no recorded time"
    problems = []
    for position, (role, table) in enumerate(((RECALIBRATION, rows.recalibration), (EVALUATION, rows.evaluation))):
        if table.num_rows:
            continue
        if periods:
            reach = f"the period {periods[position]} holds none; the data covers {covers}"
        elif plan.how == "hash":
            reach = f"evaluation_fraction {plan.evaluation_fraction} of {rows.n} rows leaves none; give more rows"
        else:
            reach = f"the table that was scored as {role} data is empty; the data covers {covers}"
        problems.append(f"{role} data must have rows: {reach}")
    if problems:
        raise_problems(problems, DataError)


def _class_notes(files: Mapping[str, Mapping[str, Any]], classes: Sequence[Any]) -> list[str]:
    """What to note of data that miss classes; recalibration data of one class alone are refused."""
    notes = []
    for role, file in files.items():
        held = [one for one, count in zip(classes, file["class_counts"], strict=True) if count]
        absent = [one for one in classes if one not in held]
        if role == RECALIBRATION and len(held) < 2:
            raise DataError(
                f"recalibration data must hold {'both' if len(classes) == 2 else 'several'} classes, and all "
                f"{file['n']} rows are of class {held[0]!r}; widen the recalibration period or give more rows"
            )
        if absent:
            shown = ", ".join(map(repr, absent[:_SHOWN])) + (" and more" if len(absent) > _SHOWN else "")
            alone = "one class" if len(held) == 1 else f"{len(held)} of {len(classes)} classes"
            notes.append(f"{role} data holds {alone} in {file['n']} rows, and no row of {shown}")
    return notes


def _overlap(
    rows: Partitioned, manifest: PredictionsManifest, plan: SplitPlan, base_training_uri: str | None
) -> dict[str, Any]:
    """Shared rows counted, all of them refused; partitions of one hash split of distinct keys need no join."""
    evaluation = _sorted_hashes(rows.evaluation)
    shared = 0 if plan.how == "hash" else count_overlap(evaluation, _sorted_hashes(rows.recalibration))
    trained = None
    if base_training_uri:
        trained = count_overlap(evaluation, _training_hashes(base_training_uri, manifest))
    problems = [
        f"evaluation data must share no row with the {what}, and {count} of {len(evaluation)} rows do, by their keys "
        f"({', '.join(manifest.key_columns)}); take them out of one of the two"
        for what, count in (
            ("recalibration data", shared),
            (f"base model's training data {base_training_uri}", trained),
        )
        if count
    ]
    if problems:
        raise_problems(problems, DataError)
    checked_by = "one hash split" if plan.how == "hash" else "merge join of key hashes"
    return {"recalibration": shared, "base_training": trained, "checked_by": checked_by}


def _training_hashes(uri: str, manifest: PredictionsManifest) -> KeyHashes:
    table = open_table(uri)
    keys = list(manifest.key_columns)
    check_columns(table, keys)
    require_same_kinds(manifest.key_kinds, key_kinds(table.schema(keys), keys), f"the training table {uri}")
    hashes = [hash_rows(batch, keys) for batch in iter_tables(table, keys)]
    return np.unique(np.concatenate(hashes))


def _sorted_hashes(rows: Any) -> KeyHashes:
    return np.sort(np.asarray(rows[KEY_HASH].to_numpy(), dtype=np.uint64))


def _recalibration_keys(file: Mapping[str, Any], manifest: PredictionsManifest, output_uri: str) -> dict[str, Any]:
    """Where the keys stand, and what they are of: hashes of other columns or kinds never meet."""
    uri, kinds = absolute_uri(join_uri(output_uri, file["path"])), dict(manifest.key_kinds)
    return {"uri": uri, "sha256": file["key_hashes_sha256"], "n": file["n"], "key_kinds": kinds}


def _split_record(
    plan: SplitPlan, periods: tuple[Period, Period] | None, as_of: datetime | str | None
) -> dict[str, Any]:
    recalibration, evaluation = (str(period) for period in periods) if periods else (None, None)
    return {
        "how": plan.how,
        "evaluation_fraction": plan.evaluation_fraction,
        "seed": plan.seed,
        "recalibration_period": recalibration,
        "evaluation_period": evaluation,
        "as_of": None if as_of is None or not periods else str(as_of),
    }
