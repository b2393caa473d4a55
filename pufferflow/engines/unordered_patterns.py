"""The distinct patterns of groups whose rows have no order: how many rows each has in each of its cells.

A small table is read whole. Of a large one, one streaming query returns the sizes of groups, unless already its first
rows show a group with rows in several cells: then the rows of each group in each cell are counted, some groups at a
time, so that memory stays below what a table of all groups takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Whole
from pufferflow.engines.cell_sizes import CellSizes, Kinds, counts_in_order, counts_of
from pufferflow.engines.equal_runs import MOST
from pufferflow.engines.groups import Groups
from pufferflow.engines.pattern_columns import SMALL, Collect, Columns, PublicRows
from pufferflow.queries.engine_interface import Pattern, Patterns

AT_ONCE: Final = 2**22
"""The rows, or counts of rows, that are sorted at once."""
_MOST_PARTS: Final = 8
"""Each part reads the table once more."""


def without_order(public: PublicRows, within: Sequence[str], collect: Collect) -> Patterns:
    """Return the patterns of all groups; groups whose cells have the same sizes share one."""
    columns = Columns.of(public, within)
    if not within:
        return _of_one_group(collect(columns.of_cells()))
    rows = Unordered(columns, collect)
    kinds = rows.kinds()
    return rows.cover() if kinds is None else _of_kinds(kinds)


def without_places(groups: Groups) -> Patterns:
    """Return the patterns without order of groups whose rows are in order."""
    if not groups.number:
        return Patterns((), 0)
    kinds = counts_in_order(groups).kinds()
    if kinds is not None:
        return _of_kinds(kinds)
    selected = np.add.reduceat(groups.cells >= 0, groups.bounds[:-1], dtype=np.int64)
    others = np.diff(groups.bounds) - selected
    return _cover(selected, others, groups.times)


@final
@dataclass(frozen=True, eq=False)
class Unordered:
    """The rows of groups, whose order does not matter."""

    columns: Columns
    collect: Collect

    def kinds(self) -> Kinds | None:
        """Return the kinds of groups with a selected row; None if there are too many."""
        first = self.collect(self.columns.rows.head(SMALL + 1))
        if first.height <= SMALL:
            return counts_of(first, self.columns).kinds()
        within, pairs = self.columns.within, [*self.columns.within, *self.columns.cells]
        share = first.select(pairs).n_unique() / first.height
        chosen = first if self.columns.all_selected else first.filter("selected")
        if chosen.select(pairs).n_unique() == chosen.select(within).n_unique():
            return self._kinds_of_sizes(share)
        return self._counted(share)

    def _kinds_of_sizes(self, share: float) -> Kinds | None:
        """Return the kinds from the sizes of groups, if most have all rows in one cell."""
        if self._sizes.select(pl.struct("selected", "others").n_unique()).item() > MOST:
            return None
        of_one_cell = self._sizes.filter("one_cell").select("selected", "others", "groups").iter_rows()
        kinds = {CellSizes((selected,), others): groups for selected, others, groups in of_one_cell}
        rows = (pl.col("selected") + pl.col("others")) * pl.col("groups")
        crossing = self._sizes.select(rows.filter(~pl.col("one_cell")).sum()).item()
        if not crossing:
            return kinds
        if crossing > AT_ONCE:  # joining with so many takes longer than counting the others too
            return self._counted(share)
        crossed = counts_of(self.collect(self.columns.of_crossing_groups()), self.columns).kinds()
        kinds |= crossed or {}
        return None if crossed is None or len(kinds) > MOST else kinds

    def _counted(self, share: float) -> Kinds | None:
        """Return the kinds of all groups; in so large a `share` of rows a cell of a group first comes up."""
        rows, few = int(self.collect(self.columns.rows.select(pl.len())).item()), share < 1 / 2
        parts = min(_MOST_PARTS, -(-int(rows * share if few else rows) // AT_ONCE))
        kinds = Kinds()
        for part in range(parts):
            table = self.columns.part(part, parts)
            own = counts_of(self.collect(self.columns.counted(table) if few else table), self.columns).kinds()
            for kind, groups in (own or {}).items():
                kinds[kind] = kinds.get(kind, 0) + groups
            if own is None or len(kinds) > MOST:
                return None
        return kinds

    def cover(self) -> Patterns:
        """Return one pattern that covers all groups."""
        selected, others, groups = (self._sizes[name].to_numpy() for name in ("selected", "others", "groups"))
        return _cover(selected.astype(np.int64), others.astype(np.int64), groups)

    @cached_property
    def _sizes(self) -> pl.DataFrame:
        return self.collect(self.columns.sizes())


def _of_one_group(cells: pl.DataFrame) -> Patterns:
    selected = cells["selected"].to_numpy()
    others = int(cells["rows"].sum()) - int(selected.sum())
    sizes = CellSizes(tuple(np.sort(selected[selected > 0])[::-1].tolist()), others)
    return _of_kinds({sizes: 1} if sizes.sizes else {})


def _of_kinds(kinds: Kinds) -> Patterns:
    distinct = tuple(_pattern(kind, groups) for kind, groups in kinds.items())
    selected = sum(pattern.selected * pattern.groups for pattern in distinct)
    return Patterns(distinct, sum(kinds.values()), selected)


def _cover(selected: Whole, others: Whole, groups: Whole) -> Patterns:
    """Return a pattern with as many rows as any group, selected or not, all in one cell."""
    number = int(groups.sum())
    cover = replace(_pattern(CellSizes((int(selected.max()),), int(others.max())), number), covers=True)
    return Patterns((cover,), number, int((selected * groups).sum()))


def _pattern(kind: CellSizes, groups: int) -> Pattern:
    cells, counts = np.arange(len(kind.sizes)), np.array(kind.sizes, dtype=np.int64)
    if kind.others:
        cells, counts = np.append(cells, -1), np.append(counts, kind.others)
    return Pattern(cells, counts, groups=groups)
