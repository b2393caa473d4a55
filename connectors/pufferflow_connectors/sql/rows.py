"""Rows of a driver of Python as results of queries: frames with the types that columns have in the table.

Results are aggregates, so they are small; what is large comes in parts. Drivers that give Arrow do not need this.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import polars as pl

from pufferflow.plugins import Query, result_types
from pufferflow_connectors.sql.dialect import Dialect

PART: Final = 2**16
"""The rows of a part."""

_READ: Final[dict[pl.DataType, Callable[[str], Any]]] = {
    pl.Date(): dt.date.fromisoformat,
    pl.Datetime("us"): dt.datetime.fromisoformat,
}


def frames_of(
    query: Query,
    schema: pl.Schema,
    names: Sequence[str],
    parts: Iterable[Sequence[Sequence[Any]]],
    dialect: Dialect,
) -> Iterator[pl.DataFrame]:
    """Yield the result of a query on a table with a schema, from its names of columns and its rows; never nothing.

    >>> from pufferflow.plugins import CellTotals
    >>> schema, names = pl.Schema({"day": pl.Date()}), ["by0", "rows"]
    >>> parts = frames_of(CellTotals(("day",)), schema, names, [[("2026-03-29", 7)]], Dialect(name="example"))
    >>> [(part.rows(), part.dtypes) for part in parts]
    [([], [Date, Int64]), ([(datetime.date(2026, 3, 29), 7)], [Date, Int64])]
    """
    types = result_types(query, schema)
    dtypes = [types.get(name, pl.Int64()) for name in names]
    yield pl.DataFrame(schema=dict(zip(names, dtypes, strict=True)))
    for rows in filter(None, parts):
        columns = zip(names, zip(*rows, strict=True), dtypes, strict=True)
        yield pl.DataFrame(
            [_column(name, values, dtype, dialect) for name, values, dtype in columns]
        )


def _column(name: str, values: Sequence[Any], dtype: pl.DataType, dialect: Dialect) -> pl.Series:
    """Return values with a type.

    Some drivers have dates and moments as texts, truth as 0 and 1.
    """
    if dtype in _READ:
        values = [_READ[dtype](value) if isinstance(value, str) else value for value in values]
    if (
        dtype in _READ or dtype.is_decimal() or dtype.is_float()
    ):  # a driver may write 0 for 0.0, before other floats
        return pl.Series(name, values, dtype=dtype)
    # of values that do not fit their column, the error says that it could not be read, and nothing else
    column = pl.Series(name, values).cast(dtype)
    if dtype == pl.String() and dialect.end_mark:
        return column.str.strip_suffix(dialect.end_mark)
    return column
