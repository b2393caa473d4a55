"""The public keys of an answer that a `group_by` lists, or the word for keys that the data chooses."""

from collections.abc import Sequence
from typing import Any, Final, cast

import polars as pl

from pufferflow.core.dtypes import type_name, with_texts
from pufferflow.core.errors import UsageError
from pufferflow.core.suggestions import nearest
from pufferflow.core.validate import quoted
from pufferflow.queries.expressions.tree import named, unsorted
from pufferflow.queries.key_columns import comparable

DISCOVER: Final = "discover"
"""The word for the keys of the rows, where the keys are private."""


def check_discoverable(by: Sequence[str], schema: pl.Schema, *, public: bool, other: object) -> None:
    """Refuse keys of the rows where they are public anyway, beside other ones, and where they are no plain values."""
    if public:
        raise UsageError(
            f'keys="{DISCOVER}", and which rows there are is public here: so are their keys, and they cost nothing.',
            allowed=f'keys left out; or keys="{DISCOVER}" where the secret is pf.Presence, under any prior it takes',
            instead=f".group_by({quoted(by[0])})",
        )
    if other is not None:
        raise UsageError(
            f'other= is about all rows with none of the listed keys, and keys="{DISCOVER}" lists none.',
            allowed="the keys of the answer, listed",
            instead=f'.group_by({quoted(by[0])}, keys=["a", "b"], other="elsewhere")',
        )
    nested = next((name for name in by if schema[name].is_nested()), None)
    if nested is not None:
        raise UsageError(
            f'keys="{DISCOVER}" of the column {quoted(nested)}, which is {type_name(schema[nested])}.',
            allowed="keys that are numbers, texts, dates or times; or keys that are listed",
            instead=f'.group_by(town=pl.col({quoted(nested)}).struct.field("town"), keys="{DISCOVER}")',
        )


def read_keys(given: object, by: Sequence[str], schema: pl.Schema, *, public: bool = True) -> pl.DataFrame:
    """Return the keys of an answer as a frame in the dtypes of the grouping columns, in the order given.

    Where the keys of the data are not `public`, enums are read as texts: their categories may be those of the data.

    >>> read_keys([2, 1], ["day"], pl.Schema({"day": pl.Int8}))["day"].dtype
    Int8
    """
    allowed = "values (of one column), tuples (of several), or a frame of the grouping columns; each key once"
    instead = f"keys=[1, 2, 3], or a pl.DataFrame with the columns {', '.join(by)}"
    if isinstance(given, str) and len(by) == 1:
        instead = f"keys=[{quoted(given)}]"
        if not public and nearest(given, [DISCOVER]):
            instead = f'keys="{DISCOVER}"'
    if isinstance(given, pl.DataFrame):
        missing = next((name for name in by if name not in given.columns), by[0])
        near = nearest(missing, given.columns)
        instead = f"keys=frame.rename({{{near[0]!r}: {missing!r}}})" if near else f"a frame with a column {missing!r}"
    try:
        frame = _frame(given, by)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        frame = None
    if frame is None:
        raise UsageError("The keys cannot be read as values of the grouping columns.", allowed=allowed, instead=instead)
    dtypes = {name: schema[name] if public else with_texts(schema[name], enums=True) for name in by}
    read = pl.DataFrame([_fitted(frame[name].rename("key"), name, dtypes[name]).rename(name) for name in by])
    read = read.select(unsorted(name) for name in by)
    if read.height == 0 or read.select(comparable(read.schema)).is_duplicated().any():
        raise UsageError("There are no keys, or one is given twice.", allowed=allowed, instead=instead)
    return read


def _frame(given: object, by: Sequence[str]) -> pl.DataFrame:
    if isinstance(given, pl.DataFrame):
        return given.select(named(name) for name in by)
    if isinstance(given, pl.Series):
        return pl.DataFrame({by[0]: given}) if len(by) == 1 else pl.DataFrame()
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise TypeError
    values = list(cast(Any, given))
    if len(by) == 1:
        return pl.DataFrame({by[0]: pl.Series(values)})
    columns = list(zip(*values, strict=True))
    return pl.DataFrame({name: pl.Series(list(column)) for name, column in zip(by, columns, strict=True)})


def fitted(given: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """Return values in another dtype; None if one does not survive the way there and back."""
    try:
        read = given.cast(dtype, strict=False)
        floats = dtype.is_float() and given.dtype.is_float()
        there_and_back = floats or read.cast(given.dtype, strict=False).eq_missing(given).all()
    except pl.exceptions.PolarsError:
        return None
    same = there_and_back and (_is_number(dtype) or not _is_number(given.dtype))  # 1 is no text, though "1" is
    return read if same else None


def _fitted(given: pl.Series, name: str, dtype: pl.DataType) -> pl.Series:
    """Return keys in another dtype."""
    read = fitted(given, dtype)
    if read is None:
        raise UsageError(
            f"The keys of '{name}' are {type_name(given.dtype)}, and some are no {type_name(dtype)}.",
            allowed=f"values that a column of {type_name(dtype)} can have",
            instead=f"keys of dtype {type_name(dtype)}",
        )
    return read


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Boolean
