"""The limits of published numbers and of their error bars: what the answers can be, whatever the rows."""

from dataclasses import dataclass
from typing import final

import polars as pl


@final
@dataclass(frozen=True, eq=False)
class Clipped:
    """Numbers and error bars that are possible, in the columns of the release; counts are whole numbers.

    `frame` has null for means of no rows and the like, where it is public that there are none.
    """

    frame: pl.DataFrame
    intervals: pl.DataFrame


def clipped(frame: pl.DataFrame, intervals: pl.DataFrame, limits: pl.DataFrame) -> Clipped:
    """Return numbers and bars cut to limits; columns are identified by place, so that names can be any."""
    keys = _keys(frame, limits)
    numbers, bars = frame.get_columns()[:keys], frame.get_columns()[:keys]
    for place in range(frame.width - keys):
        low, high = keys + 2 * place, keys + 2 * place + 1
        number, ends = frame.to_series(keys + place), (intervals.to_series(low), intervals.to_series(high))
        least, most = limits.to_series(low), limits.to_series(high)
        if least.dtype.is_integer():  # outwards, so that bars only widen
            number, ends = number.round(), (ends[0].floor(), ends[1].ceil())
        cut, *cut_ends = (_cut(series, least, most) for series in (number, *ends))
        numbers.append(cut.set(least.is_null(), None))
        bars += cut_ends
    return Clipped(pl.DataFrame(numbers), pl.DataFrame(bars))


def together(frame: pl.DataFrame, intervals: pl.DataFrame, limits: pl.DataFrame) -> pl.DataFrame:
    """Return one table of bars and limits, which `parted` takes apart again."""
    return intervals.hstack(limits.get_columns()[_keys(frame, limits) :])


def parted(frame: pl.DataFrame, ends: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return bars, and the limits if there are any: three times as many columns more than the release has outputs."""
    if not frame.width or ends.columns[-1:] != [f"{frame.columns[-1]}_most"]:
        return ends, None
    outputs = (ends.width - frame.width) // 3
    columns = ends.get_columns()
    keys, limits = columns[: frame.width - outputs], columns[-2 * outputs :]
    return pl.DataFrame(columns[: -2 * outputs]), pl.DataFrame([*keys, *limits])


def _keys(frame: pl.DataFrame, limits: pl.DataFrame) -> int:
    """Return the number of key columns in front of the outputs; limits have two columns for each output."""
    return 2 * frame.width - limits.width


def _cut(numbers: pl.Series, least: pl.Series, most: pl.Series) -> pl.Series:
    """Return numbers within limits, in the dtype of these; where there are none, as they are."""
    columns = pl.DataFrame({"given": numbers, "least": least, "most": most})
    cut = pl.when(pl.col("least").is_null()).then("given").otherwise(pl.col("given").clip("least", "most"))
    return columns.select(cut.cast(least.dtype).alias(numbers.name)).to_series()
