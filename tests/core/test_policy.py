"""A policy is completed with safe defaults, or refused with every mistake at once."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle

import pytest

from mlflow_calib.core.policy import MODES, SETTINGS, Policy, policy_problems
from mlflow_calib.errors import InvalidInputError

ERROR = "calibration_error_upper_bound"
WORST = "worst_class_calibration_error_upper_bound"
SLICES = "slice_calibration_error_upper_bound"


def test_defaults_are_those_of_the_contract() -> None:
    policy = Policy.default()
    assert policy.mode == "enforce"
    error = {
        "limit": 0.05,
        "confidence_level": 0.95,
        "squared": False,
        "by_group": None,
        "reduction": None,
        "bound": "asymptotic",
    }

    def margin(limit: float, enabled: bool = False) -> dict[str, object]:
        return {"enabled": enabled, "limit": limit, "confidence_level": 0.95}

    assert policy.to_dict() == {
        "schema": "mlflow_calib.policy/1",
        "mode": "enforce",
        "requirements": {
            ERROR: {"enabled": True, **error},
            WORST: {"enabled": False, **error},
            SLICES: {"enabled": False, **error, "columns": [], "slices": []},
            "mse_increase_over_champion": margin(0.002, enabled=True),
            "mse_increase_over_base": margin(0.002),
            "log_loss_increase_over_champion": margin(0.01),
            "log_loss_increase_over_base": margin(0.01),
            "calibration_error_increase_over_champion": margin(0.01),
            "calibration_error_increase_over_base": margin(0.01),
            "rows_per_bin": {"enabled": False, "limit": 20},
            "n_evaluation": {"enabled": True, "limit": 1000},
            "evidence_age_days": {"enabled": True, "limit": 7.0},
        },
    }


def test_the_contract_s_own_example() -> None:
    document = {
        "mode": "enforce",
        "requirements": {
            ERROR: {
                "limit": 0.10,
                "confidence_level": 0.95,
                "squared": False,
                "by_group": True,
                "reduction": "binary",
            },
            "mse_increase_over_champion": {"limit": 0.005},
        },
    }
    requirements = Policy.from_dict(document).requirements
    assert (requirements[ERROR].limit, requirements[ERROR].by_group) == (0.10, True)
    assert requirements["mse_increase_over_champion"].limit == 0.005
    assert requirements["mse_increase_over_champion"].confidence_level == 0.95
    assert requirements["n_evaluation"].limit == 1000


#: What it takes to name a requirement, beyond its name.
NAMED = {SLICES: {"columns": ["region"]}}


def _on(document: dict[str, object]) -> set[str]:
    return {name for name, requirement in Policy.from_dict(document).requirements.items() if requirement.enabled}


@pytest.mark.parametrize("name", SETTINGS)
def test_each_requirement_can_be_switched_off_alone_and_naming_it_switches_it_on(name: str) -> None:
    policy = Policy.from_dict({"requirements": {name: {"enabled": False}}})
    assert _on(policy.to_dict()) == _on({}) - {name}
    assert policy.requirements[name].limit == Policy.default().requirements[name].limit
    assert _on({"requirements": {name: NAMED.get(name, {})}}) == _on({}) | {name}


@pytest.mark.parametrize("mode", MODES)
def test_a_policy_round_trips_with_its_digest(mode: str) -> None:
    policy = Policy.from_dict({"mode": mode, "requirements": {ERROR: {"limit": 0.1}, "n_evaluation": {"limit": 1}}})
    again = Policy.from_dict(json.loads(json.dumps(policy.to_dict())))
    assert again == policy
    assert again.digest == policy.digest
    assert pickle.loads(pickle.dumps(policy)) == copy.deepcopy(policy) == policy  # noqa: S301 - written a word before


def test_the_digest_is_of_the_completed_policy() -> None:
    default = Policy.default()
    text = json.dumps(default.to_dict(), sort_keys=True, separators=(",", ":"))
    assert default.digest == "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    assert Policy.from_dict({"requirements": {ERROR: {"limit": 0.05}}}).digest == default.digest
    assert Policy.from_dict({"requirements": {"evidence_age_days": {"limit": 7}}}).digest == default.digest
    assert Policy.from_dict({"requirements": {ERROR: {"limit": 0.06}}}).digest != default.digest
    assert Policy.from_dict({"mode": "dry-run"}).digest != default.digest


def test_all_mistakes_at_once_and_the_nearest_name() -> None:
    document = {
        "mode": "enforced",
        "requirments": {},
        "requirements": {
            "calibration_error": {"limit": 0.1},
            "n_evaluation": {"limit": True, "limits": 5},
            ERROR: {"limit": float("nan"), "confidence_level": 95, "squared": "no", "by_group": 1},
            "evidence_age_days": 7,
            WORST: {"limit": 0.01, "bound": "bootstrap"},
            SLICES: {},
        },
    }
    with pytest.raises(InvalidInputError) as caught:
        Policy.from_dict(document)
    message = str(caught.value)
    assert message.startswith("12 problems:")
    for part in (
        'mode must be one of "enforce", "dry-run", "off", got \'enforced\'',
        "did you mean 'requirements'?",
        "unknown requirement 'calibration_error': did you mean 'calibration_error_upper_bound'?",
        "requirements.n_evaluation.limit must be a whole number of at least 1, got True",
        "did you mean 'limit'?",
        "limit must be a number from 0 to 1, got nan",
        "confidence_level must be a number between 0.5 and 1, got 95; write 0.95 for 95 %",
        'requirements.worst_class_calibration_error_upper_bound.bound must be one of "asymptotic", "finite-sample"',
        "slice_calibration_error_upper_bound must name its slices",
        "squared must be true or false, got 'no'",
        "by_group must be true, false",
        "requirements.evidence_age_days must be a table such as {limit = 7.0}, got 7",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        (ERROR, "limit", [-0.01, 1.01, float("inf"), "0.05", None, True, [0.05]]),
        (ERROR, "confidence_level", [0.5, 1, 1.0, 95, float("nan"), "0.95", None, False]),
        (ERROR, "squared", [0, 1, "true", None]),
        (ERROR, "reduction", ["Binary", 2, "multi-label"]),
        (ERROR, "bound", ["bootstrap", None, True]),
        (WORST, "limit", [5, -1, None]),
        (SLICES, "columns", ["region", [1], [""], ["a", "a"], None, {"a": 1}]),
        (SLICES, "slices", [{"region": "EU"}, [{}], [{"region": ["EU"]}], [{"": 1}], [{"x": float("nan")}], ["EU"]]),
        ("log_loss_increase_over_base", "limit", [101, float("inf"), None]),
        ("calibration_error_increase_over_champion", "limit", [5, "0.01", True]),
        ("rows_per_bin", "limit", [0, 1.5, None]),
        ("mse_increase_over_champion", "limit", [-1.5, 2, float("nan"), "x", True]),
        ("n_evaluation", "limit", [0, -1, 10.5, 1000.0, 2**60, True]),
        ("evidence_age_days", "limit", [-1, float("inf"), "7", False]),
        ("evidence_age_days", "enabled", [0, 1, "false", None]),
    ],
)
def test_values_out_of_their_domain_are_refused(name: str, key: str, values: list[object]) -> None:
    for value in values:
        problems = policy_problems({"requirements": {name: {key: value}}})
        assert len(problems) == 1, value
        assert f"requirements.{name}.{key} must be" in problems[0]


@pytest.mark.parametrize(
    "document", [None, [], "mode", 1, {"requirements": None}, {"requirements": []}, {"mode": None}]
)
def test_what_is_no_policy_is_refused(document: object) -> None:
    with pytest.raises(InvalidInputError):
        Policy.from_dict(document)  # type: ignore[arg-type]


def test_a_policy_of_another_schema_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="schema must be"):
        Policy.from_dict({"schema": "mlflow_calib.policy/2"})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({ERROR: {"limit": 5}}, "limit must be a number from 0 to 1, got 5; write 0.05 for 5 %"),
        ({"mse_increase_over_base": {"limit": 2}}, "limit must be a number from -1 to 1, got 2; write 0.02 for 2 %"),
        (
            {ERROR: {"squared": True}},
            "squared = true with the default limit of 0.05 allows a calibration error of 0.22",
        ),
        ({ERROR: {"squared": True, "limit": 0.03}}, "write limit = 0.0009 for an error of 0.03, or leave squared out"),
        ({WORST: {"limit": 0.04}}, f"limit must be at least that of {ERROR}, 0.05, got 0.04"),
        ({WORST: {"limit": 0.0016, "squared": True}}, "0.05, got 0.04: where the worst class is within it"),
        ({ERROR: {"limit": 0.1}, WORST: {}}, f"limit must be at least that of {ERROR}, 0.1, got 0.05, the default"),
        ({SLICES: {"limit": 0.01, "columns": ["a"]}}, "where every slice of a column is within it, the whole is"),
        ({SLICES: {}}, 'must name its slices: columns = ["region"]'),
        ({SLICES: {"slices": [{"a": 1}, {"a": 1}]}}, "must name each slice once"),
        ({SLICES: {"slices": [{"a": 1}, {"a": 1.0}]}}, "must name each slice once"),
        ({SLICES: {"slices": [{"a": i} for i in range(201)]}}, "slices must be at most 200, got 201"),
        ({ERROR: {"bound": "finite-sample", "limit": 0}}, 'limit must be over 0 with bound = "finite-sample"'),
        ({ERROR: {"bound": "finite-sample", "by_group": True}}, "needs independent rows"),
        ({"mse_increase": {}}, "did you mean 'mse_increase_over_base'"),
    ],
)
def test_contradictions_and_wrong_units_are_said(tables: dict[str, object], message: str) -> None:
    problems = policy_problems({"requirements": tables})
    assert len(problems) == 1
    assert message in problems[0]


def test_what_only_looks_contradictory_is_accepted() -> None:
    for tables in (
        {ERROR: {"squared": True, "limit": 0.0025}},
        {ERROR: {"limit": 0.02}, WORST: {"limit": 0.04}},
        {ERROR: {"enabled": False}, WORST: {"limit": 0.01}},
        {ERROR: {"enabled": False, "squared": True}},
        {SLICES: {"limit": 0.01, "slices": [{"a": 1}]}},
        {SLICES: {"slices": [{"a": 1}, {"a": True}, {"a": "1"}, {"a": None}]}},
        {ERROR: {"bound": "finite-sample", "by_group": False}},
        {ERROR: {"limit": 0}},
    ):
        assert policy_problems({"requirements": tables}) == [], tables


def test_columns_of_slices_are_those_that_are_switched_on() -> None:
    table = {"columns": ["region"], "slices": [{"age": "old", "sex": "f"}, {"region": "EU"}]}
    policy = Policy.from_dict({"requirements": {SLICES: table}})
    assert policy.slice_columns() == ("age", "region", "sex")
    assert policy.whole_columns() == ("region",)
    assert policy.named_slices() == ({"age": "old", "sex": "f"}, {"region": "EU"})
    off = Policy.from_dict({"requirements": {SLICES: {**table, "enabled": False}}})
    assert (off.slice_columns(), off.whole_columns(), off.named_slices()) == ((), (), ())
    assert Policy.from_dict(json.loads(json.dumps(policy.to_dict()))) == policy
