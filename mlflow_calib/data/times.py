"""Time columns: which rows a period holds, and what a table covers."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mlflow_calib.core.periods import Period
from mlflow_calib.errors import DataError

Moments = npt.NDArray[np.datetime64]


def moments(column: Any, name: str = "time") -> tuple[Moments, bool]:
    """A column as datetime64[us], NaT where missing, and whether it has a zone (then the values are UTC).

    Timestamps of any unit, dates (their midnight) and ISO 8601 texts are read; times without a zone stay as they are.

    Raises
    ------
    DataError
        The column is of another type, or a text in it is no ISO 8601 time.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), "NaT", dtype="datetime64[us]"), False
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _parse(column, name)
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise DataError(f"time column {name!r} must hold timestamps, dates or ISO 8601 texts, got {kind}; convert it")
    zone = getattr(column.type, "tz", None)
    plain = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    values = pc.fill_null(plain, np.iinfo(np.int64).min).to_numpy()
    return np.asarray(values).view("datetime64[us]"), zone is not None


def inside(values: Moments, has_zone: bool, period: Period) -> npt.NDArray[np.bool_]:
    """Which moments lie in the half-open period; where one side alone has a zone, the other's clock counts as UTC."""
    wall = period.wall_clock() if has_zone or period.start.tzinfo else period
    start, end = np.datetime64(wall.start, "us"), np.datetime64(wall.end, "us")
    return np.asarray((values >= start) & (values < end), dtype=np.bool_)


def covered(values: Moments, has_zone: bool) -> tuple[datetime, datetime] | None:
    """First and last moment, or None where there is none."""
    present = values[~np.isnat(values)]
    if not present.size:
        return None
    first, last = (moment.astype(datetime) for moment in (present.min(), present.max()))
    if has_zone:
        first, last = (moment.replace(tzinfo=timezone.utc) for moment in (first, last))
    return first, last


def one_clock(ends: list[datetime]) -> list[datetime]:
    """The moments as they are, refused where some have a zone and some have not: they cannot be compared.

    Raises
    ------
    DataError
        Both kinds are there.
    """
    if len({end.tzinfo is None for end in ends}) > 1:
        raise DataError("times must have a zone in all rows and tables, or in none; convert the time columns to UTC")
    return ends


def _parse(column: Any, name: str) -> Any:
    """ISO 8601 texts as timestamps: all of a batch without a zone, or all with one."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid:  # noqa: PERF203 - two kinds, tried once a batch
            continue
    texts = column.to_pylist()
    bad = [row for row, text in enumerate(texts) if text is not None and not _is_time(text)]
    shown = ", ".join(repr(texts[row]) for row in bad[:3]) or "some with a zone and some without"
    raise DataError(
        f"time column {name!r} must hold ISO 8601 times, all with a zone or all without, got {shown}"
        + (f" ({len(bad)} such rows in one batch of {len(texts)})" if bad else "")
        + "; store it as timestamps"
    )


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)
    except ValueError:
        return False
    return True
