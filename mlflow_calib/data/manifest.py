"""What every manifest says: the columns, the classes, the models and the sources of the rows that stand beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from mlflow_calib import __version__
from mlflow_calib.core.records import COUNT, TABLE, TEXT, Kind, field_problems, from_json
from mlflow_calib.data import records
from mlflow_calib.data.keys import KeyHashes
from mlflow_calib.data.paths import absolute_uri, join_uri, parent_uri, require_file, this_host
from mlflow_calib.data.staging import MANIFEST
from mlflow_calib.data.tables import BATCH_ROWS, Table, check_columns, iter_tables, open_table
from mlflow_calib.errors import DataError, raise_problems

SomeManifest = TypeVar("SomeManifest", bound="Manifest")
_NAMES = Kind("a list of names", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value))
_KINDS: Mapping[str, Kind] = {
    "files": Kind("a table of files", lambda value: isinstance(value, Mapping) and len(value) > 0),
    **dict.fromkeys(("key_columns", "slice_columns"), _NAMES),
    **dict.fromkeys(("label_column", "hostname", "created_at", "mlflow_calib_version"), TEXT),
    **dict.fromkeys(("group_column", "time_column"), TEXT.or_null()),
    **dict.fromkeys(("key_kinds", "source"), TABLE),
    "classes": Kind("a list of at least two classes", lambda value: isinstance(value, list) and len(value) >= 2),
    "positive_class": Kind("a label", lambda value: isinstance(value, (str, int, float, bool))).or_null(),
    "score_columns": _NAMES,
    "base_model": Kind(
        "a table that names the model's uri", lambda value: isinstance(value, Mapping) and "uri" in value
    ),
    "champion": TABLE.or_null(),
}
_FILE = {"path": TEXT, "n": COUNT, "sha256": TEXT}


def now() -> str:
    """The present moment in UTC, ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Facts of a set of scored rows. All fields but ``uri`` stand in the file.

    Attributes
    ----------
    files : dict
        By the role of a file its ``path`` beside the manifest, ``n`` rows, ``sha256`` and further figures.
    key_columns, slice_columns, label_column, group_column, time_column
        Columns of the source; label, group and time are named ``label``, ``group``, ``time`` in the files.
    key_kinds : dict
        Kind of each key column; hashes are comparable only where kinds agree.
    classes : list, positive_class, score_columns : list of str
        Classes of the base model, the one of two that the scores speak of (None of three and more), and the columns of
        the base scores: one of a model of two classes, else one a class in the order of ``classes``.
    base_model : dict
        uri, name, version, model_id, digest, flavors, score_source.
    champion : dict or None
        None where none was asked for; version None where the alias is not set; else also uri, model_id, digest, kind,
        recalibration_keys, score_columns, output_columns (its calibrated outputs; of a raw champion its scores).
    source : dict
        uris, n_read, n_outside_periods, n_unlabelled_dropped, n_clipped, periods, time_covers.
    """

    SCHEMA: ClassVar[str] = ""
    #: Kinds of the fields that a subclass adds.
    KINDS: ClassVar[Mapping[str, Kind]] = {}

    files: Mapping[str, Mapping[str, Any]]
    key_columns: Sequence[str]
    key_kinds: Mapping[str, str]
    label_column: str
    group_column: str | None
    time_column: str | None
    slice_columns: Sequence[str]
    classes: Sequence[Any]
    positive_class: Any
    score_columns: Sequence[str]
    base_model: Mapping[str, Any]
    champion: Mapping[str, Any] | None
    source: Mapping[str, Any]
    hostname: str = field(default_factory=this_host)
    created_at: str = field(default_factory=now)
    mlflow_calib_version: str = __version__
    uri: str = field(default="", compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The document of the manifest file."""
        document = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "uri"}
        return {"schema": self.SCHEMA, **document}

    @classmethod
    def from_dict(  # noqa: PYI019 - Self came with Python 3.11
        cls: type[SomeManifest], document: Any, uri: str = ""
    ) -> SomeManifest:
        """The manifest of a document; everything that is wrong with it at once.

        Raises
        ------
        DataError
            It is of another schema, or a field is missing.
        """
        where = uri or "the manifest"
        if not isinstance(document, Mapping) or document.get("schema") != cls.SCHEMA:
            given = document.get("schema") if isinstance(document, Mapping) else type(document).__name__
            raise DataError(
                f'{where} must have schema "{cls.SCHEMA}", got {given!r}; hand over the right step\'s result'
            )
        kinds = {**_KINDS, **cls.KINDS}
        problems = field_problems(document, kinds)
        if not problems:
            problems += [
                p for role, one in document["files"].items() for p in field_problems(one, _FILE, f"files.{role}")
            ]
            problems += _column_problems(document) + _champion_problems(document["champion"])
        if problems:
            raise_problems([f"{where}: {problem}; run its step again" for problem in problems], DataError)
        return cls(**{name: document[name] for name in kinds}, uri=uri)

    def write(self, folder: Path) -> str:
        """Write the manifest file into a folder, last of all files, and return its digest."""
        return records.write_json(folder / MANIFEST, self.to_dict())

    def file_uri(self, role: str) -> str:
        """URI of one of the files.

        Raises
        ------
        DataError
            There is no file of that role, or it is not there (it may be on another host).
        """
        if role not in self.files:
            raise DataError(f"{self.uri} has no {role!r} rows; it has {', '.join(map(repr, self.files))}")
        uri = join_uri(parent_uri(self.uri), self.files[role]["path"])
        require_file(uri, f"the {role} rows", self.hostname)
        return uri

    def open_rows(self, role: str) -> Table:
        """One of the files as a table, its digest checked.

        Raises
        ------
        DataError
            The file is missing, or is not the one the manifest speaks of.
        """
        uri = self.file_uri(role)
        if not records.same_sha256(found := records.sha256_of_file(uri), expected := self.files[role]["sha256"]):
            raise DataError(f"{uri} must have digest {expected}, found {found}: it changed since; run its step again")
        return open_table(uri)

    def iter_rows(self, role: str, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
        """Arrow tables of one of the files, batch by batch, in the order of the file."""
        table = self.open_rows(role)
        yield from iter_tables(table, table.columns if columns is None else columns, batch_rows)

    def read_rows(self, role: str, columns: Sequence[str] | None = None) -> Any:
        """One of the files, or some of its columns, as one Arrow table."""
        table = self.open_rows(role)
        names = table.columns if columns is None else list(columns)
        check_columns(table, names)
        return table.dataset.to_table(columns=names)

    def key_hashes(self, role: str) -> KeyHashes:
        """Key hashes of one of the files, in its order."""
        column = self.read_rows(role, ["key_hash"])["key_hash"]
        return np.asarray(column.to_numpy(), dtype=np.uint64)


def _column_problems(document: Mapping[str, Any]) -> list[str]:
    """Where classes, positive class and score columns do not belong together."""
    positive, classes, columns = document["positive_class"], document["classes"], document["score_columns"]
    if len(classes) > 2:
        problems = [] if positive is None else [f"positive_class must be null for {len(classes)} classes"]
        scored = classes
    else:
        problems = [] if positive in classes else [f"positive_class must be one of {classes}, got {positive!r}"]
        scored = [positive]
    if columns != [f"score_{one}" for one in scored]:
        problems.append(f"score_columns must be {[f'score_{one}' for one in scored]}, got {columns!r}")
    return problems


def _champion_problems(champion: Mapping[str, Any] | None) -> list[str]:
    """A champion that was scored and has no version: it would pass for one that is not set yet."""
    told = champion is not None and champion.get("version") is None and champion.get("uri") is not None
    return ["champion.version must name the registered version that was scored, got None"] if told else []


def read_manifest(
    kind: type[SomeManifest], uri: str, sha256: str | None = None, written_on: str | None = None
) -> SomeManifest:
    """Read a manifest by the URI of its file or of its folder.

    Raises
    ------
    DataError
        It is not there (with both names where another host wrote it), damaged, changed since, or of another schema.
    """
    place = absolute_uri(uri if str(uri).endswith(".json") else join_uri(uri, MANIFEST))
    require_file(place, "manifest", written_on)
    text = records.read_text(place)
    if sha256 and not records.same_sha256(found := records.sha256_of_text(text), sha256):
        raise DataError(f"{place} must have digest {sha256}, found {found}: it changed since; run its step again")
    try:
        document = from_json(text)
    except ValueError as error:
        raise DataError(f"{place} must hold JSON, and does not ({error}); run its step again") from error
    return kind.from_dict(document, place)
