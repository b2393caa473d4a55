"""Numbers and error bars cut to what is possible, whatever the rows: post-processing of what is published (M47).

The limits of every number are public: they follow from the range of what is asked, and from the number of rows where
everybody may know it. They are kept as a table of the same columns as the error bars, whole numbers for counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from pufferflow.queries import Query
from pufferflow.release.bars import Floats
from pufferflow.release.exact import MOST_ROWS


@final
@dataclass(frozen=True, eq=False)
class Clipped:
    """Numbers and error bars that are possible, in the columns of the release; counts are whole numbers.

    `frame` has null for what would be made of no rows, where everybody may know that there are none.
    """

    frame: pl.DataFrame
    intervals: pl.DataFrame


def limits_of(query: Query, size: Floats | None, cells: int) -> list[pl.Series]:
    """Return the least and the largest number that each output of a query can be, whatever the rows, as columns."""
    least, most = (np.broadcast_to(ends, (cells, len(query.outputs))) for ends in query.limits(size))
    found = list[pl.Series]()
    for place, name in enumerate(query.outputs):
        for end, numbers in (("low", least), ("high", most)):
            column = pl.Series(f"{name}_{end}", numbers[:, place], dtype=pl.Float64, nan_to_null=True)
            found.append(column.clip(upper_bound=MOST_ROWS - 1).cast(pl.Int64) if query.whole else column)
    return found


def of_no_rows(queries: Sequence[Query], size: Floats | None) -> list[str]:
    """Say which answers rest on no rows, in how many cells, where everybody may know that."""
    cells = 0 if size is None else int((size == 0).sum())
    names = [query.name for query in queries if cells and np.isnan(query.limits(size)[0]).any()]
    if size is None or not names:
        return []
    where = "there are no rows" if len(size) == 1 else f"there are no rows in {cells} of {len(size)} groups"
    return [f"{where}: {', '.join(names)} rest on none there, are noise alone, and have the whole range for error bars"]


def clipped(frame: pl.DataFrame, intervals: pl.DataFrame, limits: pl.DataFrame) -> Clipped:
    """Return numbers and bars cut to limits, which have the columns of the bars; columns are known by their places."""
    outputs = limits.width - frame.width
    keys = frame.columns[: frame.width - outputs]
    numbers, bars = [frame[name] for name in keys], [frame[name] for name in keys]
    for place, name in enumerate(frame.columns[len(keys) :]):
        low, high = len(keys) + 2 * place, len(keys) + 2 * place + 1
        number, ends = frame[name], (intervals.to_series(low), intervals.to_series(high))
        least, most = limits.to_series(low), limits.to_series(high)
        if least.dtype.is_integer():  # outwards, so that bars hold what they held
            number, ends = number.round(), (ends[0].floor(), ends[1].ceil())
        cut, *cut_ends = (_cut(one, least, most) for one in (number, *ends))
        numbers.append(cut.set(least.is_null(), None))
        bars += cut_ends
    return Clipped(pl.DataFrame(numbers), pl.DataFrame(bars))


def _cut(given: pl.Series, least: pl.Series, most: pl.Series) -> pl.Series:
    """Return numbers within limits, in the dtype of these; where there are none, as they are."""
    columns = pl.DataFrame({"given": given, "least": least, "most": most})
    cut = pl.when(pl.col("least").is_null()).then("given").otherwise(pl.col("given").clip("least", "most"))
    return columns.select(cut.cast(least.dtype).alias(given.name)).to_series()
