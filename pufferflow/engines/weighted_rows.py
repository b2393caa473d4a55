"""Public weights of rows: kinds of rows, bounded weights, and measures that are multiplied by them.

*Bounds.* If the presence of rows is secret, their weights are as private as the rows and are read within declared
bounds. A weight outside is read as the nearest bound, null and NaN as 0: such a row adds nothing. Whatever rows there
are, nothing fails. What a row adds to a sum is a whole number of steps between those of the bounds.

*Sums.* Rows are grouped by weights as well, and the sums of an engine are multiplied afterwards. So engines need no
weights, and all of them give equal answers. Weights are rounded to whole steps of a grid, whose width is a power of
two: then sums are sums of whole numbers, exact in any order.

*Kinds.* Weights of 0 and 1 say of what kinds rows are: how many rows of each kind a group has, cell by cell. For other
weights their size is enough. Kinds are distinguished, since rows of different kinds move different sums: rows that move
together move none of them as far as if all were of one kind.

*Rows that depend on each other in known ways.* What rows reveal, and how far translated rows move a sum, grows with the
size of each weight. So weights may be rounded up. Rows at one position have the largest weight that any row of any
group has there. Rows without a position have the weights of one group, which has at least as many rows of each size, or
larger, as any other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Self, final

import numpy as np
import polars as pl

from pufferflow.core.arrays import Array, Flags, Floats, Indices
from pufferflow.core.errors import SourceError, UsageError
from pufferflow.core.rounding import float_above, float_below
from pufferflow.engines.one_pass import runs_of
from pufferflow.engines.pattern_columns import PublicRows
from pufferflow.engines.patterns import find_patterns
from pufferflow.engines.row_positions import positions_of
from pufferflow.models.scenario import Scenario
from pufferflow.queries.engine_interface import (
    COPIES,
    UNORDERED,
    Engine,
    Measure,
    Pattern,
    Patterns,
    Selection,
    Tally,
)
from pufferflow.queries.expressions.tree import named
from pufferflow.queries.expressions.values import Weight, fitting_unit
from pufferflow.queries.keys import places_of, published, unused

_BITS: Final = 30


@final
@dataclass(frozen=True)
class BoundedGrid:
    """The grid of a weight with bounds, and these in steps."""

    unit: Fraction
    least: int
    most: int

    @classmethod
    def of(cls, bounds: tuple[Fraction, Fraction]) -> "BoundedGrid":
        """Return the grid of 2^30 steps for the bound that is farther from 0; of 1 for bounds that are 0.

        >>> BoundedGrid.of((Fraction(0), Fraction(1))).steps(np.array([0.5, 7.0, -1.0, np.nan])) / 2**30
        array([0.5, 1. , 0. , 0. ])
        """
        unit = fitting_unit(max(map(abs, bounds)), _BITS)
        return cls(unit, round(bounds[0] / unit), round(bounds[1] / unit))

    def steps(self, weights: Floats) -> Array:
        """Return weights in whole steps, each rounded to the nearest within the bounds; NaN is 0."""
        exponent = self.unit.numerator.bit_length() - self.unit.denominator.bit_length()
        ends = float_below(self.least * self.unit), float_above(self.most * self.unit)
        inside = np.clip(np.nan_to_num(weights, nan=0.0, posinf=np.inf, neginf=-np.inf), *ends)
        steps = np.clip(np.rint(np.ldexp(inside, -exponent)), self.least, self.most)
        return np.where(np.isnan(weights), 0, steps).astype(np.int64)


def bounded_grids(measures: Sequence[Measure | None]) -> dict[Weight, BoundedGrid]:
    """Return the grids of the weights that have declared bounds."""
    found = (measure.values.weight for measure in measures if measure is not None)
    return {
        one: BoundedGrid.of(one.bounds)
        for one in found
        if one is not None and one.bounds is not None
    }


_MOST_PATTERNS: Final = 100
_MOST_TOGETHER: Final = 256
_BEYOND: Final = 300


@final
@dataclass(frozen=True)
class WeightGrid:
    """The grid of a weight, and the largest one, of either sign, in steps; 1 if all are 0, or there are none."""

    unit: Fraction
    largest: int

    @classmethod
    def of(cls, weights: Floats, weight: Weight) -> "WeightGrid":
        """Return the coarsest grid on which all weights are, or one of 2^30 steps for the largest.

        >>> WeightGrid.of(np.array([0.5, -3.0]), Weight("w", "w", pl.col("w")))
        WeightGrid(unit=Fraction(1, 2), largest=6)
        """
        if not np.isfinite(weights).all():
            raise _not_finite(weight)
        _, exponent = math.frexp(float(np.abs(weights).max(initial=0.0)))
        if abs(exponent) > _BEYOND:
            raise UsageError(
                f"The largest weight {weight.words} is beyond 2^{_BEYOND}, or below 2^-{_BEYOND}.",
                allowed="weights whose largest is a number of common size, or 0",
                instead=f"({weight.words}) / 1000, in another unit",
            )
        unit = Fraction(2) ** (exponent - _BITS)
        steps = cls(unit, 2**_BITS).steps(weights)
        parts = int(np.bitwise_or.reduce(np.abs(steps), initial=0))
        if not parts:
            return cls(Fraction(1), 1)
        common = parts & -parts
        return cls(unit * common, int(np.abs(steps).max()) // common)

    def steps(self, weights: Floats) -> Array:
        """Return weights in whole steps, each rounded to the nearest; refuse what is larger than the largest."""
        exponent = self.unit.numerator.bit_length() - self.unit.denominator.bit_length()
        steps = np.rint(np.ldexp(weights, -exponent))
        if not (np.abs(steps) <= self.largest).all():  # also NaN
            raise other_weights()
        return steps.astype(np.int64)


def other_weights() -> SourceError:
    """Return the error for a source whose weights have changed since planning."""
    return SourceError(
        "The source has other weights than when the plan was made, and noise was made for those.",
        allowed="a source whose weights stay the same between plan and release",
        instead="planning again, batch.plan(…), and releasing that plan",
    )


Grids = Mapping[Weight, WeightGrid]


def weights_of(measures: Sequence[Measure | None]) -> tuple[Weight, ...]:
    """Return the different weights of some sums that must be read beforehand; weights with bounds need not be."""
    found = (measure.values.weight for measure in measures if measure is not None)
    return tuple(
        dict.fromkeys(weight for weight in found if weight is not None and weight.bounds is None)
    )


def grids_of(rows: "WeightedRows") -> dict[Weight, WeightGrid]:
    """Return the grids of the weights of all selected rows; null, NaN and infinite ones are refused."""
    return {weight: WeightGrid.of(rows.numbers(weight), weight) for weight in rows.weights}


def largest_together(rows: "WeightedRows", grids: Grids) -> Array:
    """Return the joint weights of rows, in steps, without rows that another row exceeds or equals in every weight.

    The shape is (kinds of rows, weights). If there are too many kinds, one row has all the largest weights.

    >>> import pufferflow as pf
    >>> from pufferflow.engines.connect import engine_of
    >>> rows, one, other = pl.DataFrame({"a": [1, 0, 2], "b": [1, 3, 0]}), *(Weight(n, n, pl.col(n)) for n in "ab")
    >>> weighted = WeightedRows.of(engine_of(rows), Selection(public=("a", "b")), [one, other])
    >>> largest_together(weighted, grids_of(weighted)).tolist()
    [[0, 3], [1, 1], [2, 0]]
    """
    most = np.array([[grid.largest for grid in grids.values()]])
    if len(grids) < 2:
        return most
    left = _together(rows, grids)
    front = list[Array]()
    while len(left):
        if len(front) == _MOST_TOGETHER:
            return most
        front.append(left[(left / most).sum(axis=1).argmax()])
        left = left[(left > front[-1]).any(axis=1)]
    return np.unique(front, axis=0) if front else most


def _together(rows: "WeightedRows", grids: Grids) -> Array:
    """Return the sizes of the weights that rows have together, in steps, each kind once."""
    sizes = [np.abs(steps) for steps in rows.steps(grids).values()]
    return np.unique(np.stack(sizes, axis=1), axis=0)


def weighted_tally(
    engine: Engine,
    selection: Selection,
    measures: Sequence[Measure],
    grids: Grids,
    together: Array | None = None,
) -> Tally:
    """Return the rows and the sums of all measures in every cell, each row times its weight, in steps of both grids.

    Sums with weights are Python's whole numbers, whatever the rows. Rows whose joint weights exceed those known from
    planning (`together`) are refused. Weights with bounds have grids of their own.
    """
    every = {**grids, **bounded_grids(measures)}
    if not every:
        return engine.tally(selection, measures)
    rows = WeightedRows.of(engine, selection, [*every], measures)
    if together is not None and len(together) > 1:
        _check_together(_together(rows, grids), together)
    return rows.tally(every, measures)


def _check_together(found: Array, known: Array) -> None:
    for one in known:
        found = found[(found > one).any(axis=1)]
    if len(found):
        raise other_weights()


def weighted_patterns(
    rows: "WeightedRows", scenario: Scenario, measures: Sequence[Measure | None], grids: Grids
) -> Patterns:
    """Return the patterns of groups, whose order does not matter, as if a row of weight w were several rows.

    Their number is `COPIES` times w over the largest weight, rounded up: rows that are free move as far as these
    together. A sum without a weight counts each row as `COPIES`. Of several weights the one that counts for most is
    taken.
    """
    if any(measure is None or measure.values.weight is None for measure in measures):
        grids = {}
    counts = np.full(len(rows.rows), 0 if grids else COPIES, dtype=np.int64)
    for weight, steps in rows.steps(grids).items():
        counts = np.maximum(counts, -(-np.abs(steps) * COPIES // grids[weight].largest))
    name = unused("counts", rows.frame.columns)
    frame = rows.frame.with_columns(pl.Series(name, counts * rows.rows)).filter(counts > 0)
    public = PublicRows(frame.lazy(), rows.by, within=scenario.within, counts=name)
    found = find_patterns(public, scenario, [UNORDERED], lambda lazy: lazy.collect())[UNORDERED]
    if isinstance(found, UsageError):
        raise found
    return replace(
        found, distinct=tuple(replace(one, copies=COPIES) for one in _largest(found.distinct))
    )


def _largest(patterns: Sequence[Pattern]) -> tuple[Pattern, ...]:
    """Return few patterns: one of them has in its cells, in falling order, at least as much as any given one.

    Movements grow with what is in cells, whichever cells these are. Weights are nearly unique, and so are patterns.
    """
    if len(patterns) <= 1 or any(pattern.covers for pattern in patterns):
        return tuple(patterns)
    sizes = np.zeros(
        (len(patterns), max(len(pattern.counts) for pattern in patterns)), dtype=np.int64
    )
    for row, pattern in zip(sizes, patterns, strict=True):
        row[: len(pattern.counts)] = np.sort(pattern.counts)[::-1]
    front = list[int]()
    for place in np.argsort(-sizes.sum(axis=1), kind="stable").tolist():
        if len(front) > _MOST_PATTERNS:
            most = sizes.max(axis=0)
            return (
                Pattern(
                    np.arange(len(most)), most, groups=sum(pattern.groups for pattern in patterns)
                ),
            )
        if not (sizes[front] >= sizes[place]).all(axis=1).any():
            front.append(place)
    return tuple(patterns[place] for place in front)


def grouped_by_weight(
    engine: Engine, selection: Selection, weights: Sequence[Weight], also: Sequence[str] = ()
) -> Selection:
    """Return the same rows, in cells by further columns and by their weights as well, in this order."""
    names = engine.schema(selection.derived).names()
    made = [
        (unused(f"weight{place}", names), one)
        for place, one in enumerate(_columns_of(weights).values())
    ]
    derived = (*selection.derived, *((name, expression.alias(name)) for name, expression in made))
    by = dict.fromkeys((*selection.by, *also))
    return replace(selection, derived=derived, by=(*by, *(name for name, _ in made)), keys=None)


@final
@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Selected rows, those with equal public columns and equal weights together: how many, of what cell, their sums."""

    frame: pl.DataFrame
    """The columns of cells, further ones, and the weights."""
    by: tuple[str, ...]
    weights: Sequence[Weight]
    rows: Array
    sums: Array
    cell: Indices
    cells: int
    keys: pl.DataFrame | None

    @classmethod
    def of(
        cls,
        engine: Engine,
        selection: Selection,
        weights: Sequence[Weight],
        measures: Sequence[Measure] = (),
        also: Sequence[str] = (),
    ) -> "WeightedRows":
        """Read them; rows that differ in the columns `also` are not together."""
        tally = engine.tally(grouped_by_weight(engine, selection, weights, also), measures)
        frame = pl.DataFrame({"": [0]}) if tally.keys is None else tally.keys
        cell, cells, keys = _cells(frame, selection)
        inside = cell >= 0
        rows, sums = tally.rows[inside], tally.sums[inside]
        return cls(
            frame.filter(inside), selection.by, weights, rows, sums, cell[inside], cells, keys
        )

    def tally(
        self, grids: Mapping[Weight, WeightGrid | BoundedGrid], measures: Sequence[Measure] = ()
    ) -> Tally:
        """Return the rows and the weights of every cell, and the sums of measures that were read, in steps."""
        steps = self.steps(grids)
        sums = np.zeros((self.cells, len(measures)), dtype=object)
        for place, measure in enumerate(measures):
            own, weight = self.sums[:, place].astype(object), measure.values.weight
            each = own if weight is None else own * steps[weight].astype(object)
            np.add.at(sums[:, place], self.cell, each)
        totals = {
            weight.identity: self.totals(steps[weight]) * float(grid.unit)
            for weight, grid in grids.items()
        }
        return Tally(self.keys, self.added(self.rows), sums, totals)

    def steps(self, grids: Mapping[Weight, WeightGrid | BoundedGrid]) -> dict[Weight, Array]:
        """Return the weights of each in steps of their grids."""
        return {weight: grid.steps(self.numbers(weight)) for weight, grid in grids.items()}

    def groups(self, names: Sequence[str]) -> Indices:
        """Return a number for each row, which rows with equal values of some columns have in common."""
        if not names:
            return np.zeros(len(self.rows), dtype=np.intp)
        own = self.frame.select(named(name) for name in names)
        return places_of(own, own.unique(maintain_order=True))

    def numbers(self, weight: Weight) -> Floats:
        """Return the weight of each; NaN for null."""
        own, columns = self.weights[list(self.weights).index(weight)], [*_columns_of(self.weights)]
        return own.read(self.frame.to_series(columns.index(id(own.expression)) - len(columns)))

    def added(self, numbers: Array) -> Array:
        """Return numbers added up by cell."""
        sums: Any = np.zeros(self.cells, dtype=numbers.dtype)
        np.add.at(sums, self.cell, numbers)
        return sums

    def totals(self, steps: Array) -> Floats:
        """Return the sums of positive and of negative steps in each cell, to the nearest floats."""
        each = steps.astype(object) * self.rows.astype(object)
        parts = [self.added(np.where(sign * steps > 0, each, 0)) for sign in (1, -1)]
        return np.stack(parts, axis=1).astype(np.float64)


