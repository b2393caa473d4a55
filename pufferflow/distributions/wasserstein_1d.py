"""Two finite laws on R: the quantile coupling, walked in one vectorised pass.

The quantile coupling attains W_∞ and every W_p at once. It is a monotone path through the pairs of atoms: at each
level where a cumulative weight of one law is reached, that law moves on to its next atom; where both are reached, both
do. Rounding can only affect the comparison of two levels, so levels are whole numbers here. For rational weights they
are the cumulative weights over a common denominator. For float weights they count floats: a level in the lower half is
the position of its CDF in the ordering of all floats, one in the upper half mirrors the position of its survival
function, so a mass of 1e−17 in either tail keeps its relative accuracy. Float levels within `ties` positions count as
equal.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Flags, Floats, Indices
from pufferflow.core.rounding import SMALLEST, UNIT, float_above, upwards
from pufferflow.distributions import common_units as masses
from pufferflow.distributions.coupling import (
    WITHIN_ROUNDING,
    Certainty,
    Coupling,
    Distance,
    TransportPlan,
    signed_above,
)
from pufferflow.distributions.finite_law import Law

_NORMAL = int(np.array(2.0**-1021).view(np.int64))
_HALF = int(np.array(0.5).view(np.int64))


@dataclass(frozen=True, eq=False)
class Walk:
    """The quantile coupling as a path: the pairs (rows[k], columns[k]) in order; each step advances one law or both."""

    rows: Indices
    columns: Indices
    ties: int
    """The number of floats by which two levels may differ to count as equal; 0 for rational weights."""
    corners: tuple[Array, Array]
    """The pairs that would be on the path if levels that count as equal were not."""
    tangled: bool
    """Whether some levels are so close that the choice of equal ones is not unique."""


def walk(mu: Law, nu: Law) -> Walk:
    """Walk the quantile coupling of two laws on R."""
    whole = masses.rational(mu, nu)
    if whole is not None:
        left, right, ties = np.cumsum(whole[0])[:-1], np.cumsum(whole[1])[:-1], 0
    else:
        left, right, ties = _float_levels(mu.probabilities), _float_levels(nu.probabilities), len(mu) + len(nu)
    levels = np.concatenate([left, right])
    order = np.argsort(levels, kind="stable")
    levels, moves_left = levels[order], order < len(left)
    gaps = levels[1:] - levels[:-1]
    linked = (moves_left[1:] != moves_left[:-1]) & (gaps <= ties)
    if ties:  # sums of subnormal weights are exact: only equal levels tie there
        linked &= (gaps == 0) | (np.minimum(levels, 2 * _HALF - levels)[:-1] >= _NORMAL)
    paired = _every_other(linked)
    moves_right = ~moves_left
    moves_left[:-1] |= paired
    moves_right[:-1] |= paired
    starts = np.concatenate([np.ones(min(len(levels), 1), dtype=bool), ~paired])
    rows, columns = _positions(moves_left[starts]), _positions(moves_right[starts])
    both = np.flatnonzero((rows[1:] != rows[:-1]) & (columns[1:] != columns[:-1])) if ties else np.empty(0, np.intp)
    corners = (
        np.concatenate([rows[both + 1], rows[both]]),
        np.concatenate([columns[both], columns[both + 1]]),
    )
    return Walk(rows, columns, ties, corners, tangled=bool((linked & ~paired).any()))


def winf(mu: Law, nu: Law, *, coupling: bool = False) -> Distance[Coupling]:
    """Return W_∞ on R: the longest step of the quantile coupling (M3)."""
    path = walk(mu, nu)
    left, right = masses.values(mu, nu)
    farthest = longest(left[path.rows], right[path.columns])
    certain = not path.tangled and longest(left[path.corners[0]], right[path.corners[1]]) <= farthest
    return Distance(
        farthest,
        Certainty.EXACT if certain and farthest < np.inf else Certainty.UPPER_BOUND,
        rounding=path.ties * UNIT,
        note="" if certain else WITHIN_ROUNDING,
        coupling=Coupling(mu, nu, path.rows, path.columns, _masses(mu, nu, path)[0]) if coupling else None,
    )


def plan(mu: Law, nu: Law) -> TransportPlan:
    """Return the quantile coupling as a plan with its cost rounded up."""
    path = walk(mu, nu)
    left, right = masses.values(mu, nu)
    weights, tails = _masses(mu, nu, path)
    return TransportPlan(
        mu,
        nu,
        path.rows,
        path.columns,
        weights,
        differences=signed_above(left[path.rows], right[path.columns]),
        doubts=tails * ((path.ties + 4) * UNIT),
        settled=not path.tangled and len(path.corners[0]) == 0,
    )


def wasserstein(mu: Law, nu: Law, p: float, *, coupling: bool = False) -> Distance[Coupling]:
    """Return W_p on R: the p-th moment of the quantile coupling, rounded up."""
    quantile = plan(mu, nu)
    left, right = masses.values(mu, nu)
    farthest = longest(left[quantile.rows], right[quantile.columns])
    steps = np.abs(quantile.differences)
    value = farthest
    if 0 < farthest < np.inf:
        moment = min(quantile.price(upper_power(steps / farthest, p)), 1.0)
        value = min(farthest, upwards(farthest * moment ** (1 / p), 4 * UNIT))
    trivial = quantile.settled and (farthest == 0 or value == farthest == steps.min())
    return Distance(
        value,
        Certainty.EXACT if trivial and value < np.inf else Certainty.UPPER_BOUND,
        rounding=0.0 if masses.rational(mu, nu) else (len(mu) + len(nu)) * UNIT,
        note=WITHIN_ROUNDING
        if not quantile.settled
        else ""
        if trivial
        else "the true distance up to float rounding, rounded up",
        coupling=quantile.coupling() if coupling else None,
    )


def longest(left: Array, right: Array) -> float:
    """Return the largest |x − y| over pairs of atoms, rounded up to a float."""
    if not len(left):
        return 0.0
    with np.errstate(over="ignore"):
        steps = np.abs(left - right)
    farthest: float | Fraction = steps.max()
    if isinstance(farthest, Fraction):
        return float_above(farthest)
    at = np.flatnonzero(steps == farthest)
    return difference_above(left[at], right[at], float(farthest))


def difference_above(left: Array, right: Array, rounded: float) -> float:
    """Return a float not below any |x − y|, given that each rounds to `rounded`."""
    if not np.isfinite(rounded):
        return float("inf")
    high, low = np.maximum(left, right), np.minimum(left, right)
    step = high - low
    back = step - high  # Knuth's two-sum of high and −low: `lost` is the exact error of `step`
    lost = (high - (step - back)) + (-low - back)
    return float(np.nextafter(rounded, np.inf)) if (lost > 0).any() else rounded


def upper_power(fractions: Array, p: float) -> Array:
    """Return fractions in [0, 1] to the power p, each not below its exact value (0 stays 0)."""
    with np.errstate(under="ignore"):
        powers = np.minimum(fractions * (1 + UNIT), 1.0) ** p * (1 + 2 * UNIT)
    return np.where(fractions > 0, np.maximum(powers, SMALLEST), 0.0)


def _float_levels(weights: Floats) -> npt.NDArray[np.int64]:
    """Return positions in the ordering of floats; k terms are summed within k positions, hence the width of a tie."""
    below = np.cumsum(weights)[:-1]
    above = np.cumsum(weights[::-1])[::-1][1:]
    levels = np.where(below <= above, below.view(np.int64), 2 * _HALF - above.view(np.int64))
    counts = np.arange(len(levels))
    return np.maximum.accumulate(levels - counts) + counts  # an atom too light to move its level still has one


def _every_other(linked: Flags) -> Flags:
    """Of each run of consecutive links keep the first, third, …, so that no level is paired twice."""
    starts = linked & ~np.concatenate([[False], linked[:-1]])
    at = np.arange(len(linked))
    return linked & ((at - np.maximum.accumulate(np.where(starts, at, 0))) % 2 == 0)


def _positions(moves: Flags) -> Indices:
    return np.concatenate([np.zeros(1, np.intp), np.cumsum(moves, dtype=np.intp)])


def _masses(mu: Law, nu: Law, path: Walk) -> tuple[Array, Array]:
    """Return the mass of every step, and the weight in the nearer tail of every level between two (0 if it is exact).

    Masses are differences of levels in the nearer tail. An atom on one step only has all its mass there, so light atoms
    keep their mass to the last digit. Rational levels are subtracted as whole numbers.
    """
    whole = masses.rational(mu, nu)
    if whole is not None:
        left, right, total = whole
        ends = np.minimum(np.cumsum(left)[path.rows], np.cumsum(right)[path.columns])
        return masses.ratios(np.diff(ends, prepend=0), total), np.zeros(len(path.rows) - 1)
    # the weight below and above every end of a step, the path's two ends included
    left_moves = path.rows[1:] != path.rows[:-1]
    below, above = (
        np.where(left_moves, _tail(mu, side)[path.rows[:-1]], _tail(nu, side)[path.columns[:-1]]) for side in (0, 1)
    )
    below, above = np.concatenate([[0.0], below, [1.0]]), np.concatenate([[1.0], above, [0.0]])
    lower, upper = np.diff(below), -np.diff(above)
    middle = 1 - below[:-1] - above[1:]
    step_masses = np.where(below[1:] <= above[1:], lower, np.where(above[:-1] <= below[:-1], upper, middle))
    for law, visits in ((nu, path.columns), (mu, path.rows)):
        once = np.bincount(visits, minlength=len(law))[visits] == 1
        step_masses = np.where(once, law.probabilities[visits], step_masses)
    return np.maximum(step_masses, 0.0), np.minimum(below, above)[1:-1]


def _tail(law: Law, side: int) -> Floats:
    """Return the weight up to each atom (side 0) or beyond it (side 1), summed from its own end."""
    weights = law.probabilities
    return np.cumsum(weights) if side == 0 else np.append(np.cumsum(weights[:0:-1])[::-1], 0.0)
