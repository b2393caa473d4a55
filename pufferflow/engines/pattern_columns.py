"""The columns from which patterns follow, the streaming query for them, and a fingerprint of a whole table.

The keyed fingerprint of the public columns of all rows shows that a table has the rows that it had before. For each row
its columns are hashed, each with a key of its own, and their sum is hashed again. The sum over all rows depends neither
on their order nor on threads. If some row differs, two such sums of 64 bits with other keys are equal by chance with a
probability of about 2⁻¹²⁸. The keys are unknown to anyone who writes rows.
"""

import hashlib
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self, final

import polars as pl

from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import PositionMode
from pufferflow.queries.expressions.tree import unsorted

Collect = Callable[[pl.LazyFrame], pl.DataFrame]
"""How a query is run."""
SMALL: Final = 2**16
"""Tables of at most this many rows are read whole."""
_KEY: Final = secrets.randbits(64)


class PublicRows(NamedTuple):
    """Public columns of all rows, of which those with equal values of `by` are a cell.

    `flag` is the Boolean column of selected rows, None if all are selected. Columns that are `timed` follow from the
    one by which rows are in order. Rows that share the columns `within` are a group; None means those of the scenario.
    A group may represent several, and a row without an order several of its group: the columns `times` and `counts`
    have their number.
    """

    frame: pl.LazyFrame
    by: Sequence[str] = ()
    flag: str | None = None
    timed: Collection[str] = ()
    within: Sequence[str] | None = None
    times: str | None = None
    counts: str | None = None


