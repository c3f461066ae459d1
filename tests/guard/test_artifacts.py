"""Any byte of model, calibrator or record changed before the promotion: refused, and the reason names what differs."""

from __future__ import annotations

import importlib.util
import marshal
import py_compile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from mlflow_calib.core.records import canonical_json
from mlflow_calib.core.signing import Statement
from mlflow_calib.data.records import sha256_of_text
from mlflow_calib.errors import EvidenceError, ModelError
from mlflow_calib.flavor.file_listing import file_digests, listing
from mlflow_calib.flavor.model_digest import model_files_digest
from mlflow_calib.flavor.resolved import folder_digest
from mlflow_calib.guard.artifacts import Artifacts
from mlflow_calib.guard.places import Places

from .registry import write_model

ARTIFACTS = Artifacts(Places())


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Statement, Path]:
    """A model and its records as they were judged, in plain folders."""
    root = tmp_path_factory.mktemp("judged")
    model = write_model(root / "model")
    (root / "records").mkdir()
    records = {}
    for what in ("evidence", "verdict"):
        text = canonical_json({"schema": what, "figures": [0.1, 0.2, 0.3]})
        (root / "records" / f"{what}.json").write_text(text)
        records |= {f"{what}_uri": f"{root}/records/{what}.json", f"{what}_sha256": sha256_of_text(text)}
    (root / "records/model_files.json").write_text(canonical_json(listing(file_digests(model))))
    return (
        Statement(
            kind="verdict",
            action="promote",
            name="m",
            version="1",
            model_sha256=model_files_digest(model),
            status="pass",
            mode="enforce",
            policy_sha256="sha256:4",
            **records,
        ),
        root,
    )


@contextmanager
def changed(path: Path, position: int) -> Iterator[None]:
    """One bit of the file's byte at the position, counted round, is another one."""
    before = path.read_bytes()
    after = bytearray(before)
    after[position % len(before)] ^= 1 << position % 8
    path.write_bytes(after)
    try:
        yield
    finally:
        path.write_bytes(before)


MODEL_FILES = [
    "MLmodel",
    "requirements.txt",
    "code/rt.py",
    "data/bundle/calibrator.json",
    "data/bundle/base_model/MLmodel",
    "data/bundle/base_model/weights.json",
]


def test_as_judged_nothing_is_wrong(judged: tuple[Statement, Path]) -> None:
    statement, root = judged
    assert ARTIFACTS.problems(statement, str(root / "model")) == []
    assert ARTIFACTS.problems(statement, (root / "model").as_uri()) == []
    assert statement.model_sha256 == folder_digest(root / "model")


@pytest.mark.parametrize("position", range(0, 40, 3))
@pytest.mark.parametrize("name", MODEL_FILES)
def test_any_byte_of_the_model(judged: tuple[Statement, Path], name: str, position: int) -> None:
    statement, root = judged
    with changed(root / "model" / name, position):
        (problem,) = ARTIFACTS.problems(statement, str(root / "model"))
    assert problem.endswith(f": {name} was changed")


@pytest.mark.parametrize("position", range(0, 60, 3))
@pytest.mark.parametrize("what", ["evidence", "verdict"])
def test_any_byte_of_a_record(judged: tuple[Statement, Path], what: str, position: int) -> None:
    statement, root = judged
    with changed(root / "records" / f"{what}.json", position):
        (problem,) = ARTIFACTS.problems(statement, str(root / "model"))
    assert problem.startswith(f"the {what} record {root}/records/{what}.json must have digest")
    assert ARTIFACTS.problems(statement, str(root / "model")) == []


def test_files_added_and_taken_away(judged: tuple[Statement, Path], tmp_path: Path) -> None:
    statement, _ = judged
    model = write_model(tmp_path / "model")
    (model / "code/rt.py").unlink()
    (model / "code/new.py").write_text("")
    (problem,) = ARTIFACTS.problems(statement, str(model))
    assert "code/new.py was added, code/rt.py is missing" in problem
    (problem,) = ARTIFACTS.problems(statement, str(tmp_path / "nowhere"))
    assert problem.endswith("are missing")


def test_a_list_that_was_changed_too_names_nothing(judged: tuple[Statement, Path]) -> None:
    statement, root = judged
    with changed(root / "records/model_files.json", 50), changed(root / "model/MLmodel", 3):
        (problem,) = ARTIFACTS.problems(statement, str(root / "model"))
    assert "must have digest" in problem
    assert "was changed" not in problem


def test_what_reading_adds_is_no_change(judged: tuple[Statement, Path], tmp_path: Path) -> None:
    statement, _ = judged
    model = write_model(tmp_path / "model")
    (model / "registered_model_meta").write_text("model_name: m\n")
    py_compile.compile(str(model / "code/rt.py"))
    assert list((model / "code/__pycache__").iterdir())
    assert ARTIFACTS.problems(statement, str(model)) == []


