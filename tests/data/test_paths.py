"""Places: one file whichever way it is named, other hosts by name, run ids as segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlflow_calib.data import paths
from mlflow_calib.data.records import write_json
from mlflow_calib.errors import DataError

RUN_IDS = [
    "manual__2026-01-01T00:00:00+00:00",
    "manual__2026-01-01T00:00:00-00:00",
    "a/b",
    "a-b",
    "..",
    "",
    "é",
    "x" * 300,
]


def test_run_ids_become_valid_unique_stable_segments(tmp_path: Path) -> None:
    """P17: ids with ':' and '+' (and worse) are usable as folders, and never share one."""
    segments = [paths.safe_segment(text) for text in RUN_IDS]
    assert len(set(segments)) == len(RUN_IDS)
    assert segments == [paths.safe_segment(text) for text in RUN_IDS]
    for segment in segments:
        assert len(segment) < 120
        (tmp_path / segment).mkdir()
    assert paths.safe_segment("scheduled-1.2_x") == "scheduled-1.2_x"


@pytest.mark.parametrize("folder", ["plain", "a b", "t=00:00+00:00", "50%25"])
def test_paths_and_file_uris_name_the_same_file(folder: str, tmp_path: Path) -> None:
    place = tmp_path / folder / "x.json"
    assert paths.local_path(str(place)) == paths.local_path(place.as_uri()) == place
    assert paths.join_uri(str(tmp_path / folder), "x.json") == paths.absolute_uri(place) == place.as_uri()
    assert paths.parent_uri(place.as_uri()) == (tmp_path / folder).as_uri()
    write_json(place.as_uri(), {})
    assert place.exists()


def test_remote_places_stay_as_they_are() -> None:
    assert paths.local_path("s3://bucket/a") is None
    assert paths.join_uri("s3://bucket/a/", "x.json") == "s3://bucket/a/x.json"
    assert paths.parent_uri("s3://bucket/a/x.json") == "s3://bucket/a"


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.absolute_uri("a/b") == (tmp_path / "a" / "b").as_uri()


def test_a_file_uri_of_another_host_names_both() -> None:
    """P16."""
    with pytest.raises(DataError) as raised:
        paths.local_path("file://worker-7.example/data/x.json")
    assert "'worker-7.example'" in str(raised.value)
    assert repr(paths.this_host()) in str(raised.value)
    assert paths.local_path(f"file://{paths.this_host()}/data/x") == paths.local_path("file://localhost/data/x")


def test_a_missing_file_of_another_host_names_both(tmp_path: Path) -> None:
    """P16: the record says who wrote it; what lies on shared storage is simply there."""
    with pytest.raises(DataError, match="worker-7") as raised:
        paths.require_file(str(tmp_path / "x"), "manifest", "worker-7")
    assert paths.this_host() in str(raised.value)
    with pytest.raises(DataError, match="does not exist"):
        paths.require_file(str(tmp_path / "x"), "manifest", paths.this_host())
    (tmp_path / "x").touch()
    paths.require_file(str(tmp_path / "x"), "manifest", "worker-7")


def test_an_empty_uri_is_refused() -> None:
    with pytest.raises(DataError, match="empty text"):
        paths.local_path(" ")