def _columns_of(weights: Sequence[Weight]) -> dict[int, pl.Expr]:
    """Return the expressions of weights, each once: kinds of rows have one for all."""
    return {id(weight.expression): weight.expression for weight in weights}


def _cells(frame: pl.DataFrame, selection: Selection) -> tuple[Indices, int, pl.DataFrame | None]:
    """Return the cell of each row of a frame that is in order, −1 for none, how many there are, and their keys."""
    if not selection.by:
        return np.zeros(frame.height, dtype=np.intp), 1, None
    own = frame.select(named(name) for name in selection.by)
    if selection.keys is not None:
        return places_of(own, selection.keys), selection.keys.height, published(selection.keys)
    cell = runs_of(own)
    return cell, int(cell.max(initial=-1)) + 1, own.filter(np.diff(cell, prepend=-1) > 0)


def _not_finite(weight: Weight) -> UsageError:
    return UsageError(
        f"The weight {weight.words} is null, NaN or infinite in some of the selected rows.",
        allowed="a finite number in every selected row; weights are public",
        instead=".fill_null(0) on the columns of the weight, or a filter that leaves out such rows",
    )


_MOST_MEMBERSHIPS: Final = 64
_BITS_AT_ONCE: Final = 32


def membership_patterns(
    rows: WeightedRows,
    scenario: Scenario,
    measures: Sequence[Measure | None],
    grids: Grids,
    *,
    free: bool,
) -> Patterns | None:
    """Return the patterns of selected rows whose order does not matter, each row with its exact share of each sum.

    If units are too different, other patterns cover them, with as many rows of each kind as any unit has of it. If rows
    are `free` to move in any way, there is a covering pattern for each kind instead. It has as many rows of that kind
    as any unit has together: these move at least as far. The result is None if some weight is neither 0 nor the
    largest, or if one cell has rows of several kinds.
    """
    steps = rows.steps(grids)
    if not len(rows.rows):
        return Patterns((), 0)
    if any(((own != 0) & (own != grids[weight].largest)).any() for weight, own in steps.items()):
        return None
    if len(np.unique(rows.groups((*scenario.within, *rows.by)))) < len(rows.rows):
        return None
    flags, kinds = _kinds_of(np.stack([own > 0 for own in steps.values()]))
    of_weight = dict(zip(steps, flags.astype(np.float64), strict=True))
    weights = [None if measure is None else measure.values.weight for measure in measures]
    shares = np.stack(
        [np.ones(flags.shape[1]) if one is None else of_weight[one] for one in weights]
    )
    cells = pl.DataFrame({"unit": rows.groups(scenario.within), "kind": kinds, "rows": rows.rows})
    distinct = _distinct(cells, shares)
    covering = distinct or (
        _of_one_kind_each(cells, shares) if free else _of_all_kinds(cells, shares)
    )
    return Patterns(tuple(covering), cells["unit"].n_unique())


