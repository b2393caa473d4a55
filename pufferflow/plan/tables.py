"""What the sums of a batch look like to a prior: a number at every point of the domain, in whole steps."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, cast

import numpy as np

from pufferflow.expressions import Lined, Tabled
from pufferflow.priors import AnyCorrelation, Prior
from pufferflow.queries import Measure
from pufferflow.release.bars import Floats
from pufferflow.secrets import AnySecret, Interval, Presence, Secret

NO_SLOPE = (
    "a count on an interval jumps, so a small movement of a value may change it: rows were taken to move in any way"
)


class Tables(NamedTuple):
    """The functions of the sums at the points of the domain, for a prior, and what rounding to steps adds to them."""

    prior: Prior
    values: Floats
    rounding: Floats | None
    note: str = ""


def tables_of(prior: Prior, secret: AnySecret, measures: Sequence[Measure | None]) -> Tables:
    """Return the functions of all sums; on an interval as linear functions that move at least as far.

    There a function that is not linear is replaced by one with the same range, if only its range matters, or by one
    that has everywhere its steepest slope. One that jumps has no slope: then rows may move in any way (M7).
    """
    known = [measure.values for measure in measures if measure is not None]
    if not any(isinstance(values, Lined) for values in known):
        points = max((len(cast(Tabled, values).steps) for values in known), default=1)
        rows = [np.ones(points) if m is None else np.array(cast(Tabled, m.values).steps, float) for m in measures]
        return Tables(prior, np.stack(rows), None)
    by_range = isinstance(prior, AnyCorrelation) or isinstance(secret, Presence) or _all_alone(prior, secret)
    rounding = np.array([0.0 if measure is None else 1.0 for measure in measures])
    lined = [measure and cast(Lined, measure.values) for measure in measures]
    if by_range or all(one is None or one.affine for one in lined):
        ends = [(1, 1) if one is None else (one.low, one.high) for one in lined]
        return Tables(prior, np.array(ends, float), rounding)
    if all(one is None or one.slope is not None for one in lined):
        ends = [(1.0, 1.0) if one is None else (0.0, _rise(one)) for one in lined]
        return Tables(prior, np.array(ends, float), rounding)
    ends = [(1, 1) if one is None else (one.low, one.high) for one in lined]
    return Tables(AnyCorrelation(), np.array(ends, float), None, NO_SLOPE)


def _all_alone(prior: Prior, secret: AnySecret) -> bool:
    """Say whether one row moves alone and between any two of its values: then only ranges matter."""
    return prior.alone and isinstance(secret, Secret) and secret.pairs == "all"


def _rise(one: Lined) -> float:
    """Return how far the steepest linear function goes over the interval, in whole steps, rounded up."""
    domain = cast(Interval, one.domain)
    if one.affine:
        return float(one.high - one.low)
    return float(-(-cast(Fraction, one.slope) * (Fraction(domain.high) - Fraction(domain.low)) // 1))
