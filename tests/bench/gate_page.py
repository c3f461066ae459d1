"""docs/gate_simulation.md from what the simulations gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.bench.gate_pairs import WHAT

INTRODUCTION = """# How often the gate is wrong

A verdict is worth its error rates. Here they are counted: {draws:,} draws of evaluation data from each of {settings}
populations whose errors are known (those of [coverage](coverage.md), and pairs of models). The confidence level is the
default, 95 %. One standard error of a share near .05 is {error:.4f}. Errors are roots, not squared.

`python -m tests.bench.gate` makes this page. The bounds are the core's own functions over many draws at once; of every
population's first draws `judge` itself is asked too, and must say what is counted.

- **false pass**: the model's true error is above the limit, and it passes. The limit lies just below the true error,
  where that is likeliest; a model without any error has no limit below it.
- **false fail**: the true error is within the limit, and it fails. The limit lies just above (or at) the true error.
- A comparison is a false pass where the true increase is just above the margin, a false fail where it is just within.
- **decides**: share of the draws whose status lets the gate use the bounds at all. Thin data are inconclusive.

The aim: false passes at most 6 %, false fails at most 7 %; with groups of very unequal sizes 8 % and 7 %.

## Where it is closest

{closest}

## Power

A calibrated model whose scores are uniform, in 10 bins, against a limit of .03:

| evaluation rows | pass | fail | inconclusive |
|--:|--:|--:|--:|
{power}
"""

PAIRS = """
## Comparisons with a champion

Candidate and champion on the same rows, by row (n = 1,000 and 4,000) and by group. **mse** and **log loss**: bounds of
the mean difference, Student's t; by group with the effective number of groups; of log losses by row (and of groups of
nearly equal sizes) transformed for their skewness. **error**: the difference of the calibration errors (roots), from
the jackknife of the difference of their squares and each model's own bounds (`mlflow_calib.core.paired_error`). Each
cell: true increase, false passes, false fails.

{sizes}

| candidate against champion | mse | log loss | error | error decides |
|---|---|---|---|--:|
{rows}

### At the default margins

Shares of draws that pass, fail; the rest is inconclusive. Margins: mse .002, log loss .01, calibration error .01.

| candidate against champion | mse | log loss | error |
|---|---|---|---|
{defaults}
"""

OTHERS = """
### Other rules for the calibration error

The same pairs by row, by the rule of the gate (squares) and, over {draws:,} draws, by two others: a jackknife of the
roots themselves, and that with each model's own bounds, each at 1 - (1 - level) / 2, where both roots are under the
noise floor. Each cell: false passes, false fails.

| candidate against champion | squares | roots | roots, own bounds under the floor |
|---|---|---|---|
{rows}
"""

MARGINS = {"mse": 0.002, "log_loss": 0.01, "calibration_error": 0.01}
#: A margin so far from the true increase is another.
JUST = 1e-9


def page(
    absolute: Mapping[str, Sequence[Any]],
    powers: Mapping[int, Any],
    paired: Sequence[tuple[str, Any, Mapping[str, Any]]],
    others: Mapping[str, Mapping[str, Any]],
    n_draws: int,
) -> str:
    """The whole page as Markdown; ``others`` are the other rules' bounds by the name of the pair."""
    text = INTRODUCTION.format(
        draws=n_draws,
        settings=sum(map(len, absolute.values())) + len(paired),
        error=np.sqrt(0.05 * 0.95 / n_draws),
        closest=_closest(absolute, paired),
        power="\n".join(_power(n, outcome) for n, outcome in powers.items()),
    )
    text += "\n## The bound on the calibration error\n"
    for heading, outcomes in absolute.items():
        text += f"\n### {heading}\n\n{_table(outcomes)}\n"
    return (
        text
        + PAIRS.format(
            sizes="Sizes of groups are lognormal; sigma is that of their logarithm.",
            rows="\n".join(map(_pair, paired)),
            defaults="\n".join(map(_at_default, paired)),
        )
        + OTHERS.format(
            draws=len(next(iter(next(iter(others.values())).values())).upper),
            rows="\n".join(_other(name, pair, found, others[name]) for name, pair, found in paired if name in others),
        )
    )


def _other(name: str, pair: Any, found: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    what = "calibration_error"
    rates = [_rates(pair, what, bounds) for bounds in (found[what], *others.values())]
    return f"| {name} | {' | '.join(', '.join(map(_percent, both)) for both in rates)} |"


def _power(n: int, outcome: Any) -> str:
    passed, failed = outcome.shares(0.03)
    return f"| {n:,} | {_percent(passed)} | {_percent(failed)} | {_percent(1 - passed - failed)} |"


def _table(outcomes: Sequence[Any]) -> str:
    lines = ["| setting | true error | false pass | false fail | decides |", "|---|--:|--:|--:|--:|"]
    for one in outcomes:
        shares = (_percent(one.false_pass), _percent(one.false_fail), _percent(float(one.ok.mean())))
        lines.append(f"| {one.name} | {one.root:.4f} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _closest(absolute: Mapping[str, Sequence[Any]], paired: Sequence[tuple[str, Any, Mapping[str, Any]]]) -> str:
    lines = ["| what | settings | false pass, most | false fail, most |", "|---|--:|---|---|"]
    for heading, outcomes in absolute.items():
        passes = max(((one.false_pass or 0.0), one.name) for one in outcomes)
        fails = max((one.false_fail, one.name) for one in outcomes)
        lines.append(f"| {heading[0].lower()}{heading[1:]} | {len(outcomes)} | {_most(passes)} | {_most(fails)} |")
    for what in WHAT:
        for words, kind in _KINDS.items():
            some = [(name, pair, found[what]) for name, pair, found in paired if kind(pair)]
            if some:
                rates = [(*_rates(pair, what, found), name) for name, pair, found in some]
                passes, fails = max((a, name) for a, _, name in rates), max((b, name) for _, b, name in rates)
                label = f"increase of {_WORDS[what]}, {words}"
                lines.append(f"| {label} | {len(some)} | {_most(passes)} | {_most(fails)} |")
    return "\n".join(lines)


_WORDS = {"mse": "mse", "log_loss": "log loss", "calibration_error": "calibration error"}
_KINDS = {
    "by row": lambda pair: pair.n_groups is None,
    "groups of equal or nearly equal sizes": lambda pair: pair.n_groups is not None and pair.sigma <= 0.5,
    "groups of very unequal sizes": lambda pair: pair.sigma > 0.5,
}


def _rates(pair: Any, what: str, found: Any) -> tuple[float, float]:
    """False passes just below the true increase, false fails just above it."""
    truth = pair.truth[what]
    return found.shares(truth - JUST)[0], found.shares(truth + JUST)[1]


def _pair(one: tuple[str, Any, Mapping[str, Any]]) -> str:
    name, pair, found = one
    cells = []
    for what in WHAT:
        passes, fails = _rates(pair, what, found[what])
        cells.append(f"{pair.truth[what]:+.4f}: {_percent(passes)}, {_percent(fails)}")
    return f"| {name} | {' | '.join(cells)} | {_percent(float(found['calibration_error'].usable.mean()))} |"


def _at_default(one: tuple[str, Any, Mapping[str, Any]]) -> str:
    name, _, found = one
    cells = [", ".join(map(_percent, found[what].shares(MARGINS[what]))) for what in WHAT]
    return f"| {name} | {' | '.join(cells)} |"


def _most(found: tuple[float, str]) -> str:
    return f"{_percent(found[0])} ({found[1]})"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"
