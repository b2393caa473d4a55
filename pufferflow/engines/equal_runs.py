"""Equality of runs of rows, decided exactly: digests only choose which runs to compare.

A mistake here would give a group the guarantee of another one, so all rows of two runs are compared before they count
as one kind.

Key columns of any type become whole numbers, equal exactly where the values are, nulls too.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.arrays import Whole

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLOCK, _CACHED = 2**22, 2**14
MOST = 64
"""More distinct patterns than this are covered by one, whose guarantee holds for all of them."""


class Runs(NamedTuple):
    """Run i has the rows from `bounds[i]` to below `bounds[i + 1]`; the `columns` to compare have no −0.0 or NaN."""

    bounds: Whole
    columns: Sequence[npt.NDArray[Any]]

    @property
    def lengths(self) -> Whole:
        """How many rows each run has."""
        return np.diff(self.bounds)


def changes(values: Whole) -> npt.NDArray[np.bool_]:
    """Return a flag for each value that differs from the one before it, and for the first."""
    differs = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def alike(runs: Runs, most: int, times: Whole | None = None) -> list[tuple[int, int]] | None:
    """Return one run of each kind and how many are equal to it; None if there are more kinds than `most`.

    A run may stand for several: run i counts `times[i]` times.

    >>> alike(Runs(np.array([0, 2, 3, 5]), [np.array([7, 8, 7, 7, 8])]), most=9)
    [(0, 2), (1, 1)]
    """
    digests, remaining = _digests(runs), np.arange(len(runs.bounds) - 1)
    kinds: list[tuple[int, int]] = []
    while len(remaining):
        values = np.unique(digests[remaining])
        if len(kinds) + len(values) > most:  # runs with different digests differ
            return None
        others: list[Whole] = []
        for candidates in _by_value(remaining, np.searchsorted(values, digests[remaining]), len(values)):
            same = _equal(runs, candidates)
            kinds.append((int(candidates[0]), int(same.sum() if times is None else times[candidates[same]].sum())))
            others.append(candidates[~same])
        remaining = np.concatenate(others)
    return sorted(kinds)


def _by_value(items: Whole, values: npt.NDArray[np.intp], size: int) -> list[Whole]:
    """Return the items of each value."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(np.bincount(values, minlength=size))
    return np.split(items[order], ends[:-1])


def _equal(runs: Runs, chosen: Whole) -> npt.NDArray[np.bool_]:
    """Return a flag for each of the chosen runs that equals the first of them, compared block by block."""
    begin, end = int(runs.bounds[chosen[0]]), int(runs.bounds[chosen[0] + 1])
    same = runs.lengths[chosen] == end - begin
    longest = np.flatnonzero(same)
    for block in np.array_split(longest, len(longest) * (end - begin) // _BLOCK + 1):
        places = np.add.outer(runs.bounds[chosen[block]], np.arange(end - begin))
        for column in runs.columns:
            same[block] &= (column[places] == column[begin:end]).all(axis=1)
    return same


def _digests(runs: Runs) -> npt.NDArray[np.uint64]:
    """Return a number for each run, equal where runs have the same rows in any order, and hardly ever elsewhere."""
    rows = np.zeros(runs.bounds[-1], dtype=np.uint64)
    for column in runs.columns:
        rows += column.view(np.uint64)
        mix(rows)
    return np.add.reduceat(rows, runs.bounds[:-1]) + runs.lengths.view(np.uint64) * _FIRST


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix the bits of each number in place, so that sums of numbers that were near each other differ."""
    for begin in range(0, len(numbers), _CACHED):
        block = numbers[begin : begin + _CACHED]
        block *= _FIRST
        block ^= block >> np.uint64(29)
        block *= _SECOND
        block ^= block >> np.uint64(32)
    return numbers


LARGEST = 2**61
"""Products of sizes up to this fit into 64 bits, with a margin."""


class Codes(NamedTuple):
    """A number for each row, from 0 to below `size`."""

    values: Whole
    size: int

    def dense(self) -> "Codes":
        """Return codes that leave no number out."""
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
    codes = _codes(frame[columns[0]])
    for column in columns[1:]:
        left, right = fitting(codes, _codes(frame[column]))
        codes = Codes(left.values * right.size + right.values, left.size * right.size)
    return codes


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
    """Return the places of values of any type, by a join."""
    column = values.to_frame("value")
    distinct = column.unique().with_row_index("place")
    joined = column.join(distinct, on="value", how="left", nulls_equal=True, maintain_order="left")
    return Codes(joined["place"].to_numpy().astype(np.int64), max(distinct.height, 1))
