"""The printed table: one line of figures a month, the reasons in words beneath it, and what the figures are."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from examples.flights.months import Measured, Month, Requirements

WIDTH = 130
_INDENT = " " * 10
_NOTES = (
    "Calibration errors are roots of the squared error as the debiased estimator gives it (a negative square shows as "
    "0); the bound is the upper confidence bound on the candidate's error, by calendar day.\n"
    ">= marks a model with continuous outputs (the base model, and v1 while it is champion): binning hides part of its "
    "error, so the figure estimates a lower bound on it.\n"
    "The champion met is past the limit when the lower confidence bound on its error is above it."
)


def header(requirements: Requirements) -> list[str]:
    """Name the columns that `lines_of` fills, under the quantity they show."""
    error, mse = (f" {title} ".center(width, "-") for title, width in (("calibration error (root)", 40), ("MSE", 23)))
    names = _columns(
        *("2013", "flights", "base", "champion", "candidate", f"{requirements.confidence_level:.0%} bound"),
        *("base", "champ.", "candid."),
        *("verdict", "after it", f"limit {requirements.limit:.2f}"),
    )
    return [f"{'':19}{error}   {mse}{'':17}champion  champion met:", names, "-" * WIDTH]


def lines_of(month: Month) -> list[str]:
    """Write one month: its figures, then why the gate decided so."""
    candidate = month.candidate
    figures = _columns(
        *(f"{month.start:%B}", f"{month.n:,}", _error(month.base)),
        f"{_error(month.champion)} v{month.champion_version}",
        f"{_error(candidate)} v{month.candidate_version}",
        "none" if candidate.upper_bound is None else f"{candidate.upper_bound:.3f}",
        *(f"{model.mse:.4f}" for model in (month.base, month.champion, candidate)),
        *(month.verdict.upper(), f"v{month.champion_after}", month.champion_status),
    )
    return [figures, *(line for sentence in month.sentences for line in _wrapped(sentence, f"{_INDENT}- "))]


def closing(months: Sequence[Month]) -> list[str]:
    """Say what the figures are, and how the year ended."""
    last = months[-1]
    passed = [month for month in months if month.passed]
    held = f"v{passed[-1].candidate_version}, in {passed[-1].start:%B}" if passed else "none, v1 stays"
    year = f"{last.start:%B}: {last.verdict}. Last version that passed: {held}. Champion: v{last.champion_after}."
    notes = [line for note in _NOTES.splitlines() for line in _wrapped(note, "* ")]
    return ["-" * WIDTH, *notes, "", year]


def _columns(*cells: str) -> str:
    month, n, base, champion, candidate, bound, *mses, verdict, after, past = cells
    errors = f"{base:>7} {champion:>11} {candidate:>10} {bound:>9}"
    squares = " ".join(f"{mse:>7}" for mse in mses)
    return f"{month:<10}{n:>8} {errors}   {squares}   {verdict:<13} {after:<9} {past}".rstrip()


def _error(model: Measured) -> str:
    return f"{'>=' if model.at_least else ''}{model.error:.3f}"


def _wrapped(text: str, mark: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))
