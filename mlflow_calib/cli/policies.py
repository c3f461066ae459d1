"""The command ``policy``: a policy as it is read, completed with the defaults, and its digest."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any


def policy_options(command: argparse.ArgumentParser) -> None:
    """The file."""
    command.add_argument("file", metavar="FILE", help="TOML or JSON, by path or URI")


def run_policy(arguments: argparse.Namespace) -> dict[str, Any]:
    """The completed policy and its digest, which servers with the registry guard list."""
    from mlflow_calib.core.policy import Policy
    from mlflow_calib.data.records import read_policy_document

    policy = Policy.from_dict(read_policy_document(arguments.file))
    return {"sha256": policy.digest, "policy": policy.to_dict()}


def policy_text(result: Mapping[str, Any]) -> str:
    """For people: the digest, then the policy.

    >>> print(policy_text({"sha256": "sha256:12", "policy": {"mode": "enforce"}}))
    sha256:12
    {
      "mode": "enforce"
    }
    """
    return f"{result['sha256']}\n{json.dumps(result['policy'], indent=2, ensure_ascii=False)}"
