"""One streaming pass over the rows: exact sums of every measure in every cell.

No expression of the user runs on a private value: `column_measures` has the rules of the domains and the ways in which
sums are read. Whatever the values are, nothing fails, and schema, keys and order of the result are the same: rows of
null, NaN, ±∞ and unknown labels are rows like others. All sums are sums of whole numbers, proven not to overflow, so
neither the order of the rows nor the number of threads can matter.

Columns with few classes, and those whose values are added up, need one total or a few of each cell. The classes of the
others become groups: a row of the result then is a cell and a class. If several columns have many classes, each row
stands once for each of them, with its class there. Totals are then those of the classes of the first column.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import polars as pl
import scipy  # loads its parts when first used

from pufferflow.core.arrays import Array
from pufferflow.core.errors import UsageError
from pufferflow.engines.backend import PrivateTotals
from pufferflow.engines.column_measures import (
    CLASS,
    MOST_ROWS,
    ByClass,
    ColumnReading,
    bounded_rows,
    columns_of,
    weighted,
)
from pufferflow.engines.pattern_columns import Collect
from pufferflow.queries.engine_interface import Measure, Tally, UnitLimit
from pufferflow.queries.expressions.tree import unsorted
from pufferflow.queries.keys import comparable, places_of, published, unsigned_zero, unused

_AT_ONCE = 2**14


@final
@dataclass(frozen=True, eq=False)
class OnePass:
    """One pass over the rows that reads all columns in all groups."""

    by: tuple[str, ...]
    columns: Sequence[ColumnReading]

    @cached_property
    def grouped(self) -> list[ByClass]:
        """The columns whose classes become groups."""
        return [column for column in self.columns if isinstance(column, ByClass) and column.many]

    @cached_property
    def totalled(self) -> list[ColumnReading]:
        """All others."""
        return [
            column for column in self.columns if not (isinstance(column, ByClass) and column.many)
        ]

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first class of each grouped column."""
        return list(itertools.accumulate((len(column.steps) for column in self.grouped), initial=0))

    def totals(self) -> tuple[PrivateTotals, ...]:
        """Return what is counted and added up of the columns that need totals."""
        return tuple(PrivateTotals(column.value, column.totals) for column in self.totalled)

    def query(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the query; its columns have names of their own, and each is computed once for each row."""
        keys = [f"by{place}" for place in range(len(self.by))]
        public = [unsorted(name).alias(key) for name, key in zip(self.by, keys, strict=True)]
        clean = [
            column.value.read().alias(f"clean{place}") for place, column in enumerate(self.totalled)
        ]
        classes = [
            (column.classes.number() + pl.lit(start, dtype=CLASS)).alias(f"class{start}")
            for column, start in zip(self.grouped, self.starts, strict=False)
        ]
        needed = [*public, *clean, *classes]
        rows = frame.select(needed) if needed else frame
        on = [f"class{start}" for start in self.starts[:-1]]
        if len(on) == 1:
            rows = rows.rename({on[0]: "class"})
        elif on:  # each row once for each grouped column, with its class there
            index = [*keys, *(f"clean{place}" for place in range(len(self.totalled)))]
            rows = rows.unpivot(on, index=index, variable_name="of", value_name="class")
        keys += ["class"] * bool(on)
        totals = [pl.len().alias("rows")]
        for place, column in enumerate(self.totalled):
            own = (total.read(pl.col(f"clean{place}")) for total in column.totals)
            totals += [total.alias(f"total{place}_{number}") for number, total in enumerate(own)]
        return rows.group_by(keys).agg(totals) if keys else rows.select(totals)

    def key_schema(self, schema: pl.Schema) -> pl.Schema:
        """Return the columns of the result that are keys, for the schema of the frame."""
        return pl.Schema({f"by{place}": schema[name] for place, name in enumerate(self.by)})

    def keys(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return the keys in the result of the query."""
        names = [(f"by{place}", name) for place, name in enumerate(self.by)]
        return table.select(
            unsigned_zero(pl.col(key), table.schema[key]).alias(name) for key, name in names
        )

    def read(self, table: pl.DataFrame, cells: Array, count: int) -> tuple[Array, Array]:
        """Return the rows of each of `count` cells, and its sums.

        `cells` is the cell of each row of the result, −1 for none. One block is read at a time, so that millions of
        rows take little memory.
        """
        if (np.diff(cells, prepend=0) < 0).any():
            order = np.argsort(cells, kind="stable")
            table, cells = table[order], cells[order]
        starts = range(0, max(count, 1), _AT_ONCE)
        ends = np.searchsorted(cells, [*starts, count])
        parts = [
            self._part(table[low:high], cells[low:high] - start, min(count - start, _AT_ONCE))
            for start, low, high in zip(starts, ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]
        rows, sums = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(sums)

    def in_order(self, query: pl.LazyFrame, schema: pl.Schema) -> pl.LazyFrame:
        """Return the result sorted by its keys, for the schema of the frame."""
        return query.sort(comparable(self.key_schema(schema))) if self.by else query

    def tally(self, table: pl.DataFrame, keys: pl.DataFrame | None) -> Tally:
        """Return the sums of all measures in every cell; without keys, those of the result, which is in order."""
        if not self.by:
            return Tally(None, *self.read(table, np.zeros(len(table), dtype=np.intp), 1))
        if keys is not None:
            return Tally(
                published(keys), *self.read(table, places_of(self.keys(table), keys), len(keys))
            )
        cells = runs_of(self.keys(table))
        distinct = self.keys(table)[np.flatnonzero(np.diff(cells, prepend=-1))]
        return Tally(published(distinct), *self.read(table, cells, len(distinct)))

    def _part(self, table: pl.DataFrame, cells: Array, count: int) -> tuple[Array, Array]:
        own_rows, own_cells = table, cells
        if len(self.grouped) > 1:
            of_first = table["class"].to_numpy() < self.starts[1]
            own_rows, own_cells = table.filter(of_first), cells[of_first]
        rows = _added(_whole(own_rows, ["rows"]), own_cells, count)[:, 0]
        sums: list[Array] = []
        for place, column in enumerate(self.totalled):
            totals = _whole(
                own_rows, [name for name in table.columns if name.startswith(f"total{place}_")]
            )
            sums.append(column.sums(_added(totals, own_cells, count), rows))
        for column, start in zip(self.grouped, self.starts, strict=False):
            classes = table["class"].to_numpy().astype(np.int64) - start
            own = (classes >= 0) & (classes < len(column.steps))
            counted = _whole(table, ["rows"])[own, 0], (cells[own], classes[own])
            own_counts = scipy.sparse.csr_array(counted, shape=(count, len(column.steps)))
            sums.append(weighted(own_counts, column.steps, wide=column.wide))
        places = [place for column in (*self.totalled, *self.grouped) for place in column.measures]
        return rows, _of_measures(np.hstack([np.zeros((count, 0), dtype=np.int64), *sums]), places)


def _of_measures(sums: Array, places: Sequence[int]) -> Array:
    """Return the sum of each measure from those of its terms, all below 2^62 together."""
    if len(places) == len(set(places)):
        return sums[:, np.argsort(places)]
    whole = np.zeros((max(places) + 1, len(sums)), dtype=sums.dtype)
    np.add.at(whole, np.array(places), sums.T)
    return whole.T


def _added(numbers: Array, cells: Array, count: int) -> Array:
    """Return the sums of numbers in each of `count` cells; rows are sorted by cell."""
    sums = np.zeros((count, numbers.shape[1]), dtype=np.int64)
    heads = np.flatnonzero(np.diff(cells, prepend=-1))
    if len(heads):
        sums[cells[heads]] = np.add.reduceat(numbers, heads, axis=0)
    return sums


def _whole(table: pl.DataFrame, names: Sequence[str]) -> Array:
    numbers = np.zeros((len(table), len(names)), dtype=np.int64)
    for place, name in enumerate(names):
        numbers[:, place] = table[name].to_numpy()
    return numbers


def runs_of(keys: pl.DataFrame) -> Array:
    """Return the number of each of the sorted keys among the distinct ones, counted from 0."""
    forms = keys.select(comparable(keys.schema))
    news = (
        forms.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1))))
        .to_series()
        .to_numpy()
    )
    return np.cumsum(np.concatenate([[False], news[1:]]), dtype=np.intp)[: len(keys)]


