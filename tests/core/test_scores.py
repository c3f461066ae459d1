"""Rows made clean: what is accepted, what is refused, and what the refusal says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlflow_calib.core.labels import factorize
from mlflow_calib.core.scores import clean_rows, key_order
from mlflow_calib.errors import InvalidInputError

P = [0.1, 0.8, 0.6]


def problems(*arguments: Any, **options: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        clean_rows(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("labels", "positive_class", "classes"),
    [
        ([0, 1, 1], None, (0, 1)),
        ([0.0, 1.0, 1.0], None, (0, 1)),
        ([False, True, True], None, (False, True)),
        (np.array([False, True, True], dtype=object), None, (False, True)),
        (["no", "yes", "yes"], "yes", ("no", "yes")),
        (pd.Series(["no", "yes", "yes"]), "yes", ("no", "yes")),
        (pd.Categorical(["no", "yes", "yes"]), "yes", ("no", "yes")),
        (["-1", "1", "1"], "1", ("-1", "1")),
        ([1, 2, 2], np.int64(2), (1, 2)),
        ([2, 1, 1], 1, (2, 1)),
    ],
)
def test_labels_in_the_models_own_words(labels: Any, positive_class: Any, classes: tuple[Any, ...]) -> None:
    """N25: the positive class stated, or one of the two pairs that name it themselves."""
    rows = clean_rows(P, labels, positive_class=positive_class)
    assert rows.outcomes.tolist() == [0, 1, 1]
    assert rows.classes == classes
    assert [type(name) for name in rows.classes] == [type(name) for name in classes]
    assert rows.positive_class == classes[1]


@pytest.mark.parametrize("labels", [["no", "yes", "yes"], [1, 2, 2], ["-1", "1", "1"], ["0", "1", "1"]])
def test_positive_class_is_never_guessed(labels: list[Any]) -> None:
    """N25: the order of two words says nothing."""
    message = problems(P, labels)
    assert "positive_class must be stated" in message
    assert all(repr(name) in message for name in set(labels))


def test_stated_negative_class_turns_outcomes_round() -> None:
    assert clean_rows(P, [0, 1, 1], positive_class=0).outcomes.tolist() == [1, 0, 0]


def test_tie_is_neither_class() -> None:
    """N26: a win probability with label 0.5."""
    for options in ({}, {"positive_class": 1}, {"classes": [0, 1]}):
        message = problems(P, [0, 0.5, 1], **options)
        assert "0.5 (1 rows, first 1)" in message


def test_one_class_only_is_legal_here() -> None:
    """N12, N5: evaluation labels may miss a class."""
    assert clean_rows(P, [1, 1, 1]).outcomes.tolist() == [1, 1, 1]
    two = clean_rows([[0.9, 0.1], [0.8, 0.2]], [0, 0], reduction="marginal")
    assert two.outcomes.tolist() == [[1, 0], [1, 0]]
    three = clean_rows([[0.5, 0.3, 0.2]] * 2, [1, 2], reduction="marginal")
    assert three.outcomes.mean(axis=0).tolist() == [0, 0.5, 0.5]


def test_classes_come_from_the_model() -> None:
    """N6: a model of three classes and labels in {0, 1}."""
    assert clean_rows([[0.5, 0.3, 0.2]] * 2, [0, 1], reduction="marginal").classes == (0, 1, 2)


def test_unknown_labels_are_listed() -> None:
    """N7: a model of {0, 1, 2} and labels {1, 2, 3}."""
    message = problems([[0.5, 0.3, 0.2]] * 3, [1, 2, 3], reduction="marginal")
    assert "unknown to the classes [0, 1, 2]: 3 (1 rows, first 2)" in message


def test_binary_scores_of_both_classes() -> None:
    scores = [[0.9, 0.1], [0.2, 0.8]]
    assert clean_rows(scores, [0, 1]).scores.tolist() == [0.1, 0.8]
    named = clean_rows(scores, ["good", "poor"], classes=["good", "poor"], positive_class="good")
    assert named.scores.tolist() == [0.9, 0.2]
    assert "classes must be stated in the order of the columns" in problems(
        scores, ["good", "poor"], positive_class="good"
    )


def test_float32_is_computed_in_float64() -> None:
    """N9: scores of a boosted-tree model."""
    rows = clean_rows(np.array([0.2, 0.7, 0.9], dtype=np.float32), [0, 1, 1])
    assert rows.scores.dtype == np.float64
    assert rows.scores.tolist() == [float(np.float32(p)) for p in (0.2, 0.7, 0.9)]


def test_rows_that_do_not_sum_to_one() -> None:
    """N10: .2 + .3 is refused, three thirds in float32 are not, and neither is renormalised."""
    assert "sum to 1" in problems([[0.2, 0.3]], [0], reduction="marginal")
    thirds = np.full((1, 3), 0.3333, dtype=np.float32)
    assert clean_rows(thirds, [0], reduction="marginal").scores.tolist() == thirds.astype(float).tolist()


def test_logits_where_probabilities_are_due() -> None:
    """N11: the error says so and how to say otherwise."""
    message = problems([[2.1, -0.3, 0.4]], [0], reduction="marginal")
    assert 'score_kind="logit"' in message
    rows = clean_rows([[2.1, -0.3, 0.4]], [0], reduction="marginal", score_kind="logit")
    assert rows.scores.tolist() == [[2.1, -0.3, 0.4]]
    assert "log odds of the positive class" in problems([[2.1, -0.3]], [0], score_kind="logit")


@pytest.mark.parametrize("bad", [-0.01, 1.5, np.nan, np.inf])
def test_scores_outside_their_domain(bad: float) -> None:
    """N24: the first rows and their count."""
    message = problems([0.5, bad, bad, bad, bad], [0, 1, 1, 1, 1])
    assert "4 of 5 rows" in message
    assert f"row 1: {bad}" in message


def test_rounding_is_clipped_and_counted() -> None:
    """N24: 1.0000001 is a 1."""
    rows = clean_rows([1.0000001, 0.5, -1e-7], [1, 0, 0])
    assert rows.scores.tolist() == [1.0, 0.5, 0.0]
    assert rows.n_clipped == 2


@pytest.mark.parametrize("labels", [[0, None, 1], [0, np.nan, 1], pd.Series([0, pd.NA, 1], dtype="Int64")])
def test_missing_labels(labels: Any) -> None:
    assert "labels must not be missing; 1 rows are, first [1]" in problems(P, labels)


def test_all_problems_at_once() -> None:
    message = problems([0.5, 7.0], [0, None], classes=["a", "a"], positive_class="b")
    for part in ("5 problems", "[0, 1]", "missing", "distinct", "unknown", "positive_class"):
        assert part in message


@pytest.mark.parametrize(
    ("scores", "labels", "part"),
    [
        ([], [], "at least one row"),
        ([0.5], [0, 1], "1 scores and 2 labels"),
        (0.5, 1, "shape (n,)"),
        (["high"], [1], "scores must be numbers"),
        ([[0.2, 0.3, 0.5]], [1], "shape (n, 2)"),
    ],
)
def test_shapes(scores: Any, labels: Any, part: str) -> None:
    assert part in problems(scores, labels)


def test_marginal_wants_no_positive_class_and_a_name_a_column() -> None:
    scores = [[0.2, 0.3, 0.5]]
    assert "leave it out" in problems(scores, [0], reduction="marginal", positive_class=1)
    assert "name the 3 columns" in problems(scores, [0], reduction="marginal", classes=[0, 1])
    assert "shape (n, K)" in problems([0.5], [0], reduction="marginal")
    assert "reduction must be one of" in problems(P, [0, 1, 1], reduction="top label")


def test_keys() -> None:
    assert key_order(np.array(["b", "c", "a"]), 3).tolist() == [2, 0, 1]
    for keys, part in (
        ([1, 2, 1], "1 rows repeat"),
        ([1, 2], "shape (3,)"),
        ([1, np.nan, 2], "missing"),
        (np.array([1, "a", 2], dtype=object), "one type"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            key_order(keys, 3)
        assert part in str(caught.value)


def test_factorize_gives_plain_values() -> None:
    found = factorize(np.array([3, 1, 3]))
    assert (found.values, found.codes.tolist()) == ([1, 3], [1, 0, 1])
    assert all(type(value) is int for value in found.values)
