"""Each decision of the guard: one line in the server's log, and the refusal a client gets.

A refusal is PERMISSION_DENIED, which is HTTP 403: clients repeat a 5xx for minutes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

log = logging.getLogger("mlflow_calib.guard")
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def make_log_visible() -> None:
    """Give the guard's log a handler where the process has none that shows it, as in the workers of a server."""
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        log.addHandler(handler)
    log.setLevel(logging.INFO)


def allow(what: str, why: str) -> None:
    """Log that something guarded was done."""
    log.info("allowed: %s; %s", _one_line(what), _one_line(why))


def refuse(what: str, reasons: Sequence[str], remedy: str) -> NoReturn:
    """Log the refusal and raise it.

    Raises
    ------
    MlflowException
        With error code PERMISSION_DENIED: what was asked, every reason, the remedy.
    """
    reason = "; ".join(dict.fromkeys(reasons))
    log.warning("refused: %s: %s", _one_line(what), _one_line(reason))
    raise MlflowException(f"the registry guard refuses to {what}: {reason}. {remedy}", error_code=PERMISSION_DENIED)


def _one_line(text: str) -> str:
    """A decision is one line of plain characters, whatever somebody wrote as a reason or as a source."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(text.split()))
