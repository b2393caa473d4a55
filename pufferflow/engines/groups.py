"""Groups of rows in memory, in order, and their kinds: groups of a kind have rows at the same positions.

Equality of runs of rows is decided exactly. Digests only choose which runs to compare; then all rows of two runs are
compared before they count as one kind. A mistake here would give a group the guarantee of another one. Key columns of
any type become whole numbers, equal exactly where the values are, nulls too.

The kinds of groups in large tables come from streaming queries: groups of a kind have rows at the same places, in the
same cells. Groups are compared by fingerprints of their rows, so nothing of the size of the rows is in memory. Then the
rows of one group of each kind are read, and from there on all is exact. A fingerprint is two sums of hashes of 64 bits,
modulo 2⁶⁴: neither the order of rows nor threads matter. Its keys are drawn anew in each process, so no one can choose
rows whose fingerprints agree by mistake. By chance two do so with a probability of about 2⁻¹²⁸.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt
import polars as pl

from pufferflow.core.arrays import Whole
from pufferflow.core.errors import SourceError, UsageError
from pufferflow.engines.pattern_columns import Collect, Columns, Constancy
from pufferflow.engines.row_positions import Places, positions_of
from pufferflow.models.scenario import Scenario

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLOCK, _CACHED = 2**22, 2**14
MOST = 64
"""More distinct patterns than this are covered by one, whose guarantee holds for all of them."""


class Runs(NamedTuple):
    """Run i has the rows from `bounds[i]` to below `bounds[i + 1]`; the `columns` to compare have no −0.0 or NaN."""

    bounds: Whole
    columns: Sequence[npt.NDArray[Any]]

    @property
    def lengths(self) -> Whole:
        """How many rows each run has."""
        return np.diff(self.bounds)


def changes(values: Whole) -> npt.NDArray[np.bool_]:
    """Return a flag for each value that differs from the one before it, and for the first."""
    differs = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def alike(runs: Runs, most: int, times: Whole | None = None) -> list[tuple[int, int]] | None:
    """Return one run of each kind and how many are equal to it; None if there are more kinds than `most`.

    A run may stand for several: run i counts `times[i]` times.

    >>> alike(Runs(np.array([0, 2, 3, 5]), [np.array([7, 8, 7, 7, 8])]), most=9)
    [(0, 2), (1, 1)]
    """
    digests, remaining = _digests(runs), np.arange(len(runs.bounds) - 1)
    kinds: list[tuple[int, int]] = []
    while len(remaining):
        values = np.unique(digests[remaining])
        if len(kinds) + len(values) > most:  # runs with different digests differ
            return None
        others: list[Whole] = []
        for candidates in _by_value(
            remaining, np.searchsorted(values, digests[remaining]), len(values)
        ):
            same = _equal(runs, candidates)
            kinds.append(
                (
                    int(candidates[0]),
                    int(same.sum() if times is None else times[candidates[same]].sum()),
                )
            )
            others.append(candidates[~same])
        remaining = np.concatenate(others)
    return sorted(kinds)


def _by_value(items: Whole, values: npt.NDArray[np.intp], size: int) -> list[Whole]:
    """Return the items of each value."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(np.bincount(values, minlength=size))
    return np.split(items[order], ends[:-1])


