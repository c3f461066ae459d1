"""Folders appear whole, whoever writes, is killed, or runs out of room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mlflow_calib.data.paths import this_host
from mlflow_calib.data.records import read_json, write_json
from mlflow_calib.data.staging import MANIFEST, written_folder
from mlflow_calib.errors import DataError

SCHEMA = "test/1"


def write(place: Path, text: str) -> None:
    with written_folder(str(place), SCHEMA) as folder:
        write_json(folder / MANIFEST, {"schema": SCHEMA, "text": text})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_second_run_replaces_the_first(tmp_path: Path) -> None:
    write(tmp_path / "out", "first")
    write(tmp_path / "out", "second")
    assert read_json(tmp_path / "out" / MANIFEST)["text"] == "second"
    assert names(tmp_path) == ["out"]


def test_many_writers_of_one_place_leave_one_whole_folder(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def many(text: str) -> None:
        try:
            for _ in range(20):
                write(tmp_path / "out", text)
        except BaseException as error:  # noqa: BLE001 - a thread's error must reach the test
            failures.append(error)

    threads = [threading.Thread(target=many, args=(str(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == [MANIFEST]


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    """SIGKILL leaves no chance to clean up."""
    write(tmp_path / "out", "old")
    code = (
        "import os, signal, sys\n"
        "from mlflow_calib.data.staging import written_folder\n"
        f"with written_folder(sys.argv[1], {SCHEMA!r}):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 2
    write(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]


def test_a_folder_left_moved_away_comes_back(tmp_path: Path) -> None:
    """A process killed between its two renames leaves the old folder under another name."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    write(tmp_path / "out", "old")
    (tmp_path / "out").rename(tmp_path / f".out.old-{this_host()}-{dead.pid}-0123abcd")
    with pytest.raises(RuntimeError, match="on purpose"), written_folder(str(tmp_path / "out"), SCHEMA):
        raise RuntimeError("on purpose")
    assert names(tmp_path) == ["out"]
    assert read_json(tmp_path / "out" / MANIFEST)["text"] == "old"


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / f".out.tmp-{this_host()}-{os.getpid()}-0123abcd"
    own.mkdir()
    write(tmp_path / "out", "text")
    assert own.is_dir()


@pytest.mark.parametrize("place", [".", ".."])
def test_the_working_folder_is_not_replaced(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(DataError, match="must not be the working folder"):
        write(Path(place), "text")
    assert Path.cwd().is_dir()


def test_a_place_below_a_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written: .*give another place"):
        write(tmp_path / "file" / "out", "text")


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="make room"), written_folder(str(tmp_path / "out"), SCHEMA):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []
