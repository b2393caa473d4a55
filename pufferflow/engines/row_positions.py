"""The positions of rows in order, counted in steps, and moments joined to the rows of large tables.

The places of rows are values of `order_by`, counted in steps as for references when chains are fitted. Positions are
whole if all rows are late by the same part of a step. Weeks that begin on Mondays are, and not like 1970-01-01 on a
Thursday. That part is then left out. Otherwise positions keep their fractions, even if inexact numbers are nearly at
whole steps: a moment must never have two positions on one clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Final, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.models.fitting.sequences import Clock, count_steps
from pufferflow.models.scenario import Scenario
from pufferflow.models.time_steps import UNITS

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

    @property
    def reach(self) -> tuple[float, float]:
        """The first and the last position."""
        first, last = self.positions(np.array([self.values.min(), self.values.max()])).tolist()
        return first, last

    def away(self, first: npt.NDArray[Any], period: int) -> npt.NDArray[Any]:
        """Return how far the values of a group are from normal form, where its first row is in the first period."""
        turn = period * self.scale
        rest = np.fmod(first, turn)  # without rounding, for floats too
        return first - rest - turn * (rest < 0)


def positions_of(moments: pl.Series, scenario: Scenario) -> Places:
    """Return the positions of rows from their values of `order_by`."""
    ticks, clock = count_steps(moments, scenario.step_in_words if scenario.timed else scenario.step)
    if ticks.null_count():
        raise UsageError(
            f"The column {scenario.order_by!r} has a row without a position: null, NaN, or beyond 64 bits.",
            allowed="a column with a position for every row",
            instead=f"frame.filter(pl.col({scenario.order_by!r}).is_not_null())",
        )
    values, start = ticks.to_numpy(), _start(moments.dtype, scenario)
    least, greatest = int(values.min()), int(values.max())
    if greatest - least > _WIDEST or min(least, -greatest) - clock.ticks <= -_WIDEST * 2:
        raise UsageError(
            f"The column {scenario.order_by!r} has rows that are more than 2^62 apart, or too far from 0.",
            allowed="positions whose differences fit into 64 bits",
            instead="a filter that leaves out values which are not positions",
        )
    late = clock.late(values)
    first = int(late.min())
    if late.max() - first <= 2 * clock.forgiven and not clock.unclear(late).any():
        whose = _clock(moments.dtype, first, clock, scenario)
        return Places(
            (values - late + clock.forgiven) // clock.ticks, 1, _from(start, first, clock), whose
        )
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
        raise UsageError(
            f"The start of the sequences is not the beginning of a day in {zone}, where days are counted.",
            allowed="a start with its time zone, at midnight there",
            instead=f'start="2026-01-01T00:00+01:00", as midnight is in {zone}',
        )
    return int(ticks[0]) / clock.ticks


def _from(start: float, late: int, clock: Clock) -> float:
    """Return the start of sequences; without the part of a step by which rows are late, if it is as late as they."""
    earlier = start - (late - clock.forgiven) / clock.ticks
    return float(round(earlier)) if abs(earlier - round(earlier)) <= _NEAR else start


_BLOCK: Final = 64


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """The distinct values of the column `position`, and the places of all of them."""

    table: pl.DataFrame
    places: Places

    @classmethod
    def of(cls, table: pl.DataFrame, scenario: Scenario) -> Self:
        """Return the moments in a table of distinct ones."""
        return cls(table, positions_of(table["position"], scenario))

    def at(self, moments: pl.Series) -> Places:
        """Return the places of some of the moments."""
        table = self.table.with_columns(pl.Series("place", self.places.values))
        joined = moments.to_frame("position").join(
            table, on="position", how="left", maintain_order="left"
        )
        return self.places._replace(values=joined["place"].to_numpy())

    def relative(
        self, rows: pl.LazyFrame, within: Sequence[str], period: int | None
    ) -> pl.LazyFrame:
        """Return rows with their `place`: since the start, or in normal form up to shifts by multiples of a period."""
        values = self.places.values
        placed = rows.join(
            self.table.lazy().with_columns(pl.Series("place", values)), on="position"
        )
        if period is None:
            return placed
        away = self.table.lazy().with_columns(pl.Series("away", self.places.away(values, period)))
        first = (
            rows.group_by(within)
            .agg(pl.col("position").min())
            .join(away, on="position")
            .drop("position")
        )
        return placed.join(first, on=within, nulls_equal=True).with_columns(
            place=pl.col("place") - pl.col("away")
        )

    def repeated(self, rows: pl.LazyFrame, within: Sequence[str]) -> pl.LazyFrame:
        """Return something for each group with two rows at one place.

        Of numbers below 64 that differ, the sum of the powers of two has as many ones as there are numbers, and of
        others fewer.
        """
        _, number = np.unique(self.places.values, return_inverse=True)
        bits = np.left_shift(np.uint64(1), (number % _BLOCK).astype(np.uint64))
        numbered = self.table.lazy().with_columns(
            pl.Series("block", number // _BLOCK), pl.Series("bit", bits)
        )
        blocks = (
            rows.join(numbered, on="position")
            .group_by(*within, "block")
            .agg(pl.len(), pl.col("bit").sum())
        )
        return blocks.filter(pl.col("bit").bitwise_count_ones() != pl.col("len"))
