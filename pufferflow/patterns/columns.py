"""The columns that patterns are made of, under names of our own, and what is asked of them in streaming queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, final

import polars as pl

from pufferflow.expressions import unsorted


@final
@dataclass(frozen=True)
class Columns:
    """Public rows with the columns `within`, those of `cells` that do not follow from them, `asked` and `position`."""

    rows: pl.LazyFrame
    within: list[str]
    cells: list[str]
    all_asked: bool

    @classmethod
    def of(
        cls,
        public: pl.LazyFrame,
        within: Sequence[str],
        by: Sequence[str],
        asked: str | None,
        order_by: str | None = None,
    ) -> Self:
        """Choose the columns; users' names are left behind, so that they cannot clash with ours."""
        apart = [name for name in dict.fromkeys(by) if name not in within]
        schema = public.collect_schema()
        groups = _keys("within", within, schema)
        cells = _keys("cell", apart, schema)
        filtered = {} if asked is None else {"asked": unsorted(asked).fill_null(value=False)}
        order = {} if order_by is None else {"position": unsorted(order_by)}
        chosen = {**groups, **cells, **filtered, **order}
        rows = public.select(**chosen) if chosen else public  # of no columns there would be no rows to count
        return cls(rows, [*groups], [*cells], asked is None)

    def sizes(self) -> pl.LazyFrame:
        """Return how many groups have so many rows that are `asked` about, so many `others`, and `one` cell or not.

        One pass over the rows: counting the rows of each cell would take several times as long.
        """
        return self._groups().group_by("asked", "others", "one").agg(pl.len().cast(pl.Int64).alias("groups"))

    def of_cells(self) -> pl.LazyFrame:
        """Return how many rows each cell has if all rows are one group, and how many of them are asked about."""
        counts = [pl.len().cast(pl.Int64).alias("rows"), self._asked.cast(pl.Int64).alias("asked")]
        return self.rows.group_by(self.cells).agg(counts) if self.cells else self.rows.select(counts)

    def of_first_groups(self, rows: int) -> pl.LazyFrame:
        """Return all rows of the groups that the first rows belong to."""
        return self._of(self.rows.select(self.within).head(rows).unique())

    def of_crossing_groups(self) -> pl.LazyFrame:
        """Return all rows of the groups that have rows in several cells."""
        return self._of(self._groups().filter(~pl.col("one")).select(self.within))

    @property
    def _asked(self) -> pl.Expr:
        return pl.len() if self.all_asked else pl.col("asked").sum()

    def _of(self, groups: pl.LazyFrame) -> pl.LazyFrame:
        return self.rows.join(groups, on=self.within, how="semi", nulls_equal=True)

    def _groups(self) -> pl.LazyFrame:
        """Return what is known of each group with a row that is asked about."""
        schema = self.rows.select(self.cells).collect_schema()
        facts = [_Constancy(name, kind, self.all_asked) for name, kind in schema.items()]
        counted = self.rows.group_by(self.within).agg(
            pl.len().cast(pl.Int64).alias("rows"),
            self._asked.cast(pl.Int64).alias("asked"),
            *(part for fact in facts for part in fact.parts()),
        )
        one = pl.all_horizontal([pl.lit(value=True), *(fact.holds() for fact in facts)])
        others = pl.col("rows") - pl.col("asked")
        return counted.filter(pl.col("asked") > 0).select(
            *self.within, "asked", others.alias("others"), one.alias("one")
        )


def _keys(what: str, names: Sequence[str], schema: Mapping[str, pl.DataType]) -> dict[str, pl.Expr]:
    """Return key columns; NaN, which has no order and does not always find itself in a join, has one of its own."""
    keys: dict[str, pl.Expr] = {}
    for place, name in enumerate(names):
        if schema[name].is_float():
            keys[f"{what} {place} is NaN"] = unsorted(name).is_nan()
        keys[f"{what} {place}"] = unsorted(name).fill_nan(None) if schema[name].is_float() else unsorted(name)
    return keys


@final
@dataclass(frozen=True)
class _Constancy:
    """Whether the asked rows of a group have one value in a column; where that is not plain, it does not hold."""

    name: str
    kind: pl.DataType
    all_asked: bool

    def parts(self) -> list[pl.Expr]:
        """Return the least and the greatest value, and how many there are besides null."""
        if self.kind.is_nested():
            return []
        value = pl.col(self.name)
        if isinstance(self.kind, pl.Categorical | pl.Enum):
            value = value.to_physical()
        if not self.all_asked:
            value = pl.when(pl.col("asked")).then(value)
        low, high, known = value.min(), value.max(), value.count().cast(pl.Int64)
        return [low.alias(f"{self.name} low"), high.alias(f"{self.name} high"), known.alias(f"{self.name} known")]

    def holds(self) -> pl.Expr:
        """Return whether the column is constant, from the parts."""
        if self.kind.is_nested():
            return pl.lit(value=False)
        known = pl.col(f"{self.name} known")
        same = (known == pl.col("asked")) & (pl.col(f"{self.name} low") == pl.col(f"{self.name} high"))
        return (known == 0) | same.fill_null(value=False)
