"""What is counted and added up of a private column: plain data that every engine turns into its own language.

A `Value` says how one row is read, and a `Total` what is counted or added up of the rows of a cell. No expression of a
user is among them, and no value makes one of them fail. `read` is their meaning: it says in Polars what every other
engine has to return too, to the last digit.
"""

import abc
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Final, Literal, final

import polars as pl

from pufferflow.queries.expressions.formula import Formula
from pufferflow.queries.expressions.tree import unsorted

HALF: Final = 15
"""The bits of the lower part of steps, where sums of whole ones might not fit into 64 bits."""
Part = Literal["all", "high", "low"]


@dataclass(frozen=True)
class Value(abc.ABC):
    """Base: a private column, and how a row of it is read."""

    column: str

    @abc.abstractmethod
    def read(self) -> pl.Expr:
        """Return the value of each row."""


@final
@dataclass(frozen=True)
class WholeNumber(Value):
    """Whole numbers of up to 64 bits, of the column's own type; false and true are 0 and 1; null stays null."""

    dtype: pl.DataType

    def read(self) -> pl.Expr:
        return unsorted(self.column).cast(self.dtype)


@final
@dataclass(frozen=True)
class Float(Value):
    """The nearest float of 64 bits; null for null and NaN."""

    def read(self) -> pl.Expr:
        return unsorted(self.column).cast(pl.Float64).fill_nan(None)


@final
@dataclass(frozen=True)
class FloatInside(Value):
    """The nearest float of 64 bits, brought into an interval; `missing` for null and NaN, which may lie above it."""

    low: float
    high: float
    missing: float

    def read(self) -> pl.Expr:
        number = unsorted(self.column).cast(pl.Float64)
        is_number = number.is_not_nan()  # null for null, which is not true either
        return pl.when(is_number).then(number.clip(self.low, self.high)).otherwise(self.missing)


@final
@dataclass(frozen=True)
class Text(Value):
    """The label as text, compared byte by byte; null stays null."""

    def read(self) -> pl.Expr:
        return unsorted(self.column).cast(pl.String)


@dataclass(frozen=True)
class Total(abc.ABC):
    """Base: what is counted or added up; every total of fewer than the engine's most rows is below 2^62."""

    @abc.abstractmethod
    def read(self, value: pl.Expr) -> pl.Expr:
        """Return the total of a cell."""


@final
@dataclass(frozen=True)
class Present(Total):
    """The rows whose value is not null."""

    def read(self, value: pl.Expr) -> pl.Expr:
        return value.count()


@final
@dataclass(frozen=True)
class Above(Total):
    """The rows whose number is above a limit."""

    limit: float
    dtype: pl.DataType

    def read(self, value: pl.Expr) -> pl.Expr:
        return (value > pl.lit(self.limit, dtype=self.dtype)).sum()


@final
@dataclass(frozen=True)
class OneOf(Total):
    """The rows whose text is one of some labels."""

    labels: tuple[str, ...]

    def read(self, value: pl.Expr) -> pl.Expr:
        first, *others = self.labels
        return (value.is_in(list(self.labels)) if others else value == first).sum()


@dataclass(frozen=True)
class Added(Total):
    """Base: whole numbers from `low` to `high` of all rows, added up; or the high or the low part of number − low.

    The two parts may be those of each row, added up, or those of the sum: what is used of them is high · 2¹⁵ + low.
    """

    part: Part
    most: ClassVar[int] = 2**30
    """The most that such a number is away from 0."""

    def read(self, value: pl.Expr) -> pl.Expr:
        number = self.number(value)
        if self.part == "all":
            return number.sum()
        low, _ = self.ends
        high_part = (number - low) // 2**HALF
        return (high_part if self.part == "high" else number - low - high_part * 2**HALF).sum()

    @property
    @abc.abstractmethod
    def ends(self) -> tuple[int, int]:
        """The least and the largest number."""

    @abc.abstractmethod
    def number(self, value: pl.Expr) -> pl.Expr:
        """Return the number of a row, as Int64."""


@final
@dataclass(frozen=True)
class Clipped(Added):
    """Whole numbers, clipped; nothing for null."""

    low: int
    high: int
    dtype: pl.DataType

    @property
    def ends(self) -> tuple[int, int]:
        return self.low, self.high

    def number(self, value: pl.Expr) -> pl.Expr:
        low, high = (pl.lit(end, dtype=self.dtype) for end in self.ends)
        return value.clip(low, high).cast(pl.Int64)  # the domain's whole numbers are below 2^54


@final
@dataclass(frozen=True)
class Steps(Added):
    """The steps of a formula."""

    formula: Formula

    @property
    def ends(self) -> tuple[int, int]:
        return self.formula.low, self.formula.high

    def number(self, value: pl.Expr) -> pl.Expr:
        return self.formula.read(value)


@dataclass(frozen=True)
class Numbering(abc.ABC):
    """Base: a number for the class of each row, which becomes a key; rows without a value have the last one."""

    value: Value

    @property
    def parts(self) -> "tuple[Numbering, ...]":
        """The numberings of single values that it is made of."""
        return (self,)

    @property
    @abc.abstractmethod
    def missing(self) -> int:
        """The number of rows without a value."""


@final
@dataclass(frozen=True)
class ByLimits(Numbering):
    """The number of growing limits that a number is above."""

    value: "WholeNumber | Float"
    limits: tuple[float, ...]

    @property
    def missing(self) -> int:
        return len(self.limits) + 1


@final
@dataclass(frozen=True)
class ByLabels(Numbering):
    """The number of the group that a text is in; all other labels are missing."""

    value: Text
    groups: tuple[tuple[str, ...], ...]

    @property
    def missing(self) -> int:
        return len(self.groups)


@final
@dataclass(frozen=True)
class ByTuples(Numbering):
    """The number of a tuple of classes, one of each of several values; the last value varies fastest."""

    numberings: tuple[Numbering, ...]

    @property
    def parts(self) -> tuple[Numbering, ...]:
        return self.numberings

    @property
    def missing(self) -> int:
        return reduce(lambda whole, one: whole * (one.missing + 1) + one.missing, self.numberings, 0)


@final
@dataclass(frozen=True)
class PrivateTotals:
    """The totals of one value."""

    value: Value
    totals: tuple[Total, ...]
