"""The distinct patterns of the groups of a public frame, or one that covers them where they are too many.

Rows that share `within` are one group, and groups are independent (M2). Where order matters, one query reads the public
columns of all rows; they are sorted once, and patterns in all orders follow from that. Where it does not, one streaming
query returns the sizes of groups, and which of them have rows in several cells. Only those are read again, and only if
the groups of the first rows do not show already that there are too many patterns.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.arrays import Floats, Whole
from pufferflow.engine.engine import Order, Pattern, Patterns
from pufferflow.engine.equal_runs import LARGEST, Codes, Runs, alike, changes, codes_of, fitting
from pufferflow.engine.pattern_columns import Columns, Places, places_of
from pufferflow.errors import Misuse
from pufferflow.scenario import Scenario

MOST = 64
"""More distinct patterns than this are covered by one, whose promise holds for all of them."""

Collect = Callable[[pl.LazyFrame], pl.DataFrame]


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """Group i has the rows from `bounds[i]` to below `bounds[i + 1]`; rows that are not selected have the cell −1."""

    bounds: Whole
    places: Places
    cells: Whole
    reach: tuple[float, float]
    """The positions of the first and the last row, in groups without selected rows too."""
    times: Whole
    """How many groups each stands for."""

    @property
    def number(self) -> int:
        """How many groups there are."""
        return len(self.bounds) - 1

    def distinct(self) -> "Groups | None":
        """Return one group of each kind of equal groups; None if there are too many kinds."""
        kinds = alike(Runs(self.bounds, [self.places.values, self.cells]), MOST, self.times)
        if kinds is None:
            return None
        chosen, times = np.array(kinds, dtype=np.int64).T
        lengths = np.diff(self.bounds)[chosen]
        bounds = np.append(0, np.cumsum(lengths))
        rows: Whole = np.arange(int(bounds[-1])) + np.repeat(self.bounds[:-1][chosen] - bounds[:-1], lengths)
        places = self.places._replace(values=self.places.values[rows])
        return replace(self, bounds=bounds, places=places, cells=self.cells[rows], times=times)

    def shifted(self, period: int) -> "Groups":
        """Return the groups in normal form: by multiples of the period, until the first row is in the first period."""
        first, turn = self.places.values[self.bounds[:-1]], period * self.places.scale
        rest = np.fmod(first, turn)  # without rounding, for floats too
        away = first - rest - turn * (rest < 0)
        values = self.places.values - np.repeat(away, np.diff(self.bounds))
        return replace(self, places=self.places._replace(values=values))

    def since_start(self, scenario: Scenario) -> "Groups":
        """Return the groups unchanged; refuse a row before the start."""
        least = self.places.positions(self.places.values.min(keepdims=True))[0]
        if least < self.places.start:
            since = "the start" if scenario.start_known else "1970-01-01"
            raise Misuse(
                f"The column {scenario.order_by!r} has rows before {since}, where all sequences begin.",
                allowed="rows at the start or after it",
                instead="pf.Scenario(…, start=…) with where the sequences began",
            )
        return self


def groups_of(rows: pl.DataFrame, columns: Columns, scenario: Scenario) -> Groups:
    """Return the groups with a selected row; refuse two rows of a group at one place."""
    keys, places = codes_of(rows, columns.within), places_of(rows["position"], scenario)
    order = _order(keys, places.values)
    least, greatest = places.positions(np.array([places.values.min(), places.values.max()])).tolist()
    bounds = _bounds(keys.values[order], places.values[order], scenario)
    selected = np.ones(len(order), dtype=np.bool_) if columns.all_selected else rows["selected"].to_numpy()[order]
    relevant = np.logical_or.reduceat(selected, bounds[:-1])
    if not relevant.all():
        lengths = np.diff(bounds)
        chosen, bounds = np.repeat(relevant, lengths), np.append(0, np.cumsum(lengths[relevant]))
        order, selected = order[chosen], selected[chosen]
    cells = codes_of(rows, columns.cells)
    numbered = _numbered(bounds, Codes(cells.values[order], cells.size), selected)
    ones = np.ones(len(bounds) - 1, dtype=np.int64)
    return Groups(bounds, places._replace(values=places.values[order]), numbered, (least, greatest), ones)


def _order(keys: Codes, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the order of rows: by group, then by place."""
    if values.dtype.kind == "f":
        return np.lexsort((values, keys.values))
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > LARGEST:
        return np.lexsort((values, keys.values))
    groups, places = fitting(keys, Codes(values - least, span))
    both = groups.values * places.size + places.values  # one number is sorted many times quicker than two
    return np.arange(len(both)) if bool((both[1:] >= both[:-1]).all()) else np.argsort(both)


