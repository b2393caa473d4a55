"""The values that a sensitive column can have: a list, an interval, bins or tuples; and how missing values are read.

Several sensitive columns count as one (M53): a row has a tuple of values, each from the domain of its own column. If
any two tuples are indistinguishable, every column is hidden, and so is whatever follows from several of them. Chains,
exposures and accounts therefore treat tuples as they treat the values of one column.
"""

import abc
import itertools
import math
import numbers
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, Final, Literal, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import suggests_arguments
from pufferflow.core.validate import finite_number, in_few_digits, quoted, set_fields
from pufferflow.models.stored import ADDED, StoredPart

Label = str | int | float | bool
MISSING: Final = cast(Label, None)
"""The point of a domain for null and NaN, where they are a state of their own."""
_WHOLE = 2**53
_READABLE = 10**15
_RANGE = re.compile(r"\s*(?P<low>-?\d+)\s*(-|:|\.\.+|to|,)\s*(?P<high>-?\d+)\s*")


class Domain(StoredPart, abc.ABC, family="domain"):
    """Base of the domains: `points` are the values at which a statistic is known (state i of a chain is points[i])."""

    points: tuple[Label, ...]
    finite: bool = True
    """Whether the points are all values; on an interval they are its ends."""

    @property
    def skips(self) -> bool:
        """Whether missing values (null and NaN) are a state of their own, which sums leave out."""
        return False

    @property
    def present(self) -> "Domain":
        """The same domain without the state for missing values."""
        return self

    def check_complete(self, column: str, what: str, allowed: str) -> None:
        """Refuse queries that mean nothing if missing values are left out."""
        if self.skips:
            raise Refused(
                f'{what} {quoted(column)}, whose missing values are left out: missing="skip".',
                allowed=allowed,
                instead=f"missing={self.present.points[0]!r} in the secret, or another value that null is read as",
            )

    @cached_property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        return all(
            issubclass(kind, int | float) and kind is not bool
            for kind in set(map(type, self.points))
        )

    @cached_property
    def labelled(self) -> bool:
        """Whether some value is a text."""
        return any(issubclass(kind, str) for kind in set(map(type, self.points)))

    @cached_property
    def numbers(self) -> Floats:
        """The points as numbers; refused for labels."""
        if not self.numeric:
            raise Refused(
                "Numbers are needed, and the domain has labels.",
                allowed="a domain of numbers, or a statistic that gives each label a number",
                instead="pf.Secret(column, domain=[0, 1, 2]), or a count of one label",
            )
        numbers = np.array(self.points, dtype=np.float64)
        numbers.flags.writeable = False
        return numbers

    @property
    def width(self) -> float:
        """The largest distance between two values."""
        return float(self.numbers.max() - self.numbers.min())

    @abc.abstractmethod
    def describe(self) -> str:
        """Describe the values in words."""

    @cached_property
    def _places(self) -> dict[Label, int]:
        return {point: place for place, point in enumerate(self.points)}

    def place(self, value: object, name: str) -> int:
        """Return the index of one value of a finite domain."""
        try:
            place = self._places.get(cast(Label, value))
        except TypeError:  # not hashable, so no value
            place = None
        if place is None:
            raise UsageError(
                f"{name} is {quoted(value)}, which the domain does not have.",
                allowed=f"one of {_some(self.points)}",
                instead=f"{self.points[0]!r}",
            )
        return place

    def read(self, value: object, name: str, problem: str, instead: str) -> Label:
        """Return a value of the domain; `problem` and `instead` begin the error for one outside an interval."""
        return self.points[self.place(value, name)]


@final
@dataclass(frozen=True)
class Listed(Domain, kind="list"):
    """A list of values, numbers or labels."""

    points: tuple[Label, ...]

    def __post_init__(self) -> None:
        # statistics are worked out in floats, which would take two such numbers for one
        if max((abs(point) for point in self.points if isinstance(point, int)), default=0) > _WHOLE:
            raise UsageError(
                "A whole number lies beyond 2^53, where floats cannot distinguish neighbours.",
                allowed="whole numbers up to 2^53",
                instead="labels, or numbers counted from the smallest",
            )

    def describe(self) -> str:
        return f"one of {_some(self.points)}"

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Listed":
        return listed_values(stored["points"], "domain")