def _kinds_of(flags: Flags) -> tuple[Flags, Indices]:
    """Return the distinct columns of a table in lexical order, and which of them each column is."""
    kinds = np.zeros(flags.shape[1], dtype=np.int64)
    for part in range(0, len(flags), _BITS_AT_ONCE):
        some = flags[part : part + _BITS_AT_ONCE]
        numbers = 2 ** np.arange(len(some), dtype=np.int64)[::-1] @ some
        kinds = np.unique(kinds << _BITS_AT_ONCE | numbers, return_inverse=True)[1]
    return flags[:, np.unique(kinds, return_index=True)[1]], kinds


def with_others(pattern: Pattern, others: int) -> Pattern:
    """Return a pattern with `others` further rows that are not selected and have no share in any sum."""
    if not others or pattern.shares is None:
        return pattern
    cells, counts = np.append(pattern.cells, -1), np.append(pattern.counts, others)
    return replace(
        pattern, cells=cells, counts=counts, shares=np.pad(pattern.shares, ((0, 0), (0, 1)))
    )


def _distinct(cells: pl.DataFrame, shares: Floats) -> list[Pattern]:
    """Return the patterns of units by their cells, or by how many rows of each kind they have; none if too many."""
    for table, covers in ((cells, False), (_by_kind(cells), True)):
        of_units = (
            table.sort("unit", "kind", "rows")
            .group_by("unit", maintain_order=True)
            .agg("kind", "rows")
        )
        distinct = of_units.group_by("kind", "rows").agg(pl.len().alias("groups"))
        if distinct.height <= _MOST_MEMBERSHIPS:
            patterns = (
                _pattern(kinds, rows, number, shares)
                for kinds, rows, number in sorted(distinct.rows())
            )
            return [replace(one, covers=covers) for one in patterns]
    return []


