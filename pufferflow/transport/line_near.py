"""Two finite laws on R: the smallest z at which all mass but δ can be matched within distance z (M4).

Not the quantile coupling: on {0,1} and {1,10} it matches nothing at z=0, and half can be matched. What cannot be
matched at a given z is, by max-flow min-cut, the largest μ(A) − ν(A^z) over sets A. On a line A is a union of
intervals, found by deciding at every atom of μ whether to be inside or outside A: a product of 2×2 matrices in the
(max, +) algebra, taken pairwise in vectorised rounds. The search climbs: the set A that is worst at one z rules out
every z up to where A itself would do, and that is a next z to try; the first that no set rules out is the answer.
Masses are whole numbers, so nothing rounds; float weights are rounded down first, which can only leave more unmatched.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from pufferflow.law import Law
from pufferflow.rounding import float_above
from pufferflow.transport import line
from pufferflow.transport.distance import WITHIN_ROUNDING, Certainty, Coupling, Distance, completed
from pufferflow.transport.masses import LARGEST_TOTAL, Allowance, allowance

Array = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
_CELLS = 2**14
_MOST_WORK = 2**18


def near(mu: Law, nu: Law, delta: float | Fraction, *, coupling: bool = False) -> Distance:
    """Return the smallest z for which some coupling has P(|X − Y| > z) ≤ δ."""
    if delta == 0:
        return line.winf(mu, nu, coupling=coupling)
    masses = allowance(mu, nu, delta)
    if masses.hopeless:
        return line.winf(mu, nu, coupling=coupling)
    if float(line.longest(*_ends(mu, nu))) == math.inf:
        return line.winf(mu, nu, coupling=coupling)  # some step is too long for a float
    steps = Steps(mu.values, nu.values)
    z, unmatched = _least(steps, masses, _start(steps, masses))
    certain = unmatched <= masses.strict
    value = steps.above(z)
    if value > z:  # rounded up for a pair that the coupling may not need; W_∞ is never exceeded
        value = min(value, float(line.winf(mu, nu)))
    return Distance(
        value,
        Certainty.EXACT if certain and value < math.inf else Certainty.UPPER_BOUND,
        rounding=masses.rounding,
        note="" if certain else WITHIN_ROUNDING,
        coupling=_greedy(mu, nu, z) if coupling else None,
    )


def _ends(mu: Law, nu: Law) -> tuple[Array, Array]:
    """Return the two pairs of atoms that are farthest apart."""
    return mu.values[[0, -1]], nu.values[[-1, 0]]


class Steps:
    """The distances |x − y| between the atoms of two laws on R, searched without ever listing them all."""

    def __init__(self, left: Array, right: Array) -> None:
        if left.dtype != right.dtype:
            rational = np.vectorize(Fraction, otypes=[object])
            left, right = rational(left), rational(right)
        self.left, self.right = left, right

    def first(self, x: Array, z: Any) -> Array:
        """Return for each x the first right atom not below x − z, as floats subtract."""

        def before(j: Array) -> Flags:
            return self._gap(x, j) < -z

        bounds: Array = x - z
        return self._corrected(np.searchsorted(self.right, bounds, "left"), before)

    def last(self, x: Array, z: Any) -> Array:
        """Return for each x the first right atom above x + z, as floats subtract."""

        def before(j: Array) -> Flags:
            return self._gap(x, j) <= z

        bounds: Array = x + z
        return self._corrected(np.searchsorted(self.right, bounds, "right"), before)

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
        inside = (j >= 0) & (j < len(self.right))
        gap = self.right[np.clip(j, 0, len(self.right) - 1)] - x
        return gap if inside.all() else np.where(inside, gap, np.where(j < 0, -math.inf, math.inf))

    @staticmethod
    def _corrected(j: Array, before: Callable[[Array], Flags]) -> Array:
        """Move each j to the first atom that is not `before`; x ± z was rounded, y − x is what counts."""
        while (behind := before(j)).any():
            j = j + behind
        while (ahead := ~before(j - 1)).any():
            j = j - ahead
        return j


def _start(steps: Steps, masses: Allowance) -> Any:
    """Return a distance surely below the answer: the answer for laws gathered in cells, less the width of a cell."""
    zero = steps.left[0] * 0
    if len(steps.left) + len(steps.right) < 4 * _CELLS or steps.left.dtype == object:
        return zero
    origin = min(steps.left[0], steps.right[0])
    width = (max(steps.left[-1], steps.right[-1]) - origin) / _CELLS
    if not 0 < width < math.inf:
        return zero
    gathered: list[tuple[Array, Array]] = []
    for values, weights in ((steps.left, masses.left), (steps.right, masses.right)):
        cells = np.floor((values - origin) / width)
        edges = np.concatenate([[0], np.flatnonzero(np.diff(cells)) + 1])
        gathered.append((cells[edges], np.add.reduceat(weights, edges)))
    coarse = replace(masses, left=gathered[0][1], right=gathered[1][1])
    cells, _ = _least(Steps(gathered[0][0], gathered[1][0]), coarse, zero)
    return max(zero, (cells - 1 - 2.0**-20) * width)


def _least(steps: Steps, masses: Allowance, start: Any) -> tuple[Any, int]:
    """Return the smallest distance, not below `start`, that leaves no more than allowed unmatched, and what it leaves.

    `low` is a distance below which nothing will do. It is tried in turn with a guess by the secant of the last two
    trials, which is bolder; what the guess says is kept either way.
    """
    left = np.concatenate([[0], np.cumsum(masses.left)])
    right = np.concatenate([[0], np.cumsum(masses.right)])
    lost = masses.all - int(left[-1])
    low, high, left_at_high = start, None, 0
    guess, before, bold = start, None, False
    spread = max(steps.left[-1], steps.right[-1]) - min(steps.left[0], steps.right[0])
    while True:
        first, last = steps.first(steps.left, guess), steps.last(steps.left, guess)
        surplus, starts, ends = _worst_set(right[first] - left[:-1], left[1:] - right[last])
        unmatched = lost + surplus
        if unmatched <= masses.forgiving:
            high, left_at_high = steps.largest_within(guess, steps.left, first, steps.left, last), unmatched
        else:
            needed = int((left[ends + 1] - left[starts]).sum()) + lost - masses.forgiving
            low = _reaching(steps, right, (steps.left[starts], steps.left[ends]), guess, needed)
        if high is not None and low >= high:
            return high, left_at_high
        bold = not bold
        secant = _secant(before, (guess, unmatched), masses.forgiving) if bold else low
        if high is None and len(starts) * 8 > len(steps.left):  # so far from the answer that no trial says much
            secant = max(guess * 4, spread / (len(steps.left) + len(steps.right)))
        before = guess, unmatched
        guess = max(low, secant) if high is None else min(max(low, secant), high * 0.5 + low * 0.5)


def _secant(before: tuple[Any, int] | None, now: tuple[Any, int], target: int) -> Any:
    """Return where the line through two trials (distance, unmatched) meets the target, or the last distance."""
    if before is None or before[0] == now[0] or before[1] == now[1]:
        return now[0]
    part = (now[1] - target) / (before[1] - now[1])
    span = now[0] - before[0]
    return now[0] + span * (Fraction(part).limit_denominator(1024) if isinstance(span, Fraction) else part)


def _reaching(steps: Steps, right: Array, intervals: tuple[Array, Array], z: Any, needed: int) -> Any:
    """Return a distance above z below which ν of the widened intervals does not reach `needed`.

    It is the largest such distance unless there are so many intervals that finding it would cost more than it saves.
    Widened intervals that overlap are counted twice, which can only make the answer smaller.
    """
    starts, ends = intervals
    low, high, low_mass, high_mass = z, None, 0, 0
    guess, width, stalled = z, z * 0, 0
    for _ in range(1 + _MOST_WORK // len(starts)):
        first, last = steps.first(starts, guess), steps.last(ends, guess)
        mass = int((right[last] - right[first]).sum())
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


def _worst_set(enter: Array, leave: Array) -> tuple[int, Array, Array]:
    """Return max over A of μ(A) − ν(A^z), and where the intervals of the best A start and end.

    Entering A before atom i gains ν(up to its range) − μ(before i); leaving it after i gains μ(through i) − ν(through
    its range). States are 0 outside, 1 inside; `levels[k][a, b]` is the best gain from a to b over 2^k atoms.
    """
    zero = np.zeros_like(enter)
    alone = enter + leave
    levels: list[Array] = [np.array([[np.maximum(zero, alone), enter], [leave, zero]])]
    never = -4 * LARGEST_TOTAL
    identity = np.array([[[0], [never]], [[never], [0]]], dtype=enter.dtype)
    while levels[-1].shape[2] > 1:
        if levels[-1].shape[2] % 2:
            levels[-1] = np.concatenate([levels[-1], identity], axis=2)
        a, b = levels[-1][:, :, 0::2], levels[-1][:, :, 1::2]
        levels.append(np.maximum(a[:, :1] + b[:1], a[:, 1:] + b[1:]))
    before = after = np.zeros(1, dtype=np.int8)
    for level in reversed(levels[:-1]):
        a, b = level[:, :, 0::2], level[:, :, 1::2]
        count: int = a.shape[2]
        before, after, at = before[:count], after[:count], np.arange(count)
        middle = (a[before, 1, at] + b[1, after, at] > a[before, 0, at] + b[0, after, at]).astype(np.int8)
        before, after = np.stack([before, middle], 1).ravel(), np.stack([middle, after], 1).ravel()
    before, after = before[: len(enter)], after[: len(enter)]
    inside = (before == 1) | (after == 1) | (alone > 0)
    starts, ends = np.flatnonzero(inside & (before == 0)), np.flatnonzero(inside & (after == 0))
    return int(levels[-1][0, 0, 0]), starts, ends


def _greedy(mu: Law, nu: Law, z: Any) -> Coupling:
    """Return a coupling that matches most mass within z: leftmost first, what is left over in order."""
    left, right = mu.probabilities.tolist(), nu.probabilities.tolist()
    x, y = mu.values.tolist(), nu.values.tolist()
    triples: list[tuple[int, int, float]] = []
    i = j = 0
    while i < len(x) and j < len(y):
        if abs(x[i] - y[j]) <= z:
            mass = min(left[i], right[j])
            triples.append((i, j, mass))
            left[i] -= mass
            right[j] -= mass
            i, j = i + (left[i] <= 0), j + (right[j] <= 0)
        elif x[i] < y[j]:
            i += 1
        else:
            j += 1
    return completed(mu, nu, triples)
