"""Types of columns: how they and their values are written, and types made of others."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import polars as pl


def retyped(dtype: Any, change: Callable[[pl.DataType], pl.DataType]) -> pl.DataType:
    """Return a type with everything that it is made of changed, in lists, arrays and structs too."""
    whole: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    match whole:
        case pl.List():
            return pl.List(retyped(whole.inner, change))
        case pl.Array():
            return pl.Array(retyped(whole.inner, change), whole.size)
        case pl.Struct():
            return pl.Struct({field.name: retyped(field.dtype, change) for field in whole.fields})
        case _:
            return change(whole)


def with_texts(dtype: Any, *, enums: bool) -> pl.DataType:
    """Return a type with texts for categories, whose store is the process's, and with `enums` for enums too.

    >>> with_texts(pl.List(pl.Categorical()), enums=False), with_texts(pl.Enum(["a"]), enums=True)
    (List(String), String)
    """
    kinds = (pl.Categorical, pl.Enum) if enums else (pl.Categorical,)
    return retyped(dtype, lambda leaf: pl.String() if isinstance(leaf, kinds) else leaf)


def type_name(dtype: Any) -> str:
    """Return the name of a type, without the categories of an enum, which may have been made of the data.

    >>> type_name(pl.List(pl.Enum(["a", "b"]))), type_name(pl.Datetime("us", "UTC"))
    ('List(Enum)', "Datetime(time_unit='us', time_zone='UTC')")
    """
    empty = pl.Enum([])
    return str(retyped(dtype, lambda leaf: empty if isinstance(leaf, pl.Enum) else leaf)).replace(str(empty), "Enum")


def exactly(values: pl.Series) -> list[Any]:
    """Return values as Python has them; where it leaves out nanoseconds, as numbers with their type.

    >>> exactly(pl.Series([1000, 1001]).cast(pl.Time))
    [{'number': 1000, 'of': 'Time'}, {'number': 1001, 'of': 'Time'}]
    """
    numbers = retyped(values.dtype, lambda leaf: pl.Int64() if _has_nanoseconds(leaf) else leaf)
    known = values.to_list()
    if numbers == values.dtype or pl.Series(known, dtype=values.dtype).equals(values):
        return known
    return [{"number": number, "of": type_name(values.dtype)} for number in values.cast(numbers).to_list()]


def _has_nanoseconds(leaf: pl.DataType) -> bool:
    return isinstance(leaf, pl.Time) or (isinstance(leaf, pl.Datetime | pl.Duration) and leaf.time_unit == "ns")


def moment_source(moment: datetime, *, is_date: bool) -> str:
    """Return a date or time as it is typed in Python.

    >>> moment_source(datetime(2026, 1, 1, 6, 30), is_date=False)
    'datetime(2026, 1, 1, 6, 30)'
    """
    if is_date:
        return f"date({moment.year}, {moment.month}, {moment.day})"
    clock = [moment.hour, moment.minute, moment.second, moment.microsecond]
    while clock and not clock[-1]:
        clock.pop()
    if len(clock) == 1:
        clock.append(0)
    zone = "" if moment.tzinfo is None else f', tzinfo=ZoneInfo("{moment.tzinfo}")'
    return f"datetime({', '.join(map(str, [moment.year, moment.month, moment.day, *clock]))}{zone})"
