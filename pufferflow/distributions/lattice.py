"""Masses on whole numbers, of any size, and W_∞ of two such laws (M8, M18).

*Masses* are positive numbers whose exponents no float holds: a mass of 1e−900 is as exact as any other.

A number is written on planes: Σ_l planes[l] · 2^(−640·l). Every float on a plane is 0, or at least 2^−450 and below
2^480: two of them multiply within [2^−900, 2^960], and 2^20 such products add up, without underflow or overflow. So a
sum of products of positive numbers keeps its relative accuracy at any size: k·2^−53 for k operations. Nothing is ever
flushed to 0. Mixing by a stochastic kernel raises neither the largest entry of a plane (laws of the future) nor its
total (joint laws with the state). So planes stay below 2^480 for 2^30 entries. Before an entry falls below 2^−450, all
entries below 2^−200 move a plane down. What that drops is below 2^−100 of its number.

*Levels* are cumulative masses as whole numbers that compare in the nearer tail.

W_∞(μ, ν) ≤ z iff F_μ(x) ≤ F_ν(x + z) and F_ν(x) ≤ F_μ(x + z) for all x. A level stands for F where that is the smaller
tail, and for 1 − F, mirrored, in the upper half: the position of the tail in the ordering of all floats, extended to
exponents that no float has. Levels of equal truths differ by at most `ties`: that is 2·(c + 1) positions, where c·2^−53
bounds the relative error of one cumulative mass. With u = 2^−53, n rows, k states and N points it adds up to

    n·(k + 4)u: 2u per probability given (a unit in the last place) and (k + 2)u per step of a recursion.
    The past, which is divided by its total: twice that and N + 1 more. N + 3 for the convolution, N + 3 for sums.

A comparison is strict if it holds for all levels within `ties` of those found, lenient if it does for some.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pufferflow.core.arrays import Floats, Indices
from pufferflow.core.rounding import UNIT

BITS = 640
SPAN = 2.0**BITS
LEAST = 2.0**-450
KEPT = 2.0**-200


@final
@dataclass(frozen=True, eq=False)
class Masses:
    """Positive numbers on planes, of shape (L, …): each entry is 0 or at least `least`, itself at least 2^−450."""

    planes: Floats
    least: float


def rescale(planes: Floats) -> Masses:
    """Return the same numbers with each on one plane, where it is 0 or at least 2^−200.

    Entries may be spread over several planes, and lie within [2^−930, 2^980].
    """
    done: list[Any] = []
    rest, deeper, placed = planes[0], list(planes[1:]), np.zeros(planes.shape[1:], dtype=np.bool_)
    while deeper or not done or rest.any():
        following = np.where(placed, 0.0, deeper.pop(0)) if deeper else np.zeros(1)
        whole = rest + following / SPAN
        placed_here = whole >= KEPT
        placed |= placed_here
        done.append(np.where(placed_here, whole, 0.0))
        rest = np.where(placed_here, 0.0, rest) * SPAN + np.where(placed_here, 0.0, following)
    while len(done) > 1 and not done[-1].any():
        done.pop()
    separated = np.stack(done)
    return Masses(separated, float(np.min(separated, initial=1.0, where=separated > 0)))


def mix(kernel: Masses, law: Masses) -> Masses:
    """Return kernel @ law: rows of masses mixed by the weights of a kernel."""
    if len(kernel.planes) > 1:
        planes = np.zeros((len(kernel.planes) + len(law.planes) - 1, *law.planes.shape[1:]))
        for depth, weights in enumerate(kernel.planes):
            planes[depth : depth + len(law.planes)] += weights @ law.planes
        return rescale(planes)
    planes, least = kernel.planes[0] @ law.planes, kernel.least * law.least
    return Masses(planes, least) if least >= LEAST else rescale(planes)


def shift(law: Masses, offsets: Indices, span: int) -> Masses:
    """Return laws on points 0, 1, … moved by some points each, on `span` more points than before."""
    size = law.planes.shape[-1]
    planes = np.zeros((*law.planes.shape[:-1], size + span))
    for state, start in enumerate(offsets.tolist()):
        planes[:, state, start : start + size] = law.planes[:, state]
    return Masses(planes, law.least)


def normalise(planes: Floats) -> Floats:
    """Return one law of shape (L, N) divided by its total; entries may then lie within [2^−930, 2^930]."""
    totals = planes.sum(axis=1)
    top = int(np.flatnonzero(totals)[0])
    total = totals[top] + (totals[top + 1] / SPAN if top + 1 < len(totals) else 0.0)
    return planes[top:] / total


def disjoint_planes(planes: Floats) -> Floats:
    """Return a law with each mass on one plane; on a single plane a normalised law is that already."""
    return planes if len(planes) == 1 else rescale(planes).planes


def convolve(left: Floats, right: Floats) -> Floats:
    """Return the law of a sum of two, given tight on planes (L, N); directly, since an FFT would lose small masses."""
    if len(left) == len(right) == 1:
        return np.convolve(left[0], right[0])[None]
    planes = np.zeros((len(left) + len(right) - 1, left.shape[1] + right.shape[1] - 1))
    right_pieces = _cut_pieces(right)
    for depth, start, piece in _cut_pieces(left):
        for other_depth, other_start, other in right_pieces:
            at = start + other_start
            planes[depth + other_depth, at : at + len(piece) + len(other) - 1] += np.convolve(
                piece, other
            )
    return planes


def _cut_pieces(planes: Floats) -> list[tuple[int, int, Floats]]:
    """Cut a law into the parts of each plane on either side of the peak: pieces that hardly overlap if it has one."""
    pieces: list[tuple[int, int, Floats]] = []
    peak = int(planes[0].argmax())
    for depth, plane in enumerate(planes):
        for start, part in ((0, plane[:peak]), (peak, plane[peak:])) if depth else ((0, plane),):
            at = np.flatnonzero(part)
            if len(at):
                pieces.append((depth, start + int(at[0]), part[at[0] : at[-1] + 1]))
    return pieces


Ladder = npt.NDArray[np.int64]
_HALF = int(np.array(0.5).view(np.int64))


@final
@dataclass(frozen=True)
class Precision:
    """What counts as equal: `error` is c, levels count every 2^`coarse`-th float, and `ties` of them are no gap."""

    error: int
    coarse: int
    ties: int

    @property
    def rounding(self) -> float:
        """The relative width within which masses count as equal."""
        return 2 * (self.error + 1) * UNIT


def yardstick(rows: int, states: int, points: int) -> Precision:
    """Return c for a sum, and levels coarse enough for a mass of 2^−1074 per row to have one."""
    error = 3 * rows * (states + 4) + 3 * points + 8
    coarse = (rows + 4).bit_length()
    return Precision(error, coarse, (2 * (error + 1) >> coarse) + 2)


@final
@dataclass(frozen=True, eq=False)
class Levels:
    """A law from point `low` to point `high`: the levels at low … high − 1, and its masses on planes."""

    ladder: Ladder
    low: int
    high: int
    masses: Floats


@final
@dataclass(frozen=True)
class DistanceInterval:
    """W_∞ in steps: no less than `least`, no more than `most` for all masses within ties; `length` is what counts."""

    least: int
    length: int
    most: int


def levels(planes: Floats, offset: int, precision: Precision) -> Levels:
    """Return the levels of a law whose first point is `offset`."""
    at = np.flatnonzero(planes.any(axis=0))
    first, last = int(at[0]), int(at[-1])
    masses = planes[:, first : last + 1]
    if first == last:
        return Levels(np.empty(0, dtype=np.int64), offset + first, offset + last, masses)
    below = _positions(np.cumsum(masses, axis=1)[:, :-1], precision)
    above = _positions(np.cumsum(masses[:, ::-1], axis=1)[:, :-1], precision)[::-1]
    return Levels(np.where(below <= above, below, -above), offset + first, offset + last, masses)


def _positions(tails: Floats, precision: Precision) -> Ladder:
    """Return the positions of rising sums in the ordering of floats, that of ½ being 0.

    A sum is read on the first plane where it is not 0, with what the next two add. The third next adds less than 2^−500
    of that: entries are at most 2^1310 apart before planes are put in their places.
    """
    end = tails.shape[1]
    positions = np.empty(end, dtype=np.int64)
    for depth, plane in enumerate(tails):
        start = int(np.searchsorted(plane[:end], 0.0, side="right"))
        value = plane[start:end].copy()
        for offset, deeper in enumerate(tails[depth + 1 : depth + 3], start=1):
            value += deeper[start:end] / SPAN / SPAN ** (offset - 1)
        positions[start:end] = ((value.view(np.int64) - _HALF) >> precision.coarse) - depth * (
            BITS << (52 - precision.coarse)
        )
        end = start
    return positions


def levels_within(mu: Levels, nu: Levels, steps: int, slack: int) -> bool:
    """Return whether every level of either law is at most `slack` above that of the other so many steps on."""
    return _reaches(mu, nu, steps, slack) and _reaches(nu, mu, steps, slack)


def _reaches(mu: Levels, nu: Levels, steps: int, slack: int) -> bool:
    """Return whether F_μ(x) ≤ F_ν(x + steps) for all x, within the slack; supports are compared without any."""
    count = nu.high - steps - mu.low
    if nu.low > mu.low + steps or nu.high > mu.high + steps:
        return False
    if count <= 0:
        return True
    return bool((mu.ladder[:count] <= nu.ladder[-count:] + slack).all())


def gap(mu: Levels, nu: Levels, precision: Precision, guess: DistanceInterval) -> DistanceInterval:
    """Return W_∞ in steps; a guess that holds is cheap to confirm."""
    z = guess.length
    sure = guess.least == guess.most and levels_within(mu, nu, z, -precision.ties)
    if sure and (z == 0 or not levels_within(mu, nu, z - 1, precision.ties)):
        return guess
    least, most = (
        max(_least_steps(mu, nu, slack), _least_steps(nu, mu, slack), 0)
        for slack in (precision.ties, -precision.ties)
    )
    return DistanceInterval(
        least, least if least == most or _ties_are_equal(mu, nu, least, precision) else most, most
    )


def winf_at_most(mu: Levels, nu: Levels, steps: int, precision: Precision) -> bool:
    """Return whether W_∞ is at most so many steps, levels that tie being equal."""
    return levels_within(mu, nu, steps, precision.ties) and _ties_are_equal(
        mu, nu, steps, precision
    )


def _least_steps(mu: Levels, nu: Levels, slack: int) -> int:
    """Return the least number of steps for which `_reaches` holds."""
    if not len(mu.ladder):
        return nu.high - mu.high
    reached = np.searchsorted(_rising_levels(nu), _rising_levels(mu) - slack) + (nu.low - mu.low)
    return max(int((reached - np.arange(len(reached))).max()), nu.high - mu.high)


def _rising_levels(law: Levels) -> Ladder:
    """Return the levels as a rising sequence; rounding may lower some in the middle by less than a tie."""
    return np.maximum.accumulate(law.ladder)


def _ties_are_equal(mu: Levels, nu: Levels, steps: int, precision: Precision) -> bool:
    """Return whether the ties at a distance may all be taken as equal.

    Not if an atom is so light that its level hardly moves there: it has to be matched too, and the choice of equal
    levels around it is not unique. Only equal laws need no choice.
    """
    light = np.sort(
        np.concatenate(
            [_levels_of_light_atoms(mu, precision), _levels_of_light_atoms(nu, precision)]
        )
    )
    if not len(light):
        return True
    tied = np.concatenate(
        [_tied_levels(mu, nu, steps, precision), _tied_levels(nu, mu, steps, precision)]
    )
    place = np.searchsorted(light, tied)
    after, before = light[np.minimum(place, len(light) - 1)], light[np.maximum(place - 1, 0)]
    nearest = np.minimum(np.abs(after - tied), np.abs(tied - before))
    if (nearest > 4 * precision.ties).all():
        return True
    left, right = disjoint_planes(mu.masses), disjoint_planes(nu.masses)
    if steps or mu.low != nu.low or left.shape != right.shape:
        return False
    differences: Any = np.abs(
        left - right
    )  # every atom has the same mass in both laws, within rounding
    return bool((differences <= precision.rounding * left).all())


def _levels_of_light_atoms(law: Levels, precision: Precision) -> Ladder:
    """Return the levels at atoms with too little mass to move them."""
    unmoved = np.diff(_rising_levels(law)) <= 2 * precision.ties
    return (
        law.ladder[1:][unmoved & law.masses[:, 1:-1].any(axis=0)] if len(law.ladder) else law.ladder
    )


def _tied_levels(mu: Levels, nu: Levels, steps: int, precision: Precision) -> Ladder:
    """Return the levels of μ that are not strictly below those of ν so many steps on."""
    count = nu.high - steps - mu.low
    if count <= 0:
        return np.empty(0, dtype=np.int64)
    low = mu.ladder[:count]
    return low[low > nu.ladder[-count:] - precision.ties]
