"""The columns from which patterns follow, under names of our own, the streaming queries on them, and positions.

Positions are values of `order_by` counted in steps, as for references when chains are fitted. They are whole where all
rows are the same part of a step late (weeks that begin on Mondays, and not like 1970-01-01 on a Thursday); that part is
left out. Otherwise they keep their fractions, also where inexact numbers are nearly at whole steps and not at them: a
moment must never have two positions on one clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.errors import Misuse
from pufferflow.expressions import unsorted
from pufferflow.scenario import UNITS, Scenario
from pufferflow.scenario.fitting import Clock, count_steps


@final
@dataclass(frozen=True)
class Columns:
    """Public rows: the columns `within`, those of `cells` that do not follow from them, `selected` and `position`."""

    rows: pl.LazyFrame
    within: list[str]
    cells: list[str]
    all_selected: bool

    @classmethod
    def of(
        cls,
        public: pl.LazyFrame,
        within: Sequence[str],
        by: Sequence[str],
        flag: str | None,
        order_by: str | None = None,
    ) -> Self:
        """Choose the columns and rename them, so that users' names cannot clash with ours."""
        own = [name for name in dict.fromkeys(by) if name not in within]
        schema = public.collect_schema()
        groups = _keys("within", within, schema)
        cells = _keys("cell", own, schema)
        filtered = {} if flag is None else {"selected": unsorted(flag).fill_null(value=False)}
        order = {} if order_by is None else {"position": unsorted(order_by)}
        chosen = {**groups, **cells, **filtered, **order}
        rows = public.select(**chosen) if chosen else public  # of no columns there would be no rows to count
        return cls(rows, [*groups], [*cells], flag is None)

    def sizes(self) -> pl.LazyFrame:
        """Return how many groups have so many `selected` rows, so many `others`, and `one_cell` or several.

        One pass over the rows: counting the rows of each cell would take several times as long.
        """
        return self._groups().group_by("selected", "others", "one_cell").agg(pl.len().cast(pl.Int64).alias("groups"))

    def of_cells(self) -> pl.LazyFrame:
        """Return the rows of each cell, and how many of them are selected, where all rows are one group."""
        counts = [pl.len().cast(pl.Int64).alias("rows"), self._selected.cast(pl.Int64).alias("selected")]
        return self.rows.group_by(self.cells).agg(counts) if self.cells else self.rows.select(counts)

    def of_first_groups(self, rows: int) -> pl.LazyFrame:
        """Return all rows of the groups of the first rows."""
        return self._of(self.rows.select(self.within).head(rows).unique())

    def of_crossing_groups(self) -> pl.LazyFrame:
        """Return all rows of the groups that have rows in several cells."""
        return self._of(self._groups().filter(~pl.col("one_cell")).select(self.within))

    @property
    def _selected(self) -> pl.Expr:
        return pl.len() if self.all_selected else pl.col("selected").sum()

    def _of(self, groups: pl.LazyFrame) -> pl.LazyFrame:
        return self.rows.join(groups, on=self.within, how="semi", nulls_equal=True)

    def _groups(self) -> pl.LazyFrame:
        """Return the counts of each group with a selected row, and whether these are in one cell."""
        schema = self.rows.select(self.cells).collect_schema()
        facts = [_Constancy(name, kind, self.all_selected) for name, kind in schema.items()]
        counted = self.rows.group_by(self.within).agg(
            pl.len().cast(pl.Int64).alias("rows"),
            self._selected.cast(pl.Int64).alias("selected"),
            *(part for fact in facts for part in fact.parts()),
        )
        one_cell = pl.all_horizontal([pl.lit(value=True), *(fact.holds() for fact in facts)])
        others = pl.col("rows") - pl.col("selected")
        return counted.filter(pl.col("selected") > 0).select(
            *self.within, "selected", others.alias("others"), one_cell.alias("one_cell")
        )


def _keys(what: str, names: Sequence[str], schema: Mapping[str, pl.DataType]) -> dict[str, pl.Expr]:
    """Return key columns, with one for NaN, which has no order and does not always equal itself in a join."""
    keys: dict[str, pl.Expr] = {}
    for place, name in enumerate(names):
        if schema[name].is_float():
            keys[f"{what} {place} is NaN"] = unsorted(name).is_nan()
        keys[f"{what} {place}"] = unsorted(name).fill_nan(None) if schema[name].is_float() else unsorted(name)
    return keys


