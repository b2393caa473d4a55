"""Between which values one row moves the sums of a batch farthest, on points, intervals and folded tables.

Sums of which a row of data moves few at once: they share few rows of a table.

A histogram of 10,000 bins has 10,000 sums, and each value is in one bin: a row that changes leaves one bin and enters
another, so it moves two of them. A set of such sums needs two rows of a table, however many bins there are. In general
each value is in `overlap` sums of the set at most, so that a row moves 2·overlap of them.

Which sums a row moves does not matter, because all sums have independent noise of one scale in their units: a movement
is as costly as one of the same lengths in other coordinates. Sums of different weights take the largest weights.

The points between which a row moves the sums farthest: pairs of points that others dominate are left out.

A movement is dominated by another one if no sum moves farther in it. Under noise that is independent from sum to sum,
with densities that fall to both sides, it costs no more. So the pairs of points that no other dominates are enough.

Where a row moves all sums of a batch jointly on an interval: the corners of their functions (M7).

A row moves from x to x'. Between its knots each function is a line, so the norm of the movement is convex in x and in
x'. Hence it is largest at knots, or at limits there. A square is no line: it may be at either end of its range whatever
the others are, which bounds the movement from above.

The sums of rows that may be absent, with their weights, as tables: φ at every point times the bounds of the weight.

What a row adds to the sums, w∘φ(x), is linear in each weight. Consider the movement between two rows, or between a row
and none. Its norm is largest if every weight is at one of its bounds, or is 0 where it is missing (M7).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.engines.weighted_rows import BoundedGrid, bounded_grids
from pufferflow.models.domain import Interval
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.pieces import Line
from pufferflow.queries.expressions.values import Values, Weight

_FEWEST: Final = 3
"""The least number of sums of a set; fewer have a row each."""
_EXACT_INTEGER: Final = 2**53


@final
@dataclass(frozen=True, eq=False)
class FewAtOnce:
    """Sums that are 1 or 0 for each value, and for no value more than `overlap` of them are 1."""

    sums: Indices
    overlap: int

    @property
    def rows(self) -> int:
        """How many of the sums a row of data moves, at most."""
        return 2 * self.overlap


@final
@dataclass(frozen=True, eq=False)
class Folding:
    """The rows of a table: one for each of the sums that are `alone`, then those that the sums of each set share."""

    alone: Indices
    sets: tuple[FewAtOnce, ...] = ()

    @classmethod
    def none(cls, sums: int) -> Self:
        """Return a row for every sum."""
        return cls(np.arange(sums))

    @classmethod
    def of(cls, measures: Sequence[Measure | None], queries: Iterable[Sequence[int]]) -> Self:
        """Return the rows for the sums of a batch; sums of one query, or of counts one by one, may be a set."""
        sets, taken = list[FewAtOnce](), set[int]()
        for places in _candidates(measures, queries):
            own = [place for place in places if place not in taken]
            overlap = (
                _overlap([_values(measures[place]) for place in own])
                if len(own) >= _FEWEST
                else len(own)
            )
            if 2 * overlap < len(own):
                sets.append(FewAtOnce(np.array(own), overlap))
                taken.update(own)
        return cls(
            np.array(
                [place for place in range(len(measures)) if place not in taken], dtype=np.intp
            ),
            tuple(sets),
        )

    @property
    def places(self) -> list[int]:
        """The places of the sums that are alone."""
        return self.alone.tolist()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.alone) + sum(own.rows for own in self.sets)

    @property
    def sums(self) -> int:
        """How many sums there are."""
        return len(self.alone) + sum(len(own.sums) for own in self.sets)

    def weights(self, of_sums: Floats) -> Floats:
        """Return the weight of each row: of a set the largest."""
        largest = [np.sort(of_sums[own.sums])[::-1][: own.rows] for own in self.sets]
        return np.concatenate([of_sums[self.alone], *largest])

    def of_sums(self, of_rows: Floats) -> Floats:
        """Return for each sum what its row has, along the first axis; for a sum of a set what the set's first has."""
        return of_rows[self.row_of_sum]

    @property
    def row_of_sum(self) -> Indices:
        """The row of each sum."""
        row = np.empty(self.sums, dtype=np.intp)
        row[self.alone] = np.arange(len(self.alone))
        for own, start in zip(self.sets, self.starts, strict=True):
            row[own.sums] = start
        return row

    @property
    def starts(self) -> list[int]:
        """The first row of each set."""
        lengths = [len(self.alone), *(own.rows for own in self.sets)]
        return np.cumsum(lengths)[:-1].tolist()

    def rows_of(self, places: Sequence[int]) -> Indices:
        """Return the rows that some sums are in: of a set as many as a row of data moves of these."""
        row, counted = self.row_of_sum[list(places)], np.zeros(self.rows, dtype=np.intp)
        np.add.at(counted, row, 1)
        ends = dict(zip(self.starts, (own.rows for own in self.sets), strict=True))
        blocks = [
            start + np.arange(min(int(counted[start]), ends.get(start, 1)))
            for start in np.unique(row).tolist()
        ]
        return np.concatenate(blocks)

    def states(self) -> Floats:
        """Return two columns for the rows of all sets, between which a row of data moves the most sums."""
        columns = [np.repeat(np.eye(2), own.overlap, axis=0) for own in self.sets]
        return np.concatenate([np.zeros((0, 2)), *columns])


