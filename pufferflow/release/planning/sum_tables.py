"""The functions that a batch adds up, as tables for a prior and a secret: what laws are derived from.

Over an interval the points are the corners between which a row moves all sums jointly.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np

from pufferflow.core.arrays import Floats
from pufferflow.engines.bounded_weights import bounded_grids
from pufferflow.models.domain import Interval
from pufferflow.models.priors.base import Prior
from pufferflow.models.priors.gaussian import GaussianPrior
from pufferflow.models.priors.simple import AnyCorrelation
from pufferflow.models.product import ONE_COLUMN, Product
from pufferflow.models.secret import AnySecret, Presence, Secret, ValueSecret
from pufferflow.models.secret_pairs import WithinDistance
from pufferflow.queries.expressions.interval import OnInterval
from pufferflow.queries.request import Request
from pufferflow.release.planning.folding import Folding
from pufferflow.release.planning.functions import SumFunctions, lined
from pufferflow.release.planning.one_row import pairs_that_decide
from pufferflow.release.planning.tuple_tables import TupleTables

NO_SLOPE = (
    "what jumps on an interval has no slope, so rows of a group were taken to move in any way; a batch without counts, "
    "histograms and quantiles, or pf.Bins as the domain, says more"
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

    On an interval a row may move between any two corners. If it moves less than from end to end (because pairs are
    close, or because it moves along with another row), functions are replaced by linear ones that have everywhere their
    steepest slope.
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
    return Tables(prior, deciding, rows, folding=functions.folding, exact=not functions.folding.sets)


def _of_interval(prior: Prior, secret: AnySecret, functions: SumFunctions) -> list[Tables]:
    """Return representations of sums of a column that fills an interval."""
    own = lined(functions.measures)
    representations: list[Tables] = []
    smooth = all(one is None or one.slope is not None for one in own)
    if prior.independent_rows and isinstance(secret, ValueSecret):
        exact = len(own) == 1 and own[0] is not None and own[0].affine
        moves, folding = _moves(own, secret, functions.folding), functions.folding
        by_distance = Tables(prior, Secret(secret.column, [0, 1]), moves, exact=exact, folding=folding)
        return [by_distance] if exact else [by_distance, _by_corners(prior, secret, functions)]
    if smooth and not prior.any_correlation and not isinstance(secret, Presence):
        representations.append(_linear(prior, secret, own, _steepest(own)))
    note = "" if representations or prior.any_correlation or isinstance(secret, Presence) else NO_SLOPE
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
    return any(lined(request.measures)) or (isinstance(request.domain, Product) and not request.domain.finite)


def _of_tuples(prior: Prior, secret: AnySecret, tables: TupleTables, functions: SumFunctions) -> list[Tables]:
    """Return representations of sums about several columns of which some fill intervals."""
    if isinstance(prior, GaussianPrior):
        return _translated(prior, secret, tables, functions)
    if not isinstance(secret, Secret):
        return [_by_corners(prior, secret, functions)]
    corner = tables.secret(secret.column, one_column=secret.pairs == ONE_COLUMN)
    by_corners = Tables(prior, corner, functions.rows, exact=False, folding=functions.folding)
    if not prior.independent_rows:
        return [by_corners]
    ranges = np.ptp(functions.rows, axis=1)
    moves = np.stack([np.zeros(len(ranges)), ranges], axis=1)
    by_ranges = Tables(prior, Secret(secret.column, [0, 1]), moves, exact=False, folding=functions.folding)
    return [by_ranges, by_corners]


def _translated(prior: GaussianPrior, secret: AnySecret, tables: TupleTables, functions: SumFunctions) -> list[Tables]:
    """Return representations of sums whose rows are translated in all columns, each of which fills an interval."""
    own, free = lined(functions.measures), _by_corners(AnyCorrelation(), secret, functions, exact=False)
    if not all(one is None or one.slope is not None for one in own):
        return [free._replace(note=NO_SLOPE)]
    linear = _linear(prior, secret, own, tables.at_ends(_steepest(own)))
    return [linear, free._replace(unsigned=linear.unsigned)]


def _linear(prior: Prior, secret: AnySecret, lined: Sequence[OnInterval | None], values: Floats) -> Tables:
    """Return linear functions in place of those on an interval, by their values at its ends."""
    rounding = np.array([0.0 if one is None else 1.0 for one in lined])
    exact, unsigned = all(one is None or one.affine for one in lined), not all(map(_monotone, lined))
    return Tables(prior, secret, values, rounding, exact=exact, unsigned=unsigned)


def _monotone(one: OnInterval | None) -> bool:
    if one is None or one.affine:
        return True
    slopes = [line.slope for line in one.pieces.lines]
    return not one.square and (all(slope >= 0 for slope in slopes) or all(slope <= 0 for slope in slopes))


def _by_corners(prior: Prior, secret: AnySecret, functions: SumFunctions, *, exact: bool = True) -> Tables:
    """Return the sums at the points between which a row moves them farthest, any two of which are a pair."""
    rows = functions.extreme_rows
    return Tables(prior, _of_corners(secret, rows), rows, exact=exact, folding=functions.folding)


def _of_corners(secret: AnySecret, values: Floats) -> AnySecret:
    """Return the secret whose values are the corners, any two of which are a pair."""
    points = list(range(values.shape[1]))
    if isinstance(secret, Presence):
        named = (secret.column, points) if secret.column is not None else (None, None)
        return Presence(secret.within, *named, rows=secret.rows, once=secret.once, groups=secret.groups, by=secret.by)
    return Secret(cast(ValueSecret, secret).column, points)


def _moves(lined: Sequence[OnInterval | None], secret: ValueSecret, folding: Folding) -> Floats:
    """Return rows at two points, as far apart as one independent row moves each sum between two paired values."""
    distance = _distance(secret)
    moves = np.zeros((len(lined), 2))
    for place, one in enumerate(lined):
        if one is not None:
            whole = one.high - one.low
            moves[place, 1] = whole if one.slope is None else min(whole, math.ceil(one.slope * distance) + 1)
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


def _steepest(lined: Sequence[OnInterval | None]) -> Floats:
    """Return the ends of linear functions with the steepest slope of each."""
    ends = np.ones((len(lined), 2))
    for place, one in enumerate(lined):
        if one is not None and one.affine:
            ends[place] = one.low, one.high
        elif one is not None:
            domain = cast(Interval, one.domain)
            width = Fraction(domain.high) - Fraction(domain.low)
            ends[place] = 0.0, math.ceil(cast(Fraction, one.slope) * width)
    return ends


def _weighted(one: Tables, factors: Floats) -> Tables:
    """Return tables of a row with the largest weights; other rows move less, so these stand in for the functions."""
    rounding = None if one.rounding is None else one.rounding * factors
    return one._replace(values=one.values * factors[:, None], rounding=rounding, exact=False)