def _equal(runs: Runs, chosen: Whole) -> npt.NDArray[np.bool_]:
    """Return a flag for each of the chosen runs that equals the first of them, compared block by block."""
    begin, end = int(runs.bounds[chosen[0]]), int(runs.bounds[chosen[0] + 1])
    same = runs.lengths[chosen] == end - begin
    longest = np.flatnonzero(same)
    for block in np.array_split(longest, len(longest) * (end - begin) // _BLOCK + 1):
        places = np.add.outer(runs.bounds[chosen[block]], np.arange(end - begin))
        for column in runs.columns:
            same[block] &= (column[places] == column[begin:end]).all(axis=1)
    return same


def _digests(runs: Runs) -> npt.NDArray[np.uint64]:
    """Return a number for each run, equal for runs with the same rows in any order, and hardly ever for others."""
    rows = np.zeros(runs.bounds[-1], dtype=np.uint64)
    for column in runs.columns:
        rows += column.view(np.uint64)
        mix(rows)
    return np.add.reduceat(rows, runs.bounds[:-1]) + runs.lengths.view(np.uint64) * _FIRST


def mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix the bits of each number in place, so that sums of numbers that were near each other differ."""
    for begin in range(0, len(numbers), _CACHED):
        block = numbers[begin : begin + _CACHED]
        block *= _FIRST
        block ^= block >> np.uint64(29)
        block *= _SECOND
        block ^= block >> np.uint64(32)
    return numbers


LARGEST = 2**61
"""Products of sizes up to this fit into 64 bits, with a margin."""


class Codes(NamedTuple):
    """A number for each row, from 0 to below `size`."""

    values: Whole
    size: int

    def dense(self) -> "Codes":
        """Return codes that leave no number out."""
        values, places = np.unique(self.values, return_inverse=True)
        return Codes(places.astype(np.int64), len(values))


def fitting(left: Codes, right: Codes) -> tuple[Codes, Codes]:
    """Return codes for the same values, such that pairs of them fit into 64 bits."""
    if left.size * right.size <= LARGEST:
        return left, right
    return left.dense(), right.dense()


def codes_of(frame: pl.DataFrame, columns: Sequence[str]) -> Codes:
    """Return codes that are equal where the values of all columns are.

    >>> codes_of(pl.DataFrame({"house": ["a", None, "b", None]}), ["house"]).dense().size
    3
    """
    if not columns:
        return Codes(np.zeros(frame.height, dtype=np.int64), 1)
    codes = _codes(frame[columns[0]])
    for column in columns[1:]:
        left, right = fitting(codes, _codes(frame[column]))
        codes = Codes(left.values * right.size + right.values, left.size * right.size)
    return codes


def _codes(values: pl.Series) -> Codes:
    physical = values.cast(pl.UInt8) if values.dtype == pl.Boolean else values.to_physical()
    if not physical.dtype.is_integer() or physical.null_count() == len(physical):
        return _places(values)
    ends: tuple[Any, Any] = (physical.min(), physical.max())
    low, high = ends
    if low < -LARGEST or high >= LARGEST or high - low + 2 > LARGEST:
        return _places(values)
    numbers = physical.cast(pl.Int64).fill_null(high + 1).to_numpy()
    return Codes(numbers - low, high - low + 2)


def _places(values: pl.Series) -> Codes:
    """Return the places of values in the list of those that are distinct."""
    quick = _by_digests(values, values.hash()) if values.dtype == pl.String else None
    if quick is not None:
        return quick
    column = values.to_frame("value")
    distinct = column.unique().with_row_index("place")
    joined = column.join(distinct, on="value", how="left", nulls_equal=True, maintain_order="left")
    return Codes(joined["place"].to_numpy().astype(np.int64), max(distinct.height, 1))


def _by_digests(values: pl.Series, digests: pl.Series) -> Codes | None:
    """Return the places of digests; None if two different values have the same one. Sorting texts takes longer."""
    distinct, first, places = np.unique(digests.to_numpy(), return_index=True, return_inverse=True)
    if not values.gather(pl.Series(first[places])).eq_missing(values).all():
        return None
    return Codes(places.astype(np.int64), max(len(distinct), 1))


@final
@dataclass(frozen=True, eq=False)
class Groups:
    """Group i has the rows from `bounds[i]` to below `bounds[i + 1]`; rows that are not selected have the cell −1."""

    bounds: Whole
    places: Places
    cells: Whole
    reach: tuple[float, float]
    """The positions of the first and the last row, in groups without selected rows too."""
    times: Whole
    """How many groups each represents."""

    @property
    def number(self) -> int:
        """How many groups there are."""
        return len(self.bounds) - 1

    def distinct(self) -> "Groups | None":
        """Return one group of each kind of equal groups; None if there are too many kinds, or none."""
        kinds = alike(Runs(self.bounds, [self.places.values, self.cells]), MOST, self.times)
        if not kinds:
            return None
        chosen, times = np.array(kinds, dtype=np.int64).T
        lengths = np.diff(self.bounds)[chosen]
        bounds = np.append(0, np.cumsum(lengths))
        rows: Whole = np.arange(int(bounds[-1])) + np.repeat(
            self.bounds[:-1][chosen] - bounds[:-1], lengths
        )
        places = self.places._replace(values=self.places.values[rows])
        return replace(self, bounds=bounds, places=places, cells=self.cells[rows], times=times)

    def shifted(self, period: int) -> "Groups":
        """Return the groups in normal form: by multiples of the period, until the first row is in the first period."""
        away = self.places.away(self.places.values[self.bounds[:-1]], period)
        values = self.places.values - np.repeat(away, np.diff(self.bounds))
        return replace(self, places=self.places._replace(values=values))


def groups_of(
    rows: pl.DataFrame, columns: Columns, scenario: Scenario, places: Places | None = None
) -> Groups:
    """Return the groups with a selected row; refuse two rows of a group at one place.

    Where rows represent others, `places` are those of all rows, and the column `times` is the number of groups.
    """
    keys, places = (
        codes_of(rows, columns.within),
        places or positions_of(rows["position"], scenario),
    )
    order = _order(keys, places.values)
    bounds = _bounds(keys.values[order], places.values[order], scenario)
    times = (
        rows["times"].to_numpy()[order[bounds[:-1]]]
        if "times" in rows.columns
        else np.ones(len(bounds) - 1, int)
    )
    selected = (
        np.ones(len(order), dtype=np.bool_)
        if columns.all_selected
        else rows["selected"].to_numpy()[order]
    )
    relevant = np.logical_or.reduceat(selected, bounds[:-1])
    if not relevant.all():
        lengths = np.diff(bounds)
        chosen, bounds, times = (
            np.repeat(relevant, lengths),
            np.append(0, np.cumsum(lengths[relevant])),
            times[relevant],
        )
        order, selected = order[chosen], selected[chosen]
    cells = codes_of(rows, columns.cells)
    numbered = _numbered(bounds, Codes(cells.values[order], cells.size), selected)
    return Groups(
        bounds, places._replace(values=places.values[order]), numbered, places.reach, times
    )


def _order(keys: Codes, values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the order of rows: by group, then by place."""
    if values.dtype.kind == "f":
        return np.lexsort((values, keys.values))
    least = int(values.min())
    span = int(values.max()) - least + 1
    if span > LARGEST:
        return np.lexsort((values, keys.values))
    groups, places = fitting(keys, Codes(values - least, span))
    both = (
        groups.values * places.size + places.values
    )  # one number is sorted many times quicker than two
    return np.arange(len(both)) if bool((both[1:] >= both[:-1]).all()) else np.argsort(both)


def _bounds(keys: Whole, values: npt.NDArray[Any], scenario: Scenario) -> Whole:
    """Return the first row of each group, and the number of rows."""
    fresh = changes(keys)
    if bool((~fresh[1:] & (values[1:] == values[:-1])).any()):
        raise not_told_apart(scenario)
    return np.append(np.flatnonzero(fresh), len(keys))


def not_told_apart(scenario: Scenario) -> UsageError:
    """Return the error of two rows of a group at one place."""
    return UsageError(
        f"Two rows of a group have the same value of order_by: {scenario.order_by!r}, within={[*scenario.within]}.",
        allowed="one row of each group at each position",
        instead="within with the columns that separate the sequences, or a finer order_by",
    )


def _numbered(bounds: Whole, cells: Codes, selected: npt.NDArray[np.bool_]) -> Whole:
    """Return the cells, numbered in each group in the order in which they come up; −1 for rows not selected."""
    if cells.size == 1:
        return selected.astype(np.int64) - 1
    of_row = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))[selected]
    groups, own = fitting(Codes(of_row, len(bounds) - 1), Codes(cells.values[selected], cells.size))
    pairs = groups.values * own.size + own.values
    moves = changes(pairs)
    pairs, group = pairs[moves], of_row[moves]
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    new = np.zeros(len(pairs), dtype=np.int64)
    new[first] = 1
    number = np.cumsum(new) - 1
    before = number[
        changes(group)
    ]  # every group has a selected row, and its first one opens a cell
    numbered = np.full(len(selected), -1)
    numbered[selected] = (number[first][which] - before[group])[np.cumsum(moves) - 1]
    return numbered


