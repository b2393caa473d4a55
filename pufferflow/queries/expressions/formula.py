"""φ at a number of an interval as a formula that any engine computes alike: comparisons, one line, one rounding.

All numbers are floats of 64 bits, and every operation is one of these: −, ×, + and comparisons, in the order written.
They are rounded by IEEE 754 alone, so engines that follow it return the same steps, to the last.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple, final

import polars as pl

ROUNDER: Final = 1.5 * 2.0**52
"""Floats near it are whole numbers: adding and subtracting it rounds half to even, much faster than round() does."""


class Segment(NamedTuple):
    """A line of a formula, (x − origin) · factor + start, for the numbers before an end, or up to it if `reached`."""

    end: float
    reached: bool
    start: float
    factor: float = 0.0
    origin: float = 0.0


@final
@dataclass(frozen=True)
class Formula:
    """The first segment that ends after a number, or at it, holds for it; the last one for all that remain.

    `square` is the factor of the squared line, None if lines are not squared. Steps are rounded to whole numbers, half
    to even, and never below `low` or above `high`.

    >>> line = Formula((Segment(1.0, reached=True, start=0.0, factor=3.0),), low=0, high=3)
    >>> pl.DataFrame({"x": [0.0, 0.5, 1.0]}).select(line.read(pl.col("x"))).to_series().to_list()
    [0, 2, 3]
    """

    segments: tuple[Segment, ...]
    low: int
    high: int
    square: float | None = None

    @property
    def flat(self) -> bool:
        """Whether all segments are level."""
        return not any(segment.factor for segment in self.segments)

    def read(self, number: pl.Expr) -> pl.Expr:
        """Return the steps of a Float64 expression that is never null or NaN and stays on the interval, as Int64."""
        if self.flat:
            steps = _chosen(self.segments, number, lambda one: pl.lit(round(one.start), dtype=pl.Int64))
        else:
            line = _chosen(self.segments, number, lambda one: _line(one, number))
            squared = line if self.square is None else line * line * self.square
            # unlike a strict cast, one that may wrap fails on no row
            steps = (squared + ROUNDER - ROUNDER).cast(pl.Int64, wrap_numerical=True)
        return steps.clip(self.low, self.high)  # whatever floats did: sums are proven to fit by this alone


def _chosen(segments: Sequence[Segment], number: pl.Expr, value: Callable[[Segment], pl.Expr]) -> pl.Expr:
    """Return what the segment of a number has; if it is the only one, a condition still makes a column of it."""
    *others, last = segments
    if not others and last.factor:
        return value(last)
    rest = others or [last]
    return reduce(
        lambda other, one: (
            pl.when(number <= one.end if one.reached else number < one.end).then(value(one)).otherwise(other)
        ),
        rest[::-1],
        value(last),
    )


def _line(segment: Segment, number: pl.Expr) -> pl.Expr:
    if not segment.factor:
        return pl.lit(segment.start)
    scaled = (number - segment.origin if segment.origin else number) * segment.factor
    return scaled + segment.start if segment.start else scaled
