"""What the evidence says about one requirement, and the record of it: figures, and one sentence that says all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from mlflow_calib.core.policy import Requirement
from mlflow_calib.core.records import COUNT, LIST, NUMBER, TEXT, field_problems, is_number, one_of
from mlflow_calib.core.wording import expected_words
from mlflow_calib.errors import EvidenceError, raise_problems

#: The four that decide, the weightiest first: one of them is the whole verdict.
VERDICTS = ("no verdict", "fail", "inconclusive", "pass")
#: "not applicable": nothing to compare with yet. "off": switched off by the policy. Neither decides.
STATUSES = (*VERDICTS, "not applicable", "off")
_FIGURES = ("actual", "lower", "upper", "noise_floor")


class Reading(NamedTuple):
    """What the evidence says about one requirement: status, the words between demand and status, the figures."""

    status: str
    words: str
    actual: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int | None = None
    hint: str = ""
    noise_floor: float | None = None
    more_rows: int | None = None
    parts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class RequirementVerdict:
    """One requirement with its verdict, its figures, and one sentence that says both.

    ``actual`` is the estimate, ``lower`` and ``upper`` its one-sided bounds at the policy's level, None where there are
    none; ``expected`` is the demand in words and ``limit`` its number. Where the verdict is inconclusive ``more_rows``
    is about how many more such rows would settle it (None: more rows alone may not), and ``noise_floor`` the bound that
    a model without calibration error would show on these. ``parts`` are the classes or slices of a requirement on all
    of them: ``part``, ``status``, ``actual``, ``lower``, ``upper``, ``n``.
    """

    name: str
    status: str
    expected: str
    limit: float
    actual: float | None
    lower: float | None
    upper: float | None
    n: int | None
    sentence: str
    noise_floor: float | None = None
    more_rows: int | None = None
    parts: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "parts": [dict(part) for part in self.parts]}

    @classmethod
    def from_dict(cls, document: Any) -> RequirementVerdict:
        """Read what ``to_dict`` wrote.

        Raises
        ------
        EvidenceError
            With every problem of the document at once.
        """
        problems = field_problems(document, _FIELDS, "a requirement of the verdict")
        if not problems:
            for place, part in enumerate(document["parts"]):
                problems += field_problems(part, _PART, f"parts[{place}] of a requirement of the verdict")
        if problems:
            raise_problems(problems, EvidenceError)
        values = {field.name: document[field.name] for field in fields(cls)}
        return cls(**{**values, "parts": tuple(values["parts"])})


_OR_NULL = NUMBER.or_null()
_FIELDS = {
    **dict.fromkeys(("name", "expected", "sentence"), TEXT),
    "status": one_of(*STATUSES),
    "limit": NUMBER,
    **dict.fromkeys((*_FIGURES, "n"), _OR_NULL),
    "more_rows": COUNT.or_null(),
    "parts": LIST,
}
_PART = {"part": TEXT, "status": one_of(*VERDICTS), **dict.fromkeys(("actual", "lower", "upper", "n"), _OR_NULL)}


def requirement_verdict(requirement: Requirement, reading: Reading) -> RequirementVerdict:
    """The finished record; a figure that is not finite becomes None, and takes a pass or fail with it."""
    figures = {name: plain(getattr(reading, name)) for name in _FIGURES}
    lost = any(getattr(reading, name) is not None and value is None for name, value in figures.items())
    if lost and reading.status in VERDICTS:
        reading = reading._replace(status="no verdict", words="a figure is not finite", hint="evaluate again")
    expected = expected_words(requirement)
    sentence = f"{expected} asked; {reading.words}: {reading.status}" + (f"; {reading.hint}" if reading.hint else "")
    return RequirementVerdict(
        name=requirement.name,
        status=reading.status,
        expected=expected,
        limit=requirement.limit,
        n=reading.n,
        sentence=sentence,
        more_rows=reading.more_rows,
        parts=reading.parts,
        **figures,
    )


def plain(value: float | None) -> float | None:
    """A finite number as a float, else None."""
    return float(value) if value is not None and is_number(float(value)) else None
