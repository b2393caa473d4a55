"""Patterns of rows in order: where the rows of a group stand, and in which cell each of them is asked about.

One query brings the public columns, for all periods; the rest is done in whole numbers, all groups at once.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.errors import Misuse
from pufferflow.patterns.alike import Runs, alike
from pufferflow.patterns.columns import Columns
from pufferflow.patterns.groups import Groups, groups_of
from pufferflow.patterns.patterns import MOST, Collect, Patterns
from pufferflow.queries.pattern import Pattern
from pufferflow.scenario import Scenario

Floats = npt.NDArray[np.float64]

LONGEST = 2 * 10**6
"""A pattern that covers others may have so many steps."""


def rows_in_order(
    public: pl.LazyFrame, scenario: Scenario, by: Sequence[str], asked: str | None, collect: Collect
) -> Groups | None:
    """Return the rows of all groups in order, from one query; None if there are no rows at all."""
    if scenario.order_by is None:
        raise Misuse(
            "The order of rows matters, and order_by is missing.",
            allowed="the column that puts the rows in order",
            instead='order_by="hour", step="1h"',
        )
    columns = Columns.of(public, scenario.within, by, asked, scenario.order_by)
    rows = collect(columns.rows)
    return groups_of(rows, columns, scenario) if rows.height else None


def in_order(groups: Groups | None, scenario: Scenario, period: int | None) -> Patterns:
    """Return the patterns of all groups, up to shifts by multiples of the period."""
    if groups is None:
        return Patterns((), 0)
    if not groups.number:
        return Patterns((), 0, reach=groups.reach, clock=groups.places.clock)
    normal = groups.shifted(period) if period is not None else groups.since_start(scenario)
    start = normal.places.start if period is None else None
    found = alike(Runs(normal.bounds, [normal.places.values, normal.cells]), MOST)
    distinct = (
        [_cover(normal, start, scenario)]
        if found is None
        else [_pattern(normal, group, times, start, scenario) for group, times in found]
    )
    selected = int((normal.cells >= 0).sum())
    return Patterns(tuple(distinct), normal.number, selected, normal.reach, normal.places.clock)


def _pattern(groups: Groups, group: int, times: int, start: float | None, scenario: Scenario) -> Pattern:
    """Return what groups like this one look like; where a start does not matter it is their first row."""
    rows = slice(groups.bounds[group], groups.bounds[group + 1])
    cells = groups.cells[rows].copy()
    positions = _told_apart(groups.places.positions(groups.places.values[rows]), scenario)
    return Pattern(cells, np.ones_like(cells), positions, float(positions[0]) if start is None else start, times)


def _told_apart(positions: Floats, scenario: Scenario) -> Floats:
    """Return the positions of rows; refuse those that lie too far from 0 to differ as floats."""
    if bool((np.diff(positions) <= 0).any()):
        raise Misuse(
            f"The column {scenario.order_by!r} has rows whose positions are one number: they are too far from 0.",
            allowed="positions that differ as floats, counted in steps",
            instead="a longer step, or a start that is nearer",
        )
    return positions


def _cover(groups: Groups, start: float | None, scenario: Scenario) -> Pattern:
    """Return a pattern with a row wherever a group may have one, all in one cell; a start of the groups is its own."""
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
    positions = _told_apart(places.positions(values), scenario)
    first = float(positions[0]) if start is None else start
    return Pattern(np.zeros(size, np.int64), np.ones(size, np.int64), positions, first, groups.number, covers=True)