@final
@dataclass(frozen=True)
class Columns:
    """Public rows: the columns `within`, those of `cells` that do not follow from them, `selected` and `position`.

    And `times` and `count`, where groups and rows represent others.

    Cells that are `timed` follow from `position`.
    """

    public: pl.LazyFrame
    chosen: dict[str, pl.Expr]
    within: list[str]
    cells: list[str]
    timed: list[str]
    all_selected: bool

    @classmethod
    def of(
        cls,
        public: PublicRows,
        within: Sequence[str],
        order_by: str | None = None,
        *,
        every: bool = False,
    ) -> Self:
        """Choose the columns and rename them, so that users' names cannot clash with ours.

        Those of `within` have one value in each group, and make no cells there; `every` key is kept all the same.
        """
        own = [name for name in dict.fromkeys(public.by) if every or name not in within]
        schema = public.frame.collect_schema()
        groups, cells = _keys("within", within, schema), _keys("cell", own, schema)
        timed = [f"cell {place}" for place, name in enumerate(own) if name in public.timed]
        filtered = (
            {}
            if public.flag is None
            else {"selected": unsorted(public.flag).fill_null(value=False)}
        )
        order = {} if order_by is None else {"position": unsorted(order_by)}
        weights = {"times": public.times, "count": public.counts}
        weighted = {what: unsorted(name) for what, name in weights.items() if name is not None}
        chosen = {**groups, **cells, **filtered, **order, **weighted}
        return cls(public.frame, chosen, [*groups], [*cells], timed, public.flag is None)

    @property
    def rows(self) -> pl.LazyFrame:
        """The rows, with these columns; of no columns there would be no rows to count."""
        return self.public.select(**self.chosen) if self.chosen else self.public

    def where_one_of(self, name: str, values: pl.Series) -> pl.LazyFrame:
        """Return the rows with one of some values in a column; others are left out before derived columns are made."""
        return self.public.filter(
            self.chosen[name].is_in(values.implode(), nulls_equal=True)
        ).select(**self.chosen)

    def sizes(self) -> pl.LazyFrame:
        """Return the number of groups for each number of `selected` rows and of `others`, in `one_cell` or in several.

        One pass over the rows: counting the rows of each cell would take several times as long.
        """
        return (
            self._groups()
            .group_by("selected", "others", "one_cell")
            .agg(self.number_of_groups().alias("groups"))
        )

    def of_cells(self) -> pl.LazyFrame:
        """Return the rows of each cell, and how many of them are selected, where all rows are one group."""
        return (
            self.rows.group_by(self.cells).agg(self.counts())
            if self.cells
            else self.rows.select(self.counts())
        )

    def part(self, part: int, parts: int) -> pl.LazyFrame:
        """Return all rows of some groups: of `parts` parts each group is in one."""
        if parts == 1:
            return self.rows
        number = pl.sum_horizontal(pl.col(name).hash(_KEY) % parts for name in self.within)
        return self.rows.filter(number % parts == part)

    def counted(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the `count` of rows that a group has in each cell, selected or not."""
        selected = [] if self.all_selected else ["selected"]
        number = (pl.col("count").sum() if "count" in self.chosen else pl.len()).cast(pl.Int64)
        return rows.group_by(*self.within, *self.cells, *selected).agg(
            number.alias("count"), *self.group_times
        )

    def of_crossing_groups(self) -> pl.LazyFrame:
        """Return all rows of the groups that have rows in several cells."""
        return self._of(self._groups().filter(~pl.col("one_cell")).select(self.within))

    def of_selected_groups(self) -> pl.LazyFrame:
        """Return all rows of the groups with a selected row."""
        return (
            self.rows
            if self.all_selected
            else self._of(self.rows.filter("selected").select(self.within).unique())
        )

    @property
    def group_times(self) -> list[pl.Expr]:
        """The number of groups that a group represents, where groups represent others."""
        return [pl.col("times").first()] if "times" in self.chosen else []

    def number_of_groups(self) -> pl.Expr:
        """Return the number of groups, from a table of groups with `group_times`."""
        return (pl.col("times").sum() if self.group_times else pl.len()).cast(pl.Int64)

    def _of(self, groups: pl.LazyFrame) -> pl.LazyFrame:
        return self.rows.join(groups, on=self.within, how="semi", nulls_equal=True)

    def cell_types(self) -> pl.Schema:
        """Return the columns of cells with their types."""
        return self.rows.select(self.cells).collect_schema()

    def counts(self) -> list[pl.Expr]:
        """Return the number of rows of a group, and of its selected ones."""
        counted, number = "count" in self.chosen, pl.col("count")
        rows = number.sum() if counted else pl.len()
        chosen = number.filter("selected").sum() if counted else pl.col("selected").sum()
        selected = rows if self.all_selected else chosen
        return [rows.cast(pl.Int64).alias("rows"), selected.cast(pl.Int64).alias("selected")]

    def constancies(self) -> list["Constancy"]:
        """Return for each column of cells whether it is constant in a group."""
        return [
            Constancy(name, kind, self.all_selected) for name, kind in self.cell_types().items()
        ]

    def of_groups(self, facts: "Collection[Constancy]", **more: pl.Expr) -> pl.LazyFrame:
        """Return the counts of each group, the parts from which facts follow, and more."""
        parts = (part for fact in facts for part in fact.parts())
        return self.rows.group_by(self.within).agg(
            *self.counts(), *self.group_times, *parts, **more
        )

    def _groups(self) -> pl.LazyFrame:
        """Return the counts of each group with a selected row, and whether these are in one cell."""
        facts = self.constancies()
        counted = self.of_groups(facts)
        one_cell = pl.all_horizontal([pl.lit(value=True), *(fact.holds() for fact in facts)])
        others = pl.col("rows") - pl.col("selected")
        times = ["times"] * len(self.group_times)
        return counted.filter(pl.col("selected") > 0).select(
            *self.within, *times, "selected", others.alias("others"), one_cell.alias("one_cell")
        )


def _keys(what: str, names: Sequence[str], schema: Mapping[str, pl.DataType]) -> dict[str, pl.Expr]:
    """Return key columns, with one for NaN, which has no order and does not always equal itself in a join."""
    keys: dict[str, pl.Expr] = {}
    for place, name in enumerate(names):
        if schema[name].is_float():
            keys[f"{what} {place} is NaN"] = unsorted(name).is_nan()
        keys[f"{what} {place}"] = (
            unsorted(name).fill_nan(None) if schema[name].is_float() else unsorted(name)
        )
    return keys


@final
@dataclass(frozen=True)
class Constancy:
    """Whether the selected rows of a group have one value in a column; false where that is hard to test."""

    name: str
    kind: pl.DataType
    all_selected: bool

    def parts(self) -> list[pl.Expr]:
        """Return the least and the greatest value, and the number of values that are not null."""
        if self.kind.is_nested():
            return []
        value = pl.col(self.name)
        if isinstance(self.kind, pl.Categorical | pl.Enum):
            value = value.to_physical()
        if not self.all_selected:
            value = pl.when(pl.col("selected")).then(value)
        low, high, known = value.min(), value.max(), value.count().cast(pl.Int64)
        return [
            low.alias(f"{self.name} low"),
            high.alias(f"{self.name} high"),
            known.alias(f"{self.name} known"),
        ]

    def holds(self) -> pl.Expr:
        """Return whether the column is constant, from the parts."""
        if self.kind.is_nested():
            return pl.lit(value=False)
        known = pl.col(f"{self.name} known")
        same = (known == pl.col("selected")) & (
            pl.col(f"{self.name} low") == pl.col(f"{self.name} high")
        )
        return (known == 0) | same.fill_null(value=False)


_HALVES: Final = range(2)


def row_fingerprint(
    public: PublicRows,
    scenario: Scenario,
    orders: Collection[PositionMode],
    key: bytes,
    collect: Collect,
) -> str | None:
    """Return the fingerprint of the columns, with their types, that determine patterns in these orders, and keys.

    None if a column has a type that has no sure hash.
    """
    ordered = any(order.ordered for order in orders)
    if ordered and scenario.order_by is None:
        return None
    columns = Columns.of(public, scenario.within, scenario.order_by if ordered else None)
    schema = columns.rows.select([*columns.chosen]).collect_schema()
    if not all(_has_hash(kind) for kind in schema.values()):
        return None
    values = [
        pl.col(name).cast(pl.String) if isinstance(kind, pl.Enum) else pl.col(name)
        for name, kind in schema.items()
    ]
    sums = {f"{half}": _hash(values, key, half).sum() for half in _HALVES} if values else {}
    (totals,) = collect(columns.rows.select(pl.len().alias("rows"), **sums)).rows()
    return repr((totals, [(name, repr(kind)) for name, kind in schema.items()]))


def _has_hash(kind: pl.DataType) -> bool:
    """Return whether values are equal where their hashes are, whenever these are taken."""
    return (
        kind.is_numeric()
        or kind.is_temporal()
        or isinstance(kind, pl.Boolean | pl.String | pl.Binary | pl.Enum)
    )


def _hash(values: list[pl.Expr], key: bytes, half: int) -> pl.Expr:
    hashes = [value.hash(_seed(key, half, place)) for place, value in enumerate(values)]
    return sum(hashes[1:], hashes[0]).hash(_seed(key, half, -1))


def _seed(key: bytes, half: int, place: int) -> int:
    return int.from_bytes(hashlib.sha256(key + repr((half, place)).encode()).digest()[:8], "big")
