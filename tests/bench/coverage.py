"""How often the bounds hold: simulated over named populations. ``python -m tests.bench.coverage [draws]``.

Writes docs/coverage.md. What is counted is the bound's number, whether the status is thin or not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mlflow_calib.core.bound_terms import BoundTerms, comonotone, group_terms, row_terms
from mlflow_calib.core.class_dependence import marginal_row_terms
from mlflow_calib.core.cross_counts import CrossCounts
from mlflow_calib.core.error_statistics import ErrorStatistics
from mlflow_calib.core.finite_sample import worst_case_squared
from mlflow_calib.core.group_moments import GroupTable
from mlflow_calib.core.status import status
from tests.bench.populations import (
    Classes,
    Groups,
    Rows,
    chunks,
    class_settings,
    group_settings,
    rows_settings,
    thin_settings,
)

LEVEL = 0.95
PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What many draws of one population gave, on the squared scale; arrays have shape (draws,)."""

    name: str
    population: Any
    squares: Any
    upper: Any
    lower: Any
    finite: Any = None
    comonotone: Any = None
    statuses: tuple[str, ...] = field(default=())

    @property
    def upper_coverage(self) -> float:
        return float(np.mean(self.upper >= self.population.theta))

    @property
    def lower_coverage(self) -> float:
        return float(np.mean(self.lower <= self.population.theta))

    @property
    def finite_coverage(self) -> float | None:
        return None if self.finite is None else float(np.mean(self.finite >= self.population.theta))

    @property
    def bias(self) -> float:
        """Distance of the mean debiased square from the truth, in standard errors."""
        error = float(self.squares.std(ddof=1)) / np.sqrt(len(self.squares))
        # Labels that never vary leave rounding alone.
        return float(self.squares.mean() - self.population.theta) / max(error, 1e-12)


def of_rows(name: str, population: Rows, n_draws: int, seed: int = 0, *, finite: bool = True) -> Outcome:
    """Bounds by row; vectorised over draws."""
    counts, positives = population.draw(np.random.default_rng([seed, len(name)]), n_draws)
    terms = row_terms(counts, positives, population.u)
    worst = worst_case_squared(counts, positives, population.u, LEVEL) if finite else None
    shown = [ErrorStatistics(n, k, population.u) for n, k in zip(counts[:1_000], positives[:1_000], strict=True)]
    return Outcome(
        name,
        population,
        terms.upper_centre,
        terms.upper(LEVEL),
        terms.lower(LEVEL),
        finite=worst,
        statuses=tuple(status(s)[0] for s in shown),
    )


def of_groups(name: str, population: Groups, n_draws: int, seed: int = 0) -> Outcome:
    """Bounds by group; ``squares`` are T_G. The first draw goes through the public form too."""
    rng = np.random.default_rng([seed, len(name)])
    parts = []
    for size in chunks(n_draws, 500):
        counts, positives = population.draw(rng, size)
        terms = group_terms_of_draws(counts, positives, population.u)
        if not parts:
            _check_first(counts[0], positives[0], population.u, terms)
        parts.append((terms.lower_centre, terms.upper(LEVEL), terms.lower(LEVEL)))
    return Outcome(name, population, *(np.concatenate(column) for column in zip(*parts, strict=True)))


class _DrawnTerms(BoundTerms):
    """Bounds where every draw has its own degrees of freedom."""

    def upper(self, confidence_level: float) -> Any:
        return np.array([float(one.upper(confidence_level)) for one in self._each()])

    def lower(self, confidence_level: float) -> Any:
        return np.array([float(one.lower(confidence_level)) for one in self._each()])

    def _each(self) -> Iterable[BoundTerms]:
        columns = (self.upper_centre, self.lower_centre, self.v0, self.c, self.degrees_of_freedom, self.nu)
        for values in zip(*columns, strict=True):
            yield BoundTerms(*map(float, values))


def group_terms_of_draws(counts: Any, positives: Any, u: Any) -> BoundTerms:
    """The form of ``group_terms`` on tables of shape (draws, G, B); every bin of every draw holds at least 2 rows."""
    n_j, k_j = counts.sum(axis=1), positives.sum(axis=1)
    n, means = n_j.sum(axis=1), k_j / n_j
    sizes = counts.sum(axis=2)
    effective = n**2 / (sizes.astype(float) ** 2).sum(axis=1)
    factor = effective / (effective - 1)
    residuals = counts * means[:, np.newaxis] - positives
    scaled = residuals / np.sqrt(n_j)[:, np.newaxis]
    spread = factor[:, np.newaxis, np.newaxis] * np.einsum("dgj,dgk->djk", scaled, scaled)
    gaps = u - means
    plugin = (n_j * gaps**2).sum(axis=1) / n
    influence = np.einsum("dgj,dj->dg", 2 * residuals, gaps) + np.einsum("dgj,dj->dg", counts, gaps**2)
    influence -= sizes * plugin[:, np.newaxis]
    by_row = row_terms(n_j, k_j, u)
    slope = np.maximum(by_row.c, factor * (influence**2).sum(axis=1) / n**2 / plugin)
    trace, fourth = np.einsum("djj->d", spread), (spread**2).sum(axis=(1, 2))
    centre = plugin - trace / n
    return _DrawnTerms(by_row.upper_centre, centre, 2 * fourth / n**2, slope, effective - 1, trace**2 / fourth)  # type: ignore[arg-type]


