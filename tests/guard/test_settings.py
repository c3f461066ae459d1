"""The settings of a server: what is wrong never stops it, and opens nothing."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from mlflow_calib.guard.settings import GuardSettings

from .registry import KEYS, POLICY

TOML = "[requirements.calibration_error_upper_bound]\nlimit = 0.10\n"


def settings(**variables: str) -> GuardSettings:
    return GuardSettings.from_environment({f"MLFLOW_CALIB_{name}": value for name, value in variables.items()})


def test_policies_by_digest_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(TOML)
    bare = POLICY.digest.removeprefix("sha256:").upper()
    for given in (POLICY.digest, bare, str(tmp_path / "policy.toml"), (tmp_path / "policy.toml").as_uri()):
        found = settings(KEYS=KEYS, GUARD_POLICIES=f" {given} ,")
        assert (found.policies, found.problems) == ({POLICY.digest}, ()), given


def test_names_and_aliases_are_compared_without_case() -> None:
    found = settings(GUARD_ALIASES="champion, live", GUARD_NAMES="prod.*,Main")
    assert [found.guards_alias(alias) for alias in ("champion", "CHAMPION", "Live", "champ", "")] == [True] * 3 + [
        False
    ] * 2
    names = ("prod.churn", "PROD.churn", "pröd.churn ", "main", "dev.churn", "prod")
    assert [found.guards_name(name) for name in names] == [True, True, True, True, False, False]
    assert settings().guards_alias("champion")
    assert not settings().guards_name("anything")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "there is no key; set MLFLOW_CALIB_KEYS or MLFLOW_CALIB_KEYS_FILE"),
        ({}, "no policy is listed; set MLFLOW_CALIB_GUARD_POLICIES"),
        ({"KEYS": "a:00"}, "the keys cannot be used"),
        (
            {"GUARD_POLICIES": "/nonexistent.toml"},
            "policy /nonexistent.toml of MLFLOW_CALIB_GUARD_POLICIES cannot be used",
        ),
        ({"GUARD_POLICIES": "sha256:12"}, "policy sha256:12 of MLFLOW_CALIB_GUARD_POLICIES cannot be used"),
    ],
)
def test_what_is_missing_is_said_in_one_line(variables: dict[str, str], said: str) -> None:
    line = settings(**variables).summary()
    assert said in line
    assert "everything guarded is refused" in line
    assert "\n" not in line


def test_one_bad_policy_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "dry.toml").write_text(f'mode = "dry-run"\n{TOML}')
    found = settings(KEYS=KEYS, GUARD_POLICIES=f"{tmp_path}/dry.toml,{POLICY.digest}")
    assert found.policies == {POLICY.digest}
    assert "must have mode 'enforce', got 'dry-run'" in found.summary()
    assert "not all settings hold" in found.summary()


def test_every_spelling_of_a_database_is_registered() -> None:
    names = {point.name for point in entry_points(group="mlflow.model_registry_store")}
    drivers = {"sqlite": ["pysqlite"], "postgresql": ["psycopg", "psycopg2", "pg8000"]}
    drivers |= {"mysql": ["mysqldb", "pymysql", "mysqlconnector"], "mssql": ["pyodbc", "pymssql"]}
    for database, spellings in drivers.items():
        wanted = {f"calib-gate+{database}", *(f"calib-gate+{database}+{driver}" for driver in spellings)}
        assert wanted <= names