def _bounds(keys: Whole, values: npt.NDArray[Any], scenario: Scenario) -> Whole:
    """Return the first row of each group, and the number of rows."""
    fresh = changes(keys)
    if bool((~fresh[1:] & (values[1:] == values[:-1])).any()):
        raise Misuse(
            f"order_by does not tell the rows of a group apart: {scenario.order_by!r}, within={[*scenario.within]}.",
            allowed="one row of a group at each position",
            instead="naming in within what else tells the sequences apart, or a finer order_by",
        )
    return np.append(np.flatnonzero(fresh), len(keys))


def _numbered(bounds: Whole, cells: Codes, selected: npt.NDArray[np.bool_]) -> Whole:
    """Return the cells, numbered in each group in the order in which they come up; −1 for rows not selected."""
    if cells.size == 1:
        return selected.astype(np.int64) - 1
    of_row = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[selected]
    groups, own = fitting(Codes(of_row, len(bounds) - 1), Codes(cells.values[selected], cells.size))
    pairs = groups.values * own.size + own.values
    moves = changes(pairs)
    pairs, group = pairs[moves], of_row[moves]
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    new = np.zeros(len(pairs), dtype=np.int64)
    new[first] = 1
    number = np.cumsum(new) - 1
    before = number[changes(group)]  # every group has a selected row, and its first one opens a cell
    numbered = np.full(len(selected), -1)
    numbered[selected] = (number[first][which] - before[group])[np.cumsum(moves) - 1]
    return numbered


LONGEST = 2 * 10**6
"""The most steps of a pattern that covers others."""


def rows_in_order(
    public: pl.LazyFrame, scenario: Scenario, by: Sequence[str], flag: str | None, collect: Collect
) -> Groups | None:
    """Return the rows of all groups in order, from one query; None if there are no rows at all."""
    if scenario.order_by is None:
        raise Misuse(
            "The order of rows matters, and order_by is missing.",
            allowed="the column that puts the rows in order",
            instead='order_by="hour", step="1h"',
        )
    columns = Columns.of(public, scenario.within, by, flag, scenario.order_by)
    rows = collect(columns.rows)
    return groups_of(rows, columns, scenario) if rows.height else None


def in_order(groups: Groups, scenario: Scenario, period: int | None, *, distinct: bool) -> Patterns:
    """Return the patterns of all groups up to shifts by multiples of the period; `distinct` groups are one per kind."""
    if not groups.number:
        return Patterns((), 0, reach=groups.reach, clock=groups.places.clock)
    normal = groups.shifted(period) if period is not None else groups.since_start(scenario)
    start = normal.places.start if period is None else None
    kinds = None
    if distinct or period is not None:  # else there are too many where they stand
        kinds = alike(Runs(normal.bounds, [normal.places.values, normal.cells]), MOST, normal.times)
    patterns = (
        [_cover(normal, start, scenario)]
        if kinds is None
        else [_pattern(normal, group, times, start, scenario) for group, times in kinds]
    )
    in_group = np.add.reduceat(normal.cells >= 0, normal.bounds[:-1], dtype=np.int64)
    number, selected = int(normal.times.sum()), int((in_group * normal.times).sum())
    return Patterns(tuple(patterns), number, selected, normal.reach, normal.places.clock)


def _pattern(groups: Groups, group: int, times: int, start: float | None, scenario: Scenario) -> Pattern:
    """Return the pattern of groups like this one; where a start does not matter it is their first row."""
    rows = slice(groups.bounds[group], groups.bounds[group + 1])
    cells = groups.cells[rows].copy()
    positions = _distinct_positions(groups.places.positions(groups.places.values[rows]), scenario)
    return Pattern(cells, np.ones_like(cells), positions, float(positions[0]) if start is None else start, times)


def _distinct_positions(positions: Floats, scenario: Scenario) -> Floats:
    """Return the positions of rows; refuse those too far from 0 to differ as floats."""
    if bool((np.diff(positions) <= 0).any()):
        raise Misuse(
            f"The column {scenario.order_by!r} has rows whose positions are one number: they are too far from 0.",
            allowed="positions that differ as floats, counted in steps",
            instead="a longer step, or a start that is nearer",
        )
    return positions


