"""The kinds of groups without order: how many rows a group has in each of its cells, whatever the cells are called.

Rows are counted by sorting one number for each, which takes less time than a hash table where groups are many and
small. Groups are compared by fingerprints of these counts, two sums of mixed numbers modulo 2⁶⁴ with keys drawn anew in
each process: by chance two kinds agree with a probability of about 2⁻¹²⁸. The counts of one group of each kind are then
taken as they are.
"""

import secrets
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.arrays import Whole
from pufferflow.engines.equal_runs import MOST, changes, codes_of, fitting, mix
from pufferflow.engines.groups import Groups
from pufferflow.engines.pattern_columns import Columns

_KEYS: Final = [(np.uint64(secrets.randbits(64) | 1), np.uint64(secrets.randbits(64))) for _ in range(2)]


class CellSizes(NamedTuple):
    """The numbers of rows in the cells of a group, in falling order, and of rows that are not selected."""

    sizes: tuple[int, ...]
    others: int


Kinds = dict[CellSizes, int]
"""How many groups there are of each kind."""


class Counts(NamedTuple):
    """The numbers of rows in cells: group i has those from `bounds[i]` to below `bounds[i + 1]`.

    Flags mark the numbers of rows that are not selected. Each group counts `times` times.
    """

    bounds: Whole
    rows: Whole
    others: npt.NDArray[np.bool_]
    times: Whole

    def kinds(self) -> Kinds | None:
        """Return the kinds of groups with a selected row; None if there are too many."""
        starts = self.bounds[:-1]
        prints = [np.add.reduceat(mixed, starts) if len(starts) else mixed[:0] for mixed in map(self._mixed, _KEYS)]
        groups = pl.DataFrame({"0": prints[0], "1": prints[1], "times": self.times}).with_row_index("group")
        if self.others.any():
            groups = groups.filter(pl.Series(np.logical_or.reduceat(~self.others, starts)))
        alike = groups.group_by("0", "1").agg(pl.col("group").min(), pl.col("times").sum())
        if alike.height > MOST:
            return None
        return {self._kind(group): times for group, times in alike.select("group", "times").iter_rows()}

    def _mixed(self, key: tuple[np.uint64, np.uint64]) -> npt.NDArray[np.uint64]:
        numbers = self.rows.astype(np.uint64)
        numbers *= key[0]
        numbers += key[1]
        numbers[self.others] ^= key[0]
        return mix(numbers)

    def _kind(self, group: int) -> CellSizes:
        own = slice(self.bounds[group], self.bounds[group + 1])
        rows, others = self.rows[own], self.others[own]
        return CellSizes(tuple(sorted(rows[~others].tolist(), reverse=True)), int(rows[others].sum()))


def counts_of(rows: pl.DataFrame, columns: Columns) -> Counts:
    """Return the counts of all groups; a row may stand for several, and a group too."""
    groups, cells = fitting(codes_of(rows, columns.within), codes_of(rows, columns.cells))
    size = cells.size + 1  # the last cell has the rows that are not selected
    keys = groups.values * size
    keys += cells.values if columns.all_selected else np.where(rows["selected"].to_numpy(), cells.values, cells.size)
    keys, numbers = _counted(keys, rows["count"].to_numpy() if "count" in rows.columns else None)
    of_group = keys // size
    keys -= of_group * size
    bounds = np.append(np.flatnonzero(changes(of_group)), len(of_group))
    times = np.ones(len(bounds) - 1, dtype=np.int64)
    if "times" in rows.columns:
        times[np.searchsorted(of_group[bounds[:-1]], groups.values)] = rows["times"].to_numpy()
    return Counts(bounds, numbers, keys == cells.size, times)


def _counted(keys: Whole, rows: Whole | None) -> tuple[Whole, Whole]:
    """Return the distinct keys in order, and how many rows have each; changes `keys`."""
    if rows is None:
        keys.sort()
        heads = np.flatnonzero(changes(keys))
        return keys[heads], np.diff(np.append(heads, len(keys)))
    order = np.argsort(keys)
    keys = keys[order]
    heads = np.flatnonzero(changes(keys))
    return keys[heads], np.add.reduceat(rows[order], heads) if len(heads) else heads


def counts_in_order(groups: Groups) -> Counts:
    """Return the counts of groups whose rows are in order."""
    cells = np.maximum.reduceat(groups.cells, groups.bounds[:-1]) + 2  # the first has the rows that are not selected
    first = np.cumsum(cells) - cells
    rows = np.repeat(first, np.diff(groups.bounds)) + groups.cells + 1
    counts = np.bincount(rows, minlength=int(cells.sum()))
    there, of_cell = np.flatnonzero(counts), np.repeat(np.arange(groups.number), cells)
    of_group = of_cell[there]
    bounds = np.append(np.flatnonzero(changes(of_group)), len(of_group))
    return Counts(bounds, counts[there], there == first[of_group], groups.times)
