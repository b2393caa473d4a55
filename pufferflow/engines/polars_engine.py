"""The engine for Polars frames: lazy and streamed queries, whose errors carry no data."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.progress import working
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.tables import SourceVersion
from pufferflow.engines.groups_in_cells import groups_in_cells
from pufferflow.engines.one_pass import at_most, one_pass_query, tally
from pufferflow.engines.pattern_columns import PublicRows, row_fingerprint
from pufferflow.engines.patterns import find_patterns
from pufferflow.engines.public_rows import timed, with_derived, with_flag
from pufferflow.models.reference import frame_origin
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import (
    CellGroups,
    Engine,
    Measure,
    Patterns,
    PositionMode,
    Selection,
    Snapshot,
    Tally,
)
from pufferflow.queries.expressions.tree import named
from pufferflow.queries.keys import unused

PUBLIC, PRIVATE = "reading public columns", "reading rows"


@final
@dataclass(frozen=True, eq=False)
class PolarsEngine(Engine):
    """A lazy frame, and the table from which it was made, as long as that exists."""

    frame: pl.LazyFrame
    given: Any = None
    """A weak reference to that table."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without that table, which belongs to this process."""
        return PolarsEngine, (self.frame,)

    @property
    def table(self) -> pl.LazyFrame:
        return self.frame

    @property
    def original(self) -> Any:
        table = None if self.given is None else self.given()
        return self.frame if table is None else table

    @property
    def in_order(self) -> bool:
        return True

    @property
    def versions(self) -> tuple[SourceVersion, ...]:
        return sandboxed(lambda: frame_origin(self.frame)).versions

    def snapshot(self) -> Snapshot:
        return Snapshot.of(self.frame)

    def schema(self, derived: Sequence[tuple[str, pl.Expr]] = ()) -> pl.Schema:
        return sandboxed(with_derived(self.frame, Selection(derived=tuple(derived))).collect_schema)

    def queries(
        self,
        selection: Selection,
        scenario: Scenario,
        orders: Collection[PositionMode],
        measures: Sequence[Measure],
    ) -> list[str]:
        return [
            sandboxed(
                lambda: one_pass_query(self.selected(selection), selection.by, measures).explain()
            )
        ]

    def patterns(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode]
    ) -> dict[PositionMode, Patterns | UsageError]:
        frame, flag = self._public_rows(selection)
        of_time = timed(selection, scenario.order_by, self.schema(selection.derived))
        public = PublicRows(frame, selection.by, flag, of_time)
        return sandboxed(
            lambda: find_patterns(public, scenario, orders, partial(collect, what=PUBLIC))
        )

    def groups_in_cells(
        self,
        selection: Selection,
        scenario: Scenario,
        orders: Collection[PositionMode],
        keys: pl.DataFrame,
    ) -> CellGroups | None:
        frame, flag = self._public_rows(selection)
        public = PublicRows(frame, selection.by, flag)
        return sandboxed(
            lambda: groups_in_cells(public, scenario, keys, partial(collect, what=PUBLIC))
        )

    def fingerprint(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode], key: bytes
    ) -> str | None:
        frame, flag = self._public_rows(selection)
        public = PublicRows(frame, selection.by, flag)
        return sandboxed(
            lambda: row_fingerprint(public, scenario, orders, key, partial(collect, what=PUBLIC))
        )

    def tally(self, selection: Selection, measures: Sequence[Measure] = ()) -> Tally:
        frame = sandboxed(lambda: self.selected(selection))
        public = not measures and selection.limit is None
        names = (*selection.public, *(name for name, _ in selection.derived))
        if public and names:
            frame = frame.select(named(name) for name in names)
        elif public:  # a choice of no columns would have no rows
            frame, flag = self._public_rows(selection)
            frame = frame if flag is None else frame.filter(named(flag))
        run = partial(collect, what=PUBLIC if public else PRIVATE)
        return sandboxed(lambda: tally(frame, selection.by, selection.keys, measures, run))

    def selected(self, selection: Selection) -> pl.LazyFrame:
        """Return the rows that are selected, with derived columns; those of units are chosen before."""
        frame = self.frame if selection.limit is None else at_most(self.frame, selection.limit)
        frame = with_derived(frame, selection)
        for predicate in selection.filters:
            frame = frame.filter(predicate)
        return frame

    def _public_rows(self, selection: Selection) -> tuple[pl.LazyFrame, str | None]:
        """Return the public columns of all rows, and the name of the column that flags selected ones."""
        if selection.public:
            frame = self.frame.select(named(name) for name in selection.public)
        else:  # a choice of no columns would have no rows: each has a number
            number = unused("row", with_derived(self.frame, selection).collect_schema())
            frame = self.frame.with_row_index(number).select(named(number))
        return with_flag(with_derived(frame, selection), selection)


def collect(frame: pl.LazyFrame, what: str = PRIVATE) -> pl.DataFrame:
    """Run one streaming query."""

    def run() -> pl.DataFrame:
        with working(what):
            return frame.collect(engine="streaming")

    return sandboxed(run)


def batches(frame: pl.LazyFrame, rows: int) -> Iterator[pl.DataFrame]:
    """Run one streaming query, and yield its rows in their order, at most that many at once.

    Polars reads a few groups of rows of a file ahead. Ctrl-C is heard between two batches.
    """
    run = sandboxed(
        lambda: frame.collect_batches(
            chunk_size=rows, maintain_order=True, lazy=True, engine="streaming"
        )
    )
    while (batch := sandboxed(lambda: next(run, None))) is not None:
        for start in range(0, batch.height, rows):
            yield batch[start : start + rows]
