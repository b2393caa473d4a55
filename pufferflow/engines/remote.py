"""The engine for tables on other machines: few queries on stored columns, and the rest worked out here.

A machine groups rows by stored public columns, and counts and adds up private ones. The few distinct rows that come
back are Polars': filters, derived columns, calendars and keys are evaluated on them by the same expressions as on rows
of a frame, and whole numbers are added up. So results are equal to the last digit, wherever rows are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.progress import working
from pufferflow.core.sandbox import sandboxed
from pufferflow.engines.backend import Backend, CellTotals, Query
from pufferflow.engines.column_measures import columns_of
from pufferflow.engines.one_pass import OnePass
from pufferflow.engines.polars_engine import PRIVATE, PUBLIC, collect
from pufferflow.engines.public_rows import few_enough, needed, with_derived
from pufferflow.engines.remote_patterns import pattern_queries, remote_groups_in_cells, remote_patterns
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import CellGroups, Engine, Measure, Patterns, PositionMode, Selection, Tally
from pufferflow.queries.expressions.tree import named
from pufferflow.queries.file_versions import NO_FILES, Snapshot
from pufferflow.queries.key_columns import unused

_AT_ONCE: Final = 2**22
"""The rows of partial results that are held before they are added up."""


@final
@dataclass(frozen=True, eq=False)
class RemoteEngine(Engine):
    """A table behind a `Backend`."""

    backend: Backend
    self_test: str = ""
    """The digest of the self-test that the backend has passed."""

    @property
    def table(self) -> Any:
        return self.backend.table

    @property
    def name(self) -> str:
        return f"{self.backend.name} {self.backend.version}, self-test {self.self_test[:16]}"

    @property
    def counted_again(self) -> bool:
        return True

    def snapshot(self) -> Snapshot:
        return NO_FILES

    def schema(self, derived: Sequence[tuple[str, pl.Expr]] = ()) -> pl.Schema:
        stored = pl.LazyFrame(schema=sandboxed(self.backend.schema))
        return sandboxed(lambda: with_derived(stored, Selection(derived=tuple(derived))).collect_schema())

    def unreadable(self) -> Mapping[str, str]:
        return sandboxed(self.backend.unreadable)

    def queries(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode], measures: Sequence[Measure]
    ) -> list[str]:
        chosen, stored = needed(selection)
        wide = self.backend.most_rows > 2**32
        one_pass = OnePass(selection.by, columns_of(self.backend.schema(), measures, wide=wide))
        queries: list[Query] = [*(pattern_queries(stored, scenario, orders) if orders else ())]
        queries += [query for query, _ in _queries(chosen, one_pass)]
        return [self.backend.text(query) for query in queries]

    def patterns(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode]
    ) -> dict[PositionMode, Patterns | UsageError]:
        with working(PUBLIC), self.backend.one_version():
            return sandboxed(lambda: remote_patterns(self.backend, selection, scenario, orders))

    def groups_in_cells(
        self, selection: Selection, scenario: Scenario, orders: Collection[PositionMode], keys: pl.DataFrame
    ) -> CellGroups | None:
        with working(PUBLIC), self.backend.one_version():
            return sandboxed(lambda: remote_groups_in_cells(self.backend, selection, scenario, orders, keys))

    def tally(self, selection: Selection, measures: Sequence[Measure] = ()) -> Tally:
        public = not measures and selection.limit is None
        with working(PUBLIC if public else PRIVATE), self.backend.one_version():
            return sandboxed(lambda: self._tally(selection, measures))

    def _tally(self, selection: Selection, measures: Sequence[Measure]) -> Tally:
        chosen, stored = needed(selection)
        schema = self.backend.schema()
        one_pass = OnePass(selection.by, columns_of(schema, measures, wide=self.backend.most_rows > 2**32))
        types = self.schema(chosen.derived)
        parts = (
            _rows_by_key(part, chosen, stored, schema)
            for query, start in _queries(chosen, one_pass)
            for part in _with_classes(self._parts(query), start)
        )
        table = _added(parts)
        ordered = table if selection.keys is not None else collect(one_pass.in_order(table.lazy(), types))
        return one_pass.tally(ordered, selection.keys)

    def _parts(self, query: CellTotals) -> Iterator[pl.DataFrame]:
        """Return the result of a query; how many rows it has is public, unless of private classes or units."""
        names = {f"by{place}": name for place, name in enumerate(query.by)}
        parts = self.backend.run(query)
        return few_enough(parts, names) if query.numbering is None and query.limit is None else parts

    def one_version(self) -> AbstractContextManager[bool]:
        return self.backend.one_version()


def _queries(chosen: Selection, one_pass: OnePass) -> Iterator[tuple[CellTotals, int]]:
    """Yield the queries of one pass, each with the number of its first class: one for each column of many classes."""
    totals = one_pass.totals()
    if not one_pass.grouped:
        yield CellTotals(chosen.public, totals, None, chosen.limit), 0
    for column, start in zip(one_pass.grouped, one_pass.starts, strict=False):
        yield CellTotals(chosen.public, totals, column.classes.numbering, chosen.limit), start


def _with_classes(parts: Iterable[pl.DataFrame], start: int) -> Iterator[pl.DataFrame]:
    for part in parts:
        yield part.with_columns(pl.col("class") + start) if "class" in part.columns else part


def _rows_by_key(part: pl.DataFrame, selection: Selection, stored: Sequence[str], schema: pl.Schema) -> pl.DataFrame:
    """Return totals of the selected rows by keys, from totals by stored columns."""
    public = [pl.col(f"by{place}").cast(schema[name]).alias(name) for place, name in enumerate(stored)]
    # totals are fields of a struct, so that their names cannot clash with those of public columns
    totals = unused("totals", {*stored, *(name for name, _ in selection.derived)})
    fields = [name for name in part.columns if not name.startswith("by")]
    frame = with_derived(part.lazy().select(*public, pl.struct(fields).alias(totals)), selection, stored)
    for predicate in selection.filters:
        frame = frame.filter(predicate)
    keys = [named(name).alias(f"by{place}") for place, name in enumerate(selection.by)]
    return _sums(frame.select(*keys, named(totals)).unnest(totals))


def _added(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the sum of partial results, of which few are held at a time."""
    held, rows = list[pl.DataFrame](), 0
    for part in parts:
        held.append(part)
        rows += part.height
        if rows > _AT_ONCE and len(held) > 1:
            held = [_sums(pl.concat(held).lazy())]
            rows = held[0].height
    return held[0] if len(held) == 1 else _sums(pl.concat(held).lazy())


def _sums(table: pl.LazyFrame) -> pl.DataFrame:
    """Return totals, added up by keys."""
    names = table.collect_schema().names()
    keys = [name for name in names if name.startswith("by") or name == "class"]
    totals = [pl.col(name).cast(pl.Int64).sum() for name in names if name not in keys]
    return collect(table.group_by(keys).agg(totals) if keys else table.select(totals))
