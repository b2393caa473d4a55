"""The rows that a model is fitted to, in an order that reveals nothing, in memory or in a file.

A table that is larger than `IN_MEMORY` is kept in the folder for temporary files (TMPDIR), in a file that its owner
alone may read. On POSIX systems it has no name: nobody else can open it, and nothing of it is left when the process
ends, also by a kill. Elsewhere it is removed when it is closed, or with the process.

If rows were put straight to their places, every few rows would touch every page of the file. So each is first put into
its part of the file, as the next one there. A part fits into memory, where it is brought into order at the end.

Rows stand by group and position, and those that share both are shuffled with the operating system's randomness: the
order of a source may reveal what it was sorted by. So which places a group has follows from public columns alone. All
is read in one query: private numbers some rows at a time, public columns beside them, so that the place of a row
follows from what was read with it. Public columns are held in memory; numbers are where `stored_rows` keeps them.
"""

import abc
import hashlib
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Self, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.core.errors import PufferflowError, Refused, SourceError, UsageError
from pufferflow.core.progress import working
from pufferflow.core.sandbox import sandboxed
from pufferflow.engines.backend import FloatInside
from pufferflow.engines.column_measures import check_column, classes_of
from pufferflow.engines.polars_engine import PRIVATE, PUBLIC, PolarsEngine, batches, collect
from pufferflow.engines.row_positions import positions_of
from pufferflow.models.domain import Domain, Interval, Label
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import Engine, Selection, changed_source
from pufferflow.queries.expressions.tree import unsorted
from pufferflow.queries.keys import comparable

IN_MEMORY: Final = 2**28
"""The bytes of a table that is kept in memory."""
AT_ONCE: Final = 2**22
"""The bytes of rows that are read or written at once."""
_PART: Final = 2**24
_NUMBER: Final = 8


def without_rows(engine: Engine) -> Engine:
    """Return an engine whose table has the same columns and no row."""
    if not isinstance(engine, PolarsEngine):
        return engine
    return PolarsEngine(pl.LazyFrame(schema=engine.frame.collect_schema()))