def tally(
    frame: pl.LazyFrame,
    by: tuple[str, ...],
    keys: pl.DataFrame | None,
    measures: Sequence[Measure],
    collect: Collect,
) -> Tally:
    """Return the sums of all measures in every cell, in one pass.

    With `keys` (from `read_keys`) the cells are these, in this order: other keys of the data are left out, and a key
    that the data does not have gets 0. By default they are the keys of the data, ascending: nulls first, NaN last,
    categories by text. Keys of categories are returned as text.
    """
    bounded_rows()
    schema = frame.collect_schema()
    one_pass = OnePass(by, columns_of(schema, measures))
    query = one_pass.query(frame)
    return one_pass.tally(
        collect(one_pass.in_order(query, schema) if keys is None else query), keys
    )


def one_pass_query(
    frame: pl.LazyFrame, by: tuple[str, ...], measures: Sequence[Measure]
) -> pl.LazyFrame:
    """Return the query for the sums of all measures in every cell."""
    return OnePass(by, columns_of(frame.collect_schema(), measures)).query(frame)


def at_most(frame: pl.LazyFrame, limit: UnitLimit) -> pl.LazyFrame:
    """Return only the first rows of each unit, by the order of the limit and then by their order in the frame.

    Which rows of a unit remain depends on the rows of this unit alone.
    """
    if limit.rows < 1:
        raise UsageError(f"rows is {limit.rows}.", allowed="a whole number >= 1", instead="rows=1")
    schema = frame.collect_schema()
    order = [_in_order(name, schema[name]) for name in limit.order]
    # a stable sort: rows of equal order stay in the order of the frame
    rows_in_order = frame.sort(order, nulls_last=False, maintain_order=True) if order else frame
    of = unsigned_zero(unsorted(limit.unit), schema[limit.unit])
    if limit.by:
        return _in_groups(rows_in_order, limit, of)
    if limit.rows == 1:
        return rows_in_order.filter(of.is_first_distinct())
    place = (of.is_null() | True).cum_count().over(of)  # rows without a unit are a unit too
    return rows_in_order.filter(place <= min(limit.rows, MOST_ROWS))


