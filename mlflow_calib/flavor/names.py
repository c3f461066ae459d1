"""Names that MLflow's registry keeps and its URIs carry, told apart before anything is logged.

MLflow itself checks some of them when it registers, which is after the logging; others it stores and cannot find again.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: Characters that end a name inside ``models:/<name>/<version>`` and ``models:/<name>@<alias>``.
_ENDS_A_NAME = "/:@#?"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ALIAS = re.compile(r"[\w-]+")
_RESERVED_ALIAS = re.compile(r"latest|v\d+", re.IGNORECASE)
#: As JSON writes them, where a letter outside ASCII takes six: a name stands up to three times in a result of a step,
#: which stays under 1 KB. MLflow's own limits are 256 for both.
LONGEST_MODEL_NAME, LONGEST_ALIAS = 180, 100
#: MLflow's own.
LONGEST_EXPERIMENT_NAME = 500


def model_name_problems(name: Any) -> list[str]:
    """Why a registered model cannot have this name; an empty list where it can."""
    where = "name must be that of a registered model"
    if not isinstance(name, str) or not name.strip():
        return [f"{where}, got {name!r}"]
    rules = {
        f"at most {LONGEST_MODEL_NAME} characters, those outside ASCII counting six": (
            len(json.dumps(name)) - 2 <= LONGEST_MODEL_NAME
        ),
        f"without any of {' '.join(_ENDS_A_NAME)}": not set(name) & set(_ENDS_A_NAME),
        "without control characters": not _CONTROL.search(name),
        "without both kinds of quotes": not {"'", '"'} <= set(name),
        "without blanks at its ends": name == name.strip(),
        'not beginning with ".." and not "."': name != "." and not name.startswith(".."),
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    return [f"{where}, {', '.join(broken)}, got {_short(name)}"] if broken else []


def experiment_problems(name: Any) -> list[str]:
    """Why an experiment cannot have this name; None stands for the default one."""
    fits = isinstance(name, str) and name.strip() and len(name) <= LONGEST_EXPERIMENT_NAME
    if name is None or fits:
        return []
    return [f"experiment must be a name of 1 to {LONGEST_EXPERIMENT_NAME} characters, got {_short(name)}"]


def alias_problems(alias: Any) -> list[str]:
    """Why a registered model cannot have this alias."""
    is_text = isinstance(alias, str) and _ALIAS.fullmatch(alias) and len(json.dumps(alias)) - 2 <= LONGEST_ALIAS
    if is_text and not _RESERVED_ALIAS.fullmatch(alias):
        return []
    rule = f"of letters, digits, _ and -, at most {LONGEST_ALIAS}, and neither 'latest' nor 'v1' and its like"
    return [f"alias must be the name of an alias, {rule}, got {_short(alias)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text) - 2} characters)"