def _by_kind(cells: pl.DataFrame) -> pl.DataFrame:
    return cells.group_by("unit", "kind").agg(pl.col("rows").sum())


def _of_one_kind_each(cells: pl.DataFrame, shares: Floats) -> list[Pattern]:
    """Return for each kind the pattern of as many rows of it as any unit has of all kinds."""
    most: int = cells.group_by("unit").agg(pl.col("rows").sum())["rows"].to_numpy().max()
    groups = cells["unit"].n_unique()
    kinds = cells["kind"].unique().sort().to_list()
    return [replace(_pattern([kind], [most], groups, shares), covers=True) for kind in kinds]


def _of_all_kinds(cells: pl.DataFrame, shares: Floats) -> list[Pattern]:
    """Return the pattern of as many rows of each kind as any unit has of it."""
    most = _by_kind(cells).group_by("kind").agg(pl.col("rows").max()).sort("kind")
    cover = _pattern(
        most["kind"].to_list(), most["rows"].to_list(), cells["unit"].n_unique(), shares
    )
    return [replace(cover, covers=True)]


def _pattern(kinds: list[int], rows: list[int], groups: int, shares: Floats) -> Pattern:
    """Return the pattern of units with `rows` rows of `kinds`, each kind in a cell of its own."""
    return Pattern(
        np.arange(len(kinds)),
        np.array(rows, dtype=np.int64),
        groups=groups,
        shares=shares[:, kinds],
    )