def _in_groups(rows_in_order: pl.LazyFrame, limit: UnitLimit, of: pl.Expr) -> pl.LazyFrame:
    """Return the first rows of each group of a unit, and of these the groups with the least values."""
    schema = rows_in_order.collect_schema()
    place, group = (unused(name, schema.names()) for name in ("place", "group"))
    groups = comparable(pl.Schema({name: schema[name] for name in limit.by}), unsorted)
    every = groups[0].is_null() | True
    by_groups = [_in_order(name, schema[name]) for name in limit.by]
    counted = (
        rows_in_order.sort(by_groups, nulls_last=False, maintain_order=True)
        .with_columns(every.cum_count().over(of, *groups).alias(place))
        .with_columns((pl.col(place) == 1).cum_sum().over(of).alias(group))
    )
    most = MOST_ROWS if limit.groups is None else limit.groups
    chosen = (pl.col(place) <= min(limit.rows, MOST_ROWS)) & (pl.col(group) <= min(most, MOST_ROWS))
    return counted.filter(chosen).drop(place, group)


def _in_order(name: str, dtype: pl.DataType) -> pl.Expr:
    column = unsigned_zero(unsorted(name), dtype)
    return column.cast(pl.String) if isinstance(dtype, pl.Categorical | pl.Enum) else column
