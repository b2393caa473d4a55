"""The cells of a release: which keys there are, in which order, and where the rows of a table belong."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.dtypes import with_texts
from pufferflow.expressions import unsorted
from pufferflow.keys import plain

Whole = npt.NDArray[Any]


def runs_of(keys: pl.DataFrame) -> Whole:
    """Return for sorted keys which of the different ones each is: 0 for the first and those like it, and so on."""
    forms = keys.select(plain(keys.schema))
    news = forms.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy()
    return np.cumsum(np.concatenate([[False], news[1:]]), dtype=np.intp)[: len(keys)]


def places_of(keys: pl.DataFrame, among: pl.DataFrame) -> Whole:
    """Return the place of each key among different keys, −1 for one that is not there; null is a key like others."""
    true = among.select(unsorted(name) for name in among.columns)
    keys = _alike(keys, true)
    forms, others = keys.select(plain(keys.schema)), true.select(plain(true.schema)).with_row_index("place")
    found = forms.join(others, on=forms.columns, how="left", nulls_equal=True, maintain_order="left")
    return found["place"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.intp)


def published(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys as they may be published: no longer said to be sorted, and categories as text, wherever they stand.

    The codes and the store of categories would tell which labels this process has met before, secret ones too; so the
    texts are written anew. An enum is part of the schema, which is public where keys are; where they are not
    (`pf.Presence`), keys were declared, and are texts already (`read_keys`).
    """
    columns = [_as_text(column) for column in keys.select(unsorted(name) for name in keys.columns)]
    return pl.DataFrame(columns)


def _alike(keys: pl.DataFrame, declared: pl.DataFrame) -> pl.DataFrame:
    """Return keys in which enums are texts where those that were declared are."""
    columns = [
        own.cast(with_texts(own.dtype, enums=True)) if own.dtype != other.dtype else own
        for own, other in zip(keys.get_columns(), declared.get_columns(), strict=True)
    ]
    return pl.DataFrame(columns) if columns else keys


def _as_text(column: pl.Series) -> pl.Series:
    dtype = with_texts(column.dtype, enums=False)
    return column if dtype == column.dtype else pl.Series(column.name, column.to_list(), dtype=dtype)
