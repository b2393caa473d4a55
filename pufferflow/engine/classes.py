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

from pufferflow.arguments import shown
from pufferflow.arrays import Array
from pufferflow.dtypes import type_name
from pufferflow.errors import Misuse
from pufferflow.expressions import short, unsorted
from pufferflow.rounding import float_below
from pufferflow.scenario import Bins, Domain, Interval, Label

WIDE = frozenset({pl.Int128, pl.UInt128}) if hasattr(pl, "UInt128") else frozenset({pl.Int128})


def labelled(domain: Domain) -> bool:
    """Whether private values are labels; classes of numbers may have labels for names, and are none."""
    return not isinstance(domain, Bins | Interval) and any(isinstance(point, str) for point in domain.points)


def check_column(column: str, dtype: pl.DataType, domain: Domain) -> None:
    """Refuse a private column whose dtype cannot hold values of the domain; every other one can be read."""
    if labelled(domain):
        fits = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
        allowed, better = "String, Categorical or Enum for labels", "String"
    else:
        fits = dtype.is_numeric() or dtype == pl.Boolean
        allowed, better = "a numeric or Boolean dtype for numbers", "Float64"
    if not fits and dtype != pl.Null:
        instead = f"frame.with_columns(pl.col({shown(column)}).cast(pl.{better}))"
        raise Misuse(f"The column {shown(column)} is {short(type_name(dtype))}.", allowed=allowed, instead=instead)


def clean_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return the dtype in which numbers of a column are compared."""
    if dtype == pl.Boolean:
        return pl.UInt8()
    return dtype if dtype.is_integer() and type(dtype) not in WIDE else pl.Float64()


def number_or_null(column: str, dtype: pl.DataType) -> pl.Expr:
    """Return the numbers of a column, null where there is none."""
    number = unsorted(column).cast(clean_dtype(dtype))
    return number.fill_nan(None) if clean_dtype(dtype).is_float() else number


def label_or_null(column: str) -> pl.Expr:
    """Return the labels of a column as text."""
    return unsorted(column).cast(pl.String)


def inside(column: str, domain: Interval, missing: Label) -> pl.Expr:
    """Return the numbers of a column as floats of the interval."""
    number = unsorted(column).cast(pl.Float64)
    instead = min(max(float(missing), domain.low), domain.high)
    is_number = number.is_not_nan()  # null for null, which is not true either
    return pl.when(is_number).then(number.clip(domain.low, domain.high)).otherwise(instead)


CLASS: Final = pl.UInt32


@dataclass(frozen=True)
class Classes(abc.ABC):
    """Base: the private column, cleaned, and the place in the domain of each class; the last is that of `missing`."""

    clean: pl.Expr
    places: tuple[int, ...]

    @property
    @abc.abstractmethod
    def few(self) -> int:
        """Up to how many classes a test for each is quicker than numbering the rows' classes (measured)."""

    @abc.abstractmethod
    def tests(self, clean: pl.Expr) -> list[pl.Expr]:
        """Return the counts of a cell from which, with its number of rows, follow the rows of each class."""

    @abc.abstractmethod
    def counts(self, tested: Array, rows: Array) -> Array:
        """Return the rows of each class, from the counts of the tests."""

    @abc.abstractmethod
    def number(self) -> pl.Expr:
        """Return the number of the class of each row."""


@final
@dataclass(frozen=True)
class Ordered(Classes):
    """Numbers: a class for each stretch between growing limits; a limit belongs to the class below it."""

    limits: tuple[float, ...]
    dtype: pl.DataType

    @property
    def few(self) -> int:  # clipping gives numbers quickly, searching does not
        return 8 if self.consecutive else 64

    def tests(self, clean: pl.Expr) -> list[pl.Expr]:
        above = [(clean > pl.lit(limit, dtype=self.dtype)).sum() for limit in self.limits]
        return [clean.count(), *above]

    def counts(self, tested: Array, rows: Array) -> Array:
        between = -np.diff(tested, axis=1, append=0)
        return np.hstack([between, (rows - tested[:, 0])[:, None]])

    @property
    def consecutive(self) -> bool:
        """Whether every whole number from the first limit to the one after the last is a class."""
        steps = all(high - low == 1 for low, high in itertools.pairwise(self.limits))
        return self.dtype.is_integer() and bool(self.limits) and steps

    def clipped(self, clean: pl.Expr) -> pl.Expr:
        """Return the first limit plus the number of the class, for consecutive limits; both ends are of the dtype."""
        low, high = (pl.lit(limit, dtype=self.dtype) for limit in (self.limits[0], self.limits[-1] + 1))
        return clean.clip(low, high).cast(pl.Int64)  # the domain's whole numbers are below 2^54

    def number(self) -> pl.Expr:
        missing = len(self.limits) + 1
        if self.consecutive:
            return (self.clipped(self.clean) - self.limits[0]).cast(CLASS).fill_null(missing)
        limits = pl.Series(self.limits, dtype=self.dtype).to_numpy()

        def search(values: pl.Series) -> pl.Series:
            numbers = values.rename("number")  # Polars would read some names as patterns of column names
            places = np.searchsorted(limits, numbers.fill_null(0).to_numpy()).astype(np.uint32)
            places[numbers.is_null().to_numpy()] = missing
            return pl.Series(places)

        search(pl.Series([], dtype=self.dtype))  # what Polars loads when first used, its threads would race for
        return self.clean.map_batches(search, return_dtype=CLASS(), is_elementwise=True)