_MOST_KINDS: Final = 48
_FINE: Final = 16
_LEAST: Final = 2.0**-5
"""Where sizes are more than that, they are rounded up to sixteenths of the next power of 2; the smallest to one."""


@final
@dataclass(frozen=True, eq=False)
class WeightsByPosition:
    """The largest weight at each position as a share of the largest of all, for each weight; none without a clock."""

    clock: str | None
    positions: Floats
    shares: dict[Weight, Floats]

    @classmethod
    def of(cls, engine: Engine, selection: Selection, scenario: Scenario, grids: Grids) -> Self:
        """Read the weights of the selected rows by their positions; none where these are not known."""
        order = scenario.order_by
        if order is None or order in dict(selection.derived):
            return cls(None, np.zeros(0), {})
        rows = WeightedRows.of(engine, selection, [*grids], also=(order,))
        if not len(rows.rows):
            return cls(None, np.zeros(0), {})
        try:
            places = positions_of(rows.frame.select(named(order)).to_series(), scenario)
        except UsageError:  # as reading of patterns says too
            return cls(None, np.zeros(0), {})
        positions, at = np.unique(places.positions(places.values), return_inverse=True)
        shares = dict[Weight, Floats]()
        for weight, steps in rows.steps(grids).items():
            largest = np.zeros(len(positions), dtype=np.int64)
            np.maximum.at(largest, at.reshape(-1), np.abs(steps))
            shares[weight] = _shares(largest, grids[weight].largest)
        return cls(places.clock, positions, shares)

    @property
    def one_kind_each(self) -> bool:
        """Whether at no position there are rows with different weights above 0."""
        return bool((np.count_nonzero([*self.shares.values()], axis=0) <= 1).all())

    def at(self, positions: Floats, clock: str) -> dict[Weight, Floats]:
        """Return the shares of rows at some positions of a clock: 1 where nothing is known."""
        if self.clock != clock:
            return {}
        near = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
        known = self.positions[near] == positions
        return {
            weight: np.where(known, shares[near], 1.0) for weight, shares in self.shares.items()
        }


