"""Records: written whole, read back the same, and refused with what to do."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import fsspec
import pytest

from mlflow_calib.core.records import canonical_json, digest
from mlflow_calib.data import records
from mlflow_calib.errors import DataError, InvalidInputError

DOCUMENT = {"b": [1, 0.1, None, True], "a": "é\n"}


def test_canonical_json_and_its_digest() -> None:
    text = '{"a":"é\\n","b":[1,0.1,null,true]}'
    assert canonical_json(DOCUMENT) == text
    assert digest(DOCUMENT) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_json_has_no_word_for_is_refused(value: object, tmp_path: Path) -> None:
    for write in (canonical_json, lambda document: records.write_json(tmp_path / "x.json", document)):
        with pytest.raises(InvalidInputError, match="null and a reason"):
            write({"x": value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["path", "uri", "memory"])
def test_a_record_is_read_back_as_it_was_written(kind: str, tmp_path: Path) -> None:
    place = {"path": str(tmp_path / "a b" / "x.json"), "uri": (tmp_path / "a b:+" / "x.json").as_uri()}
    uri = place.get(kind, "memory://records/x.json")
    sha256 = records.write_json(uri, DOCUMENT)
    assert records.read_json(uri) == DOCUMENT
    assert records.sha256_of_file(uri) == sha256 == records.sha256_of_text(records.read_text(uri))
    records.write_json(uri, [])
    assert records.read_json(uri) == []


def test_a_write_that_fails_leaves_the_old_record_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P17: write, then rename."""
    records.write_json(tmp_path / "x.json", {"old": 1})

    def refuse(_descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(DataError, match="no space left"):
        records.write_json(tmp_path / "x.json", {"new": 1})
    assert records.read_json(tmp_path / "x.json") == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_missing_and_damaged_records_are_refused(tmp_path: Path) -> None:
    damaged, binary = tmp_path / "damaged.json", tmp_path / "binary.json"
    damaged.write_text('{"a": ')
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=r"missing\.json does not exist; check the URI"):
        records.read_json(tmp_path / "missing.json")
    with pytest.raises(DataError, match=r"damaged\.json must hold JSON"):
        records.read_json(damaged)
    with pytest.raises(DataError, match="UTF-8"):
        records.read_json(binary)
    with pytest.raises(DataError, match="cannot be read"):
        records.read_text(tmp_path)


def test_policies_are_toml_json_or_dicts(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('mode = "enforce"\n[requirements.n_evaluation]\nlimit = 500\n')
    records.write_json(tmp_path / "p.json", {"mode": "off"})
    (tmp_path / "p").write_text('{"mode": "dry-run"}')
    expected = {"mode": "enforce", "requirements": {"n_evaluation": {"limit": 500}}}
    assert records.read_policy_document(tmp_path / "p.toml") == expected
    assert records.read_policy_document(str(tmp_path / "p.json")) == {"mode": "off"}
    assert records.read_policy_document(tmp_path / "p") == {"mode": "dry-run"}
    assert records.read_policy_document(expected) == expected


@pytest.mark.parametrize(("name", "text"), [("p.toml", "mode = "), ("p", "{'a': 1}"), ("p.json", "[1]")])
def test_other_policies_are_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match="must be"):
        records.read_policy_document(tmp_path / name)


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path: Path) -> None:
    """As editors of Windows write them."""
    (tmp_path / "p.toml").write_bytes(b'\xef\xbb\xbfmode = "off"\r\n')
    (tmp_path / "p.json").write_bytes(b'\xef\xbb\xbf{"mode":\r\n"off"}')
    for name in ("p.toml", "p.json"):
        assert records.read_policy_document(tmp_path / name) == {"mode": "off"}


@pytest.mark.parametrize("name", ["p.json", "p.toml"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mode": "enforce", "mode": "off"}', "'mode' stands twice in one table"),
        ('{"requirements": {"n_evaluation": {"limit": 9, "limit": 1}}}', "'limit' stands twice"),
        ('{"mode": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_policy_that_says_two_things_or_too_many(name: str, text: str, said: str, tmp_path: Path) -> None:
    """Of a name that stands twice Python takes the last: the first mode would be gone without a word."""
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        records.read_policy_document(tmp_path / name)


def test_toml_that_is_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(DataError, match="nested too deeply"):
        records.read_policy_document(tmp_path / "p.toml")


def test_an_unknown_scheme_says_so() -> None:
    with pytest.raises(DataError, match=r"nowhere://x cannot be opened"):
        records.read_text("nowhere://x")
    assert "memory" in fsspec.available_protocols()
