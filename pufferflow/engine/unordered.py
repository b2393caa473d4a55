"""The distinct patterns of groups whose rows have no order: how many rows each has in each of its cells.

One streaming query returns the sizes of groups, and which of them have rows in several cells. Only those are read
again, and only if the groups of the first rows do not show already that there are too many patterns.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.arrays import Whole
from pufferflow.engine.engine import Pattern, Patterns
from pufferflow.engine.equal_runs import MOST, Runs, alike, changes, codes_of, fitting
from pufferflow.engine.groups import Groups
from pufferflow.engine.pattern_columns import Collect, Columns, PublicRows


class CellSizes(NamedTuple):
    """The numbers of rows in the cells of a group, in falling order, and of rows that are not selected."""

    sizes: tuple[int, ...]
    others: int


class Counts(NamedTuple):
    """The counts of each group, in falling order: code c is a cell of `most` − c rows, or 2·`most` + 1 − c others.

    Group i stands for `times[i]`; without them, each for itself.
    """

    bounds: Whole
    coded: Whole
    most: int
    times: Whole | None = None

    def kind(self, group: int) -> CellSizes:
        """Decode the counts of a group."""
        coded = self.coded[self.bounds[group] : self.bounds[group + 1]]
        others = coded > self.most
        return CellSizes(tuple((self.most - coded[~others]).tolist()), int((2 * self.most + 1 - coded[others]).sum()))


def counts_of(rows: pl.DataFrame, columns: Columns) -> Counts:
    """Return the counts of the groups with a selected row."""
    groups, cells = fitting(codes_of(rows, columns.within), codes_of(rows, columns.cells))
    size = cells.size + 1  # the last cell has the rows that are not selected
    keys = groups.values * size
    keys += cells.values if columns.all_selected else np.where(rows["selected"].to_numpy(), cells.values, cells.size)
    numbers, keys = _numbers(keys, rows["count"].to_numpy() if "count" in rows.columns else None)
    of_group = keys // size
    counts = _coded(of_group, numbers, keys - of_group * size == cells.size)
    if "times" in rows.columns:
        distinct = of_group[counts.bounds[:-1]]
        times = np.zeros(len(distinct), dtype=np.int64)
        times[np.searchsorted(distinct, groups.values)] = rows["times"].to_numpy()
        counts = counts._replace(times=times)
    relevant = counts.coded[counts.bounds[:-1]] <= counts.most
    if relevant.all():
        return counts
    lengths, times = np.diff(counts.bounds), None if counts.times is None else counts.times[relevant]
    bounds = np.append(0, np.cumsum(lengths[relevant]))
    return counts._replace(bounds=bounds, coded=counts.coded[np.repeat(relevant, lengths)], times=times)


def _numbers(keys: Whole, counts: Whole | None) -> tuple[Whole, Whole]:
    """Return how many rows each key has, and the keys, ascending; a row may stand for several."""
    if counts is None:
        keys.sort()
        heads = np.flatnonzero(changes(keys))
        return np.diff(heads, append=len(keys)), keys[heads]
    order = np.argsort(keys)
    heads = np.flatnonzero(changes(keys[order]))
    return np.add.reduceat(counts[order], heads), keys[order][heads]


def counts_in_order(groups: Groups) -> Counts:
    """Return the counts of groups whose rows are in order."""
    cells = np.maximum.reduceat(groups.cells, groups.bounds[:-1]) + 2  # the first has the rows that are not selected
    first = np.cumsum(cells) - cells
    rows = np.repeat(first, np.diff(groups.bounds)) + groups.cells + 1
    counts = np.bincount(rows, minlength=int(cells.sum()))
    there, of_cell = np.flatnonzero(counts), np.repeat(np.arange(groups.number), cells)
    return _coded(of_cell[there], counts[there], there == first[of_cell[there]])


def _coded(groups: Whole, counts: Whole, others: npt.NDArray[np.bool_]) -> Counts:
    """Return counts, sorted by group, as codes; `others` flags those of rows that are not selected."""
    bounds = np.append(np.flatnonzero(changes(groups)), len(groups))
    most = int(counts.max(initial=0))
    before = np.repeat(np.arange(len(bounds) - 1) * (2 * most + 2), np.diff(bounds))
    coded = most - counts + (most + 1) * others + before
    coded.sort()
    return Counts(bounds, coded - before, most)


_FIRST_ROWS = 4096


def without_order(public: PublicRows, within: Sequence[str], collect: Collect) -> Patterns:
    """Return the patterns of all groups; groups whose cells have the same sizes share one."""
    columns = Columns.of(public, within)
    if not within:  # all rows are one group
        cells = collect(columns.of_cells())
        selected_rows = cells["selected"].to_numpy()
        selected, sizes = int(selected_rows.sum()), np.sort(selected_rows[selected_rows > 0])[::-1]
        pattern = _pattern_of_counts(sizes, int(cells["rows"].sum()) - selected, 1)
        return Patterns((pattern,), 1, selected) if selected else Patterns((), 0)
    facts = collect(columns.sizes())
    groups, rows = int(facts["groups"].sum()), int((facts["selected"].cast(pl.Int64) * facts["groups"]).sum())
    kinds = _kinds(facts, columns, collect)
    if kinds is None or len(kinds) > MOST:
        most_selected, most_others = (int(facts[name].to_numpy().max()) for name in ("selected", "others"))
        return Patterns((_cover_of_counts(most_selected, most_others, groups),), groups, rows)
    distinct = [_pattern_of_counts(np.array(kind.sizes), kind.others, times) for kind, times in kinds.items()]
    return Patterns(tuple(distinct), groups, rows)


def _kinds(facts: pl.DataFrame, columns: Columns, collect: Collect) -> dict[CellSizes, int] | None:
    """Return how many groups there are of each kind; None if there are too many kinds."""
    if facts.select(pl.struct("selected", "others").n_unique()).item() > MOST:
        return None
    of_one_cell = facts.filter("one_cell").select("selected", "others", "groups").iter_rows()
    kinds = {CellSizes((selected,), others): groups for selected, others, groups in of_one_cell}
    if facts["one_cell"].all():
        return kinds
    if _crossing(collect(columns.of_first_groups(_FIRST_ROWS)), columns) is None:
        return None
    rows = (pl.col("selected") + pl.col("others")) * pl.col("groups")
    most_rows: bool = facts.select(rows.filter(~pl.col("one_cell")).sum() * 2 > rows.sum()).item()
    # joining with these groups takes longer than counting the others too
    crossing = _crossing(collect(columns.rows if most_rows else columns.of_crossing_groups()), columns)
    return None if crossing is None else kinds | dict(crossing)


def _crossing(rows: pl.DataFrame, columns: Columns) -> list[tuple[CellSizes, int]] | None:
    """Return the kinds of groups that have rows in several cells; None if there are too many."""
    counts = counts_of(rows, columns)
    kinds = alike(Runs(counts.bounds, [counts.coded]), MOST, counts.times)
    return None if kinds is None else [(counts.kind(group), groups) for group, groups in kinds]


def without_places(groups: Groups) -> Patterns:
    """Return the patterns without order of groups whose rows are in order."""
    if not groups.number:
        return Patterns((), 0)
    number, starts, counts = int(groups.times.sum()), groups.bounds[:-1], counts_in_order(groups)
    in_group = np.add.reduceat(groups.cells >= 0, starts, dtype=np.int64)
    selected, others = int((in_group * groups.times).sum()), np.diff(groups.bounds) - in_group
    found = alike(Runs(counts.bounds, [counts.coded]), MOST, groups.times)
    if found is None:
        return Patterns((_cover_of_counts(int(in_group.max()), int(others.max()), number),), number, selected)
    kinds = ((counts.kind(group), times) for group, times in found)
    distinct = [_pattern_of_counts(np.array(kind.sizes), kind.others, times) for kind, times in kinds]
    return Patterns(tuple(distinct), number, selected)


def _cover_of_counts(selected: int, others: int, groups: int) -> Pattern:
    """Return a pattern with as many rows as any group, selected or not, all in one cell."""
    return replace(_pattern_of_counts(np.array([selected]), others, groups), covers=True)


def _pattern_of_counts(sizes: Whole, others: int, groups: int) -> Pattern:
    cells, counts = np.arange(len(sizes)), np.asarray(sizes, dtype=np.int64)
    if others:
        cells, counts = np.append(cells, -1), np.append(counts, others)
    return Pattern(cells, counts, groups=groups)
