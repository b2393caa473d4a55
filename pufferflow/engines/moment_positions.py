"""All moments of a large table and their places, joined to its rows: relative to first rows, and twice in a group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, final

import numpy as np
import polars as pl

from pufferflow.engines.row_positions import Places, positions_of
from pufferflow.models.scenario import Scenario

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
        joined = moments.to_frame("position").join(table, on="position", how="left", maintain_order="left")
        return self.places._replace(values=joined["place"].to_numpy())

    def relative(self, rows: pl.LazyFrame, within: Sequence[str], period: int | None) -> pl.LazyFrame:
        """Return rows with their `place`: since the start, or in normal form up to shifts by multiples of a period."""
        values = self.places.values
        placed = rows.join(self.table.lazy().with_columns(pl.Series("place", values)), on="position")
        if period is None:
            return placed
        away = self.table.lazy().with_columns(pl.Series("away", self.places.away(values, period)))
        first = rows.group_by(within).agg(pl.col("position").min()).join(away, on="position").drop("position")
        return placed.join(first, on=within, nulls_equal=True).with_columns(place=pl.col("place") - pl.col("away"))

    def repeated(self, rows: pl.LazyFrame, within: Sequence[str]) -> pl.LazyFrame:
        """Return something for each group with two rows at one place.

        Of numbers below 64 that differ, the sum of the powers of two has as many ones as there are numbers, and of
        others fewer.
        """
        _, number = np.unique(self.places.values, return_inverse=True)
        bits = np.left_shift(np.uint64(1), (number % _BLOCK).astype(np.uint64))
        numbered = self.table.lazy().with_columns(pl.Series("block", number // _BLOCK), pl.Series("bit", bits))
        blocks = rows.join(numbered, on="position").group_by(*within, "block").agg(pl.len(), pl.col("bit").sum())
        return blocks.filter(pl.col("bit").bitwise_count_ones() != pl.col("len"))
