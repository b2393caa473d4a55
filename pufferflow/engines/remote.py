"""The engine for tables on other machines (DuckDB, PostgreSQL, Spark, warehouses): few queries, the rest here.

A machine groups rows by stored public columns, and counts and adds up private ones. A few distinct rows come back.
Polars evaluates filters, derived columns, calendars and keys on them, by the same expressions as on rows of a frame.
Then whole numbers are added up. So results are equal to the last digit, wherever rows are.

The patterns of groups on another machine follow from its runs: the rows of a group that are equal in stored columns. A
run that has a row at every moment of the table from its first to its last is known by these two. So one aggregate of
the machine is enough for groups of such runs, and groups with equal runs come back as one. The rows of all other groups
are read, public columns only, into a temporary file, and everything is found there as in a frame.
"""

import itertools
import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, final

import polars as pl

from pufferflow.core.errors import UsageError
from pufferflow.core.progress import working
from pufferflow.core.sandbox import sandboxed
from pufferflow.engines.backend import (
    Backend,
    CellTotals,
    GroupRows,
    GroupRuns,
    Query,
    result_types,
)
from pufferflow.engines.column_measures import columns_of
from pufferflow.engines.groups_in_cells import groups_in_cells
from pufferflow.engines.one_pass import OnePass
from pufferflow.engines.pattern_columns import PublicRows
from pufferflow.engines.patterns import find_patterns
from pufferflow.engines.polars_engine import PRIVATE, PUBLIC, collect
from pufferflow.engines.public_rows import few_enough, needed, timed, with_derived, with_flag
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import (
    NO_FILES,
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

_MOST_SIZES: Final = 256
"""With more sizes of groups to be read, all groups are read: the query would list too many."""
_RUNS_AT_ONCE: Final = 2**20


def remote_patterns(
    backend: Backend, selection: Selection, scenario: Scenario, orders: Collection[PositionMode]
) -> dict[PositionMode, Patterns | UsageError]:
    """Return the distinct patterns of the scenario's groups, in each order."""
    with _public_rows(backend, selection, scenario, orders) as public:
        return find_patterns(public, scenario, orders, partial(collect, what=PUBLIC))


def remote_groups_in_cells(
    backend: Backend,
    selection: Selection,
    scenario: Scenario,
    orders: Collection[PositionMode],
    keys: pl.DataFrame,
) -> CellGroups | None:
    """Return the sizes of the scenario's groups in each cell; rows are read as for patterns in these orders."""
    with _public_rows(backend, selection, scenario, orders) as public:
        return groups_in_cells(public, scenario, keys, partial(collect, what=PUBLIC))


@contextmanager
def _public_rows(
    backend: Backend, selection: Selection, scenario: Scenario, orders: Collection[PositionMode]
) -> Generator[PublicRows]:
    """Return public columns of the rows of groups, each standing for all equal ones; they are removed afterwards."""
    chosen, stored = needed(selection)
    query, *_ = pattern_queries(stored, scenario, orders)
    with tempfile.TemporaryDirectory(prefix="pufferflow-") as folder:
        groups = _Groups.of(backend, query, Path(folder))
        frame, flag = with_flag(with_derived(groups.frame, chosen, stored), chosen)
        names, schema = groups.names, frame.collect_schema()
        of_time = timed(chosen, query.order_by, schema)
        yield PublicRows(frame, chosen.by, flag, of_time, names.within, names.times, names.counts)


def pattern_queries(
    stored: Sequence[str], scenario: Scenario, orders: Collection[PositionMode]
) -> tuple[GroupRuns] | tuple[GroupRuns, CellTotals]:
    """Return the queries that always run: for runs and, if order matters, for the moments of the table."""
    order_by = scenario.order_by if any(order.ordered for order in orders) else None
    columns = tuple(name for name in stored if name != order_by)
    runs = GroupRuns(tuple(scenario.within), columns, order_by)
    return (runs,) if order_by is None else (runs, CellTotals((order_by,)))


class _Names(NamedTuple):
    """The names of columns beside the stored ones: the group of a row, and for how many rows it stands."""

    within: list[str]
    times: str
    counts: str | None


@final
@dataclass(frozen=True)
class _Groups:
    """Rows of groups on another machine, each standing for all groups with the same runs; and names of ours."""

    frame: pl.LazyFrame
    names: _Names

    @classmethod
    def of(cls, backend: Backend, query: GroupRuns, folder: Path) -> Self:
        """Return the groups; what has to be read row by row is written into a folder."""
        schema = backend.schema()
        names = {f"column{place}": name for place, name in enumerate(query.columns)}
        runs = _typed(pl.concat(few_enough(backend.run(query), names)), query, schema)
        if query.order_by is None:
            return cls(*_named(_kinds(runs).lazy(), query))
        each_moment = CellTotals((query.order_by,))
        moments = pl.concat(few_enough(backend.run(each_moment), {"by0": query.order_by}))
        moments = _typed(moments, each_moment, schema)
        moments = moments.select(moment="by0").unique().sort("moment").with_row_index("place")
        runs = _with_places(runs, moments)
        irregular = runs.filter(~pl.col("regular"))["rows"].unique().sort().to_list()
        sizes = () if len(irregular) > _MOST_SIZES else tuple(irregular)
        regular = (
            runs.filter(~pl.col("rows").is_in(irregular))
            if sizes or not irregular
            else runs.clear()
        )
        rows = _rows_of_runs(_kinds(regular), moments)
        if irregular:
            whole = GroupRows(query, sizes)
            parts = (_typed(part, whole, schema) for part in backend.run(whole))
            rows = pl.concat([rows, _written(parts, folder, rows)])
        return cls(*_named(rows, query))


def _typed(table: pl.DataFrame, query: Query, schema: pl.Schema) -> pl.DataFrame:
    types = result_types(query, schema)
    return table.cast({name: types.get(name, pl.Int64()) for name in table.columns})


def _with_places(runs: pl.DataFrame, moments: pl.DataFrame) -> pl.DataFrame:
    """Return runs with the places of their first and last moments, and whether they have all moments in between."""
    for end in ("first", "last"):
        place = moments.select(
            pl.col("moment").alias(end), pl.col("place").cast(pl.Int64).alias(f"{end} place")
        )
        runs = runs.join(place, on=end, how="left")
    span = pl.col("last place") - pl.col("first place") + 1
    regular = (pl.col("moments") == pl.col("count")) & (span == pl.col("count"))
    return runs.with_columns(regular=regular.fill_null(value=False))


def _kinds(runs: pl.DataFrame) -> pl.DataFrame:
    """Return runs with a number for the group: one of its own for a group of one run, −1 where columns say which."""
    number = pl.when(pl.col("runs") == 1).then(pl.int_range(pl.len(), dtype=pl.Int64)).otherwise(-1)
    return runs.with_columns(group=number)


def _rows_of_runs(runs: pl.DataFrame, moments: pl.DataFrame) -> pl.LazyFrame:
    """Return the rows of regular runs."""
    places = pl.int_ranges("first place", pl.col("last place") + 1).alias("place")
    rows = runs.lazy().with_columns(places).explode("place", empty_as_null=False)
    moments = moments.with_columns(pl.col("place").cast(pl.Int64))
    own = [name for name in runs.columns if name.startswith(("within", "column"))]
    return rows.join(moments.lazy(), on="place").select("group", "times", "moment", *own)


def _written(parts: Iterator[pl.DataFrame], folder: Path, like: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows that were read, each group standing for itself; they are written into files meanwhile."""
    names, held, rows = like.collect_schema().names(), list[pl.DataFrame](), 0
    for number, part in enumerate(parts):
        held.append(
            part.with_columns(
                group=pl.lit(-1, dtype=pl.Int64), times=pl.lit(1, dtype=pl.Int64)
            ).select(names)
        )
        rows += part.height
        if rows >= _RUNS_AT_ONCE:
            pl.concat(held).write_parquet(folder / f"{number}.parquet", compression="lz4")
            held, rows = [], 0
    if held:
        pl.concat(held).write_parquet(folder / "last.parquet", compression="lz4")
    return pl.scan_parquet(folder / "*.parquet")


def _named(rows: pl.LazyFrame, query: GroupRuns) -> tuple[pl.LazyFrame, _Names]:
    """Return rows with stored columns under their own names, and the names of all others, which no column has."""
    taken = {*query.columns, query.order_by}
    free = next(
        f"__{number}"
        for number in itertools.count()
        if not any(f"__{number}" in str(name) for name in taken)
    )
    stored = {name: pl.col(f"column{place}") for place, name in enumerate(query.columns)}
    if query.order_by is not None:
        stored[query.order_by] = pl.col("moment")
    within = {
        f"{free} {name}": pl.col(name)
        for name in (f"within{place}" for place in range(len(query.within)))
    }
    groups = {f"{free} group": pl.col("group"), **within} if query.within else {}
    weights = {f"{free} times": pl.col("times")}
    if query.order_by is None:
        weights[f"{free} counts"] = pl.col("count")
    names = _Names([*groups], f"{free} times", f"{free} counts" if query.order_by is None else None)
    return rows.select(**stored, **groups, **weights), names


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
        return sandboxed(
            lambda: with_derived(stored, Selection(derived=tuple(derived))).collect_schema()
        )

    def unreadable(self) -> Mapping[str, str]:
        return sandboxed(self.backend.unreadable)

    def queries(
        self,
        selection: Selection,
        scenario: Scenario,
        orders: Collection[PositionMode],
        measures: Sequence[Measure],
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
        self,
        selection: Selection,
        scenario: Scenario,
        orders: Collection[PositionMode],
        keys: pl.DataFrame,
    ) -> CellGroups | None:
        with working(PUBLIC), self.backend.one_version():
            return sandboxed(
                lambda: remote_groups_in_cells(self.backend, selection, scenario, orders, keys)
            )

    def tally(self, selection: Selection, measures: Sequence[Measure] = ()) -> Tally:
        public = not measures and selection.limit is None
        with working(PUBLIC if public else PRIVATE), self.backend.one_version():
            return sandboxed(lambda: self._tally(selection, measures))

    def _tally(self, selection: Selection, measures: Sequence[Measure]) -> Tally:
        chosen, stored = needed(selection)
        schema = self.backend.schema()
        one_pass = OnePass(
            selection.by, columns_of(schema, measures, wide=self.backend.most_rows > 2**32)
        )
        types = self.schema(chosen.derived)
        parts = (
            _rows_by_key(part, chosen, stored, schema)
            for query, start in _queries(chosen, one_pass)
            for part in _with_classes(self._parts(query), start)
        )
        table = _added(parts)
        ordered = (
            table if selection.keys is not None else collect(one_pass.in_order(table.lazy(), types))
        )
        return one_pass.tally(ordered, selection.keys)

    def _parts(self, query: CellTotals) -> Iterator[pl.DataFrame]:
        """Return the result of a query; its number of rows is public, except for private classes or units."""
        names = {f"by{place}": name for place, name in enumerate(query.by)}
        parts = self.backend.run(query)
        return (
            few_enough(parts, names) if query.numbering is None and query.limit is None else parts
        )

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


def _rows_by_key(
    part: pl.DataFrame, selection: Selection, stored: Sequence[str], schema: pl.Schema
) -> pl.DataFrame:
    """Return totals of the selected rows by keys, from totals by stored columns."""
    public = [
        pl.col(f"by{place}").cast(schema[name]).alias(name) for place, name in enumerate(stored)
    ]
    # totals are fields of a struct, so that their names cannot clash with those of public columns
    totals = unused("totals", {*stored, *(name for name, _ in selection.derived)})
    fields = [name for name in part.columns if not name.startswith("by")]
    frame = with_derived(
        part.lazy().select(*public, pl.struct(fields).alias(totals)), selection, stored
    )
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