def rows_at_once(columns: int) -> int:
    """Return how many rows with that many columns are handled at once."""
    return max(AT_ONCE // (_NUMBER * columns), 1)


class StoredRows(abc.ABC):
    """Rows of numbers, each at its place; `close` frees them."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns

    @abc.abstractmethod
    def put(self, first: int, numbers: Floats) -> None:
        """Put rows one after another, the first at a place."""

    @abc.abstractmethod
    def read(self, low: int, high: int) -> Floats:
        """Return the rows from one place up to another; callers must not change them."""

    def close(self) -> None:  # noqa: B027 - rows in memory have nothing to close
        """Free the memory or the file; no row can be read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def stored_rows(rows: int, columns: int) -> StoredRows:
    """Return a store for a table: in memory, or in a file if the table is large."""
    small = rows * columns * _NUMBER <= IN_MEMORY
    return _InMemory(rows, columns) if small else _InFile(rows, columns)


@final
class _InMemory(StoredRows):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(rows, columns)
        self._numbers: Floats = np.empty((rows, columns))

    def put(self, first: int, numbers: Floats) -> None:
        self._numbers[first : first + len(numbers)] = numbers

    def read(self, low: int, high: int) -> Floats:
        return self._numbers[low:high]


@final
class _InFile(StoredRows):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(rows, columns)
        self._file: Any = sandboxed(lambda: tempfile.TemporaryFile(buffering=0), self._failed)  # noqa: SIM115 - kept open

    def put(self, first: int, numbers: Floats) -> None:
        sandboxed(lambda: self._write(first, numbers), self._failed)

    def read(self, low: int, high: int) -> Floats:
        numbers = np.empty((high - low, self.columns))
        sandboxed(lambda: self._read(low, numbers), self._failed)
        return numbers

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()

    def _write(self, first: int, numbers: Floats) -> None:
        left = np.ascontiguousarray(numbers).reshape(-1).data.cast("B")
        self._file.seek(first * self.columns * _NUMBER)
        while left:  # a call may write a part
            left = left[self._file.write(left) :]

    def _read(self, low: int, numbers: Floats) -> None:
        left = numbers.reshape(-1).data.cast("B")
        self._file.seek(low * self.columns * _NUMBER)
        while left:
            some = self._file.readinto(left)
            if not some:
                raise EOFError
            left = left[some:]

    def _failed(self, kind: str) -> PufferflowError:
        room = self.rows * self.columns * _NUMBER / 2**20
        return SourceError(
            f"The folder for temporary files cannot keep the rows, {room:,.0f} MiB: {kind}. Nothing was released.",
            allowed="a folder with space for twice as much, where files can be made",
            instead="TMPDIR=/a/folder/with/space, or features=[…] for fewer columns",
        )


@final
class Places:
    """Rows that come in one order and are put to places in another; `settle` when all have come."""

    def __init__(self, stored: StoredRows) -> None:
        self.stored = stored
        self._size = max(_PART // (_NUMBER * stored.columns), 1)
        self._next = np.arange(0, stored.rows, self._size)
        self._within = np.empty(stored.rows, dtype=np.int32)
        """The place in its part of each row, in the order in which they came there."""

    def put(self, places: Indices, numbers: Floats) -> None:
        """Put rows into the parts where their places are."""
        parts = places // self._size
        order = np.argsort(
            parts.astype(np.min_scalar_type(len(self._next))), kind="stable"
        )  # few bits sort quickly
        places, numbers = places[order], np.ascontiguousarray(numbers)[order]
        counts = np.bincount(parts, minlength=len(self._next))
        low = 0
        for part in np.flatnonzero(counts).tolist():
            first, high = int(self._next[part]), low + int(counts[part])
            self._within[first : first + high - low] = places[low:high] % self._size
            self.stored.put(first, numbers[low:high])
            self._next[part] += high - low
            low = high

    def settle(self) -> StoredRows:
        """Return the rows, each part brought into order."""
        with working("ordering rows", self.stored.rows) as work:
            for low in range(0, self.stored.rows, self._size):
                high = min(low + self._size, self.stored.rows)
                ordered = np.empty((high - low, self.stored.columns))
                ordered[self._within[low:high]] = self.stored.read(low, high)
                self.stored.put(low, ordered)
                work.advance(high - low)
        return self.stored


def inverse(order: Array) -> Indices:
    """Return the place at which each of the numbers from 0 stands in an order of them."""
    places = np.empty(len(order), dtype=np.intp)
    places[order] = np.arange(len(order))
    return places


_WITHIN, _MOMENT, _COLUMN = "within {}", "moment", "column {}"
_MOST: Final = 2**31

Take = Callable[[Floats], None]
Change = Callable[[Floats], Floats]


@final
@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column as numbers: values of a domain, null and NaN as `missing`; each point of a finite one is a number."""

    name: str
    domain: Domain
    missing: Label
    numbers: Floats | None = None
    """The number of each point; None for an interval, whose values are numbers."""

    def read(self, dtype: pl.DataType) -> tuple[pl.Expr, Floats | None]:
        """Return the numbers, or the class of each row and the number of each class."""
        check_column(self.name, dtype, self.domain)
        if isinstance(self.domain, Interval) or self.numbers is None:
            low, high = float(self.domain.points[0]), float(self.domain.points[-1])
            return FloatInside(self.name, low, high, float(self.missing)).read(), None
        missing, points = self.domain.place(self.missing, "missing"), len(self.domain.points)
        classes = classes_of(self.name, dtype, self.domain, missing, np.eye(points, dtype=np.int64))
        return classes.number(), self.numbers[np.array(classes.places, dtype=np.intp)]


@final
@dataclass(frozen=True, eq=False)
class PublicOrder:
    """The groups of rows, which stand together: group i has the rows `first[i]` up to `first[i + 1]`, by position."""

    first: Indices
    positions: Floats
    start: float | None = None
    """Where all sequences began; None if it is unknown."""
    clock: str = ""
    """How positions were counted."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.first[-1])

    @property
    def single_rows(self) -> bool:
        """Whether each row is a group, so that rows are in random order."""
        return len(self.first) == self.rows + 1

    @cached_property
    def digest(self) -> str:
        """A hash that identifies how many rows the groups have at which positions."""
        found = hashlib.sha256()
        for numbers in (
            self.first.astype("<i8", copy=False),
            self.positions.astype("<f8", copy=False),
        ):
            found.update(np.ascontiguousarray(numbers).data)
        return found.hexdigest()


@final
@dataclass(frozen=True, eq=False)
class ModelRows:
    """The columns that a model reads, of the selected rows; each of `single_rows` is a group by itself."""

    engine: Engine
    selection: Selection
    scenario: Scenario
    columns: tuple[NumberColumn, ...]
    single_rows: bool

    def check(self) -> None:
        """Refuse engines that return no single rows, and columns whose types do not fit."""
        schema = self._polars.schema(self.selection.derived)
        for column in self.columns:
            column.read(schema[column.name])

    def order(self) -> PublicOrder:
        """Return the groups and positions of rows; only public columns are read."""
        public = self._public
        rows = collect(self._frame.select(public or [pl.len()]), PUBLIC)
        return self._placed(rows)[0] if public else self._unplaced(int(rows.item()))

    def confirm(self, known: PublicOrder) -> None:
        """Refuse a source whose groups and positions are not those `known`; only public columns are read."""
        _check_same(self.order(), known)

    def each(self, known: PublicOrder, take: Take) -> None:
        """Hand all rows to `take` as they come, some at a time; refuse a source whose rows are not those `known`."""
        public = self._read(known, take)
        found = self._placed(public)[0] if public.width else self._unplaced(public.height)
        _check_same(found, known)

    @contextmanager
    def in_order(
        self, known: PublicOrder, visits: Indices | None, change: Change
    ) -> Generator[StoredRows]:
        """Yield all rows, changed, in the order in which they are visited; refuse those that are not `known`.

        `visits` is when the row of each place is visited; None if rows are visited in their own order.
        """
        with stored_rows(known.rows, len(self.columns)) as stored:
            places = Places(stored)
            if self._public:
                self._sorted(known, visits, change, places)
            else:
                self._shuffled(known, visits, change, places)
            yield places.settle()

    @property
    def _polars(self) -> PolarsEngine:
        if isinstance(self.engine, PolarsEngine):
            return self.engine
        raise Refused(
            f"A model cannot be fitted to rows of {self.engine.name.partition(',')[0]}: they are not read one by one.",
            allowed="frames of Polars, lazy or not",
            instead="model.fit(pl.scan_parquet(…), y=…) on an export of the table, kept where the table is",
        )

    @property
    def _frame(self) -> pl.LazyFrame:
        return sandboxed(lambda: self._polars.selected(self.selection))

    @property
    def _public(self) -> list[pl.Expr]:
        """The columns of groups and positions, under names of our own; none where each row is a group."""
        within, order_by = self.scenario.within, self.scenario.order_by
        if self.single_rows:
            return []
        known = [unsorted(name).alias(_WITHIN.format(place)) for place, name in enumerate(within)]
        return known if order_by is None else [*known, unsorted(order_by).alias(_MOMENT)]

    def _placed(self, public: pl.DataFrame) -> tuple[PublicOrder, Indices]:
        """Return the groups and positions, and for each place the row of the source that stands there."""
        _check_number(public.height)
        groups = public.drop(_MOMENT, strict=False)
        positions, start, clock = np.zeros(public.height), None, ""
        if _MOMENT in public.columns:
            places = positions_of(public[_MOMENT], self.scenario)
            positions, clock = places.positions(places.values).astype(np.float64), places.clock
            start = places.start if self.scenario.start_known else None
        keys = groups.select(comparable(groups.schema)).get_columns() if groups.width else []
        names = [key.name for key in keys]
        random = pl.Series("key", np.frombuffer(os.urandom(8 * public.height), dtype="<u8"))
        rows = pl.DataFrame([*keys, pl.Series("position", positions), random]).with_row_index("row")
        placed = sandboxed(lambda: rows.sort([*names, "position", "key"]))
        order = placed["row"].to_numpy().astype(np.intp)
        runs = np.zeros(public.height, dtype=np.int64)
        if names:
            runs = placed.select(pl.struct(names).rle_id()).to_series().to_numpy().astype(np.int64)
        first = np.append(np.flatnonzero(np.diff(runs, prepend=-1)), len(order))
        return PublicOrder(first.astype(np.intp), positions[order], start, clock), order

    def _unplaced(self, rows: int) -> PublicOrder:
        """Return the order of rows without groups and positions: each a group if `single_rows`, else all one."""
        _check_number(rows)
        first = np.arange(rows + 1) if self.single_rows else np.array([0, rows])
        return PublicOrder(first.astype(np.intp, copy=False), np.zeros(rows))

    def _read(self, known: PublicOrder, take: Take) -> pl.DataFrame:
        """Hand all rows to `take`, no more than are known, and return their public columns."""
        schema = self._polars.schema(self.selection.derived)
        read = [column.read(schema[column.name]) for column in self.columns]
        names = [_COLUMN.format(place) for place in range(len(read))]
        values = [expression.alias(name) for (expression, _), name in zip(read, names, strict=True)]
        public, rows = list[pl.DataFrame](), 0
        with working(PRIVATE, known.rows) as work:
            for batch in batches(
                self._frame.select(*self._public, *values), rows_at_once(len(read))
            ):
                rows += batch.height
                if rows > known.rows:
                    raise changed_source()
                public.append(batch.drop(names))
                take(_numbers(batch.select(names), [of_class for _, of_class in read]))
                work.advance(batch.height)
        _check_number(rows)
        return sandboxed(lambda: pl.concat(public))

    def _shuffled(
        self, known: PublicOrder, visits: Indices | None, change: Change, places: Places
    ) -> None:
        """Put rows without groups and positions to random places, as they come."""
        random = np.random.default_rng(int.from_bytes(os.urandom(32), "little")).permutation(
            known.rows
        )
        chosen, came = random if visits is None else visits[random], 0

        def take(numbers: Floats) -> None:
            nonlocal came
            places.put(chosen[came : came + len(numbers)], change(numbers))
            came += len(numbers)

        self.each(known, take)

    def _sorted(
        self, known: PublicOrder, visits: Indices | None, change: Change, places: Places
    ) -> None:
        """Keep rows as they come, and put them to their places when all groups and positions are read."""
        with stored_rows(known.rows, len(self.columns)) as source:
            came = 0

            def take(numbers: Floats) -> None:
                nonlocal came
                source.put(came, change(numbers))
                came += len(numbers)

            found, order = self._placed(self._read(known, take))
            _check_same(found, known)
            chosen, size = (
                inverse(order) if visits is None else visits[inverse(order)],
                rows_at_once(source.columns),
            )
            for low in range(0, known.rows, size):
                part = chosen[low : low + size]
                places.put(part, source.read(low, low + len(part)))


def _numbers(batch: pl.DataFrame, of_classes: Sequence[Floats | None]) -> Floats:
    """Return the numbers of rows; those of classes are looked up."""
    numbers = np.empty(batch.shape, order="F")
    for place, (column, of_class) in enumerate(zip(batch.get_columns(), of_classes, strict=True)):
        own = column.to_numpy()
        numbers[:, place] = own if of_class is None else of_class[own]
    return numbers


def _check_same(found: PublicOrder, known: PublicOrder) -> None:
    """Refuse rows whose groups or positions have changed."""
    if found.digest != known.digest:
        raise changed_source()


def _check_number(rows: int) -> None:
    """Refuse a table without rows, or with too many."""
    if not 1 <= rows < _MOST:
        raise UsageError(
            f"The table has {rows} rows.",
            allowed="at least one row, and fewer than 2^31",
            instead="a frame with rows",
        )


def columns_as_numbers(frame: pl.LazyFrame, names: Sequence[str]) -> Floats:
    """Return columns of rows that are to be predicted, as floats; null is NaN."""
    read = collect(frame.select(unsorted(name).cast(pl.Float64) for name in names), PRIVATE)
    return read.to_numpy().astype(np.float64, copy=False)


def column_of(frame: pl.LazyFrame, name: str) -> Array:
    """Return one column as an array."""
    return collect(frame.select(unsorted(name)), PRIVATE).to_series().to_numpy()
