"""How the measures of a private column are read in a pass: classes of values or of tuples, and sums of numbers.

How a private value is read, and the classes of values that the measures of a column distinguish.

A number outside the domain is read as the nearest value, the lower one of two; ±∞ as an outermost one. Null, NaN and
unknown labels are `missing`. The rules depend on the declared domain and on the dtype of the column; no value can
make them fail. A number of a dtype that has no whole numbers of up to 64 bits is read as the nearest float.

A class is a set of values to which every measure gives the same steps, known by a test on a value. Values that are
missing have a class of their own, the last.

The classes of tuples of values, for functions of several private columns: those of each column, numbered jointly.

Rows are counted for every tuple that there is; the function is arithmetic on these counts.

How the measures of one private column are read in a pass over the rows: three methods, and the choice of one.

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
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, Final, cast, final

import numpy as np
import polars as pl
import scipy  # loads its parts when first used

from pufferflow.core.arrays import Array, Indices
from pufferflow.core.errors import InternalError, UsageError
from pufferflow.core.rounding import float_below
from pufferflow.core.tables import type_name
from pufferflow.core.validate import quoted
from pufferflow.engines.backend import (
    HALF,
    Above,
    ByLabels,
    ByLimits,
    ByTuples,
    Clipped,
    Float,
    FloatInside,
    Numbering,
    OneOf,
    Part,
    Present,
    Steps,
    Text,
    Total,
    Value,
    WholeNumber,
)
from pufferflow.models.domain import Bins, Domain, Interval, Label, Product
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.tree import short

WIDE = frozenset({pl.Int128, pl.UInt128}) if hasattr(pl, "UInt128") else frozenset({pl.Int128})


def labelled(domain: Domain) -> bool:
    """Whether private values are labels; classes of numbers may have labels for names, and are none."""
    return not isinstance(domain.present, Bins | Interval) and domain.labelled


def check_column(column: str, dtype: pl.DataType, domain: Domain) -> None:
    """Refuse a private column whose dtype cannot hold values of the domain."""
    if labelled(domain):
        fits = dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)
        allowed, better = "String, Categorical or Enum for labels", "String"
    else:
        fits = dtype.is_numeric() or dtype == pl.Boolean
        allowed, better = "a numeric or Boolean dtype for numbers", "Float64"
    if not fits and dtype != pl.Null:
        instead = f"frame.with_columns(pl.col({quoted(column)}).cast(pl.{better}))"
        raise UsageError(
            f"The column {quoted(column)} is {short(type_name(dtype))}.",
            allowed=allowed,
            instead=instead,
        )


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
            numbers = values.rename(
                "number"
            )  # Polars would read some names as patterns of column names
            places = np.searchsorted(limits, numbers.fill_null(0).to_numpy()).astype(np.uint32)
            places[numbers.is_null().to_numpy()] = missing
            return pl.Series(places)

        search(
            pl.Series([], dtype=self.dtype)
        )  # what Polars loads when first used, its threads would race for
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
        return self.value.read().replace_strict(
            numbers, default=self.numbering.missing, return_dtype=CLASS()
        )


def classes_of(
    column: str, dtype: pl.DataType, domain: Domain, missing: int, steps: Array
) -> Classes:
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
    if (
        dtype.is_integer()
    ):  # without the limits that a whole number of this dtype is always above, or never
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
    members = tuple(
        tuple(label for label, of in zip(labels, group_of, strict=True) if of == group)
        for group in groups
    )
    return Named(Text(column), (*(int(first[group]) for group in groups), missing), members)


@final
@dataclass(frozen=True)
class Tuples(Classes):
    """A class for each tuple of classes, one of each column; the last column varies fastest."""

    parts: tuple[Classes, ...]

    @property
    def few(self) -> int:
        return 0

    @property
    def numbering(self) -> ByTuples:
        return ByTuples(self.value, tuple(part.numbering for part in self.parts))

    @property
    def tests(self) -> tuple[Total, ...]:
        raise InternalError("Tuples are counted as groups only.", instead="reporting it")

    def counts(self, tested: Array, rows: Array) -> Array:
        raise InternalError("Tuples are counted as groups only.", instead="reporting it")

    def number(self) -> pl.Expr:
        numbered = ((part.number(), len(part.places)) for part in self.parts)
        return reduce(
            lambda whole, one: whole * pl.lit(one[1], dtype=CLASS) + one[0],
            numbered,
            pl.lit(0, dtype=CLASS),
        )


def tuple_classes(schema: pl.Schema, product: Product) -> Tuples:
    """Return the classes of the tuples of columns of a table; every value of a domain has one."""
    parts = [
        _classes(schema, *own)
        for own in zip(product.columns, product.domains, product.missing, strict=True)
    ]
    sizes = [len(domain.points) for domain in product.domains]
    grids = np.meshgrid(*(np.array(part.places) for part in parts), indexing="ij")
    places = np.ravel_multi_index([grid.ravel() for grid in grids], sizes)
    return Tuples(parts[0].value, tuple(places.tolist()), tuple(parts))


def _classes(schema: pl.Schema, column: str, domain: Domain, missing: Label) -> Classes:
    check_column(column, schema[column], domain)
    distinct = np.eye(len(domain.points), dtype=np.int64)
    return classes_of(column, schema[column], domain, domain.place(missing, "missing"), distinct)


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
    return np.asarray(
        product if isinstance(product, np.ndarray) else product.toarray(), dtype=np.int64
    )


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
        return tuple(
            Steps(part, line.formula) for line in self.values for part in _parts(wide=self.wide)
        )

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
        return weighted(
            np.stack([present, places, rows - present], axis=1), self.steps, wide=self.wide
        )


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


def columns_of(
    schema: pl.Schema, measures: Sequence[Measure], *, wide: bool = False
) -> list[ColumnReading]:
    """Return the reading of every column that has measures; a measure that is a sum over columns is in several."""
    terms = [(place, term) for place, one in enumerate(measures) for term in one.terms]
    columns: dict[Any, list[tuple[int, Measure]]] = {}
    for place, term in terms:
        column = term.values.column, term.values.domain, term.missing
        columns.setdefault(column, []).append((place, term))
    return [_column(schema, own, wide=wide) for own in columns.values()]


def _column(
    schema: pl.Schema, terms: Sequence[tuple[int, Measure]], *, wide: bool
) -> ColumnReading:
    own, first = tuple(place for place, _ in terms), terms[0][1]
    column, domain = first.values.column, first.values.domain
    values = [term.values for _, term in terms]
    if isinstance(domain, Product):
        steps = np.array([cast(OnPoints, value).steps for value in values], dtype=np.int64)
        tuples = tuple_classes(schema, domain)
        return ByClass(own, wide, tuples, steps[:, list(tuples.places)].T)
    dtype = schema[column]
    check_column(column, dtype, domain)
    if isinstance(domain, Interval):
        lines = tuple(
            value
            for value in values
            if isinstance(value, OnInterval) and _bounded(value, _MOST_LINED)
        )
        if len(lines) == len(values):
            missing = (
                domain.beyond
                if domain.skips
                else min(max(float(first.missing), domain.low), domain.high)
            )
            return ByLine(own, wide, missing, lines)
    tables = [
        value.steps
        for value in values
        if isinstance(value, OnPoints) and _bounded(value, MOST_STEPS)
    ]
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
    if (
        len(classes.places) <= _FEWEST + 1
        or not isinstance(classes, Ordered)
        or not classes.consecutive
    ):
        return None
    small = max(abs(classes.limits[0]), abs(classes.limits[-1]) + 1) < SMALL and bool(
        (np.abs(steps) < SMALL).all()
    )
    rises = np.diff(steps[:-1], axis=0)
    if not small or (rises != rises[0]).any():
        return None
    return np.stack([steps[0], rises[0], steps[-1]])
