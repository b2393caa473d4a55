"""Two finite laws on R: the smallest z at which all mass but δ can be matched within distance z (M4).

Not the quantile coupling: on {0,1} and {1,10} it matches nothing at z=0, and half can be matched. What cannot be
matched at a given z is, by max-flow min-cut, the largest μ(A) − ν(A^z) over sets A. On a line A is a union of
intervals, found by deciding at every atom of μ whether to be inside or outside A, with many stretches of atoms walked
side by side. The search climbs: the worst set A at one z rules out every z up to the least at which A itself suffices,
and that is the next z to try; the first z that no set rules out is the result. Masses are whole numbers, so nothing
rounds; float weights are rounded down first, which can only leave more unmatched.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Array, Flags
from pufferflow.core.rounding import float_above
from pufferflow.distributions import wasserstein_1d as line
from pufferflow.distributions.common_units import Allowance, allowance, floats_above, values
from pufferflow.distributions.coupling import WITHIN_ROUNDING, Certainty, Coupling, Distance
from pufferflow.distributions.finite_law import Law
from pufferflow.distributions.matching import Matching

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
        return line.winf(mu, nu, coupling=coupling)
    masses = allowance(mu, nu, delta)
    steps = AtomDistances(*values(mu, nu))
    if masses.hopeless or steps.endless:
        return line.winf(mu, nu, coupling=coupling)
    z, unmatched = _least(steps, masses, _start(steps, masses))
    certain = unmatched <= masses.strict and masses.precise
    value = steps.above(z)
    if value > z:  # rounding up may be for a pair that the coupling does not use; W_∞ is never exceeded
        value = min(value, float(line.winf(mu, nu)))
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
        return line.longest(self.left[[0, -1]], self.right[[-1, 0]]) == math.inf

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
            (j, np.abs(self._gap(self.left, j)) == z) for j in (self.first(self.left, z), self.last(self.left, z) - 1)
        ]
        left = np.concatenate([self.left[at] for _, at in ends])
        right = np.concatenate([self.right[j[at]] for j, at in ends])
        return line.difference_above(left, right, float(z))

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
    guess = start if start or count < _LARGE else stride  # with many atoms, trying 0 is slow and it rarely suffices
    search = DistanceSearch(start, stride, guess)
    unmatched = 0
    within: Ranges | None = None
    beyond: Ranges | None = None
    while True:
        first, last = steps.ranges(search.guess, within, beyond)
        surplus, starts, ends = _worst_set(right[first] - left[:-1], left[1:] - right[last], -4 * masses.all)
        excess = lost + surplus - masses.forgiving
        if excess <= 0:
            beyond, unmatched = (first, last), lost + surplus
            search.record_success(
                steps.largest_within(search.guess, steps.left, first, steps.left, last), excess / masses.all
            )
        else:
            within = first, last
            needed = int((left[ends + 1] - left[starts]).sum()) + lost - masses.forgiving
            low = _climb(steps, right, (steps.left[starts], steps.left[ends]), search.guess, needed)
            search.record_failure(low, excess / masses.all, many=len(starts) > _FEW_INTERVALS)
        if search.high is not None and search.low >= search.high:
            return search.high, unmatched
        search.advance()


def _climb(steps: AtomDistances, right: Array, intervals: tuple[Array, Array], z: Any, needed: int) -> Any:
    """Return a distance above z below which ν of the widened intervals does not reach `needed`.

    It is the largest such distance unless there are so many intervals that finding it would cost more than it saves.
    """
    starts, ends = intervals
    low, high, low_mass, high_mass = z, None, 0, 0
    guess, width, stalled = z, z * 0, 0
    for _ in range(_TRIALS if len(starts) <= _FEW_INTERVALS else 1):
        first, last = steps.first(starts, guess), steps.last(ends, guess)
        fresh = np.maximum(first[1:], last[:-1])  # the common part of overlapping widened intervals counts once
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
        share = 0.5 if stalled > 1 else min(0.95, max(0.05, (needed - low_mass) / max(high_mass - low_mass, 1)))
        guess = low + width * (Fraction(share).limit_denominator(1024) if isinstance(width, Fraction) else share)
        guess = guess if guess < high else low
    return low


def _worst_set(enter: Array, leave: Array, never: int) -> tuple[int, Array, Array]:
    """Return max over A of μ(A) − ν(A^z), and where the intervals of the best A start and end.

    Entering A before atom i gains ν(up to its range) − μ(before i); leaving it after i gains μ(through i) − ν(through
    its range). Stretches of √n atoms are walked side by side, once for each state they may start in (0 outside, 1
    inside), then joined. `never` is a loss that no set can compensate.
    """
    width = math.isqrt(len(enter) - 1) + 1
    stretches = -(-len(enter) // width)
    idle = np.full(width * stretches - len(enter), never, dtype=enter.dtype)
    enter, leave = (np.concatenate([gain, idle]).reshape(stretches, width).T.copy() for gain in (enter, leave))
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


def _join(outside: list[list[int]], inside: list[list[int]], never: int) -> tuple[int, npt.NDArray[np.int8]]:
    """Join stretches: the best gain from outside to outside over all of them, and the states between them."""
    best = [0, never]
    came_from: list[tuple[int, int]] = []
    for ends in zip(*outside, *inside, strict=True):  # gains of the moves out-out, in-out, out-in, in-in
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

    Every trial gives its excess. While the failing sets are simple, `low` itself is likely the result and is tried,
    but at most a few times in a row without halving the range. While they are many, the
    excess is a smooth curve, and the next trial is where a parabola through the last three trials says that it is 0.
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
            self.guess = self.low  # the last two trials enclose nothing relevant; all that is may be at the end
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
            others = (other for _, other in itertools.chain(self._trials[:at], self._trials[at + 1 :]))
            guess += float(distance) * math.prod(other / (other - excess) for other in others)
        return Fraction(guess).limit_denominator(10**6) if isinstance(self.high, Fraction) else guess

    def _middle(self) -> Any:
        """Return the middle of the range, in orders of magnitude if it spans several."""
        if isinstance(self.high, Fraction) or isinstance(self.low, Fraction) or not 0 < 4 * self.low < self.high:
            middle = self.low + (self.high - self.low) / 2
            return middle if middle < self.high else self.low
        return math.sqrt(self.low) * math.sqrt(self.high)
