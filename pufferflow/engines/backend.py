"""The queries that a backend answers where the rows are, what it adds up of a column, and the base of backends.

A backend is a database or a cluster. Its queries are plain data: names of columns, numbers, labels. It groups public
columns as they are stored, and counts and adds up private ones. Filters, keys and derived columns are evaluated here,
on the few distinct rows that come back. Results have columns of fixed names, so no name of a column matters.

A `Value` says how one row of a private column is read. A `Total` says what is counted or added up of the rows of a
cell. Every engine turns them into its own language. No expression of a user is among them, and no value makes one of
them fail. `read` is their meaning: it says in Polars what every other engine must return, to the last digit.
"""

import abc
from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Final, Literal, final

import polars as pl

from pufferflow.queries.engine_interface import UnitLimit
from pufferflow.queries.expressions.tree import unsorted
from pufferflow.queries.expressions.values import Formula

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

    The two parts may be those of each row, added up, or those of the sum: only high · 2¹⁵ + low is used.
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
        return reduce(
            lambda whole, one: whole * (one.missing + 1) + one.missing, self.numberings, 0
        )


@final
@dataclass(frozen=True)
class PrivateTotals:
    """The totals of one value."""

    value: Value
    totals: tuple[Total, ...]


@final
@dataclass(frozen=True)
class CellTotals:
    """The number of rows, and totals of private columns, for each distinct row of public columns.

    With a limit, only the first rows of each unit count, in the order of the limit's columns. The machine decides the
    order of rows that are equal in these columns.

    The result has the columns `by0`, `by1`, …, and `rows`. If rows are numbered it also has `class`. `total0_0` is the
    first total of the first value, and so on.
    """

    by: tuple[str, ...]
    private: tuple[PrivateTotals, ...] = ()
    numbering: Numbering | None = None
    limit: UnitLimit | None = None


@final
@dataclass(frozen=True)
class GroupRuns:
    """For each group of rows with equal columns `within`, its runs: its rows with equal `columns`.

    Each row of the result is a run. It has the number of runs of its group (`runs`) and of its rows (`rows`). The
    columns `within0`, … are null for groups of one run; `column0`, … are always there. `count` is the number of rows of
    the run, and `times` the number of groups that have such a run. If rows are ordered, there are also the `first` and
    the `last` moment of the run, and the number of different `moments`, nulls left out.
    """

    within: tuple[str, ...]
    columns: tuple[str, ...]
    order_by: str | None


@final
@dataclass(frozen=True)
class GroupRows:
    """Public columns of all rows of the groups with one of some numbers of rows; by default of all groups.

    The result has the columns `within0`, `column0` and so on, and `moment`.
    """

    runs: GroupRuns
    sizes: tuple[int, ...]


Query = CellTotals | GroupRuns | GroupRows


def columns_read(query: Query) -> tuple[str, ...]:
    """Return the stored columns that a query reads, each once.

    >>> columns_read(CellTotals(("day",), limit=UnitLimit("meter", 1, ("hour",))))
    ('day', 'meter', 'hour')
    """
    if isinstance(query, CellTotals):
        values = [one.value for one in query.private]
        values += [] if query.numbering is None else [one.value for one in query.numbering.parts]
        limit = query.limit
        of_units = () if limit is None else (limit.unit, *limit.order, *limit.by)
        return tuple(dict.fromkeys([*query.by, *(value.column for value in values), *of_units]))
    runs = query.runs if isinstance(query, GroupRows) else query
    order = () if runs.order_by is None else (runs.order_by,)
    return tuple(dict.fromkeys([*runs.within, *runs.columns, *order]))


def result_types(query: Query, schema: pl.Schema) -> dict[str, pl.DataType]:
    """Return the types of the stored columns in the result of a query; all its other columns are whole numbers.

    >>> result_types(CellTotals(("day",)), pl.Schema({"day": pl.Date(), "level": pl.Float64()}))
    {'by0': Date}
    """
    if isinstance(query, CellTotals):
        return {f"by{place}": schema[name] for place, name in enumerate(query.by)}
    runs = query.runs if isinstance(query, GroupRows) else query
    types = {f"within{place}": schema[name] for place, name in enumerate(runs.within)}
    types |= {f"column{place}": schema[name] for place, name in enumerate(runs.columns)}
    return (
        types
        if runs.order_by is None
        else types | dict.fromkeys(("first", "last", "moment"), schema[runs.order_by])
    )


class Backend(abc.ABC):
    """Base: a table on a machine that runs queries on it. Its own errors never reach the caller."""

    name: ClassVar[str]
    """What the machine is called, such as "DuckDB"."""
    most_rows: ClassVar[int] = 2**46
    """The number of rows is below this."""

    @property
    @abc.abstractmethod
    def table(self) -> Any:
        """The protected table, as its holder knows it."""

    @property
    @abc.abstractmethod
    def version(self) -> str:
        """The version of the machine."""

    @property
    @abc.abstractmethod
    def settings(self) -> Hashable:
        """Whatever its answers to the same query on the same rows may depend on: version, address, and the like."""

    @abc.abstractmethod
    def schema(self) -> pl.Schema:
        """Return the columns with the types that they have here; no row is read."""

    @property
    def has_nan(self) -> bool:
        """Whether floats can be NaN there; if they cannot, NaN becomes null."""
        return True

    @property
    def has_decimals(self) -> bool:
        """Whether the machine has decimals; if it has none, floats take their place."""
        return True

    def unreadable(self) -> Mapping[str, str]:
        """Return the columns whose types have no meaning here, with the names that these have there."""
        return {}

    @abc.abstractmethod
    def run(self, query: Query) -> Iterator[pl.DataFrame]:
        """Yield the result of a query, in parts."""

    @abc.abstractmethod
    def text(self, query: Query) -> str:
        """Return the text of a query in the machine's language, to be shown."""

    @abc.abstractmethod
    def with_rows(self, rows: pl.DataFrame) -> "Backend":
        """Return the same machine with a few rows, which stand in the queries themselves; nothing is written."""

    def one_version(self) -> AbstractContextManager[bool]:
        """Return a context in which all queries read one version of the table; false if the machine cannot do that."""
        return nullcontext(False)
