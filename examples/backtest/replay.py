"""The replay: recalibrate on the period before, gate on this one, and look at the next one, which the gate never saw.

Everything is the package's own: the calibrator, the sums of `evaluate`, the evidence record and the verdict. Only the
registry is a variable here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from examples.backtest.periods import Period, Shown, joined, shown_of
from examples.backtest.record import Champion, record_of
from mlflow_calib.core.calibrator import Calibrator, fit_calibrator
from mlflow_calib.core.policy import CALIBRATION_ERROR, MSE_INCREASE, Policy
from mlflow_calib.core.verdict import Verdict, judge
from mlflow_calib.errors import CalibrationWarning
from mlflow_calib.steps.contenders import Contender, base_model, calibrated
from mlflow_calib.steps.evaluation_sums import add_up

#: Every earlier period.
ALL = 1_000_000


@dataclass(frozen=True, eq=False)
class Turn:
    """One turn of the gate: who was judged on what, how, and what the next period showed of them.

    ``now`` and ``then`` hold "candidate", "base" and "champion", the champion met: on the period that was judged, and
    on the next one, empty after the last.
    """

    recalibrated_on: str
    period: Period
    candidate: Calibrator
    version: int
    champion_before: int
    verdict: Verdict
    record: Mapping[str, Any]
    now: Mapping[str, Shown]
    then: Mapping[str, Shown]

    @property
    def passed(self) -> bool:
        """Whether the candidate was promoted."""
        return self.verdict.status == "pass"

    @property
    def champion_after(self) -> int:
        """Version that holds the alias in the next period."""
        return self.version if self.passed else self.champion_before

    @property
    def limit(self) -> float:
        """On the calibration error, a root."""
        return float(self.verdict.requirement(CALIBRATION_ERROR).limit)

    @property
    def outcome(self) -> str | None:
        """What the next period showed of the candidate; None after the last."""
        return self.then["candidate"].reading(self.limit) if self.then else None


def replay(periods: Sequence[Period], policy: Policy, *, history: int = 1, n_bins: int = 10) -> list[Turn]:
    """Fit on the ``history`` periods before t, judge on t, promote on a pass, look at t + 1.

    The base model is the champion at first, version 1, as where nothing was calibrated before; the candidate of period
    t (counted from 0) is version t + 1.

    Parameters
    ----------
    periods
        In order of time, at least two.
    policy
        Of every turn.
    history
        Periods to recalibrate on; ``ALL`` for every earlier one.
    n_bins
        Of each calibrator, which is otherwise the default one.
    """
    champion: Champion = (1, None)
    turns: list[Turn] = []
    for at in range(1, len(periods)):
        before, period = joined(periods[max(0, at - history) : at]), periods[at]
        candidate = fit(before, n_bins)
        contenders = contenders_of(candidate, champion[1])
        sums = add_up(contenders, [period.batch])
        record = record_of(before, period, at + 1, champion, sums, contenders)
        turn = Turn(
            recalibrated_on=before.name,
            period=period,
            candidate=candidate,
            version=at + 1,
            champion_before=champion[0],
            verdict=judge(record, policy, now=period_end(record)),
            record=record,
            now=shown_of(contenders, period),
            then=shown_of(contenders, periods[at + 1]) if at + 1 < len(periods) else {},
        )
        champion = (turn.version, candidate) if turn.passed else champion
        turns.append(turn)
    return turns


def fit(period: Period, n_bins: int) -> Calibrator:
    """Fit on a period; fewer bins for ties and a slope held at 0 are recorded in the calibrator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_calibrator(period.scores, period.labels, n_bins=n_bins)


def contenders_of(candidate: Calibrator, champion: Calibrator | None) -> dict[str, Contender]:
    """Candidate, base model, and champion, which is the base model where it is None."""
    base = base_model(candidate)
    return {
        "candidate": calibrated(candidate),
        "base": base,
        "champion": base if champion is None else calibrated(champion),
    }


def period_end(record: Mapping[str, Any]) -> Any:
    """The time of the evaluation, which the age of the evidence is counted to: judged at once."""
    from datetime import datetime

    return datetime.fromisoformat(record["evaluated_at"])


def words_of(policy: Policy) -> str:
    """The two limits that decide here."""
    error, mse = policy.requirements[CALIBRATION_ERROR], policy.requirements[MSE_INCREASE]
    return f"calibration error at most {error.limit:g}, MSE at most {mse.limit:g} over the champion's"