@final
@suggests_arguments
@dataclass(frozen=True, repr=False)
class Interval(Domain, kind="interval"):
    """All numbers from low to high; a release reads what lies outside as the nearer end.

    >>> Interval(0, 10).width
    10.0
    """

    low: float
    high: float
    missing_is_state: bool = field(default=False, kw_only=True, metadata=ADDED)
    finite = False

    def __post_init__(self) -> None:
        allowed, instead = "two finite numbers, low < high", "pf.Interval(0, 10)"
        low = finite_number(self.low, "low", allowed=allowed, instead=instead)
        high = finite_number(self.high, "high", allowed=allowed, instead=instead)
        if not low < high:
            raise UsageError(
                f"The interval goes from {low:g} to {high:g}.", allowed=allowed, instead=instead
            )
        set_fields(self, low=low + 0.0, high=high + 0.0)  # −0.0 is 0.0

    @property
    def points(self) -> tuple[Label, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Both ends."""
        return (self.low, self.high)

    def __repr__(self) -> str:
        """Show the ends, and whether missing values have a state beside them."""
        return (
            f"Interval(low={self.low!r}, high={self.high!r}{', missing is a state' * self.skips})"
        )

    @property
    def skips(self) -> bool:
        return self.missing_is_state

    @property
    def present(self) -> "Interval":
        return Interval(self.low, self.high) if self.skips else self

    @property
    def beyond(self) -> float:
        """The number above the interval that engines read null and NaN as, where they are a state of their own."""
        return math.nextafter(self.high, math.inf)

    @property
    def some_bins(self) -> str:
        """Four bins of equal width as they are typed; fewer where no four numbers lie between the ends."""
        edges = sorted(
            {self.low * (1 - share) + self.high * share for share in (0, 0.25, 0.5, 0.75, 1)}
        )
        brief = [f"{edge:.6g}" for edge in edges]
        distinct = len(set(brief)) == len(brief)
        return f"bins=[{', '.join(brief if distinct else map(in_few_digits, edges))}]"

    def describe(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}{', or missing' if self.skips else ''}"

    def read(self, value: object, name: str, problem: str, instead: str) -> Label:
        if self.skips and value is None:
            return MISSING
        number = finite_number(
            value, name, allowed=self.describe(), instead=f"{instead}{self.low:g}"
        )
        if not self.low <= number <= self.high:
            raise UsageError(
                f"{problem} {number:g}.", allowed=self.describe(), instead=f"{instead}{self.low:g}"
            )
        return number


@final
@suggests_arguments
@dataclass(frozen=True)
class Bins(Domain, kind="bins"):
    """A continuous column read in classes: `values[i]` stands for all numbers from edges[i] up to edges[i + 1].

    With two values more than gaps between edges, the outer classes are open. The first value then stands for all
    numbers below the first edge, the last value for all above the last edge.

    >>> Bins([0, 1, 5], values=[0.5, 3]).points
    (0.5, 3)
    >>> Bins([1, 5], values=[0, 3, 10]).describe()
    'read in 3 classes: below 1, 1 to 5, 5 and more'
    """

    edges: tuple[float, ...]
    values: tuple[Label, ...]

    def __init__(self, edges: Sequence[float], values: Sequence[Label]) -> None:
        allowed = "growing edges, and one value for each class: between the edges, or also below and above them"
        instead = "pf.Bins([0, 1, 5], values=[0.5, 3])"
        if (
            not isinstance(cast(object, edges), Sequence | np.ndarray)
            or isinstance(edges, str)
            or len(edges) == 0
        ):
            raise UsageError("edges is not a list of numbers.", allowed=allowed, instead=instead)
        read = tuple(
            finite_number(edge, "edges", allowed=allowed, instead=instead) for edge in edges
        )
        if any(not low < high for low, high in itertools.pairwise(read)):
            raise UsageError("The edges do not grow.", allowed=allowed, instead=instead)
        points = listed_values(values, "values").points
        if len(points) not in (len(read) - 1, len(read) + 1):
            raise UsageError(
                f"{len(points)} values for {len(read)} edges.", allowed=allowed, instead=instead
            )
        set_fields(self, edges=read, values=points)

    @property
    def points(self) -> tuple[Label, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The value of each class."""
        return self.values

    @property
    def open(self) -> bool:
        """Whether there are classes below the first and above the last edge."""
        return len(self.values) > len(self.edges)

    def describe(self) -> str:
        names = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(self.edges)]
        if self.open:
            names = [f"below {self.edges[0]:g}", *names, f"{self.edges[-1]:g} and more"]
        return f"read in {len(self.values)} classes: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


