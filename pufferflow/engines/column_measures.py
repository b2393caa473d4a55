"""How the measures of one private column are read in a pass over the rows: three methods, and the choice of one.

- *By line*: φ is a formula on an interval; its steps are added up.
- *By place*: φ is affine in the place of consecutive whole numbers; the clipped numbers are added up.
- *By class*: all else on a finite domain. The rows of each class are counted: by one test for each while classes are
  few, else as groups of their own. All measures of the column are arithmetic on these counts.

The choice depends on domain, dtype and measures, never on the rows. All sums are exact: Polars counts the rows
of a frame in 32 bits, so fewer than 2^32 rows are in all cells together. Steps below 2^29 give sums below 2^61, which
fit into 64 bits with a margin. Larger steps are split into two parts of 20 bits: either part's sums are
below 2^53, and Python's whole numbers put them together. Which of the two it is depends on the steps alone, never on a
count.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

import numpy as np
import polars as pl
import scipy  # loads its parts when first used

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.core.validate import quoted
from pufferflow.engines.totals import HALF, FloatInside, Part, Present, Steps, Total, Value
from pufferflow.engines.tuple_classes import tuple_classes
from pufferflow.engines.value_classes import Classes, Ordered, check_column, classes_of
from pufferflow.models.domain import Interval
from pufferflow.models.product import Product
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints

MOST_ROWS: Final = 2**32
"""The number of rows is below this."""
MOST_STEPS: Final = 2**40
"""Steps of a table; beyond them a sum cannot be proven to be exact."""
SMALL: Final = 2**29
"""Steps below this give sums of 64 bits."""
_HALF: Final = 20


def bounded_rows() -> None:
    """Refuse a build of Polars whose frames may have 2^32 rows and more: every proof of an exact sum starts there."""
    if pl.get_index_type() != pl.UInt32:
        raise UsageError(
            "This build of Polars counts rows in 64 bits, so that no sum is proven to fit.",
            allowed="the usual build, which counts them in 32",
            instead="pip install polars",
        )


Sparse = Any
"""A sparse array of SciPy's."""
_FEW_PRODUCTS: Final = 2**18


def weighted(counts: Array | Sparse, steps: Array, *, wide: bool = False) -> Array:
    """Return counts @ steps, for counts ≥ 0 of shape (cells, classes) that sum to less than 2^32, or 2^46 if `wide`.

    Other counts are allowed where the caller proves that their products fit. The result has 64 bits if the steps are
    small, else it holds Python's whole numbers.

    >>> weighted(np.array([[2**31, 1]]), np.array([[2**40], [1]]))
    array([[2361183241434822606849]], dtype=object)
    """
    if wide and counts.dtype == object:
        return np.asarray(counts) @ steps.astype(object)
    if wide:
        high, low = _halves(counts)
        return weighted(high, steps).astype(object) * 2**_HALF + weighted(low, steps)
    if not (np.abs(steps) >= SMALL).any():
        return _product(counts, steps)
    high, low = steps >> _HALF, steps & (2**_HALF - 1)
    return _product(counts, high).astype(object) * 2**_HALF + _product(counts, low)


def _halves(counts: Array | Sparse) -> tuple[Array | Sparse, Array | Sparse]:
    """Return the high and the low bits of counts; a million low ones still sum to less than 2^40."""
    if isinstance(counts, np.ndarray):
        return counts >> _HALF, counts & (2**_HALF - 1)
    high, low = counts.copy(), counts.copy()
    high.data, low.data = counts.data >> _HALF, counts.data & (2**_HALF - 1)
    return high, low


def _product(counts: Array | Sparse, steps: Array) -> Array:
    """Return the product; large tables are mostly 0, which need not be multiplied."""
    if isinstance(counts, np.ndarray) and counts.size * steps.shape[1] <= _FEW_PRODUCTS:
        return counts.astype(np.int64) @ steps.astype(np.int64)
    product: Any = counts @ scipy.sparse.csr_array(steps)
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.int64)


_FEWEST: Final = 4
"""The number of classes from which on a sum of clipped numbers is quicker than a test for each (measured)."""
_MOST_LINED: Final = 2**30


@dataclass(frozen=True, eq=False)
class ColumnReading(abc.ABC):
    """Base: how a row's value is read, the totals of a cell, and its sums, which follow from them.

    `wide` says that there may be more rows than 2^32, and up to 2^46.
    """

    measures: tuple[int, ...]
    """The places of the column's measures among all."""
    wide: bool

    @property
    @abc.abstractmethod
    def value(self) -> Value:
        """How the value of a row is read, once for all totals."""

    @property
    @abc.abstractmethod
    def totals(self) -> tuple[Total, ...]:
        """The counts and sums of a cell; every total is below 2^62."""

    @abc.abstractmethod
    def sums(self, totals: Array, rows: Array) -> Array:
        """Return the sums of the measures, of shape (cells, measures)."""


@final
@dataclass(frozen=True, eq=False)
class ByLine(ColumnReading):
    """Steps of φ at a number of an interval, added up: fewer than 2^32 rows of at most 2^30 steps stay within 2^62."""

    missing: float
    values: tuple[OnInterval, ...]

    @property
    def value(self) -> FloatInside:
        first = self.values[0]
        domain = cast(Interval, first.domain)
        low, high = domain.low, domain.high
        return FloatInside(first.column, low, high, self.missing)

    @property
    def totals(self) -> tuple[Total, ...]:
        return tuple(Steps(part, line.formula) for line in self.values for part in _parts(wide=self.wide))

    def sums(self, totals: Array, rows: Array) -> Array:
        lows = np.array([line.low for line in self.values], dtype=np.int64)
        return _whole(totals, lows, rows) if self.wide else totals