def weights_by_rank(rows: WeightedRows, scenario: Scenario, grids: Grids) -> tuple[Floats, Array]:
    """Return shares of the largest weight, falling, and how many rows of a group have each, at most.

    A row counts by its largest share of any weight. The n-th row of each group, by size, has no larger one than the
    n-th of these rows.
    """
    if not len(rows.rows):
        return np.ones(1), np.ones(1, dtype=np.int64)
    share = np.zeros(len(rows.rows))
    for weight, steps in rows.steps(grids).items():
        share = np.maximum(share, _shares(np.abs(steps), grids[weight].largest))
    sizes, kind = np.unique(_few(share), return_inverse=True)
    group = rows.groups(scenario.within)
    counts = np.zeros((int(group.max()) + 1, len(sizes)), dtype=np.int64)
    np.add.at(counts, (group, kind.reshape(-1)), rows.rows)
    most = np.cumsum(counts[:, ::-1], axis=1).max(axis=0)
    number = np.diff(most, prepend=0)
    return sizes[::-1][number > 0], number[number > 0]


def pattern_of(shares: Sequence[Floats], counts: Array, others: int) -> Pattern:
    """Return the pattern of a group with `counts` rows of each size, each sum with its own shares, and with others."""
    rows = np.stack(shares)
    cells = np.zeros(len(counts), dtype=np.int64)
    if others:
        rows, counts, cells = (
            np.pad(rows, ((0, 0), (0, 1))),
            np.append(counts, others),
            np.append(cells, -1),
        )
    return Pattern(cells, counts, covers=True, shares=rows)


def _shares(sizes: Array, largest: int) -> Floats:
    """Return whole numbers over the largest, rounded up."""
    shares = sizes / largest
    return np.where(sizes == largest, 1.0, np.where(sizes == 0, 0.0, np.nextafter(shares, 1.0)))


def _few(shares: Floats) -> Floats:
    """Return shares as they are, or rounded up exactly to few sizes, so that every machine has the same."""
    if len(np.unique(shares)) <= _MOST_KINDS:
        return shares
    digits, exponent = np.frexp(shares)
    return np.where(
        shares > 0, np.maximum(np.ldexp(np.ceil(digits * _FINE) / _FINE, exponent), _LEAST), 0.0
    )
