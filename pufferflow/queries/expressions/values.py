"""φ, a function of the value of one sensitive column, in whole steps of a grid, and as a formula for engines (M13).

Every measure is a sum of such a φ over rows. Steps are whole, so sums are exact, whatever the order of the rows. The
width of a step is a power of two, so short binary fractions are met exactly. Other values are rounded to the grid,
which is part of the query, not of the guarantee.

At a number of an interval φ is a formula that every engine computes identically: comparisons, one line, one rounding.
All numbers are floats of 64 bits, and every operation is one of these: −, ×, + and comparisons, in the order written.
They are rounded by IEEE 754 alone, so engines that follow it return the same steps, to the last.
"""

import abc
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import reduce
from typing import ClassVar, Final, NamedTuple, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats
from pufferflow.models.domain import Domain, Product

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
    """Segments of φ on an interval: a number takes the first one that ends after it, or at it, otherwise the last.

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
            steps = _chosen(
                self.segments, number, lambda one: pl.lit(round(one.start), dtype=pl.Int64)
            )
        else:
            line = _chosen(self.segments, number, lambda one: _line(one, number))
            squared = line if self.square is None else line * line * self.square
            # unlike a strict cast, one that may wrap fails on no row
            steps = (squared + ROUNDER - ROUNDER).cast(pl.Int64, wrap_numerical=True)
        return steps.clip(
            self.low, self.high
        )  # whatever floats did: sums are proven to fit by this alone


def _chosen(
    segments: Sequence[Segment], number: pl.Expr, value: Callable[[Segment], pl.Expr]
) -> pl.Expr:
    """Return what the segment of a number has; if it is the only one, a condition still makes a column of it."""
    *others, last = segments
    if not others and last.factor:
        return value(last)
    rest = others or [last]
    return reduce(
        lambda other, one: (
            pl.when(number <= one.end if one.reached else number < one.end)
            .then(value(one))
            .otherwise(other)
        ),
        rest[::-1],
        value(last),
    )


def _line(segment: Segment, number: pl.Expr) -> pl.Expr:
    if not segment.factor:
        return pl.lit(segment.start)
    scaled = (number - segment.origin if segment.origin else number) * segment.factor
    return scaled + segment.start if segment.start else scaled


TABLE_LIMIT: Final = 40
"""Steps of a table are at most 2^40 …"""
LINE_LIMIT: Final = 30
"""… and those read from a formula at most 2^30, so that floats resolve a quarter of a step."""


@final
@dataclass(frozen=True)
class Weight:
    """The weight of each row: an expression of public columns, whose values are floats of 64 bits.

    Weights with one `identity` are equal.
    """

    identity: str
    words: str = field(repr=False, compare=False)
    expression: pl.Expr = field(repr=False, compare=False)
    bounds: tuple[Fraction, Fraction] | None = field(default=None, repr=False, compare=False)
    """The least and the largest that it is read as, where the weights of rows are private."""
    kind: int | None = field(default=None, repr=False, compare=False)
    """Of a kind of rows, whose weight is 1 where the expression has this value, and 0 elsewhere."""

    @property
    def positive(self) -> pl.Expr:
        """Whether rows have a weight above 0."""
        return self.expression > 0 if self.kind is None else self.expression == self.kind

    def read(self, column: pl.Series) -> Floats:
        """Return the weights of rows from the values of the expression; NaN for null."""
        numbers = column.cast(pl.Float64).fill_null(math.nan).to_numpy()
        return numbers if self.kind is None else np.equal(numbers, self.kind).astype(np.float64)


@dataclass(frozen=True, repr=False)
class Values(abc.ABC):
    """φ on the domain of a column: in units of `unit`, never below `low` and never above `high`.

    `words` is the expression in short, `boolean` says that it is a predicate, `name` is the alias it was given. With a
    `weight`, φ of each row is multiplied by it before it is added up.
    """

    column: str
    domain: Domain
    words: str
    boolean: bool
    unit: Fraction
    low: int
    high: int
    name: str | None
    weight: Weight | None = field(default=None, kw_only=True)
    stored_as: ClassVar[str]
    """The name in digests of requests, which ledgers keep: it stays, whatever the class is called."""

    def __repr__(self) -> str:
        named = ", ".join(
            f"{one.name}={getattr(self, one.name)!r}"
            for one in fields(self)
            if one.repr and one.name != "weight"
        )
        named += (
            "" if self.weight is None else f", weight={self.weight!r}"
        )  # requests without keep their digests
        return f"{self.stored_as}({named})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return self.domain.columns if isinstance(self.domain, Product) else (self.column,)

    @property
    def terms(self) -> tuple["Values", ...]:
        """The functions that engines read one by one, and whose sum φ is."""
        return (self,)

    @property
    def graph(self) -> Hashable:
        """φ at every value, whatever its name: two are equal only if their sums are equal for all rows.

        None for 1 everywhere, whose sum is the number of rows.
        """
        if self.unit == self.low == self.high == 1 and self.weight is None:
            return None
        return (
            self.column,
            self.domain,
            self.unit,
            *self._points,
            *(() if self.weight is None else (self.weight,)),
        )

    @property
    @abc.abstractmethod
    def range_present(self) -> tuple[int, int]:
        """The least and the largest φ of a value that is there, in units; `low` and `high` are also of missing ones."""

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest φ of a value that is there."""
        low, high = self.range_present
        return float(low * self.unit), float(high * self.unit)

    @property
    @abc.abstractmethod
    def _points(self) -> tuple[Hashable, ...]:
        """φ at every value of the domain, in units, as something that can be compared."""

    @abc.abstractmethod
    def squared(self, center: Fraction) -> "Values":
        """Return (φ − center)²."""


def exact_unit(values: Iterable[Fraction]) -> Fraction | None:
    """Return the largest power of two that divides all values; None if there is none, 1 if all values are 0.

    >>> exact_unit([Fraction(3, 4), Fraction(6)]), exact_unit([Fraction(0)]), exact_unit([Fraction(1, 3)])
    (Fraction(1, 4), Fraction(1, 1), None)
    """
    some = [value for value in values if value]
    if any(value.denominator & (value.denominator - 1) for value in some):
        return None
    twos = [_twos(value.numerator) - _twos(value.denominator) for value in some]
    return Fraction(2) ** min(twos, default=0)


def fitting_unit(largest: Fraction, limit: int) -> Fraction:
    """Return the smallest power of two of which `largest` has at most 2^limit.

    >>> fitting_unit(Fraction(5), 30) * 2**27
    Fraction(1, 1)
    """
    if not largest:
        return Fraction(1)
    exponent = largest.numerator.bit_length() - largest.denominator.bit_length() - 1
    while Fraction(2) ** exponent < largest:
        exponent += 1
    return Fraction(2) ** (exponent - limit)


def grid(values: Iterable[Fraction], limit: int) -> Fraction:
    """Return the coarsest grid that has all these values, or the finest within the limit where that is coarser."""
    known = list(values)
    largest = max(map(abs, known), default=Fraction(0))
    exact = exact_unit(known)
    return (
        exact if exact is not None and largest <= exact * 2**limit else fitting_unit(largest, limit)
    )


def _twos(number: int) -> int:
    return (number & -number).bit_length() - 1
