"""The functions that a batch adds up, as numbers in whole steps: at the points of the domain, and as a row moves them.

Of a listed domain the points are its values; over an interval they are the corners between which a row moves all sums
jointly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self, cast, final

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.engines.bounded_weights import bounded_grids
from pufferflow.models.domain import Domain
from pufferflow.models.product import Product
from pufferflow.models.secret import Presence
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.request import Request
from pufferflow.release.planning.bounded_weights import with_bounds
from pufferflow.release.planning.corners import corners, ends_of, with_states
from pufferflow.release.planning.extremes import extreme_points
from pufferflow.release.planning.folding import Folding
from pufferflow.release.planning.tuple_tables import TupleTables

MANY_POINTS: Final = 64
"""The number of listed values from which on sums share rows of a table and pairs are not compared one by one."""


@final
@dataclass(frozen=True, eq=False)
class SumFunctions:
    """The functions of all sums of a batch.

    Sums may share rows of a table, as `folding` says. Numbers are multiplied by `factors`, if there are any, which are
    the largest weights.
    """

    measures: Sequence[Measure | None]
    domain: Domain | None
    folding: Folding
    from_nothing: bool
    """Whether rows come and go, so that 0 is a value of every sum."""
    factors: Floats | None = None
    combinations: Floats | None = None
    """Factors of all sums for each combination of them, of which these are the functions then."""

    @classmethod
    def of(cls, request: Request, factors: Floats | None = None) -> Self:
        """Return the functions of a request."""
        from_nothing = isinstance(request.scenario.secret, Presence)
        measures, domain = request.measures, request.domain
        folding = Folding.none(len(measures))
        if factors is None and not bounded_grids(measures) and _has_many_points(domain):
            folding = Folding.of(measures, request.places)
        return cls(measures, domain, folding, from_nothing, factors)

    @cached_property
    def rows(self) -> Floats:
        """Numbers between which a row of data moves all sums, of shape (rows, points)."""
        rows = self._rows(self.folding, as_rows_move=_has_many_points(self.domain))
        return self._as_asked(rows if self.factors is not None else with_bounds(self.measures, rows))

    @property
    def listed(self) -> bool:
        """Whether there is a number for every value of the domain."""
        return not any(lined(self.measures)) and (self.domain is None or self.domain.finite)

    @cached_property
    def at_values(self) -> Floats:
        """The functions of all sums at every value of a listed domain, of shape (sums, values)."""
        if not self.folding.sets and not isinstance(self.domain, Product):
            return self.rows
        return self._as_asked(self._rows(Folding.none(len(self.measures)), as_rows_move=False))

    @cached_property
    def alone(self) -> Floats:
        """The functions of the sums that have a row each, at every value of a listed domain."""
        if isinstance(self.domain, Product):
            return self.at_values[self.folding.alone]
        return self.rows[: len(self.folding.alone), : self._points]

    @property
    def _points(self) -> int:
        return 1 if self.domain is None else len(self.domain.points)

    @property
    def many_points(self) -> bool:
        """Whether there are so many points that pairs of them are not compared one by one."""
        return self.rows.shape[1] > MANY_POINTS

    @cached_property
    def extreme_rows(self) -> Floats:
        """The rows at those points between which a row of data moves the sums farthest; at all, if they are few."""
        if not self.many_points:
            return self.rows
        chosen = extreme_points(self.rows, from_nothing=self.from_nothing)
        rows = self._ends if chosen is None else self.rows[:, chosen]
        return np.repeat(rows, 2, axis=1) if rows.shape[1] == 1 else rows

    @property
    def _ends(self) -> Floats:
        states, alone = self.folding.states(), len(self.folding.alone)
        columns = ends_of(self.rows[:alone], from_nothing=self.from_nothing)
        return np.concatenate([columns, states[:, [0, 1, 0][: columns.shape[1]]]])

    @property
    def tuple_tables(self) -> TupleTables:
        """The functions of several columns, as a row moves them."""
        return TupleTables(
            self.measures,
            cast(Product, self.domain),
            self.folding,
            from_nothing=self.from_nothing,
            as_rows_move=_has_many_points(self.domain),
        )

    @cached_property
    def ranges(self) -> Floats:
        """How far apart the least and the largest value of each function are."""
        return self.folding.of_sums(np.ptp(self.rows, axis=1))

    def row(self, place: int) -> Floats:
        """Return the function of a sum."""
        return self.rows[int(self.folding.row_of_sum[place])]

    def unweighted(self) -> "SumFunctions":
        """Return the functions without the largest weights."""
        return replace(self, factors=None)

    def combining(self, combinations: Floats) -> "SumFunctions":
        """Return the functions of combinations of the sums, each of which has a row."""
        return replace(self, combinations=combinations)

    def _as_asked(self, rows: Floats) -> Floats:
        rows = rows if self.factors is None else rows * self.factors[:, None]
        return rows if self.combinations is None else self.combinations @ rows

    def _rows(self, folding: Folding, *, as_rows_move: bool) -> Floats:
        measures, domain = self.measures, self.domain
        if isinstance(domain, Product):
            tables = TupleTables(measures, domain, folding, from_nothing=self.from_nothing, as_rows_move=as_rows_move)
            return tables.values
        functions, points = lined(measures), self._points
        if any(functions):
            return corners(functions, folding, from_nothing=self.from_nothing)
        alone = [measures[place] for place in folding.places]
        columns = [np.ones(points) if one is None else _steps(one) for one in alone]
        return with_states(np.stack(columns) if columns else np.zeros((0, 1)), folding.states())


def lined(measures: Sequence[Measure | None]) -> list[OnInterval | None]:
    """Return the functions of a batch on an interval; nothing but None on a finite domain."""
    return [measure.values if measure and isinstance(measure.values, OnInterval) else None for measure in measures]


def _has_many_points(domain: Domain | None) -> bool:
    return domain is not None and (not domain.finite or len(domain.points) > MANY_POINTS)


def _steps(measure: Measure) -> Floats:
    return np.array(cast(OnPoints, measure.values).steps, dtype=np.float64)
