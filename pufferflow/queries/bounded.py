"""The aggregates with bounds of values by group: one sum for each kind of groups; each row is in one kind.

The sum of a kind has the weight 1 on rows of its groups, and 0 on all others. So in each cell one of the sums is the
answer, and the others are exactly 0, whatever the rows: these are neither drawn nor shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Whole
from pufferflow.core.errors import Refused, UsageError
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.expressions.values import Values
from pufferflow.queries.expressions.weighted import with_weight
from pufferflow.queries.group_bounds import GroupBounds, ends_in_words
from pufferflow.queries.query import Query, Size, at_least_one
from pufferflow.queries.request import Request


@dataclass(frozen=True)
class Bounded(Query):
    """Base: φ(x) within the bounds of the row's group. A size has two columns: rows, and the kind of the group."""

    bounds: GroupBounds
    exclusive = True

    def size_in(self, tally: Tally, *, counts_are_public: bool) -> Size:
        """Return the rows of each cell and the kind of its group."""
        return np.stack([tally.rows, self.bounds.kinds_of(tally.keys)], axis=1).astype(np.float64)

    @property
    def no_rows(self) -> Size:
        return np.zeros((1, 2))

    @property
    def value_handling(self) -> str:
        return f"within {self.bounds.in_words()}"

    def measure_in(self, size: Size) -> Whole | None:
        return None if size is None else size[:, 1].astype(np.int64)

    def finish(self, sums: Floats, size: Size) -> Floats:
        return self._own(sums, size)[:, None] * self._column(self.factor(size))

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        outputs, reach = self.finish(sums, size), self._own(np.broadcast_to(half, sums.shape), size)
        reach = np.abs(reach[:, None] * self._column(self.factor(size)))
        return outputs - reach, outputs + reach

    def _own(self, of_kinds: Floats, size: Size) -> Floats:
        """Return of each cell what belongs to its kind."""
        kinds = self.measure_in(size)
        return of_kinds[np.arange(len(of_kinds)), 0 if kinds is None else kinds]

    @property
    def _ranges(self) -> Floats:
        """The least and the largest value of each kind."""
        values = [cast(Values, one) for one in self.measures]
        return np.array([[float(one.low * one.unit), float(one.high * one.unit)] for one in values])

    def _range_in(self, size: Size) -> tuple[Floats, Floats]:
        kinds = self.measure_in(size)
        low, high = self._ranges[np.zeros(1, dtype=np.int64) if kinds is None else kinds].T
        return low[:, None], high[:, None]

    @staticmethod
    def _column(factor: Floats | float) -> Floats:
        return np.atleast_1d(factor)[:, None]


@final
@dataclass(frozen=True)
class BoundedSum(Bounded):
    """Σ φ(x)."""

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        least, most = super().limits(None if size is None else size[:, 0])  # of all kinds, rounded outwards
        if size is None:
            return least, most
        return self._own(least, size)[:, None], self._own(most, size)[:, None]


@final
@dataclass(frozen=True)
class BoundedMean(Bounded):
    """Σ φ(x) / n, where the number n of rows is public."""

    def factor(self, size: Size) -> Floats:
        return 1 / at_least_one(np.ones(1) if size is None else size[:, 0])

    def ends(self, sums: Floats, half: Floats, size: Size) -> tuple[Floats, Floats]:
        bars = super().ends(sums, half, size)
        if size is None:
            return bars
        low, high = self._range_in(size)
        empty = size[:, :1] == 0
        return np.where(empty, low, bars[0]), np.where(empty, high, bars[1])

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        low, high = self._range_in(size)
        there = np.ones((1, 1), dtype=np.bool_) if size is None else size[:, :1] > 0
        return np.where(there, low, np.nan), np.where(there, high, np.nan)


def bounded(  # noqa: PLR0913, PLR0917 - the query, and how expressions are read
    kind: type[Bounded],
    name: str,
    request: Request,
    expression: pl.Expr,
    given: object,
    otherwise: object,
    read: Callable[[pl.Expr], Values],
) -> Bounded:
    """Return a query about an expression within the bounds of each row's group."""
    values = read(expression)
    if values.boolean:
        raise UsageError(
            f"Bounds of {values.words}, which is true or false.",
            allowed="bounds of numbers",
            instead="private_count without bounds",
        )
    if not request.counts_are_public:
        raise Refused(
            "Bounds by group where the secret is which rows there are: noise has to hide a row of any group.",
            allowed="bounds by group where the rows are public, with pf.Secret",
            instead='.filter(grade="junior"), a batch for each group, with pl.col("salary").clip(0, 60_000)',
        )
    request.check_weighable("Bounds of values by group")
    bounds = GroupBounds.of(request, values, given, otherwise)
    of_kinds = [_within(expression, values, ends, read) for ends in bounds.ends]
    measures = tuple(
        replace(with_weight(own, weight), words=f"{values.words}, {ends_in_words(ends)}, of {weight.words}")
        for own, ends, weight in zip(of_kinds, bounds.ends, bounds.weights(request), strict=True)
    )
    what = "sum" if kind is BoundedSum else "mean"
    return kind(name, measures, f"the {what} of {values.words}, within {bounds.in_words()}", bounds)


def _within(expression: pl.Expr, values: Values, ends: Sequence[float], read: Callable[[pl.Expr], Values]) -> Values:
    """Return φ within bounds; Polars would cut these to whole numbers where φ has such."""
    if (Fraction(ends[0]), Fraction(ends[1])) == (values.low * values.unit, values.high * values.unit):
        return values
    if all(end.is_integer() for end in ends):
        return read(expression.clip(int(ends[0]), int(ends[1])))
    return read(expression.cast(pl.Float64).clip(*ends))
