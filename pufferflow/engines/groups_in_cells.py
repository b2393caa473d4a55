"""The sizes of groups in each cell of an answer, from public columns: they determine which noise a cell needs.

Groups are independent, so a secret of one moves only cells in which it has selected rows. Cells that share a group
belong together: they are one block. No group has selected rows in two blocks, so each may have noise of its own.

A kind of groups without order is how many rows a group has in each of its cells, whatever the names of the cells. Rows
are counted by sorting one number for each, which takes less time than a hash table where groups are many and small.
Groups are compared by fingerprints of these counts, two sums of mixed numbers modulo 2⁶⁴ with keys drawn anew in each
process. By chance two kinds agree with a probability of about 2⁻¹²⁸. The counts of one group of each kind are then
taken as they are.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
import polars as pl
import scipy  # loads its parts when first used

from pufferflow.core.arrays import Array, Flags, Whole
from pufferflow.engines.groups import MOST, Codes, Groups, changes, codes_of, fitting, mix
from pufferflow.engines.pattern_columns import Collect, Columns, PublicRows
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import CellGroups, GroupSize
from pufferflow.queries.expressions.tree import unsorted
from pufferflow.queries.keys import places_of

_KEYS: Final = [
    (np.uint64(secrets.randbits(64) | 1), np.uint64(secrets.randbits(64))) for _ in range(2)
]


class CellSizes(NamedTuple):
    """The numbers of rows in the cells of a group, in falling order, and of rows that are not selected."""

    sizes: tuple[int, ...]
    others: int


Kinds = dict[CellSizes, int]
"""How many groups there are of each kind."""


class Counts(NamedTuple):
    """The numbers of rows in cells: group i has those from `bounds[i]` to below `bounds[i + 1]`.

    Flags mark the numbers of rows that are not selected. Each group counts `times` times.
    """

    bounds: Whole
    rows: Whole
    others: npt.NDArray[np.bool_]
    times: Whole

    def kinds(self) -> Kinds | None:
        """Return the kinds of groups with a selected row; None if there are too many."""
        starts = self.bounds[:-1]
        prints = [
            np.add.reduceat(mixed, starts) if len(starts) else mixed[:0]
            for mixed in map(self._mixed, _KEYS)
        ]
        groups = pl.DataFrame({"0": prints[0], "1": prints[1], "times": self.times}).with_row_index(
            "group"
        )
        if self.others.any():
            groups = groups.filter(pl.Series(np.logical_or.reduceat(~self.others, starts)))
        alike = groups.group_by("0", "1").agg(pl.col("group").min(), pl.col("times").sum())
        if alike.height > MOST:
            return None
        return {
            self._kind(group): times for group, times in alike.select("group", "times").iter_rows()
        }

    def _mixed(self, key: tuple[np.uint64, np.uint64]) -> npt.NDArray[np.uint64]:
        numbers = self.rows.astype(np.uint64)
        numbers *= key[0]
        numbers += key[1]
        numbers[self.others] ^= key[0]
        return mix(numbers)

    def _kind(self, group: int) -> CellSizes:
        own = slice(self.bounds[group], self.bounds[group + 1])
        rows, others = self.rows[own], self.others[own]
        return CellSizes(
            tuple(sorted(rows[~others].tolist(), reverse=True)), int(rows[others].sum())
        )


def counts_of(rows: pl.DataFrame, columns: Columns) -> Counts:
    """Return the counts of all groups; a row may stand for several, and a group too."""
    groups, cells = fitting(codes_of(rows, columns.within), codes_of(rows, columns.cells))
    size = cells.size + 1  # the last cell has the rows that are not selected
    keys = groups.values * size
    keys += (
        cells.values
        if columns.all_selected
        else np.where(rows["selected"].to_numpy(), cells.values, cells.size)
    )
    keys, numbers = _counted(keys, rows["count"].to_numpy() if "count" in rows.columns else None)
    of_group = keys // size
    keys -= of_group * size
    bounds = np.append(np.flatnonzero(changes(of_group)), len(of_group))
    times = np.ones(len(bounds) - 1, dtype=np.int64)
    if "times" in rows.columns:
        times[np.searchsorted(of_group[bounds[:-1]], groups.values)] = rows["times"].to_numpy()
    return Counts(bounds, numbers, keys == cells.size, times)


def _counted(keys: Whole, rows: Whole | None) -> tuple[Whole, Whole]:
    """Return the distinct keys in order, and how many rows have each; changes `keys`."""
    if rows is None:
        keys.sort()
        heads = np.flatnonzero(changes(keys))
        return keys[heads], np.diff(np.append(heads, len(keys)))
    order = np.argsort(keys)
    keys = keys[order]
    heads = np.flatnonzero(changes(keys))
    return keys[heads], np.add.reduceat(rows[order], heads) if len(heads) else heads


def counts_in_order(groups: Groups) -> Counts:
    """Return the counts of groups whose rows are in order."""
    cells = (
        np.maximum.reduceat(groups.cells, groups.bounds[:-1]) + 2
    )  # the first has the rows that are not selected
    first = np.cumsum(cells) - cells
    rows = np.repeat(first, np.diff(groups.bounds)) + groups.cells + 1
    counts = np.bincount(rows, minlength=int(cells.sum()))
    there, of_cell = np.flatnonzero(counts), np.repeat(np.arange(groups.number), cells)
    of_group = of_cell[there]
    bounds = np.append(np.flatnonzero(changes(of_group)), len(of_group))
    return Counts(bounds, counts[there], there == first[of_group], groups.times)


_MOST_KINDS: Final = 256
"""Beyond so many kinds, blocks are distinguished by their largest group only."""
_CROSSING: Final = 2**20
"""The most rows of groups in several cells that are read one by one."""
_SIZE: Final = ["selected", "others"]


def groups_in_cells(
    public: PublicRows, scenario: Scenario, keys: pl.DataFrame, collect: Collect
) -> CellGroups | None:
    """Return which sizes of groups are in each of the cells with these keys; None if that is not known.

    >>> import polars as pl, pufferflow as pf
    >>> secret = pf.Secret("level", domain=[0, 1])
    >>> scenario = pf.Scenario(secret=secret, prior=pf.AnyCorrelation(), within="house")
    >>> houses = pl.LazyFrame({"house": [1, 1, 2, 3], "town": ["a", "a", "a", "b"]})
    >>> towns = pl.DataFrame({"town": ["a", "b", "c"]})
    >>> found = groups_in_cells(PublicRows(houses, ["town"]), scenario, towns, lambda lazy: lazy.collect())
    >>> found.kind_of_cell.tolist(), [[size.selected for size in sizes] for sizes in found.kinds]
    ([0, 1, -1], [[2, 1], [1]])
    """
    within = scenario.within if public.within is None else public.within
    columns = _columns(public, within)
    if not within or columns is None:
        return None
    rows = _Rows(columns, [*keys.columns])
    texts = pl.DataFrame(
        [
            one.cast(pl.String) if isinstance(one.dtype, pl.Categorical | pl.Enum) else one
            for one in keys.get_columns()
        ]
    )
    sizes = collect(rows.sizes())
    if not sizes.height:
        return CellGroups(np.full(keys.height, -1, dtype=np.int64), ())
    blocks = _blocks(rows, sizes, texts, collect)
    return None if blocks is None else _kinds(*blocks)


def _columns(public: PublicRows, within: Sequence[str]) -> Columns | None:
    """Return the columns, those of cells that are a part of `within` too; None if a key has parts."""
    schema = public.frame.collect_schema()
    if any(schema[name].is_nested() or schema[name] == pl.Object for name in public.by):
        return None
    texts = [name for name in public.by if isinstance(schema[name], pl.Categorical | pl.Enum)]
    frame = public.frame.with_columns(unsorted(name).cast(pl.String) for name in texts)
    return Columns.of(public._replace(frame=frame), within, every=True)


@final
@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows with their groups and cells, whose keys have these `names`."""

    columns: Columns
    names: list[str]

    def key(self, place: int, end: str = "") -> pl.Expr:
        """Return a key, with the NaN that its columns have beside it."""
        nan, value = f"cell {place} is NaN", pl.col(f"cell {place}{end}")
        if nan not in self.columns.cells:
            return value
        return pl.when(pl.col(f"{nan}{end}")).then(pl.lit(math.nan)).otherwise(value)

    def groups(self) -> pl.LazyFrame:
        """Return the size of each group with a selected row; its keys, null where it has several values of one."""
        facts = self.columns.constancies()
        counted = self.columns.of_groups(facts).filter(pl.col("selected") > 0)
        own = [{f"cell {place}", f"cell {place} is NaN"} for place in range(len(self.names))]
        same = [
            pl.all_horizontal([fact.holds() for fact in facts if fact.name in names])
            for names in own
        ]
        return counted.select(
            *self.columns.within,
            *(["times"] * len(self.columns.group_times)),
            "selected",
            (pl.col("rows") - pl.col("selected")).alias("others"),
            *(
                pl.when(one).then(self.key(place, " high")).alias(f"key {place}")
                for place, one in enumerate(same)
            ),
            *(one.alias(f"same {place}") for place, one in enumerate(same)),
        )

    def sizes(self) -> pl.LazyFrame:
        """Return the distinct sizes of groups, with their keys."""
        keys = [f"{what} {place}" for what in ("key", "same") for place in range(len(self.names))]
        return (
            self.groups()
            .group_by(*keys, *_SIZE)
            .agg(self.columns.number_of_groups().alias("groups"))
        )

    def crossing(self) -> pl.LazyFrame:
        """Return the cells of each group that has selected rows in several."""
        groups = (
            self.groups()
            .filter(~self.one_cell)
            .select(*self.columns.within, pl.struct(_SIZE).alias("size"))
        )
        rows = (
            self.columns.rows if self.columns.all_selected else self.columns.rows.filter("selected")
        )
        cells = rows.select(*self.columns.within, *self.columns.cells).unique()
        keys = [self.key(place).alias(f"key {place}") for place in range(len(self.names))]
        joined = cells.join(groups, on=self.columns.within, nulls_equal=True)
        return joined.select(*self.columns.within, *keys, pl.col("size").struct.unnest())

    @property
    def one_cell(self) -> pl.Expr:
        """Whether all selected rows of a group are in one cell."""
        return pl.all_horizontal([pl.col(f"same {place}") for place in range(len(self.names))])

    def places(self, table: pl.DataFrame, among: pl.DataFrame, chosen: Sequence[int]) -> Array:
        """Return the places of some of the keys of a table."""
        keys = table.select(pl.col(f"key {place}").alias(self.names[place]) for place in chosen)
        return places_of(keys, among[[self.names[place] for place in chosen]])


