"""docs/coverage.md from what the simulations gave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

INTRODUCTION = """# How often the bounds hold

A bound is worth its coverage. Here it is counted: {draws:,} draws of evaluation data from each of {settings}
populations whose calibration error is known, every bin expecting at least 10 rows. The level is 95 %, one-sided; one
standard error of a share near .95 is {error:.4f}. Errors and widths are roots, on the scale of probabilities.

`python -m tests.bench.coverage` makes this page.

- **upper**, **lower**: `estimate.upper_bound()` and `estimate.lower_bound()`, the closed forms that gate. They are the
  forms of the design, by row and by group, so that their width is that form's.
- **finite-sample**: `estimate.upper_bound(method="finite-sample")`, without asymptotics: the worst that simultaneous
  Clopper-Pearson intervals for all rates and all masses of the bins allow. It is never below its level and much wider.
- **comonotone over upper**, for several classes: how many times wider the bound is that holds however the classes
  depend on one another, from per-class statistics alone; **upper** takes their dependence from counts of rows in pairs
  of the classes' bins.
- **bias**: distance of the mean debiased square from the truth (by group: the square T_G of the lower bound), in
  standard errors. With groups of unequal sizes T_G is a little too high, which the lower bound's quantile covers.

For several classes the finite-sample bound is counted over the first 1,000 draws, the comonotone one over 500. With
groups neither it nor the bootstrap is given: rows of one group are not independent.

## Where it is closest

{minima}

## The debiased square has no bias

20,000 draws of every setting but groups of unequal sizes (`python -m tests.bench.unbiased`): distance of the mean
debiased square from the truth. Of thin settings it would not be the truth: a bin that holds one row adds nothing.

{unbiased}
"""

THIN = """## Thin evaluation data

Some bin expects fewer than 10 rows. What is counted is still the bound's number; beside it, how often the status of the
first 1,000 draws lets a gate use that number at all. A `thin` or `unusable` estimate neither passes nor fails.

{head}
{rows}

| setting | ok | thin | unusable | upper bound below the true error and status ok |
|---|--:|--:|--:|--:|
{answers}
"""


def page(
    outcomes: Sequence[Any], thin: Sequence[Any], n_draws: int, head: str, line: Callable[[Any], str], unbiased: str
) -> str:
    """The whole page as Markdown."""
    by_kind: dict[str, list[Any]] = {}
    for outcome in outcomes:
        by_kind.setdefault(kind_of(outcome), []).append(outcome)
    text = INTRODUCTION.format(
        draws=n_draws,
        settings=len(outcomes),
        error=np.sqrt(0.95 * 0.05 / n_draws),
        minima=minima_table(by_kind),
        unbiased=unbiased,
    )
    for kind, found in by_kind.items():
        rows = "\n".join(line(outcome) for outcome in found)
        text += f"\n## {kind[0].upper()}{kind[1:]}\n\n{head}\n{rows}\n"
    answers = "\n".join(_answer(outcome) for outcome in thin)
    return text + "\n" + THIN.format(head=head, rows="\n".join(map(line, thin)), answers=answers)


def kind_of(outcome: Any) -> str:
    """Heading under which a setting stands; each has its own requirement."""
    sigma = getattr(outcome.population, "sigma", None)
    if sigma is not None:
        return "groups, lognormal sizes of sigma over .5" if sigma > 0.5 else "groups, equal or nearly equal"
    return "several classes on the same rows" if outcome.comonotone is not None else "independent rows"


def minima_table(by_kind: dict[str, list[Any]]) -> str:
    """Least coverage of every kind, with the setting that has it."""
    lines = ["| kind | settings | upper, least | lower, least | finite-sample, least |", "|---|--:|---|---|---|"]
    for kind, found in by_kind.items():
        cells = [_least(found, name) for name in ("upper_coverage", "lower_coverage", "finite_coverage")]
        lines.append(f"| {kind} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _least(found: Sequence[Any], name: str) -> str:
    known = [outcome for outcome in found if getattr(outcome, name) is not None]
    if not known:
        return ""
    worst = min(known, key=lambda outcome: getattr(outcome, name))
    return f"{getattr(worst, name):.4f} ({worst.name})"


def _answer(outcome: Any) -> str:
    names = outcome.statuses
    shares = [f"{names.count(name) / len(names):.1%}" for name in ("ok", "thin", "unusable")]
    ok = np.array([name == "ok" for name in names])
    passed = outcome.upper[: len(names)] < outcome.population.theta
    return f"| {outcome.name} | {' | '.join(shares)} | {np.mean(ok & passed):.1%} |"
