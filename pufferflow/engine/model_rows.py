"""The rows that a model is fitted to: numbers of some columns, in an order that tells nothing of private values.

Rows stand by group and position, and those that share both are shuffled with the operating system's randomness: the
order of a source may tell what it was sorted by. So which places a group has follows from public columns alone.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
import polars as pl

from pufferflow.arrays import Array, Floats, Indices
from pufferflow.engine.classes import check_column, classes_of
from pufferflow.engine.engine import Engine, Selection
from pufferflow.engine.one_pass import comparable
from pufferflow.engine.places import places_of
from pufferflow.engine.polars_engine import PRIVATE, PUBLIC, PolarsEngine, collect
from pufferflow.engine.totals import FloatInside
from pufferflow.errors import Misuse, Refused
from pufferflow.expressions import unsorted
from pufferflow.guarded import guarded
from pufferflow.scenario import Domain, Interval, Label, Scenario

_WITHIN, _MOMENT = "within {}", "moment"
_MOST: Final = 2**31


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
        """A hash that sources share only if the groups have as many rows at the same positions."""
        return hashlib.sha256(self.first.astype("<i8").tobytes() + self.positions.astype("<f8").tobytes()).hexdigest()


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
        """Refuse engines whose rows do not come by here, and columns whose types do not fit."""
        schema = self._polars.schema(self.selection.derived)
        for column in self.columns:
            column.read(schema[column.name])

    def order(self) -> PublicOrder:
        """Return the groups and positions of rows; only public columns are read."""
        public = self._public
        rows = collect(self._frame.select(public or [pl.len()]), PUBLIC)
        return (self._placed(rows) if public else self._shuffled(int(rows.item())))[0]

    def numbers(self) -> tuple[PublicOrder, Floats]:
        """Return the rows in order, read once: of shape (rows, columns)."""
        schema = self._polars.schema(self.selection.derived)
        read = [column.read(schema[column.name]) for column in self.columns]
        names = [f"column {place}" for place in range(len(read))]
        values = [expression.alias(name) for (expression, _), name in zip(read, names, strict=True)]
        rows = collect(self._frame.select(*self._public, *values), PRIVATE)
        known, order = self._placed(rows.drop(names)) if self._public else self._shuffled(rows.height)
        numbers = np.empty((rows.height, len(read)))
        for place, (_, of_class) in enumerate(read):
            own = rows[names[place]].to_numpy()
            np.take(own if of_class is None else of_class[own], order, out=numbers[:, place])
        return known, numbers

    @property
    def _polars(self) -> PolarsEngine:
        if isinstance(self.engine, PolarsEngine):
            return self.engine
        raise Refused(
            f"A model of rows of {self.engine.name.partition(',')[0]}: its rows are not read one by one.",
            allowed="frames of Polars, lazy or not",
            instead="model.fit(pl.scan_parquet(…), y=…) on an export of the table, kept where the table is",
        )

    @property
    def _frame(self) -> pl.LazyFrame:
        return guarded(lambda: self._polars.selected(self.selection))

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
            places = places_of(public[_MOMENT], self.scenario)
            positions, clock = places.positions(places.values).astype(np.float64), places.clock
            start = places.start if self.scenario.start_known else None
        keys = groups.select(comparable(groups.schema)).get_columns() if groups.width else []
        names = [key.name for key in keys]
        random = pl.Series("key", np.frombuffer(os.urandom(8 * public.height), dtype="<u8"))
        rows = pl.DataFrame([*keys, pl.Series("position", positions), random]).with_row_index("row")
        placed = guarded(lambda: rows.sort([*names, "position", "key"]))
        order = placed["row"].to_numpy().astype(np.intp)
        runs = np.zeros(public.height, dtype=np.int64)
        if names:
            runs = placed.select(pl.struct(names).rle_id()).to_series().to_numpy().astype(np.int64)
        first = np.append(np.flatnonzero(np.diff(runs, prepend=-1)), len(order))
        return PublicOrder(first.astype(np.intp), positions[order], start, clock), order

    def _shuffled(self, rows: int) -> tuple[PublicOrder, Indices]:
        """Return the order of rows without groups and positions: each a group if `single_rows`, else all one."""
        _check_number(rows)
        first = np.arange(rows + 1) if self.single_rows else np.array([0, rows])
        shuffled = np.random.default_rng(int.from_bytes(os.urandom(32), "little")).permutation(rows)
        return PublicOrder(first.astype(np.intp), np.zeros(rows)), shuffled


def _check_number(rows: int) -> None:
    """Refuse a table without rows, or with too many."""
    if not 1 <= rows < _MOST:
        raise Misuse(
            f"A model of {rows} rows.", allowed="at least one row, and fewer than 2^31", instead="a frame with rows"
        )


def columns_as_numbers(frame: pl.LazyFrame, names: Sequence[str]) -> Floats:
    """Return columns of rows that are to be predicted, as floats; null is NaN."""
    read = collect(frame.select(unsorted(name).cast(pl.Float64) for name in names), PRIVATE)
    return read.to_numpy().astype(np.float64, copy=False)


def column_of(frame: pl.LazyFrame, name: str) -> Array:
    """Return one column as an array."""
    return collect(frame.select(unsorted(name)), PRIVATE).to_series().to_numpy()
