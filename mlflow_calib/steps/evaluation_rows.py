"""The evaluation data: its rows in batches with their digest, and the models that are held against them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tqdm import tqdm

from mlflow_calib import runtime
from mlflow_calib.core.binning import Floats, uniform_mass
from mlflow_calib.core.calibrator import Calibrator
from mlflow_calib.core.scores import clean_rows
from mlflow_calib.core.split import count_overlap
from mlflow_calib.data.partitions import EVALUATION, RECALIBRATION, PartitionsManifest
from mlflow_calib.data.predictions import GROUP, LABEL
from mlflow_calib.errors import DataError, EvidenceError
from mlflow_calib.steps.contenders import (
    Batch,
    Contender,
    base_model,
    calibrated,
    calibrated_champion,
    raw_champion,
)


@dataclass
class DataDigest:
    """sha256 over scores and labels in key order, the same however the rows are batched."""

    scores: Any = field(default_factory=hashlib.sha256)
    outcomes: Any = field(default_factory=hashlib.sha256)

    def add(self, scores: Floats, outcomes: Floats) -> None:
        """Take in the next rows."""
        self.scores.update(scores.astype("<f8").tobytes())
        self.outcomes.update(outcomes.astype(np.uint8).tobytes())

    def text(self) -> str:
        """``sha256:`` over both."""
        both = self.scores.digest() + self.outcomes.digest()
        return f"sha256:{hashlib.sha256(both).hexdigest()}"


def iter_batches(
    manifest: PartitionsManifest, digest: DataDigest, score_kind: str, *, progress: bool = False
) -> Iterator[Batch]:
    """Evaluation rows batch by batch, taken into the digest as they pass."""
    champion = manifest.champion or {}
    columns = {"champion_scores": champion.get("score_column"), "champion_outputs": champion.get("output_column")}
    wanted = [
        LABEL,
        manifest.score_column,
        *filter(None, columns.values()),
        *([GROUP] if manifest.group_column else []),
    ]
    n = manifest.files[EVALUATION]["n"]
    with tqdm(total=n, desc="evaluate", unit=" rows", disable=not progress) as bar:
        for rows in manifest.iter_rows(EVALUATION, list(dict.fromkeys(wanted))):
            clean = clean_rows(
                rows[manifest.score_column].to_numpy(),
                rows[LABEL].to_numpy(),
                classes=list(manifest.classes),
                positive_class=manifest.positive_class,
                score_kind=score_kind,
            )
            digest.add(clean.scores, clean.outcomes)
            scored = {name: _clean(rows[column]) if column else None for name, column in columns.items()}
            groups = rows[GROUP].to_numpy() if manifest.group_column else None
            yield Batch(clean.scores, clean.outcomes, groups=groups, **scored)
            bar.update(rows.num_rows)


def require_no_overlap(manifest: PartitionsManifest) -> None:
    """Refuse evaluation rows that are recalibration rows too, counted in the files whatever the manifest says.

    Raises
    ------
    EvidenceError
        With the number of rows that stand in both files.
    DataError
        A file is not sorted by distinct key hashes.
    """
    hashes = {role: manifest.key_hashes(role) for role in (RECALIBRATION, EVALUATION)}
    for role, found in hashes.items():
        if not (found[1:] > found[:-1]).all():
            raise DataError(f"{manifest.file_uri(role)} must be sorted by distinct key hashes; split again")
    if shared := count_overlap(hashes[EVALUATION], hashes[RECALIBRATION]):
        raise EvidenceError(
            f"no evaluation row may be among the recalibration rows, and {shared} of {len(hashes[EVALUATION])} in "
            f"{manifest.uri} are; split again"
        )


def champion_column(manifest: PartitionsManifest, name: str) -> Floats:
    """One column of the champion over all evaluation rows: what its bins are made from."""
    column = (manifest.champion or {})[name]
    return _clean(manifest.read_rows(EVALUATION, [column])[column])


def contenders_of(manifest: PartitionsManifest, candidate: Calibrator, rival: Calibrator) -> dict[str, Contender]:
    """Candidate, base model, rival, and the champion where there is one."""
    found = {"candidate": calibrated(candidate), "base": base_model(candidate), "rival": calibrated(rival)}
    champion = _champion(manifest, candidate)
    return found if champion is None else {**found, "champion": champion}


def _champion(manifest: PartitionsManifest, candidate: Calibrator) -> Contender | None:
    """The champion in its own bins; where it is the base model itself, in the candidate's."""
    champion = manifest.champion
    if champion is None or champion.get("version") is None:
        return None
    n_bins = candidate.n_bins_requested
    if champion["kind"] == "calibrated":
        return calibrated_champion(champion_column(manifest, "output_column"), n_bins)
    if champion["digest"] == manifest.base_model["digest"]:
        return base_model(candidate)
    return raw_champion(uniform_mass(champion_column(manifest, "score_column"), n_bins))


def _clean(column: Any) -> Floats:
    return runtime.clean_scores(column.to_numpy())[0]
