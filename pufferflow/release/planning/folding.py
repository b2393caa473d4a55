"""Sums of which a row of data moves few at once: they share few rows of a table.

A histogram of 10,000 bins has 10,000 sums, and each value is in one bin: a row that changes leaves one bin and enters
another, so it moves two of them. A set of such sums needs two rows of a table, however many bins there are. In general
each value is in `overlap` sums of the set at most, so that a row moves 2·overlap of them.

Which sums a row moves does not matter, because all sums have independent noise of one scale in their units: a movement
is as costly as one of the same lengths in other coordinates. Sums of different weights take the largest weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.values import Values

_FEWEST: Final = 3
"""The least number of sums of a set; fewer have a row each."""
_EXACT: Final = 2**53


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
            overlap = _overlap([_values(measures[place]) for place in own]) if len(own) >= _FEWEST else len(own)
            if 2 * overlap < len(own):
                sets.append(FewAtOnce(np.array(own), overlap))
                taken.update(own)
        return cls(
            np.array([place for place in range(len(measures)) if place not in taken], dtype=np.intp), tuple(sets)
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
        blocks = [start + np.arange(min(int(counted[start]), ends.get(start, 1))) for start in np.unique(row).tolist()]
        return np.concatenate(blocks)

    def states(self) -> Floats:
        """Return two columns for the rows of all sets, between which a row of data moves the most sums."""
        columns = [np.repeat(np.eye(2), own.overlap, axis=0) for own in self.sets]
        return np.concatenate([np.zeros((0, 2)), *columns])


def _values(measure: Measure | None) -> Values:
    if measure is None:
        raise TypeError("The number of rows is in no set of sums.")
    return measure.values


def _candidates(measures: Sequence[Measure | None], queries: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return sums that may be a set: indicators of one column, of one query; those of single counts together."""
    found, singles = list[list[int]](), dict[str, list[int]]()
    for places in queries:
        own = [place for place in dict.fromkeys(places) if (one := measures[place]) is not None and _is_indicator(one)]
        columns = {_values(measures[place]).column for place in own}
        if len(places) == 1 and own:
            singles.setdefault(columns.pop(), []).extend(own)
        elif len(columns) == 1:
            found.append(own)
    return [*found, *(list(dict.fromkeys(own)) for own in singles.values())]


def _is_indicator(measure: Measure) -> bool:
    values = measure.values
    if (values.low, values.high) != (0, 1) or values.weight is not None:
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
    rank = {knot: 2 * place for place, knot in enumerate(sorted({knot for own in knots_of for knot in own}))}
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
    whole = abs(knot.numerator) < _EXACT and knot.denominator < _EXACT
    return float(knot) if whole and knot.denominator & (knot.denominator - 1) == 0 else knot
