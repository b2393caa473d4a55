"""Which runs of rows are equal to each other, exactly: digests only say which ones to compare.

A mistake here would promise for a group what holds for another one, so no two runs are one kind before all their rows
have been compared.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLOCK = 2**22


class Runs(NamedTuple):
    """Run i has the rows from `bounds[i]` to below `bounds[i + 1]`; `columns` are compared, and have no −0.0 or NaN."""

    bounds: Whole
    columns: Sequence[npt.NDArray[Any]]

    @property
    def lengths(self) -> Whole:
        """How many rows each run has."""
        return np.diff(self.bounds)


def changes(values: Whole) -> npt.NDArray[np.bool_]:
    """Return which values are not the one before them; the first is one of those."""
    found = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def alike(runs: Runs, most: int) -> list[tuple[int, int]] | None:
    """Return one run of each kind and how many are equal to it; None if there are more kinds than `most`.

    >>> alike(Runs(np.array([0, 2, 3, 5]), [np.array([7, 8, 7, 7, 8])]), most=9)
    [(0, 2), (1, 1)]
    """
    digests, waiting = _digests(runs), np.arange(len(runs.bounds) - 1)
    kinds: list[tuple[int, int]] = []
    while len(waiting):
        values = np.unique(digests[waiting])
        if len(kinds) + len(values) > most:  # what has different digests is different
            return None
        others: list[Whole] = []
        for some in _by_value(waiting, np.searchsorted(values, digests[waiting]), len(values)):
            same = _equal(runs, some)
            kinds.append((int(some[0]), int(same.sum())))
            others.append(some[~same])
        waiting = np.concatenate(others)
    return sorted(kinds)


def _by_value(items: Whole, values: npt.NDArray[np.intp], size: int) -> list[Whole]:
    """Return the items of each value."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(np.bincount(values, minlength=size))
    return np.split(items[order], ends[:-1])


def _equal(runs: Runs, some: Whole) -> npt.NDArray[np.bool_]:
    """Return which of some runs are equal to the first of them, block by block."""
    begin, end = int(runs.bounds[some[0]]), int(runs.bounds[some[0] + 1])
    same = runs.lengths[some] == end - begin
    longest = np.flatnonzero(same)
    for block in np.array_split(longest, len(longest) * (end - begin) // _BLOCK + 1):
        places = np.add.outer(runs.bounds[some[block]], np.arange(end - begin))
        for column in runs.columns:
            same[block] &= (column[places] == column[begin:end]).all(axis=1)
    return same


def _digests(runs: Runs) -> npt.NDArray[np.uint64]:
    """Return a number for each run, equal where runs have the same rows in any order, and hardly ever elsewhere."""
    rows = np.zeros(runs.bounds[-1], dtype=np.uint64)
    for column in runs.columns:
        rows += column.view(np.uint64)
        rows *= _FIRST
        rows ^= rows >> np.uint64(29)
        rows *= _SECOND
        rows ^= rows >> np.uint64(32)
    return np.add.reduceat(rows, runs.bounds[:-1]) + runs.lengths.view(np.uint64) * _FIRST