@final
@dataclass(frozen=True)
class OrMissing(Domain, kind="or missing"):
    """The values of a finite domain, and as the last point a state for missing values (null and NaN).

    >>> OrMissing(Listed((0, 1))).points
    (0, 1, None)
    """

    values: Domain

    @property
    def skips(self) -> bool:
        return True

    @property
    def present(self) -> Domain:
        return self.values

    @cached_property
    def points(self) -> tuple[Label, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The values, then the state for missing ones."""
        return (*self.values.points, MISSING)

    @cached_property
    def numeric(self) -> bool:
        return self.values.numeric

    @cached_property
    def labelled(self) -> bool:
        return self.values.labelled

    @cached_property
    def numbers(self) -> Floats:
        """The values as numbers; a missing value adds nothing."""
        numbers = np.append(self.values.numbers, 0.0)
        numbers.flags.writeable = False
        return numbers

    def describe(self) -> str:
        return f"{self.values.describe()}, or missing"

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "OrMissing":
        return cls(Domain.from_stored(stored["values"]))


SKIP: Final = "skip"
"""What `missing` is where null and NaN are a state of their own."""


def skipping(domain: Domain, missing: object) -> Domain:
    """Return the domain with a state for missing values, if `missing` is "skip" and that is no label of the domain.

    >>> skipping(Interval(0, 1), "skip").describe(), skipping(Listed(("go", "skip")), "skip").skips
    ('a number from 0 to 1, or missing', False)
    """
    if domain.skips or not isinstance(missing, str) or missing != SKIP or missing in domain.points:
        return domain
    if not isinstance(domain, Interval):
        return OrMissing(domain)
    read = Interval(domain.low, domain.high, missing_is_state=True)
    if math.isinf(read.beyond):
        raise UsageError(
            "The interval ends at the largest float; missing values need a number above it.",
            allowed="an end below the largest float",
            instead="other units",
        )
    return read


def read_domain(given: object) -> Domain:
    """Return a domain from a list of values; a tuple of two numbers is refused, since it may mean an interval."""
    if isinstance(given, Domain):
        return given
    if isinstance(given, tuple) and len(ends := cast(tuple[object, ...], given)) == 2:
        _check_not_ends(*ends)
    return listed_values(cast(object, given), "domain")


def listed_values(given: object, name: str) -> Listed:
    """Return the domain of a list or tuple of values."""
    allowed = "a list of two or more different numbers or labels, pf.Interval(low, high) or pf.Bins(edges, values)"
    instead = f"{name}=[0, 1, 2, 3]"
    if isinstance(given, np.ndarray):
        given = cast(Any, given).tolist()
    if isinstance(given, range):
        given = list(given)
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise UsageError(
            f"{name} is {quoted(given)}.", allowed=allowed, instead=_list_instead(given, name)
        )
    values = cast(Sequence[object], given)
    plain = set(map(type, values)) <= {int, str}
    points = tuple(
        cast(Any, values) if plain else (_label(value, name, allowed, instead) for value in values)
    )
    if len(points) < 2 or len(set(points)) < len(points):
        raise UsageError(
            f"{name} has {len(points)} values, {len(set(points))} of them different.",
            allowed=allowed,
            instead=instead,
        )
    if len({issubclass(kind, str) for kind in set(map(type, points))}) > 1:
        raise UsageError(f"{name} mixes numbers and labels.", allowed=allowed, instead=instead)
    return Listed(points)


def _list_instead(given: object, name: str) -> str:
    """Return a suggested list in place of a text, a set, a column or a number."""
    instead = f"{name}=[0, 1, 2, 3], or {name}=pf.Interval(0, 100)"
    ends = _RANGE.fullmatch(given) if isinstance(given, str) else None
    if ends is not None and int(ends["low"]) != int(ends["high"]):
        low, high = sorted((int(ends["low"]), int(ends["high"])))
        instead = f"{name}=pf.Interval({low}, {high}), or a list of all values that there are"
    elif isinstance(given, set | frozenset):
        instead = (
            f"{name}=sorted(values): the order of a list is that of the states, and sets have none"
        )
    elif isinstance(given, Mapping):
        instead = f"{name}=list(values), or pf.Bins(edges, values) for classes"
    elif hasattr(given, "categories"):
        instead = f"{name}=dtype.categories.to_list(), if the categories were declared and not read from the rows"
    elif hasattr(given, "to_list"):
        instead = f"{name}=[0, 1, 2, 3], as constants: values that are read from private rows would reveal them"
    elif (
        isinstance(given, int | float)
        and not isinstance(given, bool)
        and 0 < abs(given) < _READABLE
    ):
        instead = f"{name}=pf.Interval({min(given, 0)}, {max(given, 0)})"
        instead += (
            f", or {name}=list(range({given}))" if isinstance(given, int) and given > 1 else ""
        )
    return instead


def _label(value: object, name: str, allowed: str, instead: str) -> Label:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) <= _WHOLE else number
    if value is None:
        instead = (
            f"{name}=[0, 1, 2, 3] without None, and missing= for the value that null is read as"
        )
    elif isinstance(value, date):
        instead = f'texts, as in {name}=["2026-01-01", "2026-01-02"], or numbers, such as days since some date'
    raise UsageError(
        f"{name} has a value of type {type(value).__name__}"
        + (" that is not finite." if isinstance(value, float) else "."),
        allowed=allowed,
        instead=instead,
    )


def _check_not_ends(first: object, second: object) -> None:
    """Refuse two numbers: ends of an interval, or two values."""
    try:
        numbers_given = sorted(
            finite_number(end, "an end", allowed="", instead="") for end in (first, second)
        )
    except UsageError:  # no two numbers, so no ends
        return
    low, high = (f"{end:.15g}" for end in numbers_given)
    if low != high:
        raise UsageError(
            f"domain is a tuple of two numbers, {low} and {high}: all numbers between them, or these two alone?",
            allowed="pf.Interval(low, high) for all numbers between two, or a list of the values that there are",
            instead=f"domain=pf.Interval({low}, {high}), or domain=[{low}, {high}] for two values",
        )


def _some(points: Sequence[Label]) -> str:
    """Return the first values in words; they are declared, not data."""
    listed = ", ".join(repr(point) for point in points[:6])
    return f"{listed}, … ({len(points)} values)" if len(points) > 6 else listed


MOST_TUPLES: Final = 1024
"""All pairs of them are compared."""
TIMES: Final = " × "
"""The separator between the names of columns in the name of their tuples."""
OneColumn = Literal["one column"]
ONE_COLUMN: Final = "one column"
"""The rule by which two tuples are a pair only if they differ in a single column."""


@final
@dataclass(frozen=True)
class Product(Domain, kind="product"):
    """Tuples of values: the first columns vary slowest, as in `itertools.product`; on intervals points are corners.

    A point is a text, such as "level = 1, ward = 'a'". `missing` has for each column the value that null is read as.

    >>> from pufferflow.models.domain import Listed
    >>> Product(("level", "ward"), (Listed((0, 1)), Listed(("a", "b"))), (0, "a")).points[1]
    "level = 0, ward = 'b'"
    """

    columns: tuple[str, ...]
    domains: tuple[Domain, ...]
    missing: tuple[Label, ...]
    missing_chosen: tuple[bool | None, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        self._check_columns()
        pairs = zip(self.domains, self.missing, strict=True)
        missing = tuple(
            domain.read(value, "missing", "missing is", "missing=") for domain, value in pairs
        )
        set_fields(
            self, missing=missing, missing_chosen=self.missing_chosen or (None,) * len(self.columns)
        )
        self._check_count([domain for domain in self.domains if domain.finite])

    def _check_count(self, domains: Sequence[Domain]) -> None:
        """Refuse more points than can be compared; corners of intervals are only those of queried columns."""
        count = math.prod(len(domain.points) for domain in domains)
        if count > MOST_TUPLES:
            sizes = " × ".join(str(len(domain.points)) for domain in domains)
            raise Refused(
                f"The columns {', '.join(map(repr, self.columns))} have {sizes} = {count:,} tuples of values.",
                allowed=f"at most {MOST_TUPLES:,} of them: all pairs are compared",
                instead="pf.Bins(edges, values) with fewer classes, or pf.Interval(low, high) if rows are independent",
            )

    def _check_columns(self) -> None:
        """Refuse columns that lack a name, a domain or a value for missing ones, as damaged stored ones may."""
        names = [name for name in self.columns if isinstance(cast(object, name), str) and name]
        whole = len(set(names)) == len(self.columns) == len(self.domains) == len(self.missing)
        if not whole or any(isinstance(domain, Product) for domain in self.domains):
            raise UsageError(
                "The columns of the tuples do not have a name, a domain and a value for missing ones each.",
                allowed="different columns, each with a domain of its own, and a value of it as which null is read",
                instead='secret=[pf.Secret("hours", domain=[0, 1, 2]), pf.Secret("wage", domain=[10, 20])]',
            )

    def check_named(self, column: str, missing: Label) -> None:
        """Refuse another name for the tuples, and a value for missing tuples: each column has its own."""
        if column != self.name or missing != self.first:
            raise UsageError(
                "A secret of tuples has another name than its columns give it, or another value for missing tuples.",
                allowed=f"the name {self.name!r}; each column has its own value for missing ones",
                instead="pf.Secret.together(…), of a secret for each column",
            )

    @property
    def skips(self) -> bool:
        """Whether null is a state of its own in some column."""
        return any(domain.skips for domain in self.domains)

    @property
    def finite(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the points are all tuples."""
        return all(domain.finite for domain in self.domains)

    @cached_property
    def points(self) -> tuple[Label, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tuples in words."""
        return tuple(map(self._in_words, self.tuples))

    @property
    def first(self) -> Label:
        """The first point."""
        return self._in_words(tuple(domain.points[0] for domain in self.domains))

    def _in_words(self, values: Sequence[Label]) -> Label:
        return ", ".join(
            f"{column} = {value!r}" for column, value in zip(self.columns, values, strict=True)
        )

    def read(self, value: object, name: str, problem: str, instead: str) -> Label:
        return self.first if value == self.first else super().read(value, name, problem, instead)

    @cached_property
    def tuples(self) -> tuple[tuple[Label, ...], ...]:
        """The values of each column at every point."""
        self._check_count(self.domains)
        return tuple(itertools.product(*(domain.points for domain in self.domains)))

    @property
    def name(self) -> str:
        """The name of the column of tuples, which no table has."""
        return TIMES.join(self.columns)

    def has(self, columns: Iterable[str]) -> bool:
        """Return whether all of some columns are among its own."""
        return set(columns) <= set(self.columns)

    def part(self, columns: Collection[str]) -> "Product":
        """Return the product of the domains of some of its columns, in its own order."""
        own = [place for place, column in enumerate(self.columns) if column in columns]
        return Product(
            tuple(self.columns[place] for place in own),
            tuple(self.domains[place] for place in own),
            tuple(self.missing[place] for place in own),
            tuple(self.missing_chosen[place] for place in own),
        )

    @cached_property
    def numeric(self) -> bool:
        """No tuple is a number."""
        return False

    def describe(self) -> str:
        return "; ".join(
            f"{column!r}: {domain.describe()}"
            for column, domain in zip(self.columns, self.domains, strict=True)
        )

    def pairs_in_one_column(self) -> list[tuple[Label, Label]]:
        """Return the pairs of points that differ in a single column."""
        both = zip(
            itertools.combinations(self.points, 2),
            itertools.combinations(self.tuples, 2),
            strict=True,
        )
        return [
            pair
            for pair, (first, second) in both
            if sum(a != b for a, b in zip(first, second, strict=True)) == 1
        ]

    def stored(self) -> dict[str, Any]:
        return {**super().stored(), "domains": [domain.stored() for domain in self.domains]}

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Product":
        domains = tuple(Domain.from_stored(domain) for domain in stored["domains"])
        return cls(tuple(stored["columns"]), domains, tuple(stored["missing"]))