def _check_first(counts: Any, positives: Any, u: Any, terms: BoundTerms) -> None:
    table = GroupTable(tuple(f"{g:04d}" for g in range(len(counts))), csr_array(counts), csr_array(positives))
    n_j, k_j = counts.sum(axis=0), positives.sum(axis=0)
    s = ErrorStatistics(n_j, k_j, u, table.moments(n_j, k_j, u))
    one = group_terms(s, table.moments(n_j, k_j, u))
    np.testing.assert_allclose([one.lower_centre, one.v0, one.c], [terms.lower_centre[0], terms.v0[0], terms.c[0]])


def of_classes(name: str, population: Classes, n_draws: int, seed: int = 0) -> Outcome:
    """Marginal bounds from cross-class counts, with the comonotone ones beside."""
    cells = population.cells(np.random.default_rng([seed, len(name)]), n_draws)
    found = [_class_bounds(population, one) for one in cells]
    squares, upper, lower = (np.array(column) for column in zip(*found, strict=True))
    wide = np.array([_comonotone_bound(population, one) for one in cells[:500]])
    finite = finite_bounds_of_classes(population, cells[:1_000])
    return Outcome(name, population, squares, upper, lower, finite=finite, comonotone=wide)


def finite_bounds_of_classes(population: Classes, cells: Any) -> Any:
    """Finite-sample bounds: mean over classes, each at 1 - 5 % / K."""
    n_classes, n_bins = population.u.shape
    worst = []
    for k in range(n_classes):
        inside = np.equal.outer(population.bins[:, k], np.arange(n_bins)).astype(np.int64)
        counts, positives = cells.sum(axis=2) @ inside, cells[:, :, k] @ inside
        worst.append(worst_case_squared(counts, positives, population.u[k], 1 - (1 - LEVEL) / n_classes))
    return np.mean(worst, axis=0)


def _class_bounds(population: Classes, cells: Any) -> tuple[float, float, float]:
    statistics, counts = class_statistics(population, cells)
    terms = marginal_row_terms(statistics, counts.dependence(statistics))
    return terms.upper_centre, float(terms.upper(LEVEL)), float(terms.lower(LEVEL))


def _comonotone_bound(population: Classes, cells: Any) -> float:
    statistics, _ = class_statistics(population, cells)
    return float(comonotone([row_terms(s.counts, s.positives, s.outputs) for s in statistics]).upper(LEVEL))


def class_statistics(population: Classes, cells: Any) -> tuple[list[ErrorStatistics], CrossCounts]:
    """Statistics of each class and the counts between them, from rows a pattern and label (P, K)."""
    n_classes, n_bins = population.u.shape
    inside = np.zeros((len(cells), n_classes * n_bins))
    for k in range(n_classes):
        inside[np.arange(len(cells)), k * n_bins + population.bins[:, k]] = 1
    of_class = np.repeat(np.arange(n_classes), n_bins)
    rows = (inside.T * cells.sum(axis=1)) @ inside
    first = (inside * cells[:, of_class]).T @ inside
    own = of_class[:, np.newaxis] == of_class[np.newaxis, :]
    counts = CrossCounts(*(np.rint(table).astype(np.int64) for table in (rows, first, np.where(own, first, 0.0))))
    n_j, k_j = (np.diag(table).reshape(n_classes, n_bins) for table in (counts.rows, counts.first))
    return [ErrorStatistics(n, k, u) for n, k, u in zip(n_j, k_j, population.u, strict=True)], counts


def simulate(n_draws: int) -> tuple[list[Outcome], list[Outcome]]:
    """All settings, then the thin ones; a line each as they are done."""
    outcomes: list[Outcome] = []
    for settings, run in ((rows_settings(), of_rows), (group_settings(), of_groups), (class_settings(), of_classes)):
        for name, population in settings.items():
            outcomes.append(run(name, population, n_draws))  # type: ignore[operator]
            print(_line(outcomes[-1]), flush=True)
    thin = [of_rows(name, population, n_draws) for name, population in thin_settings().items()]
    for outcome in thin:
        print(_line(outcome), flush=True)
    return outcomes, thin


def _root(values: Any) -> str:
    # Draws of hardly more than one effective group have bounds without limit; no error is over 1.
    return "" if values is None else f"{np.sqrt(np.clip(values, 0, 1)).mean():.4f}"


def _ratio(outcome: Outcome) -> str:
    """Mean comonotone bound over the mean upper bound of the same draws."""
    if outcome.comonotone is None:
        return ""
    same = outcome.upper[: len(outcome.comonotone)]
    return f"{np.sqrt(outcome.comonotone).mean() / np.sqrt(same).mean():.2f}"


def _line(outcome: Outcome) -> str:
    finite = "" if outcome.finite_coverage is None else f"{outcome.finite_coverage:.4f}"
    cells = (
        outcome.name,
        f"{outcome.population.fewest:.0f}",
        f"{np.sqrt(outcome.population.theta):.4f}",
        f"{outcome.upper_coverage:.4f}",
        f"{outcome.lower_coverage:.4f}",
        finite,
        _root(outcome.upper),
        _root(outcome.finite),
        _ratio(outcome),
        f"{outcome.bias:+.1f}",
    )
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "| setting | rows the smallest bin expects | true error | upper covers | lower covers | finite-sample covers "
    "| mean upper | mean finite-sample | comonotone over upper | bias |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def main() -> None:
    n_draws = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    outcomes, thin = simulate(n_draws)
    from tests.bench.coverage_page import page
    from tests.bench.unbiased import distances
    from tests.bench.unbiased import table as unbiased_table

    text = page(outcomes, thin, n_draws, HEAD, _line, unbiased_table(list(distances())))
    print(text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
