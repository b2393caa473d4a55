"""Values of a database as columns of declared types: each by itself, and null if it cannot be read so.

No value changes how another is read, or makes a query fail. Drivers return numbers, texts and dates as Python has them,
and SQLite returns any of these for any column.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import polars as pl

from pufferflow.plugins import ColumnType, dtypes_of

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?|[+-]?inf(inity)?|nan", re.IGNORECASE
)
_LEAST, _MOST = -(2**63), 2**63 - 1


def integer(value: Any) -> int | None:
    """Return a whole number of 64 bits.

    >>> [integer(value) for value in (3, True, Decimal("2.0"), 2.5, "7", "x", 10**20, float("nan"))]
    [3, 1, 2, None, 7, None, None, None]
    """
    whole: int | None = None
    if isinstance(value, int):
        whole = int(value)
    elif isinstance(value, float | Decimal):
        whole = int(value) if math.isfinite(value) and value == int(value) else None
    elif isinstance(value, str) and _WHOLE.fullmatch(value):
        whole = int(value)
    return whole if whole is not None and _LEAST <= whole <= _MOST else None


def number(value: Any) -> float | None:
    """Return a float, the nearest one of a decimal.

    >>> [number(value) for value in (3, Decimal("0.1"), "1e3", "x", 10**400, b"1")]
    [3.0, 0.1, 1000.0, None, None, None]
    """
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    if not isinstance(value, int | float | Decimal | str):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def text(value: Any) -> str | None:
    """Return a text; numbers, dates and identifiers as Python writes them."""
    if isinstance(value, str):
        return value
    return (
        str(value) if isinstance(value, int | float | Decimal | UUID | dt.date | dt.time) else None
    )


def boolean(value: Any) -> bool | None:
    """Return a truth value, which some databases have as 0 and 1."""
    return bool(value) if isinstance(value, bool | int) and value in (0, 1) else None


def date(value: Any) -> dt.date | None:
    """Return a date; a moment is refused, since its day depends on a zone."""
    if isinstance(value, str):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None


def moment(value: Any) -> dt.datetime | None:
    """Return a moment without a zone; one that has a zone is in UTC."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, dt.datetime):
        return None
    try:
        return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        return None


_READ: Final[Mapping[ColumnType, tuple[type, Callable[[Any], Any]]]] = {
    "integer": (int, integer),
    "float": (float, number),
    "text": (str, text),
    "boolean": (bool, boolean),
    "date": (dt.date, date),
    "datetime": (dt.datetime, moment),
}


def frame_of(
    rows: Sequence[Sequence[Any]], places: Sequence[int], columns: Mapping[str, ColumnType]
) -> pl.DataFrame:
    """Return rows, of which each declared column stands at a place, as a frame."""
    dtypes = dtypes_of(columns)
    by_column = list(zip(*rows, strict=True)) if rows else [()] * (max(places) + 1)
    return pl.DataFrame(
        [
            _column(name, by_column[place], kind, dtypes[name])
            for place, (name, kind) in zip(places, columns.items(), strict=True)
        ]
    )


def _column(name: str, values: Sequence[Any], kind: ColumnType, dtype: pl.DataType) -> pl.Series:
    plain, read = _READ[kind]
    if kind != "datetime" and set(map(type, values)) <= {plain, type(None)}:
        with suppress(OverflowError):  # of a whole number of more than 64 bits
            return pl.Series(name, values, dtype=dtype)
    return pl.Series(
        name, [None if value is None else read(value) for value in values], dtype=dtype
    )