@final
@dataclass(frozen=True)
class _Constancy:
    """Whether the selected rows of a group have one value in a column; where that is hard to test, it does not hold."""

    name: str
    kind: pl.DataType
    all_selected: bool

    def parts(self) -> list[pl.Expr]:
        """Return the least and the greatest value, and the number of values that are not null."""
        if self.kind.is_nested():
            return []
        value = pl.col(self.name)
        if isinstance(self.kind, pl.Categorical | pl.Enum):
            value = value.to_physical()
        if not self.all_selected:
            value = pl.when(pl.col("selected")).then(value)
        low, high, known = value.min(), value.max(), value.count().cast(pl.Int64)
        return [low.alias(f"{self.name} low"), high.alias(f"{self.name} high"), known.alias(f"{self.name} known")]

    def holds(self) -> pl.Expr:
        """Return whether the column is constant, from the parts."""
        if self.kind.is_nested():
            return pl.lit(value=False)
        known = pl.col(f"{self.name} known")
        same = (known == pl.col("selected")) & (pl.col(f"{self.name} low") == pl.col(f"{self.name} high"))
        return (known == 0) | same.fill_null(value=False)


_NEAR = 1e-6
_WIDEST = 2**62
"""Places that lie so far apart in ticks still have differences of 64 bits after a shift by a period below that."""


class Places(NamedTuple):
    """Positions are `values` / `scale`; `whole` if they are whole numbers of steps; all sequences began at `start`.

    `clock` identifies the clock: the kind of time with its zone, and by how much rows are late in a step.
    """

    values: npt.NDArray[Any]
    scale: int
    start: float
    clock: str

    @property
    def whole(self) -> bool:
        """Whether positions are whole numbers of steps; they are the values then."""
        return self.scale == 1 and self.values.dtype.kind == "i"

    def positions(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return values as positions."""
        return values / self.scale


def places_of(moments: pl.Series, scenario: Scenario) -> Places:
    """Return the positions of rows from their values of `order_by`."""
    ticks, clock = count_steps(moments, scenario.step_in_words if scenario.timed else scenario.step)
    if ticks.null_count():
        raise Misuse(
            f"The column {scenario.order_by!r} has a row without a position: null, NaN, or beyond 64 bits.",
            allowed="an order_by that says of every row where it stands",
            instead=f"frame.filter(pl.col({scenario.order_by!r}).is_not_null())",
        )
    values, start = ticks.to_numpy(), _start(moments.dtype, scenario)
    least, greatest = int(values.min()), int(values.max())
    if greatest - least > _WIDEST or min(least, -greatest) - clock.ticks <= -_WIDEST * 2:
        raise Misuse(
            f"The column {scenario.order_by!r} has rows that are more than 2^62 apart, or too far from 0.",
            allowed="positions whose differences fit into 64 bits",
            instead="a filter that leaves out what is no position",
        )
    late = clock.late(values)
    first = int(late.min())
    if late.max() - first <= 2 * clock.forgiven and not clock.unclear(late).any():
        whose = _clock(moments.dtype, first, clock, scenario)
        return Places((values - late + clock.forgiven) // clock.ticks, 1, _from(start, first, clock), whose)
    whose = _clock(moments.dtype, 0, clock, scenario)
    if clock.forgiven:  # numbers without ticks stay as they are
        return Places(moments.cast(pl.Float64).to_numpy() / scenario.step, 1, start, whose)
    return Places(values, clock.ticks, start, whose)


def _clock(kind: pl.DataType, late: int, clock: Clock, scenario: Scenario) -> str:
    """Return the clock of rows that are so late in their steps, as precisely as numbers allow.

    Days are counted where a time has its zone; shorter steps are the same in all zones.
    """
    whose = "time" if isinstance(kind, pl.Date | pl.Datetime) else str(kind.base_type())
    if kind.is_numeric():
        whose = "number"
    if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        whose = f"zone {kind.time_zone}" if scenario.step % UNITS["d"] == 0 else "moment"
    coarse = 4 * clock.forgiven + 1
    share = Fraction((late - clock.forgiven + coarse // 2) // coarse * coarse, clock.ticks)
    return f"{whose}, {share} late"


def _start(kind: pl.DataType, scenario: Scenario) -> float:
    """Return the start of sequences on the clock of the rows: local time, where steps are days."""
    zone = kind.time_zone if isinstance(kind, pl.Datetime) else None
    if zone is None or not isinstance(scenario.start, datetime) or scenario.step % UNITS["d"]:
        return scenario.start_position
    moment = pl.Series([scenario.start]).cast(kind)
    ticks, clock = count_steps(moment, scenario.step_in_words)
    if int(ticks[0]) % (clock.ticks // (scenario.step // UNITS["d"])):
        raise Misuse(
            f"The start of the sequences is not the beginning of a day in {zone}, where days are counted.",
            allowed="a start with its time zone, at midnight there",
            instead=f'start="2026-01-01T00:00+01:00", as midnight is in {zone}',
        )
    return int(ticks[0]) / clock.ticks


def _from(start: float, late: int, clock: Clock) -> float:
    """Return the start of sequences; without the part of a step by which rows are late, if it is as late as they."""
    earlier = start - (late - clock.forgiven) / clock.ticks
    return float(round(earlier)) if abs(earlier - round(earlier)) <= _NEAR else start
