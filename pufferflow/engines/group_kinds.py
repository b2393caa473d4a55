"""The kinds of groups, from streaming queries: groups of a kind have rows at the same places, in the same cells.

Groups are compared by fingerprints of their rows, so that nothing the size of the rows is in memory. Then the rows of
one group of each kind are read, and from there on all is exact. A fingerprint is two sums of hashes of 64 bits, modulo
2⁶⁴: neither the order of rows nor threads matter. Its keys are drawn anew in each process, so no one can choose rows
whose fingerprints agree by mistake; by chance two do so with a probability of about 2⁻¹²⁸.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Self, final

import polars as pl

from pufferflow.core.errors import SourceError
from pufferflow.engines.equal_runs import MOST
from pufferflow.engines.pattern_columns import Collect, Columns, Constancy

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
        """Return the rows of one group of each kind, `times` beside; refuse a table that has other rows by now."""
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
        rows = collect(self.columns.where_one_of(name, chosen[name]))  # a filter takes half as long as a join
        return rows.drop("times", strict=False).join(chosen, on=within, how="inner", nulls_equal=True)


def placed_kinds(columns: Columns, sample: pl.DataFrame, collect: Collect) -> GroupKinds:
    """Return the kinds of groups whose rows stand at the same moments, and have the same cells there.

    Cells that follow from moments are the same at the same ones. A column that has one value in a group makes no cells
    there, whatever that value is. What has one value in each group of the sample is first taken to have one in all
    groups, and hashed only if that is wrong.
    """
    facts = [one for one in columns.constancies() if one.name.removesuffix(" is NaN") not in columns.timed]
    few = (
        sample.lazy().group_by(columns.within).agg(*columns.counts(), *(part for one in facts for part in one.parts()))
    )
    constant = collect(few.select(one.holds().all().alias(one.name) for one in facts))
    varying = {one.name for one in facts if not constant[one.name].item()}
    while True:
        kinds = collect(_kinds_at_moments(columns, facts, varying))
        wrong = {one.name for one in facts if one.name not in varying and not kinds[f"{one.name} constant"].all()}
        if not wrong:
            return GroupKinds(columns, kinds)
        varying |= wrong


def _kinds_at_moments(columns: Columns, facts: Collection[Constancy], varying: Collection[str]) -> pl.LazyFrame:
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
    """Return the kinds of groups whose rows have equal values of `place`, and whose cells divide them alike.

    What cells are called does not matter: the fingerprints of the cells of a group are added up.
    """
    cells = [pl.col(name) if columns.all_selected else pl.when("selected").then(name) for name in columns.cells]
    keys = [*columns.within, *(cell.alias(name) for cell, name in zip(cells, columns.cells, strict=True))]
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


def _prints(name: str, values: list[pl.Expr], columns: Columns, *, every: bool = True) -> dict[str, pl.Expr]:
    """Return fingerprints of all rows of a group, if `every` one matters, and of its selected ones."""
    hashes = [_hash(values, half) for half in range(len(_KEYS))]
    chosen = hashes if columns.all_selected else [pl.when("selected").then(one) for one in hashes]
    prints = {f"{half} {name}": one.sum() for half, one in enumerate(chosen)}
    if every and not columns.all_selected:
        prints |= {f"{half} all": one.sum() for half, one in enumerate(hashes)}
    return prints


def _hash(values: list[pl.Expr], half: int) -> pl.Expr:
    """Return a hash of the values of a row."""
    *parts, last = (value.hash(key) for value, key in zip(values, _KEYS[half], strict=False))
    return sum(parts, last).hash(_KEYS[half][-1]) if parts else last
