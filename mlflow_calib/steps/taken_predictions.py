"""Predictions as a split takes them: of one manifest, or of two that were scored apart by one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow_calib.data.predictions import PredictionsManifest, read_predictions
from mlflow_calib.errors import DataError, InvalidInputError, raise_problems
from mlflow_calib.steps.hand_over import take

#: What two manifests must agree on: names of fields, and within models the parts that decide.
_AGREED = ("key_columns", "key_kinds", "label_column", "group_column", "time_column", "slice_columns")
_AGREED_MODEL = ("classes", "positive_class", "score_columns")
_ROLES = ("recalibration", "evaluation")
_COUNTS = ("n_read", "n_outside_periods", "n_unlabelled_dropped", "n_clipped")


@dataclass(frozen=True)
class Taken:
    """One manifest of predictions or a pair, with the digests they were handed over with."""

    manifests: tuple[PredictionsManifest, ...]
    digests: tuple[str | None, ...]

    @property
    def manifest(self) -> PredictionsManifest:
        """The manifest whose facts hold for all rows."""
        return self.manifests[0]

    def files(self) -> Iterator[tuple[str, PredictionsManifest, str]]:
        """Role in the split, manifest and role in the manifest, of every file; recalibration data first."""
        if len(self.manifests) == 2:
            yield from zip(_ROLES, self.manifests, ("data", "data"), strict=True)
        elif "data" in self.manifest.files:
            yield "data", self.manifest, "data"
        else:
            yield from ((role, self.manifest, role) for role in _ROLES)

    def shared_facts(self) -> dict[str, Any]:
        """Facts of the predictions that the partitions carry on, the counts of both added up."""
        names = (*_AGREED, *_AGREED_MODEL, "base_model", "champion")
        sources = [manifest.source for manifest in self.manifests]
        source = {**sources[0], **{name: sum(one[name] for one in sources) for name in _COUNTS}}
        if len(sources) == 2:
            source["uris"] = {role: one["uris"]["data"] for role, one in zip(_ROLES, sources, strict=True)}
            ends = [end for one in sources for end in one["time_covers"] or ()]
            source["time_covers"] = [min(ends), max(ends)] if ends else None
        return {**{name: getattr(self.manifest, name) for name in names}, "source": source}

    def record(self) -> dict[str, Any]:
        """Which predictions these are."""
        return {"uris": [manifest.uri for manifest in self.manifests], "sha256": list(self.digests)}


def take_predictions(predictions: Mapping[str, Any] | str | Sequence[Mapping[str, Any] | str]) -> Taken:
    """Read one manifest of predictions, or a pair of them.

    Raises
    ------
    DataError
        A manifest is missing or damaged, or the two disagree on the model or the columns: everything at once.
    InvalidInputError
        Neither one result nor a pair was given.
    """
    given = [predictions] if isinstance(predictions, (str, Mapping)) or predictions is None else list(predictions)
    if len(given) not in (1, 2):
        raise InvalidInputError(f"predictions must be one result of step 'score' or a pair, got {len(given)}")
    documents = [take(one, "mlflow_calib.score/1", "predictions") for one in given]
    manifests = [read_predictions(one["uri"], one.get("sha256"), one.get("hostname")) for one in documents]
    if len(manifests) == 2:
        _require_agreement(*manifests)
    return Taken(tuple(manifests), tuple(one.get("sha256") for one in documents))


def _require_agreement(first: PredictionsManifest, second: PredictionsManifest) -> None:
    problems = [
        f"both predictions must come of one data_uri each, and {one.uri} holds {', '.join(one.files)}; give it alone"
        for one in (first, second)
        if set(one.files) != {"data"}
    ]
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in (*_AGREED, *_AGREED_MODEL)}
    pairs["base model"] = (first.base_model["digest"], second.base_model["digest"])
    pairs["champion"] = (_champion(first), _champion(second))
    problems += [
        f"both predictions must agree on {name}, got {one!r} and {other!r}; score both with the same model and columns"
        for name, (one, other) in pairs.items()
        if one != other
    ]
    if problems:
        raise_problems(problems, DataError)


def _champion(manifest: PredictionsManifest) -> Any:
    champion = manifest.champion or {}
    return [champion.get(name) for name in ("name", "version", "digest")] if champion else None
