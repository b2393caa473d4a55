"""The distinct patterns of groups whose rows are in order, or one that covers them where they are too many.

A small table is read whole. Of a large one, streaming queries find the kinds of groups, and the rows of one group of
each kind are read; this is all unless there are too many kinds of groups where they stand. Then there may still be few
up to shifts, so kinds are looked for again, relative to the first row of each group.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import UsageError
from pufferflow.engines.equal_runs import MOST, Runs, alike
from pufferflow.engines.group_kinds import GroupKinds, placed_kinds, relative_kinds
from pufferflow.engines.groups import Groups, groups_of, not_told_apart
from pufferflow.engines.moment_positions import Moments
from pufferflow.engines.pattern_columns import SMALL, Collect, Columns, PublicRows
from pufferflow.engines.row_positions import Places
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import Pattern, Patterns

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


def read_groups(columns: Columns, scenario: Scenario, collect: Collect) -> "Groups | ManyKinds | None":
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
    """Return the patterns of groups up to shifts by multiples of the period; without one, since the start."""
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
    return Patterns(tuple(patterns), number, int((in_group * groups.times).sum()), groups.reach, groups.places.clock)


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
        None if kinds is None else [_pattern(groups, group, times, scenario, placed=placed) for group, times in kinds]
    )


def _pattern(groups: Groups, group: int, times: int, scenario: Scenario, *, placed: bool) -> Pattern:
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
            f"The column {scenario.order_by!r} has rows whose positions are one number: they are too far from 0.",
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
            f"More than {MOST} patterns of rows: the pattern that covers them has more than {LONGEST} steps.",
            allowed=f"groups of at most {MOST} kinds, or groups whose rows lie closer together",
            instead="a longer step, a filter by time, or a prior without order such as pf.AnyCorrelation()",
        )
    positions = _distinct_positions(places.positions(values), scenario)
    start = places.start if placed else float(positions[0])
    return Pattern(np.zeros(size, np.int64), np.ones(size, np.int64), positions, start, number, covers=True)


@final
@dataclass(frozen=True, eq=False)
class ManyKinds:
    """The kinds of groups where the rows of one group of each are too many to be read."""

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
        rows = self.moments.relative(self.columns.of_selected_groups(), self.columns.within, period).select("place")
        chosen = pl.concat([rows.min(), rows.max()]) if places.whole else rows.unique()
        return places._replace(values=self.collect(chosen)["place"].to_numpy())