READABLE: Final = 2**20
"""The most rows that are read at once, if they represent others."""
_KEYS: Final = [[secrets.randbits(64) for _ in range(4)] for _ in range(2)]


@final
@dataclass(frozen=True, eq=False)
class GroupKinds:
    """A group of each kind, as a row of `table`: its columns `within`, and facts of it.

    `times` is the number of groups of the kind; each has `rows` rows, of which `selected` are selected.
    """

    columns: Columns
    table: pl.DataFrame

    @property
    def readable(self) -> bool:
        """Whether the rows of one group of each kind can be read at once."""
        return self.table.height <= MOST or int(self.table["rows"].sum()) <= READABLE

    @property
    def some(self) -> Self:
        """Some of the kinds, which show in most cases that there are too many."""
        return type(self)(self.columns, self.table.head(2 * MOST))

    @property
    def groups_and_selected(self) -> tuple[int, int]:
        """How many groups there are, and how many rows are selected in all of them."""
        times, selected = (self.table[name].to_numpy() for name in ("times", "selected"))
        return int(times.sum()), int((times * selected).sum())

    @property
    def selected(self) -> Self:
        """The kinds of groups with a selected row."""
        return type(self)(self.columns, self.table.filter(pl.col("selected") > 0))

    def read(self, collect: Collect) -> pl.DataFrame:
        """Return the rows of one group of each kind, with `times`; refuse a table that has other rows by now."""
        chosen = self.table.select(*self.columns.within, "times")
        rows = self._rows_of(chosen, collect)
        if rows.height != self.table["rows"].sum():
            raise SourceError(
                "The rows changed while they were read.",
                allowed="a source that has the same rows each time it is read",
                instead="reading it once first, such as frame.collect()",
            )
        return rows

    def _rows_of(self, chosen: pl.DataFrame, collect: Collect) -> pl.DataFrame:
        within = self.columns.within
        (name, kind), *others = chosen.select(within).schema.items()
        if others or not (kind.is_integer() or kind == pl.String):
            rows = self.columns.rows.drop("times", strict=False)
            return collect(rows.join(chosen.lazy(), on=within, how="inner", nulls_equal=True))
        rows = collect(
            self.columns.where_one_of(name, chosen[name])
        )  # a filter takes half as long as a join
        return rows.drop("times", strict=False).join(
            chosen, on=within, how="inner", nulls_equal=True
        )