class _Blocks(NamedTuple):
    """The block of each cell, and the sizes of groups: each a block, its selected rows and its others."""

    of_cell: Whole
    sizes: Whole


def _blocks(
    rows: _Rows, sizes: pl.DataFrame, keys: pl.DataFrame, collect: Collect
) -> _Blocks | None:
    """Return blocks of cells between which no group has rows; None if all are one, or if that is not known.

    Groups in several cells join these, if such groups are few. Otherwise all cells are joined that differ only in
    columns of which some group has several values.
    """
    every = range(len(rows.names))
    inside, across = sizes.filter(rows.one_cell), sizes.filter(~rows.one_cell)
    if not across.height:
        return _placed(inside, rows.places(inside, keys, every), np.arange(keys.height))
    if int((across["selected"] * across["groups"]).sum()) <= _CROSSING:
        return _joined(rows, inside, collect(rows.crossing()), keys)
    constant = [place for place in every if sizes[f"same {place}"].all()]
    if not constant:
        return None
    blocks = codes_of(keys, [rows.names[place] for place in constant]).dense()
    _, first = np.unique(blocks.values, return_index=True)
    cells = rows.places(sizes, keys[first], constant)
    return _placed(sizes, np.where(cells < 0, -1, first[cells]), blocks.values)


def _joined(
    rows: _Rows, inside: pl.DataFrame, crossing: pl.DataFrame, keys: pl.DataFrame
) -> _Blocks | None:
    """Return the connected components of cells that are joined by groups."""
    every = range(len(rows.names))
    cells, joined = (rows.places(table, keys, every) for table in (inside, crossing))
    if (joined < 0).any():
        return None
    groups = codes_of(crossing, rows.columns.within).dense()
    size = keys.height + groups.size
    edges = scipy.sparse.coo_array(
        (np.ones(len(joined), np.int8), (joined, groups.values + keys.height)), (size, size)
    )
    _, block = scipy.sparse.csgraph.connected_components(edges, directed=False)
    table = pl.concat([inside.select(_SIZE), crossing.select(_SIZE)])
    return _placed(table, np.concatenate([cells, joined]), block[: keys.height].astype(np.int64))