@pytest.mark.parametrize("mode", ["UNCHECKED_HASH", "CHECKED_HASH"])
def test_code_that_python_would_run_unseen(judged: tuple[Statement, Path], tmp_path: Path, mode: str) -> None:
    """A compiled file that is bound to the hash of its source (PEP 552), or to nothing, runs in place of it."""
    statement, _ = judged
    model = write_model(tmp_path / "model")
    source = model / "code/rt.py"
    unseen = Path(importlib.util.cache_from_source(str(source)))
    py_compile.compile(str(source), str(unseen), invalidation_mode=py_compile.PycInvalidationMode[mode])
    other = compile("ANSWER = 'somebody else'\n", str(source), "exec")
    unseen.write_bytes(unseen.read_bytes()[:16] + marshal.dumps(other))
    assert run_path_of(source) == "somebody else"
    (problem,) = ARTIFACTS.problems(statement, str(model))
    assert "the unchecked code code/__pycache__/rt." in problem
    with pytest.raises(ModelError, match="unchecked code"):
        model_files_digest(model)


def run_path_of(source: Path) -> str:
    """What Python runs where it is told to load this source."""
    module: dict[str, str] = {}
    exec(SourceFileLoader("rt", str(source)).get_code("rt"), module)  # noqa: S102 - the attack itself
    return module["ANSWER"]


def test_compiled_code_that_waits_for_a_download(judged: tuple[Statement, Path], tmp_path: Path) -> None:
    """Bound to a time to come it runs once the source was downloaded at that second."""
    statement, _ = judged
    model = write_model(tmp_path / "model")
    cache = Path(py_compile.compile(str(model / "code/rt.py")) or "")
    header = bytearray(cache.read_bytes())
    header[8:12] = (int(time.time()) + 3600).to_bytes(4, "little")
    cache.write_bytes(header)
    (problem,) = ARTIFACTS.problems(statement, str(model))
    assert "the unchecked code code/__pycache__/rt." in problem


@pytest.mark.parametrize(
    "name",
    [
        "code/__pycache__/__init__.py",
        "__pycache__/weights.json",
        "data/__pycache__/deep/weights.pyc",
        "data/registered_model_meta",
        "registered_model_meta/weights.json",
    ],
)
def test_names_that_reading_adds_hide_nothing_else(judged: tuple[Statement, Path], tmp_path: Path, name: str) -> None:
    statement, _ = judged
    model = write_model(tmp_path / "model")
    (model / name).parent.mkdir(parents=True, exist_ok=True)
    (model / name).write_text("somebody else's")
    (problem,) = ARTIFACTS.problems(statement, str(model))
    assert f"{name} was added" in problem


def test_links_out_of_the_model(judged: tuple[Statement, Path], tmp_path: Path) -> None:
    statement, _ = judged
    model = write_model(tmp_path / "model")
    (tmp_path / "elsewhere").mkdir()
    (model / "code/more").symlink_to(tmp_path / "elsewhere")
    (problem,) = ARTIFACTS.problems(statement, str(model))
    assert "the link code/more" in problem


def test_a_rollback_rests_on_the_model_alone(judged: tuple[Statement, Path]) -> None:
    statement, root = judged
    rollback = replace(statement, kind="rollback", evidence_uri=f"{root}/gone.json")
    assert ARTIFACTS.problems(rollback, str(root / "model")) == []
    assert len(ARTIFACTS.problems(replace(rollback, kind="override"), str(root / "model"))) == 1


@pytest.mark.parametrize(
    "uri",
    [
        "mlflow-artifacts://elsewhere:5000/0/r/artifacts/model",
        "mlflow-artifacts:/0/../1/model",
        "mlflow-artifacts:/0/%2e%2e/model",
        "mlflow-artifacts:/0/model?x",
        "http://127.0.0.1:9/model",
        "models:/m/1",
        "models:/m@champion",
        "file://elsewhere/model",
    ],
)
def test_places_that_another_reader_would_find_elsewhere(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_DESTINATION", "/data")
    with pytest.raises(EvidenceError):
        Places().of(uri)


def test_places_behind_the_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="--serve-artifacts"):
        Places().of("mlflow-artifacts:/0/r/model")
    for destination, place in {
        str(tmp_path): f"{tmp_path}/0/r/model",
        tmp_path.as_uri(): f"{tmp_path}/0/r/model",
        "s3://bucket/root/": "s3://bucket/root/0/r/model",
    }.items():
        monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_DESTINATION", destination)
        assert Places().of("mlflow-artifacts:/0/r/model") == place


def test_a_store_whose_package_is_missing_is_unreadable_not_an_error(
    judged: tuple[Statement, Path], caplog: pytest.LogCaptureFixture
) -> None:
    statement, _ = judged
    (problem,) = ARTIFACTS.problems(statement, "weird://bucket/model")
    assert "cannot be read (MlflowException" in problem


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds none"):
        model_files_digest(tmp_path)