def placed_kinds(columns: Columns, sample: pl.DataFrame, collect: Collect) -> GroupKinds:
    """Return the kinds of groups whose rows stand at the same moments, and have the same cells there.

    Cells that follow from moments are the same at the same ones. A column that has one value in a group makes no cells
    there, whatever that value is. A column with one value in each group of the sample is first taken to have one in all
    groups. It is hashed only if that is wrong.
    """
    facts = [
        one
        for one in columns.constancies()
        if one.name.removesuffix(" is NaN") not in columns.timed
    ]
    few = (
        sample.lazy()
        .group_by(columns.within)
        .agg(*columns.counts(), *(part for one in facts for part in one.parts()))
    )
    constant = collect(few.select(one.holds().all().alias(one.name) for one in facts))
    varying = {one.name for one in facts if not constant[one.name].item()}
    while True:
        kinds = collect(_kinds_at_moments(columns, facts, varying))
        wrong = {
            one.name
            for one in facts
            if one.name not in varying and not kinds[f"{one.name} constant"].all()
        }
        if not wrong:
            return GroupKinds(columns, kinds)
        varying |= wrong


def _kinds_at_moments(
    columns: Columns, facts: Collection[Constancy], varying: Collection[str]
) -> pl.LazyFrame:
    prints, of_cells = _prints("place", [pl.col("position")], columns), dict[str, pl.Expr]()
    for one in facts:
        if one.name in varying:
            own = _prints(one.name, [pl.col("position"), pl.col(one.name)], columns, every=False)
            prints |= own
            of_cells |= {name: pl.when(~one.holds()).then(pl.col(name)) for name in own}
    constant = {f"{one.name} constant": one.holds() for one in facts}
    groups = columns.of_groups(facts, **prints).with_columns(**constant, **of_cells)
    return _kinds(groups, columns, [*prints], [*constant])


