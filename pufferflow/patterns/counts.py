"""How many rows of each group are in its cells, for all groups at once."""

from typing import NamedTuple

import numpy as np
import polars as pl

from pufferflow.patterns.alike import changes
from pufferflow.patterns.codes import Whole, codes_of, fitting
from pufferflow.patterns.columns import Columns


class Kind(NamedTuple):
    """How many rows the cells of a group have, in falling order, and how many rows are not asked about."""

    sizes: tuple[int, ...]
    others: int


class Counts(NamedTuple):
    """What each group has, in falling order: code c is a cell of `most` − c rows, or 2·`most` + 1 − c other rows."""

    bounds: Whole
    coded: Whole
    most: int

    def kind(self, group: int) -> Kind:
        """Return what the codes of a group say."""
        coded = self.coded[self.bounds[group] : self.bounds[group + 1]]
        others = coded > self.most
        return Kind(tuple((self.most - coded[~others]).tolist()), int((2 * self.most + 1 - coded[others]).sum()))


def counts_of(rows: pl.DataFrame, columns: Columns) -> Counts:
    """Return the counts of the groups with a row that is asked about."""
    keys, size = _sorted_keys(rows, columns)
    heads = np.flatnonzero(changes(keys))
    counts, keys = np.diff(heads, append=len(keys)), keys[heads]
    groups = keys // size
    others = keys - groups * size == size - 1
    bounds = np.append(np.flatnonzero(changes(groups)), len(groups))
    most = int(counts.max(initial=0))
    before = np.repeat(np.arange(len(bounds) - 1) * (2 * most + 2), np.diff(bounds))
    coded = most - counts + (most + 1) * others + before
    coded.sort()
    return _with_asked_rows(Counts(bounds, coded - before, most))


def _sorted_keys(rows: pl.DataFrame, columns: Columns) -> tuple[Whole, int]:
    """Return group · size + cell of all rows; the last cell is that of rows that are not asked about."""
    groups, cells = fitting(codes_of(rows, columns.within), codes_of(rows, columns.cells))
    keys = groups.values * (cells.size + 1)
    keys += cells.values if columns.all_asked else np.where(rows["asked"].to_numpy(), cells.values, cells.size)
    keys.sort()
    return keys, cells.size + 1


def _with_asked_rows(counts: Counts) -> Counts:
    kept = counts.coded[counts.bounds[:-1]] <= counts.most
    if kept.all():
        return counts
    lengths = np.diff(counts.bounds)
    bounds = np.append(0, np.cumsum(lengths[kept]))
    return counts._replace(bounds=bounds, coded=counts.coded[np.repeat(kept, lengths)])
