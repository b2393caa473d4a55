"""The cells of a release: which keys there are, in which order, and where the rows of a table belong.

Keys are public. They stand in one form while they are compared: categories as text, and 0.0 for −0.0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.errors import Misuse
from pufferflow.release.cleaning import named

Whole = npt.NDArray[Any]


def read_keys(keys: pl.DataFrame, by: Sequence[str], schema: pl.Schema) -> pl.DataFrame:
    """Return declared keys in the dtypes of the frame, or say which column does not fit.

    >>> read_keys(pl.DataFrame({"day": [2, 1]}), ["day"], pl.Schema({"day": pl.Int8}))["day"].dtype
    Int8
    """
    read = pl.DataFrame([_fitted(keys[name].rename("key"), name, schema[name]).rename(name) for name in by])
    if read.select(plain(read.schema)).is_duplicated().any():
        raise Misuse("A key is given twice.", allowed="different keys", instead="keys.unique(maintain_order=True)")
    return read


def _fitted(given: pl.Series, name: str, dtype: pl.DataType) -> pl.Series:
    """Return keys in another dtype; every one must survive the way there and back."""
    try:
        read = given.cast(dtype, strict=False)
        floats = dtype.is_float() and given.dtype.is_float()
        same = floats or read.cast(given.dtype, strict=False).eq_missing(given).all()
    except pl.exceptions.PolarsError:
        read, same = given, False
    if not same:
        raise Misuse(
            f"The keys of '{name}' are {given.dtype}, and some are no {dtype}.",
            allowed=f"values that a column of {dtype} can have",
            instead=f"keys of dtype {dtype}",
        )
    return read


def plain(schema: pl.Schema) -> list[pl.Expr]:
    """Return what stands for keys of a table where they are sorted and compared, named 0, 1 and so on.

    A float is two of them, since NaN is not always found by its like.
    """
    forms = [form for name, dtype in schema.items() for form in _forms(named(name), dtype)]
    return [form.alias(str(place)) for place, form in enumerate(forms)]


def _forms(column: pl.Expr, dtype: pl.DataType) -> list[pl.Expr]:
    if isinstance(dtype, pl.Categorical):
        return [column.cast(pl.String)]
    return [column.is_nan(), unsigned_zero(column, dtype).fill_nan(0)] if dtype.is_float() else [column]


def unsigned_zero(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return 0.0 for −0.0, which is the same key; adding 0.0 would do, if the engine did not leave that out."""
    return pl.when(column == 0).then(pl.lit(0, dtype=dtype)).otherwise(column) if dtype.is_float() else column


def runs_of(keys: pl.DataFrame) -> Whole:
    """Return for sorted keys which of the different ones each is: 0 for the first and those like it, and so on."""
    forms = keys.select(plain(keys.schema))
    news = forms.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy()
    return np.cumsum(np.concatenate([[False], news[1:]]), dtype=np.intp)[: len(keys)]


def places_of(keys: pl.DataFrame, among: pl.DataFrame) -> Whole:
    """Return the place of each key among different keys, −1 for one that is not there; null is a key like others."""
    forms, others = keys.select(plain(keys.schema)), among.select(plain(among.schema)).with_row_index("place")
    found = forms.join(others, on=forms.columns, how="left", nulls_equal=True, maintain_order="left")
    return found["place"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.intp)