def _values(measure: Measure | None) -> Values:
    if measure is None:
        raise TypeError("The number of rows is in no set of sums.")
    return measure.values


def _candidates(
    measures: Sequence[Measure | None], queries: Iterable[Sequence[int]]
) -> list[list[int]]:
    """Return sums that may be a set: indicators of one column, of one query; those of single counts together."""
    found, singles = list[list[int]](), dict[str, list[int]]()
    for places in queries:
        own = [
            place
            for place in dict.fromkeys(places)
            if (one := measures[place]) is not None and _is_indicator(one)
        ]
        columns = {_values(measures[place]).column for place in own}
        if len(places) == 1 and own:
            singles.setdefault(columns.pop(), []).extend(own)
        elif len(columns) == 1:
            found.append(own)
    return [*found, *(list(dict.fromkeys(own)) for own in singles.values())]


def _is_indicator(measure: Measure) -> bool:
    values = measure.values
    if (values.low, values.high) != (0, 1) or values.weight is not None or len(values.terms) > 1:
        return False
    return not isinstance(values, OnInterval) or (values.pieces.flat and not values.square)


def _overlap(functions: Sequence[Values]) -> int:
    """Return how many of some indicators are 1 at one value, at most."""
    if all(isinstance(one, OnPoints) for one in functions):
        total = np.zeros(len(functions[0].domain.points), dtype=np.intp)
        for one in functions:
            total += np.array(one.steps, dtype=np.intp) if isinstance(one, OnPoints) else 0
        return int(total.max())
    lined = [one for one in functions if isinstance(one, OnInterval)]
    return _overlap_on_interval(lined) if len(lined) == len(functions) else len(functions)


def _overlap_on_interval(functions: Sequence[OnInterval]) -> int:
    """Return the same on an interval, where the i-th knot of all is place 2i, and the gap behind it place 2i + 1."""
    knots_of = [[_sortable(knot) for knot in one.pieces.knots] for one in functions]
    rank = {
        knot: 2 * place
        for place, knot in enumerate(sorted({knot for own in knots_of for knot in own}))
    }
    changes = np.zeros(2 * len(rank) + 1, dtype=np.intp)
    for one, own in zip(functions, knots_of, strict=True):
        places = [rank[knot] for knot in own]
        for place, value in zip(places, one.pieces.at, strict=True):
            if value:
                changes[place] += 1
                changes[place + 1] -= 1
        for place, end, line in zip(places, places[1:], one.pieces.lines, strict=False):
            if line.intercept:
                changes[place + 1] += 1
                changes[end] -= 1
    return int(np.cumsum(changes).max())


def _sortable(knot: Fraction) -> float | Fraction:
    """Return the knot as a float where that is exact, which is sorted sooner; the two compare exactly."""
    whole = abs(knot.numerator) < _EXACT_INTEGER and knot.denominator < _EXACT_INTEGER
    return float(knot) if whole and knot.denominator & (knot.denominator - 1) == 0 else knot


_MOST_MOVES: Final = 1 << 22
"""Numbers of all movements that are compared at once."""
_MOST_ROUNDS: Final = 256


def undominated(moves: Floats) -> Indices:
    """Return the places of movements, of shape (sums, movements), that no other one dominates; each movement once.

    >>> undominated(np.array([[1.0, 2.0, 1.0, 2.0], [3.0, 1.0, 2.0, 1.0]])).tolist()
    [0, 1]
    """
    distinct, first = np.unique(moves, axis=1, return_index=True)
    order = np.argsort(-distinct.sum(axis=0), kind="stable")
    left, kept = distinct[:, order], list[int]()
    places = first[order]
    while len(places) and len(kept) < _MOST_ROUNDS:
        kept.append(int(places[0]))
        beyond = (left > left[:, [0]]).any(axis=0)
        left, places = left[:, beyond], places[beyond]
    return np.sort(np.array([*kept, *places.tolist()], dtype=np.intp))


