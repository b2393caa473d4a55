"""One streaming pass over the rows: exact sums of every measure in every cell.

No expression of the user is run on a private value: `classes` has the rules of the domains, `columns` the ways in
which sums are read. Whatever the values are, nothing fails, and schema, keys and order of the result are the same:
rows of null, NaN, ±∞ and unknown labels are rows like others. All sums are sums of whole numbers, proven not to
overflow, so neither the order of the rows nor the number of threads can matter.

Columns with few classes, and those whose values are added up, need one total or a few of each cell. The classes of the
others become groups: a row of the result then is a cell and a class. Where several columns have many classes, each row
stands once for each of them, with its class there; totals are those of the classes of the first.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import polars as pl
import scipy  # loads its parts when first used

from pufferflow.arrays import Array, Flags, Indices
from pufferflow.dtypes import with_texts
from pufferflow.engine.classes import CLASS
from pufferflow.engine.columns import MOST_ROWS, ByClass, ColumnReading, bounded_rows, columns_of, weighted
from pufferflow.engine.engine import Measure, Tally, UnitLimit
from pufferflow.engine.pattern_columns import Collect
from pufferflow.engine.public_rows import unsigned_zero, unused
from pufferflow.engine.totals import PrivateTotals
from pufferflow.errors import UsageError
from pufferflow.expressions import named, unsorted

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
        return [column for column in self.columns if not (isinstance(column, ByClass) and column.many)]

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
        clean = [column.value.read().alias(f"clean{place}") for place, column in enumerate(self.totalled)]
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
        return table.select(unsigned_zero(pl.col(key), table.schema[key]).alias(name) for key, name in names)

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
            return Tally(published(keys), *self.read(table, places_of(self.keys(table), keys), len(keys)))
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
            totals = _whole(own_rows, [name for name in table.columns if name.startswith(f"total{place}_")])
            sums.append(column.sums(_added(totals, own_cells, count), rows))
        for column, start in zip(self.grouped, self.starts, strict=False):
            classes = table["class"].to_numpy().astype(np.int64) - start
            own = (classes >= 0) & (classes < len(column.steps))
            counted = _whole(table, ["rows"])[own, 0], (cells[own], classes[own])
            own_counts = scipy.sparse.csr_array(counted, shape=(count, len(column.steps)))
            sums.append(weighted(own_counts, column.steps, wide=column.wide))
        places = [place for column in (*self.totalled, *self.grouped) for place in column.measures]
        return rows, np.hstack([np.zeros((count, 0), dtype=np.int64), *sums])[:, np.argsort(places)]


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
    news = forms.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy()
    return np.cumsum(np.concatenate([[False], news[1:]]), dtype=np.intp)[: len(keys)]


def places_of(keys: pl.DataFrame, among: pl.DataFrame) -> Array:
    """Return the place of each key among different keys, −1 for one that is not there; null is a key like others."""
    true = among.select(unsorted(name) for name in among.columns)
    pairs = zip(keys.get_columns(), true.get_columns(), strict=True)
    keys = pl.DataFrame(  # enums are texts where those that were declared are
        [own.cast(with_texts(own.dtype, enums=True)) if own.dtype != other.dtype else own for own, other in pairs]
    )
    forms, others = keys.select(comparable(keys.schema)), true.select(comparable(true.schema)).with_row_index("place")
    joined = forms.join(others, on=forms.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["place"].cast(pl.Int64).fill_null(-1).to_numpy().astype(np.intp)


def published(keys: pl.DataFrame) -> pl.DataFrame:
    """Return keys as they may be published: not marked as sorted, and categories as text, nested ones too.

    The codes and the store of categories would reveal which labels this process has met before, secret ones too; so the
    texts are written anew. An enum is part of the schema, which is public where keys are; where they are not
    (`pf.Presence`), keys were declared, and are texts already (`read_keys`).
    """
    columns = list[pl.Series]()
    for column in keys.select(unsorted(name) for name in keys.columns):
        dtype = with_texts(column.dtype, enums=False)
        same = dtype == column.dtype
        columns.append(column if same else pl.Series(column.name, column.to_list(), dtype=dtype))
    return pl.DataFrame(columns)


def appearing_keys(keys: pl.DataFrame, appear: Flags) -> tuple[pl.DataFrame, Indices]:
    """Return those of the published keys that appear in an answer, in growing order, and their places among all.

    Nothing of the others is left: columns of texts are written anew, since a part of one may keep all of them in memory
    and in files. Enums are texts, since categories, and their order, may be those of the data.

    >>> towns = pl.DataFrame({"town": ["c", "a", "b"]}, schema={"town": pl.Enum(["c", "a", "b"])})
    >>> appearing_keys(towns, np.array([True, True, False]))[0]["town"].to_list()
    ['a', 'c']
    """
    places = np.flatnonzero(appear)
    own = pl.DataFrame([_anew(column) for column in keys[places].get_columns()])
    order = own.select(pl.arg_sort_by(comparable(own.schema))).to_series().to_numpy()
    return own[order], places[order]


def _anew(keys: pl.Series) -> pl.Series:
    """Return keys in memory of their own, enums as texts."""
    dtype = with_texts(keys.dtype, enums=True)
    if isinstance(dtype, pl.String | pl.Binary):
        return pl.Series(keys.name, keys.cast(dtype).to_list(), dtype=dtype)
    return keys.rechunk()


def comparable(schema: pl.Schema, read: Callable[[str], pl.Expr] = named) -> list[pl.Expr]:
    """Return the columns by which keys of a table are sorted and compared, named 0, 1 and so on.

    Categories are texts, and 0.0 stands for −0.0. A float has two columns, since NaN does not always equal itself.
    """
    forms = list[pl.Expr]()
    for name, dtype in schema.items():
        column = read(name)
        if dtype.is_float():
            forms += [column.is_nan(), unsigned_zero(column, dtype).fill_nan(0)]
        else:
            forms.append(column.cast(pl.String) if isinstance(dtype, pl.Categorical) else column)
    return [form.alias(str(place)) for place, form in enumerate(forms)]


def tally(
    frame: pl.LazyFrame,
    by: tuple[str, ...],
    keys: pl.DataFrame | None,
    measures: Sequence[Measure],
    collect: Collect,
) -> Tally:
    """Return the sums of all measures in every cell, in one pass.

    With `keys` (from `read_keys`) the cells are these, in this order: other keys of the data are left out, and a key
    that the data does not have gets 0. Without, they are the keys of the data, ascending: nulls first, NaN last,
    categories by text. Keys of categories are returned as text.
    """
    bounded_rows()
    schema = frame.collect_schema()
    one_pass = OnePass(by, columns_of(schema, measures))
    query = one_pass.query(frame)
    return one_pass.tally(collect(one_pass.in_order(query, schema) if keys is None else query), keys)


def one_pass_query(frame: pl.LazyFrame, by: tuple[str, ...], measures: Sequence[Measure]) -> pl.LazyFrame:
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
