"""The queries that a backend answers where the rows are, and the base of backends: databases and clusters.

Queries are plain data: names of columns, numbers, labels. Backends group public columns as they are stored, and count
and add up private ones. Filters, keys and derived columns are evaluated here, on the few distinct rows that come back.
Results have columns of fixed names, so that no name of a column matters.
"""

import abc
from collections.abc import Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, final

import polars as pl

from pufferflow.engines.totals import Numbering, PrivateTotals
from pufferflow.queries.engine_interface import UnitLimit


@final
@dataclass(frozen=True)
class CellTotals:
    """The number of rows, and totals of private columns, for each distinct row of public columns.

    With a limit, only the first rows of each unit count, in the order of the limit's columns. The machine decides the
    order of rows that are equal in these columns.

    The result has the columns `by0`, `by1` and so on, `class` if rows are numbered, `rows`, and `total0_0` for the
    first total of the first value.
    """

    by: tuple[str, ...]
    private: tuple[PrivateTotals, ...] = ()
    numbering: Numbering | None = None
    limit: UnitLimit | None = None


@final
@dataclass(frozen=True)
class GroupRuns:
    """For each group of rows with equal columns `within`, its runs: its rows with equal `columns`.

    The result has, for each run, the number of runs of its group (`runs`) and of its rows (`rows`), the columns
    `within0` and so on, which are null for groups of one run, `column0` and so on, the number of rows of the run
    (`count`), and how many groups have such a run (`times`). If rows are ordered, also the `first` and the `last`
    moment of the run, and the number of different `moments`, nulls left out.
    """

    within: tuple[str, ...]
    columns: tuple[str, ...]
    order_by: str | None


@final
@dataclass(frozen=True)
class GroupRows:
    """Public columns of all rows of the groups with one of some numbers of rows; of all groups, if there is none.

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
    return types if runs.order_by is None else types | dict.fromkeys(("first", "last", "moment"), schema[runs.order_by])


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
        """What its answers to the same query on the same rows may depend on: version, address, and the like."""

    @abc.abstractmethod
    def schema(self) -> pl.Schema:
        """Return the columns with the types that they have here; no row is read."""

    @property
    def has_nan(self) -> bool:
        """Whether floats can be NaN there; where they cannot, NaN becomes null."""
        return True

    @property
    def has_decimals(self) -> bool:
        """Whether the machine has decimals; where it has none, floats take their place."""
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
        """Return a context in which all queries read one version of the table; false if that cannot be had."""
        return nullcontext(False)