def extreme_points(table: Floats, *, from_nothing: bool = False) -> Indices | None:
    """Return the places of points between which a row moves the sums as far as between any two.

    With `from_nothing` a row may also come and go, whose value is then 0. None if there are too many points.
    """
    if len(table) == 0:
        return np.zeros(1, dtype=np.intp)
    if len(table) == 1:
        return np.unique([int(table[0].argmin()), int(table[0].argmax())])
    distinct, first = np.unique(table, axis=1, return_index=True)
    points = np.pad(distinct, ((0, 0), (0, 1))) if from_nothing else distinct
    if points.shape[1] ** 2 * len(points) > 2 * _MOST_MOVES:
        return None
    left, right = np.triu_indices(points.shape[1], 1)
    pairs = (
        undominated(np.abs(points[:, left] - points[:, right]))
        if len(left)
        else np.zeros(0, dtype=np.intp)
    )
    chosen = np.unique([*left[pairs].tolist(), *right[pairs].tolist(), 0])
    return np.sort(first[chosen[chosen < len(first)]])


MOST_CORNERS: Final = 512


def corners(lined: Sequence[OnInterval | None], folding: Folding, *, from_nothing: bool) -> Floats:
    """Return the rows of all functions at the corners, in steps, of shape (rows, corners); None is always 1.

    Values are enlarged a little (`slack`), which covers all rounding. A set of functions of which few are above 0 at
    once moves as far as it can, whatever the others do. Very many corners are replaced by the ends of the ranges: all
    functions low, and all high. If rows come `from_nothing` (whose value is 0), a third corner has all functions as far
    from 0 as possible.
    """
    alone = [lined[place] for place in folding.places]
    states = folding.states()
    columns = _few_columns(alone, states)
    if columns is None:
        ranges = [(1, 1) if one is None else (one.low, one.high) for one in alone]
        columns = ends_of(
            np.array(ranges, dtype=np.float64).reshape(-1, 2), from_nothing=from_nothing
        )
        rows = np.concatenate([columns, states[:, [0, 1, 0][: columns.shape[1]]]])
    else:
        rows = with_states(columns, states)
    if rows.shape[1] == 1:
        rows = np.repeat(rows, 2, axis=1)  # two values of a secret that no sum distinguishes
    return rows * (1 + slack(alone))


def few_corners(lined: Sequence[OnInterval | None], folding: Folding) -> bool:
    """Return whether `corners` has all of them, and not the ends of ranges in their place."""
    return _few_columns([lined[place] for place in folding.places], folding.states()) is not None


def _few_columns(alone: Sequence[OnInterval | None], states: Floats) -> Floats | None:
    """Return the different corners of some functions, None where they are too many beside the states of sets."""
    columns = _columns(alone)
    times = states.shape[1] if len(states) else 1
    return None if columns is None or columns.shape[1] * times > MOST_CORNERS else columns


def steepest(one: OnInterval | None) -> tuple[float, float]:
    """Return the ends of a line with the steepest slope of a function; 1 for None, the number of rows."""
    if one is None or one.affine:
        return (1.0, 1.0) if one is None else (float(one.low), float(one.high))
    domain = cast(Interval, one.domain)
    width = Fraction(domain.high) - Fraction(domain.low)
    return 0.0, float(math.ceil(cast(Fraction, one.slope) * width))


def falls(one: OnInterval) -> bool:
    """Return whether a function falls where it is not level; only those that do not rise anywhere."""
    slopes = [line.slope for line in one.pieces.lines]
    return not one.square and max(slopes) <= 0 and min(slopes) < 0


def with_states(columns: Floats, states: Floats) -> Floats:
    """Return every column with either state of the sets below it; the columns alone if there are no sets."""
    if not len(states):
        return columns
    points = columns.shape[1]
    return np.concatenate([np.tile(columns, 2), np.repeat(states, points, axis=1)])


def ends_of(columns: Floats, *, from_nothing: bool) -> Floats:
    """Return columns between which functions move at least as far: all low and all high, and as far from 0 as any."""
    if not len(columns):
        return np.zeros((0, 3 if from_nothing else 2))
    low, high = columns.min(axis=1), columns.max(axis=1)
    if not from_nothing:
        return np.stack([low, high], axis=1)
    farthest = np.maximum(np.abs(low), np.abs(high))
    return np.stack([np.minimum(low, 0), np.maximum(high, 0), farthest], axis=1)


