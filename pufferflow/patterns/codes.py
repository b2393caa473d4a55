"""Whole numbers for the values of key columns of any type: equal exactly where the values are, nulls too."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

Whole = npt.NDArray[np.int64]
LARGEST = 2**61
"""Products of sizes up to that fit into 64 bits, and leave room for some more."""


class Codes(NamedTuple):
    """A number for each row, from 0 to below `size`."""

    values: Whole
    size: int

    def dense(self) -> "Codes":
        """Return codes none of which is missing."""
        values, places = np.unique(self.values, return_inverse=True)
        return Codes(places.astype(np.int64), len(values))


def fitting(left: Codes, right: Codes) -> tuple[Codes, Codes]:
    """Return codes for the same values, such that pairs of them fit into 64 bits."""
    if left.size * right.size <= LARGEST:
        return left, right
    return left.dense(), right.dense()


def codes_of(frame: pl.DataFrame, columns: Sequence[str]) -> Codes:
    """Return codes that are equal where the values of all columns are.

    >>> codes_of(pl.DataFrame({"house": ["a", None, "b", None]}), ["house"]).dense().size
    3
    """
    if not columns:
        return Codes(np.zeros(frame.height, dtype=np.int64), 1)
    found = _codes(frame[columns[0]])
    for column in columns[1:]:
        kept, own = fitting(found, _codes(frame[column]))
        found = Codes(kept.values * own.size + own.values, kept.size * own.size)
    return found


def _codes(values: pl.Series) -> Codes:
    physical = values.cast(pl.UInt8) if values.dtype == pl.Boolean else values.to_physical()
    if not physical.dtype.is_integer() or physical.null_count() == len(physical):
        return _places(values)
    low, high = _ends(physical)
    if low < -LARGEST or high >= LARGEST or high - low + 2 > LARGEST:
        return _places(values)
    numbers = physical.cast(pl.Int64).fill_null(high + 1).to_numpy()
    return Codes(numbers - low, high - low + 2)


def _ends(numbers: pl.Series) -> tuple[int, int]:
    ends: tuple[Any, Any] = (numbers.min(), numbers.max())
    return ends


def _places(values: pl.Series) -> Codes:
    """Return the places of values in the list of those that are distinct."""
    quick = _by_digests(values, values.hash()) if values.dtype == pl.String else None
    return quick if quick is not None else _joined(values)


def _by_digests(values: pl.Series, digests: pl.Series) -> Codes | None:
    """Return the places of digests; None if two different values have the same one. Sorting texts takes longer."""
    distinct, first, places = np.unique(digests.to_numpy(), return_index=True, return_inverse=True)
    if not values.gather(pl.Series(first[places])).eq_missing(values).all():
        return None
    return Codes(places.astype(np.int64), max(len(distinct), 1))


def _joined(values: pl.Series) -> Codes:
    """Return the places that a join finds, for any type."""
    column = values.to_frame("value")
    distinct = column.unique().with_row_index("place")
    joined = column.join(distinct, on="value", how="left", nulls_equal=True, maintain_order="left")
    return Codes(joined["place"].to_numpy().astype(np.int64), max(distinct.height, 1))
