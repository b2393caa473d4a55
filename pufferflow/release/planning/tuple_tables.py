"""The functions of a batch about several columns, as tables over tuples of values (M53).

A sum reads one column, or a function of some of them. On lists of values its table has a number at every tuple. Where a
column fills an interval, the tuples are those of corners, between which a row moves all sums jointly (M7): a row may go
from any corner of each column to any other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, cast, final

import numpy as np

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.errors import InternalError, Refused
from pufferflow.models.product import Product
from pufferflow.models.secret import Secret
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.release.planning.corners import MOST_CORNERS, corners, ends_of, with_states
from pufferflow.release.planning.extremes import extreme_points
from pufferflow.release.planning.folding import FewAtOnce, Folding

_MOST_PLACES: Final = MOST_CORNERS * 2


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
        one = np.ones(len(self._places[0]))
        alone = [(place, self.measures[place]) for place in self.folding.places]
        rows = [one if measure is None else self._row(place, measure) for place, measure in alone]
        for own in self.folding.sets:
            at, rows_of_set = self._place_of_set(own)
            rows += list(self._tables[at][rows_of_set][:, self._places[at]])
        return np.stack(rows)

    def at_ends(self, ends: Floats) -> Floats:
        """Return lines on intervals at all corners of the product, each by its values at both ends of its column."""
        corners = np.indices((2,) * len(self.product.columns)).reshape(len(self.product.columns), -1)
        rows = np.ones((len(self.measures), corners.shape[1]))
        for at in range(len(self.product.columns)):
            for place in self._of_column(at):
                rows[place] = ends[place][corners[at]]
        return rows

    def secret(self, column: str, *, one_column: bool) -> Secret:
        """Return the secret whose values are the corners: any two are a pair, or any two that differ in one column."""
        count = len(self._places[0])
        if not one_column:
            return Secret(column, list(range(count)))
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
        where = [known.index(column) for column in values.columns]
        if not isinstance(values.domain, Product):
            (at,) = where
            return self._tables[at][self._alone_in(at).index(place)][self._places[at]]
        shape = [len(domain.points) for domain in values.domain.domains]
        flat = np.ravel_multi_index([self._places[at] for at in where], shape)
        return np.array(cast(OnPoints, values).steps, dtype=np.float64)[flat]

    @cached_property
    def _places(self) -> list[Indices]:
        """For each column the place among its own corners, tuple by tuple."""
        sizes = [table.shape[1] for table in self._tables]
        if math.prod(sizes) > (3**10 if self.from_nothing else _MOST_PLACES):
            raise Refused(
                f"Sums of {sum(size > 1 for size in sizes)} columns in one batch: all corners of them are compared.",
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
        tables = [table if self._in_products(at) else self._extremes(table) for at, table in enumerate(tables)]
        if math.prod(table.shape[1] for table in tables) <= MOST_CORNERS:
            return tables
        # only the ends of each function's range, all of a column together: they move at least as far
        return [table if self._in_products(at) else self._ends_of(at, table) for at, table in enumerate(tables)]

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
        values = [cast(Measure, self.measures[place]).values for place in own]
        if not domain.finite and (own or folding.sets):
            return corners([cast(OnInterval, one) for one in values], folding, from_nothing=self.from_nothing)
        if self.product.finite or own or folding.sets or self._in_products(at):
            steps = np.array([cast(OnPoints, one).steps for one in values], dtype=np.float64)
            return with_states(steps.reshape(len(own), len(domain.points)), folding.states())
        return np.zeros((0, 1))

    def _of_column(self, at: int) -> list[int]:
        """Return the places of the measures that read one column alone."""
        name = (self.product.columns[at],)
        return [place for place, one in enumerate(self.measures) if one is not None and one.values.columns == name]

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
        raise InternalError("Sums of several columns share rows of a table.", instead="reporting it")

    def _in_products(self, at: int) -> bool:
        """Return whether a function of several columns reads a column."""
        several = (one.values.columns for one in self.measures if one is not None and len(one.values.columns) > 1)
        return any(self.product.columns[at] in columns for columns in several)
