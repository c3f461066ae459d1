"""Fields after rendering: what Jinja leaves is read back, and ids stay texts (P4, P5)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlflow_calib.errors import InvalidInputError
from mlflow_calib.provider.fields import FieldReader


def reader(value: Any) -> FieldReader:
    return FieldReader(SimpleNamespace(field=value))


@pytest.mark.parametrize(
    ("method", "given", "meant"),
    [
        ("text", "1234e567890123456789012345678901", "1234e567890123456789012345678901"),
        ("text", "007", "007"),
        ("text", "", None),
        ("text", "  ", None),
        ("text", None, None),
        ("text", Path("/work"), "/work"),
        ("names", ["a", "b"], ["a", "b"]),
        ("names", ("a",), ["a"]),
        ("names", '["a", "b"]', ["a", "b"]),
        ("names", "['a', 'b']", ["a", "b"]),
        ("names", "flight id", ["flight id"]),
        ("names", "a,b", ["a,b"]),
        ("names", "", []),
        ("names", None, []),
        ("names", "null", []),
        ("whole_number", "10", 10),
        ("whole_number", 10, 10),
        ("whole_number", "", None),
        ("truth", "true", True),
        ("truth", "False", False),
        ("truth", True, True),
        ("truth", "", False),
        ("plain", "1", 1),
        ("plain", '"1"', "1"),
        ("plain", "good", "good"),
        ("plain", "true", True),
        ("plain", "null", None),
        ("plain", "", None),
        ("plain", 1, 1),
        ("document", {"uri": "a"}, {"uri": "a"}),
        ("document", '{"version": "007"}', {"version": "007"}),
        ("document", "{'version': '007', 'n': None}", {"version": "007", "n": None}),
        ("document", "runs:/1234e567/verdict.json", "runs:/1234e567/verdict.json"),
        ("document", '"s3://bucket/policy.toml"', "s3://bucket/policy.toml"),
        ("document", "null", None),
        ("required_documents", "file:///m.json", "file:///m.json"),
        ("required_documents", ("{'uri': 'a'}", {"uri": "b"}), [{"uri": "a"}, {"uri": "b"}]),
        ("policy", {"requirements": {"a": {"limit": "0.05", "enabled": "false", "reduction": "binary"}}}, None),
        ("settings", '{"how": "hash", "evaluation_fraction": "0.5", "seed": "7", "x": ""}', None),
    ],
)
def test_read_back(method: str, given: Any, meant: Any) -> None:
    fields = reader(given)
    found = getattr(fields, method)("field")
    fields.check()
    expected = {
        "policy": {"requirements": {"a": {"limit": 0.05, "enabled": False, "reduction": "binary"}}},
        "settings": {"how": "hash", "evaluation_fraction": 0.5, "seed": 7},
    }.get(method, meant)
    assert found == expected
    assert type(found) is type(expected)


def test_a_policy_that_names_its_mode_twice_stays_the_text_it_is() -> None:
    """The step refuses it by name; read as a mapping, the first of the two would be gone."""
    given = '{"mode": "enforce", "mode": "off"}'
    assert reader(given).document("field") == given
    assert reader("[" * 9_000).document("field") == "[" * 9_000


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("text", 7, "field must be a text, got 7"),
        ("required_text", "", "field must be given, got ''"),
        ("required_document", None, "record of an earlier step"),
        ("required_documents", None, "record of an earlier step"),
        ("required_documents", ["a"], "a pair of them"),
        ("required_documents", ["a", None], "a pair of them"),
        ("names", {"a": 1}, "list of column names"),
        ("names", [1], "list of column names"),
        ("whole_number", "ten", "whole number, got 'ten'"),
        ("whole_number", "1.5", "whole number"),
        ("whole_number", True, "whole number, got True"),
        ("truth", "perhaps", "true or false, got 'perhaps'"),
        ("settings", "hash", "mapping or its JSON, got 'hash'"),
        ("settings", {"evaluation_fraction": "half"}, "field['evaluation_fraction'] must be a number, got 'half'"),
        ("settings", {"recalibration_days": "nan"}, "must be a number, got 'nan'"),
        ("document", 7, "mapping, its JSON, or a URI"),
    ],
)
def test_refused_with_the_name_of_the_field(method: str, given: Any, words: str) -> None:
    fields = reader(given)
    getattr(fields, method)("field")
    with pytest.raises(InvalidInputError) as caught:
        fields.check()
    assert words in str(caught.value)


def test_all_mistakes_at_once() -> None:
    fields = FieldReader(SimpleNamespace(model_uri="", n_bins="many"))
    fields.required_text("model_uri")
    fields.whole_number("n_bins")
    with pytest.raises(InvalidInputError, match="2 problems"):
        fields.check()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", "auto"),
        ("logit", "logit"),
        ("p1", "p1"),
        ({"logit": "margin"}, {"logit": "margin"}),
        ('{"logit": "margin"}', {"logit": "margin"}),
        ("{'logit': 'margin'}", {"logit": "margin"}),
    ],
)
def test_where_a_base_model_keeps_its_score(given: Any, meant: Any) -> None:
    """Everything that a base model may declare of its score, as the step takes it."""
    from mlflow_calib.provider.operators.score import ScoreModelOperator

    texts = {"model_uri": "models:/m/1", "work_uri": "/work", "key_columns": ["id"], "label_column": "y"}
    operator = ScoreModelOperator(task_id="score", base_score=given, **texts)
    fields = FieldReader(operator)
    assert operator._models(fields)["base_score"] == meant
    fields.check()