@final
@dataclass(frozen=True, eq=False)
class ByPlace(ColumnReading):
    """Whole numbers below 2^29, clipped to the domain and added up: fewer than 2^32 rows stay below 2^61."""

    classes: Ordered
    steps: Array
    """At the lowest class, from one class to the next, and where values are missing."""

    @property
    def value(self) -> Value:
        return self.classes.value

    @property
    def totals(self) -> tuple[Total, ...]:
        return Present(), *(self.classes.clipped(part) for part in _parts(wide=self.wide))

    def sums(self, totals: Array, rows: Array) -> Array:
        present, lowest = totals[:, 0], int(self.classes.limits[0])
        if self.wide:
            places = _whole(totals[:, 1:], np.zeros(1, dtype=np.int64), present)[:, 0]
        else:
            places = totals[:, 1] - lowest * present
        return weighted(np.stack([present, places, rows - present], axis=1), self.steps, wide=self.wide)


@final
@dataclass(frozen=True, eq=False)
class ByClass(ColumnReading):
    """Rows counted for each class of a finite domain."""

    classes: Classes
    steps: Array
    """Of shape (classes, measures)."""

    @property
    def many(self) -> bool:
        """Whether the classes become groups of their own."""
        return len(self.classes.places) > self.classes.few

    @property
    def value(self) -> Value:
        return self.classes.value

    @property
    def totals(self) -> tuple[Total, ...]:
        return self.classes.tests

    def sums(self, totals: Array, rows: Array) -> Array:
        return weighted(self.classes.counts(totals, rows), self.steps, wide=self.wide)


def _parts(*, wide: bool) -> tuple[Part, ...]:
    return ("high", "low") if wide else ("all",)


def _whole(parts: Array, lows: Array, rows: Array) -> Array:
    """Return sums of numbers from the sums of their high and low parts, which were counted from `lows`."""
    high, low = parts[:, ::2].astype(object), parts[:, 1::2].astype(object)
    return high * 2**HALF + low + lows.astype(object) * rows.astype(object)[:, None]


def columns_of(schema: pl.Schema, measures: Sequence[Measure], *, wide: bool = False) -> list[ColumnReading]:
    """Return the reading of every column that has measures."""
    places: dict[Any, list[int]] = {}
    for place, measure in enumerate(measures):
        places.setdefault((measure.values.column, measure.values.domain, measure.missing), []).append(place)
    return [_column(schema, measures, tuple(own), wide=wide) for own in places.values()]


def _column(schema: pl.Schema, measures: Sequence[Measure], own: tuple[int, ...], *, wide: bool) -> ColumnReading:
    first = measures[own[0]]
    column, domain = first.values.column, first.values.domain
    values = [measures[place].values for place in own]
    if isinstance(domain, Product):
        steps = np.array([cast(OnPoints, value).steps for value in values], dtype=np.int64)
        tuples = tuple_classes(schema, domain)
        return ByClass(own, wide, tuples, steps[:, list(tuples.places)].T)
    dtype = schema[column]
    check_column(column, dtype, domain)
    if isinstance(domain, Interval):
        lines = tuple(value for value in values if isinstance(value, OnInterval) and _bounded(value, _MOST_LINED))
        if len(lines) == len(values):
            missing = domain.beyond if domain.skips else min(max(float(first.missing), domain.low), domain.high)
            return ByLine(own, wide, missing, lines)
    tables = [value.steps for value in values if isinstance(value, OnPoints) and _bounded(value, MOST_STEPS)]
    if len(tables) < len(values) or not domain.finite:
        raise UsageError(
            f"The steps of {quoted(column)} are too large for sums that are proven to be exact.",
            allowed="2^30 steps",
        )
    steps = np.array(tables, dtype=np.int64)
    classes = classes_of(column, dtype, domain, domain.place(first.missing, "missing"), steps)
    by_class = steps[:, list(classes.places)].T
    affine = _affine(classes, by_class)
    if isinstance(classes, Ordered) and affine is not None:
        return ByPlace(own, wide, classes, affine)
    return ByClass(own, wide, classes, by_class)


def _bounded(values: OnInterval | OnPoints, most: int) -> bool:
    return max(abs(values.low), abs(values.high)) <= most


def _affine(classes: Classes, steps: Array) -> Array | None:
    """Return the affine functions of the place that the steps are, if sums of places are quick and cannot overflow.

    With numbers and steps below 2^29 all products are below 2^62: fewer than 2^32 rows, |from end to end| ≤ 2^30.
    """
    if len(classes.places) <= _FEWEST + 1 or not isinstance(classes, Ordered) or not classes.consecutive:
        return None
    small = max(abs(classes.limits[0]), abs(classes.limits[-1]) + 1) < SMALL and bool((np.abs(steps) < SMALL).all())
    rises = np.diff(steps[:-1], axis=0)
    if not small or (rises != rises[0]).any():
        return None
    return np.stack([steps[0], rises[0], steps[-1]])
