"""The evaluation data: its rows in batches with their digest, and the models that are held against them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from mlflow_calib import runtime
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.scores import clean_rows
from mlflow_calib.data.partitions import EVALUATION, PartitionsManifest
from mlflow_calib.data.predictions import GROUP, KEY_HASH, LABEL
from mlflow_calib.data.tables import open_table
from mlflow_calib.runtime import Floats
from mlflow_calib.steps.champion_bins import ChampionRows, champion_contender
from mlflow_calib.steps.contenders import Batch, Contender, base_model, calibrated
from mlflow_calib.steps.fitted import base_scores
from mlflow_calib.steps.slices import distinct_of


@dataclass
class DataDigest:
    """sha256 over scores and labels in key order, the same however the rows are batched."""

    scores: Any = field(default_factory=hashlib.sha256)
    labels: Any = field(default_factory=hashlib.sha256)

    def add(self, scores: Floats, codes: npt.NDArray[Any]) -> None:
        """Take in the next rows: scores as doubles row by row; labels 0 and 1 a byte, places of classes four."""
        self.scores.update(np.ascontiguousarray(scores, dtype="<f8").tobytes())
        self.labels.update(codes.astype(np.uint8 if scores.ndim == 1 else "<u4").tobytes())

    def text(self) -> str:
        """``sha256:`` over both."""
        both = self.scores.digest() + self.labels.digest()
        return f"sha256:{hashlib.sha256(both).hexdigest()}"


def iter_batches(
    manifest: PartitionsManifest,
    digest: DataDigest,
    score_kind: str,
    *,
    champion: bool = True,
    slices: Mapping[str, str] | None = None,
    progress: bool = False,
) -> Iterator[Batch]:
    """Evaluation rows batch by batch, taken into the digest as they pass.

    ``slices`` are the stored columns of slices by their name in the source; ``champion`` False leaves its columns out.
    """
    names = _champion_columns(manifest) if champion else ((), ())
    wanted = [KEY_HASH, LABEL, *manifest.score_columns, *names[0], *names[1], *(slices or {}).values()]
    wanted += [GROUP] if manifest.group_column else []
    n = manifest.files[EVALUATION]["n"]
    with tqdm(total=n, desc="evaluate", unit=" rows", disable=not progress) as bar:
        for rows in manifest.iter_rows(EVALUATION, list(dict.fromkeys(wanted))):
            scores, codes = _clean(rows, manifest, score_kind)
            digest.add(scores, codes)
            yield Batch(
                scores,
                codes,
                champion_scores=_columns(rows, names[0], manifest),
                champion_outputs=_columns(rows, names[1], manifest),
                groups=rows[GROUP].to_numpy() if manifest.group_column else None,
                key_hashes=rows[KEY_HASH].to_numpy(),
                slices={name: distinct_of(rows[column]) for name, column in (slices or {}).items()},
            )
            bar.update(rows.num_rows)


def contenders_of(
    manifest: PartitionsManifest, candidate: Calibrator, rival: Calibrator, *, champion: bool = True
) -> dict[str, Contender]:
    """Candidate, base model, rival, and the champion where there is one and it is asked for."""
    found = {"candidate": calibrated(candidate), "base": base_model(candidate), "rival": calibrated(rival)}
    if not champion:
        return found
    rows = ChampionRows(lambda: _champion_batches(manifest), lambda place: _champion_column(manifest, place))
    other = champion_contender(manifest, candidate, rows)
    return found if other is None else {**found, "champion": other}


def _champion_batches(manifest: PartitionsManifest) -> Iterator[Batch]:
    """The champion's columns alone, batch by batch: what its bins are made from."""
    scores, outputs = _champion_columns(manifest)
    for rows in manifest.iter_rows(EVALUATION, list(dict.fromkeys((*scores, *outputs)))):
        nothing = np.empty(0)
        yield Batch(nothing, nothing, _columns(rows, scores, manifest), _columns(rows, outputs, manifest))


def _champion_column(manifest: PartitionsManifest, place: int) -> Floats:
    """What the champion says of one class; reading the rows in batches checks the digest of the file."""
    name = _champion_columns(manifest)[1][place]
    table = open_table(manifest.file_uri(EVALUATION)).dataset.to_table(columns=[name])
    return runtime.clean_scores(table[name].to_numpy())[0]


def _champion_columns(manifest: PartitionsManifest) -> tuple[Sequence[str], Sequence[str]]:
    champion = manifest.champion or {}
    return champion.get("score_columns") or (), champion.get("output_columns") or ()


def _columns(rows: Any, columns: Sequence[str], manifest: PartitionsManifest) -> Floats | None:
    """Columns of one model, (n,) or (n, K); outputs of a class each need not sum to one."""
    if not columns:
        return None
    arrays = [rows[column].to_numpy() for column in columns]
    if manifest.positive_class is not None:
        return runtime.clean_scores(arrays[0])[0]
    return runtime.clean_scores(np.column_stack(arrays), len(arrays), sums=False)[0]


def _clean(rows: Any, manifest: PartitionsManifest, score_kind: str) -> tuple[Floats, npt.NDArray[Any]]:
    """Base scores, and 0 and 1 of two classes or the place of each row's class among more."""
    scores, labels = base_scores(rows, manifest), rows[LABEL].to_numpy()
    words: dict[str, Any] = {"classes": list(manifest.classes), "score_kind": score_kind}
    if manifest.positive_class is not None:
        clean = clean_rows(scores, labels, positive_class=manifest.positive_class, **words)
        return clean.scores, clean.outcomes
    clean = clean_rows(scores, labels, reduction="marginal", **words)
    return clean.scores, clean.truths.argmax(axis=1)
