"""How often the gate is wrong: simulated over named populations. ``python -m tests.bench.gate [draws]``.

Writes docs/gate_simulation.md. Bounds are the core's own, vectorised over draws; ``judge`` itself is held against them
on the first draws of every setting.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mlflow_calib.core.bound_terms import row_terms
from mlflow_calib.core.class_dependence import marginal_row_terms
from mlflow_calib.core.class_sums import ClassStatistics
from mlflow_calib.core.class_terms import classes_status
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.evidence import class_entry, estimate_entry
from mlflow_calib.core.group_moments import GroupMoments, GroupTable
from mlflow_calib.core.policy import CALIBRATION_ERROR
from mlflow_calib.core.status import status
from tests.bench import gate_pairs
from tests.bench.coverage import class_statistics, group_terms_of_draws
from tests.bench.gate_records import judged, record
from tests.bench.populations import (
    Classes,
    Groups,
    Rows,
    chunks,
    class_settings,
    even,
    group_settings,
    middles,
    rows_settings,
    thin_settings,
)

LEVEL = 0.95
PAGE = Path(__file__).resolve().parents[2] / "docs" / "gate_simulation.md"
#: Draws of each setting that go through ``judge`` too.
N_JUDGED = 5
#: A limit this share below or above the true error.
JUST = 1e-9


@dataclass(frozen=True, eq=False)
class Outcome:
    """Bounds (roots) over many draws of one population, and where the status lets them decide."""

    name: str
    population: Any
    lower: Any
    upper: Any
    ok: Any

    @property
    def root(self) -> float:
        # What is right but for rounding has no error.
        return math.sqrt(self.population.theta) if self.population.theta > 1e-18 else 0.0

    def shares(self, limit: float) -> tuple[float, float]:
        """Share of draws that pass, and that fail."""
        passed = self.ok & (self.upper <= limit)
        return float(passed.mean()), float((self.ok & ~passed & (self.lower > limit)).mean())

    @property
    def false_pass(self) -> float | None:
        """Passes at a limit just below the true error; None where no limit is below it."""
        return self.shares(self.root * (1 - JUST))[0] if self.root > 0 else None

    @property
    def false_fail(self) -> float:
        """Fails at a limit just above the true error."""
        return self.shares(self.root * (1 + JUST))[1]

    @property
    def false_pass_by_number(self) -> float | None:
        """The same were thin data let through."""
        return float((self.upper <= self.root * (1 - JUST)).mean()) if self.root > 0 else None


def of_rows(name: str, population: Rows, n_draws: int, seed: int = 0) -> Outcome:
    """Independent rows."""
    counts, positives = population.draw(np.random.default_rng([seed, 1, len(name)]), n_draws)
    terms = row_terms(counts, positives, population.u)
    each = [ErrorStatistics(n, k, population.u) for n, k in zip(counts, positives, strict=True)]
    ok = np.array([status(s)[0] == "ok" for s in each])
    outcome = Outcome(name, population, np.sqrt(terms.lower(LEVEL)), np.sqrt(terms.upper(LEVEL)), ok)
    _hold_against_judge(outcome, (record(estimate_entry(s, 0.2)) for s in each[:N_JUDGED]))
    return outcome


def of_groups(name: str, population: Groups, n_draws: int, seed: int = 0) -> Outcome:
    """Rows of one group that move together."""
    rng, parts, first = np.random.default_rng([seed, 2, len(name)]), [], []
    for size in chunks(n_draws, 500):
        counts, positives = population.draw(rng, size)
        terms = group_terms_of_draws(counts, positives, population.u)
        ok = [_group_status(population, n, k, h + 1) for n, k, h in zip(counts, positives, terms.degrees_of_freedom)]  # type: ignore[arg-type, call-overload] # noqa: B905
        parts.append((np.sqrt(terms.lower(LEVEL)), np.sqrt(terms.upper(LEVEL)), np.array(ok)))
        if not first:
            first = [_group_record(population, n, k) for n, k in zip(counts[:N_JUDGED], positives, strict=False)]
    outcome = Outcome(name, population, *(np.concatenate(column) for column in zip(*parts, strict=True)))
    _hold_against_judge(outcome, iter(first))
    return outcome


def _group_status(population: Groups, counts: Any, positives: Any, effective: float) -> bool:
    """Of moments the status reads the numbers of groups alone."""
    moments = GroupMoments(np.zeros((population.n_bins,) * 2), 0.0, len(counts), float(effective))
    return status(ErrorStatistics(counts.sum(axis=0), positives.sum(axis=0), population.u, moments))[0] == "ok"


def _group_record(population: Groups, counts: Any, positives: Any) -> dict[str, Any]:
    table = GroupTable(tuple(f"{g:04d}" for g in range(len(counts))), csr_array(counts), csr_array(positives))
    n_j, k_j = counts.sum(axis=0), positives.sum(axis=0)
    s = ErrorStatistics(n_j, k_j, population.u, table.moments(n_j, k_j, population.u))
    return record(estimate_entry(s, 0.2), n_groups=len(counts))


def of_classes(name: str, population: Classes, n_draws: int, seed: int = 0) -> Outcome:
    """Several classes on the same rows, by cross-class counts."""
    found, first = [], []
    labels = tuple(range(population.n_classes))
    for cells in population.cells(np.random.default_rng([seed, 3, len(name)]), n_draws):
        statistics, counts = class_statistics(population, cells)
        terms = marginal_row_terms(statistics, counts.dependence(statistics))
        ok = classes_status(statistics, terms, labels)[0] == "ok"
        found.append((math.sqrt(terms.lower(LEVEL)), math.sqrt(terms.upper(LEVEL)), ok))
        if len(first) < N_JUDGED:
            whole = ClassStatistics(labels, tuple(statistics), terms, "cross-class counts")
            first.append(record(class_entry(whole, 0.2), reduction="marginal"))
    lower, upper, usable = (np.array(column) for column in zip(*found, strict=True))
    outcome = Outcome(name, population, lower, upper, usable)
    _hold_against_judge(outcome, iter(first))
    return outcome


def _hold_against_judge(outcome: Outcome, records: Iterator[dict[str, Any]]) -> None:
    """``judge`` must say of the first draws what is counted here, at limits around the true error and at .05."""
    limits = [outcome.root * (1 + JUST), 0.05, *([outcome.root * (1 - JUST)] if outcome.root else [])]
    for place, evidence in enumerate(records):
        for limit in limits:
            passes = outcome.ok[place] and outcome.upper[place] <= limit
            fails = outcome.ok[place] and not passes and outcome.lower[place] > limit
            counted = "pass" if passes else "fail" if fails else "inconclusive"
            said = judged(evidence, CALIBRATION_ERROR, limit=float(limit)).status
            assert said == counted, (outcome.name, place, limit, said, counted)


Kind = tuple[str, dict[str, Any], Callable[..., Outcome]]


def kinds() -> list[Kind]:
    """Heading, settings and simulation of each kind of population."""
    groups = group_settings()
    alike = {name: one for name, one in groups.items() if one.sigma <= 0.5}
    return [
        ("Independent rows", rows_settings(), of_rows),
        ("Groups of equal or nearly equal sizes", alike, of_groups),
        ("Groups of very unequal sizes", {k: v for k, v in groups.items() if k not in alike}, of_groups),
        ("Several classes on the same rows (marginal)", class_settings(), of_classes),
        ("Thin evaluation data, as the gate treats it", thin_settings(), of_rows),
    ]


def power(n: int, n_draws: int) -> Outcome:
    """A calibrated model of uniform scores in 10 bins."""
    return of_rows(f"calibrated, n {n}", even(n, middles(10), middles(10)), n_draws, seed=9)


def absolute(n_draws: int) -> dict[str, list[Outcome]]:
    """The bound on the calibration error, over every setting."""
    found: dict[str, list[Outcome]] = {}
    for heading, settings, run in kinds():
        for name, population in settings.items():
            outcome = run(name, population, n_draws)
            found.setdefault(heading, []).append(outcome)
            print(f"{name}: {outcome.false_pass} {outcome.false_fail:.4f} {outcome.ok.mean():.3f}", flush=True)
    return found


def paired(n_draws: int) -> list[tuple[str, Any, dict[str, Any]]]:
    """The comparisons with a champion, over every setting: name, pair, bounds by what is compared."""
    found = []
    for name, pair in gate_pairs.settings():
        found.append((name, pair, gate_pairs.simulate(pair, n_draws)))
        shares = {what: bounds.shares(pair.truth[what]) for what, bounds in found[-1][2].items()}
        print(f"{name}: {shares}", flush=True)
    return found


def other_rules(n_draws: int) -> dict[str, dict[str, Any]]:
    """What other rules for the calibration error would give, by row."""
    return {
        name: gate_pairs.simulate_other_rules(pair, n_draws)
        for name, pair in gate_pairs.settings()
        if pair.n_groups is None
    }


def main() -> None:
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    from tests.bench.gate_page import page

    powers = {n: power(n, n_draws) for n in (300, 10_000)}
    text = page(absolute(n_draws), powers, paired(n_draws), other_rules(min(n_draws, 2_000)), n_draws)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
