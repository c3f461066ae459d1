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


def test_defaults_are_those_of_the_contract() -> None:
    policy = Policy.default()
    assert policy.mode == "enforce"
    assert policy.to_dict() == {
        "schema": "mlflow_calib.policy/1",
        "mode": "enforce",
        "requirements": {
            ERROR: {
                "enabled": True,
                "limit": 0.05,
                "confidence_level": 0.95,
                "squared": False,
                "by_group": None,
                "reduction": "binary",
            },
            "mse_increase_over_champion": {"enabled": True, "limit": 0.002, "confidence_level": 0.95},
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


@pytest.mark.parametrize("name", SETTINGS)
def test_each_requirement_can_be_switched_off_alone(name: str) -> None:
    policy = Policy.from_dict({"requirements": {name: {"enabled": False}}})
    assert [one for one, requirement in policy.requirements.items() if not requirement.enabled] == [name]
    assert policy.requirements[name].limit == Policy.default().requirements[name].limit


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
        },
    }
    with pytest.raises(InvalidInputError) as caught:
        Policy.from_dict(document)
    message = str(caught.value)
    assert message.startswith("10 problems:")
    for part in (
        'mode must be one of "enforce", "dry-run", "off", got \'enforced\'',
        "did you mean 'requirements'?",
        "unknown requirement 'calibration_error': did you mean 'calibration_error_upper_bound'?",
        "requirements.n_evaluation.limit must be a whole number of at least 1, got True",
        "did you mean 'limit'?",
        "limit must be a number from 0 to 1, got nan",
        "confidence_level must be a number between 0.5 and 1, got 95",
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
        (ERROR, "reduction", ["Binary", None, 2]),
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
