"""The functions of a batch about several columns, as tables over tuples of values (M53).

A sum reads one column, or a function of some of them. On lists of values its table has a number at every tuple. Where a
column fills an interval, the tuples are those of corners, between which a row moves all sums jointly (M7): a row may go
from any corner of each column to any other.

A sum of functions of one column each is at a tuple what they add up to. A movement of it is a sum of movements of
columns. Of these no one may take the place of another that goes the other way. So columns of such sums keep all their
corners. Where these are too many, each sum moves by its whole range.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import InternalError, Refused
from pufferflow.models.domain import Product
from pufferflow.models.secret import Secret
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.expressions.values import Values
from pufferflow.release.planning.row_movements import (
    MOST_CORNERS,
    FewAtOnce,
    Folding,
    corners,
    ends_of,
    extreme_points,
    falls,
    few_corners,
    slack,
    steepest,
    with_states,
)

_MOST_PLACES: Final = MOST_CORNERS * 2
_MOST_SLACK: Final = 2.0**-6


@final
@dataclass(frozen=True, eq=False)
class TupleTables:
    """The sums of a batch at the points of a product of domains, or at the corners of one with intervals."""

    measures: Sequence[Measure | None]
    product: Product
    folding: Folding
    from_nothing: bool = False
    """Whether rows come and go, so that 0 is a value of every sum."""
    as_rows_move: bool = False
    """Whether tuples may be left out, or stand in for others, between which rows move no farther."""

    @property
    def values(self) -> Floats:
        """The rows of all functions at all tuples, in steps, of shape (rows, tuples); None is always 1."""
        if self._in_ranges:
            return self._ranges
        one = np.ones(len(self._places[0]))
        alone = [(place, self.measures[place]) for place in self.folding.places]
        rows = [one if measure is None else self._row(place, measure) for place, measure in alone]
        for own in self.folding.sets:
            at, rows_of_set = self._place_of_set(own)
            rows += list(self._tables[at][rows_of_set][:, self._places[at]])
        return np.stack(rows) * (1 + 3 * self._slack if self._added else 1)

    def at_ends(self) -> Floats:
        """Return lines on intervals at all corners of the product, each by its values at both ends of its column."""
        corners = np.indices((2,) * len(self.product.columns)).reshape(
            len(self.product.columns), -1
        )
        rows = np.ones((len(self.measures), corners.shape[1]))
        for place, measure in enumerate(self.measures):
            if measure is not None:
                terms = [cast(OnInterval, term) for term in measure.values.terms]
                rows[place] = sum(_ends(term, terms)[corners[self._at(term)]] for term in terms)
        return rows

    def secret_of_one_column(self, column: str) -> Secret:
        """Return the secret whose values are the corners: any two are a pair that differ in one column."""
        if self._in_ranges:
            count = self._ranges.shape[1]
            return Secret(column, list(range(count)), [(0, place) for place in range(2, count)])
        count = len(self._places[0])
        first, second = np.triu_indices(count, 1)
        differ = sum((own[first] != own[second]).astype(int) for own in self._places)
        chosen = np.flatnonzero(differ == 1)
        pairs = list(zip(first[chosen].tolist(), second[chosen].tolist(), strict=True))
        return Secret(column, list(range(count)), pairs or "all")

    def _row(self, place: int, measure: Measure) -> Floats:
        values, known = measure.values, self.product.columns
        if other := [column for column in values.columns if column not in known]:
            raise Refused(
                f"A sum of {other[0]!r} where the secrets are about {', '.join(map(repr, known))}.",
                allowed="sums of the columns of the secrets",
                instead=f"a secret about {other[0]!r} too, or an account of its own for the scenario with that secret",
            )
        return np.sum([self._term(place, term) for term in values.terms], axis=0)

    def _term(self, place: int, term: Values) -> Floats:
        """Return one of the functions that a sum is made of, at all tuples."""
        if not isinstance(term.domain, Product):
            at = self._at(term)
            return self._tables[at][self._alone_in(at).index(place)][self._places[at]]
        shape = [len(domain.points) for domain in term.domain.domains]
        where = [self.product.columns.index(column) for column in term.columns]
        flat = np.ravel_multi_index([self._places[at] for at in where], shape)
        return np.array(cast(OnPoints, term).steps, dtype=np.float64)[flat]

    def _at(self, term: Values) -> int:
        """Return the place of the column of a function of one column."""
        return self.product.columns.index(term.column)

    @cached_property
    def _added(self) -> bool:
        """Whether some sum is one of functions of several columns."""
        return any(one is not None and len(one.values.terms) > 1 for one in self.measures)

    @cached_property
    def _in_ranges(self) -> bool:
        """Whether each sum moves by its whole range: one sum alone, or too many corners of sums over columns."""
        if not self._added or len(self.measures) == 1:
            return self._added
        every = [at for at, domain in enumerate(self.product.domains) if not domain.finite]
        if not all(few_corners(self._lined_in(at), self._folding_in(at)) for at in every):
            return True
        count = math.prod(table.shape[1] for table in self._tables)
        return count > _MOST_PLACES or self._slack > _MOST_SLACK

    @cached_property
    def _slack(self) -> float:
        """How much the longest movement grows if each function is rounded to steps, relatively, in all columns."""
        return sum(slack(self._lined_in(at)) for at in range(len(self.product.columns)))

    @cached_property
    def _ranges(self) -> Floats:
        """All functions low, all high, and as far from the low ones as each column alone moves them."""
        alone = [self.measures[place] for place in self.folding.places]
        ends = [(1, 1) if one is None else (one.values.low, one.values.high) for one in alone]
        columns = ends_of(np.array(ends, dtype=np.float64), from_nothing=self.from_nothing)
        states = self.folding.states()
        rows = np.concatenate([columns, states[:, [0, 1, 0][: columns.shape[1]]]])
        if self.from_nothing:
            return rows
        moved = [self._moved_in(at, states) for at in range(len(self.product.columns))]
        return np.concatenate([rows, rows[:, [0]] + np.stack(moved, axis=1)], axis=1)

    def _moved_in(self, at: int, states: Floats) -> Floats:
        """Return how far one column alone moves each row of the table."""
        name = self.product.columns[at]
        ranges = [
            sum(float(term.high - term.low) for term in one.values.terms if name in term.columns)
            if one is not None
            else 0.0
            for one in map(self.measures.__getitem__, self.folding.places)
        ]
        moved = np.concatenate([ranges, states[:, 1] - states[:, 0]])
        own, start = self._folding_in(at).sets, len(ranges)
        for some in self.folding.sets:
            moved[start : start + some.rows] *= some in own
            start += some.rows
        return moved

    @cached_property
    def _places(self) -> list[Indices]:
        """For each column the place among its own corners, tuple by tuple."""
        sizes = [table.shape[1] for table in self._tables]
        if math.prod(sizes) > (3**10 if self.from_nothing else _MOST_PLACES):
            raise Refused(
                f"Sums of {sum(size > 1 for size in sizes)} columns in one batch: too many extreme values to compare.",
                allowed="sums of at most 10 columns on intervals",
                instead="batches of fewer columns, each with a share of the budget; or pf.learning.PrivateRidge",
            )
        places = [one.ravel() for one in np.indices(sizes)]
        return places if len(places[0]) > 1 else [np.repeat(one, 2) for one in places]

    @cached_property
    def _tables(self) -> list[Floats]:
        """For each column its functions at its own points, or corners."""
        tables = [self._own_table(at) for at in range(len(self.product.columns))]
        if self.product.finite and not self.as_rows_move:
            return tables
        if math.prod(table.shape[1] for table in tables) <= MOST_CORNERS:
            return tables
        tables = [
            table if self._in_products(at) else self._extremes(table)
            for at, table in enumerate(tables)
        ]
        if math.prod(table.shape[1] for table in tables) <= MOST_CORNERS:
            return tables
        # only the ends of each function's range, all of a column together: they move at least as far
        return [
            table if self._in_products(at) else self._ends_of(at, table)
            for at, table in enumerate(tables)
        ]

    def _extremes(self, table: Floats) -> Floats:
        """Return the points of one column between which its functions move as far as between any two."""
        chosen = extreme_points(table, from_nothing=self.from_nothing)
        return table if chosen is None else table[:, chosen]

    def _ends_of(self, at: int, table: Floats) -> Floats:
        """Return the ends of the functions of one column; sets move between their two states."""
        alone, states = len(self._alone_in(at)), self._folding_in(at).states()
        columns = ends_of(table[:alone], from_nothing=self.from_nothing)
        return np.concatenate([columns, states[:, [0, 1, 0][: columns.shape[1]]]])

    def _own_table(self, at: int) -> Floats:
        """Return the functions of one column; of a column that none reads, nothing at its points, or at one of them."""
        domain, own, folding = self.product.domains[at], self._alone_in(at), self._folding_in(at)
        if not domain.finite and (own or folding.sets):
            return corners(self._lined_in(at), folding, from_nothing=self.from_nothing)
        values = self._functions_in(at)
        if self.product.finite or own or folding.sets or self._in_products(at):
            steps = np.array([cast(OnPoints, one).steps for one in values], dtype=np.float64)
            return with_states(steps.reshape(len(own), len(domain.points)), folding.states())
        return np.zeros((0, 1))

    def _of_column(self, at: int) -> list[int]:
        name = (self.product.columns[at],)
        return [
            place
            for place, one in enumerate(self.measures)
            if one is not None and any(term.columns == name for term in one.values.terms)
        ]

    def _functions_in(self, at: int) -> list[Values]:
        """Return the functions of one column that have a row each, or a part in one."""
        name = (self.product.columns[at],)
        alone = (cast(Measure, self.measures[place]).values for place in self._alone_in(at))
        return [next(term for term in one.terms if term.columns == name) for one in alone]

    def _lined_in(self, at: int) -> list[OnInterval | None]:
        """Return these functions of a column that fills an interval; None of a list of values."""
        finite = self.product.domains[at].finite
        return [] if finite else [cast(OnInterval, one) for one in self._functions_in(at)]

    def _alone_in(self, at: int) -> list[int]:
        """Return the places of those that have a row each."""
        alone = set(self.folding.places)
        return [place for place in self._of_column(at) if place in alone]

    def _folding_in(self, at: int) -> Folding:
        """Return the rows of the functions of one column."""
        own = set(self._of_column(at))
        sets = tuple(some for some in self.folding.sets if own.issuperset(some.sums.tolist()))
        return Folding(np.arange(len(self._alone_in(at))), sets)

    def _place_of_set(self, own: FewAtOnce) -> tuple[int, slice]:
        """Return the column that a set reads, and the rows of the set in its table."""
        for at in range(len(self.product.columns)):
            folding = self._folding_in(at)
            if own in folding.sets:
                start = folding.starts[folding.sets.index(own)]
                return at, slice(start, start + own.rows)
        raise InternalError(
            "Sums of several columns share rows of a table.", instead="reporting it"
        )

    def _in_products(self, at: int) -> bool:
        several = (
            one.values.columns
            for one in self.measures
            if one is not None and len(one.values.columns) > 1
        )
        return any(self.product.columns[at] in columns for columns in several)


def _ends(term: OnInterval, among: Sequence[OnInterval]) -> Floats:
    """Return the values of the steepest line of a term at its ends; terms of one sum go up or down as they do."""
    ends = np.array(steepest(term))
    return ends[::-1] if len(among) > 1 and falls(term) else ends
