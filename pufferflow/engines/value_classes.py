"""How a private value is read, and the classes of values that the measures of a column distinguish.

A number outside the domain is read as the nearest value, the lower one of two; ±∞ as an outermost one. Null, NaN and
unknown labels are `missing`. The rules depend on the declared domain and on the dtype of the column; no value can
make them fail. A number of a dtype that has no whole numbers of up to 64 bits is read as the nearest float.

A class is a set of values to which every measure gives the same steps, known by a test on a value. Values that are
missing have a class of their own, the last.
"""

import abc
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Indices
from pufferflow.core.dtypes import type_name
from pufferflow.core.errors import UsageError
from pufferflow.core.rounding import float_below
from pufferflow.core.validate import quoted
from pufferflow.engines.totals import (
    Above,
    ByLabels,
    ByLimits,
    Clipped,
    Float,
    Numbering,
    OneOf,
    Part,
    Present,
    Text,
    Total,
    Value,
    WholeNumber,
)
from pufferflow.models.domain import Bins, Domain, Interval
from pufferflow.queries.expressions.refusals import short

WIDE = frozenset({pl.Int128, pl.UInt128}) if hasattr(pl, "UInt128") else frozenset({pl.Int128})


def labelled(domain: Domain) -> bool:
    """Whether private values are labels; classes of numbers may have labels for names, and are none."""
    return not isinstance(domain.present, Bins | Interval) and domain.labelled


def check_column(column: str, dtype: pl.DataType, domain: Domain) -> None:
    """Refuse a private column whose dtype cannot hold values of the domain; every other one can be read."""
    if labelled(domain):
        fits = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
        allowed, better = "String, Categorical or Enum for labels", "String"
    else:
        fits = dtype.is_numeric() or dtype == pl.Boolean
        allowed, better = "a numeric or Boolean dtype for numbers", "Float64"
    if not fits and dtype != pl.Null:
        instead = f"frame.with_columns(pl.col({quoted(column)}).cast(pl.{better}))"
        raise UsageError(f"The column {quoted(column)} is {short(type_name(dtype))}.", allowed=allowed, instead=instead)


def clean_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype in which numbers of a column are compared."""
    if dtype == pl.Boolean:
        return pl.UInt8()
    return dtype if dtype.is_integer() and type(dtype) not in WIDE else pl.Float64()


CLASS: Final = pl.UInt32


@dataclass(frozen=True)
class Classes(abc.ABC):
    """Base: how a private value is read, and the place in the domain of each class; the last is that of `missing`."""

    value: Value
    places: tuple[int, ...]

    @property
    @abc.abstractmethod
    def few(self) -> int:
        """Up to how many classes a test for each is quicker than numbering the rows' classes (measured)."""

    @property
    @abc.abstractmethod
    def numbering(self) -> Numbering:
        """The number of the class of each row."""

    @property
    @abc.abstractmethod
    def tests(self) -> tuple[Total, ...]:
        """The counts of a cell from which, with its number of rows, follow the rows of each class."""

    @abc.abstractmethod
    def counts(self, tested: Array, rows: Array) -> Array:
        """Return the rows of each class, from the counts of the tests."""

    @abc.abstractmethod
    def number(self) -> pl.Expr:
        """Return the number of the class of each row, in Polars."""


@final
@dataclass(frozen=True)
class Ordered(Classes):
    """Numbers: a class for each stretch between growing limits; a limit belongs to the class below it."""

    value: WholeNumber | Float
    limits: tuple[float, ...]

    @property
    def dtype(self) -> pl.DataType:
        """The dtype in which numbers are compared."""
        return self.value.dtype if isinstance(self.value, WholeNumber) else pl.Float64()

    @property
    def numbering(self) -> ByLimits:
        return ByLimits(self.value, self.limits)

    @property
    def few(self) -> int:  # clipping gives numbers quickly, searching does not
        return 8 if self.consecutive else 64

    @property
    def tests(self) -> tuple[Total, ...]:
        return Present(), *(Above(limit, self.dtype) for limit in self.limits)

    def counts(self, tested: Array, rows: Array) -> Array:
        between = -np.diff(tested, axis=1, append=0)
        return np.hstack([between, (rows - tested[:, 0])[:, None]])

    @property
    def consecutive(self) -> bool:
        """Whether every whole number from the first limit to the one after the last is a class."""
        steps = all(high - low == 1 for low, high in itertools.pairwise(self.limits))
        return self.dtype.is_integer() and bool(self.limits) and steps

    def clipped(self, part: Part = "all") -> Clipped:
        """Return the first limit plus the number of the class, for consecutive limits; both ends are of the dtype."""
        return Clipped(part, int(self.limits[0]), int(self.limits[-1]) + 1, self.dtype)

    def number(self) -> pl.Expr:
        missing, clean = self.numbering.missing, self.value.read()
        if self.consecutive:
            return (self.clipped().number(clean) - self.limits[0]).cast(CLASS).fill_null(missing)
        limits = pl.Series(self.limits, dtype=self.dtype).to_numpy()

        def search(values: pl.Series) -> pl.Series:
            numbers = values.rename("number")  # Polars would read some names as patterns of column names
            places = np.searchsorted(limits, numbers.fill_null(0).to_numpy()).astype(np.uint32)
            places[numbers.is_null().to_numpy()] = missing
            return pl.Series(places)

        search(pl.Series([], dtype=self.dtype))  # what Polars loads when first used, its threads would race for
        return clean.map_batches(search, return_dtype=CLASS(), is_elementwise=True)


