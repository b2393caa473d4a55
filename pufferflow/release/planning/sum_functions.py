"""The functions that a batch adds up, of one column or of tuples, as tables for a prior and a secret.

The functions that a batch adds up, as numbers in whole steps: at the points of the domain, and as a row moves them.

Of a listed domain the points are its values; over an interval they are the corners between which a row moves all sums
jointly.

The functions that a batch adds up, as tables for a prior and a secret: what laws are derived from.

Over an interval the points are the corners between which a row moves all sums jointly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple, Self, cast, final

import numpy as np

from pufferflow.core.arrays import Array, Floats, Indices
from pufferflow.engines.weighted_rows import bounded_grids
from pufferflow.models.domain import ONE_COLUMN, Domain, Interval, Product
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.simple import AnyCorrelation
from pufferflow.models.secret import AnySecret, Initial, Presence, Secret, ValueSecret
from pufferflow.models.secret_pairs import WithinDistance, windows
from pufferflow.queries.engine_interface import Measure
from pufferflow.queries.expressions.on_interval import OnInterval
from pufferflow.queries.expressions.on_points import OnPoints
from pufferflow.queries.request import Request
from pufferflow.release.planning.row_movements import (
    Folding,
    corners,
    ends_of,
    extreme_points,
    steepest,
    undominated,
    with_bounds,
    with_states,
)
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
        return self._as_asked(
            rows if self.factors is not None else with_bounds(self.measures, rows)
        )

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
        if chosen is None:
            states, alone = self.folding.states(), len(self.folding.alone)
            columns = ends_of(self.rows[:alone], from_nothing=self.from_nothing)
            rows = np.concatenate([columns, states[:, [0, 1, 0][: columns.shape[1]]]])
        else:
            rows = self.rows[:, chosen]
        return np.repeat(rows, 2, axis=1) if rows.shape[1] == 1 else rows

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
            tables = TupleTables(
                measures, domain, folding, from_nothing=self.from_nothing, as_rows_move=as_rows_move
            )
            return tables.values
        functions, points = lined(measures), self._points
        if any(functions):
            return corners(functions, folding, from_nothing=self.from_nothing)
        alone = [measures[place] for place in folding.places]
        columns = [
            np.ones(points)
            if one is None
            else np.array(cast(OnPoints, one.values).steps, dtype=np.float64)
            for one in alone
        ]
        return with_states(np.stack(columns) if columns else np.zeros((0, 1)), folding.states())


def lined(measures: Sequence[Measure | None]) -> list[OnInterval | None]:
    """Return the functions of a batch on an interval; nothing but None on a finite domain."""
    return [
        measure.values if measure and isinstance(measure.values, OnInterval) else None
        for measure in measures
    ]


def _has_many_points(domain: Domain | None) -> bool:
    return domain is not None and (not domain.finite or len(domain.points) > MANY_POINTS)


_MOST_MOVES_OF_ROW: Final = 1 << 24


def pairs_that_decide(secret: AnySecret, functions: SumFunctions) -> tuple[AnySecret, Floats]:
    """Return the secret with only those pairs of a listed domain that others do not dominate, and the rows there.

    Where sums share rows, or pairs are too many, the values have no names, and are numbered.
    """
    if not isinstance(secret, Secret | Initial):
        return secret, functions.at_values
    alone, states = functions.alone, functions.folding.states()
    pairs = _pairs(secret, alone)
    if pairs is None:
        return _any_two(secret, functions)
    if len(states) or isinstance(secret.domain, Product) or secret.domain.skips:
        rows = np.concatenate([alone[:, pairs.ravel()], np.tile(states, len(pairs))])
        return _numbered(secret, rows), rows
    places = np.unique(pairs)
    chosen: list[int] = places.tolist()
    points = [secret.domain.points[place] for place in chosen]
    listed: list[list[int]] = pairs.tolist()
    named = [(secret.domain.points[a], secret.domain.points[b]) for a, b in listed]
    return type(secret)(secret.column, points, named), alone[:, places]


def _numbered(secret: ValueSecret, rows: Floats) -> ValueSecret:
    """Return the secret whose values are numbers, of which each even one and the next one are a pair."""
    numbers = list(range(rows.shape[1]))
    return type(secret)(secret.column, numbers, list(zip(numbers[::2], numbers[1::2], strict=True)))


def _any_two(secret: ValueSecret, functions: SumFunctions) -> tuple[ValueSecret, Floats]:
    """Return all functions as they move between any two values; of near ones each as far as it moves between these."""
    rows = functions.extreme_rows
    if not isinstance(secret.pairs, WithinDistance):
        return type(secret)(secret.column, list(range(rows.shape[1]))), rows
    order, ends = windows(secret.pairs, secret.domain)
    moves = [_farthest_within(function[order], ends) for function in functions.alone]
    alone = np.array([(0.0, move) for move in moves]).reshape(-1, 2)
    rows = np.concatenate([alone, functions.folding.states()])
    return _numbered(secret, rows), rows


def _farthest_within(function: Floats, ends: Indices) -> float:
    """Return the largest distance from a value to one of those behind it, up to an end of its own.

    Ranges of powers of two many values are put together, two for each window.
    """
    starts, longest = np.arange(len(function)), 0.0
    level, low, high = (
        np.floor(np.log2(np.maximum(ends - starts, 1))).astype(np.intp),
        function,
        function,
    )
    for power in range(int(level.max()) + 1):
        own = np.flatnonzero(level == power)
        tail = ends[own] - (1 << power)
        most, least = np.maximum(high[own], high[tail]), np.minimum(low[own], low[tail])
        moves = np.maximum(most - function[own], function[own] - least)
        longest = max(longest, float(moves.max(initial=0.0)))
        step = 1 << power
        low, high = np.minimum(low[:-step], low[step:]), np.maximum(high[:-step], high[step:])
    return longest


def _pairs(secret: ValueSecret, alone: Floats) -> Array | None:
    """Return the pairs by the places of their values, of shape (pairs, 2); None if there are too many."""
    count = _number_of_pairs(secret)
    if secret.pairs == "all":
        chosen = extreme_points(alone)
        if chosen is None:
            return None
        first, second = np.triu_indices(len(chosen), 1)
        pairs = (
            np.stack([chosen[first], chosen[second]], axis=1) if len(first) else np.array([[0, 1]])
        )
    elif count * max(len(alone), 1) > _MOST_MOVES_OF_ROW:
        return None
    else:
        pairs = secret.pair_places
    if not len(alone):
        return pairs[:1]
    return pairs[undominated(np.abs(alone[:, pairs[:, 0]] - alone[:, pairs[:, 1]]))]


def _number_of_pairs(secret: ValueSecret) -> int:
    if isinstance(secret.pairs, WithinDistance):
        order, ends = windows(secret.pairs, secret.domain)
        return int((ends - np.arange(len(order)) - 1).sum())
    return len(secret.pairs) if isinstance(secret.pairs, tuple) else len(secret.domain.points)


NO_SLOPE = (
    "counts, histograms and quantiles jump on an interval, so rows of a group were taken to move in any way. "
    "A batch without them, or pf.Bins as the domain, may need less noise"
)


class Tables(NamedTuple):
    """The functions of all sums at points of a domain, for a prior and a secret whose values are these points."""

    prior: Prior
    secret: AnySecret
    values: Floats
    rounding: Floats | None = None
    note: str = ""
    exact: bool = True
    """Whether these are the functions, the secret and the prior themselves, and do not stand in for them."""
    unsigned: bool = False
    """Whether rows that move together may move a sum in opposite directions, as under φ that rises and falls."""
    folding: Folding | None = None
    """Which sums the rows of `values` are of; None if there is a row for each sum."""

    def weights(self, of_sums: Floats) -> Floats:
        """Return the weight of each row of `values`."""
        return of_sums if self.folding is None else self.folding.weights(of_sums)

    def of_sums(self, of_rows: Floats) -> Floats:
        """Return for each sum what its row has."""
        return of_rows if self.folding is None else self.folding.of_sums(of_rows)

    def row(self, place: int) -> Floats:
        """Return the function of a sum."""
        return self.values[place if self.folding is None else int(self.folding.row_of_sum[place])]


def tables_of(prior: Prior, secret: AnySecret, functions: SumFunctions) -> list[Tables]:
    """Return representations of all sums, each of which moves at least as far as they do: the shortest one counts.

    On an interval a row may move between any two corners. It may move less than from end to end, if pairs are close or
    if it moves along with another row. Then each function is replaced by a linear one with its steepest slope.
    """
    if (factors := functions.factors) is not None:
        return [_weighted(one, factors) for one in tables_of(prior, secret, functions.unweighted())]
    measures = functions.measures
    if bounded_grids(measures):
        return [_by_corners(prior, secret, functions, exact=False)]
    domain = None if secret.reads is None else secret.reads[1]
    if isinstance(domain, Product) and not domain.finite:
        return _of_tuples(prior, secret, functions.tuple_tables, functions)
    if functions.listed or isinstance(domain, Product):
        return [_of_values(prior, secret, functions)]
    return _of_interval(prior, secret, functions)


def _of_values(prior: Prior, secret: AnySecret, functions: SumFunctions) -> Tables:
    """Return the sums at all values of a domain, or at those between which a row moves them farthest."""
    by_movement = isinstance(secret, Presence) or prior.any_correlation
    of_one_row = prior.any_law and secret.reads is not None and secret.reads[1] == functions.domain
    if not functions.many_points or not (by_movement or of_one_row):
        return Tables(prior, secret, functions.at_values)
    if by_movement:
        return _by_corners(prior, secret, functions, exact=not functions.folding.sets)
    deciding, rows = pairs_that_decide(secret, functions)
    return Tables(
        prior, deciding, rows, folding=functions.folding, exact=not functions.folding.sets
    )


def _of_interval(prior: Prior, secret: AnySecret, functions: SumFunctions) -> list[Tables]:
    """Return representations of sums of a column that fills an interval."""
    own = lined(functions.measures)
    representations: list[Tables] = []
    smooth = all(one is None or one.slope is not None for one in own)
    if prior.independent_rows and isinstance(secret, ValueSecret):
        exact = len(own) == 1 and own[0] is not None and own[0].affine
        moves, folding = _moves(own, secret, functions.folding), functions.folding
        by_distance = Tables(
            prior, Secret(secret.column, [0, 1]), moves, exact=exact, folding=folding
        )
        return [by_distance] if exact else [by_distance, _by_corners(prior, secret, functions)]
    if smooth and not prior.any_correlation and not isinstance(secret, Presence):
        representations.append(_linear(prior, secret, own, np.array(list(map(steepest, own)))))
    note = (
        "" if representations or prior.any_correlation or isinstance(secret, Presence) else NO_SLOPE
    )
    stand_in = prior if isinstance(secret, Presence) else AnyCorrelation()
    unsigned = any(tables.unsigned for tables in representations)
    exact = prior.any_correlation and len(own) == 1
    by_corners = _by_corners(stand_in, secret, functions, exact=exact)
    return [*representations, by_corners._replace(note=note, unsigned=unsigned)]


def free_tables(secret: AnySecret, column: str | None, functions: SumFunctions) -> Tables:
    """Return the functions for rows that may depend on each other in any way: group privacy."""
    rows = functions.extreme_rows
    if isinstance(secret, Presence) or column is None:
        any_two = _of_corners(secret, rows)
    else:
        any_two = Secret(column, list(range(rows.shape[1])))
    return Tables(AnyCorrelation(), any_two, rows, folding=functions.folding)


def on_interval(request: Request) -> bool:
    """Say whether the values of the column fill an interval, or those of one of several columns."""
    return any(lined(request.measures)) or (
        isinstance(request.domain, Product) and not request.domain.finite
    )


def _of_tuples(
    prior: Prior, secret: AnySecret, tables: TupleTables, functions: SumFunctions
) -> list[Tables]:
    """Return representations of sums about several columns of which some fill intervals."""
    if isinstance(prior, GaussianPrior):
        return _translated(prior, secret, tables, functions)
    if not isinstance(secret, Secret):
        return [_by_corners(prior, secret, functions)]
    if secret.pairs == ONE_COLUMN:
        corner = tables.secret_of_one_column(secret.column)
        by_corners = Tables(prior, corner, functions.rows, exact=False, folding=functions.folding)
    else:
        by_corners = _by_corners(prior, secret, functions, exact=False)
    if not prior.independent_rows:
        return [by_corners]
    ranges = np.ptp(functions.rows, axis=1)
    moves = np.stack([np.zeros(len(ranges)), ranges], axis=1)
    by_ranges = Tables(
        prior, Secret(secret.column, [0, 1]), moves, exact=False, folding=functions.folding
    )
    return [by_ranges, by_corners]


def _translated(
    prior: GaussianPrior, secret: AnySecret, tables: TupleTables, functions: SumFunctions
) -> list[Tables]:
    """Return representations of sums whose rows are translated in all columns, each of which fills an interval."""
    free = _by_corners(AnyCorrelation(), secret, functions, exact=False)
    own = [
        cast(OnInterval, term)
        for measure in functions.measures
        if measure is not None
        for term in measure.values.terms
    ]
    if not all(one.slope is not None for one in own):
        return [free._replace(note=NO_SLOPE)]
    linear = _linear(prior, secret, own, tables.at_ends())
    rounding = [0 if one is None else len(one.values.terms) for one in functions.measures]
    linear = linear._replace(rounding=np.array(rounding, dtype=np.float64))
    return [linear, free._replace(unsigned=linear.unsigned)]


def _linear(
    prior: Prior, secret: AnySecret, lined: Sequence[OnInterval | None], values: Floats
) -> Tables:
    """Return linear functions in place of those on an interval, by their values at its ends."""
    rounding = np.array([0.0 if one is None else 1.0 for one in lined])
    exact, unsigned = (
        all(one is None or one.affine for one in lined),
        not all(map(_monotone, lined)),
    )
    return Tables(prior, secret, values, rounding, exact=exact, unsigned=unsigned)


def _monotone(one: OnInterval | None) -> bool:
    if one is None or one.affine:
        return True
    slopes = [line.slope for line in one.pieces.lines]
    return not one.square and (
        all(slope >= 0 for slope in slopes) or all(slope <= 0 for slope in slopes)
    )


def _by_corners(
    prior: Prior, secret: AnySecret, functions: SumFunctions, *, exact: bool = True
) -> Tables:
    """Return the sums at the points between which a row moves them farthest, any two of which are a pair."""
    rows = functions.extreme_rows
    return Tables(prior, _of_corners(secret, rows), rows, exact=exact, folding=functions.folding)


def _of_corners(secret: AnySecret, values: Floats) -> AnySecret:
    """Return the secret whose values are the corners, any two of which are a pair."""
    points = list(range(values.shape[1]))
    if isinstance(secret, Presence):
        named = (secret.column, points) if secret.column is not None else (None, None)
        return Presence(
            secret.within,
            *named,
            rows=secret.rows,
            once=secret.once,
            groups=secret.groups,
            by=secret.by,
        )
    return Secret(cast(ValueSecret, secret).column, points)


def _moves(lined: Sequence[OnInterval | None], secret: ValueSecret, folding: Folding) -> Floats:
    """Return rows at two points, as far apart as one independent row moves each sum between two paired values."""
    distance = _distance(secret)
    moves = np.zeros((len(lined), 2))
    for place, one in enumerate(lined):
        if one is not None:
            whole = one.high - one.low
            moves[place, 1] = (
                whole if one.slope is None else min(whole, math.ceil(one.slope * distance) + 1)
            )
    rows_of_sets = np.array([[0.0, 1.0]] * (folding.rows - len(folding.alone))).reshape(-1, 2)
    return np.concatenate([moves[folding.alone], rows_of_sets])


def _distance(secret: ValueSecret) -> Fraction:
    """Return the largest distance of two paired values."""
    domain, rule = cast(Interval, secret.domain), secret.pairs
    width = Fraction(domain.high) - Fraction(domain.low)
    if isinstance(rule, WithinDistance):
        return min(width, Fraction(rule.distance))
    if isinstance(rule, str):
        return width
    return max(abs(Fraction(cast(float, a)) - Fraction(cast(float, b))) for a, b in rule)


def _weighted(one: Tables, factors: Floats) -> Tables:
    """Return tables of a row with the largest weights; other rows move less, so these stand in for the functions."""
    rounding = None if one.rounding is None else one.rounding * factors
    return one._replace(values=one.values * factors[:, None], rounding=rounding, exact=False)