def _columns(lined: Sequence[OnInterval | None]) -> Floats | None:
    """Return the different corners of some functions; None where they are too many."""
    own = [one for one in lined if one is not None and not one.square]
    knots = sorted({knot for one in own for knot in one.pieces.knots})
    if len(knots) > MOST_CORNERS:
        return None
    rank = {knot: place for place, knot in enumerate(knots)}
    table = np.array([_at_corners(one, knots, rank) for one in lined], dtype=np.float64)
    columns = np.unique(table, axis=1) if len(table) else np.zeros((0, 1))
    for place, one in enumerate(lined):
        if one is not None and one.square:
            low, high = columns.copy(), columns
            low[place], high[place] = one.low, one.high
            columns = np.concatenate([low, high], axis=1)
    return columns


def slack(lined: Sequence[OnInterval | None]) -> float:
    """Return by how much the longest movement grows if each function is rounded to steps, relatively.

    A movement of r steps from end to end becomes at most two steps longer. The longest movement of all functions
    together is at least that of any one of them.
    """
    sloped = [one for one in lined if one is not None and not one.square and not one.pieces.flat]
    return sum(2 / max(one.high - one.low, 1) for one in sloped) * (1 + 2.0**-20)


def _at_corners(
    one: OnInterval | None, knots: Sequence[Fraction], rank: dict[Fraction, int]
) -> Floats:
    """Return the steps at every knot, then at both ends of every gap between knots."""
    at_knots, in_gaps = np.ones(max(len(knots), 1)), np.ones((max(len(knots) - 1, 0), 2))
    if one is None or one.square:
        level = 1 if one is None else one.low
        return np.concatenate([at_knots, in_gaps.ravel()]) * level
    places = [rank[knot] for knot in one.pieces.knots]
    at_knots[places] = [round(value / one.unit) for value in one.pieces.at]
    for start, end, line in zip(places, places[1:], one.pieces.lines, strict=False):
        own = _on_line(line, knots[start : end + 1], one.unit)
        at_knots[start + 1 : end] = own[1:-1]
        in_gaps[start:end] = np.stack([own[:-1], own[1:]], axis=1)
    return np.concatenate([at_knots, in_gaps.ravel()])


def _on_line(line: Line, knots: Sequence[Fraction], unit: Fraction) -> Floats:
    """Return the steps of a line at some knots."""
    if not line.slope:
        return np.full(len(knots), float(round(line.intercept / unit)))
    return np.array([round(line.on(x) / unit) for x in knots], dtype=np.float64)


_DIGITS: Final = 40
_FEWEST_DIGITS: Final = 10


def with_bounds(measures: Sequence[Measure | None], values: Floats) -> Floats:
    """Return the functions at all points with all weights at either bound, in steps of both grids.

    Of very many such corners only the ends of each function's range are kept (`ends_of`).
    """
    grids = bounded_grids(measures)
    if not grids:
        return values
    factors = {weight: _factors(measures, weight, grid) for weight, grid in grids.items()}
    if values.shape[1] * 2 ** len(grids) > MOST_CORNERS:
        return _ends(values, list(factors.values()))
    for own in factors.values():
        values = np.concatenate([values * own[:, [0]], values * own[:, [1]]], axis=1)
    values = np.unique(values, axis=1)
    return np.repeat(values, 2, axis=1) if values.shape[1] == 1 else values


def width(measure: Measure | None) -> Fraction:
    """Return the width of the steps in which a sum is counted."""
    if measure is None:
        return Fraction(1)
    weight = measure.values.weight
    bounds = None if weight is None else weight.bounds
    return measure.values.unit * (1 if bounds is None else BoundedGrid.of(bounds).unit)


def _factors(measures: Sequence[Measure | None], weight: Weight, grid: BoundedGrid) -> Floats:
    """Return the bounds of a weight for the sums that have it, in steps and with 0 between them, and 1 for others."""
    factors = np.ones((len(measures), 2))
    for place, measure in enumerate(measures):
        if measure is not None and measure.values.weight == weight:
            bits = max(abs(measure.values.low), abs(measure.values.high)).bit_length()
            digits = max(_DIGITS - bits, _FEWEST_DIGITS)
            factors[place] = -_short(max(-grid.least, 0), digits), _short(max(grid.most, 0), digits)
    return factors


def _short(steps: int, digits: int) -> float:
    """Return a whole number rounded up to few digits, so that products of it with others are exact floats."""
    cut = max(steps.bit_length() - digits, 0)
    return float(-(-steps >> cut) << cut)


def _ends(values: Floats, factors: Sequence[Floats]) -> Floats:
    low, high = values.min(axis=1), values.max(axis=1)
    for own in factors:
        products = np.stack([end * own[:, side] for end in (low, high) for side in (0, 1)])
        low, high = products.min(axis=0), products.max(axis=0)
    return ends_of(np.stack([low, high], axis=1), from_nothing=True)
