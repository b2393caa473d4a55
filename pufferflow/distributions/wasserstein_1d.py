"""W_∞, W_p and (z, δ)-nearness of two finite laws on R: the quantile coupling, and matching within z (M4).

The quantile coupling attains W_∞ and every W_p at once, in one vectorised pass. It is a monotone path through the pairs
of atoms. At each level where a cumulative weight of one law is reached, that law moves on to its next atom. Where both
are reached, both do. Rounding can only affect the comparison of two levels, so levels are whole numbers here. For
rational weights they are the cumulative weights over a common denominator. For float weights they count floats. A level
in the lower half is the position of its CDF in the ordering of all floats. A level in the upper half mirrors the
position of its survival function. So a mass of 1e−17 in either tail keeps its relative accuracy. Float levels within
`ties` positions count as equal.

For nearness, the smallest z is searched at which all mass but δ can be matched within distance z (M4). The quantile
coupling does not give it: on {0,1} and {1,10} it matches nothing at z=0, and half can be matched. By max-flow min-cut,
the mass that stays unmatched at a given z is the largest μ(A) − ν(A^z) over sets A. On a line A is a union of
intervals. It is found by deciding at every atom of μ whether to be inside A, with many stretches of atoms walked side
by side. The search climbs. The worst set A at one z rules out every z up to the least at which A itself suffices. That
is the next z to try, and the first z that no set rules out is the result. Masses are whole numbers, so nothing rounds;
float weights are rounded down first, which can only leave more unmatched.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Flags, Floats, Indices
from pufferflow.core.rounding import SMALLEST, UNIT, float_above, upwards
from pufferflow.distributions import common_units
from pufferflow.distributions.common_units import Allowance, allowance, floats_above, values
from pufferflow.distributions.coupling import (
    WITHIN_ROUNDING,
    Certainty,
    Coupling,
    Distance,
    Matching,
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
    whole = common_units.rational(mu, nu)
    if whole is not None:
        left, right, ties = np.cumsum(whole[0])[:-1], np.cumsum(whole[1])[:-1], 0
    else:
        left, right, ties = (
            _float_levels(mu.probabilities),
            _float_levels(nu.probabilities),
            len(mu) + len(nu),
        )
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
    both = (
        np.flatnonzero((rows[1:] != rows[:-1]) & (columns[1:] != columns[:-1]))
        if ties
        else np.empty(0, np.intp)
    )
    corners = (
        np.concatenate([rows[both + 1], rows[both]]),
        np.concatenate([columns[both], columns[both + 1]]),
    )
    return Walk(rows, columns, ties, corners, tangled=bool((linked & ~paired).any()))


def winf(mu: Law, nu: Law, *, coupling: bool = False) -> Distance[Coupling]:
    """Return W_∞ on R: the longest step of the quantile coupling (M3)."""
    path = walk(mu, nu)
    left, right = common_units.values(mu, nu)
    farthest = longest(left[path.rows], right[path.columns])
    certain = (
        not path.tangled and longest(left[path.corners[0]], right[path.corners[1]]) <= farthest
    )
    return Distance(
        farthest,
        Certainty.EXACT if certain and farthest < np.inf else Certainty.UPPER_BOUND,
        rounding=path.ties * UNIT,
        note="" if certain else WITHIN_ROUNDING,
        coupling=Coupling(mu, nu, path.rows, path.columns, _masses(mu, nu, path)[0])
        if coupling
        else None,
    )


def plan(mu: Law, nu: Law) -> TransportPlan:
    """Return the quantile coupling as a plan with its cost rounded up."""
    path = walk(mu, nu)
    left, right = common_units.values(mu, nu)
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
    left, right = common_units.values(mu, nu)
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
        rounding=0.0 if common_units.rational(mu, nu) else (len(mu) + len(nu)) * UNIT,
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
    return (
        np.maximum.accumulate(levels - counts) + counts
    )  # an atom too light to move its level still has one


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
    whole = common_units.rational(mu, nu)
    if whole is not None:
        left, right, total = whole
        ends = np.minimum(np.cumsum(left)[path.rows], np.cumsum(right)[path.columns])
        return common_units.ratios(np.diff(ends, prepend=0), total), np.zeros(len(path.rows) - 1)
    # the weight below and above every end of a step, the path's two ends included
    left_moves = path.rows[1:] != path.rows[:-1]
    below, above = (
        np.where(left_moves, _tail(mu, side)[path.rows[:-1]], _tail(nu, side)[path.columns[:-1]])
        for side in (0, 1)
    )
    below, above = np.concatenate([[0.0], below, [1.0]]), np.concatenate([[1.0], above, [0.0]])
    lower, upper = np.diff(below), -np.diff(above)
    middle = 1 - below[:-1] - above[1:]
    step_masses = np.where(
        below[1:] <= above[1:], lower, np.where(above[:-1] <= below[:-1], upper, middle)
    )
    for law, visits in ((nu, path.columns), (mu, path.rows)):
        once = np.bincount(visits, minlength=len(law))[visits] == 1
        step_masses = np.where(once, law.probabilities[visits], step_masses)
    return np.maximum(step_masses, 0.0), np.minimum(below, above)[1:-1]


def _tail(law: Law, side: int) -> Floats:
    """Return the weight up to each atom (side 0) or beyond it (side 1), summed from its own end."""
    weights = law.probabilities
    return np.cumsum(weights) if side == 0 else np.append(np.cumsum(weights[:0:-1])[::-1], 0.0)


Ranges = tuple[Array, Array]
_CELLS = 2**14
_LARGE = 4 * _CELLS
_FEW_INTERVALS = 2**13
_TRIALS = 200  # more than any search takes; an early end still gives a lower end
_PATIENCE = 6
"""The number of climbs after which every other trial halves the range."""
_SUSPICIOUS = 3
"""Sufficient trials in a row after which the range is halved; after as many again the lower end is tried."""


def near(mu: Law, nu: Law, delta: Fraction, *, coupling: bool = False) -> Distance[Coupling]:
    """Return the smallest z for which some coupling has P(|X − Y| > z) ≤ δ."""
    if delta == 0:
        return winf(mu, nu, coupling=coupling)
    masses = allowance(mu, nu, delta)
    steps = AtomDistances(*values(mu, nu))
    if masses.hopeless or steps.endless:
        return winf(mu, nu, coupling=coupling)
    z, unmatched = _least(steps, masses, _start(steps, masses))
    certain = unmatched <= masses.strict and masses.precise
    value = steps.above(z)
    if (
        value > z
    ):  # rounding up may be for a pair that the coupling does not use; W_∞ is never exceeded
        value = min(value, float(winf(mu, nu)))
    return Distance(
        value,
        Certainty.EXACT if certain and value < math.inf else Certainty.UPPER_BOUND,
        rounding=masses.rounding,
        note="" if certain else WITHIN_ROUNDING,
        coupling=_greedy(mu, nu, steps, z) if coupling else None,
    )


class AtomDistances:
    """The distances |x − y| between the atoms of two laws on R, searched without listing them all."""

    def __init__(self, left: Array, right: Array) -> None:
        self.left, self.right = left, right
        self._padded = np.concatenate([np.full(1, -math.inf), right, np.full(1, math.inf)])

    @property
    def endless(self) -> bool:
        """Whether some step is too long for a float."""
        return longest(self.left[[0, -1]], self.right[[-1, 0]]) == math.inf

    def first(self, x: Array, z: Any) -> Array:
        """Return for each x the first right atom not below x − z, as floats subtract."""

        def before(j: Array) -> Flags:
            return self._gap(x, j) < -z

        bounds: Array = x - z
        return self._correct(np.searchsorted(self.right, bounds, "left"), before)

    def last(self, x: Array, z: Any) -> Array:
        """Return for each x the first right atom above x + z, as floats subtract."""

        def before(j: Array) -> Flags:
            return self._gap(x, j) <= z

        bounds: Array = x + z
        return self._correct(np.searchsorted(self.right, bounds, "right"), before)

    def ranges(self, z: Any, within: Ranges | None, beyond: Ranges | None) -> Ranges:
        """Return the ranges of all left atoms at z, given those at a smaller and at a larger z if they are known."""
        if within is None or beyond is None:
            return self.first(self.left, z), self.last(self.left, z)
        first, last = within[0].copy(), within[1].copy()
        at = np.flatnonzero(within[0] != beyond[0])
        first[at] = self.first(self.left[at], z)
        at = np.flatnonzero(within[1] != beyond[1])
        last[at] = self.last(self.left[at], z)
        return first, last

    def smallest_beyond(self, starts: Array, first: Array, ends: Array, last: Array) -> Any:
        """Return the smallest distance that takes a further atom into a range, ∞ if there is none."""
        return min((-self._gap(starts, first - 1)).min(), self._gap(ends, last).min())

    def largest_within(self, z: Any, starts: Array, first: Array, ends: Array, last: Array) -> Any:
        """Return the largest distance that puts an end atom into a range and is not above z."""
        gaps = np.concatenate([-self._gap(starts, first), self._gap(ends, last - 1)])
        return max(gaps[gaps <= z].max(), z * 0)

    def above(self, z: Any) -> float:
        """Return a float not below any exact distance that rounds to z."""
        if isinstance(z, Fraction):
            return float_above(z)
        ends = [
            (j, np.abs(self._gap(self.left, j)) == z)
            for j in (self.first(self.left, z), self.last(self.left, z) - 1)
        ]
        left = np.concatenate([self.left[at] for _, at in ends])
        right = np.concatenate([self.right[j[at]] for j, at in ends])
        return difference_above(left, right, float(z))

    def _gap(self, x: Array, j: Array) -> Array:
        """Return y_j − x, with y = ∞ past the end and −∞ before the start."""
        return self._padded[j + 1] - x

    @staticmethod
    def _correct(j: Array, before: Callable[[Array], Flags]) -> Array:
        """Move each j to the first atom that is not `before`; x ± z is rounded, the comparison is by y − x."""
        while (behind := before(j)).any():
            j = j + behind
        while (ahead := ~before(j - 1)).any():
            j = j - ahead
        return j


def _start(steps: AtomDistances, masses: Allowance) -> Any:
    """Return a lower bound of the distance: that of laws gathered in cells, less the width of a cell."""
    zero = steps.left[0] * 0
    if len(steps.left) + len(steps.right) < _LARGE or steps.left.dtype == object:
        return zero
    origin = min(steps.left[0], steps.right[0])
    width = (max(steps.left[-1], steps.right[-1]) - origin) / _CELLS
    if not 0 < width < math.inf:
        return zero
    gathered: list[tuple[Array, Array]] = []
    for points, weights in ((steps.left, masses.left), (steps.right, masses.right)):
        cells = np.floor((points - origin) / width)
        edges = np.concatenate([[0], np.flatnonzero(np.diff(cells)) + 1])
        gathered.append((cells[edges], np.add.reduceat(weights, edges)))
    coarse = replace(masses, left=gathered[0][1], right=gathered[1][1])
    cells, _ = _least(AtomDistances(gathered[0][0], gathered[1][0]), coarse, zero)
    return max(zero, (cells - 1 - 2.0**-20) * width)


def _least(steps: AtomDistances, masses: Allowance, start: Any) -> tuple[Any, int]:
    """Return the least distance ≥ `start` that leaves no more mass unmatched than allowed, and that mass.

    No distance below `low` suffices, and `high` does; the search ends when they meet.
    """
    left = np.concatenate([[0], np.cumsum(masses.left)])
    right = np.concatenate([[0], np.cumsum(masses.right)])
    lost = masses.all - int(left[-1])
    ends = steps.left[0], steps.left[-1], steps.right[0], steps.right[-1]
    count = len(steps.left) + len(steps.right)
    stride = (max(ends) - min(ends)) / count
    guess = (
        start if start or count < _LARGE else stride
    )  # with many atoms, trying 0 is slow and it rarely suffices
    search = DistanceSearch(start, stride, guess)
    unmatched = 0
    within: Ranges | None = None
    beyond: Ranges | None = None
    while True:
        first, last = steps.ranges(search.guess, within, beyond)
        surplus, starts, ends = _worst_set(
            right[first] - left[:-1], left[1:] - right[last], -4 * masses.all
        )
        excess = lost + surplus - masses.forgiving
        if excess <= 0:
            beyond, unmatched = (first, last), lost + surplus
            search.record_success(
                steps.largest_within(search.guess, steps.left, first, steps.left, last),
                excess / masses.all,
            )
        else:
            within = first, last
            needed = int((left[ends + 1] - left[starts]).sum()) + lost - masses.forgiving
            low = _climb(steps, right, (steps.left[starts], steps.left[ends]), search.guess, needed)
            search.record_failure(low, excess / masses.all, many=len(starts) > _FEW_INTERVALS)
        if search.high is not None and search.low >= search.high:
            return search.high, unmatched
        search.advance()


def _climb(
    steps: AtomDistances, right: Array, intervals: tuple[Array, Array], z: Any, needed: int
) -> Any:
    """Return a distance above z below which ν of the widened intervals does not reach `needed`.

    It is the largest such distance unless there are so many intervals that finding it would cost more than it saves.
    """
    starts, ends = intervals
    low, high, low_mass, high_mass = z, None, 0, 0
    guess, width, stalled = z, z * 0, 0
    for _ in range(_TRIALS if len(starts) <= _FEW_INTERVALS else 1):
        first, last = steps.first(starts, guess), steps.last(ends, guess)
        fresh = np.maximum(
            first[1:], last[:-1]
        )  # the common part of overlapping widened intervals counts once
        mass = int((right[last] - right[np.concatenate([first[:1], fresh])]).sum())
        if mass >= needed:
            high, high_mass = steps.largest_within(guess, starts, first, ends, last), mass
        else:
            low, low_mass = steps.smallest_beyond(starts, first, ends, last), mass
        if high is None:
            width = 2 * width or (low - z) * 2
            guess = low + width
            continue
        if low >= high:
            return high
        stalled = stalled + 1 if high - low > width / 2 else 0
        width = high - low
        share = (
            0.5
            if stalled > 1
            else min(0.95, max(0.05, (needed - low_mass) / max(high_mass - low_mass, 1)))
        )
        guess = low + width * (
            Fraction(share).limit_denominator(1024) if isinstance(width, Fraction) else share
        )
        guess = guess if guess < high else low
    return low


def _worst_set(enter: Array, leave: Array, never: int) -> tuple[int, Array, Array]:
    """Return max over A of μ(A) − ν(A^z), and where the intervals of the best A start and end.

    Entering A before atom i gains ν(up to its range) − μ(before i). Leaving it after i gains μ(through i) − ν(through
    its range). Stretches of √n atoms are walked side by side, once for each state they may start in (0 outside, 1
    inside), then joined. `never` is a loss that no set can compensate.
    """
    width = math.isqrt(len(enter) - 1) + 1
    stretches = -(-len(enter) // width)
    idle = np.full(width * stretches - len(enter), never, dtype=enter.dtype)
    enter, leave = (
        np.concatenate([gain, idle]).reshape(stretches, width).T.copy() for gain in (enter, leave)
    )
    outside = np.array([[0], [never]], dtype=enter.dtype).repeat(stretches, axis=1)
    inside = outside[::-1].copy()
    entered, left = np.empty((2, width, 2, stretches), dtype=bool)
    for step in range(width):
        entering = outside + enter[step]
        np.greater(entering, inside, out=entered[step])
        inside = np.maximum(inside, entering)
        leaving = inside + leave[step]
        np.greater(leaving, outside, out=left[step])
        outside = np.maximum(outside, leaving)
    gain, states = _join(outside.tolist(), inside.tolist(), never)
    begins = states[:-1] == 1
    entered, left = (np.where(begins, moves[:, 1], moves[:, 0]) for moves in (entered, left))
    starts, ends = np.empty((2, width, stretches), dtype=bool)
    after = states[1:] == 1
    for step in reversed(range(width)):
        within = after | left[step]  # still inside A after this step, or A ends here
        np.logical_and(within, ~after, out=ends[step])
        np.logical_and(within, entered[step], out=starts[step])
        after = within & ~entered[step]
    return gain, np.flatnonzero(starts.T.ravel()), np.flatnonzero(ends.T.ravel())


def _join(
    outside: list[list[int]], inside: list[list[int]], never: int
) -> tuple[int, npt.NDArray[np.int8]]:
    """Join stretches: the best gain from outside to outside over all of them, and the states between them."""
    best = [0, never]
    came_from: list[tuple[int, int]] = []
    for ends in zip(
        *outside, *inside, strict=True
    ):  # gains of the moves out-out, in-out, out-in, in-in
        moves = [(best[0] + ends[2 * to], best[1] + ends[2 * to + 1]) for to in (0, 1)]
        came_from.append((int(moves[0][1] > moves[0][0]), int(moves[1][1] > moves[1][0])))
        best = [max(moves[0]), max(moves[1])]
    states = [0]
    for sources in reversed(came_from):
        states.append(sources[states[-1]])
    return best[0], np.array(states[::-1], dtype=np.int8)


def _greedy(mu: Law, nu: Law, steps: AtomDistances, z: Any) -> Coupling:
    """Return a coupling that matches most mass within z: leftmost first, the remaining mass in order."""
    matching = Matching(mu, nu)
    x: list[Any] = steps.left.tolist()
    y: list[Any] = steps.right.tolist()
    i = j = 0
    while i < len(x) and j < len(y):
        if abs(x[i] - y[j]) <= z:
            matching.take(i, j, matching.left[i])
            i, j = i + (not matching.left[i]), j + (not matching.right[j])
        elif x[i] < y[j]:
            i += 1
        else:
            j += 1
    matching.match_in_order()
    matching.match_slivers(
        lambda i: floats_above(np.abs(steps.right - x[i])),
        lambda j: floats_above(np.abs(steps.left - y[j])),
    )
    return matching.coupling()


class DistanceSearch:
    """The choice of trials in the search for the least distance that suffices: below `low` none does, `high` does.

    Every trial gives its excess. While the failing sets are simple, `low` itself is likely the result. It is tried at
    most a few times in a row without halving the range. While they are many, the excess is a smooth curve. The next
    trial is then the zero of a parabola through the last three trials.
    """

    def __init__(self, low: Any, stride: Any, guess: Any) -> None:
        self.low, self.guess = low, guess
        self.high: Any = None
        self._stride = stride
        self._trials: list[tuple[Any, float]] = []
        self._climbs = self._streak = 0
        self._many = False

    def record_success(self, high: Any, excess: float) -> None:
        """Record that the trial suffices, and the largest distance that is not above it."""
        self._trials = [*self._trials[-2:], (self.guess, excess)]
        self.high = high
        self._streak += 1

    def record_failure(self, low: Any, excess: float, *, many: bool) -> None:
        """Record that the trial does not suffice, a distance below which none does, and whether many sets fail."""
        self._trials = [*self._trials[-2:], (self.guess, excess)]
        self.low, self._many = low, many
        self._climbs += 1
        self._streak = 0

    def advance(self) -> None:
        """Choose the next distance to try, from `low` up to below `high`."""
        impatient = self._many or (self._climbs > _PATIENCE and self._climbs % 2 == 0)
        if self.high is None:
            self.guess = max(self.low, 4 * self.guess, self._stride) if impatient else self.low
        elif self._streak > 1 and self._trials[-1][1] == self._trials[-2][1]:
            self.guess = (
                self.low
            )  # the last two trials enclose nothing relevant; all that is may be at the end
        elif self._many and self._streak < _SUSPICIOUS:
            guess = self._interpolate()
            self.guess = guess if self.low <= guess < self.high else self._middle()
        elif impatient and self._streak < 2 * _SUSPICIOUS:
            self.guess = self._middle()
        else:
            self.guess = self.low

    def _interpolate(self) -> Any:
        """Return where the excess is 0 on the curve through the last trials, distance as a polynomial of excess."""
        if len({excess for _, excess in self._trials}) < len(self._trials):
            return self.high
        guess = 0.0
        for at, (distance, excess) in enumerate(self._trials):
            others = (
                other for _, other in itertools.chain(self._trials[:at], self._trials[at + 1 :])
            )
            guess += float(distance) * math.prod(other / (other - excess) for other in others)
        return (
            Fraction(guess).limit_denominator(10**6) if isinstance(self.high, Fraction) else guess
        )

    def _middle(self) -> Any:
        """Return the middle of the range, in orders of magnitude if it spans several."""
        if (
            isinstance(self.high, Fraction)
            or isinstance(self.low, Fraction)
            or not 0 < 4 * self.low < self.high
        ):
            middle = self.low + (self.high - self.low) / 2
            return middle if middle < self.high else self.low
        return math.sqrt(self.low) * math.sqrt(self.high)