def _placed(table: pl.DataFrame, cells: Array, blocks: Whole) -> _Blocks | None:
    """Return the blocks; if some group of a table is in none of the cells, the table changed meanwhile."""
    if (cells < 0).any():
        return None
    return _Blocks(
        blocks, np.column_stack([blocks[cells], table.select(_SIZE).to_numpy().astype(np.int64)])
    )


def _kinds(blocks: Whole, sizes: Whole) -> CellGroups:
    """Return the kinds of blocks: those with equal sets of sizes. Very many sizes are rounded up, to few."""
    known, which = _few(*_distinct(sizes[:, 1], sizes[:, 2]))
    own = Codes(blocks, len(blocks)).dense()  # there are at most as many blocks as cells
    block = np.zeros(len(blocks), dtype=np.int64)
    block[blocks] = own.values
    has = np.zeros((len(known), own.size), dtype=np.bool_)
    has[which, block[sizes[:, 0]]] = True
    kind = _alike(has)
    if kind.max(initial=0) >= _MOST_KINDS:
        kind = _numbered(np.where(has.any(axis=0), has.argmax(axis=0), -1))
    kinds = list[tuple[GroupSize, ...]]()
    for number in range(int(kind.max(initial=-1)) + 1):
        there = has[:, kind == number].any(axis=1)
        kinds.append(tuple(GroupSize(*size) for size in known[there].tolist()))
    return CellGroups(kind[own.values], tuple(kinds))


