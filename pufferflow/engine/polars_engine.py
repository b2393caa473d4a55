"""The engine that reads Polars frames: queries are lazy, streamed, and guarded."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import polars as pl

from pufferflow.engine.engine import Engine, Measure, Order, Patterns, Selection, Tally, UnitLimit
from pufferflow.engine.one_pass import at_most, tally
from pufferflow.engine.pattern_columns import PublicRows
from pufferflow.engine.patterns import find_patterns
from pufferflow.engine.snapshot import Snapshot
from pufferflow.errors import Misuse
from pufferflow.expressions import named, unsorted
from pufferflow.guarded import guarded
from pufferflow.progress import working
from pufferflow.scenario import Scenario

PUBLIC, PRIVATE = "reading public columns", "reading rows"


@final
@dataclass(frozen=True, eq=False)
class PolarsEngine(Engine):
    """A lazy frame."""

    frame: pl.LazyFrame
    limits_units = True

    @property
    def table(self) -> pl.LazyFrame:
        return self.frame

    def snapshot(self) -> Snapshot:
        return Snapshot.of(self.frame)

    def schema(self, derived: Sequence[tuple[str, pl.Expr]] = ()) -> pl.Schema:
        return guarded(_with_derived(self.frame, Selection(derived=tuple(derived))).collect_schema)

    def patterns(
        self, selection: Selection, scenario: Scenario, orders: Collection[Order]
    ) -> dict[Order, Patterns | Misuse]:
        frame, flag = self._public_rows(selection)
        public = PublicRows(frame, selection.by, flag, self._timed(selection, scenario.order_by))
        return guarded(lambda: find_patterns(public, scenario, orders, partial(collect, what=PUBLIC)))

    def tally(self, selection: Selection, measures: Sequence[Measure] = (), limit: UnitLimit | None = None) -> Tally:
        frame = _with_derived(self.frame, selection)
        for predicate in selection.filters:
            frame = frame.filter(predicate)
        public = not measures and limit is None
        names = (*selection.public, *(name for name, _ in selection.derived))
        if public and names:
            frame = frame.select(named(name) for name in names)
        elif public:  # a choice of no columns would have no rows
            frame, flag = self._public_rows(selection)
            frame = frame if flag is None else frame.filter(named(flag))
        if limit is not None:
            frame = at_most(frame, *limit)
        run = partial(collect, what=PUBLIC if public else PRIVATE)
        return guarded(lambda: tally(frame, selection.by, selection.keys, measures, run))

    def _public_rows(self, selection: Selection) -> tuple[pl.LazyFrame, str | None]:
        """Return the public columns of all rows, and the name of the column that flags selected ones."""
        if selection.public:
            frame = self.frame.select(named(name) for name in selection.public)
        else:  # a choice of no columns would have no rows: each has a number
            number = self._unused("row", selection)
            frame = self.frame.with_row_index(number).select(named(number))
        frame = _with_derived(frame, selection)
        if not selection.filters and selection.keys is None:
            return frame, None
        flag, known = self._unused("selected", selection), self._unused("known", selection)
        passed = pl.lit(value=True)
        for predicate in selection.filters:
            passed &= predicate.fill_null(value=False)
        frame = frame.with_columns(passed.alias(flag))
        if selection.keys is not None:
            keys = selection.keys.lazy().with_columns(pl.lit(value=True).alias(known))
            frame = frame.join(keys, on=[named(name) for name in selection.by], how="left", nulls_equal=True)
            frame = frame.with_columns((pl.col(flag) & pl.col(known).fill_null(value=False)).alias(flag)).drop(known)
        return frame, flag

    def _timed(self, selection: Selection, order_by: str | None) -> set[str]:
        """Return the columns that follow from the one by which rows are in order.

        Not where that is a float: 0.0 and −0.0 are one position, and something may be divided by them.
        """
        if order_by is None or self.schema(selection.derived)[order_by].is_float():
            return set()
        timed = {order_by}
        for name, expression in selection.derived:
            follows = timed.issuperset(expression.meta.root_names())
            if name == order_by:
                timed = {order_by}
            elif follows:
                timed.add(name)
            else:
                timed.discard(name)
        return timed

    def _unused(self, stem: str, selection: Selection) -> str:
        """Return a name that no column has."""
        name, schema = f"__{stem}", self.schema(selection.derived)
        while name in schema:
            name = f"_{name}"
        return name


def engine_of(frame: pl.LazyFrame | pl.DataFrame) -> Engine:
    """Return the engine that reads a table."""
    return PolarsEngine(frame.lazy())


def collect(frame: pl.LazyFrame, what: str = PRIVATE) -> pl.DataFrame:
    """Run one streaming query."""

    def run() -> pl.DataFrame:
        with working(what):
            return frame.collect(engine="streaming")

    return guarded(run)


def _with_derived(frame: pl.LazyFrame, selection: Selection) -> pl.LazyFrame:
    """Return a frame with the derived columns.

    Columns lose the mark of being sorted, which sources may set wrongly and expressions, filters and joins trust.
    """
    if selection.derived or selection.filters or selection.keys is not None:
        frame = frame.with_columns(unsorted(name) for name in selection.public)
    for _, expression in selection.derived:
        frame = frame.with_columns(expression)
    return frame