@final
@dataclass(frozen=True)
class Named(Classes):
    """Labels: a class for each group of them; all other labels are missing."""

    value: Text
    groups: tuple[tuple[str, ...], ...]

    @property
    def few(self) -> int:
        return 32

    @property
    def numbering(self) -> ByLabels:
        return ByLabels(self.value, self.groups)

    @property
    def tests(self) -> tuple[Total, ...]:
        return tuple(OneOf(group) for group in self.groups)

    def counts(self, tested: Array, rows: Array) -> Array:
        return np.hstack([tested, (rows - tested.sum(axis=1))[:, None]])

    def number(self) -> pl.Expr:
        numbers = {label: place for place, group in enumerate(self.groups) for label in group}
        return self.value.read().replace_strict(numbers, default=self.numbering.missing, return_dtype=CLASS())


def classes_of(column: str, dtype: pl.DataType, domain: Domain, missing: int, steps: Array) -> Classes:
    """Return the classes that measures with these steps, of shape (measures, points), distinguish.

    `missing` is the place of the value that null, NaN and unknown labels are read as.
    """
    if labelled(domain):
        return _named(column, cast(Sequence[str], domain.points), missing, steps)
    domain, dtype = domain.present, clean_dtype(dtype)
    below, above = _neighbours(domain)
    differ = (steps[:, below] != steps[:, above]).any(axis=0)
    below, above = below[differ], above[differ]
    places = [int(below[0]) if len(below) else 0, *above.tolist()]
    limits = _limits(domain, below, above, dtype)
    if dtype.is_integer():  # without the limits that a whole number of this dtype is always above, or never
        ends = np.iinfo(str(dtype).lower())
        least, most = int(ends.min), int(ends.max)
        first = sum(limit < least for limit in limits)
        last = sum(limit < most for limit in limits)
        limits, places = limits[first:last], places[first : last + 1]
    value = WholeNumber(column, dtype) if dtype.is_integer() else Float(column)
    return Ordered(value, (*places, missing), tuple(limits))


def _neighbours(domain: Domain) -> tuple[Indices, Indices]:
    """Return the places of the values on both sides of each bound, from low to high."""
    if isinstance(domain, Bins):
        order = np.arange(len(domain.points))
    else:
        order = np.argsort(np.array(domain.points, dtype=np.float64), kind="stable")
    return order[:-1], order[1:]


def _limits(domain: Domain, below: Indices, above: Indices, dtype: pl.DataType) -> list[float]:
    """Return the largest number of the dtype that is read as the value below, for each pair of neighbours.

    Between two values of a list that is the middle, which counts as the lower one; an edge counts as the class above.
    """
    if isinstance(domain, Bins):
        inner = domain.edges if domain.open else domain.edges[1:-1]
        edges: list[int] = below.tolist()
        return [_limit(Fraction(inner[place]), dtype, reached=True) for place in edges]
    if dtype.is_integer() and set(map(type, domain.points)) == {int}:
        whole = np.array(domain.points, dtype=np.int64)  # below 2^53
        return ((whole[below] + whole[above]) // 2).tolist()
    numbers = [Fraction(cast(float, point)) for point in domain.points]
    pairs: list[tuple[int, int]] = list(zip(below.tolist(), above.tolist(), strict=True))
    return [_limit((numbers[a] + numbers[b]) / 2, dtype, reached=False) for a, b in pairs]


def _limit(bound: Fraction, dtype: pl.DataType, *, reached: bool) -> float:
    """Return the largest number of the dtype that is not above a bound, or below it if the bound is reached."""
    if dtype.is_integer():
        whole = math.floor(bound)
        return whole - 1 if reached and whole == bound else whole
    number = float_below(bound)
    return math.nextafter(number, -math.inf) if reached and number == bound else number


def _named(column: str, labels: Sequence[str], missing: int, steps: Array) -> Named:
    """Group the labels that no measure distinguishes; those like `missing` need no test."""
    _, first, group_of = np.unique(steps, axis=1, return_index=True, return_inverse=True)
    group_of = group_of.reshape(-1)
    groups = [place for place in range(len(first)) if place != group_of[missing]]
    members = tuple(tuple(label for label, of in zip(labels, group_of, strict=True) if of == group) for group in groups)
    return Named(Text(column), (*(int(first[group]) for group in groups), missing), members)
