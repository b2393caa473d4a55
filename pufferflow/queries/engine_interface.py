"""The interface to data: the queries that an engine runs, their results, and the versions of files that are read.

Nothing else in the library reads rows. An engine holds one table and answers three queries. `schema` reads no row.
`patterns` reads public columns only, and returns the patterns of correlated groups. `tally` returns exact sums in
cells. Queries and results are frozen values; the expressions among them are Polars', and run where the table is.

The versions of the files behind a frame show that public columns of unchanged files need not be read twice. Versions of
a file differ in device, inode, size, or the times of the last changes. Writes through shared memory set these times
only once they reach the disk. Only a bare scan of one file is identified by its version. Other frames may give other
rows each time: frames in memory, several files, files on other machines, functions, any step between scan and
`protect`.
"""

import abc
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import polars as pl

from pufferflow.core.arrays import Array, Floats, Whole
from pufferflow.core.errors import SourceError, UsageError
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.tables import SourceVersion
from pufferflow.models.domain import Label, Product
from pufferflow.models.reference import frame_origin
from pufferflow.models.scenario import Scenario
from pufferflow.queries.expressions.values import Values

Version = tuple[int, ...]
SETTLED: Final = 2 * 10**9
"""Nanoseconds after which a change of a file has another time than the last one, on every file system."""


@final
@dataclass(frozen=True)
class Snapshot:
    """The versions of files at one moment; None for a path that is no file on this machine."""

    versions: Mapping[str, Version | None]
    columnar: frozenset[str]
    """The files whose column layout the frame has cached."""
    complete: bool
    """Whether the versions determine all rows."""

    @classmethod
    def of(cls, frame: pl.LazyFrame) -> "Snapshot":
        """Return the versions of the files that a frame reads; its rows are not read."""
        now, origin = time.time_ns(), sandboxed(lambda: frame_origin(frame))
        versions = {path: _version(path) for path in origin.files}
        # a file written a moment ago may be written again within one tick of the clock
        settled = all(
            version is not None and max(version[-2:]) < now - SETTLED
            for version in versions.values()
        )
        return cls(versions, origin.columnar, origin.files_only and settled)

    @property
    def holds(self) -> bool:
        """Whether the frame certainly has the rows that it had then."""
        return self.complete and all(
            _version(path) == version for path, version in self.versions.items()
        )

    @property
    def outdated(self) -> bool:
        """Whether the frame would read a file by the layout of another version of it."""
        return any(_version(path) != self.versions[path] for path in self.columnar)


NO_FILES: Final = Snapshot({}, frozenset(), complete=False)


def _version(path: str) -> Version | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@final
@dataclass(frozen=True)
class Measure:
    """Σ φ(x) over the rows of a cell, in whole steps of `values.unit`.

    Null, NaN and unknown labels are read as `missing`: a value of the domain, or its state for missing values. Engines
    need no weights: `weighted_tally` multiplies the sums.
    """

    values: Values
    missing: Label

    @property
    def terms(self) -> "tuple[Measure, ...]":
        """The measures that are read one by one, and whose sum it is."""
        domain, terms = self.values.domain, self.values.terms
        if len(terms) == 1 or not isinstance(domain, Product):
            return (self,)
        missing = dict(zip(domain.columns, domain.missing, strict=True))
        return tuple(Measure(term, missing[term.column]) for term in terms)


@final
class UnitLimit(NamedTuple):
    """A limit on the rows read of each unit, which are its first ones, whatever else is selected.

    They are in the order of some columns: nulls first, then numbers, NaN last, and texts byte by byte. Rows that are
    equal there are in the order of the table, or in any order if it has none.
    """

    unit: str
    """Rows with equal values of it are a unit, also those where it is null."""
    rows: int
    order: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    """Rows of a unit with equal values of these are a group; with them, at most `rows` rows of each group are read."""
    groups: int | None = None
    """The groups of a unit that are read, those with the least values of `by` in the same order; None for all."""


@final
@dataclass(frozen=True, eq=False)
class Selection:
    """The rows a request selects, in cells: both by public columns.

    A limit comes first. It chooses among all rows, so filters and cells do not decide which rows of a unit are read.
    """

    public: tuple[str, ...] = ()
    """The columns that are declared to be public."""
    derived: tuple[tuple[str, pl.Expr], ...] = ()
    """Further public columns, made of those before them."""
    filters: tuple[pl.Expr, ...] = ()
    by: tuple[str, ...] = ()
    """Rows with equal values of these are a cell; without any, all rows are one."""
    keys: pl.DataFrame | None = None
    """The cells of the answer in their order; None: those of the rows."""
    limit: UnitLimit | None = None
    """The limit on the rows of each unit; None: all are read. Patterns are of all rows, never read under a limit."""


@final
class PositionMode(NamedTuple):
    """How far a prior depends on the order of rows.

    It may not depend on order at all, or on positions up to shifts by multiples of `period`. Without a period it
    depends on positions since the start.
    """

    ordered: bool
    period: int | None = None


BY_POSITION: Final = PositionMode(ordered=True)
"""Positions in time, counted from the start of all sequences."""
UNORDERED: Final = PositionMode(ordered=False)