def relative_kinds(rows: pl.LazyFrame, columns: Columns, collect: Collect) -> GroupKinds:
    """Return the kinds of groups whose rows have equal values of `place`, and the same division into cells.

    The names of cells do not matter: the fingerprints of the cells of a group are added up.
    """
    cells = [
        pl.col(name) if columns.all_selected else pl.when("selected").then(name)
        for name in columns.cells
    ]
    keys = [
        *columns.within,
        *(cell.alias(name) for cell, name in zip(cells, columns.cells, strict=True)),
    ]
    chosen = pl.lit(value=True) if columns.all_selected else pl.col("selected")
    prints = {f"{half} place": _hash([pl.col("place")], half).sum() for half in range(len(_KEYS))}
    of_cells = rows.group_by(*keys, chosen.alias("chosen")).agg(
        pl.len().cast(pl.Int64).alias("rows"), *columns.group_times, **prints
    )
    both = [pl.col(name) for name in (*prints, "chosen")]
    groups = of_cells.group_by(columns.within).agg(
        pl.col("rows").sum(),
        pl.col("rows").filter(pl.col("chosen")).sum().alias("selected"),
        *columns.group_times,
        **{f"{half} place": _hash(both, half).sum() for half in range(len(_KEYS))},
    )
    return GroupKinds(columns, collect(_kinds(groups, columns, [*prints])))


def _kinds(
    groups: pl.LazyFrame, columns: Columns, prints: Collection[str], constant: Collection[str] = ()
) -> pl.LazyFrame:
    """Return one group of each fingerprint, with flags beside; the number of rows is a part of it."""
    times, within = columns.number_of_groups().alias("times"), columns.within
    alike = groups.group_by("rows", "selected", *prints, *constant)
    if len(within) == 1:
        kinds = alike.agg(times, pl.col(within).first())
    else:  # all columns of one group: the first value of each might be another group's
        kinds = alike.agg(times, pl.struct(within).first().alias("group")).unnest("group")
    return kinds.select(*within, "times", "rows", "selected", *constant)


def _prints(
    name: str, values: list[pl.Expr], columns: Columns, *, every: bool = True
) -> dict[str, pl.Expr]:
    """Return fingerprints of all rows of a group, if `every` one matters, and of its selected ones."""
    hashes = [_hash(values, half) for half in range(len(_KEYS))]
    chosen = hashes if columns.all_selected else [pl.when("selected").then(one) for one in hashes]
    prints = {f"{half} {name}": one.sum() for half, one in enumerate(chosen)}
    if every and not columns.all_selected:
        prints |= {f"{half} all": one.sum() for half, one in enumerate(hashes)}
    return prints


def _hash(values: list[pl.Expr], half: int) -> pl.Expr:
    *parts, last = (value.hash(key) for value, key in zip(values, _KEYS[half], strict=False))
    return sum(parts, last).hash(_KEYS[half][-1]) if parts else last