def _cover(groups: Groups, start: float | None, scenario: Scenario) -> Pattern:
    """Return a pattern with a row at every place where a group may have one, all in one cell."""
    places = groups.places
    if places.whole:
        least, greatest = int(places.values.min()), int(places.values.max())
        size = greatest - least + 1
        values = np.arange(least, greatest + 1 if size <= LONGEST else least)
    else:
        values = np.unique(places.values)
        size = len(values)
    if size > LONGEST:
        raise Misuse(
            f"More than {MOST} patterns of rows: what covers them all has more than {LONGEST} steps.",
            allowed=f"groups that look alike but for {MOST} kinds, or whose rows are not that far apart",
            instead="a longer step, a filter by time, or a prior without order such as pf.AnyCorrelation()",
        )
    positions = _distinct_positions(places.positions(values), scenario)
    first = float(positions[0]) if start is None else start
    return Pattern(
        np.zeros(size, np.int64), np.ones(size, np.int64), positions, first, int(groups.times.sum()), covers=True
    )


class CellSizes(NamedTuple):
    """The numbers of rows in the cells of a group, in falling order, and of rows that are not selected."""

    sizes: tuple[int, ...]
    others: int


class Counts(NamedTuple):
    """The counts of each group, in falling order: code c is a cell of `most` − c rows, or 2·`most` + 1 − c others."""

    bounds: Whole
    coded: Whole
    most: int

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
    keys.sort()
    heads = np.flatnonzero(changes(keys))
    numbers, keys = np.diff(heads, append=len(keys)), keys[heads]
    of_group = keys // size
    counts = _coded(of_group, numbers, keys - of_group * size == cells.size)
    relevant = counts.coded[counts.bounds[:-1]] <= counts.most
    if relevant.all():
        return counts
    lengths = np.diff(counts.bounds)
    bounds = np.append(0, np.cumsum(lengths[relevant]))
    return counts._replace(bounds=bounds, coded=counts.coded[np.repeat(relevant, lengths)])


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


def without_order(
    public: pl.LazyFrame, within: Sequence[str], by: Sequence[str], flag: str | None, collect: Collect
) -> Patterns:
    """Return the patterns of all groups; groups whose cells have the same sizes share one."""
    columns = Columns.of(public, within, by, flag)
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
    kinds = alike(Runs(counts.bounds, [counts.coded]), MOST)
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


def find_patterns(  # noqa: PLR0913, PLR0917 - a frame, three kinds of columns, the orders, and the way to run a query
    public: pl.LazyFrame,
    scenario: Scenario,
    by: Sequence[str],
    flag: str | None,
    orders: Collection[Order],
    collect: Collect,
) -> dict[Order, Patterns | Misuse]:
    """Return the distinct patterns of the groups in a frame of public columns, for each order; or why there are none.

    Rows with equal values of `by` are a cell; `flag` names the Boolean column of selected rows, None if all are. Nulls
    are equal to each other, so are NaN. Rows are read and sorted once for all orders: patterns up to shifts and
    patterns without order follow from the placed ones.

    >>> import pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> scenario = pf.Scenario(secret=secret, prior=pf.AnyCorrelation(), within="house")
    >>> houses, none = pl.LazyFrame({"house": [1, 1, 2, 3, 3]}), Order(ordered=False)
    >>> kinds = find_patterns(houses, scenario, (), None, [none], collect=lambda lazy: lazy.collect())[none]
    >>> sorted((pattern.rows, pattern.groups) for pattern in kinds.distinct)
    [(1, 1), (2, 2)]
    """
    if not any(order.ordered for order in orders):
        return {order: without_order(public, scenario.within, by, flag, collect) for order in orders}
    try:
        groups = rows_in_order(public, scenario, by, flag, collect)
    except Misuse as refusal:
        return dict.fromkeys(orders, refusal.with_traceback(None))
    if groups is None:
        return dict.fromkeys(orders, Patterns((), 0))
    distinct = groups.distinct() if groups.number else None
    patterns = dict[Order, Patterns | Misuse]()
    for order in orders:
        known = groups if distinct is None else distinct
        try:
            patterns[order] = (
                in_order(known, scenario, order.period, distinct=distinct is not None)
                if order.ordered
                else without_places(known)
            )
        except Misuse as refusal:
            patterns[order] = refusal.with_traceback(None)
    return patterns
