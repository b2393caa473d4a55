"""The cells of a release: which keys there are, in which order, and where the rows of a table belong."""

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.keys import plain

Whole = npt.NDArray[Any]


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
