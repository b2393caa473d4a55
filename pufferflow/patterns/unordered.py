"""Patterns of rows without order: how many rows of a group each cell has, and how many are not asked about.

One streaming query tells how large the groups are and which of them have rows in several cells. Only those are read
again, and only if the groups that hold the first rows do not show already that there are too many patterns.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from pufferflow.patterns.alike import Runs, alike
from pufferflow.patterns.codes import Whole
from pufferflow.patterns.columns import Columns
from pufferflow.patterns.counts import Kind, counts_of
from pufferflow.patterns.patterns import MOST, Collect, Patterns
from pufferflow.queries.pattern import Pattern

_FIRST_ROWS = 4096


def without_order(
    public: pl.LazyFrame, within: Sequence[str], by: Sequence[str], asked: str | None, collect: Collect
) -> Patterns:
    """Return the patterns of all groups; groups whose cells have the same sizes have the same one."""
    columns = Columns.of(public, within, by, asked)
    if not within:
        return _of_one(collect(columns.of_cells()))
    facts = collect(columns.sizes())
    groups, rows = int(facts["groups"].sum()), int((facts["asked"].cast(pl.Int64) * facts["groups"]).sum())
    kinds = _kinds(facts, columns, collect)
    if kinds is None or len(kinds) > MOST:
        return Patterns((_cover(facts, groups),), groups, rows)
    distinct = [_pattern(np.array(kind.sizes), kind.others, times) for kind, times in kinds.items()]
    return Patterns(tuple(distinct), groups, rows)


def _kinds(facts: pl.DataFrame, columns: Columns, collect: Collect) -> dict[Kind, int] | None:
    """Return how many groups there are of each kind; None if there are too many kinds."""
    if facts.select(pl.struct("asked", "others").n_unique()).item() > MOST:
        return None
    alone = facts.filter("one").select("asked", "others", "groups").iter_rows()
    kinds = {Kind((asked,), others): groups for asked, others, groups in alone}
    if facts["one"].all():
        return kinds
    if _crossing(collect(columns.of_first_groups(_FIRST_ROWS)), columns) is None:
        return None
    rows = (pl.col("asked") + pl.col("others")) * pl.col("groups")
    mostly: bool = facts.select(rows.filter(~pl.col("one")).sum() * 2 > rows.sum()).item()
    # to find out once more which groups these are takes longer than to count the others too
    crossing = _crossing(collect(columns.rows if mostly else columns.of_crossing_groups()), columns)
    return None if crossing is None else kinds | dict(crossing)


def _crossing(rows: pl.DataFrame, columns: Columns) -> list[tuple[Kind, int]] | None:
    """Return the kinds of groups that have rows in several cells; None if there are too many."""
    counts = counts_of(rows, columns)
    found = alike(Runs(counts.bounds, [counts.coded]), MOST)
    return None if found is None else [(counts.kind(group), groups) for group, groups in found]


def _of_one(cells: pl.DataFrame) -> Patterns:
    """Return the pattern of all rows together."""
    asked = cells["asked"].to_numpy()
    sizes = np.sort(asked[asked > 0])[::-1]
    if not len(sizes):
        return Patterns((), 0)
    return Patterns((_pattern(sizes, int(cells["rows"].sum() - asked.sum()), 1),), 1, int(asked.sum()))


def _cover(facts: pl.DataFrame, groups: int) -> Pattern:
    """Return a pattern that has as many rows as any group, asked about or not, all in one cell."""
    largest: list[int] = [int(facts[name].to_numpy().max()) for name in ("asked", "others")]
    return replace(_pattern(np.array(largest[:1]), largest[1], groups), covers=True)


def _pattern(sizes: Whole, others: int, groups: int) -> Pattern:
    cells, counts = np.arange(len(sizes)), np.asarray(sizes, dtype=np.int64)
    if others:
        cells, counts = np.append(cells, -1), np.append(counts, others)
    return Pattern(cells, counts, groups=groups)
