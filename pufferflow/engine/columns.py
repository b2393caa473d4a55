"""How the measures of one private column are read in a pass over the rows: three methods, and the choice of one.

- *By line*: φ is a formula on an interval; its steps are added up.
- *By place*: φ is affine in the place of consecutive whole numbers; the clipped numbers are added up.
- *By class*: all else on a finite domain. The rows of each class are counted: by one test for each while classes are
  few, else as groups of their own. All measures of the column are arithmetic on these counts.

The choice depends on domain, dtype and measures, never on the rows. All sums are exact: Polars counts the rows
of a frame in 32 bits, so fewer than 2^32 rows are in all cells together. Steps below 2^29 give sums below 2^61, which
64 bits hold with room for what lies between. Larger steps are split into two parts of 20 bits: either part's sums are
below 2^53, and Python's whole numbers put them together. Which of the two it is depends on the steps alone, never on a
count.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import polars as pl
from scipy.sparse import csr_array

from pufferflow.arguments import shown
from pufferflow.arrays import Array
from pufferflow.engine.classes import Classes, Ordered, check_column, classes_of, inside
from pufferflow.engine.engine import Measure
from pufferflow.errors import Misuse
from pufferflow.expressions import OnInterval, OnPoints
from pufferflow.scenario import Interval

MOST_ROWS: Final = 2**32
"""There are fewer rows."""
MOST_STEPS: Final = 2**40
"""Steps of a table; beyond them a sum cannot be proven to be exact."""
SMALL: Final = 2**29
"""Steps below this give sums of 64 bits."""
_HALF: Final = 20


def bounded_rows() -> None:
    """Refuse a build of Polars whose frames may have 2^32 rows and more: every proof of an exact sum starts there."""
    if pl.get_index_type() != pl.UInt32:
        raise Misuse(
            "This build of Polars counts rows in 64 bits, so that no sum is proven to fit.",
            allowed="the usual build, which counts them in 32",
            instead="pip install polars",
        )


def weighted(counts: Array | csr_array, steps: Array) -> Array:
    """Return counts @ steps, for counts ≥ 0 of shape (cells, classes) that sum to less than 2^32.

    Other counts are allowed where the caller proves that their products fit. The result has 64 bits if the steps are
    small, else it holds Python's whole numbers.

    >>> weighted(np.array([[2**31, 1]]), np.array([[2**40], [1]]))
    array([[2361183241434822606849]], dtype=object)
    """
    if not (np.abs(steps) >= SMALL).any():
        return _product(counts, steps)
    high, low = steps >> _HALF, steps & (2**_HALF - 1)
    return _product(counts, high).astype(object) * 2**_HALF + _product(counts, low)


def _product(counts: Array | csr_array, steps: Array) -> Array:
    """Return the product; many tables are mostly 0, which need not be multiplied."""
    product: Any = counts @ csr_array(steps)
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.int64)


_FEWEST: Final = 4
"""From so many classes on a sum of clipped numbers is quicker than a test for each (measured)."""
_MOST_LINED: Final = 2**30


@dataclass(frozen=True, eq=False)
class ColumnReading(abc.ABC):
    """Base: `clean` is worked out once for each row; from it come the `totals` of a cell, and from them its sums."""

    measures: tuple[int, ...]
    """The places of the column's measures among all."""
    clean: pl.Expr

    @abc.abstractmethod
    def totals(self, clean: pl.Expr) -> list[pl.Expr]:
        """Return the counts and sums of a cell; every total is below 2^62."""

    @abc.abstractmethod
    def sums(self, totals: Array, rows: Array) -> Array:
        """Return the sums of the measures, of shape (cells, measures)."""


@final
@dataclass(frozen=True, eq=False)
class ByLine(ColumnReading):
    """Steps of φ at a number of an interval, added up: fewer than 2^32 rows of at most 2^30 steps stay within 2^62."""

    values: tuple[OnInterval, ...]

    def totals(self, clean: pl.Expr) -> list[pl.Expr]:
        return [line.read(clean).sum() for line in self.values]

    def sums(self, totals: Array, rows: Array) -> Array:
        return totals


@final
@dataclass(frozen=True, eq=False)
class ByPlace(ColumnReading):
    """Whole numbers below 2^29, clipped to the domain and added up: fewer than 2^32 rows stay below 2^61."""

    classes: Ordered
    steps: Array
    """At the lowest class, from one class to the next, and where values are missing."""

    def totals(self, clean: pl.Expr) -> list[pl.Expr]:
        return [clean.count(), self.classes.clipped(clean).sum()]

    def sums(self, totals: Array, rows: Array) -> Array:
        present, added = totals.T
        places = added - int(self.classes.limits[0]) * present
        return weighted(np.stack([present, places, rows - present], axis=1), self.steps)


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

    def totals(self, clean: pl.Expr) -> list[pl.Expr]:
        return self.classes.tests(clean)

    def sums(self, totals: Array, rows: Array) -> Array:
        return weighted(self.classes.counts(totals, rows), self.steps)


def columns_of(schema: pl.Schema, measures: Sequence[Measure]) -> list[ColumnReading]:
    """Return the reading of every column that has measures."""
    places: dict[Any, list[int]] = {}
    for place, measure in enumerate(measures):
        places.setdefault((measure.values.column, measure.values.domain, measure.missing), []).append(place)
    return [_column(schema, measures, tuple(own)) for own in places.values()]


def _column(schema: pl.Schema, measures: Sequence[Measure], own: tuple[int, ...]) -> ColumnReading:
    first = measures[own[0]]
    column, domain = first.values.column, first.values.domain
    dtype = schema[column]
    check_column(column, dtype, domain)
    values = [measures[place].values for place in own]
    if isinstance(domain, Interval):
        lines = tuple(value for value in values if isinstance(value, OnInterval) and _bounded(value, _MOST_LINED))
        if len(lines) == len(values):
            return ByLine(own, inside(column, domain, first.missing), lines)
    tables = [value.steps for value in values if isinstance(value, OnPoints) and _bounded(value, MOST_STEPS)]
    if len(tables) < len(values) or not domain.finite:
        raise Misuse(f"What is asked of {shown(column)} has steps that no sum is proven to hold.", allowed="2^30 steps")
    steps = np.array(tables, dtype=np.int64)
    classes = classes_of(column, dtype, domain, domain.place(first.missing, "missing"), steps)
    by_class = steps[:, list(classes.places)].T
    affine = _affine(classes, by_class)
    if isinstance(classes, Ordered) and affine is not None:
        return ByPlace(own, classes.clean, classes, affine)
    return ByClass(own, classes.clean, classes, by_class)


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
