"""Columns of keys: in which form they are compared and published, and names that no column has."""

from collections.abc import Callable, Collection

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Flags, Indices
from pufferflow.core.dtypes import with_texts
from pufferflow.queries.expressions.tree import named, unsorted


def unsigned_zero(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return 0.0 for −0.0, which is the same key; the optimizer would drop an addition of 0.0."""
    return pl.when(column == 0).then(pl.lit(0, dtype=dtype)).otherwise(column) if dtype.is_float() else column


def unused(stem: str, names: Collection[str]) -> str:
    """Return a name that is none of those of columns."""
    name = f"__{stem}"
    while name in names:
        name = f"_{name}"
    return name


def places_of(keys: pl.DataFrame, among: pl.DataFrame) -> Array:
    """Return the place of each key among different keys, −1 for one that is not there; null is a key like others."""
    true = among.select(unsorted(name) for name in among.columns)
    pairs = zip(keys.get_columns(), true.get_columns(), strict=True)
    keys = pl.DataFrame(  # enums are texts where those that were declared are
        [own.cast(with_texts(own.dtype, enums=True)) if own.dtype != other.dtype else own for own, other in pairs]
    )
    forms, others = keys.select(comparable(keys.schema)), true.select(comparable(true.schema)).with_row_index("place")
    joined = forms.join(others, on=forms.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["place"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.intp)


def published(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys as they may be published: not marked as sorted, and categories as text, nested ones too.

    The codes and the store of categories would reveal which labels this process has met before, secret ones too; so the
    texts are written anew. An enum is part of the schema, which is public where keys are; where they are not
    (`pf.Presence`), keys were declared, and are texts already (`read_keys`).
    """
    columns = list[pl.Series]()
    for column in keys.select(unsorted(name) for name in keys.columns):
        dtype = with_texts(column.dtype, enums=False)
        same = dtype == column.dtype
        columns.append(column if same else pl.Series(column.name, column.to_list(), dtype=dtype))
    return pl.DataFrame(columns)


def appearing_keys(keys: pl.DataFrame, appear: Flags) -> tuple[pl.DataFrame, Indices]:
    """Return those of the published keys that appear in an answer, in growing order, and their places among all.

    Nothing of the others is left: columns of texts are written anew, since a part of one may keep all of them in memory
    and in files. Enums are texts, since categories, and their order, may be those of the data.

    >>> towns = pl.DataFrame({"town": ["c", "a", "b"]}, schema={"town": pl.Enum(["c", "a", "b"])})
    >>> appearing_keys(towns, np.array([True, True, False]))[0]["town"].to_list()
    ['a', 'c']
    """
    places = np.flatnonzero(appear)
    own = pl.DataFrame([_anew(column) for column in keys[places].get_columns()])
    order = own.select(pl.arg_sort_by(comparable(own.schema))).to_series().to_numpy()
    return own[order], places[order]


def _anew(keys: pl.Series) -> pl.Series:
    """Return keys in memory of their own, enums as texts."""
    dtype = with_texts(keys.dtype, enums=True)
    if isinstance(dtype, pl.String | pl.Binary):
        return pl.Series(keys.name, keys.cast(dtype).to_list(), dtype=dtype)
    return keys.rechunk()


def comparable(schema: pl.Schema, read: Callable[[str], pl.Expr] = named) -> list[pl.Expr]:
    """Return the columns by which keys of a table are sorted and compared, named 0, 1 and so on.

    Categories are texts, and 0.0 stands for −0.0. A float has two columns, since NaN does not always equal itself.
    """
    forms = list[pl.Expr]()
    for name, dtype in schema.items():
        column = read(name)
        if dtype.is_float():
            forms += [column.is_nan(), unsigned_zero(column, dtype).fill_nan(0)]
        else:
            forms.append(column.cast(pl.String) if isinstance(dtype, pl.Categorical) else column)
    return [form.alias(str(place)) for place, form in enumerate(forms)]
