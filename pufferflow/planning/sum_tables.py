"""The functions that a batch adds up, as tables: a number at every point of the domain, in whole steps.

Over an interval the points are the corners between which a row moves all sums jointly.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np

from pufferflow.arrays import Floats
from pufferflow.engine import Measure, bounded_grids
from pufferflow.expressions import OnInterval, OnPoints
from pufferflow.planning.bounded_weights import with_bounds
from pufferflow.planning.corners import corners
from pufferflow.planning.tuple_tables import TupleTables
from pufferflow.queries import Request
from pufferflow.scenario import ONE_COLUMN, AnySecret, Closer, Domain, Interval, Presence, Product, Secret, ValueSecret
from pufferflow.scenario.priors import AnyCorrelation, GaussianPrior, Prior

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


def known_values(
    measures: Sequence[Measure | None], domain: Domain | None, *, from_nothing: bool, factors: Floats | None = None
) -> Floats:
    """Return the functions of all sums at the points of a finite domain, or at the corners on an interval.

    They are multiplied by `factors`, if there are any, which are the largest weights, or by weights with bounds.
    """
    if factors is not None:
        return known_values(measures, domain, from_nothing=from_nothing) * factors[:, None]
    return with_bounds(measures, _values_at(measures, domain, from_nothing=from_nothing))


def _values_at(measures: Sequence[Measure | None], domain: Domain | None, *, from_nothing: bool) -> Floats:
    if isinstance(domain, Product):
        return TupleTables(measures, domain, from_nothing=from_nothing).values
    lined, points = _lined(measures), 1 if domain is None else len(domain.points)
    if any(lined):
        return corners(lined, from_nothing=from_nothing)
    rows = [np.ones(points) if one is None else np.array(cast(OnPoints, one.values).steps, float) for one in measures]
    return np.stack(rows)


def tables_of(
    prior: Prior, secret: AnySecret, measures: Sequence[Measure | None], values: Floats, factors: Floats | None = None
) -> list[Tables]:
    """Return representations of all sums, each of which moves at least as far as they do: the shortest one counts.

    `values` are what `known_values` returns, with the same `factors`. On an interval a row may move between any two
    corners. If it moves less than from end to end (because pairs are close, or because it moves along with another
    row), functions are replaced by linear ones that have everywhere their steepest slope.
    """
    if factors is not None:
        return [_weighted(one, factors) for one in tables_of(prior, secret, measures, values / factors[:, None])]
    if bounded_grids(measures):
        return [Tables(prior, _of_corners(secret, values), values, exact=False)]
    domain, lined = None if secret.reads is None else secret.reads[1], _lined(measures)
    if isinstance(domain, Product) and not domain.finite:
        return _of_tuples(prior, secret, TupleTables(measures, domain), values)
    if not any(lined) or isinstance(domain, Product):
        return [Tables(prior, secret, values)]
    representations: list[Tables] = []
    smooth = all(one is None or one.slope is not None for one in lined)
    if prior.independent_rows and isinstance(secret, ValueSecret):
        exact = len(lined) == 1 and lined[0] is not None and lined[0].affine
        by_distance = Tables(prior, Secret(secret.column, [0, 1]), _moves(lined, secret), exact=exact)
        return [by_distance] if exact else [by_distance, Tables(prior, _of_corners(secret, values), values)]
    if smooth and not isinstance(prior, AnyCorrelation) and not isinstance(secret, Presence):
        representations.append(_linear(prior, secret, lined, _steepest(lined)))
    note = "" if representations or isinstance(prior, AnyCorrelation) or isinstance(secret, Presence) else NO_SLOPE
    stand_in = prior if isinstance(secret, Presence) else AnyCorrelation()
    unsigned = any(tables.unsigned for tables in representations)
    exact = isinstance(prior, AnyCorrelation) and len(lined) == 1
    by_corners = Tables(stand_in, _of_corners(secret, values), values, note=note, exact=exact, unsigned=unsigned)
    return [*representations, by_corners]


def free_tables(secret: AnySecret, column: str | None, values: Floats) -> Tables:
    """Return the functions for rows that may depend on each other in any way: group privacy."""
    if isinstance(secret, Presence) or column is None:
        return Tables(AnyCorrelation(), _of_corners(secret, values), values)
    return Tables(AnyCorrelation(), Secret(column, list(range(values.shape[1]))), values)


def on_interval(request: Request) -> bool:
    """Say whether the values of the column fill an interval, or those of one of several columns."""
    return any(_lined(request.measures)) or (isinstance(request.domain, Product) and not request.domain.finite)


def _of_tuples(prior: Prior, secret: AnySecret, tables: TupleTables, values: Floats) -> list[Tables]:
    """Return representations of sums about several columns of which some fill intervals."""
    if isinstance(prior, GaussianPrior):
        return _translated(prior, secret, tables, values)
    if not isinstance(secret, Secret):
        return [Tables(prior, _of_corners(secret, values), values)]
    corner = tables.secret(secret.column, one_column=secret.pairs == ONE_COLUMN)
    by_corners = Tables(prior, corner, values, exact=False)
    if not prior.independent_rows:
        return [by_corners]
    moves = np.stack([np.zeros(len(values)), values.max(axis=1) - values.min(axis=1)], axis=1)
    return [Tables(prior, Secret(secret.column, [0, 1]), moves, exact=False), by_corners]


def _translated(prior: GaussianPrior, secret: AnySecret, tables: TupleTables, values: Floats) -> list[Tables]:
    """Return representations of sums whose rows are translated in all columns, each of which fills an interval."""
    lined = _lined(tables.measures)
    if not all(one is None or one.slope is not None for one in lined):
        return [Tables(AnyCorrelation(), _of_corners(secret, values), values, note=NO_SLOPE, exact=False)]
    linear = _linear(prior, secret, lined, tables.at_ends(_steepest(lined)))
    free = Tables(AnyCorrelation(), _of_corners(secret, values), values, exact=False, unsigned=linear.unsigned)
    return [linear, free]


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


def _lined(measures: Sequence[Measure | None]) -> list[OnInterval | None]:
    """Return the functions of a batch on an interval; nothing but None on a finite domain."""
    return [measure.values if measure and isinstance(measure.values, OnInterval) else None for measure in measures]


def _of_corners(secret: AnySecret, values: Floats) -> AnySecret:
    """Return the secret whose values are the corners, any two of which are a pair."""
    points = list(range(values.shape[1]))
    if isinstance(secret, Presence):
        named = (secret.column, points) if secret.column is not None else (None, None)
        return Presence(secret.within, *named, rows=secret.rows, once=secret.once, groups=secret.groups, by=secret.by)
    return Secret(cast(ValueSecret, secret).column, points)


def _moves(lined: Sequence[OnInterval | None], secret: ValueSecret) -> Floats:
    """Return functions at two points, as far apart as one independent row moves each sum between two paired values."""
    distance = _distance(secret)
    moves = np.zeros((len(lined), 2))
    for place, one in enumerate(lined):
        if one is not None:
            whole = one.high - one.low
            moves[place, 1] = whole if one.slope is None else min(whole, math.ceil(one.slope * distance) + 1)
    return moves


def _distance(secret: ValueSecret) -> Fraction:
    """Return the largest distance of two paired values."""
    domain, rule = cast(Interval, secret.domain), secret.pairs
    width = Fraction(domain.high) - Fraction(domain.low)
    if isinstance(rule, Closer):
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