@final
@dataclass(frozen=True, eq=False)
class Pattern:
    """The rows of groups with equal public columns; such groups have the same laws, so one stands for all.

    A cell has an answer of its own: a group of a `group_by`. `cells` numbers the cells of the rows from 0, in the order
    in which they come up. It is −1 where a row is not selected. `counts` is the number of rows an entry stands for,
    which is 1 where rows have an order. `positions` is None where they have none. A pattern that `covers` belongs to no
    group: every group it stands for has at most as many rows, selected or not, in whatever cells.

    >>> import numpy as np
    >>> Pattern(np.array([0, 0, -1]), np.array([1, 1, 1]), np.array([0.0, 1.0, 2.0])).selected
    2
    """

    cells: Array
    counts: Array
    positions: Floats | None = None
    start: float = 0.0
    groups: int = 1
    covers: bool = False
    shares: Floats | None = None
    """For each sum, how much of its largest public weight each row has at most; None if rows weigh alike."""
    copies: int = 1
    """How many of `counts` one row of the largest weight is."""

    @property
    def selected(self) -> int:
        """How many rows are selected."""
        return int(self.counts[self.cells >= 0].sum())

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.counts.sum())

    @property
    def covers_by_size(self) -> bool:
        """Whether it covers all groups with no more rows, wherever these are."""
        return self.covers and self.positions is None

    @property
    def answers(self) -> int:
        """How many cells the rows are in."""
        return int(self.cells.max(initial=-1)) + 1


@final
@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of the groups with a selected row, and the number of such groups."""

    distinct: tuple[Pattern, ...]
    groups: int
    selected: int = 0
    """How many rows are selected, in all groups together."""
    reach: tuple[float, float] | None = None
    """The positions of the first and the last row of all, if rows have an order."""
    clock: str = ""
    """The clock that counts positions, and how late in a step rows are. Only equal clocks have positions in common."""


@final
class GroupSize(NamedTuple):
    """How many rows of a group are selected, and how many are not."""

    selected: int
    others: int


@final
@dataclass(frozen=True, eq=False)
class CellGroups:
    """The sizes of the groups of which each cell has rows, and of those that join it with other cells.

    Cells of one kind have the same sizes. A cell of no group has the kind −1. No group has rows in two kinds of cells.
    """

    kind_of_cell: Whole
    kinds: tuple[tuple[GroupSize, ...], ...]


@final
@dataclass(frozen=True, eq=False)
class Tally:
    """Exact sums: `keys` in public order (None: one cell), the rows of each cell, and its sums.

    `sums` has the shape (cells, measures) and counts in steps of each measure's unit. It holds Python's whole numbers
    if the steps of some measure are too large for sums of 64 bits.
    """

    keys: pl.DataFrame | None
    rows: Array
    sums: Array
    weights: Mapping[str, Floats] = field(default_factory=dict[str, Floats])
    """The sums of the positive and of the negative weights of each cell, by the identity of the weight."""


class Engine(abc.ABC):
    """A table, and the machine that reads it. Its own errors never reach the caller, since they may quote rows."""

    @property
    @abc.abstractmethod
    def table(self) -> Any:
        """The protected table."""

    @property
    def original(self) -> Any:
        """The table as it was given, as far as that is known."""
        return self.table

    @abc.abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the version of the table."""

    @property
    def name(self) -> str:
        """The machine with its version and the digest of its self-test; empty for Polars, the reference engine."""
        return ""

    @property
    def in_order(self) -> bool:
        """Whether rows are in an order, which decides between rows of a unit that are otherwise equal."""
        return False

    @property
    def counted_again(self) -> bool:
        """Whether a release also counts rows by itself if their number is public, since others add them up."""
        return False

    @property
    def versions(self) -> tuple[SourceVersion, ...]:
        """The versions of the tables behind this one, for those that have any."""
        return ()

    @abc.abstractmethod
    def queries(
        self,
        selection: Selection,
        scenario: Scenario,
        orders: Collection[PositionMode],
        measures: Sequence[Measure],
    ) -> list[str]:
        """Return the texts of the queries for patterns in these orders and for sums; none is run."""

    def one_version(self) -> AbstractContextManager[bool]:
        """Return a context in which all reads see one version of the table; false if the engine cannot do that."""
        return nullcontext(False)

    @abc.abstractmethod
    def schema(self, derived: Sequence[tuple[str, pl.Expr]] = ()) -> pl.Schema:
        """Return the types of all columns, derived ones too; no row is read."""

    def unreadable(self) -> Mapping[str, str]:
        """Return the columns whose types have no meaning here, with the names that these have in the table."""
        return {}

    @abc.abstractmethod
    def patterns(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode]
    ) -> dict[PositionMode, Patterns | UsageError]:
        """Return the distinct patterns of the scenario's groups in each order, or the error that says why not.

        Public columns are read once, whatever the orders.
        """

    def groups_in_cells(
        self,
        selection: Selection,
        scenario: Scenario,
        orders: Collection[PositionMode],
        keys: pl.DataFrame,
    ) -> CellGroups | None:
        """Return the sizes of the groups in each of the cells with these keys; None if an engine cannot find them.

        All cells then have one noise. Public columns are read, as for patterns in these orders.
        """
        return None

    def fingerprint(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode], key: bytes
    ) -> str | None:
        """Return a fingerprint of the rows that determine the patterns in these orders and the keys of cells.

        With one key, in one process, equal public columns of all rows have equal fingerprints. Different ones have
        different fingerprints, except with a probability of about 2⁻¹²⁸. It is None if an engine cannot compute it.
        """
        return None

    @abc.abstractmethod
    def tally(self, selection: Selection, measures: Sequence[Measure] = ()) -> Tally:
        """Return the rows and the sums of all measures in every cell; without measures, read public columns only.

        A limit also reads the columns that put rows in order.
        """


def changed_source() -> SourceError:
    """Return the error for a source that has changed since planning."""
    return SourceError(
        "The source has other rows than when the plan was made, and noise was made for those. Nothing was released.",
        allowed="a source whose groups, times of rows and keys stay the same between plan and release",
        instead="planning again, batch.plan(…), and releasing that plan",
    )


COPIES: Final = 2**20
"""The number of rows that a row of the largest weight counts as, where rows of a group may move together."""