@final
@dataclass(frozen=True)
class Named(Classes):
    """Labels: a class for each group of them; all other labels are missing."""

    groups: tuple[tuple[str, ...], ...]

    @property
    def few(self) -> int:
        return 32

    def tests(self, clean: pl.Expr) -> list[pl.Expr]:
        return [(clean == group[0] if len(group) == 1 else clean.is_in(list(group))).sum() for group in self.groups]

    def counts(self, tested: Array, rows: Array) -> Array:
        return np.hstack([tested, (rows - tested.sum(axis=1))[:, None]])

    def number(self) -> pl.Expr:
        numbers = {label: place for place, group in enumerate(self.groups) for label in group}
        return self.clean.replace_strict(numbers, default=len(self.groups), return_dtype=CLASS())


def classes_of(column: str, dtype: pl.DataType, domain: Domain, missing: int, steps: Array) -> Classes:
    """Return the classes that measures with these steps, of shape (measures, points), distinguish.

    `missing` is the place of the value that null, NaN and unknown labels are read as.
    """
    if labelled(domain):
        return _named(column, cast(Sequence[str], domain.points), missing, steps)
    clean, dtype = number_or_null(column, dtype), clean_dtype(dtype)
    bounds = [bound for bound in _bounds(domain) if (steps[:, bound.below] != steps[:, bound.above]).any()]
    places = [bounds[0].below if bounds else 0, *(bound.above for bound in bounds)]
    limits = [_limit(bound, dtype) for bound in bounds]
    if dtype.is_integer():  # without the limits that a whole number of this dtype is always above, or never
        ends = np.iinfo(str(dtype).lower())
        first = sum(limit < int(ends.min) for limit in limits)
        last = sum(limit < int(ends.max) for limit in limits)
        limits, places = limits[first:last], places[first : last + 1]
    return Ordered(clean, (*places, missing), tuple(limits), dtype)


@dataclass(frozen=True)
class _Bound:
    """Where one value of a domain ends and the next begins; `reached` says that the next one has the bound itself."""

    at: Fraction
    below: int
    above: int
    reached: bool


def _bounds(domain: Domain) -> list[_Bound]:
    if isinstance(domain, Bins):
        inner = domain.edges if domain.open else domain.edges[1:-1]
        return [_Bound(Fraction(edge), place, place + 1, reached=True) for place, edge in enumerate(inner)]
    numbers = [Fraction(cast(float, point)) for point in domain.points]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return [_Bound((numbers[a] + numbers[b]) / 2, a, b, reached=False) for a, b in itertools.pairwise(order)]


def _limit(bound: _Bound, dtype: pl.DataType) -> float:
    """Return the largest number of the dtype that is not above a bound, or below it if the bound is reached."""
    if dtype.is_integer():
        whole = math.floor(bound.at)
        return whole - 1 if bound.reached and whole == bound.at else whole
    number = float_below(bound.at)
    return math.nextafter(number, -math.inf) if bound.reached and number == bound.at else number


def _named(column: str, labels: Sequence[str], missing: int, steps: Array) -> Named:
    """Group the labels that no measure distinguishes; those like `missing` need no test."""
    _, first, group_of = np.unique(steps, axis=1, return_index=True, return_inverse=True)
    group_of = group_of.reshape(-1)
    groups = [place for place in range(len(first)) if place != group_of[missing]]
    members = tuple(tuple(label for label, of in zip(labels, group_of, strict=True) if of == group) for group in groups)
    return Named(label_or_null(column), (*(int(first[group]) for group in groups), missing), members)