def _distinct(selected: Whole, others: Whole) -> tuple[Whole, Whole]:
    """Return the distinct sizes, the largest first, and which of them each is."""
    left, right = fitting(
        Codes(selected, int(selected.max()) + 1), Codes(others, int(others.max()) + 1)
    )
    _, first, which = np.unique(
        -left.values * right.size - right.values, return_index=True, return_inverse=True
    )
    return np.column_stack([selected, others])[first], which.reshape(-1)


def _few(known: Whole, which: Whole) -> tuple[Whole, Whole]:
    """Return sizes, or a few that are at least as large: each stands for those between two powers of a number."""
    if len(known) <= MOST:
        return known, which
    step = math.log(max(int(known[:, 0].max()), 2)) / (MOST - 1)
    part = np.ceil(np.log(known[:, 0]) / step - 2.0**-20).astype(np.int64)
    rounded = np.empty_like(known)
    for number in np.unique(part):
        rounded[part == number] = known[part == number].max(axis=0)
    fewer, of_known = _distinct(rounded[:, 0], rounded[:, 1])
    return fewer, of_known[which]


def _alike(has: Flags) -> Whole:
    """Return the number of each block's set of sizes, in the order in which they come up; −1 for the empty set."""
    kind = np.zeros(has.shape[1], dtype=np.int64)
    for member in has:
        finer = kind * 2 + member
        there = np.bincount(finer) > 0
        kind = (np.cumsum(there) - 1)[finer]
    return _numbered(np.where(has.any(axis=0), kind, -1))


def _numbered(kinds: Whole) -> Whole:
    """Return the same kinds numbered from 0 in the order in which they come up, but for −1."""
    known, first, which = np.unique(kinds, return_index=True, return_inverse=True)
    first = np.where(known < 0, -1, first)
    return (np.argsort(np.argsort(first)) - int((known < 0).any()))[which.reshape(-1)]
