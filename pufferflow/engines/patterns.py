"""The distinct patterns of the groups of a public frame, with and without order, or one that covers them.

Rows that share `within` are one group, and groups are independent (M2). A small table is read whole.

*Without order* a pattern is how many rows a group has in each of its cells. Of a large table, one streaming query
returns the sizes of groups. If already its first rows show a group with rows in several cells, the rows of each group
in each cell are counted. This takes some groups at a time, so memory stays below that of a table of all groups.

*In order* streaming queries find the kinds of groups of a large table, and the rows of one group of each kind are read.
There may be too many kinds of groups where they stand, and still few up to shifts. So kinds are then looked for again,
relative to the first row of each group. If they are still too many, one pattern covers all.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Whole
from pufferflow.core.errors import UsageError
from pufferflow.engines.groups import (
    MOST,
    GroupKinds,
    Groups,
    Runs,
    alike,
    groups_of,
    not_told_apart,
    placed_kinds,
    relative_kinds,
)
from pufferflow.engines.groups_in_cells import CellSizes, Kinds, counts_in_order, counts_of
from pufferflow.engines.pattern_columns import SMALL, Collect, Columns, PublicRows
from pufferflow.engines.row_positions import Moments, Places
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import Pattern, Patterns, PositionMode

AT_ONCE: Final = 2**22
"""The rows, or counts of rows, that are sorted at once."""
_MOST_PARTS: Final = 8
"""Each part reads the table once more."""


def without_order(public: PublicRows, within: Sequence[str], collect: Collect) -> Patterns:
    """Return the patterns of all groups; groups whose cells have the same sizes share one."""
    columns = Columns.of(public, within)
    if not within:
        cells = collect(columns.of_cells())
        selected = cells["selected"].to_numpy()
        others = int(cells["rows"].sum()) - int(selected.sum())
        sizes = CellSizes(tuple(np.sort(selected[selected > 0])[::-1].tolist()), others)
        return _of_kinds({sizes: 1} if sizes.sizes else {})
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
    return _unordered_cover(selected, others, groups.times)


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
        of_one_cell = (
            self._sizes.filter("one_cell").select("selected", "others", "groups").iter_rows()
        )
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
            own = counts_of(
                self.collect(self.columns.counted(table) if few else table), self.columns
            ).kinds()
            for kind, groups in (own or {}).items():
                kinds[kind] = kinds.get(kind, 0) + groups
            if own is None or len(kinds) > MOST:
                return None
        return kinds

    def cover(self) -> Patterns:
        """Return one pattern that covers all groups."""
        selected, others, groups = (
            self._sizes[name].to_numpy() for name in ("selected", "others", "groups")
        )
        return _unordered_cover(selected.astype(np.int64), others.astype(np.int64), groups)

    @cached_property
    def _sizes(self) -> pl.DataFrame:
        return self.collect(self.columns.sizes())


def _of_kinds(kinds: Kinds) -> Patterns:
    distinct = tuple(_unordered_pattern(kind, groups) for kind, groups in kinds.items())
    selected = sum(pattern.selected * pattern.groups for pattern in distinct)
    return Patterns(distinct, sum(kinds.values()), selected)


def _unordered_cover(selected: Whole, others: Whole, groups: Whole) -> Patterns:
    """Return a pattern with as many rows as any group, selected or not, all in one cell."""
    number = int(groups.sum())
    cover = replace(
        _unordered_pattern(CellSizes((int(selected.max()),), int(others.max())), number),
        covers=True,
    )
    return Patterns((cover,), number, int((selected * groups).sum()))


def _unordered_pattern(kind: CellSizes, groups: int) -> Pattern:
    cells, counts = np.arange(len(kind.sizes)), np.array(kind.sizes, dtype=np.int64)
    if kind.others:
        cells, counts = np.append(cells, -1), np.append(counts, kind.others)
    return Pattern(cells, counts, groups=groups)


LONGEST = 2 * 10**6
"""The most steps of a pattern that covers others."""


def columns_in_order(public: PublicRows, scenario: Scenario) -> Columns:
    """Return the columns from which patterns in order follow."""
    if scenario.order_by is None:
        raise UsageError(
            "The order of rows matters, and order_by is missing.",
            allowed="the column that puts the rows in order",
            instead='order_by="hour", step="1h"',
        )
    within = scenario.within if public.within is None else public.within
    return Columns.of(public, within, scenario.order_by)


def read_groups(
    columns: Columns, scenario: Scenario, collect: Collect
) -> "Groups | ManyKinds | None":
    """Return one group of each kind, or the kinds if they are too many to be read; None if there are no rows at all."""
    rows = collect(columns.rows.head(SMALL + 1))
    if not rows.height:
        return None
    if rows.height > SMALL and columns.within:
        kinds = placed_kinds(columns, rows, collect)
        if not kinds.readable:
            return ManyKinds.of(kinds, scenario, collect)
        rows = kinds.read(collect)
    elif rows.height > SMALL:  # all rows are one group, and its pattern is as long
        rows = collect(columns.rows)
    groups = groups_of(rows, columns, scenario)
    return groups.distinct() or groups


def in_order(groups: Groups, scenario: Scenario, period: int | None) -> Patterns:
    """Return the patterns of groups up to shifts by multiples of the period; without a period, since the start."""
    if not groups.number:
        return Patterns((), 0, reach=groups.reach, clock=groups.places.clock)
    number = int(groups.times.sum())
    if period is None:
        check_start(groups.places, scenario)
    normal = groups if period is None else groups.shifted(period)
    patterns = _distinct_patterns(normal, scenario, placed=period is None)
    if patterns is None:
        patterns = [_cover(normal.places, number, scenario, placed=period is None)]
    in_group = np.add.reduceat(groups.cells >= 0, groups.bounds[:-1], dtype=np.int64)
    return Patterns(
        tuple(patterns),
        number,
        int((in_group * groups.times).sum()),
        groups.reach,
        groups.places.clock,
    )


def check_start(places: Places, scenario: Scenario) -> None:
    """Refuse a row before the start."""
    if places.reach[0] < places.start:
        since = "the start" if scenario.start_known else "1970-01-01"
        raise UsageError(
            f"The column {scenario.order_by!r} has rows before {since}, where all sequences begin.",
            allowed="rows at the start or after it",
            instead="pf.Scenario(…, start=…) with where the sequences began",
        )


def _distinct_patterns(groups: Groups, scenario: Scenario, *, placed: bool) -> list[Pattern] | None:
    """Return the patterns of groups in normal form; None if there are too many."""
    kinds = alike(Runs(groups.bounds, [groups.places.values, groups.cells]), MOST, groups.times)
    return (
        None
        if kinds is None
        else [_pattern(groups, group, times, scenario, placed=placed) for group, times in kinds]
    )


def _pattern(
    groups: Groups, group: int, times: int, scenario: Scenario, *, placed: bool
) -> Pattern:
    """Return the pattern of groups like this one; where a start does not matter it is their first row."""
    rows = slice(groups.bounds[group], groups.bounds[group + 1])
    cells = groups.cells[rows].copy()
    positions = _distinct_positions(groups.places.positions(groups.places.values[rows]), scenario)
    start = groups.places.start if placed else float(positions[0])
    return Pattern(cells, np.ones_like(cells), positions, start, times)


def _distinct_positions(positions: Floats, scenario: Scenario) -> Floats:
    """Return the positions of rows; refuse those too far from 0 to differ as floats."""
    if bool((np.diff(positions) <= 0).any()):
        raise UsageError(
            f"The column {scenario.order_by!r} has rows too far from 0: as floats, different positions become equal.",
            allowed="positions that differ as floats, counted in steps",
            instead="a longer step, or a start that is nearer",
        )
    return positions


def _cover(places: Places, number: int, scenario: Scenario, *, placed: bool) -> Pattern:
    """Return a pattern with a row at every place where a group may have one, all in one cell.

    These are the `places` of rows; if they are whole, the first and the last of them are enough.
    """
    if places.whole:
        least, greatest = int(places.values.min()), int(places.values.max())
        size = greatest - least + 1
        values = np.arange(least, greatest + 1 if size <= LONGEST else least)
    else:
        values = np.unique(places.values)
        size = len(values)
    if size > LONGEST:
        raise UsageError(
            f"The groups have more than {MOST} patterns of rows, and one that covers all has over {LONGEST} steps.",
            allowed=f"groups of at most {MOST} kinds, or groups whose rows lie closer together",
            instead="a longer step, a filter by time, or a prior without order such as pf.AnyCorrelation()",
        )
    positions = _distinct_positions(places.positions(values), scenario)
    start = places.start if placed else float(positions[0])
    return Pattern(
        np.zeros(size, np.int64), np.ones(size, np.int64), positions, start, number, covers=True
    )


@final
@dataclass(frozen=True, eq=False)
class ManyKinds:
    """The kinds of groups, if the rows of one group of each are too many to be read."""

    kinds: GroupKinds
    moments: Moments
    scenario: Scenario
    collect: Collect

    @classmethod
    def of(cls, kinds: GroupKinds, scenario: Scenario, collect: Collect) -> Self:
        """Return the kinds with all moments of their table; refuse two rows of a group at one place."""
        rows, within = kinds.columns.rows, kinds.columns.within
        moments = Moments.of(collect(rows.select("position").unique()), scenario)
        if collect(moments.repeated(rows, within).select(pl.len() > 0)).item():
            raise not_told_apart(scenario)
        return cls(kinds, moments, scenario, collect)

    @property
    def columns(self) -> Columns:
        """The columns of all rows."""
        return self.kinds.columns

    def in_order(self, period: int | None) -> Patterns:
        """Return the patterns of all groups up to shifts by multiples of the period; without one, since the start."""
        places, kinds = self.moments.places, self.kinds.selected
        if not kinds.table.height:
            return Patterns((), 0, reach=places.reach, clock=places.clock)
        if period is None:
            first = self.collect(self.columns.of_selected_groups().select(pl.col("position").min()))
            check_start(self.moments.at(first["position"]), self.scenario)
        number, selected = kinds.groups_and_selected
        patterns = self._distinct_patterns(period)
        if patterns is None:
            patterns = [_cover(self._places(period), number, self.scenario, placed=period is None)]
        return Patterns(tuple(patterns), number, selected, places.reach, places.clock)

    def _distinct_patterns(self, period: int | None) -> list[Pattern] | None:
        """Return the patterns, None if there are too many; some kinds are tried first, and show that in most cases."""
        if self._patterns_of(self._sample, period) is None:
            return None
        rows = self.moments.relative(self.columns.rows, self.columns.within, period)
        relative = relative_kinds(rows, self.columns, self.collect).selected
        return self._patterns_of(self._groups_of(relative), period) if relative.readable else None

    @cached_property
    def _sample(self) -> Groups:
        return self._groups_of(self.kinds.selected.some)

    def _groups_of(self, kinds: GroupKinds) -> Groups:
        rows = kinds.read(self.collect)
        return groups_of(rows, self.columns, self.scenario, self.moments.at(rows["position"]))

    def _patterns_of(self, groups: Groups, period: int | None) -> list[Pattern] | None:
        normal = groups if period is None else groups.shifted(period)
        return _distinct_patterns(normal, self.scenario, placed=period is None)

    def _places(self, period: int | None) -> Places:
        """Return the places of rows in normal form, or the first and the last if all are whole."""
        places = self.moments.places
        rows = self.moments.relative(
            self.columns.of_selected_groups(), self.columns.within, period
        ).select("place")
        chosen = pl.concat([rows.min(), rows.max()]) if places.whole else rows.unique()
        return places._replace(values=self.collect(chosen)["place"].to_numpy())


def find_patterns(
    public: PublicRows, scenario: Scenario, orders: Collection[PositionMode], collect: Collect
) -> dict[PositionMode, Patterns | UsageError]:
    """Return the distinct patterns of the groups of public rows, for each order; or the error that says why not.

    Nulls are equal to each other, and so are NaN. If order matters, patterns in all orders follow from the same groups.
    Equal patterns come in equal order, wherever their groups stand in the table.

    >>> import polars as pl, pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> scenario = pf.Scenario(secret=secret, prior=pf.AnyCorrelation(), within="house")
    >>> houses, none = PublicRows(pl.LazyFrame({"house": [1, 1, 2, 3, 3]})), PositionMode(ordered=False)
    >>> kinds = find_patterns(houses, scenario, [none], collect=lambda lazy: lazy.collect())[none]
    >>> sorted((pattern.rows, pattern.groups) for pattern in kinds.distinct)
    [(1, 1), (2, 2)]
    """
    within = scenario.within if public.within is None else public.within
    if not any(order.ordered for order in orders):
        return {order: _sorted(without_order(public, within, collect)) for order in orders}
    try:
        groups = read_groups(columns_in_order(public, scenario), scenario, collect)
    except UsageError as refusal:
        return dict.fromkeys(orders, refusal.with_traceback(None))
    if groups is None:
        return dict.fromkeys(orders, Patterns((), 0))
    patterns = dict[PositionMode, Patterns | UsageError]()
    for order in orders:
        try:
            if not order.ordered and isinstance(groups, Groups):
                own = without_places(groups)
            elif not order.ordered:
                own = without_order(public, within, collect)
            elif isinstance(groups, ManyKinds):
                own = groups.in_order(order.period)
            else:
                own = in_order(groups, scenario, order.period)
            patterns[order] = _sorted(own)
        except UsageError as refusal:
            patterns[order] = refusal.with_traceback(None)
    return patterns


def _sorted(patterns: Patterns) -> Patterns:
    return replace(patterns, distinct=tuple(sorted(patterns.distinct, key=_contents)))


def _contents(pattern: Pattern) -> tuple[int, bytes, bytes, bytes]:
    """Return a sort key by the contents of a pattern, the longest first; bytes are in the order of numbers."""
    positions = b"" if pattern.positions is None else pattern.positions.astype(">f8").tobytes()
    return (
        -pattern.rows,
        positions,
        pattern.cells.astype(">i8").tobytes(),
        pattern.counts.astype(">i8").tobytes(),
    )
