"""Bounds of values by public group, and the aggregates with such bounds: one sum for each kind of groups.

Groups with the same bounds are one kind. The kind of a row follows from its key, row by row, so engines need only a
derived public column. Each row is in one kind.

The sum of a kind has the weight 1 on rows of its groups, and 0 on all others. So in each cell one of the sums is the
answer, and the others are exactly 0, whatever the rows: these are neither drawn nor shown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, Self, cast, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Floats, Whole
from pufferflow.core.errors import Refused, UsageError
from pufferflow.core.suggestions import nearest
from pufferflow.core.tables import exactly
from pufferflow.core.validate import finite_number, in_few_digits, quoted
from pufferflow.queries.engine_interface import Tally
from pufferflow.queries.expressions.on_columns import OnColumns
from pufferflow.queries.expressions.tree import short
from pufferflow.queries.expressions.values import Values, Weight
from pufferflow.queries.expressions.weights import with_weight
from pufferflow.queries.keys import check_numbered, place_among, places_of, read_keys
from pufferflow.queries.request import Request
from pufferflow.queries.statistic import Query, Size, at_least_one

_MOST_KINDS: Final = 64
_MOST_NAMED: Final = 4
_NO_KIND: Final = -1
_INSTEAD: Final = 'bounds={"junior": (0, 60_000), "senior": (0, 200_000)}, after .group_by("grade")'
_ALLOWED: Final = (
    "for each label of a group a pair (low, high); of several grouping columns labels are tuples"
)
Ends = tuple[float, float]


@final
@dataclass(frozen=True)
class GroupBounds:
    """The ends of the values of each kind of groups, and the kind of each labelled group.

    Groups without a label are of the kind `others`.
    """

    labels: pl.DataFrame = field(repr=False, compare=False)
    """The keys of groups that are named, in all grouping columns or in one of them."""
    of_label: tuple[int, ...]
    others: int
    has_others: bool
    ends: tuple[Ends, ...]
    identity: tuple[Any, ...]
    """The labels, as equal requests have them."""

    @classmethod
    def of(cls, request: Request, values: Values, given: object, otherwise: object) -> Self:
        """Read the bounds of a request's groups; those of all other groups are `otherwise`, or all values of φ."""
        columns, named = _read_columns(request, given)
        labels = _read_labels(request, columns, [*named])
        widest = float(values.low * values.unit), float(values.high * values.unit)
        pairs = [
            _read_pair(pair, f"the bounds of {quoted(label)}", values)
            for label, pair in named.items()
        ]
        rest = widest if otherwise is None else _read_pair(otherwise, "otherwise", values)
        known = _known_groups(request, columns, labels, [*named])
        needed = pairs if known is not None and (known >= 0).all() else [*pairs, rest]
        ends = tuple(dict.fromkeys(needed))
        if len(ends) > _MOST_KINDS:
            raise Refused(
                f"Groups have {len(ends)} different bounds.",
                allowed=f"at most {_MOST_KINDS} different ones, of any number of groups",
                instead="bounds that are rounded up, so that more groups have the same",
            )
        has_others = len(needed) > len(pairs)
        identity = (columns, tuple(zip(*map(exactly, labels.get_columns()), strict=True)))
        others = ends.index(rest) if has_others else 0
        return cls(labels, tuple(map(ends.index, pairs)), others, has_others, ends, identity)

    def kinds_of(self, keys: pl.DataFrame | None) -> Whole:
        """Return the kind of each key of an answer."""
        if keys is None:
            return np.zeros(1, dtype=np.int64)
        places = places_of(keys.select(pl.col(name) for name in self.labels.columns), self.labels)
        return np.append(self.of_label, self.others)[places].astype(np.int64)

    def weights(self, request: Request) -> list[Weight]:
        """Return for each kind what a row counts in its sum: 1 if its group is of that kind, else 0.

        Rows of no listed key count 0.
        """
        if request.keys is None:
            place, kinds = place_among(self.labels), [*self.of_label, self.others]
        else:
            place = place_among(request.keys) if request.others is None else request.others.number()
            kinds = [*self.kinds_of(request.keys).tolist(), _NO_KIND]
        kind_of_row = place.replace_strict(
            pl.Series(np.arange(len(kinds))), pl.Series(kinds, dtype=pl.Int64)
        )
        return [
            Weight(repr((self.identity, kinds, kind)), self.words(kind), kind_of_row, kind=kind)
            for kind in range(len(self.ends))
        ]

    def words(self, kind: int) -> str:
        """Return the groups of a kind in words."""
        own = [row for row, of in zip(self.labels.rows(), self.of_label, strict=True) if of == kind]
        named = [" and ".join(map(_key_in_words, self.labels.columns, row)) for row in own]
        more = [f"{len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
        more += ["other groups"] if self.has_others and kind == self.others else []
        return " or ".join([*named[:_MOST_NAMED], *more])

    def in_words(self) -> str:
        """Return the bounds of all kinds in words."""
        parts = [
            f"{ends_in_words(ends)} for {self.words(kind)}" for kind, ends in enumerate(self.ends)
        ]
        return short("; ".join(parts), 600)


def _key_in_words(column: str, label: object) -> str:
    return f"{column}={'null' if label is None else label}"


def ends_in_words(ends: Ends) -> str:
    """Return bounds as people read them."""
    return " to ".join(map(in_few_digits, ends))


def _read_columns(request: Request, given: object) -> tuple[tuple[str, ...], Mapping[Any, object]]:
    """Return the grouping columns that labels are of, and the labels with their bounds."""
    if not request.by:
        raise UsageError(
            "Bounds are given by group, and there is no group_by.",
            allowed='bounds by group after .group_by("grade"); bounds of all rows are the domain in the scenario',
            instead='pf.Secret("level", domain=pf.Interval(0, 10)), or private_sum(pl.col("level").clip(0, 5))',
        )
    if not isinstance(given, Mapping) or not given:
        one = (
            "; the same for all groups by an expression" if isinstance(given, list | tuple) else ""
        )
        clip = ', or pl.col("salary").clip(0, 60_000)' if one else ""
        problem = (
            "bounds names no group."
            if isinstance(given, Mapping)
            else f"bounds is {quoted(cast(object, given))}."
        )
        raise UsageError(problem, allowed=f"{_ALLOWED}{one}", instead=f"{_INSTEAD}{clip}")
    named = cast("Mapping[Any, object]", given)
    if not any(isinstance(bounds, Mapping) for bounds in named.values()):
        return request.by, named
    column, bounds = next(iter(named.items()))
    if len(named) > 1 or column not in request.by or not isinstance(bounds, Mapping) or not bounds:
        near = nearest(column, request.by) if isinstance(column, str) else []
        raise UsageError(
            f"bounds has a mapping for {quoted(column)}, or several.",
            allowed=f"the bounds of labels of one grouping column, {', '.join(map(repr, request.by))}; or tuples",
            instead=f"bounds={{{(near or list(request.by))[0]!r}: {{…: (0, 60_000)}}}}",
        )
    return (column,), cast("Mapping[Any, object]", bounds)


def _read_labels(request: Request, columns: Sequence[str], labels: list[Any]) -> pl.DataFrame:
    """Return the labels in the types of keys."""
    schema = pl.Schema({name: request.key_types[name] for name in columns})
    check_numbered(request.key_types, "bounds=")
    try:
        return read_keys(labels, columns, schema)
    except UsageError as refusal:
        raise UsageError(
            f"The labels of bounds do not fit the grouping columns: {refusal.problem}",
            allowed=_ALLOWED,
            instead=_INSTEAD,
        ) from None


def _known_groups(
    request: Request, columns: Sequence[str], labels: pl.DataFrame, names: list[Any]
) -> Whole | None:
    """Return for each listed key the place of its label, −1 for none; None if keys are those of the rows."""
    if request.keys is None:
        return None
    keys = request.keys.select(pl.col(name) for name in columns)
    unknown = np.flatnonzero(places_of(labels, keys.unique(maintain_order=True)) < 0)
    if len(unknown):
        label = names[int(unknown[0])]
        near = (
            nearest(label, [one for one in keys.to_series().to_list() if isinstance(one, str)])
            if isinstance(label, str)
            else []
        )
        raise UsageError(
            f"bounds has the label {quoted(label)}, which is not a listed key.",
            allowed="labels of groups that the answer has",
            instead=f"bounds={{{near[0]!r}: …}}" if near else _INSTEAD,
        )
    return places_of(keys, labels).astype(np.int64)


def _read_pair(given: object, name: str, values: Values) -> Ends:
    """Return the ends of bounds, which are within the range of φ."""
    low, high = float(values.low * values.unit), float(values.high * values.unit)
    allowed = f"a pair (low, high) of numbers from {low:g} to {high:g}, low below high"
    instead = f"({in_few_digits(low)}, {in_few_digits((low + high) / 2)})"
    if not isinstance(given, tuple | list) or len(cast("Sequence[object]", given)) != 2:
        raise UsageError(
            f"{name}: {quoted(cast(object, given))}.", allowed=allowed, instead=instead
        )
    ends = [
        finite_number(end, name, allowed=allowed, instead=instead)
        for end in cast("Sequence[object]", given)
    ]
    near = values.unit  # φ is read in whole steps
    inside = Fraction(low) - near <= Fraction(ends[0]) < Fraction(ends[1]) <= Fraction(high) + near
    if not inside:
        raise UsageError(f"{name}: {ends[0]:g} to {ends[1]:g}.", allowed=allowed, instead=instead)
    return max(ends[0], low), min(ends[1], high)


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
        """Return for each cell the part that belongs to its kind."""
        kinds = self.measure_in(size)
        return of_kinds[np.arange(len(of_kinds)), 0 if kinds is None else kinds]

    def _range_in(self, size: Size) -> tuple[Floats, Floats]:
        kinds = self.measure_in(size)
        values = [cast(Values, one) for one in self.measures]
        ranges = np.array(
            [[float(one.low * one.unit), float(one.high * one.unit)] for one in values]
        )
        low, high = ranges[np.zeros(1, dtype=np.int64) if kinds is None else kinds].T
        return low[:, None], high[:, None]

    @staticmethod
    def _column(factor: Floats | float) -> Floats:
        return np.atleast_1d(factor)[:, None]


@final
@dataclass(frozen=True)
class BoundedSum(Bounded):
    """Σ φ(x)."""

    def limits(self, size: Size) -> tuple[Floats, Floats]:
        least, most = super().limits(
            None if size is None else size[:, 0]
        )  # of all kinds, rounded outwards
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
    if isinstance(values, OnColumns):
        raise Refused(
            f"Bounds by group of {values.words}, a sum over several columns on intervals.",
            allowed="bounds by group of a function of one column; here the domains bound each column",
            instead="a sum of each column with bounds=, or a column made before pf.protect with a secret of its own",
        )
    if not request.counts_are_public:
        raise Refused(
            "Bounds by group do not work under pf.Presence: noise has to hide a row of any group.",
            allowed="bounds by group with pf.Secret, where which rows there are is public",
            instead='.filter(grade="junior"), a batch for each group, with pl.col("salary").clip(0, 60_000)',
        )
    request.check_weighable("Bounds of values by group")
    bounds = GroupBounds.of(request, values, given, otherwise)
    of_kinds = [_within(expression, values, ends, read) for ends in bounds.ends]
    measures = tuple(
        replace(
            with_weight(own, weight),
            words=f"{values.words}, {ends_in_words(ends)}, of {weight.words}",
        )
        for own, ends, weight in zip(of_kinds, bounds.ends, bounds.weights(request), strict=True)
    )
    what = "sum" if kind is BoundedSum else "mean"
    return kind(name, measures, f"the {what} of {values.words}, within {bounds.in_words()}", bounds)


def _within(
    expression: pl.Expr, values: Values, ends: Sequence[float], read: Callable[[pl.Expr], Values]
) -> Values:
    """Return φ within bounds; Polars would round these to whole numbers if φ has such."""
    if (Fraction(ends[0]), Fraction(ends[1])) == (
        values.low * values.unit,
        values.high * values.unit,
    ):
        return values
    if all(end.is_integer() for end in ends):
        return read(expression.clip(int(ends[0]), int(ends[1])))
    return read(expression.cast(pl.Float64).clip(*ends))
